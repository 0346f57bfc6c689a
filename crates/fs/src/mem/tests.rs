//! The memory store's own promises: it rejects undeclared changes, and counts its space.

use super::*;
use crate::inode::Body;
use crate::store::Piece;

const NOW: TimeNs = TimeNs(1);
const ROOT: InodeNo = InodeNo::ROOT;

const CREATE: Intent =
    Intent::Create { parent: InodeNo::ROOT, kind: Kind::Regular, owner: Owner { uid: 0, gid: 0 }, bytes: 0 };

fn store() -> MemStore {
    MemStore::new(MemOptions { inline_max_bytes: 0, ..MemOptions::with_capacity(64 << 10) }, NOW)
}

fn write(at_bytes: u64, len_bytes: u64) -> Intent {
    Intent::Write { ino: ROOT, fork: Fork::Data, at_bytes, len_bytes }
}

fn punch(at_bytes: u64, len_bytes: u64) -> Intent {
    Intent::Punch { ino: ROOT, fork: Fork::Data, at_bytes, len_bytes }
}

/// Runs one operation with these intents.
fn with(store: &mut MemStore, intents: &[Intent], change: impl FnOnce(&mut MemStore, &mut Op)) {
    let mut op = store.begin(NOW, OpKind::File, intents).unwrap();
    change(store, &mut op);
    store.end(op);
}

#[test]
#[should_panic(expected = "was not declared")]
fn a_write_beyond_what_was_declared_panics() {
    with(&mut store(), &[write(0, 100)], |store, op| {
        store.write(op, ROOT, Fork::Data, 50, [1; 51][..].into())
    });
}

#[test]
#[should_panic(expected = "was not declared")]
fn a_change_of_another_inode_panics() {
    with(&mut store(), &[CREATE], |store, op| drop(store.inode_mut(op, ROOT).clone()));
}

#[test]
#[should_panic(expected = "was not declared")]
fn a_block_declared_whole_is_not_changed_in_place() {
    with(&mut store(), &[write(0, 4096)], |store, op| {
        store.block_mut(op, ROOT, Fork::Data, BlockIndex(0))[0] = 1;
    });
}

#[test]
#[should_panic(expected = "was not declared")]
fn a_punch_of_another_fork_panics() {
    with(&mut store(), &[punch(0, u64::MAX)], |store, op| store.punch(op, ROOT, Fork::Index, 0, u64::MAX));
}

#[test]
#[should_panic(expected = "was not declared")]
fn freeing_what_was_only_to_change_panics() {
    let intent = Intent::Change { ino: ROOT, grow_bytes: 0 };
    with(&mut store(), &[intent], |store, op| store.inode_free(op, ROOT));
}

#[test]
#[should_panic(expected = "more inodes than declared")]
fn making_a_second_inode_panics() {
    with(&mut store(), &[CREATE], |store, op| {
        store.inode_alloc(op, Inode::new(Kind::Fifo, NOW));
        store.inode_alloc(op, Inode::new(Kind::Fifo, NOW));
    });
}

#[test]
#[should_panic(expected = "more than it declared")]
fn growing_inline_content_undeclared_panics() {
    let mut store = MemStore::new(MemOptions::with_capacity(1 << 20), NOW);
    with(&mut store, &[Intent::Change { ino: ROOT, grow_bytes: 10 }], |store, op| {
        let root = store.inode_mut(op, ROOT);
        root.body = Body::Inline(vec![0; 11]);
        root.size_bytes = 11;
    });
}

#[test]
#[should_panic(expected = "inside another")]
fn two_operations_at_once_panic() {
    let mut store = store();
    let _open = store.begin(NOW, OpKind::File, &[]).unwrap();
    let _second = store.begin(NOW, OpKind::File, &[]);
}

