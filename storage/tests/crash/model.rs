//! What a group's log should be, told in the simplest way: every entry in a list.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use protocol::record_batch::{BatchHeader, RecordBatch};
use protocol::types::{LeaderEpoch, Offset};
use storage::log_store::{
    Entry, EntryBody, EntryId, GroupLog, LogState, ReadLimit, RecordSlice, Records, Vote,
};
use storage::producer_state::ProducerState;

/// All groups by their numbers; unchanged ones are shared between moments.
pub type Groups = BTreeMap<u64, Rc<GroupModel>>;

/// One group at one moment.
#[derive(Debug, Clone, Default)]
pub struct GroupModel {
    /// Something was written.
    pub exists: bool,
    /// Its number must not be used again.
    pub removed: bool,
    /// From the first that was not purged on.
    pub entries: Vec<Rc<ModelEntry>>,
    /// Last entry that was purged.
    pub purged: Option<EntryId>,
    /// The offset behind it.
    pub start_offset: i64,
    /// The producers as of it.
    pub start_producers: ProducerState,
    pub log_start: i64,
    pub vote: Option<Vote>,
    pub state: BTreeMap<Vec<u8>, Bytes>,
}

/// An entry as it should be read back.
#[derive(Debug)]
pub struct ModelEntry {
    pub id: EntryId,
    /// The tag, for an entry that is no record batches.
    pub kind: Option<u8>,
    /// Its payload, in pieces.
    pub pieces: Vec<Bytes>,
    pub headers: Vec<BatchHeader>,
    pub next_offset: i64,
}

impl ModelEntry {
    /// The entry as it should come out of a log whose end is `base_offset`.
    pub fn place(entry: &Entry, base_offset: i64) -> ModelEntry {
        let (mut pieces, mut headers) = (Vec::new(), Vec::new());
        let mut next_offset = base_offset;
        let kind = match &entry.body {
            EntryBody::Batches(batches) => {
                for batch in batches {
                    let mut batch: RecordBatch = batch.clone();
                    batch.place(Offset(next_offset), LeaderEpoch(entry.id.term as i32));
                    next_offset = batch.header().next_offset().0;
                    headers.push(*batch.header());
                    pieces.push(batch.to_bytes());
                }
                None
            }
            EntryBody::Opaque { kind, bytes } => {
                pieces.push(bytes.clone());
                Some(*kind)
            }
        };
        ModelEntry { id: entry.id, kind, pieces, headers, next_offset }
    }

    pub fn size_bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Whether what was read is this entry, byte for byte.
    pub fn is(&self, entry: &Entry) -> bool {
        let (kind, pieces) = match &entry.body {
            EntryBody::Batches(batches) => {
                (None, batches.iter().map(RecordBatch::to_bytes).collect())
            }
            EntryBody::Opaque { kind, bytes } => (Some(*kind), vec![bytes.clone()]),
        };
        (self.id, self.kind, &self.pieces) == (entry.id, kind, &pieces)
    }
}

impl GroupModel {
    pub fn last(&self) -> Option<EntryId> {
        self.entries.last().map(|entry| entry.id).or(self.purged)
    }

    pub fn end_offset(&self) -> i64 {
        self.entries.last().map_or(self.start_offset, |entry| entry.next_offset)
    }

    /// The producers as of the last entry that `keep` lets in.
    fn producers_up_to(&self, keep: impl Fn(&ModelEntry) -> bool) -> ProducerState {
        let mut producers = self.start_producers.clone();
        for entry in self.entries.iter().take_while(|entry| keep(entry)) {
            entry.headers.iter().for_each(|header| producers.replay(header));
        }
        producers
    }

    pub fn producers(&self) -> ProducerState {
        self.producers_up_to(|_| true)
    }

    pub fn append(&mut self, entry: &Entry) {
        self.exists = true;
        let base_offset = self.end_offset();
        self.entries.push(Rc::new(ModelEntry::place(entry, base_offset)));
    }

    pub fn truncate_after(&mut self, index: Option<u64>) {
        self.exists = true;
        self.entries.retain(|entry| index.is_some_and(|index| entry.id.index <= index));
    }

    pub fn purge(&mut self, id: EntryId) {
        self.exists = true;
        self.start_producers = self.producers_up_to(|entry| entry.id.index <= id.index);
        let gone = self.entries.iter().take_while(|entry| entry.id.index <= id.index).count();
        if let Some(last) = self.entries.drain(..gone).next_back() {
            self.start_offset = last.next_offset;
        }
        self.purged = Some(id);
        self.log_start = self.log_start.max(self.start_offset);
    }

    pub fn install_snapshot(&mut self, id: EntryId, next_offset: i64, producers: ProducerState) {
        self.exists = true;
        self.entries.clear();
        self.purged = Some(id);
        self.start_offset = next_offset;
        self.log_start = next_offset;
        self.start_producers = producers;
    }

