//! Devices and clocks: the ground on which firnfs runs.
//!
//! A [`Device`] takes requests and completes them later (submit and complete, no blocking calls), so that a file, a
//! raw block device, a power-cut disk and a simulated disk with a queue all fit the trait. This crate contains the
//! real devices ([`FileDevice`]: image files and block devices; [`MemDevice`]: memory) and decorators that observe
//! or restrict any other: [`TraceDevice`], [`CountingDevice`], [`ReadOnlyDevice`].
//!
//! `device` declares the trait, `request` the requests, `buffer`, `huge_pages` and `write_data` their bytes, `error` their failures; `outbox` holds completions
//! of devices that work in `submit`; `own_reads` are reads beside which a thread waits for other things. `file` and `memory` are the real devices, `image` the bytes of a disk in memory; `trace`,
//! `count` and `readonly` have one decorator each. `clock` says where the time comes from.

pub mod buffer;
mod clock;
mod count;
mod device;
mod error;
mod file;
mod huge_pages;
mod image;
mod memory;
mod outbox;
mod own_reads;
mod readonly;
mod request;
mod trace;
mod write_data;

pub use buffer::AlignedBuf;
pub use clock::{Clock, SystemClock};
pub use count::{CountingDevice, Counts};
pub use device::Device;
pub use error::{DeviceError, FailureKind, plain_reason};
pub use file::{Access, DeepReads, DirectIo, FileDevice, FileOptions, Lock, OpenError};
pub use image::{PAGE_BYTES, Pages, SparseImage};
pub use memory::MemDevice;
pub use outbox::Outbox;
pub use own_reads::OwnReads;
pub use readonly::ReadOnlyDevice;
pub use request::{Completion, Geometry, Request, Tag};
pub use trace::{TraceDevice, TraceEntry, digest_of};
pub use write_data::{Pieces, WriteData};
