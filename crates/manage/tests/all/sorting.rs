//! Data sorted into logs: how many logs a volume has, which data goes to which, and what sorting must not cost.

use crate::common::{START_NS, create, mkfs_options};
use firnfs::clean::PlacementName;
use firnfs::inode::Kind;
use firnfs::lfs::port::BlockInfo;
use firnfs::lfs::{Lfs, META_LOG, MkfsOptions, Options, scan};
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_device::{CountingDevice, Device, MemDevice};
use firnfs_format::summary::{EntryKind, FLAG_CLEANER};
use firnfs_format::{Epoch, InodeNo, SectorAddr, SegmentId};
use firnfs_manage::{format_with_logs, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::BTreeSet;
use std::sync::Arc;

struct Sorted {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    device: Arc<CountingDevice<MemDevice>>,
}

/// A volume of this many segments of 256 KiB, with this many data logs, or as many as suit it.
fn mount(segments: u64, data_logs: Option<u8>, options: Options) -> Sorted {
    let size_bytes = (2 << 20) + segments * (256 << 10) + 4096;
    let device = Arc::new(CountingDevice::new(MemDevice::new(size_bytes)));
    let mkfs = MkfsOptions { size_bytes, ..mkfs_options(size_bytes, 0) };
    format_with_logs(&*device, &mkfs, data_logs).unwrap();
    let clock = Arc::new(VirtualClock::at(START_NS));
    let volume = open(device.clone(), options, AtimeMode::Noatime, clock.clone()).unwrap();
    Sorted { volume, clock, device }
}

impl Sorted {
    fn write(&self, ino: InodeNo, block: u64, blocks: usize) {
        self.volume.write_all(ino, block * 4096, &vec![block as u8 | 1; blocks * 4096], false).unwrap();
        self.clock.advance_ms(1000);
    }

    /// Does all work that is due.
    fn rest(&self) {
        self.clock.advance_ms(60_000);
        self.volume.background().unwrap();
    }

    fn look<T>(&self, look: impl Fn(&mut Lfs) -> firnfs::Outcome<T>) -> T {
        self.volume.run(|vfs, _| look(vfs.store_mut())).unwrap()
    }

    /// The segment that holds a block of a file.
    fn segment_of(&self, ino: InodeNo, block: u64) -> SegmentId {
        let kind = EntryKind::Block { fork: 0, level: 0, index: block };
        let name = BlockInfo { ino, version: 1, kind, addr: SectorAddr(0) };
        let ptr = self.look(|lfs| lfs.bmapv(&[name]))[0];
        assert!(ptr.is_stored(), "block {block}");
        self.look(|lfs| Ok(lfs.geometry().segment_of(ptr.addr)))
    }

    fn log_of(&self, segment: SegmentId) -> u8 {
        let infos = self.look(|lfs| lfs.segment_infos(lfs.usage_leaf_of(segment)));
        infos.iter().find(|info| info.segment == segment).unwrap().usage.log
    }

    /// Logs that hold a range of blocks.
    fn logs_of(&self, ino: InodeNo, blocks: std::ops::Range<u64>) -> BTreeSet<u8> {
        blocks.map(|block| self.log_of(self.segment_of(ino, block))).collect()
    }
}

#[test]
fn a_volume_has_logs_in_proportion_to_its_size_and_they_take_little_capacity() {
    for (segments, placement) in [
        (28, PlacementName::Split),
        (255, PlacementName::Split),
        (256, PlacementName::LeapingDac(3)),
        (512, PlacementName::LeapingDac(4)),
        (768, PlacementName::LeapingDac(5)),
        (4000, PlacementName::LeapingDac(5)),
    ] {
        let sorted = mount(segments, None, Options::default());
        assert_eq!(sorted.look(|lfs| Ok(lfs.placement())), placement, "{segments} segments");
        let plain = mount(segments, Some(2), Options::default());
        let [with, without] = [sorted, plain].map(|m| m.volume.run(|vfs, _| Ok(vfs.statfs())).unwrap());
        assert!(with.total_bytes as f64 >= without.total_bytes as f64 * 0.99, "{segments} segments");
    }
}

#[test]
fn a_requested_placement_uses_the_logs_that_exist() {
    let asked = |placement| Options { placement: Some(placement), ..Options::default() };
    for (data_logs, placement, given) in [
        (2, PlacementName::Dac(6), PlacementName::Dac(2)),
        (3, PlacementName::SepBit(6), PlacementName::SepBit(3)),
        (5, PlacementName::One, PlacementName::One),
        (5, PlacementName::Mida(4), PlacementName::Mida(4)),
    ] {
        let sorted = mount(100, Some(data_logs), asked(placement));
        assert_eq!(sorted.look(|lfs| Ok(lfs.placement())), given);
    }
}

#[test]
fn blocks_that_are_rewritten_over_and_over_lie_apart_from_the_others() {
    let sorted = mount(100, Some(5), Options { write_threshold_bytes: 512 << 10, ..Options::default() });
    let file = create(&sorted.volume, InodeNo::ROOT, "f", Kind::Regular);
    for block in (0..1024).step_by(64) {
        sorted.write(file, block, 64);
    }
    sorted.rest();
    let new = sorted.logs_of(file, 0..1024);
    for round in 0..4 {
        // Together with new data, so that the commit is worth several writes.
        sorted.write(file, 1024 + round * 64, 64);
        sorted.write(file, 0, 64);
        sorted.rest();
    }
    let (hot, cold) = (sorted.logs_of(file, 0..64), sorted.logs_of(file, 64..1280));
    assert_eq!(cold, new, "blocks that were not rewritten stay in place");
    assert!(hot.is_disjoint(&cold), "{hot:?} and {cold:?}");
    assert!(!new.contains(&META_LOG) && !hot.contains(&META_LOG));
}

#[test]
fn an_fsync_waits_for_one_write_whatever_the_temperatures() {
    let sorted = mount(100, Some(5), Options { write_threshold_bytes: 512 << 10, ..Options::default() });
    let file = create(&sorted.volume, InodeNo::ROOT, "f", Kind::Regular);
    sorted.write(file, 0, 64);
    for _ in 0..4 {
        sorted.write(file, 0, 32);
        sorted.rest();
    }
    sorted.write(file, 0, 1);
    sorted.write(file, 40, 1);
    sorted.write(file, 100, 1);
    let before = sorted.device.counts();
    sorted.volume.sync(Scope::File(file)).unwrap();
    let counts = sorted.device.counts().since(&before);
    assert_eq!((counts.writes, counts.flushes), (1, 1), "{counts:?}");
}

#[test]
fn a_sequential_copy_is_as_few_writes_as_with_two_logs() {
    let writes = [2, 5].map(|data_logs| {
        let sorted = mount(400, Some(data_logs), Options::default());
        let file = create(&sorted.volume, InodeNo::ROOT, "f", Kind::Regular);
        let before = sorted.device.counts();
        for block in (0..8192).step_by(64) {
            sorted.write(file, block, 64);
        }
        sorted.volume.sync(Scope::All).unwrap();
        assert_eq!(sorted.logs_of(file, 0..8192).len(), 1);
        sorted.device.counts().since(&before).writes
    });
    assert!(writes[1] <= writes[0] + 4, "{writes:?}");
}

/// A file overwritten at random until the cleaner has worked for a long time, and the partial segments that its passes wrote.
fn cleaned(options: Options) -> Vec<Pass> {
    let sorted = mount(100, Some(5), Options { write_threshold_bytes: 512 << 10, ..options });
    let file = create(&sorted.volume, InodeNo::ROOT, "f", Kind::Regular);
    for block in (0..3072).step_by(64) {
        sorted.write(file, block, 64);
    }
    let mut state = 1u64;
    for _ in 0..12_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sorted.write(file, (state >> 33) % 3072, 1);
    }
    sorted.volume.sync(Scope::All).unwrap();
    let geo = sorted.look(|lfs| Ok(lfs.geometry()));
    let uuid = sorted.look(|lfs| Ok(lfs.superblock().uuid));
    let mut passes = Vec::new();
    for segment in (0..geo.segments).map(SegmentId) {
        let at_bytes = geo.device_bytes(geo.addr(segment, 0));
        let bytes = sorted.device.read(at_bytes, geo.segment_bytes).unwrap();
        for partial in scan::partials(&bytes, &uuid, &geo, segment) {
            let summary = &partial.summary;
            if summary.flags & FLAG_CLEANER == 0 || summary.log == META_LOG {
                continue;
            }
            let is_data = |kind| matches!(kind, EntryKind::Block { fork: 0, level: 0, .. });
            let data = partial.entries.iter().filter(|entry| entry.ino == file && is_data(entry.kind));
            let births = data.map(|entry| entry.ptr.birth).collect();
            passes.push(Pass { log: summary.log, epoch: summary.epoch, births });
        }
    }
    passes
}

