//! Checks a volume while it is written: changes are not reported as damage, and damage is reported with its path.

use crate::common::{create, mount, new_device, pattern, unlink};
use firnfs::FsError;
use firnfs::check::{Depth, Problem, Progress};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::{BlockKey, Fork, Scope, Store};
use firnfs_device::{AlignedBuf, Device};
use firnfs_format::{BlockIndex, InodeNo};
use firnfs_manage::LogVolume;
use firnfs_manage::{Scrub, Scrubbed};
use firnfs_sim::{Effect, Fault, FaultyDisk, On, Trigger};
use firnfs_volume::Volume;
use std::sync::Arc;

fn scrub(volume: &Volume<Lfs>, depth: Depth, mut pace: impl FnMut(u64) -> bool) -> Scrubbed {
    volume.scrub(&mut Scrub { depth, pace: &mut pace, watch: &mut |_| {} }).unwrap()
}

/// Creates files of various sizes in two directories; returns their inodes.
fn populate(volume: &Volume<Lfs>, files: u64) -> Vec<InodeNo> {
    let dir = create(volume, InodeNo::ROOT, "dir", Kind::Directory);
    (0..files)
        .map(|n| {
            let parent = if n % 2 == 0 { dir } else { InodeNo::ROOT };
            let ino = create(volume, parent, &format!("file number {n}"), Kind::Regular);
            volume.write_all(ino, 0, &pattern(n, 3000 * n as usize % 200_000), false).unwrap();
            ino
        })
        .collect()
}

fn damage(device: &dyn Device, volume: &Volume<Lfs>, key: BlockKey) {
    let place = volume.run(|vfs, _| vfs.store_mut().place_of_block(key)).unwrap().unwrap();
    let at_bytes = volume.run(|vfs, _| Ok(vfs.store().geometry().device_bytes(place.addr))).unwrap();
    let mut bytes = device.read(at_bytes, place.stored_bytes()).unwrap().to_vec();
    bytes[100] ^= 1;
    device.write(at_bytes, std::sync::Arc::new(AlignedBuf::copy_of(&bytes))).unwrap();
}

fn data(ino: InodeNo, index: u64) -> BlockKey {
    BlockKey { ino, fork: Fork::Data, level: 0, index: BlockIndex(index) }
}

#[test]
fn changes_during_a_scrub_are_not_findings() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options { checkpoint_bytes: 1 << 20, ..Options::default() });
    let files = populate(&volume, 120);
    let mut reads = 0;
    let done = scrub(&volume, Depth::Everything, |_| {
        reads += 1;
        let ino = files[reads % files.len()];
        volume.write_all(ino, 4096 * (reads as u64 % 7), &pattern(reads as u64, 9000), false).unwrap();
        let name = format!("made meanwhile {reads}");
        create(&volume, InodeNo::ROOT, &name, Kind::Regular);
        if reads % 3 == 0 {
            unlink(&volume, InodeNo::ROOT, &name).unwrap();
        }
        volume.sync(Scope::All).unwrap();
        volume.background().unwrap();
        true
    });
    assert!(reads > 20, "{reads} reads");
    assert_eq!(done.report.findings, []);
    assert!(done.is_complete);
    assert_eq!(done.report.totals.inodes, 122, "the state of the moment when it began");
    assert!(volume.check().unwrap().is_clean());
}

#[test]
fn damage_is_reported_with_its_path_unless_it_is_overwritten_during_the_scrub() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options::default());
    let files = populate(&volume, 60);
    volume.sync(Scope::All).unwrap();
    damage(&*device, &volume, data(files[40], 3));
    damage(&*device, &volume, data(files[50], 2));
    let mut is_first = true;
    let done = scrub(&volume, Depth::Everything, |_| {
        if std::mem::take(&mut is_first) {
            volume.write_all(files[50], 2 * 4096, &pattern(1, 4096), false).unwrap();
        }
        true
    });
    let paths: Vec<_> = done.report.findings.iter().map(|f| f.path.clone().unwrap()).collect();
    assert_eq!(paths, [b"/dir/file number 40".to_vec()]);
    assert!(
        matches!(done.report.findings[0].problem, Problem::Block { key, .. } if key == data(files[40], 3))
    );
    assert!(done.is_complete, "a second moment was free of what was overwritten");
    // The structure is intact, whatever the content.
    assert_eq!(scrub(&volume, Depth::Structure, |_| true).report.findings, []);
}

