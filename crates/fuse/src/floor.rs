//! The floor: a file system with nothing behind it, to learn what FUSE itself costs on a machine.
//!
//! [`Floor`] mounts it over the transports that firnfs uses, with the capabilities that firnfs agrees on, so the kernel sends the same
//! requests. Each is answered at once: names that begin with `have`, `small` and `tree` exist (a large file, a small one, a directory
//! with some names in it), others do not, until they are created; writes are forgotten, reads are zeros. Nothing is checked. Caller:
//! `firn bench floor`.

use crate::adapter::{Agreed, Attempt, Handler, MAX_WRITE_BYTES, Settings, Tried, Verdict, answer_init};
use crate::device::DeviceTransport;
use crate::mount::{self, MountOptions, MountRequest, table};
use crate::session::{SessionError, TransportChoice, begin, serve_requests};
use crate::wire::abi::{self, FuseAttr};
use crate::wire::reply::{FOREVER_S, direntplus_bytes};
use crate::wire::{Operation, Reply, Request};
use firnfs::inode::Kind;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Size of every file, in bytes, as far as anybody who looks it up is told.
pub const FILE_BYTES: u64 = 1 << 30;
/// What names of files that exist begin with.
pub const EXISTING: &str = "have";
/// What names of files of [`SMALL_BYTES`] begin with.
pub const SMALL: &str = "small";
/// Size of such a file, in bytes.
pub const SMALL_BYTES: u64 = 1024;
/// What names of directories that exist begin with.
pub const DIRECTORY: &str = "tree";
/// Names in each directory that exists.
pub const LISTED: u64 = 14;
const ROOT: u64 = 1;
/// Set in the numbers of directories.
const DIRECTORY_BIT: u64 = 1 << 40;
const DIRECTORY_MODE: u32 = 0o040_755;
const FILE_MODE: u32 = 0o100_644;

/// The mounted floor; unmounted when it is dropped.
pub struct Floor {
    mountpoint: PathBuf,
    serving: Option<JoinHandle<()>>,
}

impl Floor {
    /// Mounts it on an existing directory and serves it with so many threads (`/dev/fuse`), or one for each processor (io_uring); with
    /// `writeback_cache`, the kernel collects writes.
    ///
    /// # Errors
    /// The directory cannot be mounted on, or the transport cannot be had.
    pub fn mount(
        mountpoint: &Path,
        choice: TransportChoice,
        writeback_cache: bool,
        threads: usize,
    ) -> Result<Self, SessionError> {
        let mountpoint = mount::prepare_mountpoint(mountpoint)?;
        let request = MountRequest {
            source: "floor".into(),
            mountpoint: mountpoint.clone(),
            options: MountOptions::default(),
        };
        let transport = DeviceTransport::new(mount::mount(&request)?);
        let files = NullFiles {
            settings: Settings { writeback_cache, ..Settings::default() },
            ..NullFiles::default()
        };
        let uring = begin(&files, &transport, choice).inspect_err(|_| {
            let _gone_already = mount::unmount(&mountpoint, true);
        })?;
        let serve = move || {
            let served = serve_requests(uring, &transport, &files, (choice, threads), || {});
            if let Err(error) = served {
                tracing::error!("{error}");
            }
        };
        let serving = Some(std::thread::spawn(serve));
        let floor = Self { mountpoint, serving };
        let mounts = table::firnfs_mounts().map_err(SessionError::Control)?;
        if let Some(mount) = mounts.iter().rev().find(|mount| mount.mountpoint == floor.mountpoint) {
            mount::tune_page_cache(mount, MAX_WRITE_BYTES);
        }
        Ok(floor)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        if let Err(error) = mount::unmount(&self.mountpoint, true) {
            tracing::error!("{error}");
            return;
        }
        let _panicked = self.serving.take().map(JoinHandle::join);
    }
}

#[derive(Default)]
pub(crate) struct NullFiles {
    settings: Settings,
    agreed: OnceLock<Agreed>,
    made: AtomicU64,
}

impl NullFiles {
    fn new_number(&self) -> u64 {
        ROOT + 1 + self.made.fetch_add(1, Ordering::Relaxed)
    }

    fn new_directory(&self) -> abi::EntryOut {
        entry(self.new_number() | DIRECTORY_BIT, 0)
    }

    fn lookup(&self, name: &[u8]) -> abi::EntryOut {
        let begins = |with: &str| name.starts_with(with.as_bytes());
        match () {
            () if begins(EXISTING) => entry(self.new_number(), FILE_BYTES),
            () if begins(SMALL) => entry(self.new_number(), SMALL_BYTES),
            () if begins(DIRECTORY) => self.new_directory(),
            () => abi::EntryOut { entry_valid: FOREVER_S, ..Default::default() },
        }
    }