/// A partial segment that a pass of the cleaner wrote: the births of its blocks, in stored order.
struct Pass {
    log: u8,
    epoch: Epoch,
    births: Vec<Epoch>,
}

/// BSD-LFS, section 3.5. Partial segments of a pass hold blocks from its victims, and no data that users have written since.
#[test]
fn while_a_pass_writes_moved_blocks_nothing_else_goes_to_their_log() {
    let passes = cleaned(Options::default());
    for pass in &passes {
        // Data that users wrote for this commit would be born in its epoch; moved blocks were checkpointed before their segment
        // could be a victim.
        assert!(pass.births.iter().all(|birth| *birth < pass.epoch), "{:?} in {:?}", pass.births, pass.epoch);
    }
    let moved: usize = passes.iter().map(|pass| pass.births.len()).sum();
    let logs: BTreeSet<u8> = passes.iter().map(|pass| pass.log).collect();
    assert!(moved > 1000 && logs.len() > 1, "{moved} blocks in {logs:?}");
}

/// Sprite LFS, section 3.5.
#[test]
fn age_sort_writes_moved_blocks_oldest_first() {
    let with = |placement| cleaned(Options { placement: Some(placement), ..Options::default() });
    let is_sorted = |pass: &Pass| pass.births.is_sorted();
    let sorted = with(PlacementName::AgeSort);
    assert!(sorted.len() > 10 && sorted.iter().all(is_sorted));
    assert!(
        !with(PlacementName::Split).iter().all(is_sorted),
        "without age sort the blocks are not sorted by age"
    );
}
