//! Extended attributes: one set per file, inline in the inode or in `Fork::Xattr`.
//!
//! ```text
//!  set   := entry*                                              (sorted by name)
//!  entry := name_len u8, value_len u32, name [u8; name_len], value [u8; value_len]
//! ```
//! Little endian. Names carry their namespace (`user.mime_type`). The set as a whole is bounded by [`SET_MAX_BYTES`].
//!
//! Callers: [`crate::vfs`], [`super::make`].

use crate::error::{FsError, Outcome};
use crate::inode::Xattrs;
use crate::store::{Fork, Intent, Op, Store, StoreFacts};
use crate::ufs::quota::Class;
use crate::ufs::quota::table::{Table, attribute};
use crate::ufs::{acl, read_whole};
use firnfs_format::InodeNo;

/// Longest name with its namespace, in bytes.
pub const NAME_MAX_BYTES: usize = 255;
/// Largest value, in bytes.
pub const VALUE_MAX_BYTES: usize = 65536;
/// Largest set, in bytes: the largest value, and as much again for others.
pub const SET_MAX_BYTES: usize = 128 << 10;
/// File capabilities: dropped together with set-id bits.
pub const CAPABILITY: &[u8] = b"security.capability";

const HEAD_BYTES: usize = 5;

/// An attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Name with its namespace.
    pub name: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// Where the entry starts in the set.
    start: usize,
    /// Where it ends.
    end: usize,
}

/// The attributes of a set, in order. Ends after the first error.
pub fn entries(set: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, FsError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= set.len() {
            return None;
        }
        let item = entry(set, at);
        at = item.as_ref().map_or(set.len(), |entry| entry.end);
        Some(item)
    })
}

fn entry(set: &[u8], start: usize) -> Result<Entry<'_>, FsError> {
    let corrupt = || FsError::Corrupt {
        what: "extended attributes".to_owned(),
        at: format!("byte {start}"),
        expected: "an entry within the set".to_owned(),
        found: format!("a set of {} bytes", set.len()),
    };
    let head = set.get(start..start + HEAD_BYTES).ok_or_else(corrupt)?;
    let name_len = usize::from(head[0]);
    let value_len = u32::from_le_bytes(head[1..].try_into().expect("4 of 5 bytes")) as usize;
    let name_at = start + HEAD_BYTES;
    let value_at = name_at + name_len;
    let end = value_at.saturating_add(value_len);
    let (name, value) = set
        .get(name_at..value_at)
        .zip(set.get(value_at..end))
        .filter(|_| name_len > 0)
        .ok_or_else(corrupt)?;
    Ok(Entry { name, value, start, end })
}

/// What is wrong with a table of quotas; `None` for any other attribute.
fn quota_damage(entry: &Entry<'_>) -> Option<String> {
    let class = Class::ALL.into_iter().find(|class| attribute(*class) == entry.name)?;
    Table::decode(class, entry.value).err().map(|e| e.to_string())
}

/// Checks a whole set: entries in order, each name once, ACLs and tables of quotas valid. For checkers.
///
/// # Errors
/// `Corrupt` for the first error.
pub fn verify(set: &[u8]) -> Result<(), FsError> {
    let mut last: &[u8] = &[];
    for entry in entries(set) {
        let entry = entry?;
        let reason = if entry.name <= last {
            Some("a name out of order".to_owned())
        } else if matches!(entry.name, acl::ACCESS | acl::DEFAULT) {
            acl::Acl::parse(entry.value).err().map(|e| e.to_string())
        } else {
            quota_damage(&entry)
        };
        if let Some(found) = reason {
            let what = "extended attributes".to_owned();
            let at = format!("{} at byte {}", entry.name.escape_ascii(), entry.start);
            return Err(FsError::Corrupt { what, at, expected: "a valid attribute".to_owned(), found });
        }
        last = entry.name;
    }
    Ok(())
}

/// The intact part of a set that [`verify`] rejects, as a set in order. For repairs.
#[must_use]
pub fn sound(set: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    for entry in entries(set).map_while(Result::ok) {
        let is_acl = matches!(entry.name, acl::ACCESS | acl::DEFAULT);
        let is_sound = !is_acl || acl::Acl::parse(entry.value).is_ok();
        if is_sound && quota_damage(&entry).is_none() {
            // A duplicate entry: keep the first, which lookups have found.
            let is_new = find(&kept, entry.name).is_ok_and(|found| found.is_none());
            if is_new && put(&mut kept, entry.name, entry.value).is_err() {
                break;
            }
        }
    }
    kept
}

/// The value of an attribute.
///
/// # Errors
/// `Corrupt`.
pub fn find<'a>(set: &'a [u8], name: &[u8]) -> Result<Option<&'a [u8]>, FsError> {
    for entry in entries(set) {
        let entry = entry?;
        if entry.name == name {
            return Ok(Some(entry.value));
        }
    }
    Ok(None)
}

/// Sets or replaces an attribute.
///
/// # Errors
/// `Corrupt`; `NoSpace` if the set gets too large.
pub fn put(set: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), FsError> {
    let (mut start, mut end) = (set.len(), set.len());
    for entry in entries(set) {
        let entry = entry?;
        if entry.name >= name {
            start = entry.start;
            end = if entry.name == name { entry.end } else { entry.start };
            break;
        }
    }
    let new_bytes = HEAD_BYTES + name.len() + value.len();
    if set.len() - (end - start) + new_bytes > SET_MAX_BYTES {
        return Err(FsError::NoSpace);
    }
    let mut new = Vec::with_capacity(new_bytes);
    new.push(name.len() as u8);
    new.extend_from_slice(&(value.len() as u32).to_le_bytes());
    new.extend_from_slice(name);
    new.extend_from_slice(value);
    set.splice(start..end, new);
    Ok(())
}

