//! READDIR and READDIRPLUS. The offset is the cookie of `vfs`, which stays valid while entries come and go. `walks` says which listings
//! carry the attributes of files.

use super::{Adapter, Handled, log_errno};
use crate::wire::abi::EntryOut;
use crate::wire::reply::direntplus_bytes;
use crate::wire::{Header, Reply};
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::vfs::Wanted;
use firnfs_format::InodeNo;
use std::time::Instant;

impl<S: Engine> Adapter<S> {
    pub(super) fn readdir(&self, ino: InodeNo, offset: u64, size: u32, reply: &mut Reply) -> Handled {
        let limit = size as usize;
        self.volume
            .run(|vfs, now| {
                reply.clear();
                vfs.readdir(now, ino, offset, &mut |e| {
                    reply.put_dirent(limit, e.ino.0, e.next, e.kind, e.name)
                })
            })
            .map_err(|e| log_errno("readdir", &e))?;
        Ok(())
    }

    pub(super) fn readdirplus(&self, header: &Header, offset: u64, size: u32, reply: &mut Reply) -> Handled {
        let ino = InodeNo(header.nodeid);
        let limit = reply.room(size as usize).len();
        let with_files = self.walks.wants_files(header.unique, offset, Instant::now());
        let mut files = 0;
        let listing = self
            .volume
            .run(|vfs, now| {
                let mut used = 0;
                files = 0;
                vfs.readdirplus(now, ino, offset, &mut |entry| {
                    used += direntplus_bytes(entry.name.len());
                    let is_file = entry.kind != Kind::Directory;
                    files += u32::from(is_file && used <= limit);
                    match used <= limit {
                        false => Wanted::Nothing,
                        true if is_file && !with_files => Wanted::Name,
                        true => Wanted::Attributes,
                    }
                })
            })
            .map_err(|e| log_errno("readdirplus", &e))?;
        if !with_files {
            self.walks.note_listed(ino, files);
        }
        for (entry, attr) in listing.iter() {
            match attr {
                Ok(Some(attr)) => reply.put_entry(attr),
                Ok(None) => reply.put(&EntryOut::default()),
                Err(error) => {
                    tracing::warn!("listing: inode {}: {error}", entry.ino);
                    reply.put(&EntryOut::default());
                }
            }
            reply.put_dirent(limit, entry.ino.0, entry.next, entry.kind, entry.name);
        }
        Ok(())
    }
}
