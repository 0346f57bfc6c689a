//! Damaged volumes of the Fast File System: nothing panics, a repair leaves a volume in which the check finds nothing, and it mounts.

use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::ffs::Superblock;
use firnfs_format::ffs::superblock::COPY_AT_BYTES;
use firnfs_manage::{check_ffs, repair_ffs};
use firnfs_sim::{VirtualClock, seeded};
use firnfs_torture::crash::generate::random_ops;
use firnfs_torture::crash::{Fast, Op, Subject, World};
use rand::RngExt;
use std::sync::Arc;

/// A volume with a bit of everything, unmounted.
fn specimen(fast: &Fast) -> SparseImage {
    let device = Arc::new(MemDevice::from_image(fast.format()));
    let mut mounted = fast.mount(device.clone()).unwrap();
    let mut ops = vec![Op::Mkdir("dir".to_owned())];
    ops.extend((0..120).map(|n| Op::Create(format!("dir/{n:03}-{}", "x".repeat(40)))));
    ops.extend(random_ops(&World::new(), 7, 150));
    for op in ops.iter().filter(|op| **op != Op::Remount) {
        let _refused = mounted.apply(op);
    }
    mounted.unmount().unwrap();
    device.image()
}

/// Sectors of descriptors and inode tables that are not all zeros.
fn tables(image: &SparseImage) -> Vec<u64> {
    let mut sb = [0; 512];
    image.read(COPY_AT_BYTES, &mut sb);
    let layout = Superblock::decode(&sb).unwrap().layout;
    let frag_bytes = u64::from(layout.frag_bytes);
    let groups =
        (0..u64::from(layout.groups)).map(|group| group * u64::from(layout.group_frags) * frag_bytes);
    let tables = groups.flat_map(|start| {
        let at = |frags: u32| start + u64::from(frags) * frag_bytes;
        (at(layout.descriptor_at())..at(layout.summaries_at())).step_by(512)
    });
    let is_used = |at: &u64| {
        let mut sector = [0; 512];
        image.read(*at, &mut sector);
        sector.iter().any(|byte| *byte != 0)
    };
    tables.filter(is_used).collect()
}

/// Flips bits, or overwrites a sector, at up to four places that are not all zeros.
fn damage(image: &mut SparseImage, seed: u64) -> String {
    let mut rng = seeded(seed, "damage");
    let tables = tables(image);
    let mut places = Vec::new();
    for _ in 0..rng.random_range(1..=4) {
        let at = loop {
            // Not the first superblock: without it there is no volume. Mostly the tables: the content of files shows no damage.
            let at = match rng.random_range(0..3) {
                0 => rng.random_range(16..image.size_bytes() / 512) * 512,
                _ => tables[rng.random_range(0..tables.len())],
            };
            let mut sector = [0; 512];
            image.read(at, &mut sector);
            if sector.iter().any(|byte| *byte != 0) {
                break at;
            }
        };
        let mut sector = [0; 512];
        image.read(at, &mut sector);
        match rng.random_range(0..3) {
            0 => sector.fill(0),
            1 => rng.fill(&mut sector[..]),
            _ => sector[rng.random_range(0..512)] ^= 1 << rng.random_range(0..8),
        }
        image.write(at, &sector);
        places.push(at.to_string());
    }
    places.join(", ")
}

#[test]
fn a_repaired_volume_is_sound_and_mounts() {
    let fast = Fast::small();
    let sound = specimen(&fast);
    let report = check_ffs(&MemDevice::from_image(sound.clone())).unwrap();
    assert!(report.findings.is_empty() && report.totals.entries > 120, "{report:?}");
    let (mut found, mut failed) = (0, Vec::new());
    for seed in 0..300 {
        let mut image = sound.clone();
        let places = damage(&mut image, seed);
        let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::at(1));
        let repaired = repair_ffs(&device, &clock, &mut |_| true);
        let repaired = repaired.unwrap_or_else(|e| panic!("seed {seed}, bytes {places}: {e}"));
        found += u32::from(!repaired.before.findings.is_empty());
        if !repaired.after.findings.is_empty() {
            let left: Vec<String> = repaired.after.findings.iter().map(ToString::to_string).collect();
            failed.push(format!("seed {seed}, bytes {places}: {left:?} {:?}", repaired.failed));
            continue;
        }
        let walked = fast.mount(device).and_then(|mut mounted| mounted.tree());
        // Without checksums a flipped bit of a size makes another size: nothing contradicts it.
        if let Err(why) = walked
            && !why.contains("a size that no scenario makes")
        {
            failed.push(format!("seed {seed}, bytes {places}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{} of 300: {:#?}", failed.len(), &failed[..failed.len().min(5)]);
    assert!(found > 100, "damage was found in {found} of 300");
}
