//! The files of the journal: names, headers, open handles, and a scanner over one of them.
//!
//! A file is `NNNNNNNNNN.journal`, numbered from 1 without going back, and begins with a header:
//! ```text
//! 0            8         12        16
//! | "HWJOURNL" | format  | number  | records ...
//! ```

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use super::record::{HEADER_LEN, MAGIC, RecordError, RecordHeader};
use crate::StorageError;
use crate::disk::{Disk, DiskFile};
use crate::limits::OPEN_FILES;

/// Where the first record of a file is.
pub(crate) const FIRST_RECORD: u64 = 16;
const FILE_MAGIC: [u8; 8] = *b"HWJOURNL";
const FORMAT: u32 = 1;
const SUFFIX: &str = ".journal";

/// The name of a journal file.
pub(crate) fn name(number: u32) -> String {
    format!("{number:010}{SUFFIX}")
}

/// The number in a name, if it is a journal file's.
pub(crate) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 10).then(|| digits.parse().ok())?
}

fn file_header(number: u32) -> [u8; FIRST_RECORD as usize] {
    let mut header = [0; FIRST_RECORD as usize];
    header[..8].copy_from_slice(&FILE_MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[12..].copy_from_slice(&number.to_le_bytes());
    header
}

/// Makes a new journal file, its name and header durable.
pub(crate) fn create(disk: &dyn Disk, number: u32) -> Result<Arc<dyn DiskFile>, StorageError> {
    let file = disk.create(&name(number))?;
    let made = (|| {
        file.write_at(0, &[IoSlice::new(&file_header(number))])?;
        file.sync_data()?;
        disk.sync_dir()
    })();
    if let Err(error) = made {
        // Half a file must not stand in the way of the next attempt.
        let _ = disk.remove(&name(number));
        return Err(error.into());
    }
    file.random_access();
    Ok(file)
}

/// Whether a file has the header that its name promises.
pub(crate) fn has_header(file: &dyn DiskFile, number: u32) -> Result<bool, StorageError> {
    let mut header = [0; FIRST_RECORD as usize];
    let read = file.read_at(0, &mut header)?;
    Ok(read == header.len() && header == file_header(number))
}

/// Open handles of journal files, for readers; opened when they are needed.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    disk: Arc<dyn Disk>,
    open: Mutex<BTreeMap<u32, Arc<dyn DiskFile>>>,
}

impl OpenFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> OpenFiles {
        OpenFiles { disk, open: Mutex::new(BTreeMap::new()) }
    }

    pub(crate) fn insert(&self, number: u32, file: Arc<dyn DiskFile>) {
        let mut open = self.open.lock();
        // Any but the newest may go; who still reads from it holds his own handle.
        if open.len() >= OPEN_FILES
            && let Some((&oldest, _)) = open.first_key_value()
        {
            open.remove(&oldest);
        }
        open.insert(number, file);
    }

    pub(crate) fn get(&self, number: u32) -> Result<Arc<dyn DiskFile>, StorageError> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(file.clone());
        }
        let file = self.disk.open(&name(number))?;
        file.random_access();
        self.insert(number, file.clone());
        Ok(file)
    }

    pub(crate) fn forget(&self, number: u32) {
        self.open.lock().remove(&number);
    }
}

/// What the scanner finds at a position.
pub(crate) enum Scanned {
    /// A whole record.
    Record { header: RecordHeader, payload: Bytes, position: u64 },
    /// No record: the bytes here are not one.
    Bad { position: u64, error: RecordError },
    /// The end of the file.
    End,
}

/// Reads the records of one file, one after the other.
pub(crate) struct Scanner {
    file: Arc<dyn DiskFile>,
    number: u32,
    pub(crate) len: u64,
    pub(crate) position: u64,
    buffer: Bytes,
    buffer_position: u64,
}

const CHUNK: usize = 1 << 20;

impl Scanner {
    pub(crate) fn new(
        file: Arc<dyn DiskFile>,
        number: u32,
        position: u64,
    ) -> Result<Scanner, StorageError> {
        let len = file.len()?;
        let buffer_position = position;
        Ok(Scanner { file, number, len, position, buffer: Bytes::new(), buffer_position })
    }

    /// `len` bytes at `position`, or what the file has of them.
    fn bytes(&mut self, position: u64, len: usize) -> Result<Bytes, StorageError> {
        let have = self.buffer_position + self.buffer.len() as u64;
        if position < self.buffer_position || position + len as u64 > have {
            let left = self.len.saturating_sub(position).min(len.max(CHUNK) as u64) as usize;
            let mut chunk = BytesMut::zeroed(left);
            let read = self.file.read_at(position, &mut chunk)?;
            chunk.truncate(read);
            self.buffer = chunk.freeze();
            self.buffer_position = position;
        }
        let from = (position - self.buffer_position) as usize;
        let to = (from + len).min(self.buffer.len());
        Ok(self.buffer.slice(from.min(to)..to))
    }

    /// What is at the position, which moves behind it (but not beyond something bad).
    pub(crate) fn next(&mut self) -> Result<Scanned, StorageError> {
        let position = self.position;
        if position >= self.len {
            return Ok(Scanned::End);
        }
        let head = self.bytes(position, HEADER_LEN)?;
        let header = match RecordHeader::decode(&head) {
            Ok(header) if header.file == self.number => header,
            Ok(_) => return Ok(Scanned::Bad { position, error: RecordError::Header }),
            Err(error) => return Ok(Scanned::Bad { position, error }),
        };
        if position + header.size_bytes() > self.len {
            return Ok(Scanned::Bad { position, error: RecordError::Short });
        }
        let payload = self.bytes(position + HEADER_LEN as u64, header.payload_length as usize)?;
        if payload.len() != header.payload_length as usize {
            return Ok(Scanned::Bad { position, error: RecordError::Short });
        }
        self.position += header.size_bytes();
        Ok(Scanned::Record { header, payload, position })
    }

    /// The next position behind `from` where a record's header stands that `accept`s.
    pub(crate) fn resync(
        &mut self,
        from: u64,
        accept: &mut dyn FnMut(&RecordHeader) -> bool,
    ) -> Result<Option<u64>, StorageError> {
        let mut at = from;
        while at + HEADER_LEN as u64 <= self.len {
            let chunk = self.bytes(at, CHUNK.min((self.len - at) as usize))?;
            let last = chunk.len().saturating_sub(HEADER_LEN);
            for start in 0..=last {
                if chunk[start] != MAGIC[0] || chunk[start..].get(..4) != Some(&MAGIC[..]) {
                    continue;
                }
                if let Ok(header) = RecordHeader::decode(&chunk[start..])
                    && header.file == self.number
                    && accept(&header)
                {
                    return Ok(Some(at + start as u64));
                }
            }
            at += last as u64 + 1;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_number() {
        assert_eq!(number(&name(17)), Some(17));
        assert_eq!(number("0000000017.log"), None);
        assert_eq!(number("17.journal"), None);
        assert_eq!(number("index"), None);
    }
}
