//! What the cleaner reads: of sparse victims on a device without a head it reads only the summaries and the live blocks, in few
//! rounds of requests, and checks them as carefully as whole segments.

use crate::common::{CALLER, START_NS, create, mkfs_options, pattern, unlink};
use firnfs::clean::Medium;
use firnfs::engine::{Engine, Step};
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, Lfs, MkfsOptions, Options, Thing};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, NewNode, Vfs};
use firnfs::{FsError, Outcome, Stop};
use firnfs_device::{AlignedBuf, Completion, Device, Geometry, MemDevice, Request, Tag};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_torture::audit::audit;
use firnfs_volume::Volume;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MIB: u64 = 1 << 20;
const VOLUME_BYTES: u64 = 96 * MIB;
const FILE_BYTES: u64 = 64 << 10;
const FILES: u64 = 480;
/// One file in this many is kept: about a tenth of each victim is live.
const OF: u64 = 10;

/// Counts rounds: reads that are submitted before the next wait are one round. Reads of some bytes fail.
struct Watched {
    inner: MemDevice,
    is_submitting: AtomicBool,
    rounds: AtomicU64,
    read_bytes: AtomicU64,
    bad: Range<u64>,
    refusals: AtomicU64,
}

impl Watched {
    fn new(inner: MemDevice, bad: Range<u64>) -> Arc<Self> {
        let zero = AtomicU64::default;
        let is_submitting = AtomicBool::new(false);
        Arc::new(Self { inner, is_submitting, rounds: zero(), read_bytes: zero(), bad, refusals: zero() })
    }
}

impl Device for Watched {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request) -> Tag {
        if let Request::Read { at_bytes, len_bytes } = request {
            if !self.is_submitting.swap(true, Ordering::Relaxed) {
                self.rounds.fetch_add(1, Ordering::Relaxed);
            }
            self.read_bytes.fetch_add(u64::from(len_bytes), Ordering::Relaxed);
            if at_bytes < self.bad.end && self.bad.start < at_bytes + u64::from(len_bytes) {
                self.refusals.fetch_add(1, Ordering::Relaxed);
                // Beyond the end: refused.
                return self.inner.submit(Request::Read { at_bytes: VOLUME_BYTES, len_bytes });
            }
        }
        self.inner.submit(request)
    }

    fn wait(&self, tag: Tag) -> Completion {
        self.is_submitting.store(false, Ordering::Relaxed);
        self.inner.wait(tag)
    }

    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

fn mkfs() -> MkfsOptions {
    MkfsOptions { segment_bytes: 1 << 20, ..mkfs_options(VOLUME_BYTES, 512) }
}

fn options(medium: Medium) -> Options {
    Options { medium, cache_file_data: false, write_threshold_bytes: 4 * MIB, ..Options::default() }
}

fn mounted(device: Arc<dyn Device>, medium: Medium) -> Volume<Lfs> {
    open(device, options(medium), AtimeMode::Noatime, Arc::new(VirtualClock::at(START_NS))).unwrap()
}

fn content(n: u64) -> Vec<u8> {
    pattern(n + 1, FILE_BYTES as usize)
}

/// A volume of files of which one in [`OF`] is left, and the files that are left.
fn sparse() -> (MemDevice, Vec<(u64, InodeNo)>) {
    let device = Arc::new(MemDevice::new(VOLUME_BYTES));
    format(&*device, &mkfs()).unwrap();
    let volume = mounted(device.clone(), Medium::HEAD);
    let mut files = Vec::new();
    for n in 0..FILES {
        let ino = create(&volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular);
        volume.write_all(ino, 0, &content(n), false).unwrap();
        files.push((n, ino));
    }
    volume.sync(Scope::All).unwrap();
    for (n, _) in files.extract_if(.., |(n, _)| *n % OF != 3) {
        unlink(&volume, InodeNo::ROOT, &format!("f{n}")).unwrap();
    }
    volume.close().unwrap();
    drop(volume);
    (Arc::into_inner(device).expect("nobody else has it"), files)
}

/// Cleans until the cleaner has emptied this many segments; returns the counters.
fn clean(volume: &Volume<Lfs>, segments: u64) -> Counters {
    let counters = || volume.run_quietly(|vfs, _| Ok(*vfs.store().counters())).unwrap();
    let before = counters();
    for _ in 0..200 {
        let step = volume.run_quietly(|vfs, now| vfs.store_mut().step(now, true)).unwrap();
        volume.pump();
        if step == Step::Stuck || counters().since(&before).segments_cleaned >= segments {
            break;
        }
    }
    counters().since(&before)
}

fn assert_files(volume: &Volume<Lfs>, files: &[(u64, InodeNo)]) {
    let mut read = vec![0; FILE_BYTES as usize];
    for (n, ino) in files {
        assert_eq!(volume.read(*ino, 0, &mut read).unwrap(), FILE_BYTES as usize);
        assert!(read == content(*n), "file {n}");
    }
    assert_eq!(audit(volume).unwrap(), Vec::<String>::new());
    assert!(volume.check_findings().is_empty());
}

