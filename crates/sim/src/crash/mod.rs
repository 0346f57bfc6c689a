//! The hardware half of the crash explorer: a disk with a volatile cache, the history of what it was asked, and every
//! state its medium may be in after the power was cut.
//!
//! The model is SQLite's and LevelDB's, made strict. What was written is volatile until a flush that was submitted after
//! the write had *completed* (been waited for) has itself completed. At a cut, each volatile write has landed, is
//! missing, is torn in units of 512 bytes or 4 KiB, or has left garbage - in whole physical blocks, neighbours included.
//! A discard may take effect or not, and what it covers reads as zeros, as what was there, or as garbage ever after.
//!
//! * [`CrashDisk`]: the running disk; records a [`History`].
//! * [`CrashState`]: one state, as text that can be printed and replayed.
//! * [`Replay`]: walks a history and builds images of states, and their hashes without building them.

mod disk;
mod history;
mod replay;
mod state;

pub use disk::CrashDisk;
pub use history::{Event, History, Item, ItemKind, image_hash, range_hash};
pub use replay::Replay;
pub use state::{CrashState, DiscardMode, Fate, ParseError};

/// Granularity of everything here, in bytes: no medium tears a sector.
pub const SECTOR_BYTES: u64 = 512;
