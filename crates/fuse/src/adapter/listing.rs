//! READDIR and READDIRPLUS. The offset is the cookie of `vfs`, stable while entries come and go.

use super::{Adapter, Handled, log_errno};
use crate::wire::Reply;
use crate::wire::abi::EntryOut;
use crate::wire::reply::direntplus_bytes;
use firnfs::inode::Kind;
use firnfs::store::Store;
use firnfs::vfs::{Attr, DirEntry, Vfs};
use firnfs::{Outcome, Stop};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_volume::Driven;

/// Entries of one answer. The names lie one after another in one buffer: thousands of small allocations would cost
/// more than the listing itself.
#[derive(Default)]
struct Batch {
    names: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    ino: InodeNo,
    kind: Kind,
    next: u64,
    /// End of the name in [`Batch::names`]; it starts where the one before ends.
    name_end: usize,
    attr: Option<Attr>,
}

impl Batch {
    fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
    }

    fn push(&mut self, entry: DirEntry<'_>) {
        self.names.extend_from_slice(entry.name);
        self.entries.push(Entry {
            ino: entry.ino,
            kind: entry.kind,
            next: entry.next,
            name_end: self.names.len(),
            attr: None,
        });
    }

    /// Gathers entries from `cookie` on that fit into `limit_bytes`, each taking what `cost` says.
    fn gather<S: Store>(
        &mut self,
        vfs: &mut Vfs<S>,
        now: TimeNs,
        ino: InodeNo,
        cookie: u64,
        limit_bytes: usize,
        cost: fn(usize) -> usize,
    ) -> Outcome<()> {
        self.clear();
        let mut used = 0;
        vfs.readdir(now, ino, cookie, &mut |entry| {
            used += cost(entry.name.len());
            let fits = used <= limit_bytes;
            if fits {
                self.push(entry);
            }
            fits
        })
    }

    /// Fills in the attributes. Everything that must be read for them is asked for at once. An entry whose inode cannot
    /// be read goes without: a damaged file must not hide its neighbours.
    fn attributes<S: Store>(&mut self, vfs: &mut Vfs<S>, dir: InodeNo) -> Outcome<()> {
        let mut needed = Vec::new();
        let mut start = 0;
        for entry in &mut self.entries {
            let name = &self.names[start..entry.name_end];
            start = entry.name_end;
            // The kernel has these two already.
            if name == b"." || name == b".." {
                continue;
            }
            match vfs.getattr(entry.ino) {
                Ok(attr) => entry.attr = Some(attr),
                Err(Stop::Need(fetches)) => needed.extend(fetches),
                Err(Stop::Room) => return Err(Stop::Room),
                Err(Stop::Fail(error)) => tracing::warn!("listing: inode {}: {error}", entry.ino),
            }
        }
        if !needed.is_empty() {
            return Err(Stop::Need(needed));
        }
        for entry in self.entries.iter().filter(|entry| entry.attr.is_some()) {
            vfs.store_mut().note_child(dir, entry.ino);
        }
        Ok(())
    }

    /// Counts one hold for each entry that carries attributes; where that is refused, the attributes go.
    fn hold<S: Store>(&mut self, vfs: &mut Vfs<S>) {
        for entry in &mut self.entries {
            if entry.attr.is_some() && vfs.hold(entry.ino).is_err() {
                entry.attr = None;
            }
        }
    }
}

impl<S: Driven> Adapter<S> {
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

    pub(super) fn readdirplus(&self, ino: InodeNo, offset: u64, size: u32, reply: &mut Reply) -> Handled {
        let limit = reply.room(size as usize).len();
        let mut batch = Batch::default();
        self.volume
            .run(|vfs, now| {
                batch.gather(vfs, now, ino, offset, limit, direntplus_bytes)?;
                batch.attributes(vfs, ino)?;
                batch.hold(vfs);
                Ok(())
            })
            .map_err(|e| log_errno("readdirplus", &e))?;
        let mut start = 0;
        for entry in &batch.entries {
            match &entry.attr {
                Some(attr) => reply.put_entry(attr),
                None => reply.put(&EntryOut::default()),
            }
            let name = &batch.names[start..entry.name_end];
            start = entry.name_end;
            reply.put_dirent(limit, entry.ino.0, entry.next, entry.kind, name);
        }
        Ok(())
    }
}
