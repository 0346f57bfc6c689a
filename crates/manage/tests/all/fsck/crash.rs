//! An interrupted repair, cut at any of its writes, leaves a volume that the next repair completes, with everything
//! that survived the damage.

use crate::fsck::fixture::{Fixture, Tree, clock, walk};
use firnfs::check::Severity;
use firnfs::dirent;
use firnfs::store::Fork;
use firnfs_device::{Device, MemDevice, SparseImage};
use firnfs_format::InodeNo;
use firnfs_manage::repair;
use firnfs_sim::CrashDisk;
use firnfs_torture::crash::{Explorer, Firn, Limits, Seen};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Cuts judged for each repair.
const STATES: usize = 60;

fn image_of(fixture: &Fixture) -> SparseImage {
    let mut image = SparseImage::new(crate::fsck::fixture::SIZE_BYTES);
    image.write(0, &fixture.read(0, crate::fsck::fixture::SIZE_BYTES as usize));
    image
}

/// Repairs the fixture's volume with the power cut at many points, and again after each cut; `judge` sees the final
/// tree.
pub fn cut_short(fixture: &Fixture, judge: impl Fn(&Tree)) {
    let disk = Arc::new(CrashDisk::new(image_of(fixture), 4096));
    let device: Arc<dyn Device> = disk.clone();
    let repaired = repair(&device, &clock(), &mut |_| true, &mut |_| {}).unwrap();
    assert!(!repaired.actions.is_empty() && repaired.after.is_clean(), "{:#?}", repaired.after.findings);
    let history = disk.history();
    let subject = Firn::small();
    let seen = Seen::new();
    let explorer = Explorer::new(&subject, Limits { nested_states: STATES, ..Limits::default() }, &seen);
    let states = explorer.states_during(&history);
    assert!(states.len() >= STATES / 3, "only {} states", states.len());
    for (state, _) in states {
        let image = history.image(&state).expect("a state of this history");
        let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image));
        let again = repair(&device, &clock(), &mut |_| true, &mut |_| {})
            .unwrap_or_else(|why| panic!("cut at {state}: {why}"));
        let worst = again.after.severity();
        assert!(worst < Some(Severity::Copy), "cut at {state}: {:#?}", again.after.findings);
        let there = Fixture { device, tree: Tree::new() };
        judge(&there.with_volume(walk));
    }
}

/// Every path except the lost ones leads to the same file as before.
pub fn keeps_all_but(fixture: &Fixture, lost: &[&str]) -> impl Fn(&Tree) {
    move |tree: &Tree| {
        for (path, seen) in &fixture.tree {
            let is_lost = lost.iter().any(|lost| path == lost || path.starts_with(&format!("{lost}/")));
            if !is_lost {
                let now = tree.get(path).unwrap_or_else(|| panic!("{path:?} is gone"));
                assert!((now.ino, &now.content) == (seen.ino, &seen.content), "{path:?}");
            }
        }
    }
}

#[test]
fn a_repair_of_damaged_blocks_can_be_cut_short() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("dir/sub/large", Fork::Data, 1, 1));
    fixture.damage(&fixture.block("dir/blocks", Fork::Data, 0, 3));
    cut_short(&fixture, keeps_all_but(&fixture, &["dir/sub/large", "dir/blocks"]));
}

#[test]
fn a_repair_of_names_and_counts_can_be_cut_short() {
    let fixture = Fixture::new();
    let lost = fixture.ino("dir/sub/deep");
    fixture.edit_inode("dir/sub", |inode| {
        let firnfs::inode::Body::Inline(content) = &mut inode.body else { panic!("inline") };
        let deep = dirent::records(content).map(Result::unwrap).find(|r| r.name == b"deep").unwrap().at;
        dirent::remove_inline(content, deep).unwrap();
        inode.size_bytes = content.len() as u64;
    });
    fixture.edit_inode("dir/shared", |inode| inode.nlink = 9);
    fixture.damage(&fixture.block("wide", Fork::Index, 0, 3));
    let keeps = keeps_all_but(&fixture, &["dir/sub/deep"]);
    cut_short(&fixture, |tree| {
        keeps(tree);
        assert!(tree.values().any(|seen| seen.ino == lost), "the lost directory is somewhere");
    });
}

#[test]
fn a_repair_of_the_root_can_be_cut_short() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.record_ptr(InodeNo::ROOT));
    let contents: BTreeMap<InodeNo, &Vec<u8>> =
        fixture.tree.values().map(|seen| (seen.ino, &seen.content)).collect();
    cut_short(&fixture, |tree| {
        for (ino, content) in &contents {
            let found = tree.values().find(|seen| seen.ino == *ino);
            assert!(found.is_some_and(|seen| seen.content == **content), "inode {ino}");
        }
    });
}

#[test]
fn a_repair_of_the_accounting_can_be_cut_short() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.checkpoint().usage.ptr);
    cut_short(&fixture, keeps_all_but(&fixture, &[]));
    let fixture = Fixture::new();
    let usage = fixture.usage();
    let busy = (0..usage.len()).max_by_key(|&n| usage[n].live_bytes).unwrap();
    fixture.edit_usage(busy as u64, |entry| (entry.in_use, entry.live_bytes) = (false, 0));
    cut_short(&fixture, keeps_all_but(&fixture, &[]));
}
