//! Requests of a mount that shows a state of the volume, and nothing else of it.
//!
//! Its root directory is that of the state; all other nodes have the numbers that they have below `.firn/history`, so the volume answers as it
//! does there. The kernel refuses changes, since the mount is read-only; after a remount this does.

use super::handshake::{answer_init, answer_open};
use super::{Adapter, Agreed, Handled, Handler, Settings, Verdict};
use crate::wire::abi::init;
use crate::wire::{Header, Operation, Reply, Request};
use firnfs::engine::Engine;
use firnfs_format::InodeNo;
use rustix::io::Errno;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// See the module's head.
pub(crate) struct StateHandler<S: Engine> {
    adapter: Arc<Adapter<S>>,
    root: InodeNo,
    agreed: OnceLock<Agreed>,
}

impl<S: Engine> StateHandler<S> {
    /// Shows what is below `root`, the root directory of a state.
    pub fn new(adapter: Arc<Adapter<S>>, root: InodeNo) -> Self {
        Self { adapter, root, agreed: OnceLock::new() }
    }

    fn answer(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let agreed = self.agreed.get();
        match request.operation {
            Operation::Init { major, minor, max_readahead, flags } => {
                // A file handle of the root has its number in the state, which this mount calls 1.
                let offered = flags & !init::EXPORT_SUPPORT;
                let agree =
                    || *self.agreed.get_or_init(|| Agreed::with_kernel(minor, offered, Settings::default()));
                answer_init((major, minor), max_readahead, agree, reply)
            }
            Operation::Open => answer_open(agreed, Settings::default(), false, reply),
            Operation::Opendir => answer_open(agreed, Settings::default(), true, reply),
            // Nothing is left to be made durable.
            Operation::Fsync | Operation::Fsyncdir | Operation::Syncfs => Ok(()),
            ref operation if changes(operation) => Err(Errno::ROFS),
            ref operation => {
                let nodeid = match request.header.nodeid {
                    root if root == InodeNo::ROOT.0 => self.root.0,
                    other => other,
                };
                self.adapter.dispatch(&Header { nodeid, ..request.header }, operation, reply)
            }
        }
    }
}

impl<S: Engine> Handler for StateHandler<S> {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Verdict {
        let start = Instant::now();
        let verdict = match &request.operation {
            Operation::Destroy => Verdict::Last,
            // Nothing of the past is freed, so nobody counts who holds it.
            Operation::Forget { .. } | Operation::BatchForget { .. } => Verdict::Silent,
            // Reads wait for nothing but the device.
            Operation::Interrupt { .. } => Verdict::Silent,
            _ => self.answer(request, reply).map_or_else(Verdict::Error, |()| Verdict::Answer),
        };
        self.adapter.count(request, verdict, start);
        verdict
    }

    fn setxattr_ext(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.setxattr_ext)
    }
}

/// Whether it would change something.
fn changes(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Setattr(_)
        | Operation::Symlink { .. }
        | Operation::Mknod { .. }
        | Operation::Mkdir { .. }
        | Operation::Create { .. }
        | Operation::Tmpfile { .. }
        | Operation::Unlink { .. }
        | Operation::Rmdir { .. }
        | Operation::Rename { .. }
        | Operation::Link { .. }
        | Operation::Write { .. }
        | Operation::Setxattr { .. }
        | Operation::Removexattr { .. }
        | Operation::Fallocate { .. }
        | Operation::CopyFileRange { .. } => true,
        Operation::Init { .. }
        | Operation::Destroy
        | Operation::Lookup { .. }
        | Operation::Forget { .. }
        | Operation::BatchForget { .. }
        | Operation::Interrupt { .. }
        | Operation::Getattr
        | Operation::Statx
        | Operation::Readlink
        | Operation::Open
        | Operation::Opendir
        | Operation::Release
        | Operation::Releasedir
        | Operation::Flush
        | Operation::Read { .. }
        | Operation::Fsync
        | Operation::Fsyncdir
        | Operation::Syncfs
        | Operation::Readdir { .. }
        | Operation::Readdirplus { .. }
        | Operation::Statfs
        | Operation::Getxattr { .. }
        | Operation::Listxattr { .. }
        | Operation::Lseek { .. }
        | Operation::Ioctl
        | Operation::Unknown => false,
    }
}
