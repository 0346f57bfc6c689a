//! Retained points: damage to what only a point holds is reported, and costs that point alone; wrong accounts of the past are recounted, and
//! every point stays.

use crate::fsck::crash::{cut_short, keeps_all_but};
use crate::fsck::fixture::{BLOCK, Fixture, SIZE_BYTES, clock, file, mount, pattern, walk};
use firnfs::FsError;
use firnfs::check::{Finding, From, Problem};
use firnfs::lfs::{LIVE_SLOT, Lfs, LogKind, Options};
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_format::checkpoint::{Retention, Rule};
use firnfs_format::superblock::Superblock;
use firnfs_format::{BlockPtr, InodeNo};
use firnfs_manage::{LogVolume, Outcome, check, make_clone, open, repair, set_retention};
use firnfs_volume::Volume;

pub const BLOCKS: &str = "dir/blocks";

pub fn find(volume: &Volume<Lfs>, path: &str) -> InodeNo {
    path.split('/').fold(InodeNo::ROOT, |dir, name| {
        volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false)).unwrap().ino
    })
}

pub fn make_point(volume: &Volume<Lfs>, name: &str) {
    volume.run(|vfs, now| vfs.store_mut().make_point(now, name)).unwrap();
    volume.pump();
}

fn overwrite(volume: &Volume<Lfs>, seed: u64) {
    for (path, blocks) in [(BLOCKS, 8), ("dir/sub/large", 300)] {
        volume.write_all(find(volume, path), 0, &pattern(seed, blocks * BLOCK), false).unwrap();
    }
}

/// Two points, "first" and "second", and a present, each with other contents of two files.
pub fn with_points() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.tree = fixture.with_volume(|volume| {
        make_point(volume, "first");
        overwrite(volume, 20);
        make_point(volume, "second");
        overwrite(volume, 21);
        file(volume, InodeNo::ROOT, "new", &pattern(22, 3 * BLOCK));
        walk(volume)
    });
    assert!(fixture.codes().is_empty(), "sound before the damage");
    fixture
}

/// The content of the smaller file in each point that is left, by the seed of its pattern.
fn points_of(fixture: &Fixture) -> Vec<(String, u64)> {
    let volume = mount(&fixture.device);
    let points = volume.run(|vfs, _| Ok(Vec::from(vfs.store_mut().points()?.clone()))).unwrap();
    let seed_of = |name: &String| {
        let ino = find(&volume, &format!(".firn/history/{name}/{BLOCKS}"));
        let mut found = vec![0; 8 * BLOCK];
        volume.read(ino, 0, &mut found).unwrap();
        [1, 20].into_iter().find(|seed| pattern(*seed, 8 * BLOCK) == found).expect("of one of the points")
    };
    let told = points.into_iter().map(|point| (seed_of(&point.name), point.name));
    told.map(|(seed, name)| (name, seed)).collect()
}

/// Pointers of blocks that the file has in the second point, and no other state has.
fn blocks_of_second(fixture: &Fixture, path: &str) -> Vec<(u8, BlockPtr)> {
    fixture.with_volume(|volume| {
        let ino = find(volume, &format!(".firn/history/second/{path}"));
        let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
        blocks.iter().map(|placed| (placed.key.level, placed.ptr)).collect()
    })
}

fn assert_costs_the_second_point(fixture: &Fixture) {
    let findings = fixture.check().findings;
    assert!(
        matches!(&findings[..], [Finding { problem: Problem::Point { name, .. }, .. }] if name == "second"),
        "{findings:#?}"
    );
    fixture.is_repaired(&["point-damaged"], &[]);
    assert_eq!(points_of(fixture), [("first".to_owned(), 1)]);
}

#[test]
fn a_damaged_block_of_a_point_costs_that_point_alone() {
    let fixture = with_points();
    let (_, block) = blocks_of_second(&fixture, BLOCKS)[3];
    fixture.damage(&block);
    assert_costs_the_second_point(&fixture);
}

