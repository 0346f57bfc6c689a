//! The contract's rule that no operation changes what it has not declared: each store asserts it, not only the one in memory.

use crate::common::{mount, new_device};
use firnfs::engine::Engine;
use firnfs::ffs;
use firnfs::inode::{Inode, Kind};
use firnfs::lfs;
use firnfs::mem::{MemOptions, MemStore};
use firnfs::store::{Fork, Intent, Op, OpKind, Owner, Store};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::MemDevice;
use firnfs_format::{BlockIndex, InodeNo, TimeNs};
use firnfs_manage::{format_ffs, open_ffs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const ROOT: InodeNo = InodeNo::ROOT;
const CREATE: Intent =
    Intent::Create { parent: ROOT, kind: Kind::Fifo, owner: Owner { uid: 0, gid: 0 }, bytes: 0 };
const CHANGE: Intent = Intent::Change { ino: ROOT, grow_bytes: 0 };

fn write(at_bytes: u64, len_bytes: u64) -> Intent {
    Intent::Write { ino: ROOT, fork: Fork::Data, at_bytes, len_bytes }
}

/// A change that does not keep to what its operation has declared.
type Change<S> = fn(&mut S, &mut Op);

/// What is declared, what is done instead, and what the store says to that.
fn cases<S: Store>() -> Vec<(&'static str, Intent, Change<S>, &'static str)> {
    let punch = Intent::Punch { ino: ROOT, fork: Fork::Data, at_bytes: 0, len_bytes: u64::MAX };
    vec![
        (
            "a write beyond",
            write(0, 100),
            |store, op| store.write(op, ROOT, Fork::Data, 50, [1; 51][..].into()),
            "was not declared",
        ),
        ("another inode", CREATE, |store, op| _ = store.inode_mut(op, ROOT).clone(), "was not declared"),
        (
            "in place what is replaced as a whole",
            write(0, 8192),
            |store, op| store.block_mut(op, ROOT, Fork::Data, BlockIndex(0))[0] = 1,
            "was not declared",
        ),
        (
            "another fork",
            punch,
            |store, op| store.punch(op, ROOT, Fork::Index, 0, u64::MAX),
            "was not declared",
        ),
        ("an inode is freed", CHANGE, |store, op| store.inode_free(op, ROOT), "was not declared"),
        (
            "a second inode",
            CREATE,
            |store, op| {
                store.inode_alloc(op, Inode::new(Kind::Fifo, TimeNs(1)));
                store.inode_alloc(op, Inode::new(Kind::Fifo, TimeNs(1)));
            },
            "declared",
        ),
    ]
}

fn assert_refuses_all<S: Engine>(store: &str, open: impl Fn() -> Volume<S>) {
    for (case, declared, change, expected) in cases::<S>() {
        let volume = open();
        let operate = |vfs: &mut Vfs<S>, now| {
            let store = vfs.store_mut();
            // It looks, declares, and then does something else.
            store.inode(ROOT)?;
            let mut op = store.begin(now, OpKind::File, &[declared])?;
            change(store, &mut op);
            store.end(op);
            Ok(())
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| volume.run(operate))).expect_err(case);
        let said = panicked.downcast_ref::<String>().map(String::as_str);
        let said = said.or(panicked.downcast_ref::<&str>().copied()).unwrap_or_default();
        assert!(said.contains(expected), "{store}, {case}: {said}");
        // It is in the middle of an operation.
        std::mem::forget(volume);
    }
}

#[test]
fn the_log_refuses_undeclared_changes() {
    assert_refuses_all("log", || mount(&new_device(16 << 20, 0), lfs::Options::default()).0);
}

#[test]
fn the_fast_file_system_refuses_undeclared_changes() {
    assert_refuses_all("Fast File System", || {
        let options =
            ffs::MkfsOptions { group_bytes: Some(4 << 20), ..ffs::MkfsOptions::with_size(32 << 20) };
        let device = Arc::new(MemDevice::new(options.size_bytes));
        format_ffs(&*device, &options).unwrap();
        let clock = Arc::new(VirtualClock::at(1_000_000_000));
        open_ffs(device, ffs::Options::default(), AtimeMode::Noatime, clock).unwrap()
    });
}

#[test]
fn the_store_in_memory_refuses_undeclared_changes() {
    assert_refuses_all("memory", || {
        let options = MemOptions { inline_max_bytes: 0, ..MemOptions::with_capacity(1 << 20) };
        let store = MemStore::new(options, TimeNs(1));
        Volume::new(Vfs::new(store, AtimeMode::Noatime), None, Arc::new(VirtualClock::at(1_000_000_000)))
    });
}
