//! Content and attributes of an inode: blocks that differ, in runs, with the checksums of their pointers.

use super::{Item, SendError, Sender, State};
use firnfs::FsError;
use firnfs::inode::{Body, Inode, Kind};
use firnfs::lfs::BlockChange;
use firnfs::ufs::xattr;
use firnfs_format::stream::{Attributes, CONTENT_MAX_BYTES, Frame};
use firnfs_format::{BlockIndex, InodeNo};

/// The attribute in which a receiver keeps what it received last: it describes the receiver's volume.
pub(crate) const RECEIVED_XATTR: &[u8] = b"trusted.firn.received";

/// Neighbouring blocks with content.
#[derive(Default)]
struct Run {
    first: u64,
    pointers: Vec<(u32, u32)>,
}

impl Sender<'_> {
    /// Sends the changes of an inode, except those of its names.
    pub(super) fn content_of(&mut self, at: usize) -> Result<(), SendError> {
        let Item { ino, kind: Some(kind), is_same, .. } = self.items[at] else { return Ok(()) };
        let after = self.to.named(self.volume, ino)?.ok_or(FsError::NotFound)?;
        let before = self.from.filter(|_| is_same);
        if kind == Kind::Regular {
            self.frames.put(&Frame::Size { ino, size_bytes: after.size_bytes })?;
            self.content(before, ino, &after)?;
        }
        self.xattrs(before, ino)?;
        self.frames.put(&Frame::Attributes(Attributes {
            ino,
            mode: after.mode,
            uid: after.uid,
            gid: after.gid,
            nlink: after.nlink,
            size_bytes: after.size_bytes,
            atime: after.atime,
            mtime: after.mtime,
            ctime: after.ctime,
        }))
    }

    fn content(&mut self, before: Option<State>, ino: InodeNo, after: &Inode) -> Result<(), SendError> {
        if let Body::Inline(bytes) = &after.body {
            self.content_bytes += bytes.len() as u64;
            return self.frames.put(&Frame::Content { ino, at_bytes: 0, pointers: Vec::new(), bytes });
        }
        // Content in the inode record was in no block, so no pointer tells of it. It is gone unless the first block has content, which
        // follows.
        let inode = before.map_or(Ok(None), |state| state.named(self.volume, ino))?;
        let before =
            before.filter(|_| inode.as_ref().is_some_and(|inode| matches!(inode.body, Body::Blocks)));
        if inode.is_some_and(|inode| matches!(&inode.body, Body::Inline(bytes) if !bytes.is_empty())) {
            let len_bytes = u64::from(self.block_bytes);
            self.frames.put(&Frame::Hole { ino, at_bytes: 0, len_bytes, is_reserved: false })?;
        }
        let end = BlockIndex(after.size_bytes.div_ceil(u64::from(self.block_bytes)));
        let (mut next, mut run) = (Some(BlockIndex(0)), Run::default());
        while let Some(start) = next {
            let mut changes = Vec::new();
            next = self.volume.run_quietly(|vfs, _| {
                changes.clear();
                let first = before.map(|state| state.epoch);
                vfs.store_mut().differing_blocks(first, self.to.epoch, ino, start..end, &mut changes)
            })?;
            for change in changes {
                self.note(&mut run, ino, after.size_bytes, change)?;
            }
        }
        self.end_run(&mut run, ino, after.size_bytes)
    }

    fn note(
        &mut self,
        run: &mut Run,
        ino: InodeNo,
        size_bytes: u64,
        change: BlockChange,
    ) -> Result<(), SendError> {
        let block_bytes = u64::from(self.block_bytes);
        let (first, count, is_reserved) = match change {
            BlockChange::Stored { index, crc, stored_bytes } => {
                let is_next = run.first + run.pointers.len() as u64 == index.0;
                let is_full = (run.pointers.len() as u64 + 1) * block_bytes > CONTENT_MAX_BYTES as u64;
                if !is_next || is_full || run.pointers.is_empty() {
                    self.end_run(run, ino, size_bytes)?;
                    run.first = index.0;
                }
                run.pointers.push((crc, stored_bytes));
                return Ok(());
            }
            BlockChange::Hole { first, count } => (first.0, count, false),
            BlockChange::Reserved { index } => (index.0, 1, true),
        };
        let at_bytes = first.saturating_mul(block_bytes);
        let end_bytes = first.saturating_add(count).saturating_mul(block_bytes);
        // A truncation frees what lies after the last block.
        let end_bytes =
            if is_reserved { end_bytes } else { end_bytes.min(size_bytes.next_multiple_of(block_bytes)) };
        if at_bytes >= end_bytes {
            return Ok(());
        }
        self.frames.put(&Frame::Hole { ino, at_bytes, len_bytes: end_bytes - at_bytes, is_reserved })
    }

    /// Sends a run of blocks.
    fn end_run(&mut self, run: &mut Run, ino: InodeNo, size_bytes: u64) -> Result<(), SendError> {
        let pointers = std::mem::take(&mut run.pointers);
        if pointers.is_empty() {
            return Ok(());
        }
        let block_bytes = u64::from(self.block_bytes);
        let at_bytes = run.first * block_bytes;
        let end_bytes = (at_bytes + pointers.len() as u64 * block_bytes).min(size_bytes);
        let len = end_bytes.saturating_sub(at_bytes) as usize;
        self.content_bytes += len as u64;
        if self.frames.pass(pointers.len(), len) {
            return Ok(());
        }
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            match self.volume.read(self.to.ino(ino), at_bytes + done as u64, &mut bytes[done..])? {
                0 => return Err(FsError::Stale.into()),
                read => done += read,
            }
        }
        self.frames.put(&Frame::Content { ino, at_bytes, pointers, bytes: &bytes })
    }

    fn xattrs(&mut self, before: Option<State>, ino: InodeNo) -> Result<(), SendError> {
        let load =
            |state: State| self.volume.run_quietly(|vfs, _| xattr::load(vfs.store_mut(), state.ino(ino)));
        let (old, new) = (before.map_or(Ok(Vec::new()), load)?, load(self.to)?);
        for entry in xattr::entries(&new) {
            let entry = entry?;
            if entry.name != RECEIVED_XATTR && xattr::find(&old, entry.name)? != Some(entry.value) {
                self.frames.put(&Frame::Xattr { ino, name: entry.name, value: Some(entry.value) })?;
            }
        }
        for entry in xattr::entries(&old) {
            let name = entry?.name;
            if name != RECEIVED_XATTR && xattr::find(&new, name)?.is_none() {
                self.frames.put(&Frame::Xattr { ino, name, value: None })?;
            }
        }
        Ok(())
    }
}