/// What can be read of it stays readable, and so do the accounts that count it, whatever else is repaired.
#[test]
fn a_point_that_is_not_given_up_stays_with_all_that_can_be_read_of_it() {
    let fixture = with_points();
    fixture.damage(&blocks_of_second(&fixture, BLOCKS)[3].1);
    fixture.edit_checkpoint(|slot| slot.counters[LIVE_SLOT + LogKind::File as usize] -= 512);
    fixture.write(Superblock::places(SIZE_BYTES)[1], &[0xaa; 4096]);
    let declined = repair(&fixture.device, &clock(), &mut |f| !f.problem.costs_state(), &mut |_| {}).unwrap();
    let outcome = |problem: &dyn Fn(&Problem) -> bool| {
        let found: Vec<_> = declined.actions.iter().filter(|a| problem(&a.finding.problem)).collect();
        assert_eq!(found.len(), 1, "{:#?}", declined.actions);
        found[0].outcome.clone()
    };
    assert_eq!(outcome(&Problem::costs_state), Outcome::Declined);
    assert!(matches!(outcome(&|p| matches!(p, Problem::LiveKind { .. })), Outcome::Impossible(_)));
    assert_eq!(outcome(&|p| matches!(p, Problem::SuperblockCopy { .. })), Outcome::Repaired);
    assert_eq!(fixture.codes(), ["live-kind", "point-damaged"].into());
    let volume = mount(&fixture.device);
    let ino = find(&volume, &format!(".firn/history/second/{BLOCKS}"));
    let mut found = vec![0; 3 * BLOCK];
    volume.read(ino, 0, &mut found).unwrap();
    assert_eq!(found, pattern(20, 8 * BLOCK)[..3 * BLOCK]);
    let lost = volume.read(ino, 3 * BLOCK as u64, &mut found[..BLOCK]);
    assert!(matches!(lost, Err(FsError::Corrupt { .. })), "{lost:?}");
    volume.close().unwrap();
    assert!(fixture.repair().after.is_clean());
    assert_eq!(points_of(&fixture), [("first".to_owned(), 1)]);
}

/// Without right accounts nothing is freed, and no name is taken from a file that cannot be read.
#[test]
fn a_repair_that_leaves_a_point_leaves_what_hangs_on_damaged_records() {
    let fixture = with_points();
    fixture.damage(&blocks_of_second(&fixture, BLOCKS)[3].1);
    fixture.damage(&fixture.record_ptr(fixture.ino("dir/sub")));
    let (codes, before) = (fixture.codes(), fixture.read(0, SIZE_BYTES as usize));
    let leave = &mut |finding: &Finding| !finding.problem.costs_state();
    let left = repair(&fixture.device, &clock(), leave, &mut |_| {}).unwrap();
    assert!(left.actions.iter().all(|action| action.outcome != Outcome::Repaired), "{:#?}", left.actions);
    assert!(fixture.codes() == codes && fixture.read(0, SIZE_BYTES as usize) == before);
    assert!(fixture.repair().after.is_clean());
}

#[test]
fn a_damaged_block_of_pointers_of_a_point_costs_that_point_alone() {
    let fixture = with_points();
    let blocks = blocks_of_second(&fixture, "dir/sub/large");
    let (_, block) = blocks.iter().find(|(level, _)| *level > 0).expect("the file is large");
    fixture.damage(block);
    assert_costs_the_second_point(&fixture);
}

#[test]
fn a_damaged_inode_map_of_a_point_costs_that_point_alone() {
    let fixture = with_points();
    fixture.damage(&fixture.checkpoint().points[1].imap.ptr);
    assert_costs_the_second_point(&fixture);
}

/// Both need the check to begin anew, each for its own reason.
#[test]
fn damage_of_a_point_and_of_the_inode_map_at_once_costs_that_point_alone() {
    let fixture = with_points();
    fixture.damage(&blocks_of_second(&fixture, BLOCKS)[0].1);
    fixture.damage(&fixture.checkpoint().imap.ptr);
    assert!(fixture.codes().is_superset(&["point-damaged", "table-block"].into()), "{:?}", fixture.codes());
    let repaired = fixture.repair();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
    assert_eq!(fixture.with_volume(walk).keys().collect::<Vec<_>>(), fixture.tree.keys().collect::<Vec<_>>());
    assert_eq!(points_of(&fixture), [("first".to_owned(), 1)]);
}

