//! The crash disk: which writes a flush covers, which states a cut may leave, and that hashes distinguish
//! images.

use firnfs_device::{AlignedBuf, Device, Request, SparseImage, Tag};
use firnfs_sim::crash::SECTOR_BYTES;
use firnfs_sim::{CrashDisk, CrashState, DiscardMode, Fate, History, Replay, seeded};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SIZE: u64 = 64 << 10;

fn disk() -> CrashDisk {
    let mut base = SparseImage::new(SIZE);
    base.write(0, &vec![b'.'; SIZE as usize]);
    CrashDisk::new(base, 4096)
}

fn filled(byte: u8, sectors: u64) -> Arc<AlignedBuf> {
    Arc::new(AlignedBuf::copy_of(&vec![byte; (sectors * SECTOR_BYTES) as usize]))
}

fn submit_write(disk: &CrashDisk, sector: u64, sectors: u64, byte: u8) -> Tag {
    disk.submit(Request::Write { at_bytes: sector * SECTOR_BYTES, data: filled(byte, sectors).into() })
}

fn write(disk: &CrashDisk, sector: u64, sectors: u64, byte: u8) {
    let tag = submit_write(disk, sector, sectors, byte);
    disk.wait(tag).unwrap();
}

/// The first byte of each of some sectors, as text; `?` for sectors that are not one byte throughout.
fn show(image: &SparseImage, sectors: std::ops::Range<u64>) -> String {
    let mut bytes = [0; SECTOR_BYTES as usize];
    sectors
        .map(|sector| {
            image.read(sector * SECTOR_BYTES, &mut bytes);
            if bytes.iter().all(|&b| b == bytes[0]) { char::from(bytes[0]) } else { '?' }
        })
        .collect()
}

fn shown(history: &History, state: &str, sectors: std::ops::Range<u64>) -> String {
    show(&history.image(&state.parse().unwrap()).unwrap(), sectors)
}

fn volatile_at_end(history: &History) -> usize {
    let mut replay = Replay::new(history, DiscardMode::Zeros);
    replay.seek(history.events().len());
    replay.volatile().len()
}

#[test]
fn a_flush_makes_completed_writes_durable_and_nothing_else() {
    let disk = disk();
    write(&disk, 0, 1, b'a');
    let not_waited_for = submit_write(&disk, 1, 1, b'b');
    disk.flush().unwrap();
    disk.wait(not_waited_for).unwrap();
    write(&disk, 2, 1, b'c');
    let history = disk.history();
    let end = history.events().len();
    assert_eq!(volatile_at_end(&history), 2);
    assert_eq!(shown(&history, &format!("{end}:MM"), 0..4), "a...");
    assert_eq!(shown(&history, &format!("{end}:LM"), 0..4), "ab..");
    assert_eq!(shown(&history, &format!("{end}:LL"), 0..4), "abc.");
}

#[test]
fn a_flush_that_has_not_completed_promises_nothing() {
    let disk = disk();
    write(&disk, 0, 1, b'a');
    let flush = disk.submit(Request::Flush);
    assert_eq!(volatile_at_end(&disk.history()), 1);
    disk.wait(flush).unwrap();
    assert_eq!(volatile_at_end(&disk.history()), 0);
}

#[test]
fn overlapping_flushes_cover_what_the_first_to_complete_covers() {
    let disk = disk();
    write(&disk, 0, 1, b'a');
    let first = disk.submit(Request::Flush);
    write(&disk, 1, 1, b'b');
    let second = disk.submit(Request::Flush);
    write(&disk, 2, 1, b'c');
    disk.wait(second).unwrap();
    assert_eq!(volatile_at_end(&disk.history()), 1, "the second flush covers a and b");
    disk.wait(first).unwrap();
    assert_eq!(volatile_at_end(&disk.history()), 1);
}

#[test]
fn every_subset_of_the_unflushed_writes_is_a_state_of_its_own() {
    let disk = disk();
    for (sector, byte) in [(0, b'a'), (2, b'b'), (4, b'c'), (9, b'd')] {
        write(&disk, sector, 1, byte);
    }
    let history = disk.history();
    let mut replay = Replay::new(&history, DiscardMode::Zeros);
    replay.seek(history.events().len());
    let mut seen = BTreeSet::new();
    let mut hashes = BTreeSet::new();
    for subset in 0..16u32 {
        let fates: Vec<Fate> =
            (0..4).map(|i| if subset >> i & 1 == 1 { Fate::Lands } else { Fate::Missing }).collect();
        seen.insert(show(&replay.image_of(&fates), 0..10));
        hashes.insert(replay.hash_of(&fates));
    }
    assert_eq!((seen.len(), hashes.len()), (16, 16));
    assert!(seen.contains("a...c....d"));
}

