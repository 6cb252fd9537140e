//! The real disk: a directory of the file system, through the system calls that the journal needs.

use std::any::Any;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, FlockOperation};
use rustix::io::{Errno, retry_on_intr};

use super::{Disk, DiskFile};

/// The most parts that one `pwritev` takes (`IOV_MAX` of Linux).
const MAX_PARTS: usize = 1024;

/// A directory of the file system.
#[derive(Debug)]
pub struct FileDisk {
    path: PathBuf,
    /// The directory itself, kept open for syncs and for what the file system says of itself.
    directory: File,
}

impl FileDisk {
    /// Opens the directory, and makes it (and those above it) if it is not there.
    ///
    /// # Errors
    /// If it cannot be made or opened; the message names it.
    pub fn open(path: impl AsRef<Path>) -> Result<FileDisk> {
        let path = path.as_ref().to_owned();
        let named = |error: Error| named(&error, &path);
        if !path.is_dir() {
            std::fs::create_dir_all(&path).map_err(named)?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                File::open(parent).and_then(|parent| parent.sync_all()).map_err(named)?;
            }
        }
        let directory = File::open(&path).map_err(named)?;
        Ok(FileDisk { path, directory })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn path_of(&self, name: &str) -> Result<PathBuf> {
        if name.is_empty() || name == "." || name == ".." || name.contains('/') {
            return Err(Error::new(ErrorKind::InvalidInput, format!("not a file name: {name:?}")));
        }
        Ok(self.path.join(name))
    }

    fn open_file(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>> {
        let path = self.path_of(name)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(create_new).open(&path);
        let file = Arc::new(file.map_err(|error| named(&error, &path))?);
        Ok(Arc::new(RealFile { path, file }))
    }
}

impl Disk for FileDisk {
    fn create(&self, name: &str) -> Result<Arc<dyn DiskFile>> {
        self.open_file(name, true)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn DiskFile>> {
        self.open_file(name, false)
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let entries = std::fs::read_dir(&self.path).map_err(|error| named(&error, &self.path))?;
        for entry in entries {
            let entry = entry.map_err(|error| named(&error, &self.path))?;
            // Names that are no UTF-8 are none of ours, and neither are directories.
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path_of(name)?;
        std::fs::remove_file(&path).map_err(|error| named(&error, &path))
    }

    fn sync_dir(&self) -> Result<()> {
        self.directory.sync_all().map_err(|error| named(&error, &self.path))
    }

    fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.directory).map_err(|e| failed(e, &self.path))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn total_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.directory).map_err(|e| failed(e, &self.path))?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }

    fn lock(&self) -> Result<Box<dyn Any + Send + Sync>> {
        // A description of its own: a lock belongs to it, and goes when it is closed, also by a
        // process that is killed.
        let holder = File::open(&self.path).map_err(|error| named(&error, &self.path))?;
        let operation = FlockOperation::NonBlockingLockExclusive;
        match retry_on_intr(|| rustix::fs::flock(&holder, operation)) {
            Ok(()) => Ok(Box::new(holder)),
            Err(Errno::WOULDBLOCK) => Err(Error::new(
                ErrorKind::WouldBlock,
                format!("the directory {} is in use by another broker", self.path.display()),
            )),
            Err(error) => Err(failed(error, &self.path)),
        }
    }
}

/// An open file. It knows its path only to name it in errors.
#[derive(Debug)]
struct RealFile {
    path: PathBuf,
    file: Arc<File>,
}

impl DiskFile for RealFile {
    fn write_at(&self, position: u64, parts: &[IoSlice<'_>]) -> Result<()> {
        let mut position = position;
        for chunk in parts.chunks(MAX_PARTS) {
            position += self.write_parts(position, chunk)?;
        }
        Ok(())
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(named(&error, &self.path)),
            }
        }
        Ok(filled)
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| named(&error, &self.path))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| named(&error, &self.path))?.len())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| named(&error, &self.path))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let allocated =
            retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len));
        match allocated {
            Ok(()) => Ok(()),
            // Not every file system can: there the bytes are written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(len),
            Err(error) => Err(failed(error, &self.path)),
        }
    }

    #[cfg(target_os = "linux")]
    fn start_writeback(&self, position: u64, len: u64) {
        use std::os::fd::AsRawFd;
        let (Ok(position), Ok(len)) = (position.try_into(), len.try_into()) else { return };
        // SAFETY: a call without pointers, on a descriptor that `self.file` keeps open.
        unsafe {
            libc::sync_file_range(
                self.file.as_raw_fd(),
                position,
                len,
                libc::SYNC_FILE_RANGE_WRITE,
            );
        }
    }

    fn will_need(&self, position: u64, len: u64) {
        let _ = rustix::fs::fadvise(&self.file, position, len.try_into().ok(), Advice::WillNeed);
    }

    fn random_access(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
    }

    fn as_std(&self) -> Option<Arc<File>> {
        Some(self.file.clone())
    }
}