/// The way to everything that has moved is in the inode map; the log has it, too.
#[test]
fn a_damaged_inode_map_of_the_present_costs_no_point() {
    let fixture = with_points();
    fixture.damage(&fixture.checkpoint().imap.ptr);
    fixture.is_repaired(&["table-block"], &[]);
    assert_eq!(points_of(&fixture), [("first".to_owned(), 1), ("second".to_owned(), 20)]);
}

#[test]
fn a_point_that_leads_to_a_place_outside_the_volume_is_given_up() {
    let fixture = with_points();
    fixture.edit_checkpoint(|slot| slot.points[1].imap.ptr.addr.0 = 1 << 40);
    assert_costs_the_second_point(&fixture);
}

/// No damage makes such a checkpoint, only a hand: its checksum is right. It is refused as a whole, as one with impossible tables is.
#[test]
fn a_checkpoint_whose_point_has_a_map_of_an_impossible_height_is_refused() {
    let fixture = with_points();
    fixture.edit_checkpoint(|slot| slot.points[1].imap.height = u32::MAX);
    let refused = check(&*fixture.device, From::Newest, &mut |_| {}).expect_err("it is refused");
    assert!(refused.to_string().contains("snapshot 'second' of height 4294967295"), "{refused}");
}

#[test]
fn a_repair_that_gives_up_a_point_can_be_cut_short() {
    let fixture = with_points();
    fixture.damage(&blocks_of_second(&fixture, BLOCKS)[0].1);
    cut_short(&fixture, keeps_all_but(&fixture, &[]));
}

/// Each round finds the damage in one point more: more rounds than other repairs may take.
#[test]
fn a_damaged_block_that_many_points_see_costs_all_of_them_in_one_repair() {
    const POINTS: u64 = 9;
    let mut fixture = Fixture::new();
    let blocks = |volume: &Volume<Lfs>| {
        let ino = find(volume, BLOCKS);
        volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap()
    };
    let (seen_by_all, tree) = fixture.with_volume(|volume| {
        volume.sync(Scope::All).unwrap();
        let block = blocks(volume)[3].ptr;
        for n in 0..POINTS {
            volume.write_all(find(volume, "small"), 0, &pattern(n, 3 * BLOCK), false).unwrap();
            make_point(volume, &format!("p{n}"));
        }
        overwrite(volume, 21);
        (block, walk(volume))
    });
    fixture.tree = tree;
    fixture.damage(&seen_by_all);
    fixture.is_repaired(&["point-damaged"], &[]);
    assert_eq!(names_of_points(&fixture), [""; 0]);
}

/// What lies between the damage and the end of its repair is nobody's state.
#[test]
fn a_repair_makes_no_automatic_point() {
    let fixture = Fixture::new();
    let keep_all = Retention { percent: 50, rules: vec![Rule { every_s: 0, for_s: 3_600 }] };
    let points = |volume: &Volume<Lfs>| volume.run(|vfs, _| Ok(vfs.store().points_len())).unwrap();
    let block = fixture.with_volume(|volume| {
        set_retention(volume, &keep_all).unwrap();
        volume.sync(Scope::All).unwrap();
        overwrite(volume, 20);
        volume.sync(Scope::All).unwrap();
        let ino = find(volume, BLOCKS);
        let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
        overwrite(volume, 21);
        volume.sync(Scope::All).unwrap();
        blocks[3].ptr
    });
    let before = points(&mount(&fixture.device));
    fixture.damage(&block);
    assert!(fixture.repair().after.is_clean());
    assert_eq!(points(&mount(&fixture.device)), before - 1);
}

