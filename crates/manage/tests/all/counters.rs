//! Counters since mkfs survive a crash if the log's summaries contain them.

use crate::common::{create, mount, new_device, pattern, unlink};
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, Lfs, LogKind, Options};
use firnfs::store::Scope;
use firnfs::vfs::XattrMode;
use firnfs_format::InodeNo;
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;

const MIB: usize = 1 << 20;

fn counters(volume: &Volume<Lfs>) -> Counters {
    volume.run(|vfs, _| Ok(*vfs.store().counters())).unwrap()
}

/// The part that summaries contain: bytes of the log, bytes of each kind, and bytes of no kind.
fn log_bytes(counters: &Counters) -> Vec<u64> {
    let kinds = LogKind::ALL.map(|kind| counters.log_kind_bytes(kind));
    [vec![counters.log_bytes, counters.upkeep_log_bytes, counters.log_summary_bytes], kinds.to_vec()].concat()
}

/// Writes something of every kind: files with and without indirect blocks, directories with and without an index, attributes;
/// and deletes some of it.
fn write_everything(volume: &Volume<Lfs>, round: u64) {
    let dir = create(volume, InodeNo::ROOT, &format!("dir{round}"), Kind::Directory);
    for n in 0..400 {
        let ino = create(volume, dir, &format!("a file with a long name, number {n}"), Kind::Regular);
        volume.write_all(ino, 0, &pattern(n, (n as usize * 37) % 9_000), false).unwrap();
    }
    let large = create(volume, InodeNo::ROOT, &format!("large{round}"), Kind::Regular);
    volume.write_all(large, 0, &pattern(round, 2 * MIB), false).unwrap();
    let value = pattern(round, 3_000);
    volume.run(|vfs, now| vfs.setxattr(now, large, b"user.a", &value, XattrMode::Any)).unwrap();
    for n in 0..100 {
        unlink(volume, dir, &format!("a file with a long name, number {}", 4 * n)).unwrap();
    }
    volume.sync(Scope::All).unwrap();
}

fn checkpoint(volume: &Volume<Lfs>, clock: &VirtualClock) {
    clock.advance_ms(40_000);
    volume.background().unwrap();
}

#[test]
fn a_crash_loses_no_count_that_the_summaries_contain() {
    for discarded_checkpoints in 0..3 {
        let device = new_device(64 << 20, 200);
        let (volume, clock) = mount(&device, Options::default());
        write_everything(&volume, 0);
        for round in 0..discarded_checkpoints {
            checkpoint(&volume, &clock);
            write_everything(&volume, round + 1);
        }
        let before = counters(&volume);
        for kind in LogKind::ALL {
            // Tables have no summaries of users' commits; the past has its test in `points.rs`.
            let is_other = matches!(kind, LogKind::InodeMap | LogKind::UsageTable | LogKind::Past);
            assert!(before.log_kind_bytes(kind) > 0 || is_other, "{kind:?} is not tested");
        }
        drop(volume);
        for mounts in 1..4 {
            let (volume, _) = mount(&device, Options::default());
            assert_eq!(log_bytes(&counters(&volume)), log_bytes(&before), "crash {mounts}");
            let since = volume.run(|vfs, _| Ok(vfs.store().counters_since_mount())).unwrap();
            assert_eq!(since.log_bytes, 0, "crash {mounts}");
        }
        let (volume, clock) = mount(&device, Options::default());
        checkpoint(&volume, &clock);
        write_everything(&volume, 9);
        let before = counters(&volume);
        drop(volume);
        let (volume, _) = mount(&device, Options::default());
        assert_eq!(log_bytes(&counters(&volume)), log_bytes(&before), "after a mount that went on");
        volume.close().unwrap();
    }
}

#[test]
fn blocks_that_the_cleaner_moved_before_a_crash_count_as_log() {
    let device = new_device(16 << 20, 0);
    let (volume, clock) = mount(&device, small_commits());
    overwrite_at_random(&volume, &clock);
    let before = counters(&volume);
    assert!(before.cleaner_moved_bytes > 0);
    drop(volume);
    let (volume, _) = mount(&device, small_commits());
    assert_eq!(log_bytes(&counters(&volume)), log_bytes(&before));
}

fn small_commits() -> Options {
    Options { write_threshold_bytes: 1 << 20, ..Options::default() }
}

/// Writes a file of 4.8 MB, then as much seven times again, block by block at random places.
fn overwrite_at_random(volume: &Volume<Lfs>, clock: &VirtualClock) {
    let blocks = 1_200;
    let ino = create(volume, InodeNo::ROOT, "file", Kind::Regular);
    let mut state = 1u64;
    for n in 0..8 * blocks {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = if n < blocks { n } else { (state >> 33) % blocks };
        clock.advance_ms(1);
        volume.write_all(ino, at * 4096, &pattern(n, 4096), false).unwrap();
    }
    volume.sync(Scope::All).unwrap();
}

#[test]
fn metadata_that_moves_cause_counts_as_upkeep() {
    let [full, roomy] = [14 << 20, 256 << 20].map(|size_bytes| {
        let (volume, clock) = mount(&new_device(size_bytes, 0), small_commits());
        overwrite_at_random(&volume, &clock);
        counters(&volume)
    });
    assert_eq!(full.user_bytes, roomy.user_bytes);
    assert_eq!((roomy.cleaner_moved_bytes, roomy.upkeep_log_bytes), (0, 0), "there was room");
    // The indirect blocks and records of what moved, and checkpoints for the cleaner, are no small part on a full volume.
    assert!(full.cleaner_moved_bytes > 1 << 20, "{full:?}");
    assert!(full.upkeep_log_bytes > full.cleaner_moved_bytes * 21 / 20, "{full:?}");
    // What is left is what the same users cause where nothing is cleaned; they commit more often on a full volume.
    let (new_bytes, expected) = (full.new_bytes() as f64, roomy.new_bytes() as f64);
    assert!((0.98..1.06).contains(&(new_bytes / expected)), "{new_bytes} instead of {expected}: {full:?}");
}
