//! File content: inline in the inode or in blocks; writing, truncating, allocating, seeking.
//!
//! Invariants:
//! - Inline content is at most `inline_max_bytes` long; its length is the file's size.
//! - Bytes of the last block beyond the size are zero, so that growing a file never reveals old bytes: every operation that
//!   shortens a file punches to the end.
//! - A file in blocks moves back into the inode only when it is truncated to nothing.
//!
//! Callers: [`crate::vfs`] (regular files), [`super::make`] (symbolic links share the bodies).

use super::empty_body;
use crate::error::{FsError, Outcome};
use crate::inode::{Body, Kind};
use crate::store::content::Content;
use crate::store::{Buf, Fork, Intent, Op, Piece, ReadPlan, Store, StoreFacts};
use firnfs_format::InodeNo;

/// The supported modes of fallocate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// Charge holes; grow the file.
    Grow,
    /// Charge holes; FALLOC_FL_KEEP_SIZE.
    KeepSize,
    /// FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    PunchHole,
    /// FALLOC_FL_ZERO_RANGE; `true` keeps the size.
    ZeroRange(bool),
}

/// The values of lseek's whence that need the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// SEEK_DATA
    Data,
    /// SEEK_HOLE
    Hole,
}

/// The facts of a regular file that an operation needs.
#[derive(Clone, Copy, Debug)]
pub struct FileView {
    /// The file.
    pub ino: InodeNo,
    /// Size in bytes.
    pub size_bytes: u64,
    is_inline: bool,
}

/// Looks at a regular file.
///
/// # Errors
/// `Need`, `NotFound`, `Corrupt`; `IsDirectory`; `Invalid` for other kinds.
pub fn view<S: Store>(store: &mut S, ino: InodeNo) -> Outcome<FileView> {
    let inode = store.inode(ino)?;
    match inode.kind {
        Kind::Regular => {}
        Kind::Directory => return Err(FsError::IsDirectory.into()),
        _ => return Err(FsError::Invalid("not a regular file").into()),
    }
    Ok(match &inode.body {
        Body::Inline(content) => FileView { ino, size_bytes: content.len() as u64, is_inline: true },
        Body::Blocks => FileView { ino, size_bytes: inode.size_bytes, is_inline: false },
    })
}

/// Length of the part of a range that one operation does: all of it, or up to a block boundary.
fn part_bytes(facts: &StoreFacts, at_bytes: u64, len_bytes: u64) -> u64 {
    if len_bytes <= facts.op_max_bytes {
        return len_bytes;
    }
    facts.op_max_bytes - at_bytes % u64::from(facts.block_bytes)
}

/// Plans a read, cut at the end of the file.
///
/// # Errors
/// `Need`, `Corrupt`.
pub fn read<S: Store>(store: &mut S, file: &FileView, at_bytes: u64, len_bytes: u64) -> Outcome<ReadPlan> {
    let len_bytes = len_bytes.min(file.size_bytes.saturating_sub(at_bytes));
    if len_bytes == 0 {
        return Ok(ReadPlan::default());
    }
    if let Body::Inline(content) = &store.inode(file.ino)?.body {
        let (start, len_bytes) = (at_bytes as usize, len_bytes as usize);
        let buf = Buf::from(&content[start..start + len_bytes]);
        let pieces = vec![Piece::Memory { buf, start: 0, len_bytes }];
        return Ok(ReadPlan { pieces, ..ReadPlan::default() });
    }
    store.read(file.ino, at_bytes, len_bytes)
}

/// Where content is stored after a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Home {
    /// It stays in the inode.
    Inline,
    /// It moves from the inode to blocks.
    Convert,
    /// It is in blocks and stays there.
    Blocks,
}

impl FileView {
    fn home(&self, facts: &StoreFacts, size_bytes: u64) -> Home {
        match self.is_inline {
            true if size_bytes <= u64::from(facts.inline_max_bytes) => Home::Inline,
            true => Home::Convert,
            false => Home::Blocks,
        }
    }

