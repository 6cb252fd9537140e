//! What becomes of a panic: a line in the log, at a level that says whether a person must look.

use std::cell::Cell;

thread_local! {
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs what may panic on hostile input and catches that itself: decoding a request.
pub fn expected<T>(work: impl FnOnce() -> T) -> T {
    EXPECTED.set(true);
    let result = work();
    EXPECTED.set(false);
    result
}

/// From here on panics go to the log rather than to standard error.
pub fn install_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        if EXPECTED.get() {
            tracing::debug!(location, message, "a request cannot be decoded");
        } else {
            let backtrace = std::backtrace::Backtrace::capture();
            tracing::error!(location, message, %backtrace, "internal error");
        }
    }));
}
