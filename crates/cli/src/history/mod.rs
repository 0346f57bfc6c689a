//! The past of a volume: `firn snapshot`, `log`, `diff`, `restore`, `undelete`, `rollback`, `clone`, `send`, `receive`.
//!
//! - `service`: the daemon's side: making, listing and deleting states.
//! - `states`, `when`: the states of a volume, and which of them a word or a time means.
//! - `place`, `identity`, `find`: paths in the present and in states; which names lead to the same file.
//! - `compare`, `changed`, `deleted`: what differs between two trees, which names lead there, and what was deleted.
//! - `copy`, `attributes`, `staged`: a faithful copy of the past, which appears when it is whole. `crew`: several side by side.
//! - `send`, `receive`: states on their way to another volume.
//! - `clone`: trees that began as states, and the daemon's side of them.
//! - `snapshot`, `log`, `versions`, `diff`, `restore`, `undelete`, `rollback`: the commands.
//!
//! Each state is a directory below `.firn/history` of a mount. So these commands read the past as any program does, with the rights
//! of their caller; only what concerns the volume as a whole goes through the control socket.

mod attributes;
mod changed;
pub mod clone;
mod compare;
mod copy;
mod crew;
mod deleted;
mod diff;
mod find;
mod identity;
mod log;
mod place;
mod receive;
mod restore;
mod rollback;
pub mod send;
pub mod service;
mod snapshot;
mod staged;
mod states;
mod undelete;
mod versions;
mod when;

pub use clone::{CloneArgs, clones_of, run as clone};
pub use diff::{DiffArgs, run as diff};
pub use log::{LogArgs, run as log};
pub use place::{Place, split_state};
pub use receive::{ReceiveArgs, run as receive};
pub use restore::{RestoreArgs, run as restore};
pub use rollback::{RollbackArgs, run as rollback};
pub use send::{SendArgs, run as send};
pub use service::history as states_of_volume;
pub use snapshot::{SnapshotArgs, run as snapshot};
pub use states::{HISTORY_DIR, States, failure_of, has_no_history};
pub use undelete::{UndeleteArgs, run as undelete};
