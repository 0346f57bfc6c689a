//! Volumes of each kind on a device: making, opening, checking, repairing, scrubbing, and cleaning from outside.
//!
//! The driver (`firnfs-volume`) runs any engine and names none; the library (`firnfs`) contains the stores but does no I/O.
//! This crate brings the two together: each file connects one mechanism of a store to the driver, for callers that may block.
//!
//! - `open`: mkfs and mount. `check`, `repair`, `salvage`: fsck. All four work on a device that no other process uses.
//! - `retain`: which states of a volume are kept.
//! - `send`, `receive`: states of a volume on their way to another one.
//! - `kind`: which kind of volume a device has.
//! - `ffs_volume`, `ffs_check`: mkfs, mount and fsck of the Fast File System.
//! - `scrub`, `coalesce`, `trim`, `grow`, `shrink`, `history`, `port`: further services of a log-structured volume in use
//!   ([`LogVolume`], `log_volume`).
//! - `reading`: how these read a volume that is not mounted, or a snapshot.

mod check;
mod coalesce;
mod ffs_check;
mod ffs_volume;
mod grow;
mod history;
mod kind;
mod log_volume;
mod open;
mod port;
mod reading;
mod receive;
mod repair;
mod retain;
mod salvage;
mod scrub;
mod send;
mod shrink;
mod trim;

pub use check::{check, check_all_points};
pub use ffs_check::{RepairedFfs, check_ffs, repair_ffs};
pub use ffs_volume::{OpenFfsError, format_ffs, format_ffs_around, open_ffs};
pub use grow::SizeChange;
pub use history::{drop_clone, make_clone};
pub use kind::{VolumeKind, kind_of};
pub use log_volume::LogVolume;
pub use open::{OpenError, format, format_with_logs, open, open_point};
pub use receive::{ReceiveError, Received, StreamReader, last_received, receive};
pub use repair::{Action, Outcome, Repaired, repair};
pub use retain::{name_point, set_retention};
pub use salvage::{put_together, write_salvaged};
pub use scrub::{Scrub, Scrubbed};
pub use send::{SendError, SendProgress, Sent, send};
pub use shrink::ShrinkEnd;

/// Keeps the code of that page correct: `cargo test --doc` compiles and runs it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct EmbeddingPage;
