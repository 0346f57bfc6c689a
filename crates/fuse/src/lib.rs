//! The FUSE adapter: serves a volume to the kernel, and mounts it.
//!
//! Layers, top-down: [`session`] (a mount from beginning to end), [`beside`] (further mounts, of states of the volume),
//! [`control`] (the socket through which `firn` talks to the daemon) and [`sockets`] (where it is), [`mount`] (mount(2),
//! fusermount3, options), [`device`] (the `/dev/fuse` transport), [`uring`] (the one over io_uring) and [`lead`] (the choice of
//! its reader), [`adapter`] (requests to operations, without a transport) and [`record`] (what passes through it, into files),
//! [`wire`] (bytes to requests and back). Beside them: `counters` (of requests, with times), `errno` (errors to numbers),
//! `handover` (an open file for another process), `interrupts` (requests whose callers were killed), `wakeful` (processors that do not sleep deeply), `preference` (callers that stay on their processors), `floor` (a file system with
//! nothing behind it, to measure FUSE). This crate contains no file-system logic.

pub mod adapter;
pub mod beside;
pub mod control;
pub mod counters;
pub mod device;
pub mod errno;
pub mod floor;
pub mod handover;
pub mod interrupts;
pub mod lead;
pub mod mount;
pub mod preference;
pub mod record;
pub mod session;
pub mod sockets;
pub mod uring;
pub mod wakeful;
pub mod wire;

pub use adapter::{Adapter, Handler, Notifier, Settings, Verdict};
pub use mount::{MountError, MountOptions, MountRequest};
pub use record::{RecordPlan, RecordStatus};
pub use session::{
    Session, SessionConfig, SessionError, TransportChoice, become_io_flusher, default_threads,
};
