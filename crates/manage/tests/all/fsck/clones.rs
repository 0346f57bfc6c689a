//! Clones: damage to what only a clone has costs that file of it; damage to what it shares costs the state and the clone; wrong names and counts
//! are found in a clone as in the volume. The volume itself keeps everything.

use crate::fsck::fixture::{BLOCK, Fixture, file, mount, pattern, walk};
use crate::fsck::salvage::{assert_whole, wipe_slots};
use firnfs::check::Problem;
use firnfs::engine::{Engine, Step};
use firnfs::lfs::Lfs;
use firnfs::store::{Intent, OpKind, Store};
use firnfs::vfs::XattrMode;
use firnfs_format::{BlockPtr, InodeNo};
use firnfs_volume::Volume;

const BLOCKS: &str = ".firn/clones/work/dir/blocks";

fn find(volume: &Volume<Lfs>, path: &str) -> InodeNo {
    path.split('/').fold(InodeNo::ROOT, |dir, name| {
        volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false)).unwrap().ino
    })
}

/// Works until all is durable that was put in line.
fn settle(volume: &Volume<Lfs>) {
    volume.pump();
    while volume.run_quietly(|vfs, now| vfs.store_mut().step(now, true)).unwrap() == Step::Worked {
        volume.pump();
    }
}

/// A point, a clone of it in which a part of one file was written again, and a present without that file.
fn with_clone() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.tree = fixture.with_volume(|volume| {
        let origin = volume.run(|vfs, now| vfs.store_mut().make_point(now, "first")).unwrap();
        settle(volume);
        volume.run(|vfs, now| vfs.store_mut().make_clone(now, origin, "work")).unwrap();
        settle(volume);
        volume.write_all(find(volume, BLOCKS), BLOCK as u64, &pattern(20, 2 * BLOCK), false).unwrap();
        volume.write_all(find(volume, "dir/blocks"), 0, &pattern(21, 8 * BLOCK), false).unwrap();
        file(volume, find(volume, ".firn/clones/work/dir"), "own", &pattern(22, 3 * BLOCK));
        walk(volume)
    });
    assert!(fixture.codes().is_empty(), "sound before the damage: {:#?}", fixture.check().findings);
    fixture
}

/// The places of the content of a file.
fn content_of(fixture: &Fixture, path: &str) -> Vec<BlockPtr> {
    fixture.with_volume(|volume| {
        let ino = find(volume, path);
        let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
        blocks.iter().filter(|placed| placed.key.level == 0).map(|placed| placed.ptr).collect()
    })
}

fn clones_of(volume: &Volume<Lfs>) -> usize {
    volume.run(|vfs, _| Ok(vfs.store().branches().unwrap().len())).unwrap()
}

#[test]
fn a_damaged_block_that_only_a_clone_has_costs_that_block() {
    let fixture = with_clone();
    fixture.damage(&content_of(&fixture, BLOCKS)[1]);
    let findings = fixture.check().findings;
    let path = findings[0].path.clone().unwrap();
    assert_eq!(String::from_utf8_lossy(&path), "/.firn/clones/work/dir/blocks", "{findings:#?}");
    fixture.is_repaired(&["block-damaged"], &[]);
    let volume = mount(&fixture.device);
    let mut found = vec![0; 8 * BLOCK];
    volume.read(find(&volume, BLOCKS), 0, &mut found).unwrap();
    let mut expected = pattern(1, 8 * BLOCK);
    expected[BLOCK..3 * BLOCK].copy_from_slice(&pattern(20, 2 * BLOCK));
    expected[BLOCK..2 * BLOCK].fill(0);
    assert!(found == expected, "all but that block is as it was");
}

#[test]
fn a_damaged_block_that_a_clone_shares_costs_the_state_and_the_clone() {
    let fixture = with_clone();
    fixture.damage(&content_of(&fixture, ".firn/history/first/dir/blocks")[5]);
    let findings = fixture.check().findings;
    let is_clone = |problem: &Problem| matches!(problem, Problem::Clone { name, .. } if name == "work");
    assert!(findings.len() == 2 && findings.iter().any(|f| is_clone(&f.problem)), "{findings:#?}");
    fixture.is_repaired(&["clone-damaged", "point-damaged"], &[]);
    assert_eq!(clones_of(&mount(&fixture.device)), 0);
}

#[test]
fn wrong_links_and_names_in_a_clone_are_found_and_repaired_there() {
    let fixture = with_clone();
    fixture.with_volume(|volume| {
        let own = find(volume, ".firn/clones/work/dir/own");
        let dir = find(volume, ".firn/clones/work/dir");
        volume
            .run(|vfs, now| {
                let store = vfs.store_mut();
                for (ino, nlink) in [(own, 5), (dir, 9)] {
                    let mut op = store.begin(now, OpKind::Names, &[Intent::Change { ino, grow_bytes: 0 }])?;
                    store.inode_mut(&mut op, ino).nlink = nlink;
                    store.end(op);
                }
                Ok(())
            })
            .unwrap();
    });
    fixture.is_repaired(&["link-count"], &[]);
    let volume = mount(&fixture.device);
    let own = find(&volume, ".firn/clones/work/dir/own");
    let own = volume.run(|vfs, _| vfs.getattr(own)).map(|attr| attr.nlink);
    assert_eq!((own, clones_of(&volume)), (Ok(1), 1));
}

#[test]
fn a_salvage_finds_the_volume_and_leaves_clones_out() {
    let fixture = with_clone();
    wipe_slots(&fixture);
    assert_whole(&fixture);
}

/// A power cut while it goes on leaves such a volume.
#[test]
fn a_clone_that_is_being_deleted_is_no_damage() {
    let fixture = with_clone();
    fixture.with_volume(|volume| {
        let own = find(volume, ".firn/clones/work/dir/own");
        volume.run(|vfs, now| vfs.setxattr(now, own, b"user.a", &pattern(3, 9000), XattrMode::Any)).unwrap();
    });
    fixture.edit_checkpoint(|slot| slot.branches[0].is_dropped = true);
    assert!(fixture.codes().is_empty(), "{:#?}", fixture.check().findings);
    let volume = mount(&fixture.device);
    settle(&volume);
    while volume.run(|vfs, _| Ok(vfs.store().is_erasing())).unwrap() {
        settle(&volume);
    }
    volume.close().unwrap();
    assert!(fixture.codes().is_empty(), "{:#?}", fixture.check().findings);
}

/// No damage makes such a checkpoint, only a hand.
#[test]
fn entries_of_a_clone_that_there_is_not_are_given_up() {
    let fixture = with_clone();
    fixture.edit_checkpoint(|slot| slot.branches.clear());
    assert!(fixture.codes().contains("clone-damaged"), "{:#?}", fixture.check().findings);
    fixture.repair();
    assert!(fixture.codes().is_empty(), "{:#?}", fixture.check().findings);
    assert_eq!(clones_of(&mount(&fixture.device)), 0);
}
