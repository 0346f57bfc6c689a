use super::*;
use crate::age::snapshot::{Generations, push_extent};

const BLOCK: u64 = 8192;

fn extents(places: &[(u64, u64, u64)]) -> Vec<Extent> {
    let mut all = Vec::new();
    for &(file_at_bytes, disk_at_bytes, len_bytes) in places {
        push_extent(&mut all, Extent { file_at_bytes, disk_at_bytes, len_bytes });
    }
    all
}

fn score(places: &[(u64, u64, u64)]) -> (u64, u64) {
    let score = Score::of(&extents(places), BLOCK as u32);
    (score.optimal, score.blocks)
}

#[test]
fn scores_of_small_files_are_as_counted_by_hand() {
    assert_eq!(score(&[]), (0, 0));
    assert_eq!(score(&[(0, 5 * BLOCK, BLOCK)]), (0, 0), "one block");
    assert_eq!(score(&[(0, 5 * BLOCK, 1024)]), (0, 0), "one fragment");
    assert_eq!(score(&[(0, 5 * BLOCK, 3 * BLOCK)]), (2, 2));
    assert_eq!(score(&[(0, 5 * BLOCK, BLOCK), (BLOCK, 7 * BLOCK, BLOCK)]), (0, 1));
    assert_eq!(score(&[(0, 5 * BLOCK, BLOCK), (BLOCK, 4 * BLOCK, BLOCK)]), (0, 1), "backwards");
    // Four blocks and a fragment that lies elsewhere: 3 of 4.
    assert_eq!(score(&[(0, 0, 4 * BLOCK), (4 * BLOCK, 90 * BLOCK, 2048)]), (3, 4));
    assert_eq!(score(&[(0, 0, 4 * BLOCK), (4 * BLOCK, 4 * BLOCK, 2048)]), (4, 4), "the fragment follows");
    // A hole lies between, but the reader goes on where it was.
    assert_eq!(score(&[(0, 0, BLOCK), (5 * BLOCK, BLOCK, BLOCK)]), (1, 1));
}

fn snapshot(
    files: Vec<(u64, u64, i64, Vec<Extent>)>,
    groups: Option<Groups>,
    segment_bytes: u32,
) -> Snapshot {
    let taken_ns = 1000 * DAY_NS;
    let meta = Meta {
        taken_ns,
        fs_type: "test".to_owned(),
        size_bytes: 1 << 30,
        block_bytes: BLOCK as u32,
        segment_bytes,
        groups,
        generations: Generations::Stored,
        unmapped_files: 0,
        free: None,
        base: None,
    };
    let entry = |size_bytes, age_days, extents| Entry {
        kind: REGULAR,
        size_bytes,
        ctime_ns: taken_ns - age_days * DAY_NS,
        extents,
        ..Entry::default()
    };
    let of = |(ino, size_bytes, age, extents)| (ino, entry(size_bytes, age, extents));
    Snapshot { meta, files: files.into_iter().map(of).collect() }
}

#[test]
fn the_score_of_a_set_is_pooled_not_averaged() {
    let good = extents(&[(0, 0, 11 * BLOCK)]);
    let bad = extents(&[(0, 900 * BLOCK, BLOCK), (BLOCK, 950 * BLOCK, BLOCK)]);
    let single = extents(&[(0, 700 * BLOCK, BLOCK)]);
    let files = vec![
        // The newest change is 500 days old: ages count from there.
        (10, 11 * BLOCK, 500, good),
        (11, 2 * BLOCK, 520, bad),
        (12, 100, 900, single),
        (13, 0, 500, Vec::new()),
    ];
    let layout = Layout::of(&snapshot(files, None, 0));
    assert_eq!((layout.files, layout.all.files), (4, 3));
    assert_eq!(layout.all.score, Score { blocks: 11, optimal: 10 });
    assert!((layout.all.score.value().unwrap() - 10.0 / 11.0).abs() < 1e-12);
    let sizes: Vec<_> = layout.by_size.iter().map(|(&size, class)| (size, class.score.value())).collect();
    assert_eq!(sizes, [(BLOCK, None), (2 * BLOCK, Some(0.0)), (16 * BLOCK, Some(1.0))]);
    let ages: Vec<_> = layout.by_age.iter().map(|class| class.files).collect();
    assert_eq!(ages, [1, 0, 1, 0, 0, 1]);
    assert_eq!((layout.splits, layout.seams), (None, None));
}

#[test]
fn split_files_are_counted_by_the_distance_of_inode_and_first_block() {
    let groups = Groups { inodes: 100, first_inode: 0, bytes: 1 << 20, first_byte: 0 };
    let at = |group: u64| extents(&[(0, (group << 20) + BLOCK, BLOCK), (BLOCK, 40 << 20, BLOCK)]);
    let files = vec![(5, 9, 0, at(0)), (150, 9, 0, at(2)), (199, 9, 0, at(0)), (350, 9, 0, at(20))];
    let splits = Layout::of(&snapshot(files, Some(groups), 0)).splits.unwrap();
    assert_eq!((splits.files(), splits.within(1), splits.within(10)), (3, 2, 2));
    assert_eq!(splits.by_distance, [(1, 2), (17, 1)].into());
}

#[test]
fn a_reader_of_a_log_meets_seams_only_where_it_has_to_seek() {
    const SEGMENT: u64 = 1 << 20;
    // A summary lies between the first two; the third is in another segment; it ends with its segment, and the next one begins.
    let placed = extents(&[
        (0, 0, 8 * BLOCK),
        (8 * BLOCK, 8 * BLOCK + 4096, BLOCK),
        (9 * BLOCK, 7 * SEGMENT - 4 * BLOCK, 4 * BLOCK),
        (13 * BLOCK, 9 * SEGMENT + 4096, BLOCK),
    ]);
    let seams = Layout::of(&snapshot(vec![(9, 14 * BLOCK, 0, placed)], None, SEGMENT as u32)).seams.unwrap();
    assert_eq!(seams, Seams { bytes: 14 * BLOCK, seams: 1, files: 1 });
    assert_eq!(seams.mean_run_bytes(1), 7 * BLOCK);
}

#[test]
fn free_space_is_counted_by_length() {
    let mut free = FreeSpace { partial_bytes: 1000, ..FreeSpace::default() };
    [3 * BLOCK, BLOCK, 4 * BLOCK].into_iter().for_each(|len_bytes| free.add(len_bytes));
    let classes: Vec<_> = free.stretches.iter().map(|c| (c.up_to_bytes, c.stretches, c.bytes)).collect();
    assert_eq!(classes, [(BLOCK, 1, BLOCK), (4 * BLOCK, 2, 7 * BLOCK)]);
    assert_eq!(free.free_bytes(), 8 * BLOCK + 1000);
    assert!((free.partial_share().unwrap() - 1000.0 / (8.0 * 8192.0 + 1000.0)).abs() < 1e-12);
}
