//! Content of regular files in the model: reads, writes, holes.

use super::{Answer, Model};
use crate::ops::{File, pattern};
use crate::run::{Reply, Value};
use firnfs::inode::Kind;
use firnfs::vfs::{Allocate, Seek};
use firnfs_format::TimeNs;
use std::collections::BTreeMap;

const PAGE_BYTES: u64 = 512;

/// A file's bytes: pages that are not all zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages(BTreeMap<u64, Vec<u8>>);

impl Pages {
    pub(super) fn into_map(self) -> BTreeMap<u64, Vec<u8>> {
        self.0
    }

    pub(super) fn byte(&self, at: u64) -> u8 {
        self.0.get(&(at / PAGE_BYTES)).map_or(0, |page| page[(at % PAGE_BYTES) as usize])
    }

    pub(super) fn set(&mut self, at: u64, byte: u8) {
        let page = self.0.entry(at / PAGE_BYTES).or_insert_with(|| vec![0; PAGE_BYTES as usize]);
        page[(at % PAGE_BYTES) as usize] = byte;
    }

    pub(super) fn zero(&mut self, from: u64, to: u64) {
        for (page, bytes) in self.0.range_mut(from / PAGE_BYTES..) {
            for (at, byte) in (page * PAGE_BYTES..).zip(bytes) {
                if at >= from && at < to {
                    *byte = 0;
                }
            }
        }
        self.0.retain(|_, bytes| bytes.iter().any(|&byte| byte != 0));
    }
}

impl Model {
    pub(super) fn regular(&self, file: &File) -> Answer<u64> {
        let id = self.find(file)?;
        match self.nodes[&id].stat.kind {
            Kind::Regular => Ok(id),
            Kind::Directory => Err("EISDIR"),
            _ => Err("EINVAL"),
        }
    }

    pub(super) fn write(
        &mut self,
        now: TimeNs,
        file: &File,
        at: u64,
        len: u64,
        fill: u8,
        kill_set_id: bool,
    ) -> Answer<u64> {
        let id = self.regular(file)?;
        if len == 0 {
            return Ok(0);
        }
        if at >= self.file_max_bytes {
            return Err("EFBIG");
        }
        let len = len.min(self.file_max_bytes - at);
        let node = self.node(id);
        for byte in at..at + len {
            node.pages.set(byte, pattern(fill, byte));
        }
        node.stat.size_bytes = node.stat.size_bytes.max(at + len);
        (node.stat.mtime, node.stat.ctime) = (now, now);
        if kill_set_id {
            node.stat.kill_set_id();
        }
        Ok(len)
    }

    pub(super) fn read(&mut self, now: TimeNs, file: &File, at: u64, len: u64) -> Reply {
        let id = self.regular(file)?;
        self.accessed(now, id);
        let node = &self.nodes[&id];
        let end = node.stat.size_bytes.min(at.saturating_add(len));
        Ok(Value::Bytes((at..end).map(|byte| node.pages.byte(byte)).collect()))
    }

    pub(super) fn allocate(
        &mut self,
        now: TimeNs,
        file: &File,
        mode: Allocate,
        at: u64,
        len: u64,
        done: u64,
    ) -> Answer<u64> {
        let id = self.regular(file)?;
        if len == 0 {
            return Err("EINVAL");
        }
        if at.checked_add(len).is_none_or(|end| end > self.file_max_bytes) {
            return Err("EFBIG");
        }
        let len = len.min(done);
        let node = self.node(id);
        if matches!(mode, Allocate::PunchHole | Allocate::ZeroRange(_)) {
            node.pages.zero(at, at + len);
        }
        if matches!(mode, Allocate::Grow | Allocate::ZeroRange(false)) {
            node.stat.size_bytes = node.stat.size_bytes.max(at + len);
        }
        (node.stat.mtime, node.stat.ctime) = (now, now);
        Ok(len)
    }

    /// The store decides where it reports holes; but a range that it skips as a hole must be zero, and data and holes must
    /// be reported only where they are allowed.
    pub(super) fn judge_seek(&self, file: &File, at: u64, whence: Seek, reply: &Reply) -> Result<(), String> {
        let id = match self.regular(file) {
            Ok(id) => id,
            Err(error) if *reply == Err(error) => return Ok(()),
            Err(error) => return Err(error.to_owned()),
        };
        let node = &self.nodes[&id];
        let size = node.stat.size_bytes;
        let next_data = || {
            let pages = node.pages.0.range(at / PAGE_BYTES..);
            pages
                .flat_map(|(page, bytes)| (page * PAGE_BYTES..).zip(bytes))
                .find(|&(b, &x)| b >= at && x != 0)
        };
        let is_right = match (whence, reply) {
            _ if at >= size => *reply == Err("ENXIO"),
            (Seek::Data, Err("ENXIO")) => next_data().is_none(),
            (Seek::Data, Ok(Value::Count(to))) => {
                (at..size).contains(to) && next_data().is_none_or(|(byte, _)| byte >= *to)
            }
            (Seek::Hole, Ok(Value::Count(to))) => {
                (at..=size).contains(to) && (*to == size || node.pages.byte(*to) == 0)
            }
            _ => false,
        };
        if is_right { Ok(()) } else { Err(format!("size {size}, next data {:?}", next_data())) }
    }
}
