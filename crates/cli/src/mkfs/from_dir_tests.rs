//! Copies a tree with one object of each kind into a memory volume and compares the volume with its source.

use super::*;
use firnfs::mem::{MemOptions, MemStore};
use firnfs::vfs::{AtimeMode, Seek, Vfs};
use firnfs_device::SystemClock;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

fn volume(capacity_bytes: u64) -> Volume<MemStore> {
    let store = MemStore::new(MemOptions::with_capacity(capacity_bytes), TimeNs(0));
    Volume::new(Vfs::new(store, AtimeMode::Noatime), None, Arc::new(SystemClock))
}

fn copy(volume: &Volume<MemStore>, tree: &Path) -> Done<Totals> {
    copy_tree(volume, tree, None, &mut |_| Ok(()))
}

fn lookup(volume: &Volume<MemStore>, path: &str) -> Attr {
    path.split('/').fold(volume.run(|vfs, _| vfs.getattr(InodeNo::ROOT)).unwrap(), |parent, name| {
        volume.run(|vfs, now| vfs.lookup(now, parent.ino, name.as_bytes(), false)).unwrap()
    })
}

fn content(volume: &Volume<MemStore>, attr: &Attr) -> Vec<u8> {
    let mut out = vec![0; attr.size_bytes as usize];
    let got = volume.read(attr.ino, 0, &mut out).unwrap();
    assert_eq!(got, out.len());
    out
}

/// Names below a directory with their inodes, without `.` and `..`.
fn names(volume: &Volume<MemStore>, ino: InodeNo) -> BTreeMap<Vec<u8>, InodeNo> {
    let mut found = BTreeMap::new();
    volume
        .run(|vfs, now| {
            found.clear();
            vfs.readdir(now, ino, 0, &mut |entry| {
                found.insert(entry.name.to_vec(), entry.ino);
                true
            })
        })
        .unwrap();
    found.retain(|name, _| name != b"." && name != b"..");
    found
}

/// Compares a directory of the volume with its source, all the way down.
fn assert_same(volume: &Volume<MemStore>, ino: InodeNo, path: &Path) {
    let source = std::fs::symlink_metadata(path).unwrap();
    let attr = volume.run(|vfs, _| vfs.getattr(ino)).unwrap();
    assert_eq!(attr.kind, kind_of(&source), "{}", path.display());
    assert_eq!(u32::from(attr.mode), source.mode() & 0o7777, "{}", path.display());
    assert_eq!((attr.uid, attr.gid), (source.uid(), source.gid()), "{}", path.display());
    let time = |secs, nanos| TimeNs::from_parts(secs, nanos as u32);
    assert_eq!(attr.mtime, time(source.mtime(), source.mtime_nsec()), "{}", path.display());
    let xattrs = xattrs_of(path).unwrap();
    for (name, value) in &xattrs {
        let found = volume.run(|vfs, _| vfs.getxattr(ino, name.as_bytes())).unwrap();
        assert_eq!(&found, value, "{} {}", path.display(), name.to_string_lossy());
    }
    match attr.kind {
        Kind::Directory => {
            let found = names(volume, ino);
            let mut expected = 0;
            for entry in std::fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                let child = found.get(entry.file_name().as_bytes()).copied();
                assert_same(
                    volume,
                    child.unwrap_or_else(|| panic!("{:?} is missing", entry.path())),
                    &entry.path(),
                );
                expected += 1;
            }
            assert_eq!(found.len(), expected, "{}", path.display());
        }
        Kind::Symlink => {
            let target = volume.run(|vfs, now| vfs.readlink(now, ino)).unwrap();
            assert_eq!(target, std::fs::read_link(path).unwrap().as_os_str().as_bytes());
        }
        Kind::Regular => {
            assert_eq!(attr.size_bytes, source.len(), "{}", path.display());
            assert_eq!(u64::from(attr.nlink), source.nlink(), "{}", path.display());
            assert_eq!(content(volume, &attr), std::fs::read(path).unwrap(), "{}", path.display());
        }
        Kind::CharDevice | Kind::BlockDevice => {
            let major = u64::from(rustix::fs::major(source.rdev()));
            assert_eq!(attr.rdev, major << 32 | u64::from(rustix::fs::minor(source.rdev())));
        }
        Kind::Fifo | Kind::Socket => {}
    }
}

