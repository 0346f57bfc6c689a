//! `FreeSpace`: how free space is divided.

use serde::{Deserialize, Serialize};

/// Free stretches of similar length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FreeClass {
    /// Their largest length in bytes: a power of two.
    pub up_to_bytes: u64,
    /// How many there are.
    pub stretches: u64,
    /// Their length together, in bytes.
    pub bytes: u64,
}

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FreeSpace {
    /// Free stretches of whole blocks (of a log: of whole segments), by ascending length.
    pub stretches: Vec<FreeClass>,
    /// Free space beside them, in bytes: fragments of blocks that are used in part (of a log: dead bytes in segments that have live ones).
    pub partial_bytes: u64,
}

impl FreeSpace {
    /// Counts a free stretch.
    pub fn add(&mut self, len_bytes: u64) {
        let up_to_bytes = len_bytes.checked_next_power_of_two().unwrap_or(u64::MAX);
        let at = self.stretches.partition_point(|class| class.up_to_bytes < up_to_bytes);
        if self.stretches.get(at).is_none_or(|class| class.up_to_bytes != up_to_bytes) {
            self.stretches.insert(at, FreeClass { up_to_bytes, stretches: 0, bytes: 0 });
        }
        self.stretches[at].stretches += 1;
        self.stretches[at].bytes += len_bytes;
    }

    /// All free space, in bytes.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        // A snapshot is a file, and may claim anything.
        self.stretches.iter().fold(self.partial_bytes, |sum, class| sum.saturating_add(class.bytes))
    }

    /// The share of free space outside whole blocks or segments; `None` if nothing is free.
    #[must_use]
    pub fn partial_share(&self) -> Option<f64> {
        let free_bytes = self.free_bytes();
        (free_bytes > 0).then(|| self.partial_bytes as f64 / free_bytes as f64)
    }
}
