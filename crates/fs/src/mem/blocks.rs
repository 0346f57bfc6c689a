//! The blocks of one fork in memory: an ordered map from block number to bytes or to reserved space.
//!
//! Invariant: a block that is not in the map is a hole. All methods return the change in the number of charged
//! blocks, so that the store can keep one sum. Caller: [`super::MemStore`].

use crate::digest::Digest;
use crate::store::content::Content;
use crate::store::{Buf, Extent, Piece, zero_buf};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

enum Slot {
    Data(Block),
    Reserved,
}

struct Block {
    buf: Buf,
    /// The digest of these bytes, as long as they do not change.
    digest: Option<Digest>,
}

impl Slot {
    fn data(buf: Buf) -> Self {
        Self::Data(Block { buf, digest: None })
    }
}

/// See the module's head. Callers pass the block size in, which saves one word per fork.
#[derive(Default)]
pub(super) struct Blocks(BTreeMap<u64, Slot>);

/// First and last block that a non-empty byte range touches.
fn touched(at_bytes: u64, len_bytes: u64, block_bytes: u64) -> Option<(u64, u64)> {
    let last_byte = at_bytes.saturating_add(len_bytes.checked_sub(1)?);
    Some((at_bytes / block_bytes, last_byte / block_bytes))
}

fn zero_block(block_bytes: u64) -> Buf {
    zero_buf(block_bytes as usize)
}

impl Blocks {
    /// Blocks present or reserved.
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The bytes of a block; `None` if it reads as zeros.
    pub(super) fn get(&self, index: u64) -> Option<&Buf> {
        match self.0.get(&index) {
            Some(Slot::Data(block)) => Some(&block.buf),
            Some(Slot::Reserved) | None => None,
        }
    }

    /// The digest that was kept with a block.
    pub(super) fn digest(&self, index: u64) -> Option<&Digest> {
        match self.0.get(&index) {
            Some(Slot::Data(block)) => block.digest.as_ref(),
            Some(Slot::Reserved) | None => None,
        }
    }

    /// Keeps a digest with a block until it changes.
    pub(super) fn keep_digest(&mut self, index: u64, digest: Digest) {
        if let Some(Slot::Data(block)) = self.0.get_mut(&index) {
            block.digest = Some(digest);
        }
    }

    /// Blocks of a range that are neither present nor reserved.
    pub(super) fn absent(&self, at_bytes: u64, len_bytes: u64, block_bytes: u64) -> u64 {
        match touched(at_bytes, len_bytes, block_bytes) {
            None => 0,
            Some((first, last)) if first == last => u64::from(!self.0.contains_key(&first)),
            Some((first, last)) => last - first + 1 - self.0.range(first..=last).count() as u64,
        }
    }

    /// The bytes of a block, to change, created if necessary; and how many blocks that adds.
    pub(super) fn get_mut(&mut self, index: u64, block_bytes: u64) -> (&mut [u8], u64) {
        let (slot, added) = match self.0.entry(index) {
            Entry::Vacant(vacant) => (vacant.insert(Slot::data(zero_block(block_bytes))), 1),
            Entry::Occupied(occupied) => (occupied.into_mut(), 0),
        };
        if let Slot::Reserved = slot {
            *slot = Slot::data(zero_block(block_bytes));
        }
        let Slot::Data(block) = slot else { unreachable!("made data above") };
        block.digest = None;
        (block.buf.make_mut(), added)
    }

    /// Writes bytes; returns how many blocks that adds.
    pub(super) fn write(&mut self, at_bytes: u64, content: Content<'_>, block_bytes: u64) -> u64 {
        let bytes = content.bytes();
        let mut added = 0;
        let mut done = 0;
        while done < bytes.len() {
            let at = at_bytes + done as u64;
            let start = (at % block_bytes) as usize;
            let len = (block_bytes as usize - start).min(bytes.len() - done);
            let part = &bytes[done..done + len];
            if len as u64 == block_bytes {
                let ready = content.ready(at / block_bytes).map(|block| block.buf.clone());
                let whole = Slot::data(ready.unwrap_or_else(|| Buf::from(part)));
                added += u64::from(self.0.insert(at / block_bytes, whole).is_none());
            } else {
                let (block, new) = self.get_mut(at / block_bytes, block_bytes);
                block[start..start + len].copy_from_slice(part);
                added += new;
            }
            done += len;
        }
        added
    }