#[test]
fn space_is_counted_block_by_block() {
    let mut store = store();
    let free = store.space().free_bytes;
    with(&mut store, &[write(100, 8192)], |store, op| {
        store.write(op, ROOT, Fork::Data, 100, [7; 8192][..].into())
    });
    assert_eq!(free - store.space().free_bytes, 3 * 4096);
    let reserve = Intent::Reserve { ino: ROOT, at_bytes: 0, len_bytes: 5 * 4096 };
    with(&mut store, &[reserve], |store, op| store.reserve(op, ROOT, 0, 5 * 4096));
    assert_eq!((free - store.space().free_bytes, store.allocated_bytes(ROOT)), (5 * 4096, 5 * 4096));
    with(&mut store, &[punch(50, 4096)], |store, op| store.punch(op, ROOT, Fork::Data, 50, 4096));
    assert_eq!(free - store.space().free_bytes, 5 * 4096, "parts of blocks are zeroed, not dropped");
    with(&mut store, &[punch(4000, u64::MAX)], |store, op| store.punch(op, ROOT, Fork::Data, 4000, u64::MAX));
    assert_eq!(free - store.space().free_bytes, 4096);
    with(&mut store, &[punch(0, 4096)], |store, op| store.punch(op, ROOT, Fork::Data, 0, 4096));
    assert_eq!(store.space().free_bytes, free);
}

#[test]
fn operations_that_do_not_fit_fail_at_begin_and_those_that_free_never_do() {
    let mut store = store();
    let free_blocks = store.space().free_bytes / 4096;
    let too_much = store.begin(NOW, OpKind::File, &[write(0, (free_blocks + 1) * 4096)]);
    assert!(matches!(too_much, Err(crate::Stop::Fail(FsError::NoSpace))));
    let bytes = vec![1; free_blocks as usize * 4096];
    with(&mut store, &[write(0, bytes.len() as u64)], |store, op| {
        store.write(op, ROOT, Fork::Data, 0, bytes[..].into())
    });
    let one_more = store.begin(NOW, OpKind::File, &[write(bytes.len() as u64, 1)]);
    assert!(matches!(one_more, Err(crate::Stop::Fail(FsError::NoSpace))));
    with(&mut store, &[write(0, 4096)], |store, op| {
        store.write(op, ROOT, Fork::Data, 0, [2; 4096][..].into())
    });
    with(&mut store, &[punch(0, 4096)], |store, op| store.punch(op, ROOT, Fork::Data, 0, 4096));
    assert_eq!(store.space().free_bytes / 4096, 1);
}

#[test]
fn reads_and_extents_tell_data_from_holes() {
    let mut store = store();
    with(&mut store, &[write(8192, 4096)], |store, op| {
        store.write(op, ROOT, Fork::Data, 8192, [3; 4096][..].into())
    });
    let reserve = Intent::Reserve { ino: ROOT, at_bytes: 12_288, len_bytes: 4096 };
    with(&mut store, &[reserve], |store, op| store.reserve(op, ROOT, 12_288, 4096));
    let lens: Vec<(bool, usize)> = store
        .read(ROOT, 100, 20_000)
        .unwrap()
        .pieces
        .iter()
        .map(|piece| match piece {
            Piece::Zeros { len_bytes } => (false, *len_bytes),
            Piece::Memory { len_bytes, .. } => (true, *len_bytes),
            Piece::Stored { .. } => panic!("memory stores nothing"),
        })
        .collect();
    assert_eq!(lens, [(false, 8092), (true, 4096), (false, 7812)]);
    let extent = |store: &mut MemStore, at, limit| store.extent(ROOT, at, limit).unwrap();
    let found = |len_bytes, is_data, is_charged| Extent { len_bytes, is_data, is_charged };
    assert_eq!(extent(&mut store, 100, 50_000), found(8092, false, false));
    assert_eq!(extent(&mut store, 9000, 50_000), found(3288, true, true));
    assert_eq!(extent(&mut store, 12_288, 50_000), found(4096, false, true), "reserved");
    assert_eq!(extent(&mut store, 16_384, 50_000), found(50_000, false, false));
    assert_eq!(extent(&mut store, 9000, 10), found(10, true, true));
}
