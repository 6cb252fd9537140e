//! What the process is started in: what is odd about it, said once in the log; and how many files
//! it may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::config::BrokerConfig;

/// Warns of keys that do nothing and of kernel settings that a broker suffers from.
pub fn warn(config: &BrokerConfig, unknown_keys: &[String]) {
    for (key, reason) in config.without_effect() {
        warn!(key, reason, "this configuration key has no effect");
    }
    if !unknown_keys.is_empty() {
        warn!(keys = unknown_keys.join(", "), "unknown configuration keys are ignored");
    }
    let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    if overcommit.trim() == "2" {
        warn!(
            "vm.overcommit_memory is 2: a request with a hostile array length can end this \
             process; use 0 or 1 where clients are not trusted"
        );
    }
}

/// Lets this process open as many files as its hard limit allows, as the JVM does for Kafka: the
/// soft limit is often 1,024, for the sake of programs that use `select`, and a connection is a
/// file. One that cannot be raised stays, with a warning.
pub fn raise_open_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => info!(before = limit.current, now = raised.current, "open files allowed"),
        Err(error) => warn!(%error, limit = limit.current, "cannot raise the limit of open files"),
    }
}

/// The name of this machine, or of this container.
#[must_use]
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
