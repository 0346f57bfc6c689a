//! Semantics of single operations on the memory store. Sequences are the model test's business (`torture`).

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
fn what_is_made_is_found_listed_and_gone_after_unlink() {
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
