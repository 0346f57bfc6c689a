//! The driver: runs the sans-I/O core of `fs` against a device, for callers that may block.
//!
//! One mutex guards the core. The driver retries a stopped operation after it has read the missing blocks (`Need`) or after
//! background work has made progress (`Room`). The driver has no thread of its own: the caller's thread does the work. An
//! adapter with threads promises background work, and calls [`Volume::background`] from one of them.
//!
//! It drives any [`Engine`](firnfs::engine::Engine) and names none. The crate `firnfs-manage` makes, opens, checks and repairs
//! volumes of each kind, through the public methods of [`Volume`].
//!
//! `volume` is [`Volume`]; `allocate` has its fallocate(2), `never_waiting` operations that give up rather than wait. `reader`
//! reads the device, `ahead` keeps what was read before anybody needed it, `scattered` has the bytes of a read where they lie, and
//! `in_place` reads long ones straight to where the caller wants them.
//! `stalls` measures waits for room, `lock_time` turns at the lock; `latency` is a histogram of durations. `sync` has the mutexes
//! and condition variables, or those of a model checker.

mod ahead;
mod allocate;
mod in_place;
mod latency;
mod lock_time;
mod never_waiting;
mod reader;
#[cfg(test)]
mod reader_tests;
mod scattered;
mod stalls;
mod sync;
mod volume;

pub use latency::Latency;
pub use lock_time::{LockTimes, SAMPLED_ONE_IN};
pub use never_waiting::{Landed, Missing, attempt, never_waiting};
pub use reader::Reader;
pub use scattered::Scattered;
pub use stalls::Stalls;
#[cfg(shuttle)]
pub use sync::lose_notifications;
pub use volume::{BackgroundPromise, DirectWrites, Freeze, Volume};