    /// The names of a directory from an offset on, each with its file if `plus`.
    fn list(&self, (directory, offset): (u64, u64), size: u32, plus: bool, reply: &mut Reply) {
        let limit = reply.room(size as usize).len();
        let names = if directory & DIRECTORY_BIT == 0 { 0 } else { LISTED };
        for number in offset..names {
            let name = format!("f{number:02}.rs");
            let file = entry(self.new_number(), SMALL_BYTES);
            if plus {
                if reply.payload().len() + direntplus_bytes(name.len()) > limit {
                    break;
                }
                reply.put(&file);
            }
            if !reply.put_dirent(limit, file.nodeid, number + 1, Kind::Regular, name.as_bytes()) {
                break;
            }
        }
    }

    fn agreed(&self, is_wanted: impl Fn(&Agreed) -> bool) -> Result<(), Errno> {
        if self.agreed.get().is_some_and(is_wanted) { Err(Errno::NOSYS) } else { Ok(()) }
    }

    fn answer(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let opened =
            abi::OpenOut { open_flags: abi::FOPEN_KEEP_CACHE | abi::FOPEN_NOFLUSH, ..Default::default() };
        match request.operation {
            Operation::Init { major, minor, max_readahead, flags } => {
                let agree = || *self.agreed.get_or_init(|| Agreed::with_kernel(minor, flags, self.settings));
                answer_init((major, minor), max_readahead, agree, reply)?;
            }
            Operation::Lookup { name } => reply.put(&self.lookup(name)),
            Operation::Create { .. } => {
                reply.put(&entry(self.new_number(), 0));
                reply.put(&opened);
            }
            Operation::Mkdir { .. } => reply.put(&self.new_directory()),
            Operation::Readdir { offset, size } => {
                self.list((request.header.nodeid, offset), size, false, reply);
            }
            Operation::Readdirplus { offset, size } => {
                self.list((request.header.nodeid, offset), size, true, reply);
            }
            Operation::Getattr | Operation::Setattr(_) => {
                let attr = attributes(request.header.nodeid, 0);
                reply.put(&abi::AttrOut { attr_valid: FOREVER_S, attr, ..Default::default() });
            }
            Operation::Write { data, .. } => {
                reply.put(&abi::WriteOut { size: data.len() as u32, padding: 0 });
            }
            Operation::Read { size, .. } => {
                let room = reply.room(size as usize);
                room.fill(0);
                let len = room.len();
                reply.filled(len);
            }
            Operation::Open => {
                self.agreed(|agreed| agreed.no_open)?;
                reply.put(&opened);
            }
            Operation::Opendir => {
                self.agreed(|agreed| agreed.no_opendir)?;
                reply.put(&opened);
            }
            Operation::Getxattr { .. } => return Err(Errno::NODATA),
            Operation::Unlink { .. } | Operation::Fsync | Operation::Syncfs => {}
            Operation::Statfs => reply.put(&abi::StatfsOut { bsize: 4096, ..Default::default() }),
            _ => return Err(Errno::NOSYS),
        }
        Ok(())
    }
}

fn entry(nodeid: u64, size: u64) -> abi::EntryOut {
    let attr = attributes(nodeid, size);
    abi::EntryOut { nodeid, entry_valid: FOREVER_S, attr_valid: FOREVER_S, attr, ..Default::default() }
}

fn attributes(ino: u64, size: u64) -> FuseAttr {
    let mode = if ino == ROOT || ino & DIRECTORY_BIT != 0 { DIRECTORY_MODE } else { FILE_MODE };
    FuseAttr { ino, size, mode, nlink: 1, blksize: 4096, ..Default::default() }
}

impl Handler for NullFiles {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Verdict {
        match request.operation {
            Operation::Forget { .. } | Operation::BatchForget { .. } | Operation::Interrupt { .. } => {
                Verdict::Silent
            }
            Operation::Destroy => Verdict::Last,
            _ => match self.answer(request, reply) {
                Ok(()) => Verdict::Answer,
                Err(errno) => Verdict::Error(errno),
            },
        }
    }

    fn try_handle(&self, request: &Request<'_>, reply: &mut Reply, _attempt: &Attempt) -> Tried {
        Tried::Done(self.handle(request, reply))
    }

    fn setxattr_ext(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.setxattr_ext)
    }
}
