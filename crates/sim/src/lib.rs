//! Simulated hardware for tests and the lab: a virtual clock, seeded randomness, and three disks. [`CrashDisk`] has a
//! volatile cache, and its power can be cut anywhere. [`FaultyDisk`] fails in every way in which disks fail.
//! [`TimedDisk`] takes the virtual time of a model of a disk ([`disk`]): one of constant times, a mechanical one with seek curve,
//! rotation and track buffer, or a solid-state one. Threads that share it take turns ([`Turns`]).
//!
//! A [`Machine`] adds a processor ([`machine`]): work takes virtual time while the disk proceeds.
//!
//! Everything here is deterministic: the same seed and the same requests give the same behaviour, byte for byte.
//!
//! `clock` is the virtual clock, `turns` the threads that take turns, `random` the seeded randomness. `crash`, `faulty` and
//! `timed` have one disk each; `speed` says how fast one of constant times is. `params` reads files of parameters.

mod clock;
pub mod crash;
pub mod disk;
mod faulty;
pub mod machine;
mod params;
mod random;
mod speed;
mod timed;
mod turns;

pub use clock::VirtualClock;
pub use crash::{CrashDisk, CrashState, DiscardMode, Fate, History, Replay};
pub use faulty::{Effect, Fault, FaultyDisk, Injected, On, Trigger};
pub use machine::{CpuModel, Machine, MachineDisk};
pub use random::{fill_garbage, seeded};
pub use speed::Speed;
pub use timed::{DiskWork, Host, Spent, TimedDisk};
pub use turns::Turns;