    /// Drops bytes (whole blocks become holes, partial blocks zeros); returns how many blocks that removes.
    pub(super) fn punch(&mut self, at_bytes: u64, len_bytes: u64, block_bytes: u64) -> u64 {
        let end = at_bytes.saturating_add(len_bytes);
        let first_whole = at_bytes.div_ceil(block_bytes);
        let whole_end = if end == u64::MAX { u64::MAX } else { end / block_bytes };
        let mut zero = |block: u64, start: u64, end: u64| {
            if let Some(Slot::Data(block)) = self.0.get_mut(&block) {
                block.digest = None;
                block.buf.make_mut()[start as usize..end as usize].fill(0);
            }
        };
        if !at_bytes.is_multiple_of(block_bytes) {
            let block = at_bytes / block_bytes;
            zero(block, at_bytes % block_bytes, block_bytes.min(end.saturating_sub(block * block_bytes)));
        }
        if end != u64::MAX && !end.is_multiple_of(block_bytes) && whole_end >= first_whole {
            zero(whole_end, 0, end % block_bytes);
        }
        if first_whole >= whole_end {
            return 0;
        }
        let inside: Vec<u64> = self.0.range(first_whole..whole_end).map(|(&index, _)| index).collect();
        for index in &inside {
            self.0.remove(index);
        }
        inside.len() as u64
    }

    /// Charges the holes of a range; returns how many blocks that adds.
    pub(super) fn reserve(&mut self, at_bytes: u64, len_bytes: u64, block_bytes: u64) -> u64 {
        let before = self.count();
        if let Some((first, last)) = touched(at_bytes, len_bytes, block_bytes) {
            for index in first..=last {
                self.0.entry(index).or_insert(Slot::Reserved);
            }
        }
        self.count() - before
    }

    /// The stretches of a read, in order.
    pub(super) fn read(&self, at_bytes: u64, len_bytes: u64, block_bytes: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let end = at_bytes + len_bytes;
        let mut at = at_bytes;
        while at < end {
            let start = (at % block_bytes) as usize;
            let len_bytes = ((block_bytes - start as u64).min(end - at)) as usize;
            match (self.get(at / block_bytes), pieces.last_mut()) {
                (Some(buf), _) => pieces.push(Piece::Memory { buf: buf.clone(), start, len_bytes }),
                (None, Some(Piece::Zeros { len_bytes: before })) => *before += len_bytes,
                (None, _) => pieces.push(Piece::Zeros { len_bytes }),
            }
            at += len_bytes as u64;
        }
        pieces
    }

    /// The kind of a byte, and how far it extends.
    pub(super) fn extent(&self, at_bytes: u64, limit_bytes: u64, block_bytes: u64) -> Extent {
        let first = at_bytes / block_bytes;
        let kind_of = |slot: Option<&Slot>| match slot {
            None => (false, false),
            Some(Slot::Reserved) => (false, true),
            Some(Slot::Data(_)) => (true, true),
        };
        let (is_data, is_charged) = kind_of(self.0.get(&first));
        let last = at_bytes.saturating_add(limit_bytes.max(1) - 1) / block_bytes;
        let mut same_until = first + 1;
        if is_charged {
            while same_until <= last && kind_of(self.0.get(&same_until)) == (is_data, is_charged) {
                same_until += 1;
            }
        } else {
            same_until = self.0.range(first..=last).next().map_or(last + 1, |(&index, _)| index);
        }
        let len_bytes = same_until.saturating_mul(block_bytes) - at_bytes;
        Extent { len_bytes: len_bytes.min(limit_bytes.max(1)), is_data, is_charged }
    }
}
