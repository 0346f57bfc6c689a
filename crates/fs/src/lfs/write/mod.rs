//! Writing the log: the open logs (`log`), which of them a block goes to (`sorting`, `eras`), the layout of what is dirty
//! (`commit`; if there is much, most of it in steps before: `prepare`, large content by `ahead` and the rest by `frozen`) and of the
//! tables (`checkpoint`) in partial segments (`partial`), when either is due (`due`), requests for the device (`jobs`), the segments
//! that readers keep from being written (`pins`), changes that count only together (`held`), and how a volume becomes larger (`growth`) or smaller (`shrinking`).

pub(in crate::lfs) mod ahead;
pub(in crate::lfs) mod checkpoint;
pub(in crate::lfs) mod commit;
pub(in crate::lfs) mod due;
pub(in crate::lfs) mod eras;
pub(in crate::lfs) mod frozen;
pub(in crate::lfs) mod growth;
pub(in crate::lfs) mod held;
pub(in crate::lfs) mod jobs;
pub(in crate::lfs) mod log;
pub(in crate::lfs) mod partial;
pub(in crate::lfs) mod pins;
pub(in crate::lfs) mod prepare;
pub(in crate::lfs) mod shrinking;
pub(in crate::lfs) mod sorting;

use ahead::Ahead;
use firnfs_format::{InodeNo, Serial};
use frozen::Frozen;
use growth::Growth;
use jobs::Jobs;
use log::Log;
use pins::Pins;
use shrinking::Shrinking;

/// Where the log continues, the requests on their way to the device, and the segments that readers pin.
///
/// Invariants: a segment is in at most one of these: open, in the pool, clean and free to be taken; the size changes in one direction at a
/// time.
pub(in crate::lfs) struct LogWriter {
    pub log: Log,
    pub jobs: Jobs,
    pub pins: Pins,
    /// Set while content is laid out ahead of a commit that is due.
    ahead: Option<Ahead>,
    /// The file that last had a chunk of dirty content, which need not wait for a commit.
    chunk_of: Option<InodeNo>,
    /// Set while a batch is laid out in steps.
    frozen: Option<Frozen>,
    /// What is written counts only with the next point: see `held`.
    is_held_back: bool,
    /// Set while not both checkpoint slots state the volume's new size.
    growth: Option<Growth>,
    /// Set while the volume is about to become smaller.
    shrinking: Option<Shrinking>,
}

impl LogWriter {
    /// Continues that log, whose last durable serial is `durable`.
    pub fn new(log: Log, durable: Serial) -> Self {
        Self {
            log,
            jobs: Jobs::new(durable),
            pins: Pins::default(),
            ahead: None,
            chunk_of: None,
            frozen: None,
            is_held_back: false,
            growth: None,
            shrinking: None,
        }
    }

    /// True while content is laid out ahead of a commit that is due.
    pub fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// True if there may be a chunk of content that need not wait for a commit.
    pub fn has_chunk(&self) -> bool {
        self.chunk_of.is_some()
    }

    /// True while what is written counts only with the next point.
    pub fn is_held_back(&self) -> bool {
        self.is_held_back
    }
}
