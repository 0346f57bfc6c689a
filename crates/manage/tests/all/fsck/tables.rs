//! Phase 5, and the structures that opening a volume needs: tables, counts, logs, copies of superblock and
//! checkpoint.

use crate::fsck::fixture::{Fixture, SIZE_BYTES};
use firnfs::check::{From, Severity};
use firnfs::lfs::{LIVE_SLOT, LogKind};
use firnfs_format::superblock::{CHECKPOINT_SLOTS_AT, Superblock};
use firnfs_format::{Epoch, InodeNo, SegmentId};
use firnfs_manage::check;

/// A segment with live bytes in which no log is open.
fn busy_segment(fixture: &Fixture) -> u64 {
    let tails = fixture.checkpoint().tails;
    let is_open = |n: u64| tails.iter().flatten().any(|t| t.segment.0 == n || t.next_segment.0 == n);
    let usage = fixture.usage();
    (0..usage.len() as u64).find(|&n| usage[n as usize].live_bytes > 8192 && !is_open(n)).unwrap()
}

#[test]
fn every_bad_copy_of_the_superblock_is_rewritten_from_a_good_one() {
    for copy in 0..3 {
        let fixture = Fixture::new();
        fixture.write(Superblock::places(SIZE_BYTES)[copy], &[0xaa; 4096]);
        assert_eq!(fixture.check().severity(), Some(Severity::Copy));
        fixture.is_repaired(&["superblock-copy"], &[]);
    }
}

#[test]
fn a_torn_checkpoint_slot_is_a_note_and_nothing_is_written_for_it() {
    let fixture = Fixture::new();
    let older = (fixture.checkpoint().epoch.0 + 1) % 2;
    fixture.write(CHECKPOINT_SLOTS_AT[older as usize], &[0; 4096]);
    let report = fixture.check();
    assert_eq!(report.severity(), Some(Severity::Note));
    assert!(report.is_clean());
    let before = fixture.read(0, SIZE_BYTES as usize);
    assert!(fixture.repair().actions.is_empty());
    assert!(fixture.read(0, SIZE_BYTES as usize) == before);
}

#[test]
fn a_repair_of_a_sound_volume_changes_no_byte_even_after_a_crash() {
    let fixture = Fixture::new();
    let before = fixture.read(0, SIZE_BYTES as usize);
    let repaired = fixture.repair();
    assert_eq!((repaired.actions.len(), repaired.before.findings.len()), (0, 0));
    assert!(fixture.read(0, SIZE_BYTES as usize) == before);
    let volume = crate::fsck::fixture::mount(&fixture.device);
    crate::fsck::fixture::file(&volume, InodeNo::ROOT, "unsynced", b"lost, or not");
    crate::fsck::fixture::file(&volume, InodeNo::ROOT, "synced", &[7; 100_000]);
    volume.sync(firnfs::store::Scope::All).unwrap();
    drop(volume);
    let before = fixture.read(0, SIZE_BYTES as usize);
    let repaired = fixture.repair();
    assert!(repaired.before.rolled_forward > 0);
    assert_eq!((repaired.actions.len(), repaired.before.findings.len()), (0, 0));
    assert!(fixture.read(0, SIZE_BYTES as usize) == before);
}

#[test]
fn a_declined_repair_is_asked_for_once_and_not_made() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("dir/blocks", firnfs::store::Fork::Data, 0, 3));
    fixture.edit_inode("small", |inode| inode.nlink = 7);
    let mut asked = Vec::new();
    let mut decide = |finding: &firnfs::check::Finding| {
        asked.push(finding.describe().code);
        finding.describe().code == "link-count"
    };
    let clock = crate::fsck::fixture::clock();
    let repaired = firnfs_manage::repair(&fixture.device, &clock, &mut decide, &mut |_| {}).unwrap();
    assert_eq!(asked, ["block-damaged", "link-count"]);
    let left: Vec<_> = repaired.after.findings.iter().map(|finding| finding.describe().code).collect();
    assert_eq!(left, ["block-damaged"]);
}

#[test]
fn both_checkpoints_lead_to_a_sound_volume() {
    let fixture = Fixture::new();
    let epochs: Vec<u32> = (0..2)
        .map(|slot| {
            let report = check(&*fixture.device, From::Slot(slot), &mut |_| {}).unwrap();
            assert!(report.is_clean(), "{:#?}", report.findings);
            report.epoch
        })
        .collect();
    assert_eq!(epochs[0].abs_diff(epochs[1]), 1);
}

#[test]
fn live_bytes_of_a_segment_are_recounted() {
    for change in [4096i64, -4096] {
        let fixture = Fixture::new();
        let segment = busy_segment(&fixture);
        fixture.edit_usage(segment, |entry| {
            entry.live_bytes = entry.live_bytes.wrapping_add_signed(change as i32);
        });
        fixture.is_repaired(&["segment-usage"], &[]);
    }
}