/// Removes an attribute; returns whether it was there.
///
/// # Errors
/// `Corrupt`.
pub fn remove(set: &mut Vec<u8>, name: &[u8]) -> Result<bool, FsError> {
    let mut range = None;
    for entry in entries(set) {
        let entry = entry?;
        if entry.name == name {
            range = Some(entry.start..entry.end);
            break;
        }
    }
    let Some(range) = range else { return Ok(false) };
    set.drain(range);
    Ok(true)
}

/// True if the file has no attributes at all, the common case, which costs nothing.
///
/// # Errors
/// `Need`, `NotFound`, `Corrupt`.
pub fn is_empty<S: Store>(store: &mut S, ino: InodeNo) -> Outcome<bool> {
    Ok(matches!(&store.inode(ino)?.xattrs, Xattrs::Inline(set) if set.is_empty()))
}

/// The whole set of a file.
///
/// # Errors
/// `Need`, `NotFound`, `Corrupt`.
pub fn load<S: Store>(store: &mut S, ino: InodeNo) -> Outcome<Vec<u8>> {
    let len_bytes = match &store.inode(ino)?.xattrs {
        Xattrs::Inline(set) => return Ok(set.clone()),
        Xattrs::Blocks(len_bytes) => *len_bytes as usize,
    };
    if len_bytes > SET_MAX_BYTES {
        let what = format!("extended attributes of inode {ino}");
        let expected = format!("at most {SET_MAX_BYTES} bytes");
        let (at, found) = ("length".to_owned(), len_bytes.to_string());
        return Err(FsError::Corrupt { what, at, expected, found }.into());
    }
    read_whole(store, ino, Fork::Xattr, len_bytes)
}

/// The value of one attribute of a file.
///
/// # Errors
/// `Need`, `NotFound`, `Corrupt`.
pub fn get<S: Store>(store: &mut S, ino: InodeNo, name: &[u8]) -> Outcome<Option<Vec<u8>>> {
    if let Xattrs::Inline(set) = &store.inode(ino)?.xattrs {
        return Ok(find(set, name)?.map(<[u8]>::to_vec));
    }
    let set = load(store, ino)?;
    Ok(find(&set, name)?.map(<[u8]>::to_vec))
}

/// A planned new set for a file.
#[derive(Clone, Debug)]
pub struct Replace {
    ino: InodeNo,
    set: Vec<u8>,
    old_inline_bytes: u64,
    old_blocks_bytes: u64,
    is_inline: bool,
}

/// Plans to replace the whole set of a file.
///
/// # Errors
/// `Need`, `NotFound`, `Corrupt`.
pub fn plan_replace<S: Store>(store: &mut S, ino: InodeNo, set: Vec<u8>) -> Outcome<Replace> {
    let is_inline = fits_inline(&store.facts(), &set);
    let (old_inline_bytes, old_blocks_bytes) = match &store.inode(ino)?.xattrs {
        Xattrs::Inline(old) => (old.len() as u64, 0),
        Xattrs::Blocks(len_bytes) => (0, u64::from(*len_bytes)),
    };
    Ok(Replace { ino, set, old_inline_bytes, old_blocks_bytes, is_inline })
}

/// True if a set fits in the inode.
#[must_use]
pub fn fits_inline(facts: &StoreFacts, set: &[u8]) -> bool {
    set.len() <= facts.inline_xattr_max_bytes as usize
}

impl Replace {
    fn len_bytes(&self) -> u64 {
        self.set.len() as u64
    }

    /// Where to drop old blocks from, if there are any.
    fn punch_at(&self) -> Option<u64> {
        let keep = if self.is_inline { 0 } else { self.len_bytes() };
        (self.old_blocks_bytes > keep).then_some(keep)
    }

    /// Declares the changes.
    pub fn declare(&self, intents: &mut Vec<Intent>) {
        let ino = self.ino;
        let grow_bytes =
            if self.is_inline { self.len_bytes().saturating_sub(self.old_inline_bytes) } else { 0 };
        intents.push(Intent::Change { ino, grow_bytes });
        if !self.is_inline {
            intents.push(Intent::Write { ino, fork: Fork::Xattr, at_bytes: 0, len_bytes: self.len_bytes() });
        }
        if let Some(at_bytes) = self.punch_at() {
            intents.push(Intent::Punch { ino, fork: Fork::Xattr, at_bytes, len_bytes: u64::MAX });
        }
    }

    /// Replaces the set.
    pub fn apply<S: Store>(self, store: &mut S, op: &mut Op) {
        if let Some(at_bytes) = self.punch_at() {
            store.punch(op, self.ino, Fork::Xattr, at_bytes, u64::MAX);
        }
        let xattrs = if self.is_inline {
            Xattrs::Inline(self.set)
        } else {
            store.write(op, self.ino, Fork::Xattr, 0, self.set[..].into());
            Xattrs::Blocks(self.set.len() as u32)
        };
        store.inode_mut(op, self.ino).xattrs = xattrs;
    }
}
