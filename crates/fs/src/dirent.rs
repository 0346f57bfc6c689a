//! Directory entries: the bytes of a directory's content. No I/O, no panics on foreign bytes.
//!
//! ```text
//!  content     := block*                 (in blocks: each exactly one block long; inline: one "block" as long as needed)
//!  block       := unit+ | zeros          (a block of zeros is empty)
//!  unit        := record+                (records fill the unit)
//!  record      := ino u64, units u16, name_len u8, kind u8, name [u8; name_len], slack
//! ```
//! Little endian. `units` is the record's length in units of 8 bytes (at least 2), slack included. A live record has
//! `ino != 0`, `name_len >= 1` and a kind (the `DT_*` number); a free one has `ino = 0`, `name_len = 0`, `kind = 0` and is
//! always the first of its unit. Records start on multiples of 8 and never cross a unit.
//!
//! A *unit* is as much of a directory as the store writes at once or not at all
//! ([`StoreFacts::dir_unit_bytes`](crate::store::StoreFacts)): a whole block, or a sector of 512 bytes if blocks are overwritten
//! in place, so that a torn write never breaks the chain of records. Reading needs no unit: the chain continues from one to the
//! next.
//!
//! Invariants: a record never moves while its entry lives, and appended entries come after all others. Deleting
//! gives a record's bytes to the one before it; the first record of a unit becomes free instead. Callers:
//! [`crate::ufs`] (its directories; and the checker, which reads the same records).

use crate::error::FsError;
use crate::inode::Kind;
use firnfs_format::InodeNo;

/// Records start on multiples of this, and lengths count in it, in bytes.
pub const UNIT_BYTES: usize = 8;
/// Bytes of a record before its name.
pub const HEAD_BYTES: usize = 12;
/// Smallest unit, in bytes; all units are multiples of it.
pub const DIR_UNIT_MIN_BYTES: usize = 512;
/// Longest name, in bytes.
pub const NAME_MAX_BYTES: usize = 255;

const UNITS_AT: usize = 8;
const NAME_LEN_AT: usize = 10;
const KIND_AT: usize = 11;

/// Bytes that an entry of that name takes at least: its share of `Inode::entry_bytes`.
#[must_use]
pub fn record_bytes(name_len: usize) -> usize {
    (HEAD_BYTES + name_len).next_multiple_of(UNIT_BYTES)
}

/// A record, checked to lie within its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Offset in the block, in bytes.
    pub at: usize,
    /// Length with slack, in bytes.
    pub len_bytes: usize,
    /// Inode; 0 if the record is free.
    pub ino: InodeNo,
    /// File type as stored.
    pub kind_code: u8,
    /// The name; empty if the record is free.
    pub name: &'a [u8],
}

impl Record<'_> {
    /// True if it holds no entry.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.ino.0 == 0
    }

    /// Bytes that its entry needs; 0 if it is free.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        if self.is_free() { 0 } else { record_bytes(self.name.len()) }
    }

    /// Offset just after it.
    #[must_use]
    pub fn end(&self) -> usize {
        self.at + self.len_bytes
    }

    /// The file type.
    ///
    /// # Errors
    /// `Corrupt` if there is no such type.
    pub fn kind(&self) -> Result<Kind, FsError> {
        Kind::from_code(self.kind_code)
            .ok_or_else(|| corrupt(self.at, "a file type", self.kind_code.to_string()))
    }

    /// Checks what only matters once the name leaves the file system: no `/`, no NUL, not `.` or `..`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn check_name(&self) -> Result<(), FsError> {
        let odd =
            self.name.iter().any(|&byte| byte == b'/' || byte == 0) || matches!(self.name, b"." | b"..");
        if odd {
            return Err(corrupt(self.at, "a file name", self.name.escape_ascii().to_string()));
        }
        Ok(())
    }
}