    /// Declares the inode itself, and the move of inline content into blocks.
    fn declare_home(&self, home: Home, size_bytes: u64, intents: &mut Vec<Intent>) {
        let grow_bytes = if home == Home::Inline { size_bytes.saturating_sub(self.size_bytes) } else { 0 };
        intents.push(Intent::Change { ino: self.ino, grow_bytes });
        if home == Home::Convert && self.size_bytes > 0 {
            intents.push(Intent::Write {
                ino: self.ino,
                fork: Fork::Data,
                at_bytes: 0,
                len_bytes: self.size_bytes,
            });
        }
    }

    /// Declares the size of content in blocks, if it changes or the content moves there.
    fn declare_size(&self, home: Home, size_bytes: u64, intents: &mut Vec<Intent>) {
        if home == Home::Convert || home == Home::Blocks && size_bytes != self.size_bytes {
            intents.push(Intent::Resize { ino: self.ino, size_bytes });
        }
    }

    /// Moves inline content into blocks.
    fn convert<S: Store>(&self, store: &mut S, op: &mut Op) {
        let body = std::mem::replace(&mut store.inode_mut(op, self.ino).body, Body::Blocks);
        if let Body::Inline(content) = body
            && !content.is_empty()
        {
            store.write(op, self.ino, Fork::Data, 0, content[..].into());
        }
    }
}

/// The inline content, to change.
fn inline_mut<'a, S: Store>(store: &'a mut S, op: &mut Op, ino: InodeNo) -> &'a mut Vec<u8> {
    match &mut store.inode_mut(op, ino).body {
        Body::Inline(content) => content,
        Body::Blocks => unreachable!("planned: the content is inline"),
    }
}

/// A planned write.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    file: FileView,
    at_bytes: u64,
    len_bytes: u64,
    home: Home,
}

/// Plans to write the part of `len_bytes` that one operation does ([`Write::len_bytes`]).
///
/// # Errors
/// `TooLarge` if not even one byte fits below the largest file size.
pub fn plan_write(
    facts: &StoreFacts,
    file: FileView,
    at_bytes: u64,
    len_bytes: u64,
) -> Result<Write, FsError> {
    if at_bytes >= facts.file_max_bytes {
        return Err(FsError::TooLarge);
    }
    let len_bytes = part_bytes(facts, at_bytes, len_bytes.min(facts.file_max_bytes - at_bytes));
    let home = file.home(facts, file.size_bytes.max(at_bytes + len_bytes));
    Ok(Write { file, at_bytes, len_bytes, home })
}

impl Write {
    /// How much is written, in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn size_after(&self) -> u64 {
        self.file.size_bytes.max(self.at_bytes + self.len_bytes)
    }

    /// Declares the changes.
    pub fn declare(&self, intents: &mut Vec<Intent>) {
        self.file.declare_home(self.home, self.size_after(), intents);
        self.file.declare_size(self.home, self.size_after(), intents);
        if self.home != Home::Inline {
            let (at_bytes, len_bytes) = (self.at_bytes, self.len_bytes);
            intents.push(Intent::Write { ino: self.file.ino, fork: Fork::Data, at_bytes, len_bytes });
        }
    }

    /// Writes `content`, which is as long as planned, and sets the size.
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op, content: Content<'_>) {
        let ino = self.file.ino;
        if self.home == Home::Inline {
            let bytes = content.bytes();
            let inline = inline_mut(store, op, ino);
            inline.resize(self.size_after() as usize, 0);
            inline[self.at_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
        } else {
            if self.home == Home::Convert {
                self.file.convert(store, op);
            }
            store.write(op, ino, Fork::Data, self.at_bytes, content);
        }
        store.inode_mut(op, ino).size_bytes = self.size_after();
    }
}

