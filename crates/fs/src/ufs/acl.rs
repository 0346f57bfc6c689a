//! POSIX ACLs (POSIX 1003.1e draft 17) as Linux stores them in `system.posix_acl_access` and `..._default`.
//!
//! ```text
//!  acl   := version u32 (2), entry*
//!  entry := tag u16, perm u16, id u32        (ordered: owner, users, group, groups, mask, other)
//! ```
//! Little endian. The rules (validity, the mode that an ACL stands for, chmod, inheritance) are those of Linux's
//! `fs/posix_acl.c`; the kernel leaves them to a FUSE daemon with POSIX_ACL. Pure functions.
//!
//! Callers: [`crate::vfs`], [`super::make`].

use crate::error::FsError;

/// Attribute that holds the ACL of a file.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// Attribute that holds the ACL that new files of a directory inherit.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A valid ACL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acl(Vec<Entry>);

impl Acl {
    /// Reads and checks a blob. An ACL without entries is `None`: it stands for no ACL.
    ///
    /// # Errors
    /// `Unsupported` for another version, `Invalid` for anything else that is wrong.
    pub fn parse(blob: &[u8]) -> Result<Option<Self>, FsError> {
        let Some((version, rest)) = blob.split_first_chunk::<4>() else {
            return if blob.is_empty() { Ok(None) } else { Err(FsError::Invalid("truncated ACL")) };
        };
        if u32::from_le_bytes(*version) != VERSION {
            return Err(FsError::Unsupported("ACL version"));
        }
        if rest.len() % ENTRY_BYTES != 0 {
            return Err(FsError::Invalid("truncated ACL"));
        }
        let entries: Vec<Entry> = rest.chunks_exact(ENTRY_BYTES).map(Entry::decode).collect();
        if entries.is_empty() {
            return Ok(None);
        }
        check_order(&entries)?;
        Ok(Some(Self(entries)))
    }

    /// Encodes the blob.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut blob = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            blob.extend_from_slice(&entry.tag.to_le_bytes());
            blob.extend_from_slice(&entry.perm.to_le_bytes());
            blob.extend_from_slice(&entry.id.to_le_bytes());
        }
        blob
    }

    /// True if the permission bits express everything in the ACL.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The permission bits (0777) that the ACL stands for: the group's are the mask's, if there is one.
    #[must_use]
    pub fn mode(&self) -> u16 {
        self.0.iter().fold(0, |mode, entry| match entry.tag {
            USER_OBJ => mode | entry.perm << 6,
            GROUP_OBJ if self.is_minimal() => mode | entry.perm << 3,
            MASK => mode | entry.perm << 3,
            OTHER => mode | entry.perm,
            _ => mode,
        })
    }

    /// The entry that the group bits of a mode refer to.
    fn group_class(&mut self) -> &mut Entry {
        let tag = if self.is_minimal() { GROUP_OBJ } else { MASK };
        self.entry(tag)
    }

    fn entry(&mut self, tag: u16) -> &mut Entry {
        self.0.iter_mut().find(|entry| entry.tag == tag).expect("a valid ACL has it")
    }

    /// chmod: the mode's bits become those of owner, mask (or group) and others.
    pub fn chmod(&mut self, mode: u16) {
        self.entry(USER_OBJ).perm = mode >> 6 & 7;
        self.group_class().perm = mode >> 3 & 7;
        self.entry(OTHER).perm = mode & 7;
    }

    /// For the default ACL of a directory, and the mode of a file made in it: the access ACL and the mode that the file
    /// gets. Neither grants more than the requested mode; a umask plays no part.
    #[must_use]
    pub fn inherit(&self, mode: u16) -> (Self, u16) {
        let mut acl = self.clone();
        acl.entry(USER_OBJ).perm &= mode >> 6 & 7;
        acl.group_class().perm &= mode >> 3 & 7;
        acl.entry(OTHER).perm &= mode & 7;
        let mode = mode & !0o777 | acl.mode();
        (acl, mode)
    }
}

impl Entry {
    fn decode(bytes: &[u8]) -> Self {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let id = u32::from_le_bytes(bytes[4..8].try_into().expect("4 of 8 bytes"));
        Self { tag: half(0), perm: half(2), id }
    }
}

