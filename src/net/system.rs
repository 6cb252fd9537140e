//! The system calls of a connection: reading into memory that is not initialised yet, vectored
//! writing, `sendfile`, and asking whether a range of a file is in the page cache.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// How far apart the pages are that stand for a range when it is looked for in the page cache.
const PROBE_STRIDE_BYTES: u64 = 128 * 1024;

/// Reads up to `wanted` bytes behind what `bytes` holds (within its capacity), and what comes
/// after them into `rest`. Answers with the number of bytes read, 0 at the end of the stream.
///
/// # Errors
/// What the socket says.
pub async fn read_into(
    stream: &TcpStream,
    bytes: &mut Vec<u8>,
    wanted: usize,
    rest: &mut [u8],
) -> io::Result<usize> {
    let wanted = wanted.min(bytes.capacity() - bytes.len());
    loop {
        let mut short_read = None;
        let result = stream.try_io(Interest::READABLE, || {
            let read = read_vectored(stream, bytes, wanted, rest)?;
            if read > 0 && read < wanted + rest.len() {
                // The socket is drained: saying so saves the call that would find nothing.
                short_read = Some(read);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(read)
        });
        match (result, short_read) {
            (Ok(read), _) | (Err(_), Some(read)) => return Ok(read),
            (Err(error), None) => match error.kind() {
                io::ErrorKind::WouldBlock => stream.readable().await?,
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}

fn read_vectored(
    stream: &TcpStream,
    bytes: &mut Vec<u8>,
    wanted: usize,
    rest: &mut [u8],
) -> io::Result<usize> {
    let filled = bytes.len();
    let spare = &mut bytes.spare_capacity_mut()[..wanted];
    let vectors = [
        libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() },
        libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() },
    ];
    // SAFETY: both vectors describe memory that is borrowed mutably here for the whole call, and
    // the kernel writes no more than their lengths say.
    let read = unsafe { libc::readv(stream.as_raw_fd(), vectors.as_ptr(), 2) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel fills the vectors in order, so this many bytes behind `filled` were
    // written by it, and they lie within the capacity.
    unsafe { bytes.set_len(filled + read.min(wanted)) };
    Ok(read)
}

/// Writes from `buffers` what the socket takes now. `more` says that a file follows at once, so
/// that the kernel does not send a half-full packet.
///
/// # Errors
/// `WouldBlock` when it takes nothing.
pub fn try_write(stream: &TcpStream, buffers: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    stream.try_io(Interest::WRITABLE, || {
        let mut no_control = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(stream.as_fd(), buffers, &mut no_control, flags)?)
    })
}

/// Sends from a file what the socket takes now, and moves `position` by as much.
///
/// # Errors
/// `WouldBlock` when it takes nothing, `UnexpectedEof` when the file ends at `position`.
pub fn try_send_file(
    stream: &TcpStream,
    file: &File,
    position: &mut u64,
    length: usize,
) -> io::Result<usize> {
    stream.try_io(Interest::WRITABLE, || {
        match rustix::fs::sendfile(stream.as_fd(), file, Some(position), length)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            sent => Ok(sent),
        }
    })
}

/// Whether the range seems to be in the page cache: a look at pages a stride apart, which costs a
/// microsecond and never waits for the disk.
#[must_use]
pub fn is_cached(file: &File, position: u64, length: usize) -> bool {
    probe_positions(position, length).all(|at| {
        let mut byte = [0u8];
        let mut buffers = [io::IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(file, &mut buffers, at, ReadWriteFlags::NOWAIT) {
            Ok(_) => true,
            // A file system that cannot tell: `sendfile` then waits where it must.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => true,
            Err(_) => false,
        }
    })
}

/// Brings the range into the page cache. Waits for the disk: not for an async worker.
pub fn load_into_cache(file: &File, position: u64, length: usize) {
    let whole = std::num::NonZeroU64::new(length as u64);
    // Both calls are hints: a range that does not come is read, or fails, in `sendfile`.
    let _ = rustix::fs::fadvise(file, position, whole, Advice::WillNeed);
    for at in probe_positions(position, length) {
        let _ = rustix::io::pread(file, &mut [0u8], at);
    }
}

fn probe_positions(position: u64, length: usize) -> impl Iterator<Item = u64> {
    let last = position + (length as u64).saturating_sub(1);
    (position..last).step_by(PROBE_STRIDE_BYTES as usize).chain(std::iter::once(last))
}