/// A planned change of size.
#[derive(Clone, Copy, Debug)]
pub struct Truncate {
    file: FileView,
    size_bytes: u64,
    home: Home,
}

/// Plans a new size.
///
/// # Errors
/// `TooLarge`.
pub fn plan_truncate(facts: &StoreFacts, file: FileView, size_bytes: u64) -> Result<Truncate, FsError> {
    if size_bytes > facts.file_max_bytes {
        return Err(FsError::TooLarge);
    }
    Ok(Truncate { file, size_bytes, home: file.home(facts, size_bytes) })
}

impl Truncate {
    /// Shrinking drops the blocks beyond the new size; so does emptying even an empty file, which may have reserved blocks.
    fn punches(&self) -> bool {
        self.home == Home::Blocks && (self.size_bytes < self.file.size_bytes || self.size_bytes == 0)
    }

    /// Declares the changes.
    pub fn declare(&self, intents: &mut Vec<Intent>) {
        self.file.declare_home(self.home, self.size_bytes, intents);
        self.file.declare_size(self.home, self.size_bytes, intents);
        if self.punches() {
            let (ino, at_bytes) = (self.file.ino, self.size_bytes);
            intents.push(Intent::Punch { ino, fork: Fork::Data, at_bytes, len_bytes: u64::MAX });
        }
    }

    /// Sets the size.
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op) {
        let ino = self.file.ino;
        match self.home {
            Home::Inline => inline_mut(store, op, ino).resize(self.size_bytes as usize, 0),
            Home::Convert => self.file.convert(store, op),
            Home::Blocks if self.punches() => {
                store.punch(op, ino, Fork::Data, self.size_bytes, u64::MAX);
                if self.size_bytes == 0 {
                    let body = empty_body(&store.facts());
                    store.inode_mut(op, ino).body = body;
                }
            }
            Home::Blocks => {}
        }
        store.inode_mut(op, ino).size_bytes = self.size_bytes;
    }
}

/// The most stretches of a file, and bytes charged to it, that one search for holes passes.
const HOLES_AT_ONCE: (u32, u64) = (64, 64 << 20);

/// Counts the blocks of a range that a reserve would charge. Also returns where the rest of the range starts, `None` if that
/// was all of it.
///
/// # Errors
/// `Need`, `Corrupt`; `TooLarge` if the range exceeds the largest file size.
pub fn holes<S: Store>(
    store: &mut S,
    file: &FileView,
    at_bytes: u64,
    len_bytes: u64,
) -> Outcome<(u64, Option<u64>)> {
    let facts = store.facts();
    let block_bytes = u64::from(facts.block_bytes);
    let end = at_bytes.checked_add(len_bytes).filter(|&end| end <= facts.file_max_bytes);
    let end = end.ok_or(FsError::TooLarge)?;
    let mut at = at_bytes / block_bytes * block_bytes;
    if file.is_inline {
        return Ok(((end - at).div_ceil(block_bytes), None));
    }
    let (mut blocks, mut charged_bytes) = (0, 0);
    for _ in 0..HOLES_AT_ONCE.0 {
        if at >= end || charged_bytes >= HOLES_AT_ONCE.1 {
            break;
        }
        let extent = store.extent(file.ino, at, end - at)?;
        let len_bytes = extent.len_bytes.next_multiple_of(block_bytes);
        if extent.is_charged {
            charged_bytes += len_bytes;
        } else {
            blocks += len_bytes / block_bytes;
        }
        at += len_bytes;
    }
    Ok((blocks, (at < end).then_some(at)))
}

/// The planned part of a fallocate.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    file: FileView,
    mode: Allocate,
    at_bytes: u64,
    len_bytes: u64,
    home: Home,
}

