//! Where work goes that reads the disk or takes long, so that no worker of the runtime is held up.

/// Does the work on a thread for such; tells why when it failed.
///
/// # Errors
/// The work has panicked, or the runtime ends.
#[cfg(not(feature = "sim"))]
pub async fn off_worker<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

/// Does the work at once: when a thread would be done with it is not in a simulation's hands, and
/// its disk is memory.
///
/// # Errors
/// None.
#[cfg(feature = "sim")]
pub async fn off_worker<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    Ok(work())
}
