//! The index in RocksDB: small keys and values, no write-ahead log (the journal is one), all
//! column families flushed together so that what is on disk is a prefix of the writes.

use std::fmt::{Debug, Formatter};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRawIterator,
    FlushOptions, LogLevel, Options, ReadOptions, WriteOptions, properties::PropName,
};

use super::{Change, ColumnFamily, Direction, KvStore, WriteBatch};

/// Unflushed writes of one column family: reached, all families are flushed.
const WRITE_BUFFER_BYTES: usize = 16 << 20;
/// Unflushed writes of all column families together.
const WRITE_BUFFERS_BYTES: usize = 32 << 20;
/// What a write buffer takes of memory at a time: small, because an idle broker has three.
const ARENA_BLOCK_BYTES: usize = 64 << 10;
/// Blocks of the tables that are kept in memory, for all column families together.
const BLOCK_CACHE_BYTES: usize = 8 << 20;
/// The unit in which tables are read.
const BLOCK_BYTES: usize = 8 << 10;
/// What the manifest takes of the disk at a time; RocksDB's 4 MiB are too many for a small disk.
const MANIFEST_BYTES: usize = 64 << 10;
/// The log of RocksDB's own doings.
const INFO_LOG_BYTES: usize = 1 << 20;
/// What a change takes in a native batch besides its key and value, at most.
const CHANGE_BYTES: usize = 16;
/// How often a flush is looked at until it is done.
const FLUSH_POLL: Duration = Duration::from_micros(500);
/// Behind every key of ours.
const BEHIND_ALL_KEYS: [u8; 64] = [0xff; 64];

/// A RocksDB database.
pub struct RocksKv {
    path: PathBuf,
    db: DB,
    block_cache: Cache,
    write_options: WriteOptions,
}

impl RocksKv {
    /// Opens the database, and makes it if it is not there.
    ///
    /// # Errors
    /// `StorageFull` if the disk is full. Any other: the database is damaged or unreadable. The
    /// index can be rebuilt then, see [`RocksKv::destroy`].
    pub fn open(path: impl AsRef<Path>) -> Result<RocksKv> {
        let path = path.as_ref().to_owned();
        std::fs::create_dir_all(&path)?;
        let block_cache = Cache::new_lru_cache(BLOCK_CACHE_BYTES);
        let families = ColumnFamily::ALL
            .map(|family| ColumnFamilyDescriptor::new(family.name(), family_options(&block_cache)));
        let db = database_options(&block_cache)
            .and_then(|options| DB::open_cf_descriptors(&options, &path, families))
            .map_err(|error| named(&error, &path))?;
        let mut write_options = WriteOptions::default();
        write_options.disable_wal(true);
        let kv = RocksKv { path, db, block_cache, write_options };
        kv.check_files()?;
        Ok(kv)
    }

    /// Removes a database with everything in it.
    ///
    /// # Errors
    /// If a file of it cannot be removed.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// All tables are there, with the sizes that they should have.
    fn check_files(&self) -> Result<()> {
        for table in self.db.live_files().map_err(|error| named(&error, &self.path))? {
            let path = self.path.join(table.name.trim_start_matches('/'));
            if std::fs::metadata(&path).map_or(0, |file| file.len()) != table.size as u64 {
                let message = format!("{} is missing or not whole", path.display());
                return Err(Error::new(ErrorKind::InvalidData, message));
            }
        }
        Ok(())
    }

    fn family(&self, family: ColumnFamily) -> Result<&rocksdb::ColumnFamily> {
        let missing = || {
            let message = format!("{}: no column family {}", self.path.display(), family.name());
            Error::new(ErrorKind::InvalidData, message)
        };
        self.db.cf_handle(family.name()).ok_or_else(missing)
    }

    fn families(&self) -> Result<Vec<&rocksdb::ColumnFamily>> {
        ColumnFamily::ALL.iter().map(|family| self.family(*family)).collect()
    }

    /// A number that RocksDB keeps of each family, of all of them together.
    fn sum_of(&self, families: &[&rocksdb::ColumnFamily], name: &PropName) -> u64 {
        let of = |family: &&rocksdb::ColumnFamily| {
            self.db.property_int_value_cf(*family, name).ok().flatten()
        };
        families.iter().filter_map(of).sum()
    }

    fn background_errors(&self) -> u64 {
        let count = self.db.property_int_value(rocksdb::properties::BACKGROUND_ERRORS);
        count.ok().flatten().unwrap_or(0)
    }

    fn write_native(&self, batch: rocksdb::WriteBatch) -> Result<()> {
        self.db.write_opt(batch, &self.write_options).map_err(|error| named(&error, &self.path))
    }
}