/// The record at an offset of a block.
///
/// # Errors
/// `Corrupt` if the offset cannot start a record or the record breaks the grammar.
pub fn record(block: &[u8], at: usize) -> Result<Record<'_>, FsError> {
    let head = match block.get(at..at + HEAD_BYTES) {
        Some(head) if at.is_multiple_of(UNIT_BYTES) => head,
        _ => return Err(corrupt(at, "the start of a record", format!("a block of {} bytes", block.len()))),
    };
    let ino = u64::from_le_bytes(head[..8].try_into().expect("8 of 12 bytes"));
    let units = usize::from(u16::from_le_bytes([head[UNITS_AT], head[UNITS_AT + 1]]));
    let name_len = usize::from(head[NAME_LEN_AT]);
    let len_bytes = units * UNIT_BYTES;
    let fits = len_bytes >= record_bytes(name_len.max(1)) && len_bytes <= block.len() - at;
    // Free records come first: anything else would be unreachable space.
    let sound = if ino == 0 {
        name_len == 0 && head[KIND_AT] == 0 && at.is_multiple_of(DIR_UNIT_MIN_BYTES)
    } else {
        name_len > 0
    };
    if !fits || !sound {
        let found = format!("inode {ino}, {units} units, name of {name_len} bytes");
        return Err(corrupt(at, "a directory record within its block", found));
    }
    let name = &block[at + HEAD_BYTES..at + HEAD_BYTES + name_len];
    Ok(Record { at, len_bytes, ino: InodeNo(ino), kind_code: head[KIND_AT], name })
}

/// True for a block that was never written, or was emptied and punched.
#[must_use]
pub fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|&byte| byte == 0)
}

/// The records of a block, free ones included, in order. Ends after the first error.
#[must_use]
pub fn records(block: &[u8]) -> Records<'_> {
    // Only a block of zeros has a record length of zero; it has no records.
    let no_length = block.len() >= HEAD_BYTES && block[UNITS_AT..UNITS_AT + 2] == [0, 0];
    let at = if no_length && is_zero(block) { block.len() } else { 0 };
    Records { block, at }
}

/// See [`records`].
pub struct Records<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, FsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.block.len() {
            return None;
        }
        let item = record(self.block, self.at);
        self.at = item.as_ref().map_or(self.block.len(), Record::end);
        Some(item)
    }
}

/// Finds a name in a block. Steps from record to record by their lengths alone, and compares only names of the same
/// length: this is the innermost loop of small directories.
///
/// # Errors
/// `Corrupt`.
pub fn find<'a>(block: &'a [u8], name: &[u8]) -> Result<Option<Record<'a>>, FsError> {
    let mut at = records(block).at;
    while let Some(head) = block.get(at..at + HEAD_BYTES) {
        if usize::from(head[NAME_LEN_AT]) == name.len()
            && block.get(at + HEAD_BYTES..at + HEAD_BYTES + name.len()) == Some(name)
        {
            let found = record(block, at)?;
            return Ok((!found.is_free()).then_some(found));
        }
        let units = u16::from_le_bytes([head[UNITS_AT], head[UNITS_AT + 1]]);
        if units == 0 {
            break;
        }
        at += usize::from(units) * UNIT_BYTES;
    }
    if at == block.len() { Ok(None) } else { record(block, at).map(|_| None) }
}

