//! Differences that are known and stay for now, each with its reason. One that has vanished fails
//! the run, so that this list cannot outlive what it tells.

use crate::rules::matches;

/// A known difference.
#[derive(Debug)]
pub struct Known {
    /// API; `*` for all. The case's name and the path may hold `*`.
    pub api: &'static str,
    /// Name of the case, with the step after a slash where it has several.
    pub case: &'static str,
    /// Path of the field.
    pub path: &'static str,
    /// Why it is so.
    pub reason: &'static str,
}

impl Known {
    /// Whether it is this difference.
    pub fn covers(&self, api: &str, case: &str, path: &str) -> bool {
        (self.api == "*" || self.api == api) && matches(self.case, case) && matches(self.path, path)
    }
}

/// All of them.
pub const KNOWN: &[Known] = &[];
