//! Volumes short of memory, of room, or of both: everything possible is done, and nothing waits for ever.

use crate::common::{START_NS, create, mount, new_device, pattern, try_create, unlink, within_two_minutes};
use firnfs::FsError;
use firnfs::clean::Policy;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::{Options, Thresholds};
use firnfs::store::Scope;
use firnfs::vfs::SetAttr;
use firnfs_format::InodeNo;

const TINY_CACHE: Options = Options {
    cache_bytes: 4 << 20,
    write_threshold_bytes: 16 << 20,
    held_indirect_bytes: 16 << 20,
    commit_step_items: 512,
    chunk_blocks: 512,
    commit_interval_ms: 5_000,
    checkpoint_interval_ms: 30_000,
    idle_after_ms: 2_000,
    checkpoint_bytes: 256 << 20,
    read_only: false,
    discard: false,
    cache_file_data: true,
    cleaning_policy: Policy::CostBenefit,
    thresholds: Thresholds { low: None, high: None, idle: None },
    placement: None,
    coalesce_age_ms: None,
    idle_bytes_per_s: None,
    slot_points: 128,
    medium: firnfs::clean::Medium::HEAD,
};

#[test]
fn dirty_inodes_beyond_their_share_of_memory_leave_room_for_the_running_operation() {
    within_two_minutes(|| {
        let device = new_device(64 << 20, 0);
        let (volume, _) = mount(&device, TINY_CACHE);
        let files: Vec<_> =
            (0..4000).map(|n| create(&volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular)).collect();
        volume.close().unwrap();
        drop(volume);
        let (volume, _) = mount(&device, TINY_CACHE);
        let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        for ino in files {
            volume.run(|vfs, now| vfs.setattr(now, ino, set)).unwrap();
        }
    });
}

#[test]
fn dirty_blocks_beyond_all_memory_leave_room_for_the_running_operation() {
    within_two_minutes(|| {
        let device = new_device(64 << 20, 0);
        let (volume, _) = mount(&device, TINY_CACHE);
        let ino = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
        let blocks = 2000;
        for n in 0..blocks {
            volume.write(ino, n * 4096, &pattern(n, 4096), false).unwrap();
        }
        volume.close().unwrap();
        drop(volume);
        let (volume, _) = mount(&device, TINY_CACHE);
        for n in 0..blocks {
            volume.write(ino, n * 4096 + 100, &pattern(n + 1, 10), false).unwrap();
        }
    });
}

#[test]
fn the_cleaner_moves_more_small_files_than_memory_has_room_for() {
    within_two_minutes(|| {
        let device = new_device(24 << 20, 2048);
        let options = Options { write_threshold_bytes: 1 << 20, ..TINY_CACHE };
        let (volume, _) = mount(&device, options);
        let dir = create(&volume, InodeNo::ROOT, "dir", Kind::Directory);
        for round in 0..4 {
            for n in 0..12_000u64 {
                let name = format!("f{n}");
                if round > 0 && n % 2 == round % 2 {
                    unlink(&volume, dir, &name).unwrap();
                } else if round > 0 {
                    continue;
                }
                let ino = create(&volume, dir, &name, Kind::Regular);
                volume.write(ino, 0, &pattern(n, 500), false).unwrap();
            }
        }
        volume.close().unwrap();
    });
}

#[test]
fn a_checkpoint_writes_more_of_the_inode_map_than_memory_has_room_for() {
    within_two_minutes(|| {
        let device = new_device(256 << 20, 0);
        let options = Options { write_threshold_bytes: 1 << 20, ..TINY_CACHE };
        let (volume, _) = mount(&device, options);
        let mut files = Vec::new();
        for d in 0..140 {
            let dir = create(&volume, InodeNo::ROOT, &format!("d{d}"), Kind::Directory);
            files.extend((0..1000).map(|n| create(&volume, dir, &format!("f{n}"), Kind::Regular)));
        }
        volume.close().unwrap();
        drop(volume);
        // One inode in every leaf of the map.
        let (volume, _) = mount(&device, options);
        for ino in files.into_iter().step_by(120) {
            let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
            volume.run(|vfs, now| vfs.setattr(now, ino, set)).unwrap();
        }
        volume.close().unwrap();
    });
}

