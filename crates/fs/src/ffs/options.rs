//! How a volume is run.

/// Settings of an open volume. Sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Memory for clean blocks and inodes, not counting blocks that are dirty or being written.
    pub cache_bytes: u64,
    /// If more blocks are dirty, they are written at once; operations wait when four times as much is dirty or queued.
    pub write_threshold_bytes: u64,
    /// How long changes that no caller waits for stay in memory, in ms (4.4BSD's update daemon: 30 s).
    pub update_interval_ms: u64,
    /// Nothing is written.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            write_threshold_bytes: 16 << 20,
            update_interval_ms: 30_000,
            read_only: false,
        }
    }
}
