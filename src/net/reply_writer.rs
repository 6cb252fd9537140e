//! Writes replies to a socket: what lies in memory by vectored writes, without being put together
//! first, and what lies in a file by `sendfile`.
//!
//! `sendfile` on a socket waits for the disk when the range is not in the page cache, and an async
//! worker must not wait. So a range is looked for in the page cache first (a microsecond), and a
//! cold one is brought in by a blocking task, several megabytes at once, before it is sent.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use storage::log_store::RecordSlice;
use tokio::net::TcpStream;

use crate::limits::{CACHE_LOAD_BYTES, SENDFILE_BYTES, WRITE_BUFFERS};
use crate::net::system;
use crate::telemetry;

/// The writing half of a connection.
#[derive(Debug)]
pub struct ReplyWriter {
    queue: VecDeque<RecordSlice>,
    /// Bytes at the front of the queue's first slice, a file's, that are in the page cache.
    cached_bytes: usize,
    stall_limit: Duration,
}

impl ReplyWriter {
    /// A writer that gives up on a client which takes nothing for `stall_limit`.
    #[must_use]
    pub fn new(stall_limit: Duration) -> ReplyWriter {
        ReplyWriter { queue: VecDeque::new(), cached_bytes: 0, stall_limit }
    }

    /// Queues a reply behind those that are queued.
    pub fn push(&mut self, reply: Vec<RecordSlice>) {
        self.queue.extend(reply.into_iter().filter(|slice| slice_len(slice) > 0));
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Writes everything that is queued.
    ///
    /// # Errors
    /// What socket or file say; `TimedOut` when the client takes nothing. The connection cannot go
    /// on, since part of a reply may be out.
    pub async fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        while let Some(front) = self.queue.front() {
            let written = match front {
                RecordSlice::Memory(_) => self.write_memory(stream),
                RecordSlice::File { .. } => {
                    self.ensure_cached().await;
                    self.send_file(stream)
                }
            };
            match written {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match tokio::time::timeout(self.stall_limit, stream.writable()).await {
                        Ok(writable) => writable?,
                        Err(_stalled) => return Err(io::ErrorKind::TimedOut.into()),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_memory(&mut self, stream: &TcpStream) -> io::Result<()> {
        let mut buffers = [IoSlice::new(&[]); WRITE_BUFFERS];
        let mut count = 0;
        let mut more = false;
        for slice in &self.queue {
            match slice {
                RecordSlice::Memory(bytes) if count < WRITE_BUFFERS => {
                    buffers[count] = IoSlice::new(bytes);
                    count += 1;
                }
                RecordSlice::Memory(_) | RecordSlice::File { .. } => {
                    more = true;
                    break;
                }
            }
        }
        let mut written = system::try_write(stream, &buffers[..count], more)?;
        while let Some(RecordSlice::Memory(front)) = self.queue.front_mut() {
            if written < front.len() {
                front.advance(written);
                break;
            }
            written -= front.len();
            self.queue.pop_front();
            if written == 0 {
                break;
            }
        }
        Ok(())
    }

    fn send_file(&mut self, stream: &TcpStream) -> io::Result<()> {
        let Some(RecordSlice::File { file, position, length }) = self.queue.front_mut() else {
            return Ok(());
        };
        let wanted = (*length).min(self.cached_bytes).min(SENDFILE_BYTES);
        let sent = system::try_send_file(stream, file, position, wanted)?;
        *length -= sent;
        self.cached_bytes -= sent;
        telemetry::sendfile_bytes(sent);
        if *length == 0 {
            self.queue.pop_front();
            self.cached_bytes = 0;
        }
        Ok(())
    }

    /// Sees to it that the next stretch of the file at the front is in the page cache.
    async fn ensure_cached(&mut self) {
        let Some(RecordSlice::File { file, position, length }) = self.queue.front() else { return };
        if self.cached_bytes > 0 {
            return;
        }
        let stretch = (*length).min(SENDFILE_BYTES);
        if system::is_cached(file, *position, stretch) {
            self.cached_bytes = stretch;
            return;
        }
        let cold = self.upcoming_file_ranges();
        let stretch = cold.first().map_or(stretch, |(_, _, length)| *length);
        telemetry::sendfile_cold();
        let load = move || {
            for (file, position, length) in cold {
                system::load_into_cache(&file, position, length);
            }
        };
        // A task that could not run leaves the range cold, and `sendfile` waits for the disk.
        let _ = tokio::task::spawn_blocking(load).await;
        self.cached_bytes = stretch;
    }

    /// The file ranges at the front of the queue, as many as are worth one trip to the disk.
    fn upcoming_file_ranges(&self) -> Vec<(Arc<File>, u64, usize)> {
        let mut room = CACHE_LOAD_BYTES;
        let mut ranges = Vec::new();
        for slice in &self.queue {
            if room == 0 {
                break;
            }
            if let RecordSlice::File { file, position, length } = slice {
                let length = (*length).min(room);
                room -= length;
                ranges.push((Arc::clone(file), *position, length));
            }
        }
        ranges
    }
}

/// Bytes of a slice.
#[must_use]
pub fn slice_len(slice: &RecordSlice) -> usize {
    match slice {
        RecordSlice::Memory(bytes) => bytes.len(),
        RecordSlice::File { length, .. } => *length,
    }
}
