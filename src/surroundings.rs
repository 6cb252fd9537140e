//! What is odd about how the broker was started, said once in the log.

use tracing::warn;

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

/// The name of this machine, or of this container.
#[must_use]
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