#[test]
fn a_scrub_delays_no_writer_of_a_volume_that_is_overwritten_over_and_over() {
    let device = new_device(24 << 20, 2048);
    let (volume, _) = mount(&device, Options { checkpoint_bytes: 1 << 20, ..Options::default() });
    let files = populate(&volume, 60);
    let mut written_bytes = 0_u64;
    let done = scrub(&volume, Depth::Everything, |_| {
        // Far more than the clean segments could take if none were freed.
        for n in 0..40 {
            volume.write_all(files[7], 0, &pattern(written_bytes + n, 300_000), false).unwrap();
            volume.sync(Scope::File(files[7])).unwrap();
            written_bytes += 300_000;
        }
        true
    });
    assert!(written_bytes > 100 << 20);
    assert_eq!(done.report.findings, []);
    assert!(!done.is_complete, "no moment lasted");
    assert!(volume.check().unwrap().is_clean());
    // Undisturbed, it is complete.
    assert!(scrub(&volume, Depth::Everything, |_| true).is_complete);
}

#[test]
fn a_stopped_scrub_reads_no_more_and_releases_its_segments() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options::default());
    populate(&volume, 60);
    let mut reads = 0;
    let done = scrub(&volume, Depth::Everything, |_| {
        reads += 1;
        reads < 5
    });
    assert!(done.is_stopped && !done.is_complete && done.report.findings.is_empty());
    assert_eq!(reads, 5);
    assert!(!volume.run(|vfs, _| Ok(vfs.store().is_held())).unwrap());
}

/// A read that the caller refused is no damage, whichever phase the stop meets; damage found before it is reported.
#[test]
fn a_scrub_that_is_stopped_at_any_read_reports_the_damage_found_until_then_and_no_other() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options::default());
    let files = populate(&volume, 60);
    let mut reads_in_all = 0;
    scrub(&volume, Depth::Everything, |_| {
        reads_in_all += 1;
        true
    });
    assert!(reads_in_all > 10, "{reads_in_all}");
    let stopped_at = |last: u64| {
        let mut reads = 0;
        scrub(&volume, Depth::Everything, |_| {
            reads += 1;
            reads <= last
        })
    };
    let mut came_to_bytes = 0;
    for last in 0..reads_in_all {
        let done = stopped_at(last);
        assert_eq!((done.report.findings, done.report.more_findings), (vec![], 0), "after {last} reads");
        assert!(done.is_stopped && !done.is_complete, "after {last} reads");
        let live_bytes = done.report.totals.live_bytes;
        assert!(live_bytes >= came_to_bytes && live_bytes <= done.volume_live_bytes, "after {last} reads");
        came_to_bytes = live_bytes;
    }
    assert!(came_to_bytes > 0);
    damage(&*device, &volume, data(files[40], 3));
    let found: Vec<_> = (0..reads_in_all).map(|last| stopped_at(last).report.findings).collect();
    assert!(found.is_sorted_by_key(Vec::len) && found[0].is_empty(), "{found:?}");
    let last = found.last().unwrap();
    assert_eq!((last.len(), last[0].path.as_deref()), (1, Some(&b"/dir/file number 40"[..])), "{last:?}");
}

fn make_writable(volume: &Volume<Lfs>) -> Result<Scrubbed, FsError> {
    let (mut pace, mut watch) = (|_| true, |_| {});
    volume.make_writable(&mut Scrub { depth: Depth::Structure, pace: &mut pace, watch: &mut watch })
}

