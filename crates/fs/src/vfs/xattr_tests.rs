//! Extended attributes and ACLs through the operations.

use super::*;
use crate::error::{FsError, Stop};
use crate::mem::{MemOptions, MemStore};
use crate::ufs::acl;

const ROOT: InodeNo = InodeNo::ROOT;
const NOW: TimeNs = TimeNs(9);

fn vfs() -> Vfs<MemStore> {
    let options = MemOptions { inline_xattr_max_bytes: 64, ..MemOptions::with_capacity(64 << 20) };
    Vfs::new(MemStore::new(options, TimeNs(1)), AtimeMode::Relatime)
}

fn make(fs: &mut Vfs<MemStore>, parent: InodeNo, name: &[u8], kind: Kind, mode: u16) -> Attr {
    let caller = Caller { uid: 1000, gid: 100, umask: 0o077 };
    let node = NewNode { kind, mode, rdev: 0, target: b"t" };
    fs.make(NOW, caller, parent, name, node, false).unwrap()
}

fn fails<T: std::fmt::Debug>(outcome: Outcome<T>) -> &'static str {
    match outcome.unwrap_err() {
        Stop::Fail(error) => error.errno_name(),
        other => panic!("{other:?}"),
    }
}

/// An ACL blob from (tag, permissions, id).
fn blob(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut blob = 2_u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        blob.extend_from_slice(&tag.to_le_bytes());
        blob.extend_from_slice(&perm.to_le_bytes());
        blob.extend_from_slice(&id.to_le_bytes());
    }
    blob
}

/// user::rwx, user:7:rw-, group::r-x, mask::rw-, other::r--
fn extended() -> Vec<u8> {
    let none = u32::MAX;
    blob(&[(1, 7, none), (2, 6, 7), (4, 5, none), (0x10, 6, none), (0x20, 4, none)])
}

#[test]
fn values_of_all_sizes_come_back_and_give_their_space_back() {
    let mut fs = vfs();
    let file = make(&mut fs, ROOT, b"f", Kind::Regular, 0o644).ino;
    let free = fs.statfs().free_bytes;
    for len in [0, 1, 40, 64, 65, 4096, 5000, 65_536, 3000, 10] {
        let value = vec![len as u8; len];
        fs.setxattr(NOW, file, b"user.v", &value, XattrMode::Any).unwrap();
        assert_eq!(fs.getxattr(file, b"user.v").unwrap(), value);
        let attr = fs.getattr(file).unwrap();
        assert_eq!(attr.allocated_bytes > 0, len > 64 - 5 - 6, "{len} bytes");
    }
    fs.removexattr(NOW, file, b"user.v").unwrap();
    assert_eq!(fails(fs.getxattr(file, b"user.v")), "ENODATA");
    assert_eq!(fails(fs.removexattr(NOW, file, b"user.v")), "ENODATA");
    assert_eq!(fs.statfs().free_bytes, free);
}

#[test]
fn names_values_and_sets_are_limited() {
    let mut fs = vfs();
    let file = make(&mut fs, ROOT, b"f", Kind::Regular, 0o644).ino;
    let fifo = make(&mut fs, ROOT, b"p", Kind::Fifo, 0o644).ino;
    let mut set = |ino, name: &[u8], len: usize| fs.setxattr(NOW, ino, name, &vec![1; len], XattrMode::Any);
    assert_eq!(fails(set(file, b"user.v", 65_537)), "E2BIG");
    set(file, b"user.v", 65_536).unwrap();
    set(file, b"trusted.w", 65_000).unwrap();
    assert_eq!(fails(set(file, b"security.x", 1000)), "ENOSPC");
    assert_eq!(fails(set(file, &[b"user.".as_slice(), &[b'n'; 251]].concat(), 1)), "ERANGE");
    set(file, &[b"user.".as_slice(), &[b'n'; 250]].concat(), 1).unwrap();
    assert_eq!(fails(set(file, b"user.", 1)), "EINVAL");
    assert_eq!(fails(set(file, b"system.other", 1)), "EOPNOTSUPP");
    assert_eq!(fails(set(file, b"plain", 1)), "EOPNOTSUPP");
    assert_eq!(fails(set(fifo, b"user.v", 1)), "EPERM");
    set(fifo, b"trusted.v", 1).unwrap();
}

#[test]
fn an_access_acl_and_the_mode_always_agree() {
    let mut fs = vfs();
    let file = make(&mut fs, ROOT, b"f", Kind::Regular, 0o2600).ino;
    fs.setxattr(NOW, file, acl::ACCESS, &extended(), XattrMode::Any).unwrap();
    assert_eq!(fs.getattr(file).unwrap().mode, 0o2764, "the group bits are the mask");
    assert_eq!(fs.getxattr(file, acl::ACCESS).unwrap(), extended());
    fs.setattr(NOW, file, SetAttr { mode: Some(0o750), ..SetAttr::default() }).unwrap();
    let none = u32::MAX;
    let after = blob(&[(1, 7, none), (2, 6, 7), (4, 5, none), (0x10, 5, none), (0x20, 0, none)]);
    assert_eq!(fs.getxattr(file, acl::ACCESS).unwrap(), after, "chmod sets owner, mask and others");
    let minimal = blob(&[(1, 6, none), (4, 4, none), (0x20, 0, none)]);
    fs.setxattr(NOW, file, acl::ACCESS, &minimal, XattrMode::Any).unwrap();
    assert_eq!(fs.getattr(file).unwrap().mode, 0o640);
    assert_eq!(fails(fs.getxattr(file, acl::ACCESS)), "ENODATA", "the mode expresses it completely");
    assert_eq!(fs.listxattr(file).unwrap(), b"");
}

