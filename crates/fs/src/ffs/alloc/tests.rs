//! Each rule of allocation on maps made by hand.

use super::bits;
use super::group::Group;
use super::groups::{Groups, Miss, Run};
use super::prefer::{NewBlock, Wish, directory_group, place, roomy_group, search_order};
use super::rotation::{Rotation, gap_frags};
use firnfs_format::ffs::{Summary, Tuning, VolumeLayout};

/// Groups of 512 blocks of 8 fragments, 64 inodes; data from block 19 on (in group 0 from 20).
const LAYOUT: VolumeLayout = VolumeLayout {
    size_frags: 4 * 4096,
    block_bytes: 8192,
    frag_bytes: 1024,
    group_frags: 4096,
    group_inodes: 64,
    groups: 4,
};

const TUNING: Tuning = Tuning {
    minfree_percent: 0,
    maxcontig: 8,
    rotdelay_ms: 0,
    max_blocks_per_group: 2048,
    track_sectors: 0,
    cylinder_tracks: 0,
    rps: 0,
    cpc: 0,
    reallocates: false,
    no_switch: false,
    smart_frag: false,
};

/// A group with nothing free but these fragments.
fn only(free: impl IntoIterator<Item = u32>) -> Group {
    let mut group = Group::empty(&LAYOUT, 1);
    group.map.free_frags.fill(0);
    for frag in free {
        bits::put(&mut group.map.free_frags, frag, true);
    }
    group.recount(0);
    group
}

fn is_consistent(group: &Group) {
    let mut again = group.clone();
    again.recount(group.summary().dirs);
    assert_eq!(again, *group, "counts kept in step");
}

#[test]
fn a_new_group_is_free_behind_its_tables() {
    let group = Group::empty(&LAYOUT, 1);
    let first = LAYOUT.data_at(1);
    assert!(!group.is_free(first - 1) && group.is_free_block(first) && group.is_free_block(4088));
    assert_eq!(group.summary().free_blocks, (4096 - first) / 8);
    assert_eq!((group.summary().free_inodes, group.summary().free_frags), (64, 0));
}

#[test]
fn the_wanted_block_is_taken_if_it_is_free_and_else_the_next_one() {
    let mut group = only(800..1600);
    assert_eq!(group.take_block(Some(1000), None), Some(1000));
    assert_eq!(group.take_block(Some(1000), None), Some(1008));
    assert_eq!(group.take_block(Some(1599), None), Some(1592));
    assert_eq!(group.take_block(Some(1592), None), Some(800), "around the end");
    is_consistent(&group);
}

#[test]
fn without_a_wish_blocks_are_taken_in_turn() {
    let mut group = only(800..1600);
    group.map.block_rotor = 1200;
    assert_eq!([group.take_block(None, None), group.take_block(None, None)], [Some(1200), Some(1208)]);
}

#[test]
fn a_full_group_gives_nothing() {
    let mut group = only(8..15);
    assert_eq!(group.take_block(Some(8), None), None, "seven fragments are no block");
    assert_eq!(group.take_frags(7, None, None), Some(8));
    assert_eq!(group.take_frags(1, None, None), None);
    is_consistent(&group);
}

#[test]
fn fragments_come_from_a_run_of_their_length_if_there_is_one() {
    // Runs of 5, 3 and 2 in three blocks, and a free block.
    let mut group = only((80..85).chain(88..91).chain(96..98).chain(104..112));
    assert_eq!(group.take_frags(3, Some(0), None), Some(88));
    assert_eq!(group.take_frags(2, Some(0), None), Some(96));
    is_consistent(&group);
}

#[test]
fn else_the_smallest_larger_run_is_split() {
    let mut group = only((80..86).chain(88..92).chain(104..112));
    assert_eq!(group.take_frags(3, Some(0), None), Some(88));
    assert_eq!(group.map.runs, [0, 1, 0, 0, 0, 0, 1, 0]);
    is_consistent(&group);
}

#[test]
fn else_a_block_is_broken() {
    let mut group = only((88..90).chain(104..112));
    assert_eq!(group.take_frags(3, Some(0), None), Some(104));
    assert_eq!((group.summary().free_blocks, group.summary().free_frags), (0, 7));
    assert_eq!(group.map.runs[5], 1);
    is_consistent(&group);
}

#[test]
fn a_tail_is_extended_if_the_fragments_behind_it_are_free() {
    let mut group = only([82, 83, 85]);
    assert!(group.extend(80, 2, 4));
    assert!(!group.extend(80, 4, 5), "84 is taken");
    assert!(!group.extend(84, 1, 5), "never beyond the block");
    is_consistent(&group);
}

#[test]
fn fragments_that_come_back_make_a_block_again() {
    let mut group = only([]);
    assert!(group.give(83, 5) && group.give(80, 3));
    assert!(group.is_free_block(80));
    assert_eq!((group.summary().free_blocks, group.summary().free_frags), (1, 0));
    assert!(!group.give(80, 1), "free already");
    assert!(!group.give(86, 4), "beyond its block");
    assert!(!group.give(4096, 1), "beyond the group");
    is_consistent(&group);
}

