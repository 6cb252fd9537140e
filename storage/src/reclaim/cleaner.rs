//! Executes the plan: writes heads again, syncs, unlinks. Part of the writer, between rounds.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::Bytes;

use super::plan::{plan_tombstones, plan_unlink};
use crate::StorageError;
use crate::index::rows::Place;
use crate::journal::file;
use crate::journal::record::{Payload, RecordHeader, removed_record};
use crate::journal::writer::Writer;

impl Writer {
    /// Unlinks the journal files in which nothing lives.
    pub(crate) fn reclaim(&mut self) -> Result<(), StorageError> {
        if self.is_behind() {
            return Ok(());
        }
        let flushed = self.flushed();
        let going = plan_unlink(&self.indexer().files, self.active_number(), flushed);
        let Some(&highest) = going.last() else { return Ok(()) };
        let left = self.indexer().files.keys().find(|file| !going.contains(file));
        let oldest_left = left.copied().unwrap_or(self.active_number());
        let (forget, rewrite) = plan_tombstones(&self.indexer().tombstones, oldest_left, highest);
        let mut records = Vec::new();
        for id in self.shared().groups_with_head_up_to(highest) {
            let head = self.indexer_mut().head_of(id)?;
            let (header, bytes) = head.record(id);
            records.push((header, bytes, Payload::GroupHead(Box::new(head))));
        }
        for id in rewrite {
            let last_file = self.indexer().tombstones[&id].last_file;
            let (header, bytes) = removed_record(id, last_file);
            records.push((header, bytes, Payload::GroupRemoved(last_file)));
        }
        self.write_heads(records)?;
        for id in forget {
            self.indexer_mut().drop_tombstone(id);
            self.shared().groups.write().remove(&id);
        }
        let shared = Arc::clone(self.shared());
        for number in going {
            match shared.disk.remove(&file::name(number)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => {}
            }
            shared.files.forget(number);
            self.indexer_mut().drop_file(number);
        }
        shared.disk.sync_dir()?;
        shared.stats.set_files(self.indexer().files.len());
        shared.space.refresh(&*shared.disk);
        self.indexer_mut().flush_batch()?;
        Ok(())
    }

    /// Writes and syncs the records, then takes them into the index.
    fn write_heads(
        &mut self,
        records: Vec<(RecordHeader, Bytes, Payload)>,
    ) -> Result<(), StorageError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut headers = Vec::with_capacity(records.len());
        let mut places = Vec::with_capacity(records.len());
        let mut end = self.next_place();
        for (header, _, _) in &records {
            let header = self.stamp(*header);
            headers.push(header.encode());
            places.push(end);
            end = Place { file: end.file, position: end.position + header.size_bytes() as u32 };
        }
        let slices: Vec<IoSlice<'_>> = headers
            .iter()
            .zip(&records)
            .flat_map(|(header, (_, bytes, _))| [IoSlice::new(header), IoSlice::new(bytes)])
            .filter(|slice| !slice.is_empty())
            .collect();
        self.write_and_sync(&slices, u64::from(end.position))?;
        for ((header, _, payload), at) in records.iter().zip(places) {
            self.indexer_mut().control(header.group, payload, at)?;
            let position = at.position + header.size_bytes() as u32;
            self.indexer_mut().cover(Place { file: at.file, position });
            if matches!(payload, Payload::GroupHead(_))
                && let Some(group) = self.shared().find_group(header.group)
            {
                group.set_head_file(at.file);
            }
        }
        Ok(())
    }
}