impl RealFile {
    /// Writes at most `MAX_PARTS` parts and returns their length. One system call, unless the
    /// kernel takes only a part of the bytes (a signal, a nearly full disk, more than 2 GiB).
    fn write_parts(&self, position: u64, parts: &[IoSlice<'_>]) -> Result<u64> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total == 0 {
            return Ok(0);
        }
        let mut written = self.pwritev(position, parts)?;
        while written < total {
            let rest = behind(parts, written);
            written += self.pwritev(position + written as u64, &rest)?;
        }
        Ok(total as u64)
    }

    fn pwritev(&self, position: u64, parts: &[IoSlice<'_>]) -> Result<usize> {
        match retry_on_intr(|| rustix::io::pwritev(&self.file, parts, position)) {
            Ok(0) => Err(Error::new(ErrorKind::WriteZero, format!("{}", self.path.display()))),
            Ok(count) => Ok(count),
            Err(error) => Err(failed(error, &self.path)),
        }
    }

    /// Extends the file by zeros up to `len`.
    fn write_zeros(&self, len: u64) -> Result<()> {
        let zeros = vec![0; 1 << 16];
        let mut position = self.len()?;
        while position < len {
            let count = zeros.len().min(usize::try_from(len - position).unwrap_or(usize::MAX));
            self.write_at(position, &[IoSlice::new(&zeros[..count])])?;
            position += count as u64;
        }
        Ok(())
    }
}

/// What is left of `parts` once their first `written` bytes are taken off.
fn behind<'a>(parts: &'a [IoSlice<'a>], mut written: usize) -> Vec<IoSlice<'a>> {
    let mut rest = Vec::with_capacity(parts.len());
    for part in parts {
        let skipped = written.min(part.len());
        written -= skipped;
        if skipped < part.len() {
            rest.push(IoSlice::new(&part[skipped..]));
        }
    }
    rest
}

fn failed(error: Errno, path: &Path) -> Error {
    named(&error.into(), path)
}

/// The same error with the path in its message. A full quota is a full disk.
fn named(error: &Error, path: &Path) -> Error {
    let kind = match error.kind() {
        ErrorKind::QuotaExceeded => ErrorKind::StorageFull,
        kind => kind,
    };
    Error::new(kind, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_parts_than_one_system_call_takes_are_written_whole_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let file = FileDisk::open(directory.path()).unwrap().create("a").unwrap();
        let bytes: Vec<u8> = (0..5 * MAX_PARTS + 7).map(|i| (i % 251) as u8).collect();
        let parts: Vec<IoSlice> =
            bytes.chunks(2).flat_map(|two| [IoSlice::new(&[]), IoSlice::new(two)]).collect();
        file.write_at(3, &parts).unwrap();
        let mut read = vec![0xff; bytes.len() + 9];
        assert_eq!(file.read_at(0, &mut read).unwrap(), bytes.len() + 3);
        assert_eq!((&read[..3], &read[3..bytes.len() + 3]), (&[0; 3][..], &bytes[..]));
    }

    #[test]
    fn a_short_write_goes_on_within_a_part() {
        let parts = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"defg")];
        let rest = |written| behind(&parts, written).iter().flat_map(|p| p.to_vec()).collect();
        let whole: Vec<Vec<u8>> = (0..=7).map(rest).collect();
        for (written, rest) in whole.iter().enumerate() {
            assert_eq!(rest, &b"abcdefg"[written..]);
        }
    }

    #[test]
    fn a_locked_directory_is_named_and_is_free_again_when_the_guard_goes() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path()).unwrap();
        let guard = disk.lock().unwrap();
        let error = FileDisk::open(directory.path()).unwrap().lock().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{error}");
        drop(guard);
        disk.lock().unwrap();
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path()).unwrap();
        for name in ["", ".", "..", "../a", "a/b", "/a"] {
            assert_eq!(disk.create(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        }
    }

    #[test]
    fn directories_that_are_missing_are_made_and_not_listed() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path().join("a/b")).unwrap();
        std::fs::create_dir(disk.path().join("c")).unwrap();
        disk.create("file").unwrap();
        assert_eq!(disk.list().unwrap(), ["file"]);
        assert!(disk.total_bytes().unwrap() >= disk.free_bytes().unwrap());
    }
}
