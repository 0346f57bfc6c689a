//! The hardware half of the crash explorer: a disk with a volatile cache, the history of its requests, and every state
//! that its medium may be in after a power cut.
//!
//! The model is that of SQLite and LevelDB, made strict. A write is volatile until a flush has completed that was
//! submitted after the write had *completed* (been waited for). At a cut, each volatile write has landed, is missing, is
//! torn in units of 512 bytes or 4 KiB, or has left garbage in whole physical blocks, neighbours included. A discard may
//! take effect or not; the range then reads as zeros, as its old content, or as garbage from then on.
//!
//! * [`CrashDisk`] (`disk`): the running disk, which records a [`History`] (`history`).
//! * [`CrashState`] (`state`): one state, as text that can be printed and replayed.
//! * [`Replay`] (`replay`): walks a history, builds images of states, and computes their hashes without building them.

mod disk;
mod history;
mod replay;
mod state;

pub use disk::CrashDisk;
pub use history::{Event, History, Item, ItemKind, image_hash, range_hash};
pub use replay::Replay;
pub use state::{CrashState, DiscardMode, Fate, ParseError};

/// Unit of everything here, in bytes: no medium tears a sector.
pub const SECTOR_BYTES: u64 = 512;
