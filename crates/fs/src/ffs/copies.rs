//! Finding the superblock: the first copy, or, if that is damaged, one of those that mkfs put into the other groups.
//!
//! Without the first copy nothing says how long a group is. But mkfs makes none longer than [`GROUP_BYTES_MAX`], and lengths are multiples of
//! [`GROUP_STEP_BYTES`], so 128 MiB hold two more copies, at some of four thousand places. A copy counts only at a place where its own
//! sizes put it, as mkfs wrote it, and only if half of the copies agree: a file may hold the image of another volume.
//!
//! Callers: opening and the check; the driver, to tell kinds of volumes apart.

use super::mkfs::{GROUP_BYTES_MAX, GROUP_STEP_BYTES, places_of_superblocks};
use crate::device_reader::{DeviceReader, Extent};
use firnfs_format::ffs::superblock::{COPY_AT_BYTES, SUPERBLOCK_BYTES};
use firnfs_format::ffs::{State, Superblock};
use std::ops::ControlFlow;

/// Other copies that are asked whether they agree.
const WITNESSES_MAX: usize = 16;

/// The device holds no Fast File System.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no Fast File System: {0}")]
pub struct NotFfs(pub String);

/// A superblock, and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSuperblock {
    /// The superblock. If it is from a copy, nobody knows whether the volume was unmounted: it counts as in use.
    pub sb: Superblock,
    /// Why the first copy does not count, if this is another one.
    pub first_damaged: Option<String>,
}

/// Reads the superblock: the first copy, or else another one.
///
/// # Errors
/// [`NotFfs`]: there is none, or the volume is longer than the device.
pub fn find_superblock(read: &mut dyn DeviceReader, device_bytes: u64) -> Result<FoundSuperblock, NotFfs> {
    let first = read.read(Extent::new(COPY_AT_BYTES, SUPERBLOCK_BYTES as u32)).map_err(|e| e.to_string());
    let decoded = first.and_then(|bytes| Superblock::decode(&bytes).map_err(|why| why.to_string()));
    let found = match decoded {
        Ok(sb) => FoundSuperblock { sb, first_damaged: None },
        Err(why) => {
            let sb = find_copy(read, device_bytes).ok_or_else(|| NotFfs(why.clone()))?;
            FoundSuperblock { sb: Superblock { state: State::InUse, ..sb }, first_damaged: Some(why) }
        }
    };
    let size_bytes = size_bytes(&found.sb);
    if size_bytes > device_bytes {
        return Err(NotFfs(format!("the volume has {size_bytes} bytes, the device {device_bytes}")));
    }
    Ok(found)
}

/// As [`find_superblock`], for callers to whom it is all the same which copy it is.
///
/// # Errors
/// As [`find_superblock`].
pub fn read_superblock(read: &mut dyn DeviceReader, device_bytes: u64) -> Result<Superblock, NotFfs> {
    find_superblock(read, device_bytes).map(|found| found.sb)
}

fn size_bytes(sb: &Superblock) -> u64 {
    sb.layout.size_frags.saturating_mul(sb.layout.frag_bytes.into())
}

/// The first copy behind group 0 that others confirm.
fn find_copy(read: &mut dyn DeviceReader, device_bytes: u64) -> Option<Superblock> {
    let last = device_bytes.saturating_sub(COPY_AT_BYTES + SUPERBLOCK_BYTES as u64).min(2 * GROUP_BYTES_MAX);
    let places = (1..=last / GROUP_STEP_BYTES).map(|n| n * GROUP_STEP_BYTES + COPY_AT_BYTES);
    let extents = places.map(|at| (Extent::new(at, SUPERBLOCK_BYTES as u32), at));
    read.read_in_order(extents, |read, at, bytes| {
        let copy = bytes.ok().and_then(|bytes| Superblock::decode(&bytes).ok());
        let may_be = |copy: &Superblock| *copy == copy.as_made() && size_bytes(copy) <= device_bytes;
        match copy.filter(|copy| may_be(copy) && is_confirmed(read, copy, at)) {
            Some(copy) => ControlFlow::Break(copy),
            None => ControlFlow::Continue(()),
        }
    })
}

