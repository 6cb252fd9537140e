//! The trait under the journal: a directory of append-only files.
//!
//! [`Disk`] is one directory, [`DiskFile`] one open file of it. `FileDisk` is the real thing,
//! `SimDisk` a seeded model of it that loses, tears and fails; the journal cannot tell them apart.
//! Every error is a `std::io::Error`; `ErrorKind::StorageFull` means that the disk is full.

pub mod file;
#[cfg(feature = "testing")]
pub mod sim;

use std::any::Any;
use std::fmt::Debug;
use std::io::{IoSlice, Result};
use std::sync::Arc;

pub use file::FileDisk;
#[cfg(feature = "testing")]
pub use sim::SimDisk;

/// A flat directory of files. Names are plain (no separators).
pub trait Disk: Send + Sync + Debug {
    /// Makes a new, empty file, open for reading and writing; `AlreadyExists` if it is there.
    /// The name survives a crash once [`Disk::sync_dir`] has returned.
    fn create(&self, name: &str) -> Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading and writing; `NotFound` if it is not there.
    fn open(&self, name: &str) -> Result<Arc<dyn DiskFile>>;

    /// The names of all files, in any order.
    fn list(&self) -> Result<Vec<String>>;

    /// Unlinks a file. Handles that are open stay readable. `NotFound` if it is not there.
    fn remove(&self, name: &str) -> Result<()>;

    /// Makes creations and removals survive a crash.
    fn sync_dir(&self) -> Result<()>;

    /// Bytes that can still be written by this process.
    fn free_bytes(&self) -> Result<u64>;

    /// The size of the file system.
    fn total_bytes(&self) -> Result<u64>;

    /// Takes the directory for this process until the guard is dropped; `WouldBlock` if another
    /// process, or another `Disk` on the same directory, holds it.
    fn lock(&self) -> Result<Box<dyn Any + Send + Sync>>;
}

/// An open file. All methods take `&self`: one thread writes, any number read.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes all the parts, one behind the other, from `position` on. As few system calls as the
    /// platform allows (`IOV_MAX`, short writes). After an error an unknown part of the bytes may
    /// have been written.
    fn write_at(&self, position: u64, parts: &[IoSlice<'_>]) -> Result<()>;

    /// Reads at `position` until `buffer` is full or the file ends; returns the bytes read.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize>;

    /// `fdatasync`: what was written before the call, and the length, survive a crash.
    fn sync_data(&self) -> Result<()>;

    /// The length of the file.
    fn len(&self) -> Result<u64>;

    /// Whether nothing was written yet.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts (or extends with zeros) the file.
    fn truncate(&self, len: u64) -> Result<()>;

    /// Makes the file take `len` bytes on the disk (`fallocate`), so that removing it frees them.
    fn allocate(&self, len: u64) -> Result<()>;

    /// Asks the system to begin writing this range to the disk, without waiting for it, so that a
    /// later sync finds little left to do. Never fails, promises nothing.
    fn start_writeback(&self, _position: u64, _len: u64) {}

    /// Tells the system that this range is about to be read (`POSIX_FADV_WILLNEED`). Never fails.
    fn will_need(&self, position: u64, len: u64);

    /// Tells the system not to read ahead by itself (`POSIX_FADV_RANDOM`). Never fails.
    fn random_access(&self);

    /// The file itself, for `sendfile`; `None` where there is none (simulation).
    fn as_std(&self) -> Option<Arc<std::fs::File>>;
}