/// True if the block has no entries.
///
/// # Errors
/// `Corrupt`.
pub fn is_empty(block: &[u8]) -> Result<bool, FsError> {
    for record in records(block) {
        if !record?.is_free() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Offset of the record whose slack takes an entry of that name length, the first of its kind; `None` if the block is
/// too full. A block of zeros has room at 0.
///
/// # Errors
/// `Corrupt`.
pub fn room(block: &[u8], name_len: usize) -> Result<Option<usize>, FsError> {
    let need = record_bytes(name_len);
    let mut all = records(block).peekable();
    if all.peek().is_none() {
        return Ok((block.len() >= need).then_some(0));
    }
    for item in all {
        let item = item?;
        if item.len_bytes - item.used_bytes() >= need {
            return Ok(Some(item.at));
        }
    }
    Ok(None)
}

/// Puts an entry where [`room`] found some; returns its offset in the block. `block` is a whole block, of units of `unit_bytes`.
///
/// # Errors
/// `Corrupt` if `host` is not a record with that much slack: nothing is changed then.
pub fn insert(
    block: &mut [u8],
    host: usize,
    (ino, kind): (InodeNo, Kind),
    name: &[u8],
    unit_bytes: usize,
) -> Result<usize, FsError> {
    let unit_bytes = unit_bytes.min(block.len());
    let (at, len_bytes) = if host == 0 && is_zero(block) {
        free_units(block, unit_bytes);
        (0, unit_bytes)
    } else {
        let host = record(block, host)?;
        (host.at + host.used_bytes(), host.len_bytes - host.used_bytes())
    };
    if len_bytes < record_bytes(name.len()) {
        return Err(corrupt(host, "room for an entry", format!("{len_bytes} bytes")));
    }
    if at != host {
        put_units(block, host, at - host);
    }
    put(&mut block[at..at + len_bytes], ino, kind, name);
    Ok(at)
}

/// Writes a live record that fills `bytes`.
pub fn put(bytes: &mut [u8], ino: InodeNo, kind: Kind, name: &[u8]) {
    let len_bytes = bytes.len();
    bytes[..8].copy_from_slice(&ino.0.to_le_bytes());
    bytes[NAME_LEN_AT] = name.len() as u8;
    bytes[KIND_AT] = kind as u8;
    bytes[HEAD_BYTES..HEAD_BYTES + name.len()].copy_from_slice(name);
    put_units(bytes, 0, len_bytes);
}

/// Sets the length of the record at `at`.
pub fn put_units(block: &mut [u8], at: usize, len_bytes: usize) {
    let units = (len_bytes / UNIT_BYTES) as u16;
    block[at + UNITS_AT..at + UNITS_AT + 2].copy_from_slice(&units.to_le_bytes());
}

/// Points an entry at another inode.
pub fn set_target(block: &mut [u8], at: usize, ino: InodeNo, kind: Kind) {
    block[at..at + 8].copy_from_slice(&ino.0.to_le_bytes());
    block[at + KIND_AT] = kind as u8;
}

/// The record before the one at `at`; `None` if that is the first.
///
/// # Errors
/// `Corrupt`, also if no record starts at `at`.
pub fn before(block: &[u8], at: usize) -> Result<Option<usize>, FsError> {
    let mut last = None;
    for item in records(block) {
        let item = item?;
        if item.at == at {
            return Ok(last);
        }
        last = Some(item.at);
    }
    Err(corrupt(at, "the start of a record", "the middle of one".to_owned()))
}

/// Makes all units of a block empty.
pub fn free_units(block: &mut [u8], unit_bytes: usize) {
    block.fill(0);
    for unit in block.chunks_mut(unit_bytes) {
        let head = free_head(unit.len());
        unit[..HEAD_BYTES].copy_from_slice(&head);
    }
}

/// Takes the entry at `at` out of a whole block, of units of `unit_bytes`.
///
/// # Errors
/// `Corrupt` if no entry starts there: nothing is changed then.
pub fn remove(block: &mut [u8], at: usize, unit_bytes: usize) -> Result<(), FsError> {
    let previous = before(block, at)?.filter(|_| !at.is_multiple_of(unit_bytes));
    let len_bytes = record(block, at)?.len_bytes;
    match previous {
        Some(previous) => put_units(block, previous, at + len_bytes - previous),
        None => block[at..at + HEAD_BYTES].copy_from_slice(&free_head(len_bytes)),
    }
    Ok(())
}

fn free_head(len_bytes: usize) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    put_units(&mut head, 0, len_bytes);
    head
}

/// Appends an entry to inline content, which grows by its record.
pub fn append_inline(content: &mut Vec<u8>, ino: InodeNo, kind: Kind, name: &[u8]) -> usize {
    let at = content.len();
    content.resize(at + record_bytes(name.len()), 0);
    put(&mut content[at..], ino, kind, name);
    at
}

/// Takes an entry out of inline content. Free bytes at the end are cut off.
///
/// # Errors
/// `Corrupt` if no entry starts there: nothing is changed then.
pub fn remove_inline(content: &mut Vec<u8>, at: usize) -> Result<(), FsError> {
    let is_last = record(content, at)?.end() == content.len();
    match before(content, at)? {
        Some(previous) if is_last => {
            let keep = if record(content, previous)?.is_free() { 0 } else { at };
            content.truncate(keep);
        }
        None if is_last => content.clear(),
        _ => {
            let one_unit = content.len();
            remove(content, at, one_unit)?;
        }
    }
    Ok(())
}

/// Makes inline content into a whole block, which is one unit: the last record gets the rest of it.
///
/// # Errors
/// `Corrupt` if the content breaks the grammar.
pub fn fill_block(block: &mut [u8], content: &[u8]) -> Result<(), FsError> {
    let mut last = None;
    for item in records(content) {
        last = Some(item?.at);
    }
    block[..content.len()].copy_from_slice(content);
    if let Some(last) = last {
        put_units(block, last, block.len() - last);
    }
    Ok(())
}

fn corrupt(at: usize, expected: &str, found: String) -> FsError {
    FsError::Corrupt {
        what: "directory".to_owned(),
        at: format!("byte {at} of a block"),
        expected: expected.to_owned(),
        found,
    }
}
