//! For tests of this crate and of those above it: conformance suites that every implementation of
//! `Disk`, `KvStore` and the log on top of them has to pass, and the runner of script tests.

pub mod disk_suite;
pub mod kv_suite;
pub mod log_suite;
pub mod script;

/// A claim that an implementation has to keep: its name, and a test of it.
type Claim<F> = (&'static str, fn(&F));

/// Tests all claims, each on a fixture of its own. The name of the one that fails is in the
/// output, above the panic.
fn run_claims<F>(claims: &[Claim<F>], new_fixture: &dyn Fn() -> F) {
    for (name, claim) in claims {
        println!("claim: {name}");
        claim(&new_fixture());
    }
}

/// Claims by the names of their functions.
macro_rules! claims {
    ($($name:ident),+ $(,)?) => {
        &[$((stringify!($name), $name)),+]
    };
}
use claims;
