//! Simulated hardware for tests and the lab: a virtual clock, seeded randomness, and three disks. [`CrashDisk`] has a
//! volatile cache, and its power can be cut anywhere. [`FaultyDisk`] fails in every way in which disks fail.
//! [`TimedDisk`] has a head and a queue, and its requests take virtual time; threads that share it take turns
//! ([`Turns`]).
//!
//! Everything here is deterministic: the same seed and the same requests give the same behaviour, byte for byte.

mod clock;
pub mod crash;
mod faulty;
mod random;
mod speed;
mod timed;
mod turns;

pub use clock::VirtualClock;
pub use crash::{CrashDisk, CrashState, DiscardMode, Fate, History, Replay};
pub use faulty::{Effect, Fault, FaultyDisk, Injected, On, Trigger};
pub use random::{fill_garbage, seeded};
pub use speed::Speed;
pub use timed::{DiskWork, TimedDisk};
pub use turns::Turns;
