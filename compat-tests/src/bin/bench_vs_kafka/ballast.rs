//! Memory that the machine has backed already, kept for the loads.
//!
//! On a virtual machine the first write to a page of memory waits for the host (here 1.8 CPU
//! seconds a gigabyte), and a page that has been free for two seconds may be the host's again. Logs
//! go through the page cache, so whoever wrote first would pay for both. The ballast holds all free
//! memory, written to, and hands a part of it out just before a load.

use std::fs;

use parking_lot::Mutex;

/// What is held or handed out at once.
const CHUNK_BYTES: usize = 64 << 20;
/// Gigabytes that a load of one broker may write before it waits for the host.
pub const ROOM_GIBIBYTES: usize = 2;
/// Memory that stays free beside it, for the processes. As little as they can live with: the
/// kernel hands out whatever is free, and what nobody has written to would be among it.
const SPARE_BYTES: u64 = 512 << 20;
/// Every page is written to once.
const PAGE_BYTES: usize = 4096;

static HELD: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Takes what is free into the ballast, then frees as much as a load may write.
pub fn make_room(gibibytes: usize) {
    let mut held = HELD.lock();
    while free_bytes() > SPARE_BYTES {
        let mut chunk = vec![0; CHUNK_BYTES];
        chunk.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        held.push(chunk);
    }
    let kept = held.len().saturating_sub(gibibytes * (1 << 30) / CHUNK_BYTES);
    held.truncate(kept);
}

/// Memory that nobody uses, not even as page cache; nothing where that cannot be known.
fn free_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_is_free() {
        assert!(free_bytes() > 0);
    }
}
