//! Fake hardware for tests and the lab: a virtual clock, seeded randomness, a disk with a volatile cache whose power can
//! be cut anywhere ([`CrashDisk`]), a disk that fails in every way disks fail ([`FaultyDisk`]), and one whose
//! requests take virtual time ([`TimedDisk`]), which threads share that take turns ([`Turns`]); one whose head has to move
//! ([`SeekDisk`]).
//!
//! Everything here is deterministic: the same seed and the same requests give the same behaviour, byte for byte.

mod clock;
pub mod crash;
mod faulty;
mod random;
mod seek;
mod timed;
mod turns;

pub use clock::VirtualClock;
pub use crash::{CrashDisk, CrashState, DiscardMode, Fate, History, Replay};
pub use faulty::{Effect, Fault, FaultyDisk, Injected, On, Trigger};
pub use random::{fill_garbage, seeded};
pub use seek::{HeadSpeed, Motion, SeekDisk};
pub use timed::{Speed, TimedDisk};
pub use turns::Turns;
