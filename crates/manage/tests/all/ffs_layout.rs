//! Where the variants of the Fast File System place the blocks of files, and which requests they make for them.

use firnfs::ffs::{Ffs, MkfsOptions, Options, Run, Variant};
use firnfs::inode::Kind;
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{MemDevice, TraceDevice, TraceEntry};
use firnfs_format::InodeNo;
use firnfs_format::ffs::Tuning;
use firnfs_format::ffs::inode::DINODE_BYTES;
use firnfs_manage::{format_ffs, open_ffs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::BTreeSet;
use std::sync::Arc;

const BLOCK_BYTES: u64 = 8192;
const BLOCK_FRAGS: u32 = 8;

fn tuning() -> Tuning {
    MkfsOptions::with_size(0).tuning
}

struct Made {
    volume: Volume<Ffs>,
    device: Arc<TraceDevice<MemDevice>>,
}

fn make(tuning: Tuning) -> Made {
    let options = MkfsOptions { group_bytes: Some(4 << 20), tuning, ..MkfsOptions::with_size(32 << 20) };
    let device = Arc::new(TraceDevice::new(MemDevice::new(options.size_bytes)));
    format_ffs(&*device, &options).unwrap();
    let clock = Arc::new(VirtualClock::at(1_000_000_000));
    let volume = open_ffs(device.clone(), Options::default(), AtimeMode::Noatime, clock).unwrap();
    Made { volume, device }
}

impl Made {
    fn create(&self, dir: InodeNo, name: &str, kind: Kind) -> InodeNo {
        let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
        let caller = Caller { uid: 0, gid: 0, umask: 0 };
        self.volume.run(|vfs, now| vfs.make(now, caller, dir, name.as_bytes(), node, false)).unwrap().ino
    }

    fn file(&self, name: &str, len_bytes: u64) -> InodeNo {
        let ino = self.create(InodeNo::ROOT, name, Kind::Regular);
        self.write(ino, 0, len_bytes);
        ino
    }

    /// Block by block, as programs do.
    fn write(&self, ino: InodeNo, at_bytes: u64, len_bytes: u64) {
        for at in (at_bytes..at_bytes + len_bytes).step_by(BLOCK_BYTES as usize) {
            let len = BLOCK_BYTES.min(at_bytes + len_bytes - at);
            self.volume.write_all(ino, at, &vec![7; len as usize], false).unwrap();
        }
    }

    fn remove(&self, name: &str) {
        self.volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, name.as_bytes())).unwrap();
    }

    fn places(&self, ino: InodeNo) -> Vec<Run> {
        self.volume.run(|vfs, _| vfs.store_mut().places(ino)).unwrap()
    }

    fn sync(&self) {
        self.volume.sync(Scope::All).unwrap();
        self.volume.pump();
    }
}

/// The share of a file's blocks that lie right after the block before them.
fn score(places: &[Run]) -> f64 {
    let good = places.windows(2).filter(|pair| pair[0].addr + pair[0].frags == pair[1].addr).count();
    good as f64 / (places.len() - 1) as f64
}

fn gaps(places: &[Run]) -> Vec<u32> {
    places.windows(2).map(|pair| (pair[1].addr - pair[0].addr) / BLOCK_FRAGS - 1).collect()
}

#[test]
fn without_gaps_a_file_is_contiguous_until_its_first_indirect_block() {
    let made = make(tuning());
    let places = made.places(made.file("a", 30 * BLOCK_BYTES));
    assert!((score(&places[..12]) - 1.0).abs() < f64::EPSILON, "{places:?}");
    let group = |run: &Run| run.addr / (4 << 10);
    assert_ne!(group(&places[11]), group(&places[12]), "a new group at the first indirect block");
    assert!((score(&places[12..]) - 1.0).abs() < f64::EPSILON, "{places:?}");
}

#[test]
fn no_switch_stays_in_the_group() {
    let made = make(Tuning { no_switch: true, ..tuning() });
    let places = made.places(made.file("a", 30 * BLOCK_BYTES));
    // Only the indirect block lies between.
    assert_eq!(places[12].addr, places[11].addr + 2 * BLOCK_FRAGS);
}

