//! The lab: experiments on file systems, firnfs among them. Adapters call it; nothing that a mount needs depends on it.
//!
//! [`micro`] is the micro benchmark (`firn bench micro`). It drives any POSIX directory through system calls, and firnfs also
//! through its library. Unlike the core, the lab reads clocks, because it measures.
//!
//! [`mounted`] runs the papers' workloads on mounted directories (`firn bench DIR...`).
//!
//! [`floor`] measures what FUSE itself costs (`firn bench floor`).
//!
//! [`hardware`] runs the file system on simulated machines and disks of the papers' time.
//!
//! [`age`] ages file systems and says how their files are laid out (`firn age`).
//!
//! [`cleaning`] simulates segment cleaning (`firn sim`), with blocks and segments only. [`coalescing`] runs the real file
//! system on a disk with a head, in virtual time.
//!
//! [`history`] simulates what keeping the past costs (`firn sim history`), in the same way.
//!
//! [`trace`] replays workload files on the real log in virtual time (`firn sim trace`).
//!
//! What they share: `plot` draws curves and bars, `calendar` writes dates, `random` draws numbers, `error` says why an experiment
//! failed.

pub mod age;
pub mod calendar;
pub mod cleaning;
pub mod coalescing;
pub mod error;
pub mod floor;
pub mod hardware;
pub mod history;
pub mod micro;
pub mod mounted;
pub mod plot;
mod random;
pub mod trace;

pub use error::LabError;
