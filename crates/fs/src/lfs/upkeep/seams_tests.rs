use super::*;

/// Segments of 1 MiB, blocks of 4 KiB.
const GRID: Grid = Grid { segment_sectors: 2048, block_sectors: 8 };
const NOW: TimeNs = TimeNs(1_000_000_000);

fn file(n: u64) -> InodeNo {
    InodeNo(100 + n)
}

/// Reads blocks that lie at those places (in blocks).
fn read(seams: &mut Seams, ino: InodeNo, first_block: u64, places: &[u64]) {
    seams.note_read(&GRID, ino, first_block, places.iter().map(|at| Some((SectorAddr(at * 8), 8))));
}

fn walk(seams: &mut Seams, dir: InodeNo, children: u64, apart: u64) {
    for child in 0..children {
        seams.note_fetched(file(child));
        seams.note_child(&GRID, dir, file(child), (SectorAddr(child * apart), 2));
    }
}

#[test]
fn a_read_in_order_marks_nothing() {
    let mut seams = Seams::default();
    read(&mut seams, file(1), 0, &[10, 11, 12]);
    read(&mut seams, file(1), 3, &[13, 14]);
    read(&mut seams, file(2), 7, &[900]);
    assert_eq!(seams.next(NOW), None);
    assert_eq!(seams.due_in_ms(NOW), None);
}

#[test]
fn seams_are_seen_within_reads_and_between_them() {
    let mut seams = Seams::default();
    read(&mut seams, file(1), 0, &[10, 500]);
    assert_eq!(seams.next(NOW), Some((Target::File(file(1)), Evidence::Crossed(1))));
    read(&mut seams, file(2), 0, &[10, 11]);
    read(&mut seams, file(3), 0, &[20]);
    read(&mut seams, file(2), 2, &[700]);
    seams.done(file(1), true);
    assert_eq!(seams.next(NOW), Some((Target::File(file(2)), Evidence::Crossed(1))));
}

#[test]
fn random_reads_of_single_blocks_cross_nothing() {
    let mut seams = Seams::default();
    for at in [7, 3, 99, 98, 1, 50] {
        read(&mut seams, file(1), at, &[at * 13]);
    }
    assert_eq!(seams.next(NOW), None);
}

#[test]
fn reads_from_memory_cross_no_seam() {
    let mut seams = Seams::default();
    let places = [Some((SectorAddr(80), 8)), None, Some((SectorAddr(9000), 8))];
    seams.note_read(&GRID, file(1), 0, places.into_iter());
    assert_eq!(seams.next(NOW), None);
}

#[test]
fn seams_seen_twice_go_first_then_most_seams_then_overwrites() {
    let mut seams = Seams::default();
    seams.note_overwrite(file(9));
    read(&mut seams, file(1), 0, &[1, 300, 1, 300, 1]);
    read(&mut seams, file(2), 0, &[1, 300, 1]);
    for _ in 0..2 {
        read(&mut seams, file(3), 0, &[1, 300]);
        read(&mut seams, file(3), 2, &[1, 300]);
    }
    let mut order = Vec::new();
    while let Some((target, evidence)) = seams.next(NOW) {
        order.push((target.ino(), evidence));
        seams.done(target.ino(), true);
    }
    let crossed = Evidence::Crossed;
    assert_eq!(
        order,
        [
            (file(3), crossed(2)),
            (file(1), crossed(1)),
            (file(2), crossed(1)),
            (file(9), Evidence::Overwritten)
        ]
    );
}

#[test]
fn small_files_of_a_directory_that_lie_apart_mark_it() {
    let (mut seams, dir) = (Seams::default(), InodeNo(5));
    walk(&mut seams, dir, WALK_SEAMS_MIN, 5000);
    assert_eq!(seams.next(NOW), None, "one short of enough");
    walk(&mut seams, dir, WALK_SEAMS_MIN, 5000);
    assert_eq!(seams.next(NOW), Some((Target::Directory(dir), Evidence::Crossed(2))));
    let mut seams = Seams::default();
    walk(&mut seams, dir, 100, 3);
    assert_eq!(seams.next(NOW), None, "in order");
}

#[test]
fn contents_of_small_files_mark_their_directory_too() {
    let (mut seams, dir) = (Seams::default(), InodeNo(5));
    for child in 0..10 {
        seams.note_fetched(file(child));
        seams.note_child(&GRID, dir, file(child), (SectorAddr(child * 3), 2));
        read(&mut seams, file(child), 0, &[child * 700, child * 700 + 1]);
    }
    assert_eq!(seams.next(NOW), Some((Target::Directory(dir), Evidence::Crossed(1))));
}

#[test]
fn records_in_memory_are_not_crossed() {
    let (mut seams, dir) = (Seams::default(), InodeNo(5));
    for child in 0..100 {
        seams.note_child(&GRID, dir, file(child), (SectorAddr(child * 5000), 2));
    }
    assert_eq!(seams.next(NOW), None);
}

#[test]
fn memory_is_bounded_and_the_oldest_mark_is_dropped() {
    let mut seams = Seams::default();
    for n in 0..3 * MARKS_MAX as u64 {
        seams.note_overwrite(file(n));
        read(&mut seams, file(n), 0, &[1]);
        walk(&mut seams, InodeNo(1 << 40 | n), 2, 9000);
    }
    assert_eq!((seams.marks.len(), seams.by_stamp.len()), (MARKS_MAX, MARKS_MAX));
    assert!(seams.due.len() <= MARKS_MAX && !seams.due.is_empty());
    assert!(seams.streams.len() <= STREAMS_MAX && seams.walks.len() <= STREAMS_MAX);
    assert!(seams.children.len() <= CHILDREN_MAX && seams.fetched.len() <= CHILDREN_MAX);
    assert_eq!(seams.children.len(), seams.children_order.len());
    assert!(seams.marks.contains_key(&file(3 * MARKS_MAX as u64 - 1)) && !seams.marks.contains_key(&file(0)));
}

#[test]
fn a_done_target_rests_until_it_is_noted_again_a_postponed_one_until_its_time() {
    let mut seams = Seams::default();
    seams.note_overwrite(file(1));
    seams.note_overwrite(file(2));
    seams.done(file(1), true);
    let later = TimeNs(NOW.0 + 5_000_000);
    seams.postpone(file(2), later);
    assert_eq!((seams.next(NOW), seams.due_in_ms(NOW)), (None, Some(5)));
    assert_eq!(seams.next(later).map(|(target, _)| target), Some(Target::File(file(2))));
    seams.done(file(2), false);
    assert_eq!((seams.times(file(1)), seams.times(file(2))), (1, 0));
    seams.note_overwrite(file(1));
    assert_eq!(seams.next(NOW).map(|(target, _)| target), Some(Target::File(file(1))));
}

#[test]
fn a_number_reused_for_another_kind_starts_anew() {
    let (mut seams, dir) = (Seams::default(), InodeNo(5));
    seams.note_overwrite(dir);
    seams.done(dir, true);
    walk(&mut seams, dir, 20, 5000);
    assert_eq!(seams.next(NOW), Some((Target::Directory(dir), Evidence::Crossed(1))));
    assert_eq!((seams.times(dir), seams.marks.len(), seams.by_stamp.len()), (0, 1, 1));
}