#[test]
fn clusters_are_runs_of_whole_blocks_near_the_wish() {
    let mut group = only((80..100).chain(800..832).chain(1600..1640));
    assert_eq!(group.take_cluster(4, Some(820)), Some(1600));
    assert_eq!(group.take_cluster(4, Some(820)), Some(800), "around the end");
    assert_eq!(group.take_cluster(2, None), Some(80));
    assert_eq!(group.take_cluster(2, None), None, "one block is left");
    is_consistent(&group);
}

#[test]
fn inodes_are_taken_near_the_wish_and_given_back() {
    let mut group = Group::empty(&LAYOUT, 1);
    assert_eq!(group.take_inode(Some(10), false), Some(10));
    assert_eq!(group.take_inode(Some(10), true), Some(11));
    assert_eq!((group.summary().free_inodes, group.summary().dirs), (62, 1));
    assert!(group.give_inode(11, true) && !group.give_inode(11, true));
    assert_eq!(group.summary().dirs, 0);
    (0..63).for_each(|_| assert!(group.take_inode(None, false).is_some()));
    assert_eq!(group.take_inode(None, false), None);
    is_consistent(&group);
}

fn counts(of: [(u32, u32, u32); 4]) -> [Summary; 4] {
    of.map(|(dirs, free_blocks, free_inodes)| Summary { dirs, free_blocks, free_inodes, free_frags: 0 })
}

#[test]
fn a_directory_goes_to_the_group_with_fewest_directories_among_those_with_many_free_inodes() {
    assert_eq!(directory_group(&counts([(3, 0, 60), (2, 0, 60), (1, 0, 10), (2, 0, 60)])), 1);
    assert_eq!(directory_group(&counts([(0, 0, 0); 4])), 0);
}

#[test]
fn a_new_section_goes_to_the_next_group_with_at_least_the_average_of_free_blocks() {
    let groups = counts([(0, 100, 0), (0, 10, 0), (0, 90, 0), (0, 0, 0)]);
    assert_eq!([roomy_group(&groups, 1), roomy_group(&groups, 3), roomy_group(&groups, 0)], [2, 0, 0]);
}

#[test]
fn full_groups_are_passed_over_by_doubling_steps_and_then_one_by_one() {
    let order: Vec<u32> = search_order(3, 16).take(6).collect();
    assert_eq!(order, [3, 4, 6, 10, 2, 5]);
    for count in 1..40 {
        for preferred in 0..count {
            let mut all: Vec<u32> = search_order(preferred, count).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count as usize, "each of {count} groups is tried");
        }
    }
}

fn wish(new: &NewBlock<'_>, tuning: &Tuning, gap: u32) -> Wish {
    let groups = counts([(0, 100, 0), (0, 10, 0), (0, 90, 0), (0, 0, 0)]);
    place(new, &groups, tuning, 1, 8, gap, |addr| addr / 4096)
}

const NEXT: NewBlock<'_> =
    NewBlock { block: 1, slot: Some(1), before: &[800], is_direct: true, follows: None };

#[test]
fn the_first_block_goes_to_the_group_of_the_inode_and_the_next_one_behind_it() {
    let first = NewBlock { block: 0, slot: Some(0), before: &[], ..NEXT };
    assert_eq!(wish(&first, &TUNING, 0), Wish::Group(1));
    assert_eq!(wish(&NEXT, &TUNING, 0), Wish::At(808));
    let behind_hole = NewBlock { before: &[800, 0], slot: Some(2), ..NEXT };
    assert_eq!(wish(&behind_hole, &TUNING, 0), Wish::Group(1));
}

#[test]
fn an_indirect_block_and_the_first_block_below_it_start_in_a_roomy_group() {
    let indirect = NewBlock { block: 12, slot: None, before: &[], is_direct: false, follows: None };
    assert_eq!(wish(&indirect, &TUNING, 0), Wish::Group(2));
    let below = NewBlock { slot: Some(0), ..indirect };
    assert_eq!(wish(&below, &TUNING, 0), Wish::Group(2));
    let later = NewBlock { block: 12 + 2048, ..indirect };
    assert_eq!(wish(&later, &TUNING, 0), Wish::Group(2));
    let much_later = NewBlock { block: 2 * 2048, ..indirect };
    assert_eq!(wish(&much_later, &TUNING, 0), Wish::Group(0));
}

#[test]
fn no_switch_continues_behind_the_last_direct_block() {
    let indirect = NewBlock { block: 12, slot: None, before: &[], is_direct: false, follows: Some(4000) };
    assert_eq!(wish(&indirect, &TUNING, 0), Wish::At(4008));
}