/// Whether a copy is where its sizes put it, and at least half of all copies, itself among them, agree.
fn is_confirmed(read: &mut dyn DeviceReader, copy: &Superblock, at_bytes: u64) -> bool {
    let mut is_in_place = false;
    let mut others = Vec::new();
    for place in places_of_superblocks(&copy.layout).skip(1) {
        is_in_place |= place == at_bytes;
        if place != at_bytes && others.len() < WITNESSES_MAX {
            others.push(Extent::new(place, SUPERBLOCK_BYTES as u32));
        }
    }
    let agrees = |bytes: &[u8]| Superblock::decode(bytes).is_ok_and(|other| other.is_same_volume(copy));
    let agreeing = read.read_all(&others).iter().flatten().filter(|bytes| agrees(bytes)).count();
    is_in_place && 2 * (agreeing + 1) > others.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FsError;
    use crate::ffs::{MkfsOptions, mkfs};

    const SIZE_BYTES: u64 = 8 << 20;

    fn options(group_bytes: u64, uuid: u8) -> MkfsOptions {
        MkfsOptions { group_bytes: Some(group_bytes), uuid: [uuid; 16], ..MkfsOptions::with_size(SIZE_BYTES) }
    }

    fn make(options: &MkfsOptions) -> Vec<u8> {
        let mut image = vec![0; options.size_bytes as usize];
        let mut put = |at_bytes: u64, bytes: &[u8]| -> Result<(), FsError> {
            image[at_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        };
        let (at_bytes, bytes) = mkfs(options, &mut put).unwrap();
        put(at_bytes, &bytes).unwrap();
        image
    }

    fn find(image: &[u8]) -> Result<FoundSuperblock, NotFfs> {
        let mut read = |at_bytes: u64, len_bytes: u32| -> Result<Vec<u8>, FsError> {
            Ok(image[at_bytes as usize..][..len_bytes as usize].to_vec())
        };
        find_superblock(&mut read, image.len() as u64)
    }

    fn destroy(image: &mut [u8], at_bytes: u64) {
        image[at_bytes as usize..][..SUPERBLOCK_BYTES].fill(0x55);
    }

    #[test]
    fn any_copy_is_found_if_those_before_it_are_destroyed() {
        for group_bytes in [1 << 19, 1 << 20, 3 << 20] {
            let mut image = make(&options(group_bytes, 7));
            let whole = find(&image).unwrap();
            assert_eq!(whole.first_damaged, None);
            let places: Vec<u64> = places_of_superblocks(&whole.sb.layout).collect();
            for at in places.iter().take(places.len().div_ceil(2)) {
                destroy(&mut image, *at);
                let found = find(&image).unwrap_or_else(|why| panic!("groups of {group_bytes}, {at}: {why}"));
                assert!(found.first_damaged.is_some() && found.sb.is_same_volume(&whole.sb));
                assert_eq!(found.sb.state, State::InUse, "nobody knows");
            }
            places.iter().for_each(|at| destroy(&mut image, *at));
            assert!(find(&image).is_err());
        }
    }

    #[test]
    fn a_copy_of_another_volume_within_a_file_does_not_count() {
        let mut image = make(&options(2 << 20, 7));
        let other = make(&options(1 << 19, 8));
        destroy(&mut image, COPY_AT_BYTES);
        // At a place where both volumes may have one; and at one where the other volume has none.
        for at in [(1 << 19) + COPY_AT_BYTES, (3 << 15) + COPY_AT_BYTES] {
            image[at as usize..][..SUPERBLOCK_BYTES]
                .copy_from_slice(&other[COPY_AT_BYTES as usize..][..SUPERBLOCK_BYTES]);
        }
        assert_eq!(find(&image).unwrap().sb.uuid, [7; 16]);
    }

    #[test]
    fn a_volume_that_is_longer_than_its_device_is_refused_by_any_copy() {
        let mut image = make(&options(2 << 20, 7));
        image.truncate(5 << 20);
        assert!(find(&image).unwrap_err().0.contains("the device"));
        destroy(&mut image, COPY_AT_BYTES);
        assert!(find(&image).is_err());
    }
}
