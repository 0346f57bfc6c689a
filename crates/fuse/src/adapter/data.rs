//! Requests on content: read, write, allocate, seek, copy.
//!
//! The kernel sends READ only on a miss of the page cache. So a read from the cache changes no access time, not even
//! with relatime (as with any FUSE file system).

use super::{Adapter, Handled, MAX_WRITE_BYTES, log_errno};
use crate::wire::{Header, Operation, Reply, abi};
use firnfs::engine::Engine;
use firnfs::vfs::{Allocate, Seek};
use firnfs_format::InodeNo;
use rustix::io::Errno;

const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// One COPY_FILE_RANGE moves at most this many bytes: it cannot be interrupted, and the caller asks for the rest.
const COPY_MAX_BYTES: u64 = 64 << 20;

impl<S: Engine> Adapter<S> {
    pub(super) fn read(&self, ino: InodeNo, offset: u64, size: u32, reply: &mut Reply) -> Handled {
        let len_bytes = (size as usize).min(reply.capacity_bytes());
        let read = self.volume.read_scattered(ino, offset, len_bytes, reply.room(len_bytes));
        let read = read.map_err(|e| log_errno("read", &e))?;
        reply.put_read(read);
        Ok(())
    }

    pub(super) fn write(
        &self,
        header: &Header,
        (offset, data): (u64, &[u8]),
        kill_set_id: bool,
        is_cached: bool,
        reply: &mut Reply,
    ) -> Handled {
        let ino = InodeNo(header.nodeid);
        // The page cache writes in nobody's name: its uid is 0 whoever changed the page.
        let is_exempt = header.uid == 0 && !is_cached;
        let mode_changes = kill_set_id && self.before_change_by_user(header, ino)?;
        let written = match is_cached {
            // The kernel looks only for an error (`fuse_writepage_end` in file.c), and takes the rest of a short count for written.
            true => self.volume.write_all(ino, offset, data, kill_set_id).map(|()| data.len()),
            false => self.volume.write_for(is_exempt, ino, offset, data, kill_set_id),
        };
        if mode_changes {
            // A WRITE reply carries no attributes: without this, exec(2) would still honour the cached mode. Also after an error: it
            // may be repeated, and then the mode is what it should be already.
            self.attributes_changed(ino);
        }
        let done = written.map_err(|e| log_errno("write", &e))?;
        reply.put(&abi::WriteOut { size: done as u32, padding: 0 });
        Ok(())
    }

    pub(super) fn fallocate(&self, header: &Header, offset: u64, len: u64, mode: u32) -> Handled {
        let ino = InodeNo(header.nodeid);
        let mode = match mode {
            0 => Allocate::Grow,
            KEEP_SIZE => Allocate::KeepSize,
            m if m == PUNCH_HOLE | KEEP_SIZE => Allocate::PunchHole,
            ZERO_RANGE => Allocate::ZeroRange(false),
            m if m == ZERO_RANGE | KEEP_SIZE => Allocate::ZeroRange(true),
            _ => return Err(Errno::OPNOTSUPP),
        };
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        let kill_set_id = header.uid != 0;
        let mode_changes = kill_set_id && self.before_change_by_user(header, ino)?;
        self.volume
            .fallocate_for(header.uid == 0, ino, mode, offset..end, kill_set_id)
            .map_err(|e| log_errno("fallocate", &e))?;
        if mode_changes {
            self.attributes_changed(ino);
        }
        Ok(())
    }

    pub(super) fn lseek(&self, ino: InodeNo, offset: u64, whence: u32, reply: &mut Reply) -> Handled {
        let seek = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno::INVAL),
        };
        let offset =
            self.volume.run(|vfs, _| vfs.seek(ino, offset, seek)).map_err(|e| log_errno("lseek", &e))?;
        reply.put(&abi::LseekOut { offset });
        Ok(())
    }

    pub(super) fn copy_file_range(
        &self,
        header: &Header,
        operation: &Operation<'_>,
        reply: &mut Reply,
    ) -> Handled {
        let Operation::CopyFileRange { from_offset, to, to_offset, len, flags, wide } = *operation else {
            return Err(Errno::NOSYS);
        };
        if flags != 0 {
            return Err(Errno::INVAL);
        }
        let kill_set_id = header.uid != 0;
        let mode_changes = kill_set_id && self.before_change_by_user(header, InodeNo(to))?;
        let limit = len.min(COPY_MAX_BYTES);
        let mut copied = 0;
        while copied < limit {
            let piece = reply.room((limit - copied).min(u64::from(MAX_WRITE_BYTES)) as usize);
            let step = self.volume.read(InodeNo(header.nodeid), from_offset + copied, piece).and_then(|n| {
                let at_bytes = to_offset + copied;
                self.volume.write_for(header.uid == 0, InodeNo(to), at_bytes, &piece[..n], kill_set_id)
            });
            match step {
                Ok(0) => break,
                Ok(n) => copied += n as u64,
                // The bytes copied so far count; the caller meets the error when it asks for the rest.
                Err(_) if copied > 0 => break,
                Err(error) => return Err(log_errno("copy_file_range", &error)),
            }
        }
        if mode_changes {
            self.attributes_changed(InodeNo(to));
        }
        reply.clear();
        if wide {
            reply.put(&abi::CopyFileRangeOut { bytes_copied: copied });
        } else {
            reply.put(&abi::WriteOut { size: copied as u32, padding: 0 });
        }
        Ok(())
    }
}