#[test]
fn inline_content_counts_as_memory() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options::default());
    let before = volume.run(|vfs, _| Ok(vfs.store().memory_bytes())).unwrap();
    for n in 0..1000 {
        let ino = create(&volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular);
        volume.write(ino, 0, &pattern(n, 2000), false).unwrap();
    }
    let memory = volume.run(|vfs, _| Ok(vfs.store().memory_bytes())).unwrap() - before;
    // An inode in memory has 51 pointers of more than 16 bytes.
    assert!(memory > 1000 * (2000 + 51 * 16), "{memory}");
    for n in 0..1000 {
        unlink(&volume, InodeNo::ROOT, &format!("f{n}")).unwrap();
    }
    let after = volume.run(|vfs, _| Ok(vfs.store().memory_bytes())).unwrap();
    assert!(after.abs_diff(before) < 400 << 10, "{before} before, {after} after all is gone");
}

#[test]
fn names_can_be_removed_from_a_full_volume() {
    for inline_max_bytes in [0, 2048] {
        let device = new_device(10 << 20, inline_max_bytes);
        let (volume, _) = mount(&device, Options { write_threshold_bytes: 256 << 10, ..Options::default() });
        for round in 0..5 {
            let mut dirs = vec![InodeNo::ROOT];
            let mut names = Vec::new();
            let mut refused_after_sync = false;
            for n in 0.. {
                let dir = dirs[n % dirs.len()];
                let name = format!("a file with quite a long name, number {n}");
                let kind = if n % 50 == 49 { Kind::Directory } else { Kind::Regular };
                match try_create(&volume, dir, &name, kind) {
                    Ok(ino) if kind == Kind::Directory => dirs.push(ino),
                    Ok(_) => {}
                    Err(FsError::NoSpace) if refused_after_sync => break,
                    Err(FsError::NoSpace) => {
                        volume.sync(Scope::All).unwrap();
                        refused_after_sync = true;
                        continue;
                    }
                    Err(e) => panic!("{e}"),
                }
                refused_after_sync = false;
                names.push((dir, name, kind));
            }
            assert!(names.len() > 500, "round {round}: only {} names", names.len());
            volume.sync(Scope::All).unwrap();
            for (dir, name, kind) in names.into_iter().rev() {
                let gone = volume.run(|vfs, now| match kind {
                    Kind::Directory => vfs.rmdir(now, dir, name.as_bytes()),
                    _ => vfs.unlink(now, dir, name.as_bytes()),
                });
                gone.unwrap_or_else(|e| panic!("round {round}, {name}: {e}"));
            }
        }
        volume.close().unwrap();
    }
}

#[test]
fn deletions_in_masses_between_two_commits_fit_the_log() {
    within_two_minutes(|| {
        let device = new_device(80 << 20, 0);
        let options = Options { checkpoint_bytes: 1 << 40, ..Options::default() };
        let (volume, _) = mount(&device, options);
        let mut names = Vec::new();
        'fill: for d in 0.. {
            let Ok(dir) = try_create(&volume, InodeNo::ROOT, &format!("d{d}"), Kind::Directory) else {
                break;
            };
            for n in 0..2000 {
                let name = format!("{n}");
                if try_create(&volume, dir, &name, Kind::Regular).is_err() {
                    break 'fill;
                }
                names.push((dir, name));
            }
        }
        assert!(names.len() > 80_000, "{}", names.len());
        volume.close().unwrap();
        drop(volume);
        let (volume, _) = mount(&device, options);
        for (dir, name) in names {
            unlink(&volume, dir, &name).unwrap();
        }
        volume.close().unwrap();
    });
}