trait CheckFindings {
    fn check_findings(&self) -> Vec<firnfs::check::Finding>;
}

impl CheckFindings for Volume<Lfs> {
    fn check_findings(&self) -> Vec<firnfs::check::Finding> {
        firnfs_manage::LogVolume::check(self).unwrap().findings
    }
}

#[test]
fn sparse_victims_are_read_in_part_without_a_head_and_whole_with_one() {
    for (medium, in_part) in [(Medium::HEADLESS, true), (Medium::HEAD, false)] {
        let (device, files) = sparse();
        let device = Watched::new(device, 0..0);
        let volume = mounted(device.clone(), medium);
        let before = device.read_bytes.load(Ordering::Relaxed);
        let counted = clean(&volume, 20);
        let read_bytes = device.read_bytes.load(Ordering::Relaxed) - before;
        println!("{medium:?}: {counted:?}, {read_bytes} bytes read in all");
        assert!(counted.segments_cleaned >= 20, "{counted:?}");
        assert!(counted.cleaner_moved_bytes < counted.segments_cleaned * MIB / 5, "{counted:?}");
        // Metadata is read as well.
        assert!(counted.cleaner_read_bytes <= read_bytes, "{counted:?}");
        if in_part {
            // A segment that holds metadata may have too little dead space, or too short partial segments, to be read in part.
            assert!(counted.segments_read_in_part + 2 >= counted.segments_cleaned, "{counted:?}");
            assert!(counted.cleaner_read_bytes * 2 < counted.cleaner_moved_bytes * 5, "{counted:?}");
        } else {
            assert_eq!(counted.segments_read_in_part, 0);
            assert_eq!(counted.cleaner_read_bytes % MIB, 0);
            assert!(counted.cleaner_read_bytes >= counted.segments_cleaned * MIB, "{counted:?}");
        }
        assert_files(&volume, &files);
    }
}

/// Sixteen victims: the first summaries, the ends of the walks, the live runs; the inode map and records in between.
#[test]
fn a_pass_reads_all_its_victims_at_once() {
    let (device, files) = sparse();
    let device = Watched::new(device, 0..0);
    let volume = mounted(device.clone(), Medium::HEADLESS);
    let before = device.rounds.load(Ordering::Relaxed);
    let counted = clean(&volume, 1);
    let rounds = device.rounds.load(Ordering::Relaxed) - before;
    println!("{counted:?}, {rounds} rounds");
    assert!(counted.segments_cleaned >= 12 && counted.cleaner_passes == 1, "{counted:?}");
    assert!(rounds <= 12, "{rounds} rounds for {} victims", counted.segments_cleaned);
    assert_files(&volume, &files);
}

/// Places on the device of the blocks of a file.
fn places(device: &Arc<MemDevice>, ino: InodeNo) -> Vec<u64> {
    let volume = mounted(device.clone(), Medium::HEAD);
    let place = |vfs: &mut Vfs<Lfs>| {
        let blocks = vfs.store_mut().inode_blocks(ino)?;
        let geo = vfs.store().geometry();
        Ok(blocks.iter().filter(|b| b.key.level == 0).map(|b| geo.device_bytes(b.ptr.addr)).collect())
    };
    let places = volume.run_quietly(|vfs, _| place(vfs)).unwrap();
    drop(volume.into_vfs());
    places
}

#[test]
fn sectors_that_cannot_be_read_matter_only_where_something_is_live() {
    for (is_live, medium) in [(false, Medium::HEADLESS), (true, Medium::HEADLESS), (false, Medium::HEAD)] {
        let (device, files) = sparse();
        let device = Arc::new(device);
        let live = places(&device, files[20].1);
        // After it lies a file of 64 KiB whose blocks are dead; the place is so far from the live block that the gap is not read.
        let bad = if is_live { live[5] } else { live[15] + 5 * FILE_BYTES };
        let device = Watched::new(Arc::into_inner(device).unwrap(), bad..bad + 4096);
        let volume = mounted(device.clone(), medium);
        let counted = clean(&volume, 40);
        let quarantined: Vec<Thing> = volume
            .run_quietly(|vfs, _| Ok(vfs.store().quarantined().map(|(thing, _)| thing).collect()))
            .unwrap();
        let is_read = device.refusals.load(Ordering::Relaxed) > 0;
        assert_eq!(is_read, is_live || medium == Medium::HEAD, "{counted:?}");
        assert_eq!(quarantined.len(), usize::from(is_read), "{quarantined:?}");
        assert!(counted.segments_cleaned >= 20, "{counted:?}");
        let left = files.iter().filter(|file| !is_live || **file != files[20]).copied().collect::<Vec<_>>();
        let mut read = vec![0; FILE_BYTES as usize];
        for (n, ino) in left {
            volume.read(ino, 0, &mut read).unwrap();
            assert!(read == content(n), "file {n}");
        }
    }
}