fn is_writable(volume: &Volume<Lfs>) -> bool {
    volume.run(|vfs, _| Ok(vfs.store().read_only().is_none())).unwrap()
}

/// Verifies the content of all files that [`populate`] made, after a crash now.
fn assert_all_there(device: &Arc<dyn Device>, files: &[InodeNo]) {
    let (volume, _) = mount(device, Options { read_only: true, ..Options::default() });
    for (n, ino) in files.iter().enumerate() {
        let expected = pattern(n as u64, 3000 * n % 200_000);
        let mut content = vec![0; expected.len() + 1];
        assert_eq!(volume.read(*ino, 0, &mut content).unwrap(), expected.len(), "file {n}");
        assert!(content[..expected.len()] == expected, "file {n}");
    }
    assert!(volume.check().unwrap().is_clean());
}

#[test]
fn after_a_false_alarm_the_volume_is_writable_again_and_waiting_changes_are_written() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options::default());
    // Changes that are only in memory.
    let files = populate(&volume, 60);
    volume.doubt("a test says so");
    assert!(!is_writable(&volume));
    assert!(matches!(volume.sync(Scope::All), Err(FsError::ReadOnly(why)) if why.contains("a test says so")));
    let done = make_writable(&volume).unwrap();
    assert!(done.is_complete && done.report.findings.is_empty());
    assert!(is_writable(&volume));
    volume.sync(Scope::All).unwrap();
    assert_all_there(&device, &files);
    volume.close().unwrap();
}

#[test]
fn a_volume_whose_structure_is_wrong_stays_read_only_until_it_is_right() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options::default());
    let files = populate(&volume, 61);
    volume.sync(Scope::All).unwrap();
    let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(files[60])).unwrap();
    let indirect = blocks.iter().map(|placed| placed.key).find(|key| key.level == 1).unwrap();
    // In the log's tail: a mount now would not roll forward to the state in memory.
    damage(&*device, &volume, indirect);
    volume.doubt("a test says so");
    let why = make_writable(&volume).unwrap_err().to_string();
    assert!(why.contains("the log on the device ends at"), "{why}");
    assert!(!is_writable(&volume));
    damage(&*device, &volume, indirect);
    assert!(make_writable(&volume).unwrap().report.findings.is_empty());
    assert!(is_writable(&volume));
    // After a checkpoint.
    volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    volume.background().unwrap();
    damage(&*device, &volume, indirect);
    assert_eq!(scrub(&volume, Depth::Structure, |_| true).report.findings.len(), 1);
    volume.doubt("a check says so");
    assert_eq!(make_writable(&volume).unwrap().report.findings.len(), 1);
    assert!(!is_writable(&volume));
    damage(&*device, &volume, indirect);
    assert!(make_writable(&volume).unwrap().report.findings.is_empty());
    assert!(is_writable(&volume));
}

#[test]
fn after_a_failed_log_write_the_volume_is_writable_again_once_the_device_works() {
    let disk = Arc::new(FaultyDisk::new(new_device(64 << 20, 2048), 1));
    let device: Arc<dyn Device> = disk.clone();
    let (volume, _) = mount(&device, Options::default());
    let files = populate(&volume, 60);
    disk.arm(Fault::anywhere(On::Write, Trigger::Always, Effect::Fail));
    assert!(matches!(volume.sync(Scope::All), Err(FsError::Io(_))));
    assert!(!is_writable(&volume));
    let why = make_writable(&volume).unwrap_err().to_string();
    assert!(why.contains("still fails"), "{why}");
    assert!(!is_writable(&volume));
    disk.clear();
    assert!(make_writable(&volume).unwrap().is_complete);
    assert!(is_writable(&volume));
    assert_all_there(&device, &files);
    // And it continues from there.
    let more = create(&volume, InodeNo::ROOT, "more", Kind::Regular);
    volume.write_all(more, 0, &pattern(99, 100_000), false).unwrap();
    volume.close().unwrap();
    assert_all_there(&device, &files);
}

