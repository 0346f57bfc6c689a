//! The semantics of single operations, on the memory store. The model test covers sequences (`torture`).

use super::*;
use crate::error::{FsError, Stop};
use crate::mem::{MemOptions, MemStore};
use crate::store::Piece;

const ROOT: InodeNo = InodeNo::ROOT;
const USER: Caller = Caller { uid: 1000, gid: 100, umask: 0o022 };

fn options() -> MemOptions {
    MemOptions { inline_max_bytes: 64, inline_xattr_max_bytes: 64, ..MemOptions::with_capacity(64 << 20) }
}

fn vfs() -> Vfs<MemStore> {
    Vfs::new(MemStore::new(options(), TimeNs(1)), AtimeMode::Relatime)
}

fn node(kind: Kind, mode: u16) -> NewNode<'static> {
    NewNode { kind, mode, rdev: 0, target: b"" }
}

fn fails<T: std::fmt::Debug>(outcome: Outcome<T>) -> &'static str {
    match outcome.unwrap_err() {
        Stop::Fail(error) => error.errno_name(),
        other => panic!("{other:?}"),
    }
}

impl Vfs<MemStore> {
    fn file(&mut self, parent: InodeNo, name: &str) -> InodeNo {
        self.make(TimeNs(10), USER, parent, name.as_bytes(), node(Kind::Regular, 0o666), false).unwrap().ino
    }

    fn dir(&mut self, parent: InodeNo, name: &str) -> InodeNo {
        self.make(TimeNs(10), USER, parent, name.as_bytes(), node(Kind::Directory, 0o777), false).unwrap().ino
    }

