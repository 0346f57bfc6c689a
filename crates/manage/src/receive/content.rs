//! Content and attributes. The checksums of the pointers that led to the content on the sending volume are computed again.

use super::{Receiver, Wrong};
use firnfs::vfs::{Allocate, SetAttr, SetTime, XattrMode};
use firnfs_format::stream::Attributes;
use firnfs_format::{InodeNo, SECTOR_BYTES, crc32c_of};

impl Receiver<'_> {
    pub(super) fn resize(&mut self, ino: InodeNo, size_bytes: u64) -> Result<(), Wrong> {
        let ino = self.users(ino)?;
        let set = SetAttr { size_bytes: Some(size_bytes), ..SetAttr::default() };
        self.volume.run(|vfs, now| vfs.setattr(now, ino, set))?;
        Ok(())
    }

    pub(super) fn content(
        &mut self,
        ino: InodeNo,
        at_bytes: u64,
        pointers: &[(u32, u32)],
        bytes: &[u8],
    ) -> Result<(), Wrong> {
        let ino = self.users(ino)?;
        if !pointers.is_empty() {
            self.verify(at_bytes, pointers, bytes)?;
        }
        self.content_bytes += bytes.len() as u64;
        Ok(self.volume.write_all(ino, at_bytes, bytes, false)?)
    }

    /// Compares content with the checksums of its pointers.
    fn verify(&self, at_bytes: u64, pointers: &[(u32, u32)], bytes: &[u8]) -> Result<(), Wrong> {
        let block_bytes = self.header.block_bytes as usize;
        let is_whole = block_bytes > 0
            && at_bytes.is_multiple_of(block_bytes as u64)
            && bytes.len().div_ceil(block_bytes) == pointers.len();
        if !is_whole {
            return Err(Wrong::Frame("content that is not made of blocks".to_owned()));
        }
        for (at, (block, (crc, stored_bytes))) in bytes.chunks(block_bytes).zip(pointers).enumerate() {
            let stored = (*stored_bytes as usize).min(255 * SECTOR_BYTES as usize);
            let (kept, rest) = block.split_at(stored.min(block.len()));
            let padding = vec![0; stored - kept.len()];
            if crc32c_of(&[kept, &padding]) != *crc || rest.iter().any(|byte| *byte != 0) {
                return Err(Wrong::Frame(format!(
                    "block {at} of the frame does not have the checksum of its pointer"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn hole(
        &mut self,
        ino: InodeNo,
        (at_bytes, len_bytes): (u64, u64),
        is_reserved: bool,
    ) -> Result<(), Wrong> {
        let ino = self.users(ino)?;
        let end_bytes = at_bytes
            .checked_add(len_bytes)
            .filter(|end| i64::try_from(*end).is_ok())
            .ok_or_else(|| Wrong::Frame("a hole beyond the largest file".to_owned()))?;
        let size_bytes = self.volume.run(|vfs, _| vfs.getattr(ino))?.size_bytes;
        // There is nothing after the end of the file to make a hole in.
        let end_bytes = if is_reserved { end_bytes } else { end_bytes.min(size_bytes) };
        if at_bytes >= end_bytes {
            return Ok(());
        }
        let mode = if is_reserved { Allocate::KeepSize } else { Allocate::PunchHole };
        let mut next = Some(at_bytes);
        // A reserved block may have had content.
        if is_reserved {
            self.hole(ino, (at_bytes, len_bytes), false)?;
        }
        while let Some(at) = next {
            next = self.volume.run(|vfs, now| vfs.fallocate(now, ino, mode, at, end_bytes - at, false))?;
        }
        Ok(())
    }

    pub(super) fn xattr(&mut self, ino: InodeNo, name: &[u8], value: Option<&[u8]>) -> Result<(), Wrong> {
        let ino = self.users(ino)?;
        if name == crate::send::RECEIVED_XATTR {
            return Err(Wrong::Frame("an attribute that receivers keep for themselves".to_owned()));
        }
        self.volume.run(|vfs, now| match value {
            Some(value) => vfs.setxattr(now, ino, name, value, XattrMode::Any),
            None => vfs.removexattr(now, ino, name),
        })?;
        Ok(())
    }

    pub(super) fn attributes(&mut self, attributes: &Attributes) -> Result<(), Wrong> {
        let ino = self.users(attributes.ino)?;
        let set = SetAttr {
            mode: Some(attributes.mode),
            uid: Some(attributes.uid),
            gid: Some(attributes.gid),
            atime: Some(SetTime::At(attributes.atime)),
            mtime: Some(SetTime::At(attributes.mtime)),
            ..SetAttr::default()
        };
        let attr = self.volume.run(|vfs, _| vfs.setattr(attributes.ctime, ino, set))?;
        if attr.nlink != attributes.nlink {
            return Err(Wrong::Frame(format!(
                "inode {ino} has {} names, not {}",
                attr.nlink, attributes.nlink
            )));
        }
        let is_dir = attr.kind == firnfs::inode::Kind::Directory;
        if !is_dir && attr.size_bytes != attributes.size_bytes {
            return Err(Wrong::Frame(format!(
                "inode {ino} has {} bytes, not {}",
                attr.size_bytes, attributes.size_bytes
            )));
        }
        Ok(())
    }
}