#[test]
fn a_tree_with_one_object_of_each_kind_is_copied_exactly() {
    let tree = tempfile::tempdir().unwrap();
    let at = |name: &str| tree.path().join(name);
    std::fs::create_dir_all(at("deep/er")).unwrap();
    std::fs::write(at("empty"), "").unwrap();
    std::fs::write(at("small"), "inline").unwrap();
    std::fs::write(at("deep/large"), vec![7; 3_000_001]).unwrap();
    std::fs::write(at("deep/er/odd \n name \u{1f9ca}"), "x").unwrap();
    std::fs::hard_link(at("deep/large"), at("deep/er/another name")).unwrap();
    std::os::unix::fs::symlink("../no/such/target", at("deep/link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o640.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let device = rustix::fs::makedev(1, 3);
    if rustix::fs::mknodat(
        rustix::fs::CWD,
        at("null"),
        rustix::fs::FileType::CharacterDevice,
        0o666.into(),
        device,
    )
    .is_err()
    {
        eprintln!("SKIPPED: device nodes need root");
    }
    std::fs::set_permissions(at("small"), std::fs::Permissions::from_mode(0o4751)).unwrap();
    std::fs::set_permissions(at("deep"), std::fs::Permissions::from_mode(0o3711)).unwrap();
    if rustix::fs::setxattr(at("small"), "user.colour", b"blue", rustix::fs::XattrFlags::empty()).is_err() {
        eprintln!("SKIPPED: the temporary directory has no extended attributes");
    }
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    for name in ["small", "deep/er", "deep"] {
        File::open(at(name)).unwrap().set_modified(old).unwrap();
    }

    let volume = volume(64 << 20);
    let totals = copy(&volume, tree.path()).unwrap();
    assert_same(&volume, InodeNo::ROOT, tree.path());
    assert_eq!(lookup(&volume, "deep/large").ino, lookup(&volume, "deep/er/another name").ino);
    assert_eq!(totals, survey(tree.path(), None, (0, 0), Measure::Data).unwrap().totals);
    assert_eq!((totals.files, totals.directories, totals.hard_links), (4, 3, 1));
}

#[test]
fn holes_stay_holes() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.write_all_at(b"middle", 5 << 20).unwrap();
    file.set_len(1 << 30).unwrap();
    let volume = volume(8 << 20);
    copy(&volume, tree.path()).unwrap();
    let attr = lookup(&volume, "sparse");
    assert_eq!(attr.size_bytes, 1 << 30);
    assert!(attr.allocated_bytes <= 1 << 20, "{} bytes charged", attr.allocated_bytes);
    let mut found = [0; 6];
    volume.read(attr.ino, 5 << 20, &mut found).unwrap();
    assert_eq!(&found, b"middle");
    let hole = volume.run(|vfs, _| vfs.seek(attr.ino, (5 << 20) + 4096, Seek::Hole)).unwrap();
    assert!(hole < 6 << 20, "the hole after the data begins at {hole}");
}

#[test]
fn a_default_acl_or_a_set_group_id_bit_of_a_directory_does_not_change_what_is_in_it() {
    let tree = tempfile::tempdir().unwrap();
    let directory = tree.path().join("shared");
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("file");
    std::fs::write(&file, "x").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o2775)).unwrap();
    // Version 2, user::rwx group::r-x other::r-x, in the form that the kernel hands out.
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, permissions) in [(1u16, 7u16), (4, 5), (0x20, 5)] {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(u32::MAX.to_le_bytes());
    }
    let set =
        rustix::fs::setxattr(&directory, "system.posix_acl_default", &acl, rustix::fs::XattrFlags::empty());
    if set.is_err() {
        eprintln!("SKIPPED in part: the temporary directory has no ACLs");
    }
    let volume = volume(8 << 20);
    copy(&volume, tree.path()).unwrap();
    assert_same(&volume, InodeNo::ROOT, tree.path());
    let attr = lookup(&volume, "shared/file");
    let inherited = volume.run(|vfs, _| vfs.getxattr(attr.ino, b"system.posix_acl_access"));
    assert_eq!(inherited, Err(FsError::NoAttribute));
}

#[test]
fn the_image_itself_is_left_out_of_the_tree_that_holds_it() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("kept"), "x").unwrap();
    let image = tree.path().join("disk.img");
    std::fs::write(&image, vec![1; 1 << 20]).unwrap();
    let id = source_id(&std::fs::metadata(&image).unwrap());
    let volume = volume(8 << 20);
    let totals = copy_tree(&volume, tree.path(), Some(id), &mut |_| Ok(())).unwrap();
    assert_eq!(totals.files, 1);
    assert_eq!(names(&volume, InodeNo::ROOT).into_keys().collect::<Vec<_>>(), [b"kept".to_vec()]);
    assert_eq!(survey(tree.path(), Some(id), (0, 0), Measure::Allocated).unwrap().totals, totals);
}

#[test]
fn a_volume_that_is_too_small_says_which_file_did_not_fit() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("big"), vec![1; 4 << 20]).unwrap();
    let error = copy(&volume(1 << 20), tree.path()).unwrap_err().to_string();
    assert!(error.contains("big") && error.contains("no space left"), "{error}");
    let not_a_directory = copy(&volume(1 << 20), &tree.path().join("big")).unwrap_err();
    assert_eq!(not_a_directory.exit, crate::failure::Exit::Usage);
}
