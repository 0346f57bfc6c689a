//! Coalescing: which blocks it moves and when, and which it does not move. (`firnfs_lab::coalescing` measures how much faster
//! reading becomes.)

use crate::common::{START_NS, create, mkfs_options, pattern};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Coalesced, Lfs, Options, Shortage};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Attr};
use firnfs_device::{AlignedBuf, Clock, Device, MemDevice};
use firnfs_format::{BlockIndex, Epoch, InodeNo};
use firnfs_manage::LogVolume;
use firnfs_manage::{format, open};
use firnfs_sim::{VirtualClock, seeded};
use firnfs_torture::audit::audit;
use firnfs_volume::Volume;
use rand::RngExt;
use rand::seq::SliceRandom;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 4 * MIB;
const PIECE_BYTES: u64 = 8 << 10;
const AGE_MS: u64 = 60_000;

struct Bench {
    device: Arc<MemDevice>,
    clock: Arc<VirtualClock>,
    volume: Volume<Lfs>,
}

fn options() -> Options {
    Options { cache_file_data: false, write_threshold_bytes: MIB, ..Options::default() }
}

impl Bench {
    fn new(size_bytes: u64, options: Options) -> Self {
        let device = Arc::new(MemDevice::new(size_bytes));
        format(&*device, &mkfs_options(size_bytes, 512)).unwrap();
        let clock = Arc::new(VirtualClock::at(START_NS));
        let volume = open(device.clone(), options, AtimeMode::Noatime, clock.clone()).unwrap();
        Self { device, clock, volume }
    }

    fn remount(&mut self, options: Options) {
        self.volume.close().unwrap();
        self.volume = open(self.device.clone(), options, AtimeMode::Noatime, self.clock.clone()).unwrap();
    }

    /// A file written in order, then overwritten in random order.
    fn scattered(&self, name: &str, seed: u64) -> (InodeNo, Vec<u8>) {
        let ino = create(&self.volume, InodeNo::ROOT, name, Kind::Regular);
        let mut content = pattern(seed, FILE_BYTES as usize);
        self.volume.write_all(ino, 0, &content, false).unwrap();
        self.volume.sync(Scope::All).unwrap();
        self.scatter(ino, &mut content, seed);
        (ino, content)
    }

    fn scatter(&self, ino: InodeNo, content: &mut [u8], seed: u64) {
        let mut order: Vec<u64> = (0..FILE_BYTES / PIECE_BYTES).collect();
        order.shuffle(&mut seeded(seed, "pieces"));
        for (n, piece) in order.into_iter().enumerate() {
            let at = piece * PIECE_BYTES;
            let bytes = pattern(seed * 1000 + piece, PIECE_BYTES as usize);
            content[at as usize..][..bytes.len()].copy_from_slice(&bytes);
            self.volume.write_all(ino, at, &bytes, false).unwrap();
            if n % 16 == 15 {
                self.volume.sync(Scope::File(ino)).unwrap();
            }
        }
        self.volume.sync(Scope::All).unwrap();
    }

    fn idle(&self, ms: u64) {
        let end_ns = self.clock.now_ns() + ms as i64 * 1_000_000;
        while self.clock.now_ns() < end_ns {
            let sleep_ms = self.volume.background().unwrap();
            self.clock.advance_ms(sleep_ms.clamp(1, 1000) as i64);
        }
    }

    fn counters(&self) -> (u64, u64) {
        self.volume
            .run_quietly(|vfs, _| {
                let counters = vfs.store().counters();
                Ok((counters.coalesced_bytes, counters.coalesced_files))
            })
            .unwrap()
    }

    fn moved(&self) -> u64 {
        self.counters().0
    }

    fn content(&self, ino: InodeNo, len: u64) -> Result<Vec<u8>, FsError> {
        let mut out = vec![0; len as usize];
        for (n, part) in out.chunks_mut(128 << 10).enumerate() {
            self.volume.read(ino, n as u64 * (128 << 10), part)?;
        }
        Ok(out)
    }

    fn attr(&self, ino: InodeNo) -> Attr {
        self.volume.run_quietly(|vfs, _| vfs.getattr(ino)).unwrap()
    }