/// Plans the part of a fallocate that one operation does; see [`Allocation::rest_at`].
///
/// # Errors
/// `Invalid` if the range is empty, `TooLarge` if it exceeds the largest file size.
pub fn plan_allocate(
    facts: &StoreFacts,
    file: FileView,
    mode: Allocate,
    at_bytes: u64,
    len_bytes: u64,
) -> Result<Allocation, FsError> {
    if len_bytes == 0 {
        return Err(FsError::Invalid("fallocate of nothing"));
    }
    if at_bytes.checked_add(len_bytes).is_none_or(|end| end > facts.file_max_bytes) {
        return Err(FsError::TooLarge);
    }
    // Charged space must be in blocks; only zeroing existing content can be done in the inode.
    let home = match (mode, file.is_inline) {
        (Allocate::PunchHole, true) => Home::Inline,
        (_, true) => Home::Convert,
        (_, false) => Home::Blocks,
    };
    Ok(Allocation { file, mode, at_bytes, len_bytes: part_bytes(facts, at_bytes, len_bytes), home })
}

impl Allocation {
    fn end(&self) -> u64 {
        self.at_bytes + self.len_bytes
    }

    /// Where the next part of a range that ends at `end_bytes` starts; `None` if this was the last.
    #[must_use]
    pub fn rest_at(&self, end_bytes: u64) -> Option<u64> {
        (self.end() < end_bytes).then_some(self.end())
    }

    fn zeroes(&self) -> bool {
        matches!(self.mode, Allocate::PunchHole | Allocate::ZeroRange(_))
    }

    fn size_after(&self) -> u64 {
        let grows = matches!(self.mode, Allocate::Grow | Allocate::ZeroRange(false));
        if grows { self.file.size_bytes.max(self.end()) } else { self.file.size_bytes }
    }

    /// Declares the changes.
    pub fn declare(&self, intents: &mut Vec<Intent>) {
        self.file.declare_home(self.home, self.file.size_bytes, intents);
        self.file.declare_size(self.home, self.size_after(), intents);
        if self.home == Home::Inline {
            return;
        }
        let Self { at_bytes, len_bytes, .. } = *self;
        let ino = self.file.ino;
        if self.zeroes() {
            intents.push(Intent::Punch { ino, fork: Fork::Data, at_bytes, len_bytes });
        }
        if self.mode != Allocate::PunchHole {
            intents.push(Intent::Reserve { ino, at_bytes, len_bytes });
        }
    }

    /// Applies the change.
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op) {
        let ino = self.file.ino;
        if self.home == Home::Inline {
            let content = inline_mut(store, op, ino);
            let end = content.len().min(self.end() as usize);
            let start = end.min(self.at_bytes as usize);
            content[start..end].fill(0);
            return;
        }
        if self.home == Home::Convert {
            self.file.convert(store, op);
        }
        if self.zeroes() {
            store.punch(op, ino, Fork::Data, self.at_bytes, self.len_bytes);
        }
        if self.mode != Allocate::PunchHole {
            store.reserve(op, ino, self.at_bytes, self.len_bytes);
        }
        store.inode_mut(op, ino).size_bytes = self.size_after();
    }
}

/// Offset of the next data or hole at or after an offset. The end of the file counts as a hole; inline content is data.
///
/// # Errors
/// `Need`, `Corrupt`; `NoData` at or beyond the end, or if only holes follow.
pub fn seek<S: Store>(store: &mut S, file: &FileView, at_bytes: u64, whence: Seek) -> Outcome<u64> {
    if at_bytes >= file.size_bytes {
        return Err(FsError::NoData.into());
    }
    if file.is_inline {
        return Ok(if whence == Seek::Data { at_bytes } else { file.size_bytes });
    }
    let mut at = at_bytes;
    while at < file.size_bytes {
        let extent = store.extent(file.ino, at, file.size_bytes - at)?;
        if extent.is_data == (whence == Seek::Data) {
            return Ok(at);
        }
        at = at.saturating_add(extent.len_bytes.max(1));
    }
    if whence == Seek::Hole { Ok(file.size_bytes) } else { Err(FsError::NoData.into()) }
}