#[test]
fn the_gaps_are_those_of_the_variants() {
    let of = |variant: Variant| {
        let made = make(Tuning { cpc: 0, ..variant.tuning(8192) });
        gaps(&made.places(made.file("a", 12 * BLOCK_BYTES)))
    };
    assert_eq!(of(Variant::M1R2), [2; 11]);
    assert_eq!(of(Variant::M8R0), [0; 11]);
    assert_eq!(of(Variant::M8R2), [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(of(Variant::Efs), [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0], "64 KiB are 8 blocks of 8 KiB");
}

#[test]
fn a_tail_has_the_fragments_that_it_needs_and_grows_in_place() {
    let made = make(tuning());
    let ino = made.file("a", BLOCK_BYTES + 1500);
    let before = made.places(ino);
    assert_eq!(before[1].frags, 2);
    made.write(ino, BLOCK_BYTES + 1500, 3000);
    let after = made.places(ino);
    assert_eq!((after[1].addr, after[1].frags), (before[1].addr, 5));
}

#[test]
fn smart_frag_puts_the_tail_right_after_the_last_block() {
    for (smart_frag, is_behind) in [(false, false), (true, true)] {
        let made = make(Tuning { smart_frag, ..tuning() });
        // A broken block elsewhere attracts fragments.
        made.file("other", 1000);
        let places = made.places(made.file("a", 3 * BLOCK_BYTES + 1500));
        assert_eq!(places[2].addr + BLOCK_FRAGS == places[3].addr, is_behind, "{places:?}");
    }
}

#[test]
fn reallocation_makes_files_contiguous_where_free_space_is_scattered() {
    let score_of = |reallocates: bool, blocks: u64| {
        let made = make(Tuning { reallocates, ..tuning() });
        // Every second block at the beginning of the group is in use; larger free space follows.
        for n in 0..80 {
            made.file(&format!("f{n}"), BLOCK_BYTES);
        }
        made.sync();
        (0..80).step_by(2).for_each(|n| made.remove(&format!("f{n}")));
        made.sync();
        score(&made.places(made.file("a", blocks * BLOCK_BYTES)))
    };
    // Eight blocks are a cluster; fewer are moved as well.
    for blocks in [2, 3, 8] {
        let (plain, moved) = (score_of(false, blocks), score_of(true, blocks));
        assert!(plain < 0.3 && moved > 0.99, "{blocks} blocks: {plain} without, {moved} with");
    }
}

/// Lengths of the writes, or else the reads, of a file's blocks, in blocks.
fn requests(made: &Made, places: &[Run], writes: bool) -> Vec<u64> {
    let first = u64::from(places.iter().map(|run| run.addr).min().unwrap()) * 1024;
    let end = u64::from(places.iter().map(|run| run.addr + run.frags).max().unwrap()) * 1024;
    let entries = made.device.take();
    let lengths = entries.iter().filter_map(|entry| match *entry {
        TraceEntry::Write { at_bytes, len_bytes, .. } if writes => Some((at_bytes, len_bytes)),
        TraceEntry::Read { at_bytes, len_bytes } if !writes => Some((at_bytes, len_bytes)),
        _ => None,
    });
    lengths.filter(|(at, _)| (first..end).contains(at)).map(|(_, len)| len / BLOCK_BYTES).collect()
}

#[test]
fn only_full_clusters_are_written_as_one() {
    let made = make(tuning());
    let places = made.places(made.file("a", 11 * BLOCK_BYTES));
    made.sync();
    assert_eq!(requests(&made, &places, true), [8, 1, 1, 1]);
    let made = make(Tuning { maxcontig: 1, ..tuning() });
    let places = made.places(made.file("a", 11 * BLOCK_BYTES));
    made.sync();
    assert_eq!(requests(&made, &places, true), [1; 11]);
}

/// 4.4BSD's `cluster_write`: the device works while the program goes on writing.
#[test]
fn a_full_cluster_is_started_at_once_and_a_shorter_one_is_not() {
    let made = make(tuning());
    let ino = made.create(InodeNo::ROOT, "a", Kind::Regular);
    made.sync();
    made.device.take();
    let written = || {
        let places = made.places(ino);
        requests(&made, &places, true)
    };
    made.write(ino, 0, 7 * BLOCK_BYTES);
    assert_eq!(written(), [], "seven of eight blocks");
    made.write(ino, 7 * BLOCK_BYTES, BLOCK_BYTES);
    assert_eq!(written(), [8]);
}

/// Its content comes after the mark that the volume is in use, which nobody waits for either.
#[test]
fn the_first_cluster_after_a_mount_is_started_at_once_too() {
    let made = make(tuning());
    let ino = made.create(InodeNo::ROOT, "a", Kind::Regular);
    made.write(ino, 0, 8 * BLOCK_BYTES);
    assert_eq!(requests(&made, &made.places(ino), true), [8]);
}

#[test]
fn a_close_writes_the_inode_once_and_leaves_content_delayed() {
    let made = make(tuning());
    let ino = made.file("a", 3 * BLOCK_BYTES);
    let places = made.places(ino);
    let writes_of_close = || {
        made.device.take();
        made.volume.file_closed(ino).unwrap();
        let entries = made.device.take();
        let writes = entries.iter().filter_map(|entry| match *entry {
            TraceEntry::Write { at_bytes, len_bytes, .. } => Some((at_bytes, len_bytes)),
            _ => None,
        });
        writes.collect::<Vec<_>>()
    };
    let written = writes_of_close();
    let is_content = |at: u64| places.iter().any(|run| u64::from(run.addr) * 1024 == at);
    assert!(
        matches!(written[..], [(at, BLOCK_BYTES)] if !is_content(at)),
        "{written:?}, content at {places:?}"
    );
    assert_eq!(writes_of_close(), [], "nothing has changed since");
    made.write(ino, 0, 100);
    assert_eq!(writes_of_close(), written);
    made.remove("a");
    assert_eq!(writes_of_close(), []);
}

#[test]
fn the_second_block_in_sequence_triggers_read_ahead_of_a_cluster_and_a_fragment_is_read_alone() {
    let made = make(tuning());
    let ino = made.file("a", 11 * BLOCK_BYTES + 1024);
    let places = made.places(ino);
    made.volume.close().unwrap();
    let clock = Arc::new(VirtualClock::at(2_000_000_000));
    let volume = open_ffs(made.device.clone(), Options::default(), AtimeMode::Noatime, clock).unwrap();
    let made = Made { volume, ..made };
    made.device.take();
    let mut block = vec![0; BLOCK_BYTES as usize];
    for index in 0..12 {
        made.volume.read(ino, index * BLOCK_BYTES, &mut block).unwrap();
    }
    let mut reads = requests(&made, &places, false);
    // The fragment counts 0 blocks.
    assert_eq!(reads.pop(), Some(0));
    assert_eq!(reads, [1, 8, 2]);
}

#[test]
fn random_reads_fetch_no_more_than_they_ask_for() {
    let made = make(tuning());
    let ino = made.file("a", 12 * BLOCK_BYTES);
    let places = made.places(ino);
    made.volume.close().unwrap();
    let clock = Arc::new(VirtualClock::at(2_000_000_000));
    let volume = open_ffs(made.device.clone(), Options::default(), AtimeMode::Noatime, clock).unwrap();
    let made = Made { volume, ..made };
    made.device.take();
    let mut block = vec![0; BLOCK_BYTES as usize];
    for index in [7, 2, 10, 4, 0] {
        made.volume.read(ino, index * BLOCK_BYTES, &mut block).unwrap();
    }
    assert_eq!(requests(&made, &places, false), [1; 5]);
}

#[test]
fn a_block_is_written_once_the_program_writes_elsewhere_in_the_file() {
    let made = make(tuning());
    let ino = made.file("a", 12 * BLOCK_BYTES);
    made.sync();
    let places = made.places(ino);
    made.device.take();
    for block in [3, 9, 10, 1] {
        made.write(ino, block * BLOCK_BYTES, BLOCK_BYTES);
    }
    made.volume.pump();
    assert_eq!(requests(&made, &places, true), [1, 2], "block 3, then 9 and 10; 1 is delayed");
}

#[test]
fn overwritten_blocks_are_written_although_their_indirect_blocks_have_left_memory() {
    let made = make(tuning());
    let ino = made.file("a", 40 * BLOCK_BYTES);
    let other = made.file("b", 1500 * BLOCK_BYTES);
    let Made { volume, device } = made;
    volume.close().unwrap();
    let (clock, small) = (Arc::new(VirtualClock::at(2_000_000_000)), 64 << 10);
    let options = Options { cache_bytes: small, ..Options::default() };
    let volume = open_ffs(device.clone(), options, AtimeMode::Noatime, clock).unwrap();
    let made = Made { volume, device };
    made.write(ino, 30 * BLOCK_BYTES, BLOCK_BYTES);
    let mut content = vec![0; 50 * BLOCK_BYTES as usize];
    for n in 0..120 {
        made.volume.read(other, n % 30 * 50 * BLOCK_BYTES, &mut content).unwrap();
        made.volume.file_closed(other).unwrap();
    }
    made.create(InodeNo::ROOT, "c", Kind::Regular);
    made.device.take();
    made.sync();
    let places = made.places(ino);
    assert_eq!(requests(&made, &places[30..31], true), [1]);
    made.volume.close().unwrap();
}

/// 4.4BSD reads the block of the inode table in which a new inode lies, since it changes a part of it; later inodes of that block find
/// it in memory.
#[test]
fn a_create_reads_the_block_of_its_inode_if_that_is_not_in_memory() {
    let made = make(tuning());
    let inodes_per_block = BLOCK_BYTES / DINODE_BYTES as u64;
    // The first create also reads the directory.
    let first = made.create(InodeNo::ROOT, "first", Kind::Regular);
    let mut seen = BTreeSet::from([first.0 / inodes_per_block]);
    let mut read = 0;
    for n in 0..3 * inodes_per_block {
        made.device.take();
        let ino = made.create(InodeNo::ROOT, &format!("f{n}"), Kind::Regular);
        let reads = made.device.take().into_iter().filter(|entry| matches!(entry, TraceEntry::Read { .. }));
        let is_new = seen.insert(ino.0 / inodes_per_block);
        assert_eq!(reads.count(), usize::from(is_new), "file {n}, inode {ino}");
        read += u64::from(is_new);
    }
    assert_eq!(read, 3);
}