impl KvStore for RocksKv {
    fn get(&self, family: ColumnFamily, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.db.get_cf(self.family(family)?, key);
        value.map_err(|error| named(&error, &self.path))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        let capacity_bytes = batch.size_bytes() + batch.len() * CHANGE_BYTES;
        let mut native = rocksdb::WriteBatch::with_capacity_bytes(capacity_bytes);
        for (family, change) in batch.iter() {
            let handle = self.family(family)?;
            match change {
                Change::Put { key, value } => native.put_cf(handle, key, value),
                Change::Delete { key } => native.delete_cf(handle, key),
                Change::DeleteRange { from, to } if from < to => {
                    native.delete_range_cf(handle, from, to);
                }
                Change::DeleteRange { .. } => {}
            }
        }
        self.write_native(native)
    }

    fn scan(
        &self,
        family: ColumnFamily,
        range: Range<&[u8]>,
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(range.start);
        options.set_iterate_upper_bound(range.end);
        let mut pairs: DBRawIterator<'_> =
            self.db.raw_iterator_cf_opt(self.family(family)?, options);
        match direction {
            Direction::Forward => pairs.seek_to_first(),
            Direction::Backward => pairs.seek_to_last(),
        }
        while let Some((key, value)) = pairs.item() {
            if !each(key, value) {
                return Ok(());
            }
            match direction {
                Direction::Forward => pairs.next(),
                Direction::Backward => pairs.prev(),
            }
        }
        // The end of the range and an error both end the iteration.
        pairs.status().map_err(|error| named(&error, &self.path))
    }

    fn flush(&self) -> Result<()> {
        let families = self.families()?;
        let errors_before = self.background_errors();
        let mut options = FlushOptions::default();
        options.set_wait(false);
        self.db.flush_cfs_opt(&families, &options).map_err(|error| named(&error, &self.path))?;
        // RocksDB tries again by itself as long as the disk is full, and a waiting flush would
        // wait as long; the caller has to know at once.
        while self.sum_of(&families, rocksdb::properties::NUM_IMMUTABLE_MEM_TABLE) > 0 {
            if self.background_errors() > errors_before {
                let message = format!("{}: the tables could not be written", self.path.display());
                return Err(Error::new(ErrorKind::StorageFull, message));
            }
            std::thread::sleep(FLUSH_POLL);
        }
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        // One batch and one flush first: were files deleted family by family, a crash in between
        // would leave a covered position beside entries that are gone.
        let mut batch = rocksdb::WriteBatch::default();
        for family in self.families()? {
            batch.delete_range_cf(family, &[][..], &BEHIND_ALL_KEYS[..]);
        }
        self.write_native(batch)?;
        self.flush()?;
        for family in self.families()? {
            self.db
                .delete_file_in_range_cf(family, &[][..], &BEHIND_ALL_KEYS[..])
                .map_err(|error| named(&error, &self.path))?;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let size = rocksdb::properties::SIZE_ALL_MEM_TABLES;
        let write_buffers = self.families().map_or(0, |families| self.sum_of(&families, size));
        write_buffers + self.block_cache.get_usage() as u64
    }
}

impl Debug for RocksKv {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RocksKv").field("path", &self.path).finish_non_exhaustive()
    }
}

fn database_options(block_cache: &Cache) -> std::result::Result<Options, rocksdb::Error> {
    // Also what the unused default family gets.
    let mut options = family_options(block_cache);
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_atomic_flush(true);
    // A flush that finds the disk full is tried again with the next one. With the checks on,
    // RocksDB would take no write any more; what they look for at the start, `check_files` does.
    options.set_paranoid_checks(false);
    options.set_max_background_jobs(2);
    options.set_max_file_opening_threads(2);
    options.set_db_write_buffer_size(WRITE_BUFFERS_BYTES);
    options.set_manifest_preallocation_size(MANIFEST_BYTES);
    options.set_skip_stats_update_on_db_open(true);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(INFO_LOG_BYTES);
    options.set_log_level(LogLevel::Warn);
    // Else a thread wakes up every ten minutes to write statistics that nobody reads.
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    // What was not flushed is in the journal; on a full disk such a flush would never end.
    options.get_options_from_string("avoid_flush_during_shutdown=true")
}

fn family_options(block_cache: &Cache) -> Options {
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(block_cache);
    tables.set_block_size(BLOCK_BYTES);
    let mut options = Options::default();
    options.set_block_based_table_factory(&tables);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_write_buffer_number(4);
    options.set_arena_block_size(ARENA_BLOCK_BYTES);
    // Every checkpoint makes small tables: they are merged a few at a time, and the journal's
    // writer is not held up for their number.
    options.set_level_zero_file_num_compaction_trigger(8);
    options.set_level_zero_slowdown_writes_trigger(40);
    options.set_level_zero_stop_writes_trigger(60);
    options
}

/// RocksDB tells the kinds of its errors by words in the message.
fn named(error: &rocksdb::Error, path: &Path) -> Error {
    let message = error.as_ref();
    let kind = match error.kind() {
        rocksdb::ErrorKind::Corruption => ErrorKind::InvalidData,
        _ if message.contains("No space left") || message.contains("Disk quota exceeded") => {
            ErrorKind::StorageFull
        }
        _ => ErrorKind::Other,
    };
    Error::new(kind, format!("{}: {message}", path.display()))
}
