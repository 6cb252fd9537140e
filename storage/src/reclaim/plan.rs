//! Which journal files may go, and what has to be written again first.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use crate::index::indexer::{FileUse, Tombstone};
use crate::index::rows::Place;

/// The files in which nothing lives, and of which the flushed index needs nothing.
pub(crate) fn plan_unlink(files: &BTreeMap<u32, FileUse>, active: u32, flushed: Place) -> Vec<u32> {
    let may_go = |file: u32, usage: &FileUse| {
        // A replay begins in the flushed place's file; that one stays, and those behind it.
        file < active && file < flushed.file && usage.live_bytes == 0 && usage.dead_since <= flushed
    };
    files.iter().filter(|(file, usage)| may_go(**file, usage)).map(|(file, _)| *file).collect()
}

/// Removed groups: which to forget, and which to write again because older files have entries.
pub(crate) fn plan_tombstones(
    tombstones: &BTreeMap<u64, Tombstone>,
    oldest_left: u32,
    highest_going: u32,
) -> (Vec<u64>, Vec<u64>) {
    let (mut forget, mut rewrite) = (Vec::new(), Vec::new());
    for (&group, tombstone) in tombstones {
        if tombstone.last_file < oldest_left {
            forget.push(group);
        } else if tombstone.head_file <= highest_going {
            rewrite.push(group);
        }
    }
    (forget, rewrite)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(live_bytes: u64, file: u32, position: u32) -> FileUse {
        FileUse { live_bytes, dead_since: Place { file, position } }
    }

    #[test]
    fn only_dead_files_that_the_flushed_index_does_not_need_go() {
        let files = BTreeMap::from([
            (1, usage(0, 3, 10)),
            (2, usage(5, 1, 0)),
            (3, usage(0, 4, 90)),
            (4, usage(0, 4, 10)),
        ]);
        assert_eq!(plan_unlink(&files, 4, Place { file: 4, position: 50 }), [1]);
        assert_eq!(plan_unlink(&files, 4, Place { file: 4, position: 90 }), [1, 3]);
        assert!(plan_unlink(&files, 4, Place { file: 1, position: 0 }).is_empty());
    }

    #[test]
    fn a_tombstone_lasts_as_long_as_a_file_with_its_entries() {
        let tombstone = |head_file, last_file| Tombstone { head_file, last_file };
        let tombstones =
            BTreeMap::from([(7, tombstone(3, 3)), (8, tombstone(2, 1)), (9, tombstone(5, 5))]);
        assert_eq!(plan_tombstones(&tombstones, 2, 4), (vec![8], vec![7]));
    }
}