    /// Births of a file's blocks, in their order.
    fn births(&self, ino: InodeNo) -> Vec<(BlockIndex, Epoch)> {
        let blocks = self.volume.run_quietly(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
        let data = blocks.iter().filter(|b| b.key.level == 0);
        data.map(|b| (b.key.index, b.ptr.birth)).collect()
    }

    /// Where the first block of a level of a file lies on the device.
    fn place_of(&self, ino: InodeNo, level: u8) -> u64 {
        let blocks = self.volume.run_quietly(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
        let block = blocks.iter().find(|b| b.key.level == level).unwrap();
        self.volume.run_quietly(|vfs, _| Ok(vfs.store().geometry().device_bytes(block.ptr.addr))).unwrap()
    }

    fn spoil(&self, at_bytes: u64) {
        self.device.write(at_bytes, Arc::new(AlignedBuf::copy_of(&[0xdb; 512]))).unwrap();
    }

    fn coalesce(&self, ino: InodeNo) -> Coalesced {
        let mut sum = Coalesced::default();
        let (mut from, mut steps) = (Some(0), 0);
        while let Some(at) = from {
            let step = self.volume.coalesce(ino, at).unwrap();
            sum.bytes += step.bytes;
            steps += 1;
            assert!(steps < 10_000, "coalescing does not finish: {sum:?}");
            sum.seams_before += step.seams_before;
            sum.seams_after += step.seams_after;
            sum.moved_bytes += step.moved_bytes;
            sum.shortage = sum.shortage.or(step.shortage);
            from = step.next;
        }
        sum
    }

    fn assert_sound(&self) {
        assert_eq!(audit(&self.volume).unwrap(), Vec::<String>::new());
        assert!(self.volume.check().unwrap().findings.is_empty());
    }
}

#[test]
fn a_file_overwritten_at_random_is_put_in_order_after_a_time_without_changes() {
    let bench = Bench::new(64 * MIB, options());
    let (ino, content) = bench.scattered("file", 1);
    let (attr, births) = (bench.attr(ino), bench.births(ino));
    bench.idle(AGE_MS - 10_000);
    assert_eq!(bench.moved(), 0, "too early");
    bench.idle(20_000);
    assert_eq!(bench.counters(), (FILE_BYTES, 1));
    assert_eq!(bench.attr(ino), attr);
    assert_eq!(bench.births(ino), births);
    assert_eq!(bench.content(ino, FILE_BYTES).unwrap(), content);
    bench.assert_sound();
    // Blocks in order stay in place, even if they are read again and again.
    for _ in 0..3 {
        bench.idle(1_200_000);
        bench.content(ino, FILE_BYTES).unwrap();
    }
    bench.idle(3_600_000);
    assert_eq!(bench.moved(), FILE_BYTES);
}

#[test]
fn a_file_that_was_put_in_order_is_intact_and_in_order_after_a_crash() {
    let mut bench = Bench::new(64 * MIB, options());
    let (ino, content) = bench.scattered("file", 2);
    bench.idle(2 * AGE_MS);
    assert_eq!(bench.moved(), FILE_BYTES);
    bench.volume = open(bench.device.clone(), options(), AtimeMode::Noatime, bench.clock.clone()).unwrap();
    assert_eq!(bench.content(ino, FILE_BYTES).unwrap(), content);
    let asked = bench.coalesce(ino);
    assert_eq!((asked.bytes, asked.moved_bytes), (FILE_BYTES, 0), "{asked:?}");
    bench.assert_sound();
}

#[test]
fn a_file_scattered_before_an_unmount_is_found_and_put_in_order_after_it() {
    let mut bench = Bench::new(64 * MIB, options());
    let (ino, content) = bench.scattered("file", 20);
    let fresh = create(&bench.volume, InodeNo::ROOT, "fresh", Kind::Regular);
    bench.volume.write_all(fresh, 0, &pattern(1, FILE_BYTES as usize), false).unwrap();
    for n in 0..300 {
        create(&bench.volume, InodeNo::ROOT, &format!("small{n}"), Kind::Regular);
    }
    // The file is one of many.
    let (last, last_content) = bench.scattered("last", 21);
    bench.remount(options());
    bench.idle(AGE_MS - 20_000);
    assert_eq!(bench.moved(), 0, "too early");
    bench.idle(2 * AGE_MS);
    assert_eq!(bench.counters(), (2 * FILE_BYTES, 2));
    assert_eq!(bench.content(ino, FILE_BYTES).unwrap(), content);
    assert_eq!(bench.content(last, FILE_BYTES).unwrap(), last_content);
    bench.assert_sound();
    // The next mount looks, and finds nothing. Then the background sleeps.
    bench.remount(options());
    bench.idle(2 * AGE_MS);
    assert_eq!(bench.moved(), 2 * FILE_BYTES);
    assert!(bench.volume.background().unwrap() >= 10_000);
}

/// Two of them: each request that needs both gets one error at a time, never both.
#[test]
fn files_that_were_damaged_do_not_end_the_search_for_others() {
    crate::common::within_two_minutes(|| {
        let mut bench = Bench::new(64 * MIB, options());
        let damaged = [bench.scattered("a", 22).0, bench.scattered("b", 23).0];
        let (sound, content) = bench.scattered("sound", 24);
        let at_bytes = damaged.map(|ino| bench.place_of(ino, 1));
        bench.remount(options());
        at_bytes.iter().for_each(|at_bytes| bench.spoil(*at_bytes));
        bench.idle(3 * AGE_MS);
        assert_eq!(bench.counters(), (FILE_BYTES, 1));
        assert_eq!(bench.content(sound, FILE_BYTES).unwrap(), content);
        assert_eq!(bench.volume.broken(), None);
    });
}

#[test]
fn small_files_that_were_damaged_leave_the_others_of_their_directory_to_be_put_in_order() {
    const FILES: u64 = 100;
    crate::common::within_two_minutes(|| {
        let mut bench = Bench::new(64 * MIB, options());
        let dir = create(&bench.volume, InodeNo::ROOT, "dir", Kind::Directory);
        let create_in = |n: u64| create(&bench.volume, dir, &format!("f{n}"), Kind::Regular);
        let mut files: Vec<(u64, InodeNo)> = (0..FILES).map(|n| (n, create_in(n))).collect();
        files.shuffle(&mut seeded(1, "order"));
        for (n, ino) in &files {
            bench.volume.write_all(*ino, 0, &pattern(*n, 60_000), false).unwrap();
            bench.volume.sync(Scope::File(*ino)).unwrap();
        }
        let at_bytes = [files[10].1, files[70].1].map(|ino| bench.place_of(ino, 1));
        bench.remount(options());
        at_bytes.iter().for_each(|at_bytes| bench.spoil(*at_bytes));
        let asked = bench.coalesce(dir);
        assert!(asked.moved_bytes > 98 * 60_000 && asked.moved_bytes < 99 * 65_000, "{asked:?}");
        assert_eq!(bench.content(files[20].1, 60_000).unwrap(), pattern(files[20].0, 60_000));
    });
}

#[test]
fn nothing_is_moved_while_users_make_requests() {
    let bench = Bench::new(64 * MIB, options());
    let (ino, _) = bench.scattered("file", 3);
    for _ in 0..300 {
        bench.idle(1_000);
        bench.volume.read(ino, 0, &mut [0; 10]).unwrap();
    }
    assert_eq!(bench.moved(), 0);
    bench.idle(5_000);
    assert_eq!(bench.moved(), FILE_BYTES);
}

#[test]
fn an_option_turns_it_off() {
    let bench = Bench::new(64 * MIB, Options { coalesce_age_ms: None, ..options() });
    bench.scattered("file", 4);
    bench.idle(3_600_000);
    assert_eq!(bench.moved(), 0);
}

#[test]
fn a_file_that_is_overwritten_over_and_over_waits_longer_each_time() {
    let bench = Bench::new(64 * MIB, options());
    let (ino, mut content) = bench.scattered("file", 5);
    for round in 0..12 {
        // Long enough only for the first time.
        bench.idle(AGE_MS + 5_000);
        bench.scatter(ino, &mut content, 100 + round);
    }
    assert_eq!(bench.moved(), FILE_BYTES);
    bench.idle(2 * AGE_MS + 5_000);
    assert_eq!(bench.moved(), 2 * FILE_BYTES);
    assert_eq!(bench.content(ino, FILE_BYTES).unwrap(), content);
}

#[test]
fn a_file_that_is_not_read_keeps_long_runs_until_it_is_read_through() {
    let mut bench = Bench::new(64 * MIB, options());
    let ino = create(&bench.volume, InodeNo::ROOT, "file", Kind::Regular);
    // Runs of 184 KiB, alternating between two files, backwards.
    let other = create(&bench.volume, InodeNo::ROOT, "other", Kind::Regular);
    const RUN_BYTES: u64 = 184 << 10;
    for run in (0..20).rev() {
        for ino in [ino, other] {
            bench.volume.write_all(ino, run * RUN_BYTES, &pattern(run, RUN_BYTES as usize), false).unwrap();
        }
        bench.volume.sync(Scope::All).unwrap();
    }
    bench.idle(600_000);
    assert_eq!(bench.moved(), 0);
    bench.content(ino, 20 * RUN_BYTES).unwrap();
    bench.idle(600_000);
    assert_eq!(bench.moved(), 20 * RUN_BYTES);
    // A remount forgets hints; a request needs none.
    bench.remount(options());
    bench.idle(600_000);
    assert_eq!(bench.coalesce(other).moved_bytes, 20 * RUN_BYTES);
}

#[test]
fn small_files_of_a_directory_are_put_in_its_order_after_it_was_walked() {
    const FILES: u64 = 300;
    let mut bench = Bench::new(64 * MIB, options());
    let dir = create(&bench.volume, InodeNo::ROOT, "dir", Kind::Directory);
    let name = |n: u64| format!("f{n}");
    // Inline files, files with a tail, files with an indirect block.
    let len = |n: u64| [300, 5_000, 60_000][(n % 3) as usize];
    let mut files: Vec<(u64, InodeNo)> =
        (0..FILES).map(|n| (n, create(&bench.volume, dir, &name(n), Kind::Regular))).collect();
    let large = create(&bench.volume, dir, "large", Kind::Regular);
    bench.volume.write_all(large, 0, &pattern(7, 200_000), false).unwrap();
    files.shuffle(&mut seeded(1, "order"));
    for (n, ino) in &files {
        bench.volume.write_all(*ino, 0, &pattern(*n, len(*n)), false).unwrap();
        bench.volume.sync(Scope::File(*ino)).unwrap();
    }
    files.sort_unstable();
    bench.remount(options());
    let times: Vec<_> = files.iter().map(|(_, ino)| bench.attr(*ino)).collect();
    bench.remount(options());
    for (n, ino) in &files {
        bench.volume.run(|vfs, now| vfs.lookup(now, dir, name(*n).as_bytes(), false)).unwrap();
        assert_eq!(bench.content(*ino, len(*n) as u64).unwrap(), pattern(*n, len(*n)));
    }
    bench.idle(2 * AGE_MS);
    let (moved, count) = bench.counters();
    assert_eq!(count, FILES);
    bench.idle(3_600_000);
    assert_eq!(bench.moved(), moved);
    for ((n, ino), attr) in files.iter().zip(times) {
        assert_eq!(bench.attr(*ino), attr);
        assert_eq!(bench.content(*ino, len(*n) as u64).unwrap(), pattern(*n, len(*n)));
    }
    bench.remount(options());
    let asked = bench.coalesce(dir);
    assert_eq!((asked.bytes, asked.moved_bytes), (moved, 0), "{asked:?}");
    bench.assert_sound();
}

#[test]
fn a_volume_without_room_to_spare_is_not_changed() {
    let bench = Bench::new(32 * MIB, options());
    let (ino, content) = bench.scattered("file", 6);
    let filler = create(&bench.volume, InodeNo::ROOT, "filler", Kind::Regular);
    let mut at = 0;
    while bench.volume.write_all(filler, at, &pattern(at, MIB as usize), false).is_ok() {
        at += MIB;
    }
    bench.volume.sync(Scope::All).unwrap();
    bench.idle(1_200_000);
    assert_eq!(bench.moved(), 0);
    let asked = bench.coalesce(ino);
    assert_eq!((asked.shortage, asked.moved_bytes), (Some(Shortage::Full), 0), "{asked:?}");
    assert_eq!(asked.seams_after, asked.seams_before, "{asked:?}");
    // As soon as there is room it continues.
    crate::common::unlink(&bench.volume, InodeNo::ROOT, "filler").unwrap();
    bench.idle(1_200_000);
    assert_eq!(bench.moved(), FILE_BYTES);
    assert_eq!(bench.content(ino, FILE_BYTES).unwrap(), content);
    bench.assert_sound();
}

#[test]
fn a_request_reports_the_seams_and_does_not_wait_for_idle_time() {
    let bench = Bench::new(64 * MIB, options());
    let (ino, content) = bench.scattered("file", 8);
    let asked = bench.coalesce(ino);
    assert_eq!((asked.bytes, asked.moved_bytes), (FILE_BYTES, FILE_BYTES));
    assert!(asked.seams_before > 300 && asked.seams_after <= 2, "{asked:?}");
    assert_eq!(bench.coalesce(ino).moved_bytes, 0);
    assert_eq!(bench.content(ino, FILE_BYTES).unwrap(), content);
    let fifo = create(&bench.volume, InodeNo::ROOT, "fifo", Kind::Fifo);
    assert!(matches!(bench.volume.coalesce(fifo, 0), Err(FsError::Invalid(_))));
    assert!(matches!(bench.volume.coalesce(InodeNo(9999), 0), Err(FsError::NotFound)));
    assert_eq!(bench.volume.coalesce(ino, u64::MAX).unwrap(), Coalesced::default());
    bench.assert_sound();
}

/// Overwrites a file at random in pieces, and makes it durable now and then.
fn scatter_large(bench: &Bench, ino: InodeNo, bytes: u64, seed: u64) {
    let mut order: Vec<u64> = (0..bytes / PIECE_BYTES).collect();
    order.shuffle(&mut seeded(seed, "large"));
    for (n, piece) in order.into_iter().enumerate() {
        let content = pattern(seed * 77 + piece, PIECE_BYTES as usize);
        bench.volume.write_all(ino, piece * PIECE_BYTES, &content, false).unwrap();
        if n % 64 == 63 {
            bench.volume.sync(Scope::File(ino)).unwrap();
        }
    }
    bench.volume.sync(Scope::All).unwrap();
}

/// Volumes of 96 MiB, full of files that are scattered all over them: coalescing takes more segments than are clean.
#[test]
fn one_request_puts_everything_in_order_however_full_the_volume_is() {
    for (percent, is_full) in [(45, false), (85, false), (93, true)] {
        let options = Options { coalesce_age_ms: None, write_threshold_bytes: 4 * MIB, ..options() };
        let bench = Bench::new(96 * MIB, options);
        let total_bytes = bench.volume.run_quietly(|vfs, _| Ok(vfs.statfs().total_bytes)).unwrap();
        let large_bytes = total_bytes * percent / 200 / MIB * MIB;
        let files: Vec<InodeNo> =
            (0..2).map(|n| create(&bench.volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular)).collect();
        for (ino, at) in files.iter().flat_map(|ino| (0..large_bytes / MIB).map(move |at| (ino, at))) {
            bench.volume.write_all(*ino, at * MIB, &pattern(at, MIB as usize), false).unwrap();
        }
        for (round, n) in (1..3).flat_map(|round| [(round, 0), (round, 1)]) {
            scatter_large(&bench, files[n as usize], large_bytes, round * 10 + n);
        }
        for (n, ino) in (0..).zip(&files) {
            let asked = bench.coalesce(*ino);
            println!("{percent}%: {asked:?}");
            assert!(asked.seams_before > 1000, "{asked:?}");
            if is_full {
                assert_eq!((asked.shortage, asked.moved_bytes), (Some(Shortage::Full), 0), "{asked:?}");
            } else {
                assert_eq!((asked.shortage, asked.moved_bytes), (None, large_bytes), "{asked:?}");
                assert!(asked.seams_after < 10, "{asked:?}");
                assert_eq!(bench.coalesce(*ino).moved_bytes, 0, "all was done");
            }
            let content = bench.content(*ino, large_bytes).unwrap();
            for (piece, bytes) in (0..).zip(content.chunks(PIECE_BYTES as usize)) {
                assert!(bytes == pattern((20 + n) * 77 + piece, PIECE_BYTES as usize), "piece {piece}");
            }
        }
        bench.assert_sound();
    }
}

#[test]
fn holes_and_reserved_room_stay_what_they_are() {
    let bench = Bench::new(64 * MIB, options());
    let ino = create(&bench.volume, InodeNo::ROOT, "sparse", Kind::Regular);
    let mut blocks: Vec<u64> = (0..200).map(|n| n * 7).chain([1 << 20, 1 << 30]).collect();
    blocks.shuffle(&mut seeded(3, "blocks"));
    for block in &blocks {
        bench.volume.write_all(ino, block * 4096, &pattern(*block, 4096), false).unwrap();
        bench.volume.sync(Scope::File(ino)).unwrap();
    }
    let allocated_bytes = bench.attr(ino).allocated_bytes;
    let asked = bench.coalesce(ino);
    assert_eq!(asked.moved_bytes, blocks.len() as u64 * 4096, "{asked:?}");
    assert_eq!(bench.attr(ino).allocated_bytes, allocated_bytes);
    for block in blocks {
        let mut out = [1; 8192];
        let len = bench.volume.read(ino, block * 4096, &mut out).unwrap();
        assert_eq!(out[..4096], pattern(block, 4096)[..]);
        assert!(out[4096..len].iter().all(|byte| *byte == 0));
    }
    bench.assert_sound();
}

#[test]
fn a_damaged_file_is_not_put_in_order_but_others_are() {
    let bench = Bench::new(64 * MIB, options());
    let (damaged, content) = bench.scattered("damaged", 9);
    let (sound, sound_content) = bench.scattered("sound", 10);
    let blocks = bench.volume.run_quietly(|vfs, _| vfs.store_mut().inode_blocks(damaged)).unwrap();
    let block = blocks.iter().find(|b| b.key.level == 0 && b.key.index.0 == 700).unwrap();
    let at_bytes = bench.volume.run_quietly(|vfs, _| Ok(vfs.store().geometry().device_bytes(block.ptr.addr)));
    bench.device.write(at_bytes.unwrap(), Arc::new(AlignedBuf::copy_of(&[0xdb; 4096]))).unwrap();
    bench.idle(3_600_000);
    assert_eq!(bench.volume.broken(), None);
    assert_eq!(bench.content(sound, FILE_BYTES).unwrap(), sound_content);
    let moved = bench.moved();
    assert!((FILE_BYTES..2 * FILE_BYTES).contains(&moved), "{moved}");
    let (before, behind) = (700 * 4096, 701 * 4096);
    assert_eq!(bench.content(damaged, before).unwrap(), content[..before as usize]);
    let mut rest = vec![0; (FILE_BYTES - behind) as usize];
    bench.volume.read(damaged, behind, &mut rest).unwrap();
    assert_eq!(rest, content[behind as usize..]);
    assert!(matches!(bench.volume.read(damaged, before, &mut [0; 10]), Err(FsError::Corrupt { .. })));
    // The read has noted the file again; idle work must not read it over and over.
    bench.idle(3_600_000);
    assert!(bench.moved() < 2 * FILE_BYTES);
}

#[test]
fn a_volume_with_hardly_any_memory_puts_files_in_order_too() {
    let bench = Bench::new(64 * MIB, Options { cache_bytes: 4 << 20, ..options() });
    let (ino, content) = bench.scattered("file", 11);
    bench.idle(2 * AGE_MS);
    assert_eq!(bench.moved(), FILE_BYTES);
    assert_eq!(bench.content(ino, FILE_BYTES).unwrap(), content);
    let bytes = bench.volume.run_quietly(|vfs, _| Ok(vfs.store().memory_bytes())).unwrap();
    assert!(bytes <= 5 << 20, "{bytes} bytes stay in memory");
}

#[test]
fn users_who_work_during_coalescing_find_and_leave_the_right_content() {
    let bench = Bench::new(64 * MIB, Options { coalesce_age_ms: Some(0), ..options() });
    let mut rng = seeded(12, "users");
    let mut files: Vec<(InodeNo, Vec<u8>)> = (0..4).map(|n| bench.scattered(&format!("f{n}"), n)).collect();
    for round in 0..200 {
        // Sometimes the pause is too short for the volume to become idle.
        bench.idle(rng.random_range(500..6_000));
        let at_file = rng.random_range(0..files.len());
        let (ino, content) = &mut files[at_file];
        for _ in 0..rng.random_range(1..40) {
            let at = rng.random_range(0..FILE_BYTES - PIECE_BYTES);
            let bytes = pattern(round, rng.random_range(1..PIECE_BYTES as usize));
            content[at as usize..][..bytes.len()].copy_from_slice(&bytes);
            bench.volume.write_all(*ino, at, &bytes, false).unwrap();
        }
        if rng.random_bool(0.3) {
            let step = bench.volume.coalesce(*ino, rng.random_range(0..1024)).unwrap();
            assert!(step.seams_after <= step.seams_before, "{step:?}");
        }
        if rng.random_bool(0.2) {
            assert!(bench.content(*ino, FILE_BYTES).unwrap() == *content, "round {round}");
        }
    }
    for (ino, content) in &files {
        assert!(bench.content(*ino, FILE_BYTES).unwrap() == *content);
    }
    assert!(bench.moved() > 8 * FILE_BYTES, "{}", bench.moved());
    bench.assert_sound();
}
