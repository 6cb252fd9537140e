//! Bit rot, failing syncs, and full disks.
