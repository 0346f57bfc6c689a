//! The floor: a file system with nothing behind it, to learn what FUSE itself costs on a machine.
//!
//! [`Floor`] mounts it over the transports that firnfs uses, with the capabilities that firnfs agrees on, so the kernel sends the same
//! requests. Each is answered at once: names that begin with `have` exist, others do not, until they are created; writes are
//! forgotten, reads are zeros. Nothing is checked. Caller: `firn bench floor`.

use crate::adapter::{Agreed, Handler, MAX_WRITE_BYTES, Settings, Verdict, answer_init};
use crate::device::DeviceTransport;
use crate::mount::{self, MountOptions, MountRequest, table};
use crate::session::{SessionError, TransportChoice, begin};
use crate::wire::abi::{self, FuseAttr};
use crate::wire::reply::FOREVER_S;
use crate::wire::{Operation, Reply, Request};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Size of every file, in bytes, as far as anybody who looks it up is told.
pub const FILE_BYTES: u64 = 1 << 30;
/// What names of files that exist begin with.
pub const EXISTING: &str = "have";
const ROOT: u64 = 1;
const DIRECTORY_MODE: u32 = 0o040_755;
const FILE_MODE: u32 = 0o100_644;

/// The mounted floor; unmounted when it is dropped.
pub struct Floor {
    mountpoint: PathBuf,
    serving: Option<JoinHandle<()>>,
}

impl Floor {
    /// Mounts it on an existing directory and serves it with so many threads (`/dev/fuse`), or one for each processor (io_uring).
    ///
    /// # Errors
    /// The directory cannot be mounted on, or the transport cannot be had.
    pub fn mount(mountpoint: &Path, choice: TransportChoice, threads: usize) -> Result<Self, SessionError> {
        let mountpoint = mount::prepare_mountpoint(mountpoint)?;
        let request = MountRequest {
            source: "floor".into(),
            mountpoint: mountpoint.clone(),
            options: MountOptions::default(),
        };
        let transport = DeviceTransport::new(mount::mount(&request)?);
        let files = NullFiles::default();
        let uring = begin(&files, &transport, choice).inspect_err(|_| {
            let _gone_already = mount::unmount(&mountpoint, true);
        })?;
        let serve = move || {
            let served = match uring {
                Some(uring) => uring.serve(&transport, &files),
                None => transport.serve(&files, threads),
            };
            if let Err(error) = served {
                tracing::error!("{error}");
            }
        };
        let serving = Some(std::thread::spawn(serve));
        let floor = Self { mountpoint, serving };
        let mounts = table::firnfs_mounts().map_err(SessionError::Control)?;
        if let Some(mount) = mounts.iter().rev().find(|mount| mount.mountpoint == floor.mountpoint) {
            mount::raise_read_ahead(mount, MAX_WRITE_BYTES);
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
struct NullFiles {
    agreed: OnceLock<Agreed>,
    made: AtomicU64,
}

impl NullFiles {
    fn new_file(&self) -> abi::EntryOut {
        let nodeid = ROOT + 1 + self.made.fetch_add(1, Ordering::Relaxed);
        entry(nodeid, FILE_BYTES)
    }

    fn lookup(&self, name: &[u8]) -> abi::EntryOut {
        match name.starts_with(EXISTING.as_bytes()) {
            true => self.new_file(),
            false => abi::EntryOut { entry_valid: FOREVER_S, ..Default::default() },
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
                let agree =
                    || *self.agreed.get_or_init(|| Agreed::with_kernel(minor, flags, Settings::default()));
                answer_init((major, minor), max_readahead, agree, reply)?;
            }
            Operation::Lookup { name } => reply.put(&self.lookup(name)),
            Operation::Create { .. } => {
                let mut entry = self.new_file();
                entry.attr.size = 0;
                reply.put(&entry);
                reply.put(&opened);
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
            Operation::Unlink { .. }
            | Operation::Fsync
            | Operation::Syncfs
            | Operation::Readdir { .. }
            | Operation::Readdirplus { .. } => {}
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
    let mode = if ino == ROOT { DIRECTORY_MODE } else { FILE_MODE };
    FuseAttr { ino, size, mode, nlink: 1, blksize: 4096, ..Default::default() }
}

impl Handler for NullFiles {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Verdict {
        match request.operation {
            Operation::Forget { .. } | Operation::BatchForget { .. } => Verdict::Silent,
            Operation::Destroy => Verdict::Last,
            _ => match self.answer(request, reply) {
                Ok(()) => Verdict::Answer,
                Err(errno) => Verdict::Error(errno),
            },
        }
    }

    fn try_handle(&self, request: &Request<'_>, reply: &mut Reply) -> Option<Verdict> {
        Some(self.handle(request, reply))
    }

    fn setxattr_ext(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.setxattr_ext)
    }
}
