//! The probe: a file that exists for a moment, so that the daemon itself can open it.
//!
//! The answer to the first OPEN tells the kernel that it need not send OPEN or RELEASE any more. If a user's file were
//! the first to be opened, every file created before would cost a RELEASE at its close (unpacking an archive opens no
//! existing file).

use super::{Adapter, Handled};
use crate::wire::abi::{AttrOut, EntryOut, FuseAttr};
use crate::wire::{Header, Operation, Reply};
use firnfs::engine::Engine;
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// Its name in the root.
pub const PROBE_NAME: &str = ".firnfs-handshake";

/// Its inode, which no volume has: inode numbers are smaller.
pub(crate) const PROBE_NODE: u64 = u64::MAX - 1;

impl<S: Engine> Adapter<S> {
    /// Shows the probe to everybody, or hides it again. The kernel caches nothing of it.
    pub fn set_probing(&self, probing: bool) {
        self.probing.store(probing, Ordering::SeqCst);
    }

    pub(super) fn is_probe(&self, header: &Header, operation: &Operation<'_>) -> bool {
        header.nodeid == PROBE_NODE
            || (self.probing.load(Ordering::SeqCst)
                && matches!(operation, Operation::Lookup { name } if *name == PROBE_NAME.as_bytes()))
    }

    /// Answers a lookup of the probe, and an open as for every other file.
    pub(super) fn probe(&self, operation: &Operation<'_>, reply: &mut Reply) -> Handled {
        let attr = FuseAttr { ino: PROBE_NODE, mode: 0o100_600, nlink: 1, ..Default::default() };
        match operation {
            Operation::Lookup { .. } => {
                reply.put(&EntryOut { nodeid: PROBE_NODE, attr, ..Default::default() });
                Ok(())
            }
            Operation::Getattr => {
                reply.put(&AttrOut { attr, ..Default::default() });
                Ok(())
            }
            Operation::Open => self.open(false, reply),
            Operation::Release => Ok(()),
            _ => Err(Errno::NOSYS),
        }
    }
}
