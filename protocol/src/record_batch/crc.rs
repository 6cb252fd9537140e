//! The batch's CRC-32C, over everything from `attributes` on.
//!
//! Pure: no I/O, no clock, no randomness.

use super::HEADER_LEN;

/// Where the summed bytes begin: behind the CRC itself.
const SUMMED_FROM: usize = 21;

/// The sum over the tail of the head and then the body, which need not be neighbours in memory.
pub(super) fn of_batch(head: &[u8; HEADER_LEN], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&head[SUMMED_FROM..]), body)
}
