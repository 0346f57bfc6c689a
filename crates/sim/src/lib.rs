//! Fake hardware for tests and the lab: a virtual clock, seeded randomness, a disk with a volatile cache whose power can
//! be cut anywhere ([`CrashDisk`]), a disk that fails in every way disks fail ([`FaultyDisk`]), and one with a head and a
//! queue whose requests take virtual time ([`TimedDisk`]), which threads share that take turns ([`Turns`]).
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
