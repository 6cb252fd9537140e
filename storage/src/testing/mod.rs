//! For tests of this crate and of those above it: conformance suites that every implementation of
//! `Disk`, `KvStore` and the log on top of them has to pass, and the runner of script tests.

pub mod script;
