//! The Fast File System: its decoders, and whole images. It has no checksums but the superblock's, so every edit of an image gets as far as
//! its reader.
//!
//! ```text
//! input := flags u8, edit*     (flags: 1 = not unmounted, 2 = the superblock's checksum stays as it was; edits as in `image`)
//! ```
//! The upper half of the parts' numbers stands for any sector that is not zero, the lower half for those of superblocks, descriptors and
//! inodes.

use super::image::{BOUNDS, EDIT_BYTES, EDITS_MAX, apply, use_and_close};
use firnfs::ffs::{Ffs, Options, places_of_superblocks};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::crc32c;
use firnfs_format::ffs::superblock::{COPY_AT_BYTES, SUPERBLOCK_BYTES};
use firnfs_format::ffs::{Descriptor, Dinode, State, Superblock, VolumeLayout};
use firnfs_manage::{check_ffs, open_ffs, repair_ffs};
use firnfs_sim::VirtualClock;
use firnfs_torture::ops::Rng;
use firnfs_torture::specimen::fast_specimen;
use firnfs_torture::survey::survey;
use firnfs_volume::Volume;
use std::sync::{Arc, OnceLock};

const SECTOR: u64 = 512;
const IN_USE: u8 = 1;
const UNSEALED: u8 = 2;
/// Offset of the checksum in a superblock.
const CRC_AT: usize = 12;

struct Base {
    image: SparseImage,
    layout: VolumeLayout,
    /// Sectors of superblocks, descriptors and inodes that are not zero.
    tables: Vec<u64>,
    /// All sectors that are not zero.
    any: Vec<u64>,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let image = fast_specimen().expect("the specimen can be made");
        let layout = Superblock::decode(&sector(&image, COPY_AT_BYTES)).expect("a superblock").layout;
        let is_used = |at: &u64| sector(&image, *at).iter().any(|byte| *byte != 0);
        let any: Vec<u64> = (0..image.size_bytes()).step_by(SECTOR as usize).filter(is_used).collect();
        let group_bytes = u64::from(layout.group_frags) * u64::from(layout.frag_bytes);
        let tables_bytes = u64::from(layout.data_at(0)) * u64::from(layout.frag_bytes);
        let tables = any.iter().copied().filter(|at| at % group_bytes < tables_bytes).collect();
        Base { image, layout, tables, any }
    })
}

fn sector(image: &SparseImage, at_bytes: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    image.read(at_bytes, &mut bytes);
    bytes
}