#[test]
fn a_damaged_live_block_stays_in_place_and_so_does_its_segment() {
    let (device, files) = sparse();
    let device = Arc::new(device);
    let rotten = places(&device, files[20].1)[7];
    device.write(rotten, Arc::new(AlignedBuf::copy_of(&[0xdb; 4096]))).unwrap();
    let volume = mounted(device.clone(), Medium::HEADLESS);
    let counted = clean(&volume, 40);
    assert!(counted.segments_cleaned >= 20 && counted.segments_read_in_part > 0, "{counted:?}");
    let quarantined = volume.run_quietly(|vfs, _| Ok(vfs.store().quarantined().count())).unwrap();
    assert_eq!(quarantined, 1);
    let mut block = [0; 4096];
    assert!(matches!(volume.read(files[20].1, 7 * 4096, &mut block), Err(FsError::Corrupt { .. })));
    volume.read(files[20].1, 8 * 4096, &mut block).unwrap();
    assert!(block[..] == content(files[20].0)[8 * 4096..9 * 4096]);
}

/// The core without a driver: the test carries out its requests, and can do other things in between.
struct Hand {
    vfs: Vfs<Lfs>,
    device: Arc<MemDevice>,
    now: TimeNs,
}

impl Hand {
    fn pump(&mut self) {
        while let Some(job) = self.vfs.store_mut().next_job() {
            let result = self.device.wait(self.device.submit(job.request())).map(drop);
            self.vfs.store_mut().job_done(job.id, result);
        }
    }

    fn supply(&mut self, stop: Stop) {
        let Stop::Need(fetches) = stop else { panic!("{stop:?}") };
        for fetch in fetches {
            let data = self.device.read(fetch.at_bytes, fetch.len_bytes).unwrap();
            self.vfs.store_mut().supply(&fetch.token, &data.into()).unwrap();
        }
    }

    #[track_caller]
    fn run<T>(&mut self, mut op: impl FnMut(&mut Vfs<Lfs>, TimeNs) -> Outcome<T>) -> T {
        self.now.0 += 1_000_000;
        for _ in 0..1000 {
            match op(&mut self.vfs, self.now) {
                Ok(value) => {
                    self.pump();
                    return value;
                }
                Err(Stop::Room) => self.pump(),
                Err(stop) => self.supply(stop),
            }
        }
        panic!("the core does not finish");
    }
}

#[test]
fn a_victim_that_was_emptied_and_rewritten_during_the_pass_is_not_reported_as_damaged() {
    let (device, files) = sparse();
    let device = Arc::new(device);
    let vfs = mounted(device.clone(), Medium::HEADLESS).into_vfs();
    let mut hand = Hand { vfs, device, now: TimeNs(START_NS + 1_000_000_000) };
    // A pass has chosen its victims, and its first reads are under way.
    let under_way = loop {
        match hand.vfs.store_mut().step(hand.now, true) {
            Err(Stop::Need(fetches)) if fetches.iter().any(|f| f.len_bytes == 16 << 10) => break fetches,
            Err(stop) => hand.supply(stop),
            Ok(_) => hand.pump(),
        }
    };
    let mut come = Vec::new();
    for fetch in &under_way {
        come.push(hand.device.read(fetch.at_bytes, fetch.len_bytes).unwrap());
    }
    // All live files are deleted, checkpoints free the victims, and other data is written over them.
    for (n, _) in &files {
        hand.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, format!("f{n}").as_bytes()));
    }
    while hand.run(|vfs, now| {
        // A user's request: idle work waits.
        vfs.store_mut().note_request(now);
        vfs.store_mut().step(now, false)
    }) == Step::Worked
    {}
    for _ in 0..3 {
        hand.run(|vfs, now| vfs.store_mut().checkpoint_now(now));
    }
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let ino = hand.run(|vfs, now| vfs.make(now, CALLER, InodeNo::ROOT, b"new", node, false)).ino;
    for n in 0..60 {
        let bytes = pattern(n, MIB as usize);
        let written = hand.run(|vfs, now| vfs.write(now, ino, n * MIB, &bytes, false));
        assert_eq!(written, MIB as usize);
        hand.run(|vfs, now| vfs.commit(now, Scope::All));
    }
    // The data read arrives, and the pass goes on.
    for (fetch, data) in under_way.iter().zip(&come) {
        hand.vfs.store_mut().supply(&fetch.token, &data.clone().into()).unwrap();
    }
    for _ in 0..20 {
        hand.now.0 += 1_000_000;
        match hand.vfs.store_mut().step(hand.now, true) {
            Err(Stop::Room) | Ok(_) => hand.pump(),
            Err(stop) => hand.supply(stop),
        }
    }
    let quarantined: Vec<String> =
        hand.vfs.store().quarantined().map(|(thing, why)| format!("{thing}: {why}")).collect();
    assert_eq!(quarantined, Vec::<String>::new());
}
