//! Settings that change while a volume is in use take effect, and cost no data.

use crate::promises::support::{KIB, MIB, Mounted, make_volume, pattern};
use firnfs::check::From;
use firnfs::clean::PlacementName;
use firnfs::lfs::{Options, Tuning};
use firnfs_device::MemDevice;
use firnfs_format::InodeNo;
use firnfs_manage::check;
use firnfs_torture::ops::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

const SEGMENT_BYTES: u64 = 256 * KIB;
const FILE_BYTES: usize = 100_000;
const FILES: u64 = 60;

fn tuning(placement: PlacementName, discard: bool) -> Tuning {
    Tuning { placement: Some(placement), discard, ..Tuning::from(Options::default()) }
}

fn tune(mounted: &Mounted, placement: PlacementName, discard: bool) {
    let tuning = tuning(placement, discard);
    mounted
        .volume
        .run(|vfs, _| {
            vfs.store_mut().tune(&tuning);
            Ok(())
        })
        .unwrap();
}

/// Segments in use by the number of the log that wrote them.
fn segments_by_log(mounted: &Mounted) -> BTreeMap<u8, u64> {
    let mut found = BTreeMap::new();
    for leaf in 0.. {
        let entries = mounted.volume.run(|vfs, _| vfs.store_mut().usage_leaf(leaf)).unwrap();
        if entries.is_empty() {
            return found;
        }
        for (_, entry) in entries.iter().filter(|(_, entry)| entry.in_use) {
            *found.entry(entry.log).or_default() += 1;
        }
    }
    unreachable!("the table ends")
}

#[test]
fn a_placement_changes_between_batches_and_every_version_is_kept() {
    let device = Arc::new(MemDevice::new(24 * MIB));
    make_volume(&*device, SEGMENT_BYTES);
    let mounted = Mounted::new(device.clone(), Options { write_threshold_bytes: MIB, ..Options::default() });
    let files: Vec<InodeNo> = (0..FILES).map(|n| mounted.create(InodeNo::ROOT, &format!("f{n}"))).collect();
    let mut version = [0; FILES as usize];
    let mut rng = Rng::new(7);
    let all = ["one", "split", "age-sort", "dac", "dac-leap", "sepbit", "mida", "one", "dac-leap"];
    for (round, name) in (1..).zip(all) {
        // Some changes are not durable yet, and some are laid out already.
        tune(&mounted, name.parse().unwrap(), false);
        let wanted: PlacementName = name.parse().unwrap();
        let found = mounted.volume.run(|vfs, _| Ok(vfs.store().placement())).unwrap();
        assert!(found.to_string().starts_with(wanted.to_string().split(':').next().unwrap()), "{found}");
        for step in 0..150 {
            let n = rng.below(FILES) as usize;
            version[n] = round << 32 | step;
            mounted.write(files[n], 0, &pattern(version[n], FILE_BYTES));
            if step % 40 == 39 {
                mounted.sync();
                mounted.idle_ms(3000);
            }
        }
    }
    mounted.close();
    let report = check(&*device, From::Newest, &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let mounted = Mounted::new(device, Options::default());
    for (n, version) in version.into_iter().enumerate().filter(|(_, version)| *version > 0) {
        let ino = mounted.find(InodeNo::ROOT, &format!("f{n}")).unwrap();
        assert!(mounted.content(ino) == pattern(version, FILE_BYTES), "file {n}");
    }
}

#[test]
fn data_goes_where_the_new_placement_says() {
    let device = Arc::new(MemDevice::new(64 * MIB));
    make_volume(&*device, SEGMENT_BYTES);
    let mounted = Mounted::new(device, Options { write_threshold_bytes: MIB, ..Options::default() });
    let ino = mounted.create(InodeNo::ROOT, "file");
    mounted.write(ino, 0, &pattern(1, 4 << 20));
    mounted.sync();
    tune(&mounted, PlacementName::One, false);
    let before = segments_by_log(&mounted);
    mounted.write(ino, 0, &pattern(2, 4 << 20));
    mounted.write(ino, 4 << 20, &pattern(3, 4 << 20));
    mounted.sync();
    let after = segments_by_log(&mounted);
    assert!(after[&0] >= before.get(&0).copied().unwrap_or(0) + 28, "{before:?} {after:?}");
    // Log 2 has metadata.
    for (log, count) in after.into_iter().filter(|(log, _)| ![0, 2].contains(log)) {
        assert!(count <= before.get(&log).copied().unwrap_or(0), "log {log}: {count} segments");
    }
}

#[test]
fn discarding_begins_and_ends_when_it_is_asked_for() {
    let device = Arc::new(MemDevice::new(64 * MIB));
    make_volume(&*device, SEGMENT_BYTES);
    let mounted = Mounted::new(device.clone(), Options::default());
    let emptied = |name: &str| {
        let ino = mounted.create(InodeNo::ROOT, name);
        mounted.write(ino, 0, &pattern(1, 20 << 20));
        mounted.sync();
        let full = device.image().pages();
        mounted.unlink(InodeNo::ROOT, name);
        // Enough checkpoints for segments found empty to be usable.
        for n in 0..4 {
            mounted.create(InodeNo::ROOT, &format!("{name}{n}"));
            mounted.idle_ms(40_000);
        }
        full.saturating_sub(device.image().pages())
    };
    assert_eq!(emptied("a"), 0, "nothing is discarded");
    tune(&mounted, PlacementName::default(), true);
    assert!(emptied("b") > 4_000);
    tune(&mounted, PlacementName::default(), false);
    assert_eq!(emptied("c"), 0, "nothing is discarded any more");
}
