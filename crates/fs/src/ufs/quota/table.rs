//! The limits of all users, or of all groups: in memory, and as an attribute of the root directory.
//!
//! ```text
//!  table := version u8 (1), on u8, 0 u16, grace of space in s u32, grace of inodes in s u32, entry*   (ascending by id)
//!  entry := id u32, limit of space, limit of inodes
//!  limit := soft u64, hard u64, deadline i64            (bytes or inodes; 0: none. Nanoseconds since 1970; 0: not above soft)
//! ```
//! Little endian. The attributes are `firnfs.quota.user` and `firnfs.quota.group`, a namespace that callers of getxattr(2) cannot name.
//! A volume that never had quotas has neither. The largest value of an attribute bounds a table to [`IDS_MAX`] ids.

use super::Class;
use crate::error::FsError;
use crate::ufs::xattr::VALUE_MAX_BYTES;
use firnfs_format::TimeNs;
use std::collections::BTreeMap;

/// What all hidden attributes' names begin with.
pub const HIDDEN: &[u8] = b"firnfs.";
/// Grace time unless set otherwise, in seconds: 4.4BSD's.
pub const GRACE_S: u32 = 7 * 24 * 60 * 60;
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 12;
const ENTRY_BYTES: usize = 52;
/// The most users, or groups, that can have limits.
pub const IDS_MAX: usize = (VALUE_MAX_BYTES - HEAD_BYTES) / ENTRY_BYTES;

/// The name of a class's attribute.
#[must_use]
pub fn attribute(class: Class) -> &'static [u8] {
    match class {
        Class::User => b"firnfs.quota.user",
        Class::Group => b"firnfs.quota.group",
    }
}

/// A soft and a hard limit, in bytes or inodes; 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    /// May be exceeded for the grace time.
    pub soft: u64,
    /// Never exceeded.
    pub hard: u64,
    /// End of the grace time; `None` while the usage is not above the soft limit.
    pub deadline: Option<TimeNs>,
}

impl Limit {
    /// Whether more may be taken at `now`. An operation may cross the soft limit; it starts the grace time.
    #[must_use]
    pub fn admits(&self, now: TimeNs, used: u64, more: u64) -> bool {
        let is_hard = self.hard > 0 && used.saturating_add(more) > self.hard;
        let is_late =
            self.soft > 0 && used > self.soft && self.deadline.is_some_and(|deadline| now >= deadline);
        !is_hard && !is_late
    }

    /// Starts the grace time if the usage is above the soft limit, ends it if not. True if that changed anything.
    pub fn settle(&mut self, now: TimeNs, used: u64, grace_s: u32) -> bool {
        let before = self.deadline;
        if self.soft == 0 || used <= self.soft {
            self.deadline = None;
        } else if before.is_none() {
            let grace_ns = i64::from(grace_s) * 1_000_000_000;
            // 0 would mean none.
            self.deadline = Some(TimeNs(now.0.saturating_add(grace_ns).max(1)));
        }
        self.deadline != before
    }
}

/// The limits of a user or group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Of space, in bytes.
    pub bytes: Limit,
    /// Of inodes.
    pub inodes: Limit,
}

impl Limits {
    /// True if nothing is limited.
    #[must_use]
    pub fn are_none(&self) -> bool {
        let limits = [self.bytes, self.inodes];
        limits.iter().all(|limit| limit.soft == 0 && limit.hard == 0)
    }
}

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Quotas are on.
    pub is_on: bool,
    /// Grace times for space and for inodes, in seconds.
    pub grace_s: [u32; 2],
    /// By id.
    pub limits: BTreeMap<u32, Limits>,
}

impl Default for Table {
    fn default() -> Self {
        Self { is_on: false, grace_s: [GRACE_S; 2], limits: BTreeMap::new() }
    }
}

impl Table {
    /// Sets limits, or removes them if nothing is limited.
    ///
    /// # Errors
    /// `NoSpace` if there are [`IDS_MAX`] others.
    pub fn set(&mut self, id: u32, limits: Limits) -> Result<(), FsError> {
        if limits.are_none() {
            self.limits.remove(&id);
        } else if self.limits.len() >= IDS_MAX && !self.limits.contains_key(&id) {
            return Err(FsError::NoSpace);
        } else {
            self.limits.insert(id, limits);
        }
        Ok(())
    }

    /// The value of the attribute.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.is_on), 0, 0];
        self.grace_s.iter().for_each(|grace| out.extend_from_slice(&grace.to_le_bytes()));
        for (id, limits) in &self.limits {
            out.extend_from_slice(&id.to_le_bytes());
            for limit in [limits.bytes, limits.inodes] {
                out.extend_from_slice(&limit.soft.to_le_bytes());
                out.extend_from_slice(&limit.hard.to_le_bytes());
                out.extend_from_slice(&limit.deadline.map_or(0, |deadline| deadline.0).to_le_bytes());
            }
        }
        out
    }

    /// Takes the value of the attribute apart.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(class: Class, bytes: &[u8]) -> Result<Self, FsError> {
        let corrupt = |expected: &str, found: String| FsError::Corrupt {
            what: "quotas".to_owned(),
            at: format!("attribute {} of the root directory", attribute(class).escape_ascii()),
            expected: expected.to_owned(),
            found,
        };
        let Some((head, entries)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Err(corrupt("a head of 12 bytes", format!("{} bytes", bytes.len())));
        };
        if head[0] != VERSION || head[1] > 1 {
            return Err(corrupt("version 1", format!("version {}, {}", head[0], head[1])));
        }
        if !entries.len().is_multiple_of(ENTRY_BYTES) {
            return Err(corrupt("whole entries", format!("{} bytes", entries.len())));
        }
        let word =
            |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let half =
            |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let mut table =
            Self { is_on: head[1] == 1, grace_s: [half(head, 4), half(head, 8)], limits: BTreeMap::new() };
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let id = half(entry, 0);
            let limit = |at: usize| Limit {
                soft: word(entry, at),
                hard: word(entry, at + 8),
                deadline: Some(TimeNs(word(entry, at + 16).cast_signed())).filter(|deadline| deadline.0 != 0),
            };
            if table.limits.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return Err(corrupt("ascending ids", id.to_string()));
            }
            table.limits.insert(id, Limits { bytes: limit(4), inodes: limit(28) });
        }
        Ok(table)
    }
}