#[test]
fn a_later_write_to_the_same_place_wins_if_both_land() {
    let disk = disk();
    write(&disk, 0, 2, b'a');
    write(&disk, 1, 2, b'b');
    let history = disk.history();
    assert!(history.hazards().is_empty());
    let end = history.events().len();
    for (fates, expected) in [("LL", "abb."), ("LM", "aa.."), ("ML", ".bb."), ("MM", "....")] {
        assert_eq!(shown(&history, &format!("{end}:{fates}"), 0..4), expected);
    }
}

#[test]
fn writes_under_way_to_the_same_place_are_a_hazard() {
    let disk = disk();
    let first = submit_write(&disk, 0, 2, b'a');
    let second = submit_write(&disk, 1, 1, b'b');
    let third = submit_write(&disk, 2, 1, b'c');
    for tag in [first, second, third] {
        disk.wait(tag).unwrap();
    }
    let expected = "512 bytes at byte 512 submitted while 1024 bytes at byte 0 are under way";
    assert_eq!(disk.history().hazards(), [expected]);
}

#[test]
fn torn_writes_tear_on_the_grid_and_garbage_fills_physical_blocks() {
    let disk = disk();
    // Sectors 6 to 17 touch the 4 KiB blocks that begin at sectors 0, 8 and 16.
    write(&disk, 6, 12, b'w');
    let history = disk.history();
    let end = history.events().len();
    let states = [
        ("p4/512", "......wwww......................"),
        ("s4/512", "..........wwwwwwww.............."),
        ("p1/4096", "......ww........................"),
        ("p2/4096", "......wwwwwwwwww................"),
        ("s2/4096", "................ww.............."),
        ("p9/4096", "......wwwwwwwwwwww.............."),
        ("G5", "????????????????????????........"),
    ];
    for (fate, expected) in states {
        assert_eq!(shown(&history, &format!("{end}:{fate}"), 0..32), expected, "{fate}");
    }
    let mut kinds = BTreeSet::new();
    for seed in 0..40 {
        let text = shown(&history, &format!("{end}:x{seed:x}/4096"), 0..24);
        for block in [&text[0..8], &text[8..16], &text[16..24]] {
            kinds.insert(block.to_owned());
        }
    }
    let expected = ["........", "......ww", "????????", "ww......", "wwwwwwww"];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn discarded_sectors_read_as_zeros_old_data_or_garbage_even_after_a_flush() {
    let disk = disk();
    disk.discard(0, 4 * SECTOR_BYTES).unwrap();
    let history = disk.history();
    let end = history.events().len();
    assert_eq!(shown(&history, &format!("{end}:M"), 0..5), ".....");
    disk.flush().unwrap();
    write(&disk, 1, 1, b'n');
    disk.flush().unwrap();
    let history = disk.history();
    let end = history.events().len();
    assert_eq!(shown(&history, &format!("{end}:"), 0..5), "\0n\0\0.");
    assert_eq!(shown(&history, &format!("{end}:~o"), 0..5), ".n...");
    assert_eq!(shown(&history, &format!("{end}:~g1"), 0..5), "?n??.");
    let all: String = (0..9).map(|seed| shown(&history, &format!("{end}:~x{seed}"), 0..1)).collect();
    assert!(['\0', '.', '?'].iter().all(|kind| all.contains(*kind)), "{all:?}");
}

#[test]
fn the_running_system_reads_its_own_writes() {
    let disk = disk();
    write(&disk, 3, 1, b'x');
    assert_eq!(&*disk.read(3 * SECTOR_BYTES, 512).unwrap(), &[b'x'; 512]);
    assert_eq!(show(&disk.live_image(), 2..5), ".x.");
    assert!(disk.read(SIZE, 512).is_err());
}

#[test]
fn a_cut_beyond_the_end_of_the_history_has_no_image() {
    let history = disk().history();
    assert!(history.image(&"1:".parse().unwrap()).is_none());
}

#[test]
fn marks_are_kept_in_the_order_of_events() {
    let disk = disk();
    disk.mark(1);
    write(&disk, 0, 1, b'a');
    disk.mark(2);
    let history = disk.history();
    let cuts: Vec<usize> = history.cuts().collect();
    assert_eq!(cuts, [0, 2], "a mark is no state, the beginning and the write are");
    assert_eq!(history.marks_before(2).collect::<Vec<_>>(), [1]);
    assert_eq!(history.marks_before(history.events().len()).collect::<Vec<_>>(), [1, 2]);
}

/// A random history: writes, discards and flushes, some of them overlapping in time.
fn random_history(seed: u64) -> History {
    let mut rng = seeded(seed, "history");
    let disk = disk();
    let mut under_way = Vec::new();
    for step in 0..40u8 {
        let sector = rng.random_range(0..SIZE / SECTOR_BYTES - 20);
        match rng.random_range(0..10) {
            0..6 => under_way.push(submit_write(&disk, sector, rng.random_range(1..20), b'A' + step)),
            6 => {
                let len_bytes = rng.random_range(1..20) * SECTOR_BYTES;
                under_way.push(disk.submit(Request::Discard { at_bytes: sector * SECTOR_BYTES, len_bytes }));
            }
            7 => under_way.push(disk.submit(Request::Flush)),
            _ => under_way.drain(..).for_each(|tag| drop(disk.wait(tag).unwrap())),
        }
    }
    disk.history()
}

fn random_fate(rng: &mut impl RngExt) -> Fate {
    let unit_bytes = if rng.random_bool(0.5) { 512 } else { 4096 };
    match rng.random_range(0..7) {
        0 | 1 => Fate::Lands,
        2 | 3 => Fate::Missing,
        4 => Fate::Garbage(rng.random_range(0..2)),
        5 => Fate::Prefix { units: rng.random_range(0..3), unit_bytes },
        _ => Fate::Mixed { seed: rng.random_range(0..4), unit_bytes },
    }
}

#[test]
fn hashes_are_equal_exactly_if_images_are() {
    let mut images = 0;
    for seed in 0..30 {
        let history = random_history(seed);
        let mut rng = seeded(seed, "states");
        let mut by_hash: BTreeMap<u128, Vec<u8>> = BTreeMap::new();
        for discards in [DiscardMode::Zeros, DiscardMode::Old, DiscardMode::Garbage(3), DiscardMode::Mixed(4)]
        {
            let mut replay = Replay::new(&history, discards);
            for cut in history.cuts().collect::<Vec<_>>() {
                replay.seek(cut);
                for _ in 0..6 {
                    let fates: Vec<Fate> = replay.volatile().iter().map(|_| random_fate(&mut rng)).collect();
                    let mut bytes = vec![0; SIZE as usize];
                    replay.image_of(&fates).read(0, &mut bytes);
                    let state = CrashState { cut, fates: fates.clone(), discards };
                    let mut replayed = vec![0; SIZE as usize];
                    history.image(&state).unwrap().read(0, &mut replayed);
                    assert!(bytes == replayed, "{state}");
                    let known = by_hash.entry(replay.hash_of(&fates)).or_insert_with(|| bytes.clone());
                    assert!(*known == bytes, "two images with one hash: {state}");
                }
            }
        }
        let distinct: BTreeSet<&Vec<u8>> = by_hash.values().collect();
        assert_eq!(distinct.len(), by_hash.len(), "one image with two hashes, seed {seed}");
        images += distinct.len();
    }
    assert!(images > 1000, "{images} distinct images are too few to show anything");
}

#[test]
fn a_crash_image_is_a_disk_that_can_crash_again() {
    let disk = disk();
    write(&disk, 0, 1, b'a');
    write(&disk, 1, 1, b'b');
    let history = disk.history();
    let image = history.image(&format!("{}:ML", history.events().len()).parse().unwrap()).unwrap();
    let again = CrashDisk::new(image, 512);
    write(&again, 2, 1, b'c');
    let history = again.history();
    assert_eq!(shown(&history, "0:", 0..4), ".b..");
    assert_eq!(shown(&history, "1:L", 0..4), ".bc.");
}