/// Makes the checksum of a superblock right.
fn seal(bytes: &mut [u8]) {
    if let Some(bytes) = bytes.get_mut(..SUPERBLOCK_BYTES) {
        bytes[CRC_AT..CRC_AT + 4].fill(0);
        let crc = crc32c(bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A superblock that is accepted encodes to the same values, and every place that follows from it lies on the volume.
pub fn superblock(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    for bytes in [bytes, &sealed] {
        let Ok(sb) = Superblock::decode(bytes) else { continue };
        // A label that is not UTF-8 is read with replacement characters.
        let again =
            Superblock::decode(&sb.encode()).map(|again| Superblock { label: sb.label.clone(), ..again });
        assert_eq!(again.as_ref(), Ok(&sb));
        let layout = &sb.layout;
        let size_bytes = layout.size_frags * u64::from(layout.frag_bytes);
        assert!(places_of_superblocks(layout).take(64).all(|at| at + SECTOR <= size_bytes));
        for group in [0, layout.groups - 1] {
            assert!(layout.data_at(group) < layout.frags_in(group));
        }
    }
}

pub fn superblock_seeds() -> Vec<Vec<u8>> {
    let base = base();
    places_of_superblocks(&base.layout).map(|at| sector(&base.image, at).to_vec()).collect()
}

/// A descriptor that is accepted encodes to the same values; inodes as well.
pub fn tables(bytes: &[u8]) {
    let layout = &base().layout;
    for group in 0..layout.groups {
        let Ok(descriptor) = Descriptor::decode(layout, group, bytes) else { continue };
        let again = Descriptor::decode(layout, group, &descriptor.encode(layout, 0));
        assert_eq!(again.as_ref(), Ok(&descriptor));
    }
    for inode in bytes.chunks(256).filter_map(|bytes| Dinode::decode(bytes).ok()) {
        assert_eq!(Dinode::decode(&inode.encode()).as_ref(), Ok(&inode));
    }
}

pub fn tables_seeds() -> Vec<Vec<u8>> {
    let Base { image, layout, .. } = base();
    let block = |frag: u32| {
        let mut bytes = vec![0; layout.block_bytes as usize];
        image.read(u64::from(frag) * u64::from(layout.frag_bytes), &mut bytes);
        bytes
    };
    let starts = (0..layout.groups).map(|group| group * layout.group_frags);
    starts
        .flat_map(|start| [layout.descriptor_at(), layout.inodes_at()].map(|at| block(start + at)))
        .collect()
}

/// The specimen, changed as the input says.
fn damaged(bytes: &[u8]) -> SparseImage {
    let (flags, edits) = bytes.split_first().unwrap_or((&0, &[]));
    let base = base();
    let mut image = base.image.clone();
    if flags & IN_USE != 0 {
        let sb = Superblock::decode(&sector(&image, COPY_AT_BYTES)).expect("a superblock");
        image.write(COPY_AT_BYTES, &Superblock { state: State::InUse, ..sb }.encode());
    }
    for edit in edits.as_chunks::<EDIT_BYTES>().0.iter().take(EDITS_MAX) {
        let number = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
        let list = if number < 0x8000 { &base.tables } else { &base.any };
        let at_bytes = list[number % list.len()];
        apply(edit, at_bytes..at_bytes + SECTOR, &mut image);
        if flags & UNSEALED == 0 && places_of_superblocks(&base.layout).any(|place| place == at_bytes) {
            let mut bytes = sector(&image, at_bytes);
            seal(&mut bytes);
            image.write(at_bytes, &bytes);
        }
    }
    image
}

fn try_open(device: &Arc<MemDevice>, read_only: bool) -> Option<(Volume<Ffs>, Arc<VirtualClock>)> {
    let clock = Arc::new(VirtualClock::at(4_000_000_000));
    let options =
        Options { read_only, cache_bytes: 4 << 20, write_threshold_bytes: 64 << 10, ..Options::default() };
    let device: Arc<dyn Device> = device.clone();
    open_ffs(device, options, AtimeMode::Relatime, clock.clone()).ok().map(|volume| (volume, clock))
}

/// Checks and repairs a damaged volume; a repaired one opens, and one that is sound is left alone.
fn repaired(image: &SparseImage) {
    let memory = Arc::new(MemDevice::from_image(image.clone()));
    let device: Arc<dyn Device> = memory.clone();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::at(4_000_000_000));
    let Ok(done) = repair_ffs(&device, &clock, &mut |_| true) else { return };
    assert!(!done.before.findings.is_empty() || done.before == done.after, "a sound volume was repaired");
    if done.after.findings.is_empty() {
        assert!(try_open(&memory, false).is_some(), "a volume that is called sound does not open");
        let left = check_ffs(&*memory).map(|report| report.findings.len());
        assert!(left.is_ok(), "a volume that was repaired and opened cannot be checked");
    }
}

/// Checked and repaired; and, unrepaired, mounted, read completely, written to, closed, mounted again.
pub fn images(bytes: &[u8]) {
    let image = damaged(bytes);
    repaired(&image);
    let device = Arc::new(MemDevice::from_image(image));
    if let Some((volume, _)) = try_open(&device, true) {
        let _found = survey(&volume, BOUNDS);
    }
    let Some((volume, clock)) = try_open(&device, false) else { return };
    use_and_close(volume, &clock);
    if let Some((volume, _)) = try_open(&device, true) {
        let _found = survey(&volume, BOUNDS);
    }
}

/// Edits in several places, a few at a time.
pub fn seeds() -> Vec<Vec<u8>> {
    (0..24u64)
        .map(|number| {
            let mut rng = Rng::new(number + 100);
            let mut bytes = vec![[0, 0, IN_USE, IN_USE, UNSEALED][(number % 5) as usize]];
            for _ in 0..=number % 4 {
                bytes.extend((rng.bits() as u16).to_le_bytes());
                bytes.extend((rng.bits() as u16).to_le_bytes());
                bytes.push(rng.bits() as u8);
                let value = rng.bits() >> rng.below(64);
                bytes.extend(value.to_le_bytes());
            }
            bytes
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_damaged_images_are_read_and_many_are_written() {
        let opened = |read_only: bool| {
            let is_open = |number: u64| {
                let mut rng = Rng::new(number);
                let edits = (0..EDIT_BYTES as u64 * (1 + number % 3)).map(|_| rng.bits() as u8);
                let bytes: Vec<u8> = std::iter::once(0).chain(edits).collect();
                try_open(&Arc::new(MemDevice::from_image(damaged(&bytes))), read_only).is_some()
            };
            (0..100).filter(|&number| is_open(number)).count()
        };
        assert!(opened(true) > 80, "{} of 100", opened(true));
        assert!(opened(false) > 60, "{} of 100", opened(false));
    }

    #[test]
    fn a_superblock_whose_checksum_is_made_right_is_believed() {
        // The state: 184 bytes into the first copy.
        let part = base().tables.iter().position(|at| *at == COPY_AT_BYTES).unwrap() as u16;
        let edit = [&part.to_le_bytes()[..], &[184, 0, 0b10], &[2, 0, 0, 0, 0, 0, 0, 0]].concat();
        let decoded = |flags: u8| {
            let image = damaged(&[&[flags][..], &edit].concat());
            Superblock::decode(&sector(&image, COPY_AT_BYTES)).map(|sb| sb.state)
        };
        assert_eq!(decoded(0), Ok(State::InUse));
        assert!(decoded(UNSEALED).is_err());
    }
}