#[test]
fn accounts_of_the_past_are_recounted_and_every_point_stays() {
    let both = [("first".to_owned(), 1), ("second".to_owned(), 20)];
    let fixture = with_points();
    fixture.edit_checkpoint(|slot| slot.counters[LIVE_SLOT + LogKind::Past as usize] += 512);
    fixture.is_repaired(&["live-kind"], &[]);
    assert_eq!(points_of(&fixture), both);
    let fixture = with_points();
    let (_, held) = blocks_of_second(&fixture, BLOCKS)[0];
    let segment = fixture.geometry().segment_of(held.addr);
    fixture.edit_usage(segment.0, |entry| entry.live_bytes -= 8192);
    fixture.is_repaired(&["segment-usage"], &[]);
    assert_eq!(points_of(&fixture), both);
}

/// Points of which the two newest are in the checkpoint slot, the others in two blocks of their file.
fn with_rows() -> Fixture {
    let mut fixture = Fixture::new();
    let options = Options { slot_points: 2, ..Options::default() };
    let volume = open(fixture.device.clone(), options, AtimeMode::Noatime, clock()).unwrap();
    for n in 0..ROWS_AND_MORE {
        volume.write_all(find(&volume, BLOCKS), 0, &pattern(100 + n, 2 * BLOCK), false).unwrap();
        make_point(&volume, &format!("p{n}"));
    }
    fixture.tree = walk(&volume);
    volume.close().unwrap();
    assert!(fixture.codes().is_empty(), "sound before the damage");
    fixture
}

/// More than there are rows in a block.
const ROWS_AND_MORE: u64 = 30;

fn block_of_rows(fixture: &Fixture, level: u8) -> BlockPtr {
    let blocks = fixture
        .with_volume(|volume| volume.run(|vfs, _| vfs.store_mut().inode_blocks(InodeNo::POINTS)).unwrap());
    blocks.iter().find(|placed| placed.key.level == level).expect("the file is there").ptr
}

fn names_of_points(fixture: &Fixture) -> Vec<String> {
    let volume = mount(&fixture.device);
    volume
        .run(|vfs, _| Ok(vfs.store_mut().points()?.iter().map(|point| point.name.clone()).collect()))
        .unwrap()
}

#[test]
fn a_damaged_block_of_rows_costs_the_points_in_it() {
    let fixture = with_rows();
    fixture.damage(&block_of_rows(&fixture, 0));
    let volume = mount(&fixture.device);
    volume.background().unwrap();
    let refused = volume.write_all(find(&volume, BLOCKS), 0, b"new", false).unwrap_err();
    assert!(matches!(&refused, FsError::ReadOnly(why) if why.contains("inode 5")), "{refused}");
    let known = volume.run(|vfs, _| Ok(vfs.store().points_len())).unwrap();
    assert!((2..=10).contains(&known), "{known} points are in the slot or the other block");
    drop(volume);
    fixture.is_repaired(&["block-damaged", "points-lost"], &[]);
    assert_eq!(names_of_points(&fixture).len(), known);
    // The file is whole again, with the rows that are left.
    fixture.with_volume(|volume| make_point(volume, "after"));
    assert!(fixture.codes().is_empty());
}

#[test]
fn until_the_rows_are_read_users_can_write_and_sync_whatever_is_in_them() {
    let fixture = with_rows();
    fixture.damage(&block_of_rows(&fixture, 0));
    let volume = mount(&fixture.device);
    let file = find(&volume, BLOCKS);
    volume.write_all(file, 0, b"new", false).unwrap();
    volume.sync(Scope::All).unwrap();
    let refused = volume.make_point("more").unwrap_err();
    assert!(matches!(&refused, FsError::ReadOnly(why) if why.contains("inode 5")), "{refused}");
    drop(volume);
    let volume = mount(&fixture.device);
    let mut bytes = [0; 3];
    volume.read(file, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"new");
}

#[test]
fn a_clone_of_a_point_whose_row_is_lost_goes_with_it() {
    let fixture = with_rows();
    fixture.with_volume(|volume| {
        let first = volume.run(|vfs, _| Ok(vfs.store_mut().points()?[0].epoch)).unwrap();
        make_clone(volume, first, "fork").unwrap();
    });
    fixture.damage(&block_of_rows(&fixture, 0));
    fixture.is_repaired(&["block-damaged", "clone-damaged", "points-lost"], &[]);
    fixture.with_volume(|volume| make_point(volume, "after"));
    assert!(fixture.codes().is_empty());
}