    fn ino(&mut self, parent: InodeNo, name: &str) -> Option<InodeNo> {
        match self.lookup(TimeNs(0), parent, name.as_bytes(), false) {
            Ok(attr) => Some(attr.ino),
            Err(Stop::Fail(FsError::NotFound)) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    fn content(&mut self, ino: InodeNo) -> Vec<u8> {
        let plan = self.read(TimeNs(20), ino, 0, u64::MAX).unwrap();
        let mut out = Vec::new();
        for piece in plan.pieces {
            match piece {
                Piece::Zeros { len_bytes } => out.resize(out.len() + len_bytes, 0),
                Piece::Memory { buf, start, len_bytes } => {
                    out.extend_from_slice(&buf[start..start + len_bytes])
                }
                Piece::Stored { .. } => panic!("the memory store stores nothing"),
            }
        }
        out
    }

    fn put(&mut self, ino: InodeNo, at_bytes: u64, bytes: &[u8]) {
        assert_eq!(self.write(TimeNs(30), ino, at_bytes, bytes, false).unwrap(), bytes.len());
    }

    fn names(&mut self, dir: InodeNo) -> Vec<String> {
        let mut names = Vec::new();
        self.readdir(TimeNs(40), dir, 0, &mut |entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        })
        .unwrap();
        names
    }
}

#[test]
fn a_new_file_is_found_and_listed_and_gone_after_unlink() {
    let mut fs = vfs();
    let dir = fs.dir(ROOT, "d");
    let file = fs.file(dir, "f");
    assert_eq!(fs.ino(dir, "f"), Some(file));
    assert_eq!(fs.ino(dir, "."), Some(dir));
    assert_eq!(fs.ino(dir, ".."), Some(ROOT));
    assert_eq!(fs.names(dir), [".", "..", "f"]);
    fs.unlink(TimeNs(50), dir, b"f").unwrap();
    assert_eq!(fs.ino(dir, "f"), None);
    assert_eq!(fails(fs.getattr(file)), "ENOENT");
    fs.rmdir(TimeNs(60), ROOT, b"d").unwrap();
    assert_eq!(fs.statfs().inodes_used, 1);
}

#[test]
fn content_moves_from_the_inode_to_blocks_and_back_when_emptied() {
    let mut fs = vfs();
    let file = fs.file(ROOT, "f");
    fs.put(file, 0, &[7; 60]);
    assert_eq!(fs.getattr(file).unwrap().allocated_bytes, 0);
    fs.put(file, 58, &[8; 5000]);
    let mut expected = vec![7; 58];
    expected.resize(5058, 8);
    assert_eq!(fs.content(file), expected);
    assert_eq!(fs.getattr(file).unwrap().allocated_bytes, 8192);
    let size = |size_bytes| SetAttr { size_bytes: Some(size_bytes), ..SetAttr::default() };
    fs.setattr(TimeNs(31), file, size(100)).unwrap();
    fs.setattr(TimeNs(32), file, size(200)).unwrap();
    expected.truncate(100);
    expected.resize(200, 0);
    assert_eq!(fs.content(file), expected, "growing shows zeros, not what was cut");
    fs.setattr(TimeNs(33), file, size(0)).unwrap();
    assert_eq!(fs.getattr(file).unwrap().allocated_bytes, 0);
    fs.put(file, 3, b"x");
    assert_eq!(fs.content(file), b"\0\0\0x");
}

#[test]
fn an_unlinked_file_lives_while_it_is_held() {
    let mut fs = vfs();
    let file = fs.file(ROOT, "f");
    fs.put(file, 0, &[1; 10_000]);
    fs.hold(file).unwrap();
    fs.lookup(TimeNs(0), ROOT, b"f", true).unwrap();
    fs.unlink(TimeNs(50), ROOT, b"f").unwrap();
    assert_eq!(fs.getattr(file).unwrap().nlink, 0);
    assert_eq!(fs.content(file), [1; 10_000]);
    fs.put(file, 0, b"still writable");
    assert_eq!(fails(fs.link(TimeNs(51), file, ROOT, b"g", false)), "ENOENT");
    fs.forget(TimeNs(52), file, 1).unwrap();
    assert!(fs.getattr(file).is_ok());
    fs.forget(TimeNs(53), file, 1).unwrap();
    assert_eq!(fails(fs.getattr(file)), "ENOENT");
    assert_eq!(fs.statfs().inodes_used, 1);
    fs.forget(TimeNs(54), file, 7).unwrap();
}

#[test]
fn a_file_made_without_a_name_goes_with_its_last_hold_unless_it_is_named() {
    let mut fs = vfs();
    let lost = fs.make_unnamed(TimeNs(50), USER, ROOT, 0o600).unwrap();
    assert_eq!((lost.nlink, lost.mode), (0, 0o600));
    assert_eq!(fs.names(ROOT), [".", ".."]);
    fs.put(lost.ino, 0, &[1; 10_000]);
    fs.forget(TimeNs(51), lost.ino, 1).unwrap();
    assert_eq!(fails(fs.getattr(lost.ino)), "ENOENT");

    let kept = fs.make_unnamed(TimeNs(52), USER, ROOT, 0o600).unwrap().ino;
    fs.put(kept, 0, b"kept");
    assert_eq!(fs.link(TimeNs(53), kept, ROOT, b"f", false).unwrap().nlink, 1);
    fs.forget(TimeNs(54), kept, 1).unwrap();
    assert_eq!(fs.content(kept), b"kept");
    fs.hold(kept).unwrap();
    fs.unlink(TimeNs(55), ROOT, b"f").unwrap();
    assert_eq!(
        fails(fs.link(TimeNs(56), kept, ROOT, b"g", false)),
        "ENOENT",
        "it has lost its name for good"
    );

    let left = fs.make_unnamed(TimeNs(57), USER, ROOT, 0o600).unwrap().ino;
    let mut fs = Vfs::new(fs.into_store(), AtimeMode::Relatime);
    fs.release_orphans(TimeNs(60)).unwrap();
    assert_eq!(fails(fs.getattr(left)), "ENOENT");
    assert_eq!(fs.statfs().inodes_used, 1);
}

#[test]
fn a_removed_directory_that_is_held_is_dead() {
    let mut fs = vfs();
    let dir = fs.dir(ROOT, "d");
    fs.hold(dir).unwrap();
    fs.rmdir(TimeNs(50), ROOT, b"d").unwrap();
    assert_eq!(fs.getattr(dir).unwrap().nlink, 0);
    assert_eq!(fs.names(dir), Vec::<String>::new());
    let made = fs.make(TimeNs(51), USER, dir, b"f", node(Kind::Regular, 0o644), false);
    assert_eq!(fails(made), "ENOENT");
    let file = fs.file(ROOT, "f");
    assert_eq!(fails(fs.rename(TimeNs(52), (ROOT, b"f"), (dir, b"f"), RenameMode::Replace)), "ENOENT");
    assert_eq!(fails(fs.link(TimeNs(53), file, dir, b"g", false)), "ENOENT");
    fs.release_orphans(TimeNs(54)).unwrap();
    assert_eq!(fails(fs.getattr(dir)), "ENOENT");
}

#[test]
fn unmounting_frees_held_files_without_a_name() {
    let mut fs = vfs();
    let file = fs.file(ROOT, "f");
    fs.hold(file).unwrap();
    fs.unlink(TimeNs(50), ROOT, b"f").unwrap();
    let mut fs = Vfs::new(fs.into_store(), AtimeMode::Relatime);
    assert_eq!(fs.statfs().inodes_used, 2);
    fs.release_orphans(TimeNs(60)).unwrap();
    assert_eq!(fs.statfs().inodes_used, 1);
}

#[test]
fn a_new_use_of_an_inode_number_has_another_generation() {
    let mut fs = vfs();
    let first = fs.file(ROOT, "f");
    let generation = fs.getattr(first).unwrap().generation;
    fs.unlink(TimeNs(50), ROOT, b"f").unwrap();
    let second = fs.file(ROOT, "f");
    assert_eq!(first, second, "the number is reused");
    assert_ne!(fs.getattr(second).unwrap().generation, generation);
}

#[test]
fn links_are_limited() {
    let mut fs = vfs();
    let file = fs.file(ROOT, "f");
    let store = fs.store_mut();
    let intent = Intent::Change { ino: file, grow_bytes: 0 };
    let mut op = store.begin(TimeNs(9), OpKind::File, &[intent]).unwrap();
    store.inode_mut(&mut op, file).nlink = LINK_MAX - 1;
    store.end(op);
    assert_eq!(fs.link(TimeNs(50), file, ROOT, b"g", false).unwrap().nlink, LINK_MAX);
    assert_eq!(fails(fs.link(TimeNs(51), file, ROOT, b"h", false)), "EMLINK");
}

#[test]
fn names_are_bytes_up_to_255_of_them() {
    let mut fs = vfs();
    let odd: Vec<u8> = (1..=255).filter(|&byte| byte != b'/').collect();
    let file = fs.make(TimeNs(10), USER, ROOT, &odd, node(Kind::Regular, 0o644), false).unwrap().ino;
    assert_eq!(fs.lookup(TimeNs(0), ROOT, &odd, false).unwrap().ino, file);
    for (name, error) in [
        (vec![b'x'; 256], "ENAMETOOLONG"),
        (b"a/b".to_vec(), "EINVAL"),
        (b"a\0b".to_vec(), "EINVAL"),
        (b".".to_vec(), "EEXIST"),
        (b"..".to_vec(), "EEXIST"),
        (Vec::new(), "ENOENT"),
    ] {
        let made = fs.make(TimeNs(11), USER, ROOT, &name, node(Kind::Regular, 0o644), false);
        assert_eq!(fails(made), error, "{name:?}");
    }
    assert_eq!(fails(fs.rmdir(TimeNs(12), ROOT, b".")), "EINVAL");
    assert_eq!(fails(fs.rmdir(TimeNs(12), ROOT, b"..")), "ENOTEMPTY");
    assert_eq!(fails(fs.unlink(TimeNs(12), ROOT, b"..")), "EINVAL");
}

#[test]
fn a_set_group_id_directory_passes_its_group_on() {
    let mut fs = vfs();
    let dir = fs.dir(ROOT, "d");
    let set = SetAttr { mode: Some(0o2775), gid: Some(42), ..SetAttr::default() };
    fs.setattr(TimeNs(20), dir, set).unwrap();
    let (file, below) = (fs.file(dir, "f"), fs.dir(dir, "b"));
    let (file, below) = (fs.getattr(file).unwrap(), fs.getattr(below).unwrap());
    assert_eq!((file.gid, file.mode), (42, 0o644));
    assert_eq!((below.gid, below.mode), (42, 0o2755));
}

#[test]
fn writing_chown_and_truncating_clear_set_id_bits_and_capabilities() {
    let changes: [fn(&mut Vfs<MemStore>, InodeNo, bool); 3] = [
        |fs, ino, kill_set_id| assert_eq!(fs.write(TimeNs(30), ino, 0, b"x", kill_set_id).unwrap(), 1),
        |fs, ino, kill_set_id| {
            let set = SetAttr { gid: Some(7), kill_set_id, ..SetAttr::default() };
            fs.setattr(TimeNs(30), ino, set).unwrap();
        },
        |fs, ino, kill_set_id| {
            let set = SetAttr { size_bytes: Some(1), kill_set_id, ..SetAttr::default() };
            fs.setattr(TimeNs(30), ino, set).unwrap();
        },
    ];
    for change in changes {
        for (mode, kill_set_id, expected) in
            [(0o6755, true, 0o755), (0o6745, true, 0o2745), (0o6755, false, 0o6755), (0o755, true, 0o755)]
        {
            let mut fs = vfs();
            let file = fs.file(ROOT, "f");
            fs.setattr(TimeNs(20), file, SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
            fs.setxattr(TimeNs(21), file, b"security.capability", &[1; 20], XattrMode::Any).unwrap();
            change(&mut fs, file, kill_set_id);
            assert_eq!(fs.getattr(file).unwrap().mode, expected, "from {mode:o}");
            assert_eq!(fs.getxattr(file, b"security.capability").is_err(), kill_set_id);
        }
    }
    let mut fs = vfs();
    let dir = fs.dir(ROOT, "d");
    let set = SetAttr { mode: Some(0o6777), ..SetAttr::default() };
    fs.setattr(TimeNs(20), dir, set).unwrap();
    let set = SetAttr { uid: Some(5), kill_set_id: true, ..SetAttr::default() };
    assert_eq!(fs.setattr(TimeNs(21), dir, set).unwrap().mode, 0o6777, "directories keep theirs");
}

#[test]
fn a_chmod_that_names_the_mode_keeps_it_whatever_else_changes() {
    let mut fs = vfs();
    let file = fs.file(ROOT, "f");
    let set = SetAttr { mode: Some(0o4755), uid: Some(3), kill_set_id: true, ..SetAttr::default() };
    assert_eq!(fs.setattr(TimeNs(20), file, set).unwrap().mode, 0o4755);
}

#[test]
fn files_end_where_the_store_ends_them() {
    let mut fs = vfs();
    let file = fs.file(ROOT, "f");
    let max = fs.store().facts().file_max_bytes;
    assert_eq!(
        fs.write(TimeNs(30), file, max - 3, b"abcdef", false).unwrap(),
        3,
        "the part that fits is written"
    );
    assert_eq!(fails(fs.write(TimeNs(30), file, max, b"d", false)), "EFBIG");
    let set = SetAttr { size_bytes: Some(max + 1), ..SetAttr::default() };
    assert_eq!(fails(fs.setattr(TimeNs(31), file, set)), "EFBIG");
    assert_eq!(fails(fs.fallocate(TimeNs(32), file, Allocate::Grow, max, 1, false)), "EFBIG");
    assert_eq!(
        fails(fs.fallocate(TimeNs(32), file, Allocate::PunchHole, u64::MAX, u64::MAX, false)),
        "EFBIG"
    );
    assert_eq!(fails(fs.fallocate(TimeNs(32), file, Allocate::Grow, 0, 0, false)), "EINVAL");
}

#[test]
fn content_belongs_to_regular_files() {
    let mut fs = vfs();
    let fifo = fs.make(TimeNs(10), USER, ROOT, b"p", node(Kind::Fifo, 0o644), false).unwrap().ino;
    let dir = fs.dir(ROOT, "d");
    for (ino, error) in [(fifo, "EINVAL"), (dir, "EISDIR")] {
        assert_eq!(fails(fs.write(TimeNs(20), ino, 0, b"x", false)), error);
        assert_eq!(fails(fs.read(TimeNs(20), ino, 0, 1)), error);
        assert_eq!(fails(fs.seek(ino, 0, Seek::Data)), error);
        assert_eq!(fails(fs.fallocate(TimeNs(20), ino, Allocate::Grow, 0, 1, false)), error);
        let set = SetAttr { size_bytes: Some(0), ..SetAttr::default() };
        assert_eq!(fails(fs.setattr(TimeNs(20), ino, set)), error);
    }
}

#[test]
fn holes_and_reserved_room_are_holes_inline_content_is_data() {
    let mut fs = vfs();
    let file = fs.file(ROOT, "f");
    fs.put(file, 0, b"inline");
    assert_eq!(fs.seek(file, 2, Seek::Data).unwrap(), 2);
    assert_eq!(fs.seek(file, 2, Seek::Hole).unwrap(), 6);
    assert_eq!(fails(fs.seek(file, 6, Seek::Hole)), "ENXIO");
    fs.put(file, 3 * 4096, &[5; 4096]);
    fs.fallocate(TimeNs(31), file, Allocate::Grow, 0, 10 * 4096, false).unwrap();
    assert_eq!(fs.getattr(file).unwrap().allocated_bytes, 10 * 4096);
    assert_eq!(fs.seek(file, 0, Seek::Hole).unwrap(), 4096, "reserved room is a hole");
    assert_eq!(fs.seek(file, 5000, Seek::Data).unwrap(), 3 * 4096);
    assert_eq!(fs.seek(file, 3 * 4096, Seek::Hole).unwrap(), 4 * 4096);
    assert_eq!(fails(fs.seek(file, 4 * 4096, Seek::Data)), "ENXIO");
    fs.fallocate(TimeNs(32), file, Allocate::PunchHole, 0, 10 * 4096, false).unwrap();
    assert_eq!(fs.getattr(file).unwrap().allocated_bytes, 0);
    assert_eq!(fs.getattr(file).unwrap().size_bytes, 10 * 4096);
}

#[test]
fn room_reserved_beyond_the_end_goes_with_a_truncate_to_nothing() {
    let mut fs = vfs();
    let file = fs.file(ROOT, "f");
    fs.fallocate(TimeNs(31), file, Allocate::KeepSize, 0, 20_000, false).unwrap();
    let attr = fs.getattr(file).unwrap();
    assert_eq!((attr.size_bytes, attr.allocated_bytes), (0, 20_480));
    let set = SetAttr { size_bytes: Some(0), ..SetAttr::default() };
    assert_eq!(fs.setattr(TimeNs(32), file, set).unwrap().allocated_bytes, 0);
}

#[test]
fn long_operations_are_done_in_parts() {
    let options = MemOptions { op_max_bytes: 8192, ..options() };
    let mut fs = Vfs::new(MemStore::new(options, TimeNs(1)), AtimeMode::Relatime);
    let file = fs.file(ROOT, "f");
    assert_eq!(fs.write(TimeNs(30), file, 100, &[1; 30_000], false).unwrap(), 8092, "up to a block's end");
    assert_eq!(fs.fallocate(TimeNs(31), file, Allocate::Grow, 0, 20_000, false).unwrap(), Some(8192));
    assert_eq!(
        fs.fallocate(TimeNs(31), file, Allocate::Grow, 8192, 20_000 - 8192, false).unwrap(),
        Some(16_384)
    );
    assert_eq!(fs.fallocate(TimeNs(31), file, Allocate::Grow, 16_384, 20_000 - 16_384, false).unwrap(), None);
    assert_eq!(fs.getattr(file).unwrap().size_bytes, 20_000);
}

#[test]
fn a_full_volume_refuses_data_and_still_deletes() {
    let options = MemOptions { capacity_bytes: 100_000, ..options() };
    let mut fs = Vfs::new(MemStore::new(options, TimeNs(1)), AtimeMode::Relatime);
    let mut files = 0;
    let refused = loop {
        let name = format!("f{files}");
        match fs.make(TimeNs(10), USER, ROOT, name.as_bytes(), node(Kind::Regular, 0o644), false) {
            Ok(attr) => drop(fs.write(TimeNs(11), attr.ino, 0, &[9; 3000], false)),
            Err(stop) => break stop,
        }
        files += 1;
    };
    assert!(matches!(refused, Stop::Fail(FsError::NoSpace)));
    for file in 0..files {
        fs.unlink(TimeNs(12), ROOT, format!("f{file}").as_bytes()).unwrap();
    }
    let space = fs.statfs();
    assert_eq!(space.free_bytes, space.total_bytes - crate::mem::INODE_BYTES, "all is free but the root");
}

#[test]
fn access_times_follow_their_mode() {
    const DAY: i64 = 86_400_000_000_000;
    for (mode, expected) in [
        (AtimeMode::Noatime, [10, 10, 10]),
        (AtimeMode::Relatime, [40, 40, 41 + DAY]),
        (AtimeMode::Strictatime, [40, 41, 41 + DAY]),
    ] {
        let mut fs = Vfs::new(MemStore::new(options(), TimeNs(1)), mode);
        let file = fs.file(ROOT, "f");
        for (now, atime) in [40, 41, 41 + DAY].into_iter().zip(expected) {
            fs.read(TimeNs(now), file, 0, 10).unwrap();
            assert_eq!(fs.getattr(file).unwrap().atime, TimeNs(atime), "{mode:?} at {now}");
        }
        assert_eq!(fs.getattr(file).unwrap().ctime, TimeNs(10), "reading is no change");
    }
}

#[test]
fn symbolic_links_hold_their_target_inline_or_in_blocks() {
    for len in [1, 64, 65, 4095] {
        let mut fs = vfs();
        let target = vec![b't'; len];
        let node = NewNode { kind: Kind::Symlink, mode: 0, rdev: 0, target: &target };
        let attr = fs.make(TimeNs(10), USER, ROOT, b"l", node, false).unwrap();
        assert_eq!((attr.mode, attr.size_bytes), (0o777, len as u64));
        assert_eq!(fs.readlink(TimeNs(20), attr.ino).unwrap(), target);
        assert_eq!(attr.allocated_bytes > 0, len > 64);
    }
}

#[test]
fn exchanging_a_directory_with_a_file_moves_parents_and_counts() {
    let mut fs = vfs();
    let (left, right) = (fs.dir(ROOT, "left"), fs.dir(ROOT, "right"));
    let (dir, file) = (fs.dir(left, "x"), fs.file(right, "y"));
    fs.rename(TimeNs(50), (left, b"x"), (right, b"y"), RenameMode::Exchange).unwrap();
    assert_eq!((fs.ino(left, "x"), fs.ino(right, "y")), (Some(file), Some(dir)));
    assert_eq!(fs.ino(dir, ".."), Some(right));
    assert_eq!((fs.getattr(left).unwrap().nlink, fs.getattr(right).unwrap().nlink), (2, 3));
    let below = fs.rename(TimeNs(51), (ROOT, b"right"), (dir, b"z"), RenameMode::Replace);
    assert_eq!(fails(below), "EINVAL", "a directory into itself");
    fs.file(dir, "w");
    let above = fs.rename(TimeNs(52), (dir, b"w"), (ROOT, b"right"), RenameMode::Exchange);
    assert_eq!(fails(above), "EINVAL", "a directory into its own subtree by exchange");
}
