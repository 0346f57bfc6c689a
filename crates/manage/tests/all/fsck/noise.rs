//! Random damage: a flipped bit in any live structure is found and affects only its owner; wrong bytes under right
//! checksums make neither the check nor the repair panic or run for ever.

use crate::fsck::fixture::{BLOCK, Fixture, clock};
use firnfs_device::{AlignedBuf, Device, MemDevice};
use firnfs_format::InodeNo;
use firnfs_manage::{check, repair};
use firnfs_sim::seeded;
use rand::RngExt;
use std::sync::Arc;

fn copy(bytes: &[u8]) -> Arc<dyn Device> {
    let device = MemDevice::new(bytes.len() as u64);
    device.write(0, Arc::new(AlignedBuf::copy_of(bytes))).unwrap();
    Arc::new(device)
}

#[test]
fn any_flipped_bit_of_a_live_block_is_found_and_repaired() {
    let fixture = Fixture::new();
    let mut rng = seeded(1, "flips");
    let inos: Vec<_> =
        std::iter::once(InodeNo::ROOT).chain(fixture.tree.values().map(|seen| seen.ino)).collect();
    // Everything that the inode map leads to, and the map itself.
    let mut live = vec![fixture.checkpoint().imap.ptr, fixture.checkpoint().usage.ptr];
    let mut seen = std::collections::BTreeSet::new();
    for ino in inos.into_iter().filter(|ino| seen.insert(*ino)) {
        live.push(fixture.record_ptr(ino));
        let blocks = fixture.with_volume(|v| v.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap());
        live.extend(blocks.iter().map(|placed| placed.ptr));
    }
    // The mounts above have rewritten the tables.
    live[0] = fixture.checkpoint().imap.ptr;
    live[1] = fixture.checkpoint().usage.ptr;
    let geo = fixture.geometry();
    let bytes = fixture.read(0, crate::fsck::fixture::SIZE_BYTES as usize);
    for round in 0..60 {
        let ptr = live[if round < 2 { round } else { rng.random_range(0..live.len()) }];
        let at = geo.device_bytes(ptr.addr) as usize + rng.random_range(0..ptr.stored_bytes() as usize);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << rng.random_range(0..8);
        let device = copy(&damaged);
        let report = check(&*device, firnfs::check::From::Newest, &mut |_| {}).unwrap();
        assert!(!report.is_clean(), "round {round}: a flip at byte {at} is not found");
        let repaired = repair(&device, &clock(), &mut |_| true, &mut |_| {}).unwrap();
        assert!(repaired.after.is_clean(), "round {round}, byte {at}: {:#?}", repaired.after.findings);
    }
}

#[test]
fn wrong_bytes_under_right_checksums_are_judged_without_panic() {
    let fixture = Fixture::new();
    let mut rng = seeded(2, "lies");
    let paths: Vec<&String> = fixture.tree.keys().filter(|path| !path.contains("name")).collect();
    let bytes = fixture.read(0, crate::fsck::fixture::SIZE_BYTES as usize);
    for round in 0..120 {
        let liar = Fixture { device: copy(&bytes), tree: fixture.tree.clone() };
        // Records first: once the map is wrong they cannot be found any more.
        let mut kinds: Vec<u32> = (0..rng.random_range(1..4)).map(|_| rng.random_range(0..6)).collect();
        kinds.sort_unstable_by_key(|kind| if *kind == 1 { 9 } else { 6 - *kind });
        kinds.dedup_by_key(|kind| *kind == 1);
        for kind in kinds {
            let path = paths[rng.random_range(0..paths.len())];
            let (at, with) = (rng.random_range(0..400), rng.random_range(0..256) as u8);
            match kind {
                0 => liar.edit_checkpoint(|slot| lie(&mut rng, slot)),
                1 => liar.edit_imap(fixture.ino(path), |entry| match at % 4 {
                    0 => entry.ptr.addr.0 ^= 1 << (at % 40),
                    1 => entry.version ^= 1 << (at % 32),
                    2 => entry.ptr.len_sectors = with,
                    _ => entry.orphan = !entry.orphan,
                }),
                2 => liar.edit_usage(at as u64 % 60, |entry| entry.live_bytes ^= 1 << (at % 20)),
                _ => liar.edit_record(path, |record| {
                    let at = at % record.len();
                    record[at] = with;
                }),
            }
        }
        if check(&*liar.device, firnfs::check::From::Newest, &mut |_| {}).is_err() {
            continue;
        }
        let repaired = repair(&liar.device, &clock(), &mut |_| true, &mut |_| {});
        if let Ok(repaired) = repaired {
            assert!(repaired.after.is_clean(), "round {round}: {:#?}", repaired.after.findings);
        }
    }
}

/// Puts a wrong number into a checkpoint.
fn lie(rng: &mut impl RngExt, slot: &mut firnfs_format::checkpoint::Checkpoint) {
    let bit = 1u64 << rng.random_range(0..20);
    match rng.random_range(0..7) {
        0 => slot.live_bytes ^= bit,
        1 => slot.imap.used ^= bit & 0xff,
        2 => slot.usage.used ^= bit & 0x3f,
        3 => slot.imap.special ^= bit & 7,
        4 => slot.next_ino.0 ^= bit,
        5 => slot.emptied ^= bit as u32 & 0x3f,
        _ => {
            let log = rng.random_range(0..2);
            let tail = slot.tails[log].as_mut().unwrap();
            tail.next_segment.0 = rng.random_range(0..60);
            tail.sector = (tail.sector ^ bit as u32) & !7;
        }
    }
}

#[test]
fn directory_blocks_with_wrong_values_are_judged_without_panic() {
    let fixture = Fixture::new();
    let mut rng = seeded(3, "lying directories");
    let bytes = fixture.read(0, crate::fsck::fixture::SIZE_BYTES as usize);
    for round in 0..60 {
        let liar = Fixture { device: copy(&bytes), tree: fixture.tree.clone() };
        let fork = if round % 2 == 0 { firnfs::store::Fork::Data } else { firnfs::store::Fork::Index };
        let path = if round % 4 == 0 { "medium" } else { "wide" };
        let index = if path == "medium" { rng.random_range(0..2) } else { rng.random_range(0..6) };
        liar.edit_block(path, fork, index, |block| {
            for _ in 0..rng.random_range(1..6) {
                block[rng.random_range(0..BLOCK.min(600))] = rng.random_range(0..256) as u8;
            }
        });
        let repaired = repair(&liar.device, &clock(), &mut |_| true, &mut |_| {}).unwrap();
        assert!(repaired.after.is_clean(), "round {round}: {:#?}", repaired.after.findings);
    }
}
