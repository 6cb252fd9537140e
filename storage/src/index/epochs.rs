//! The terms of a group's log: where each begins, as an index for Raft and as an offset for Kafka
//! (Kafka: `LeaderEpochFileCache`).
//!
//! Raft knows terms in which nothing but a blank entry was written; Kafka's cache keeps, of
//! several epochs that start at one offset, the last. One table serves both views.
//!
//! Pure: no I/O, no clock, no randomness.

use crate::codec::{Reader, put_i64, put_u64};
use crate::log_store::EntryId;

/// The beginning of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermStart {
    /// The term, also the leader epoch.
    pub term: u64,
    /// Index of its first entry.
    pub index: u64,
    /// The log end offset when it began.
    pub offset: i64,
}

/// The terms of a log, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TermTable {
    starts: Vec<TermStart>,
}

impl TermTable {
    /// The terms, oldest first.
    #[must_use]
    pub fn starts(&self) -> &[TermStart] {
        &self.starts
    }

    /// A table of these.
    #[must_use]
    pub fn from_starts(starts: Vec<TermStart>) -> TermTable {
        TermTable { starts }
    }

    /// Takes in an appended entry; whether it began a term.
    pub fn on_append(&mut self, id: EntryId, base_offset: i64) -> bool {
        if self.starts.last().is_some_and(|last| last.term == id.term) {
            return false;
        }
        self.starts.push(TermStart { term: id.term, index: id.index, offset: base_offset });
        true
    }

    /// Forgets the terms that began behind `index`.
    pub fn truncate_after(&mut self, index: Option<u64>) {
        self.starts.retain(|start| index.is_some_and(|index| start.index <= index));
    }

    /// Forgets the terms that ended before `index`: the one that `index` is in stays.
    pub fn purge_to(&mut self, index: u64) {
        let keep_from = self.starts.partition_point(|start| start.index <= index);
        self.starts.drain(..keep_from.saturating_sub(1));
    }

    /// Puts what an older table says up to `index` before what this one says behind it.
    pub fn prepend(&mut self, older: &TermTable, index: u64) {
        let mut starts = older.up_to(index).starts;
        let known = starts.last().map(|start| start.term);
        let later = self.starts.iter().filter(|start| start.index > index);
        starts.extend(later.filter(|start| Some(start.term) != known));
        self.starts = starts;
    }

    /// The terms up to `index`, for a snapshot there.
    #[must_use]
    pub fn up_to(&self, index: u64) -> TermTable {
        let mut table = self.clone();
        table.truncate_after(Some(index));
        table
    }

    /// The term of the entry at `index`.
    #[must_use]
    pub fn term_at(&self, index: u64) -> Option<u64> {
        let behind = self.starts.partition_point(|start| start.index <= index);
        Some(self.starts.get(behind.checked_sub(1)?)?.term)
    }

    /// Kafka's view: epochs with the offset they start at; of those that start at one offset the
    /// last; those before `log_start` shrunk to the one that reaches into the log.
    pub(crate) fn epochs(&self, log_start: i64) -> impl Iterator<Item = (i32, i64)> + '_ {
        let visible = move |offset: i64| offset.max(log_start);
        self.starts.iter().enumerate().filter_map(move |(at, start)| {
            let next = self.starts.get(at + 1).map(|next| visible(next.offset));
            (next != Some(visible(start.offset)))
                .then_some((start.term as i32, visible(start.offset)))
        })
    }

    /// The newest epoch.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<i32> {
        self.starts.last().map(|start| start.term as i32)
    }

    /// The epoch of the record at `offset`.
    #[must_use]
    pub fn epoch_for_offset(&self, offset: i64) -> Option<i32> {
        let behind = self.starts.partition_point(|start| start.offset <= offset);
        Some(self.starts.get(behind.checked_sub(1)?)?.term as i32)
    }

    /// Kafka's `endOffsetFor`: the largest epoch not above `epoch`, and where it ends.
    #[must_use]
    pub fn end_offset_for(&self, epoch: i32, log_start: i64, log_end: i64) -> Option<(i32, i64)> {
        if epoch < 0 {
            return None;
        }
        if self.latest_epoch() == Some(epoch) {
            return Some((epoch, log_end));
        }
        let mut floor = None;
        for (known, start) in self.epochs(log_start) {
            if known > epoch {
                // An epoch older than all known ones ends where the oldest begins.
                return Some((floor.unwrap_or(epoch), start));
            }
            floor = Some(known);
        }
        None
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.starts.len() as u64);
        for start in &self.starts {
            put_u64(out, start.term);
            put_u64(out, start.index);
            put_i64(out, start.offset);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<TermTable> {
        let count = reader.count()?;
        let mut starts = Vec::with_capacity(count);
        for _ in 0..count {
            let (term, index, offset) = (reader.u64()?, reader.u64()?, reader.i64()?);
            starts.push(TermStart { term, index, offset });
        }
        Some(TermTable { starts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TermTable {
        let mut table = TermTable::default();
        for (term, index, offset) in [(1, 0, 0), (1, 1, 0), (3, 5, 40), (4, 9, 90), (6, 10, 90)] {
            table.on_append(EntryId { term, index }, offset);
        }
        table
    }

    #[test]
    fn an_epoch_ends_where_the_next_one_begins() {
        let table = table();
        assert_eq!(table.end_offset_for(1, 0, 100), Some((1, 40)));
        assert_eq!(table.end_offset_for(2, 0, 100), Some((1, 40)));
        assert_eq!(table.end_offset_for(3, 0, 100), Some((3, 90)));
        assert_eq!(table.end_offset_for(6, 0, 100), Some((6, 100)));
        assert_eq!(table.end_offset_for(7, 0, 100), None);
        assert_eq!(table.end_offset_for(-1, 0, 100), None);
    }

    #[test]
    fn an_epoch_without_records_is_not_kafkas() {
        assert_eq!(table().end_offset_for(5, 0, 100), Some((3, 90)));
        assert_eq!(table().starts().len(), 4);
    }

    #[test]
    fn an_epoch_older_than_the_log_ends_at_its_start() {
        let mut table = table();
        table.purge_to(6);
        assert_eq!(table.end_offset_for(2, 60, 100), Some((2, 60)));
        assert_eq!(table.end_offset_for(3, 60, 100), Some((3, 90)));
    }

    #[test]
    fn truncation_brings_the_older_epoch_back() {
        let mut table = table();
        table.truncate_after(Some(8));
        assert_eq!(table.latest_epoch(), Some(3));
        assert_eq!(table.epoch_for_offset(39), Some(1));
        assert_eq!(table.epoch_for_offset(40), Some(3));
        assert_eq!(table.term_at(4), Some(1));
        table.truncate_after(None);
        assert_eq!(table.latest_epoch(), None);
    }
}