/// Checks the order: owner, users, group, groups, mask (needed if there are users or groups), other.
fn check_order(entries: &[Entry]) -> Result<(), FsError> {
    let mut rest = entries;
    let mut take = |tag: u16| {
        let count = rest.iter().take_while(|entry| entry.tag == tag).count();
        let (these, behind) = rest.split_at(count);
        rest = behind;
        these
    };
    let (owner, users, group, groups) = (take(USER_OBJ), take(USER), take(GROUP_OBJ), take(GROUP));
    let (mask, other) = (take(MASK), take(OTHER));
    let named = users.len() + groups.len();
    let sound = rest.is_empty()
        && owner.len() == 1
        && group.len() == 1
        && other.len() == 1
        && mask.len() <= 1
        && (named == 0 || mask.len() == 1);
    if !sound {
        return Err(FsError::Invalid("entries of an ACL"));
    }
    if entries.iter().any(|entry| entry.perm > 7) {
        return Err(FsError::Invalid("permissions in an ACL"));
    }
    if users.iter().chain(groups).any(|entry| entry.id == u32::MAX) {
        return Err(FsError::Invalid("id in an ACL"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        Acl(entries.iter().map(|&(tag, perm, id)| Entry { tag, perm, id }).collect()).encode()
    }

    fn extended() -> Acl {
        let none = u32::MAX;
        let blob = acl(&[
            (USER_OBJ, 7, none),
            (USER, 6, 1000),
            (GROUP_OBJ, 5, none),
            (GROUP, 4, 50),
            (MASK, 6, none),
            (OTHER, 1, none),
        ]);
        Acl::parse(&blob).unwrap().unwrap()
    }

    #[test]
    fn a_valid_acl_comes_back_and_its_group_bits_are_the_mask() {
        let acl = extended();
        assert_eq!(Acl::parse(&acl.encode()).unwrap().unwrap(), acl);
        assert_eq!(acl.mode(), 0o761);
        assert!(!acl.is_minimal());
    }

    #[test]
    fn invalid_acls_are_refused() {
        let none = u32::MAX;
        let bad = [
            acl(&[(USER_OBJ, 7, none), (GROUP_OBJ, 5, none)]),
            acl(&[(GROUP_OBJ, 5, none), (USER_OBJ, 7, none), (OTHER, 0, none)]),
            acl(&[(USER_OBJ, 7, none), (USER, 7, 1), (GROUP_OBJ, 5, none), (OTHER, 0, none)]),
            acl(&[(USER_OBJ, 8, none), (GROUP_OBJ, 5, none), (OTHER, 0, none)]),
            acl(&[
                (USER_OBJ, 7, none),
                (USER, 7, none),
                (GROUP_OBJ, 5, none),
                (MASK, 7, none),
                (OTHER, 0, none),
            ]),
            acl(&[(USER_OBJ, 7, none), (USER_OBJ, 7, none), (GROUP_OBJ, 5, none), (OTHER, 0, none)]),
            acl(&[(USER_OBJ, 7, none), (GROUP_OBJ, 5, none), (OTHER, 0, none), (0x40, 0, none)]),
            vec![2, 0, 0],
            vec![2, 0, 0, 0, 1],
        ];
        for blob in bad {
            assert!(matches!(Acl::parse(&blob), Err(FsError::Invalid(_))), "{blob:?}");
        }
        assert!(matches!(Acl::parse(&[1, 0, 0, 0]), Err(FsError::Unsupported(_))));
        assert_eq!(Acl::parse(&[2, 0, 0, 0]).unwrap(), None);
        assert_eq!(Acl::parse(&[]).unwrap(), None);
    }

    #[test]
    fn chmod_changes_owner_mask_and_others_but_not_the_group() {
        let mut acl = extended();
        acl.chmod(0o640);
        assert_eq!(acl.mode(), 0o640);
        assert_eq!(acl.entry(GROUP_OBJ).perm, 5);
        assert_eq!(acl.entry(MASK).perm, 4);
    }

    #[test]
    fn inheriting_grants_no_more_than_the_mode_asked_for() {
        let (acl, mode) = extended().inherit(0o2_640);
        assert_eq!(mode, 0o2_640);
        assert_eq!(acl.mode(), 0o640);
        let (acl, mode) = extended().inherit(0o777);
        assert_eq!((acl.mode(), mode), (0o761, 0o761));
    }

    #[test]
    fn an_acl_with_a_mask_alone_is_not_minimal() {
        let none = u32::MAX;
        let blob = acl(&[(USER_OBJ, 6, none), (GROUP_OBJ, 7, none), (MASK, 4, none), (OTHER, 0, none)]);
        let acl = Acl::parse(&blob).unwrap().unwrap();
        assert!(!acl.is_minimal());
        assert_eq!(acl.mode(), 0o640);
    }
}
