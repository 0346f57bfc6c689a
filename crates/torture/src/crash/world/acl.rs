//! POSIX ACLs in the model: the required effect of operations on them (POSIX 1003.1e draft 17, acl(5)). It shares no code
//! with the file system.

use super::{Invalid, Node, World};
use crate::crash::tree::NodeKind;
use std::fmt;

/// Name of the attribute with the ACL that new files inherit, or of the one that governs access.
#[must_use]
pub fn acl_name(default: bool) -> &'static str {
    if default { "system.posix_acl_default" } else { "system.posix_acl_access" }
}

/// An ACL with at most one named user. Permissions are 0 to 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AclSpec {
    /// Permissions of the owner.
    pub owner: u8,
    /// A user, the user's permissions, and the mask.
    pub named: Option<(u32, u8, u8)>,
    /// Permissions of the group.
    pub group: u8,
    /// Permissions of others.
    pub other: u8,
}

impl fmt::Display for AclSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, group, other, named } = self;
        match named {
            None => write!(f, "u:{owner},g:{group},o:{other}"),
            Some((user, perm, mask)) => write!(f, "u:{owner},u{user}:{perm},g:{group},m:{mask},o:{other}"),
        }
    }
}

impl AclSpec {
    /// The attribute's value, as Linux has it: version 2, then tag, permissions and id of each entry, little endian.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        const NOBODY: u32 = u32::MAX;
        let mut entries = vec![(1u16, self.owner, NOBODY)];
        entries.extend(self.named.map(|(user, perm, _)| (2, perm, user)));
        entries.push((4, self.group, NOBODY));
        entries.extend(self.named.map(|(_, _, mask)| (16, mask, NOBODY)));
        entries.push((32, self.other, NOBODY));
        let mut blob = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            blob.extend(tag.to_le_bytes());
            blob.extend(u16::from(perm).to_le_bytes());
            blob.extend(id.to_le_bytes());
        }
        blob
    }

    fn decode(blob: &[u8]) -> Option<Self> {
        let entries: Vec<(u8, u8, u32)> = blob
            .get(4..)?
            .as_chunks::<8>()
            .0
            .iter()
            .map(|e| (e[0], e[2], u32::from_le_bytes([e[4], e[5], e[6], e[7]])))
            .collect();
        let of = |tag: u8| entries.iter().find(|entry| entry.0 == tag);
        let named = of(2).zip(of(16)).map(|(user, mask)| (user.2, user.1, mask.1));
        Some(Self { owner: of(1)?.1, named, group: of(4)?.1, other: of(32)?.1 })
    }

    /// Permission bits: those of the group are the mask's if there is one.
    fn mode(&self) -> u16 {
        let group = self.named.map_or(self.group, |(.., mask)| mask);
        u16::from(self.owner) << 6 | u16::from(group) << 3 | u16::from(self.other)
    }

    /// With the bits of a mode in the places of owner, mask (or group) and others, joined by `join`.
    fn with_mode(mut self, mode: u16, join: impl Fn(u8, u8) -> u8) -> Self {
        let bits = |shift: u16| (mode >> shift & 7) as u8;
        self.owner = join(self.owner, bits(6));
        match &mut self.named {
            Some((.., mask)) => *mask = join(*mask, bits(3)),
            None => self.group = join(self.group, bits(3)),
        }
        self.other = join(self.other, bits(0));
        self
    }
}

impl Node {
    fn acl(&self, default: bool) -> Option<AclSpec> {
        self.xattrs.get(acl_name(default)).and_then(|blob| AclSpec::decode(blob))
    }

    pub(super) fn chmod(&mut self, mode: u16) {
        self.mode = mode;
        if let Some(acl) = self.acl(false) {
            let changed = acl.with_mode(mode, |_, new| new);
            self.xattrs.insert(acl_name(false).to_owned(), changed.encode());
        }
    }

    /// Applies the ACL that a directory passes on to a file made in it.
    pub(super) fn inherit(&mut self, parent: &Self) {
        let Some(default) = parent.acl(true).filter(|_| self.kind != NodeKind::Symlink) else { return };
        let access = default.with_mode(self.mode, |old, new| old & new);
        self.mode = access.mode();
        if access.named.is_some() {
            self.xattrs.insert(acl_name(false).to_owned(), access.encode());
        }
        if self.kind == NodeKind::Directory {
            self.xattrs.insert(acl_name(true).to_owned(), default.encode());
        }
    }
}

impl World {
    pub(super) fn set_acl(&mut self, path: &str, default: bool, acl: &AclSpec) -> Result<(), Invalid> {
        let id = self.find(path).ok_or("no such file")?;
        match self.nodes[&id].kind {
            NodeKind::Symlink => return Err("a symbolic link has no ACL"),
            NodeKind::Directory => {}
            _ if default => return Err("only a directory has something to pass on"),
            _ => {}
        }
        let node = self.node_mut(id);
        if default || acl.named.is_some() {
            node.xattrs.insert(acl_name(default).to_owned(), acl.encode());
        } else {
            // The mode expresses all of it.
            node.xattrs.remove(acl_name(false));
        }
        if !default {
            node.mode = acl.mode();
        }
        Ok(())
    }

    pub(super) fn remove_acl(&mut self, path: &str, default: bool) -> Result<(), Invalid> {
        let id = self.find(path).ok_or("no such file")?;
        if self.nodes[&id].kind == NodeKind::Symlink {
            return Err("a symbolic link has no ACL");
        }
        self.node_mut(id).xattrs.remove(acl_name(default));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::DIRECTORY_MODE;
    use super::*;

    const SHARED: AclSpec = AclSpec { owner: 7, named: Some((1000, 6, 5)), group: 4, other: 1 };

    #[test]
    fn an_acl_reads_back_and_its_group_bits_are_the_mask() {
        let plain = AclSpec { named: None, ..SHARED };
        for acl in [SHARED, plain] {
            assert_eq!(AclSpec::decode(&acl.encode()), Some(acl));
        }
        assert_eq!((SHARED.mode(), plain.mode()), (0o751, 0o741));
    }

    #[test]
    fn a_new_directory_gets_the_default_acl_as_both_of_its_own() {
        let mut parent = Node::new(NodeKind::Directory, Vec::new());
        parent.xattrs.insert(acl_name(true).to_owned(), SHARED.encode());
        let mut child = Node::new(NodeKind::Directory, Vec::new());
        child.inherit(&parent);
        assert_eq!(child.mode, DIRECTORY_MODE & SHARED.mode());
        assert_eq!(child.acl(true), Some(SHARED));
        assert_eq!(child.acl(false).map(|acl| acl.mode()), Some(child.mode));
    }
}
