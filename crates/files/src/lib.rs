//! firnfs inside a program, in the manner of [`std::fs`]: paths, open files, directories.
//!
//! ```text
//!   your program
//!      |  paths; File: Read + Write + Seek
//!   files      this crate: Fs, File, ReadDir, Walk, Metadata
//!      |  inode numbers, operations as closures
//!   volume     the driver: one lock, retries, reads
//!      |  Need, Room, jobs, tickets
//!   fs         the library, without threads, clocks or I/O
//!      |  requests
//!   device     an image file, a block device, memory, or a type of yours
//! ```
//!
//! ```
//! use firnfs_files::{File, Fs, FsOptions, MemDevice, NewVolume};
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//!
//! # fn main() -> std::io::Result<()> {
//! let device = Arc::new(MemDevice::new(64 << 20)); // or a FileDevice
//! let new = NewVolume { label: "notes".into(), uuid: [7; 16], hash_key: [1, 2] }; // random in earnest
//! let fs = Fs::format(device.clone(), &new, FsOptions::default())?;
//!
//! fs.create_dir_all("2026/november")?;
//! let mut file = File::create(&fs, "2026/november/first")?;
//! file.write_all(b"hello")?;
//! file.sync_all()?; // durable now, with its names
//! fs.close()?;
//!
//! let fs = Fs::open(device, FsOptions::default())?;
//! let mut text = String::new();
//! File::open(&fs, "2026/november/first")?.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! **Paths** are bytes: `&str`, `&[u8]`, `String` and `Vec<u8>` will do; of a [`std::path::Path`] take
//! `path.as_os_str().as_bytes()` ([`std::os::unix::ffi::OsStrExt`]). A program has no current directory on a volume, so every
//! path starts at the root, with or without a `/` in front. `.`, `..` and symbolic links mean what they mean to the kernel.
//! Each operation resolves its path and does its work in one step: no other thread can rename a directory in between.
//!
//! **Errors** are [`std::io::Error`], so that `?` and the traits of `std::io` work. [`fs_error`] returns the [`firnfs::FsError`]
//! inside, which names place, expected and found value of damage.
//!
//! **Identity.** [`FsOptions::caller`] owns new files; [`Fs::with_caller`] gives a handle for another caller. Quotas bind every
//! caller but user 0, and a write by any other caller clears set-id bits. Permission bits are stored and shown but *not checked*:
//! the program that has the device can read all of it anyhow.
//!
//! **Threads.** All types are `Send + Sync`. The crate starts no thread unless [`Fs::start_background`] asks for one: without it, the
//! calls that make background work necessary do it, and changes become durable at the next sync, not by age. The device is the
//! program's: a [`FileDevice`] starts two threads that write, and none with [`FileOptions::writer_threads`] = 0.
//!
//! **Any volume.** [`Fs::open`] opens a log; [`Fs::over`] takes any [`Volume`], also one of the Fast File
//! System or in memory.
//!
//! **Modules.** `fs`: a volume. `names`: operations on paths; `resolve`: paths to inodes. `open_options`, `file`: opening files,
//! and open ones. `metadata`, `directory`: what is known about a file; directories as iterators. `background`: the one thread.
//! `error`: errors as `std::io` has them.

mod background;
mod directory;
mod error;
mod file;
mod fs;
mod metadata;
mod names;
mod open_options;
mod resolve;

pub use background::Background;
pub use directory::{DirEntry, ReadDir, Walk, WalkEntry};
pub use error::fs_error;
pub use file::File;
pub use firnfs::FsError;
pub use firnfs::inode::Kind;
pub use firnfs::lfs::{Lfs, Options};
pub use firnfs::store::Space;
pub use firnfs::vfs::{AtimeMode, Caller, RenameMode};
pub use firnfs_device::{AlignedBuf, Clock, Device, FileDevice, FileOptions, MemDevice, SystemClock};
pub use firnfs_format::InodeNo;
pub use firnfs_volume::Volume;
pub use fs::{Fs, FsOptions, NewVolume};
pub use metadata::{FileTimes, Metadata};
pub use open_options::OpenOptions;
