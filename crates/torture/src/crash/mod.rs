//! The crash explorer: runs operations on a disk whose power can be cut anywhere, and judges every state that a cut may
//! leave.
//!
//! * [`Subject`] (`subject`): the file system under test, which formats and mounts and can be walked.
//! * [`Op`], [`World`] (`op`, `world`): operations and their required effects, in a model that shares no code with the file
//!   system.
//! * [`run`](runner::run) (`runner`): carries operations out on a crash disk; returns the history of the disk and the [`Record`]
//!   of the worlds (`record`).
//! * [`Plan`] (`plan`): selects the crash states of a history to judge.
//! * [`Explorer`] (`explorer`): builds them, mounts them, and asks the [`Record`] whether the tree that it finds (`tree`) is
//!   allowed. `verdict` has the rules, `totals` counts and limits.
//! * [`scenario`]: bounded enumeration in the manner of ACE (CrashMonkey, OSDI'18, section 4.1) and long random histories, each
//!   with a name that replays it. `generate` draws operations; `shape`, `point_ops`, `retained_ops` and `quota_ops` make histories
//!   with a focus, with points that users make, with points that the volume makes by itself, with quotas; `rollback_ops` turns the volume
//!   back to a point.
//! * [`trace`]: histories that programs made on a real mount, instead of a scenario.
//! * [`campaign`]: many scenarios on several threads; [`soak`]: the choice of scenarios.
//! * [`Firn`] (`firn`): firnfs's log as the subject. [`Fast`] (`fast`): its Fast File System, which promises less ([`Promise`]).
//! * [`Seen`] (`seen`): the states that a campaign has judged.
//! * `mending`, `split`, `stale`: interrupted repairs; a mirror whose halves were mounted separately; a mount over the remains of
//!   one that was cut.
//! * `streams`: what `send` gives for retained points, and must give again after a cut.
//! * `quota`: what a volume says about quotas, and must say.
//! * `contents`, `recall`: files that were verified, for other views of the same bytes; a device in memory that answers a read
//!   with the buffer of an earlier one.
//!
//! The verdict: before anything is mounted, fsck finds no damage in the state that a cut leaves. The state mounts,
//! read-only and read-write, and both mounts find the same. Its *names* are an exact prefix of the order of operations,
//! not older than the last sync. Its *data* is, for each block of 4 KiB, some version at or after the last sync that
//! covers the file, and not older than its last rename. Nothing else is ever seen. Each retained *point* shows exactly what the model
//! had when it was made; it is there from the end of its making until its drop has begun. As long as two points are there, `send` gives the
//! same *stream* from one to the other. An *automatic* point shows
//! the world at the moment when the volume made it; it is there once another one has followed, until retention lets it go, the oldest
//! first.

pub mod campaign;
mod contents;
mod explorer;
mod fast;
mod firn;
pub mod generate;
mod mending;
pub mod op;
mod plan;
mod point_ops;
mod quota;
mod quota_ops;
mod recall;
mod record;
mod retained_ops;
mod rollback_ops;
pub mod runner;
pub mod scenario;
mod seen;
pub mod shape;
pub mod soak;
mod split;
pub mod stale;
mod streams;
mod subject;
mod totals;
pub mod trace;
mod tree;
mod verdict;
mod world;

pub use contents::{Contents, Shared};
pub use explorer::Explorer;
pub use fast::Fast;
pub use firn::Firn;
pub(crate) use firn::Keeper;
pub use op::Op;
pub use plan::Plan;
pub use quota::{Bounds, Quotas};
pub use record::{Loss, Record, Window};
pub use seen::{Novelty, SEEN_MAX, Seen};
pub use subject::{Made, Mounted, Promise, Refusal, Replica, Subject};
pub use totals::{Failure, Limits, Rot, Totals};
pub use tree::{Content, Entry, NodeKind, Tree};
pub use world::{AclSpec, World};

/// Unit in which data is judged: a file may hold any allowed version of each block of this many bytes.
pub const BLOCK_BYTES: usize = 4096;