    /// Where the log differs from this, if it does.
    pub fn check(&self, log: &GroupLog) -> Result<(), String> {
        let state = LogState { last_purged: self.purged, last: self.last(), vote: self.vote };
        same("log state", &log.log_state(), &state)?;
        let offsets = log.offsets();
        let ends = (offsets.log_start_offset.0, offsets.log_end_offset.0);
        same("offsets", &ends, &(self.log_start, self.end_offset()))?;
        for (key, value) in &self.state {
            let read = log.get_state(key).map_err(|error| format!("state: {error}"))?;
            same("state", &read.as_ref(), &Some(value))?;
        }
        let sizes: Vec<_> = self.entries.iter().map(|e| (e.id, e.size_bytes() as u64)).collect();
        let size: u64 = sizes.iter().map(|(_, size)| size).sum();
        same("size", &log.size_bytes(), &size)
            .map_err(|reason| format!("{reason} of {sizes:?} behind {:?}", self.purged))?;
        self.check_entries(log)?;
        self.check_records(log)?;
        let producers = log.producer_state().map_err(|error| format!("producers: {error}"))?;
        same("producers", &producers, &self.producers())
    }

    fn check_entries(&self, log: &GroupLog) -> Result<(), String> {
        let Some(first) = self.entries.first().map(|entry| entry.id.index) else { return Ok(()) };
        let mut index = first;
        while index < first + self.entries.len() as u64 {
            let entries = log
                .entries(index..first + self.entries.len() as u64, 2000)
                .map_err(|error| format!("entries from {index}: {error}"))?;
            if entries.is_empty() {
                return Err(format!("no entry {index}"));
            }
            for entry in entries {
                let expected = &self.entries[(index - first) as usize];
                if !expected.is(&entry) {
                    return Err(format!("entry {index} is {entry:?} instead of {expected:?}"));
                }
                index += 1;
            }
        }
        let heads = log.heads(first..index).map_err(|error| format!("heads: {error}"))?;
        let heads: Vec<_> =
            heads.iter().map(|h| (h.id, h.next_offset.0, h.size_bytes as usize)).collect();
        let expected = self.entries.iter().map(|e| (e.id, e.next_offset, e.size_bytes()));
        same("heads", &heads, &expected.collect())
    }

    /// All record bytes from the log start on, read in small pieces.
    fn check_records(&self, log: &GroupLog) -> Result<(), String> {
        let expected: Vec<(BatchHeader, &Bytes)> = self
            .entries
            .iter()
            .flat_map(|entry| entry.headers.iter().copied().zip(&entry.pieces))
            .filter(|(header, _)| header.next_offset().0 > self.log_start)
            .collect();
        let bytes: Vec<u8> = expected.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        let (mut read, mut from) = (Vec::new(), self.log_start);
        let limit =
            ReadLimit { upper_bound: Offset(i64::MAX), max_bytes: 1500, min_one_batch: true };
        while from < self.end_offset() {
            let records = log.read(Offset(from), limit).map_err(|e| format!("read {from}: {e}"))?;
            if records.size_bytes == 0 {
                return Err(format!("nothing to read at {from}"));
            }
            read.extend(record_bytes(&records));
            let done = expected.iter().scan(0, |end, (header, bytes)| {
                *end += bytes.len();
                Some((*end, header.next_offset().0))
            });
            let Some((_, next)) = done.clone().find(|(end, _)| *end == read.len()) else {
                return Err(format!(
                    "after a read at {from} there are {} bytes, which is no end of a batch of {:?}",
                    read.len(),
                    expected.iter().map(|(h, b)| (h.base_offset.0, b.len())).collect::<Vec<_>>()
                ));
            };
            from = next;
        }
        if read != bytes {
            return Err("the records read back are not those that were appended".to_owned());
        }
        for (header, _) in &expected {
            same(
                "epoch of a batch",
                &log.epoch_for_offset(header.base_offset.max(Offset(self.log_start))),
                &Some(header.partition_leader_epoch),
            )?;
        }
        Ok(())
    }
}

/// The bytes of a read that has no files in it.
pub fn record_bytes(records: &Records) -> Vec<u8> {
    let mut bytes = Vec::new();
    for slice in &records.slices {
        match slice {
            RecordSlice::Memory(slice) => bytes.extend_from_slice(slice),
            RecordSlice::File { .. } => panic!("the simulated disk has no files of the system"),
        }
    }
    bytes
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    actual: &T,
    expected: &T,
) -> Result<(), String> {
    if actual == expected {
        return Ok(());
    }
    Err(format!("{what}: {actual:?} instead of {expected:?}"))
}