#[test]
fn after_a_failed_flush_the_content_of_the_device_is_unknown_and_the_volume_stays_read_only() {
    let disk = Arc::new(FaultyDisk::new(new_device(64 << 20, 2048), 1));
    let device: Arc<dyn Device> = disk.clone();
    let (volume, _) = mount(&device, Options::default());
    populate(&volume, 60);
    disk.arm(Fault::anywhere(On::Flush, Trigger::Always, Effect::Fail));
    assert!(volume.sync(Scope::All).is_err());
    disk.clear();
    let why = make_writable(&volume).unwrap_err().to_string();
    assert!(why.contains("flush"), "{why}");
    assert!(!is_writable(&volume));
}

#[test]
fn blocks_that_die_during_a_scrub_are_not_overwritten() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options { checkpoint_bytes: 1 << 20, ..Options::default() });
    let rewrite = |ino, bytes: usize| {
        for from in (0..bytes).step_by(1 << 20) {
            volume
                .write_all(ino, from as u64, &pattern(from as u64, (bytes - from).min(1 << 20)), false)
                .unwrap();
            volume.sync(Scope::All).unwrap();
            volume.background().unwrap();
        }
    };
    // The files are after a gap of 16 MiB, and the log continues in the gap.
    let filler = ["before", "after"].map(|name| create(&volume, InodeNo::ROOT, name, Kind::Regular));
    rewrite(filler[0], 16 << 20);
    let files = populate(&volume, 60);
    volume.sync(Scope::All).unwrap();
    rewrite(filler[1], 22 << 20);
    for name in ["before", "after"] {
        unlink(&volume, InodeNo::ROOT, name).unwrap();
    }
    let settle = || {
        volume.background().unwrap();
        volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
        volume.background().unwrap();
    };
    (0..4).for_each(|_| settle());
    let mut is_first = true;
    let done = scrub(&volume, Depth::Everything, |_| {
        if std::mem::take(&mut is_first) {
            let one_more = create(&volume, InodeNo::ROOT, "made meanwhile", Kind::Regular);
            for ino in &files {
                volume.write_all(*ino, 0, &pattern(5, 200_000), false).unwrap();
            }
            (0..2).for_each(|_| settle());
            rewrite(one_more, 30 << 20);
        }
        true
    });
    assert!(done.is_complete);
    assert_eq!(done.report.findings, []);
    assert_eq!(done.report.totals.inodes, 62, "the first moment lasted");
}

#[test]
fn progress_counts_what_was_read_not_what_waits_to_be_read() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options::default());
    let ino = create(&volume, InodeNo::ROOT, "large", Kind::Regular);
    volume.write_all(ino, 0, &pattern(1, 24 << 20), false).unwrap();
    volume.sync(Scope::All).unwrap();
    let read_bytes = std::cell::Cell::new(0);
    let mut pace = |bytes| {
        read_bytes.set(read_bytes.get() + bytes);
        true
    };
    let mut told = Vec::new();
    let mut watch = |progress: Progress| told.push((progress, read_bytes.get()));
    volume.scrub(&mut Scrub { depth: Depth::Everything, pace: &mut pace, watch: &mut watch }).unwrap();
    let begun: Vec<_> = told.iter().filter(|(progress, _)| progress.phase == 1).collect();
    assert!(begun.len() > 2, "{told:?}");
    for (progress, read_bytes) in begun {
        assert!(progress.done_bytes <= *read_bytes, "{progress:?} after {read_bytes} bytes");
    }
    let (last, _) = told.last().unwrap();
    assert!(last.done_bytes > 24 << 20 && last.done_bytes == last.total_bytes, "{last:?}");
}