#[test]
fn hot_data_is_overwritten_for_ever_beside_very_old_cold_data() {
    within_two_minutes(|| {
        let device = new_device(32 << 20, 0);
        let options = Options { write_threshold_bytes: 512 << 10, ..Options::default() };
        let (volume, clock) = mount(&device, options);
        let space = volume.run(|vfs, _| Ok(vfs.statfs())).unwrap();
        let block = |n: u64| n * 4096;
        let cold = create(&volume, InodeNo::ROOT, "cold", Kind::Regular);
        let cold_blocks = space.total_bytes * 6 / 10 / 4096;
        for n in 0..cold_blocks {
            volume.write(cold, block(n), &pattern(n, 4096), false).unwrap();
        }
        let hot = create(&volume, InodeNo::ROOT, "hot", Kind::Regular);
        volume.sync(Scope::All).unwrap();
        // A few cold blocks die, so that the cold segments are almost full.
        for n in (0..cold_blocks).step_by(60) {
            volume.write(cold, block(n), &pattern(n, 4096), false).unwrap();
        }
        volume.sync(Scope::All).unwrap();
        let mut now_ns = START_NS + 400 * 86_400 * 1_000_000_000;
        let hot_blocks = space.total_bytes * 2 / 10 / 4096;
        let mut state = 1u64;
        for n in 0..hot_blocks * 12 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = if n < hot_blocks { n } else { (state >> 33) % hot_blocks };
            now_ns += 1_000_000;
            clock.set_ns(now_ns);
            volume
                .write(hot, block(at), &pattern(n, 4096), false)
                .unwrap_or_else(|e| panic!("write {n}: {e}"));
        }
    });
}

#[test]
fn random_blocks_of_one_large_file_are_overwritten_at_80_percent() {
    within_two_minutes(|| {
        let device = new_device(32 << 20, 0);
        let (volume, clock) =
            mount(&device, Options { write_threshold_bytes: 256 << 10, ..Options::default() });
        let space = volume.run(|vfs, _| Ok(vfs.statfs())).unwrap();
        let blocks = space.total_bytes * 8 / 10 / 4096;
        let ino = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
        let mut state = 1u64;
        for n in 0..blocks * 12 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = if n < blocks { n } else { (state >> 33) % blocks };
            clock.set_ns(START_NS + n as i64 * 1_000_000);
            volume.write(ino, at * 4096, &pattern(n, 4096), false).unwrap_or_else(|e| panic!("{n}: {e}"));
        }
    });
}

#[test]
fn changes_committed_at_the_threshold_are_durable_within_the_commit_interval() {
    let device = new_device(64 << 20, 0);
    let options = Options { write_threshold_bytes: 1 << 20, ..Options::default() };
    let (volume, clock) = mount(&device, options);
    let ino = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    let mut at = 0;
    // Until the threshold triggers a commit: nothing is dirty then.
    while volume.run(|vfs, _| Ok(vfs.store().counters().log_bytes)).unwrap() < 1 << 20 {
        volume.write(ino, at, &pattern(at, 4096), false).unwrap();
        at += 4096;
    }
    clock.set_ns(START_NS + 6_000_000_000);
    volume.background().unwrap();
    let durable = volume.run(|vfs, _| Ok(vfs.store().durable())).unwrap();
    let last = volume.run(|vfs, now| vfs.commit(now, Scope::All)).unwrap();
    assert_eq!(durable, last, "the background left something in the device's cache");
}

#[test]
fn a_large_directory_that_was_emptied_is_filled_again() {
    within_two_minutes(|| {
        let device = new_device(64 << 20, 0);
        let options = Options { write_threshold_bytes: 512 << 10, ..TINY_CACHE };
        let name = |n: u32| format!("a name so long that few of them fit a block of the directory {n}");
        for round in 0..3 {
            let (volume, _) = mount(&device, options);
            let dir = match volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"dir", false)) {
                Ok(attr) => attr.ino,
                Err(_) => create(&volume, InodeNo::ROOT, "dir", Kind::Directory),
            };
            let count = 12_000 + round;
            for n in 0..count {
                create(&volume, dir, &name(n), Kind::Fifo);
            }
            for n in 0..count - 1 {
                unlink(&volume, dir, &name(n)).unwrap();
            }
            // Nothing of the directory is in memory when its last name is removed.
            volume.close().unwrap();
            drop(volume);
            let (volume, _) = mount(&device, options);
            unlink(&volume, dir, &name(count - 1)).unwrap();
            volume.close().unwrap();
            let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(dir)).unwrap();
            assert!(blocks.is_empty(), "round {round}: {blocks:?}");
        }
    });
}