#[test]
fn an_acl_takes_the_set_group_id_bit_of_strangers() {
    let mut fs = vfs();
    let file = make(&mut fs, ROOT, b"f", Kind::Regular, 0o2710).ino;
    fs.setxattr_kill_set_gid(NOW, file, b"user.x", b"", XattrMode::Any).unwrap();
    assert_eq!(
        fs.getattr(file).unwrap().mode,
        0o2700,
        "umask 077 at first, and other attributes do not matter"
    );
    fs.setxattr_kill_set_gid(NOW, file, acl::ACCESS, &extended(), XattrMode::Any).unwrap();
    assert_eq!(fs.getattr(file).unwrap().mode, 0o764);
}

#[test]
fn invalid_acls_and_wrong_places_are_refused() {
    let mut fs = vfs();
    let file = make(&mut fs, ROOT, b"f", Kind::Regular, 0o644).ino;
    let link = make(&mut fs, ROOT, b"l", Kind::Symlink, 0).ino;
    let bad = blob(&[(1, 7, u32::MAX), (2, 6, 7)]);
    assert_eq!(fails(fs.setxattr(NOW, file, acl::ACCESS, &bad, XattrMode::Any)), "EINVAL");
    assert_eq!(fails(fs.setxattr(NOW, file, acl::DEFAULT, &extended(), XattrMode::Any)), "EACCES");
    assert_eq!(fails(fs.setxattr(NOW, link, acl::ACCESS, &extended(), XattrMode::Any)), "EOPNOTSUPP");
    assert_eq!(fails(fs.getxattr(file, acl::DEFAULT)), "ENODATA");
    fs.removexattr(NOW, file, acl::ACCESS).unwrap();
    assert_eq!(fs.getattr(file).unwrap().mode, 0o600, "nothing changed");
}

#[test]
fn a_default_acl_is_inherited_and_overrides_the_umask() {
    let mut fs = vfs();
    let dir = make(&mut fs, ROOT, b"d", Kind::Directory, 0o755).ino;
    fs.setxattr(NOW, dir, acl::DEFAULT, &extended(), XattrMode::Any).unwrap();
    assert_eq!(fs.getattr(dir).unwrap().mode, 0o700, "a default ACL says nothing about the directory itself");
    let file = make(&mut fs, dir, b"f", Kind::Regular, 0o666);
    assert_eq!(file.mode, 0o664, "user rw, mask rw, other r: no umask");
    let none = u32::MAX;
    let inherited = blob(&[(1, 6, none), (2, 6, 7), (4, 5, none), (0x10, 6, none), (0x20, 4, none)]);
    assert_eq!(fs.getxattr(file.ino, acl::ACCESS).unwrap(), inherited);
    assert_eq!(fails(fs.getxattr(file.ino, acl::DEFAULT)), "ENODATA");
    let below = make(&mut fs, dir, b"b", Kind::Directory, 0o777);
    assert_eq!(fs.getxattr(below.ino, acl::DEFAULT).unwrap(), extended(), "directories pass it on");
    assert_eq!(below.mode, 0o764);
    let link = make(&mut fs, dir, b"l", Kind::Symlink, 0).ino;
    assert_eq!(fs.listxattr(link).unwrap(), b"", "symbolic links have no ACL");
    let minimal = blob(&[(1, 7, none), (4, 5, none), (0x20, 1, none)]);
    fs.setxattr(NOW, dir, acl::DEFAULT, &minimal, XattrMode::Any).unwrap();
    let plain = make(&mut fs, dir, b"g", Kind::Regular, 0o666);
    assert_eq!(plain.mode, 0o640);
    assert_eq!(fs.listxattr(plain.ino).unwrap(), b"", "an ACL that the mode expresses is not stored");
    fs.setxattr(NOW, dir, acl::DEFAULT, b"", XattrMode::Any).unwrap();
    assert_eq!(make(&mut fs, dir, b"h", Kind::Regular, 0o666).mode, 0o600, "the umask counts again");
}

#[test]
fn damaged_sets_are_reported_and_nothing_panics() {
    let mut seed = 1_u64;
    let mut reported = 0;
    for _ in 0..2_000 {
        let mut fs = vfs();
        let file = make(&mut fs, ROOT, b"f", Kind::Regular, 0o644).ino;
        fs.setxattr(NOW, file, b"user.a", b"value", XattrMode::Any).unwrap();
        fs.setxattr(NOW, file, acl::ACCESS, &extended()[..], XattrMode::Any).unwrap();
        let store = fs.store_mut();
        let intent = Intent::Write { ino: file, fork: store::Fork::Xattr, at_bytes: 0, len_bytes: 100 };
        let mut op = store.begin(NOW, OpKind::File, &[intent]).unwrap();
        let set = store.block_mut(&mut op, file, store::Fork::Xattr, firnfs_format::BlockIndex(0));
        for _ in 0..2 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            set[(seed >> 33) as usize % 90] = (seed >> 50) as u8;
        }
        store.end(op);
        let outcomes = [
            fs.listxattr(file).map(drop),
            fs.getxattr(file, b"user.a").map(drop),
            fs.setattr(NOW, file, SetAttr { mode: Some(0o600), ..SetAttr::default() }).map(drop),
            fs.setxattr(NOW, file, b"user.b", b"x", XattrMode::Any),
            fs.removexattr(NOW, file, acl::ACCESS),
        ];
        let corrupt = |outcome: &&Outcome<()>| matches!(outcome, Err(Stop::Fail(FsError::Corrupt { .. })));
        reported += outcomes.iter().filter(corrupt).count();
    }
    assert!(reported > 500, "only {reported} reports: the damage was not met");
}