#[test]
fn a_segment_recorded_as_clean_that_holds_live_blocks_is_not_overwritten() {
    let fixture = Fixture::new();
    let segment = busy_segment(&fixture);
    fixture.edit_usage(segment, |entry| (entry.in_use, entry.live_bytes) = (false, 0));
    fixture.edit_checkpoint(|slot| slot.usage.used -= 1);
    fixture.is_repaired(&["segment-usage"], &[]);
}

#[test]
fn a_clean_segment_freed_by_a_future_checkpoint_can_be_written_again() {
    let fixture = Fixture::new();
    let usage = fixture.usage();
    let clean = (0..usage.len() as u64).rev().find(|&n| !usage[n as usize].in_use).unwrap();
    fixture.edit_usage(clean, |entry| entry.epoch = Epoch(1_000_000));
    fixture.is_repaired(&["segment-epoch"], &[]);
}

#[test]
fn counts_in_the_checkpoint_are_corrected() {
    let fixture = Fixture::new();
    fixture.edit_checkpoint(|slot| slot.live_bytes += 512);
    fixture.is_repaired(&["live-bytes"], &[]);
    let fixture = Fixture::new();
    fixture.edit_checkpoint(|slot| slot.imap.used += 1);
    fixture.is_repaired(&["inode-count", "table-sums"], &[]);
    let fixture = Fixture::new();
    fixture.edit_checkpoint(|slot| slot.usage.used -= 1);
    fixture.is_repaired(&["table-sums"], &[]);
    let fixture = Fixture::new();
    let used = fixture.checkpoint().imap.used;
    fixture.edit_checkpoint(|slot| slot.next_ino = InodeNo(used));
    let codes = fixture.codes();
    assert!(codes.contains("next-inode"), "{codes:?}");
    let repaired = fixture.repair();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
}

#[test]
fn live_bytes_by_kind_are_recounted() {
    for kind in LogKind::ALL {
        let fixture = Fixture::new();
        fixture.edit_checkpoint(|slot| slot.counters[LIVE_SLOT + kind as usize] += 512);
        fixture.is_repaired(&["live-kind"], &[]);
    }
}

#[test]
fn a_volume_of_a_version_that_kept_no_live_bytes_by_kind_is_sound_and_stays_without() {
    let fixture = Fixture::new();
    fixture.edit_checkpoint(|slot| slot.counters[LIVE_SLOT..][..LogKind::ALL.len()].fill(0));
    assert!(fixture.check().findings.is_empty());
    let volume = crate::fsck::fixture::mount(&fixture.device);
    crate::fsck::fixture::file(&volume, InodeNo::ROOT, "more", &[7; 100_000]);
    volume.close().unwrap();
    assert_eq!(volume.run(|vfs, _| Ok(vfs.store().live_kinds())).unwrap(), None);
    assert!(fixture.check().findings.is_empty());
}

#[test]
fn a_log_does_not_go_on_over_live_blocks() {
    let fixture = Fixture::new();
    let segment = SegmentId(busy_segment(&fixture));
    fixture.edit_checkpoint(|slot| slot.tails[0].as_mut().unwrap().next_segment = segment);
    fixture.is_repaired(&["log-way"], &[]);
}

#[test]
fn a_damaged_usage_table_is_rebuilt_by_counting() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.checkpoint().usage.ptr);
    fixture.is_repaired(&["table-block"], &[]);
}

#[test]
fn a_log_with_a_damaged_part_ends_there_and_salvage_finds_the_rest() {
    let fixture = Fixture::new();
    let volume = crate::fsck::fixture::mount(&fixture.device);
    let mut first = None;
    for n in 0..4 {
        let ino = crate::fsck::fixture::file(&volume, InodeNo::ROOT, &format!("synced {n}"), &[n + 1; 9000]);
        volume.sync(firnfs::store::Scope::All).unwrap();
        let placed = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
        first.get_or_insert(placed[0].ptr);
    }
    drop(volume);
    // The summary is just before the first block of its partial segment.
    let at_bytes = fixture.geometry().device_bytes(first.unwrap().addr) / 4096 * 4096;
    fixture.write(at_bytes, &[0; 4096]);
    let assumed = firnfs::check::salvage::Assumed {
        block_bytes: None,
        segment_bytes: None,
        hash_key: [1, 2],
        now: firnfs_format::TimeNs(0),
    };
    let together = firnfs_manage::put_together(&*fixture.device, &assumed, &mut |_| {}).unwrap();
    let out: std::sync::Arc<dyn firnfs_device::Device> =
        std::sync::Arc::new(firnfs_device::MemDevice::new(SIZE_BYTES));
    let clock = crate::fsck::fixture::clock();
    firnfs_manage::write_salvaged(&*fixture.device, together, &out, &clock, &mut |_| true, &mut |_| {})
        .unwrap();
    let salvaged = crate::fsck::fixture::walk(&crate::fsck::fixture::mount(&out));
    assert_eq!(salvaged["synced 3"].content, [4; 9000]);

    let tree = fixture.is_repaired(&["log-lost"], &[]);
    assert!(!tree.keys().any(|path| path.starts_with("synced")), "it ends before the first of them");
}