#[test]
fn a_section_ends_after_the_most_blocks_that_a_group_gives_one_file() {
    let tuning = Tuning { max_blocks_per_group: 4, ..TUNING };
    let fourth =
        NewBlock { block: 16, slot: Some(4), before: &[800, 808, 816, 824], is_direct: false, follows: None };
    assert_eq!(wish(&fourth, &tuning, 0), Wish::Group(2));
}

#[test]
fn a_gap_follows_maxcontig_contiguous_blocks_and_only_those() {
    let tuning = Tuning { maxcontig: 2, ..TUNING };
    let at = |before, slot| wish(&NewBlock { slot: Some(slot), before, ..NEXT }, &tuning, 16);
    assert_eq!(at(&[800], 1), Wish::At(808));
    assert_eq!(at(&[800, 808], 2), Wish::At(832));
    assert_eq!(at(&[800, 840], 2), Wish::At(848));
}

#[test]
fn the_gap_is_what_passes_under_the_heads_in_whole_blocks() {
    // The HP 97560 of BSD-LFS's table 5: 15 ms a revolution, 72 sectors a track; 4 ms are 19 sectors.
    let tuning = Tuning { rotdelay_ms: 4, rps: 67, track_sectors: 72, cylinder_tracks: 19, ..TUNING };
    assert_eq!(gap_frags(&LAYOUT, &tuning), 16);
    assert_eq!(gap_frags(&LAYOUT, &TUNING), 0);
}

#[test]
fn the_rotationally_closest_block_of_the_cylinder_is_taken() {
    // 64 sectors a track: 4 blocks, two positions apart; 4 tracks, 16 blocks a cylinder.
    let tuning = Tuning { track_sectors: 64, cylinder_tracks: 4, rps: 60, cpc: 1, ..TUNING };
    let rotation = Rotation::new(&LAYOUT, &tuning).unwrap();
    // In the cylinder of blocks 32 to 47 (fragments 256 to 383): block 33 is wanted and taken.
    let free = |set: &'static [u32]| move |frag: u32| set.contains(&frag);
    assert_eq!(
        rotation.closest(0, 33 * 8, free(&[32 * 8, 46 * 8])),
        Some(46 * 8),
        "next position, other track"
    );
    assert_eq!(
        rotation.closest(0, 33 * 8, free(&[37 * 8, 46 * 8])),
        Some(37 * 8),
        "same position, other track"
    );
    assert_eq!(rotation.closest(0, 33 * 8, free(&[48 * 8])), None, "another cylinder");
    let mut group = only((46 * 8..47 * 8).chain(36 * 8..37 * 8));
    let in_group_1 = rotation.closest(1, 33 * 8, |frag| group.is_free_block(frag));
    assert_eq!(in_group_1, Some(46 * 8), "group 1 starts at a cylinder as well");
    assert_eq!(group.take_block(Some(33 * 8), Some(&rotation)), Some(46 * 8));
    assert!(Rotation::new(&LAYOUT, &Tuning { cpc: 0, ..tuning }).is_none());
    assert!(
        Rotation::new(&LAYOUT, &Tuning { track_sectors: 63, ..tuning }).is_none(),
        "positions do not repeat"
    );
}

fn all_groups() -> Groups {
    let groups: Vec<_> = (0..4).map(|number| Group::empty(&LAYOUT, number)).collect();
    Groups::new(LAYOUT, TUNING, groups.iter().map(Group::summary).collect())
}

#[test]
fn a_group_that_is_not_in_memory_is_asked_for_and_nothing_changes() {
    let mut groups = all_groups();
    let before = groups.free_frags();
    assert_eq!(groups.take(8, Wish::Group(2)), Err(Miss::Load(2)));
    assert_eq!((groups.free_frags(), groups.dirty()), (before, vec![]));
    groups.insert(2, Group::empty(&LAYOUT, 2));
    let at = groups.take(8, Wish::Group(2)).unwrap();
    assert_eq!(groups.group_of(at), 2);
    assert_eq!((groups.free_frags(), groups.dirty()), (before - 8, vec![2]));
    assert_eq!(groups.give(Run { addr: at, frags: 8 }), Ok(true));
    assert_eq!(groups.give(Run { addr: at, frags: 8 }), Ok(false));
    assert_eq!(groups.free_frags(), before);
}

#[test]
fn what_does_not_fit_its_group_goes_to_another_one() {
    let mut groups = all_groups();
    (0..4).for_each(|number| groups.insert(number, Group::empty(&LAYOUT, number)));
    let blocks: u32 = groups.summaries().iter().map(|group| group.free_blocks).sum();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..blocks {
        assert!(seen.insert(groups.take(8, Wish::Group(3)).unwrap()), "each block once");
    }
    assert_eq!(groups.take(8, Wish::Group(3)), Err(Miss::Full));
    assert_eq!(groups.take(1, Wish::Group(3)), Err(Miss::Full));
    let inodes: u64 = groups.free_inodes();
    (0..inodes).for_each(|n| assert!(groups.take_inode(70, n % 3 == 0).is_ok()));
    assert_eq!(groups.take_inode(70, false), Err(Miss::Full));
}
