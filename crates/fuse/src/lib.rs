//! The FUSE adapter: serves a volume to the kernel, and mounts it.
//!
//! Layers, top-down: `session` (a mount from beginning to end), `control` (the socket through which `firn` talks to it),
//! `mount` (mount(2), fusermount3, options), `device` (the `/dev/fuse` transport), [`adapter`] (requests to operations,
//! without a transport), [`wire`] (bytes to requests and back). No file-system logic lives here.

pub mod adapter;
pub mod counters;
pub mod errno;
pub mod wire;

pub use adapter::{Adapter, Handler, Notifier, Settings, Verdict};
