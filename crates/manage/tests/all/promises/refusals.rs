//! Errors for people: a device without a volume, or with a damaged one, is refused with one line that says
//! what and where.

use crate::promises::support::{KIB, MIB, Mounted, make_volume, pattern};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{NotFirnfs, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Device, MemDevice, SparseImage};
use firnfs_format::InodeNo;
use firnfs_format::superblock::{
    CHECKPOINT_SLOTS_AT, FORMAT_VERSION, SUPERBLOCK_BYTES, SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_SECOND_AT,
    Superblock,
};
use firnfs_manage::{OpenError, open};
use firnfs_sim::VirtualClock;
use std::sync::Arc;

const SIZE_BYTES: u64 = 32 * MIB;

/// A volume with one file.
fn volume() -> SparseImage {
    let device = Arc::new(MemDevice::new(SIZE_BYTES));
    make_volume(&*device, 256 * KIB);
    let mounted = Mounted::new(device.clone(), Options::default());
    let ino = mounted.create(InodeNo::ROOT, "file");
    mounted.write(ino, 0, &pattern(9, 100_000));
    mounted.close();
    device.image()
}

fn open_image(image: SparseImage) -> Result<(), OpenError> {
    let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image));
    open(device, Options::default(), AtimeMode::Noatime, Arc::new(VirtualClock::at(5))).map(drop)
}

fn refused(image: SparseImage) -> OpenError {
    let error = open_image(image).expect_err("the volume is refused");
    let line = error.to_string();
    assert!(!line.contains('\n') && !line.is_empty(), "one line: {line}");
    assert!(!line.contains("Error") && !line.contains("::"), "for people: {line}");
    error
}

#[test]
fn a_device_that_holds_no_volume_is_reported_as_such() {
    let mut noise = SparseImage::new(SIZE_BYTES);
    noise.write(0, &pattern(3, 4 << 20));
    for image in [SparseImage::new(SIZE_BYTES), noise, SparseImage::new(0), SparseImage::new(512)] {
        let error = refused(image);
        assert!(matches!(error, OpenError::NotFirnfs(NotFirnfs::NoSuperblock(_))), "{error:?}");
        assert!(error.to_string().starts_with("not a firnfs volume"), "{error}");
    }
}

#[test]
fn another_format_version_is_named_together_with_our_own() {
    let mut image = volume();
    let places = Superblock::places(SIZE_BYTES);
    places.into_iter().for_each(|at| image.write(at + 8, &(FORMAT_VERSION + 41).to_le_bytes()));
    let error = refused(image);
    assert!(
        matches!(error, OpenError::NotFirnfs(NotFirnfs::Version(v)) if v == FORMAT_VERSION + 41),
        "{error:?}"
    );
    assert!(error.to_string().contains("version 42"), "{error}");
}

/// A damaged version number is not another version: the other copies count.
#[test]
fn a_damaged_version_in_one_copy_is_read_from_another() {
    let mut image = volume();
    image.write(SUPERBLOCK_PRIMARY_AT + 8, &(FORMAT_VERSION + 4).to_le_bytes());
    assert!(open_image(image).is_ok());
}

/// A copy with a right checksum is believed: a later version may have rewritten a part of the volume.
#[test]
fn a_sealed_copy_of_another_version_is_refused_at_once() {
    let mut image = volume();
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    image.read(SUPERBLOCK_PRIMARY_AT, &mut bytes);
    bytes[8..12].copy_from_slice(&(FORMAT_VERSION + 41).to_le_bytes());
    bytes[12..16].fill(0);
    let crc = firnfs_format::crc32c(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    image.write(SUPERBLOCK_PRIMARY_AT, &bytes);
    assert!(matches!(refused(image), OpenError::NotFirnfs(NotFirnfs::Version(_))));
}

#[test]
fn an_image_that_was_cut_short_is_refused_with_both_sizes() {
    let whole = volume();
    for device_bytes in [SIZE_BYTES - 512, SIZE_BYTES / 2, 3 * MIB] {
        let mut bytes = vec![0; device_bytes as usize];
        whole.read(0, &mut bytes);
        let mut cut = SparseImage::new(device_bytes);
        cut.write(0, &bytes);
        let error = refused(cut);
        let expected = NotFirnfs::Truncated { volume_bytes: SIZE_BYTES, device_bytes };
        assert!(matches!(&error, OpenError::NotFirnfs(e) if *e == expected), "{error:?}");
        assert!(error.to_string().contains(&device_bytes.to_string()), "{error}");
    }
}

#[test]
fn with_both_checkpoints_damaged_the_volume_is_refused_and_one_is_enough() {
    let mut image = volume();
    image.write(CHECKPOINT_SLOTS_AT[0] + 100, &[0xff; 8]);
    let half = image.clone();
    image.write(CHECKPOINT_SLOTS_AT[1] + 100, &[0xff; 8]);
    let error = refused(image);
    let OpenError::Fs(FsError::Corrupt { what, at, .. }) = &error else { panic!("{error:?}") };
    assert_eq!((what.as_str(), at.as_str()), ("checkpoint", "both slots"));
    open_image(half).unwrap();
}

#[test]
fn a_lost_superblock_is_replaced_by_its_replicas() {
    let intact = volume();
    let last = SIZE_BYTES - 4096;
    let places = [SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_SECOND_AT, last];
    for survivor in 0..places.len() {
        let mut image = intact.clone();
        for (n, &at) in places.iter().enumerate() {
            if n != survivor {
                image.write(at, &[0; 4096]);
            }
        }
        let mounted = Mounted::new(Arc::new(MemDevice::from_image(image)), Options::default());
        let ino = mounted.find(InodeNo::ROOT, "file").unwrap();
        assert!(mounted.content(ino) == pattern(9, 100_000), "copy {survivor}");
    }
    let mut image = intact;
    for at in places {
        image.write(at, &[0; 4096]);
    }
    assert!(matches!(refused(image), OpenError::NotFirnfs(NotFirnfs::NoSuperblock(_))));
}

/// The clean checkpoint says that nothing follows it: the next mount would lose later changes.
#[test]
fn a_closed_volume_takes_no_changes_and_may_be_closed_again() {
    let device = Arc::new(MemDevice::new(SIZE_BYTES));
    make_volume(&*device, 256 * KIB);
    let mounted = Mounted::new(device.clone(), Options::default());
    let ino = mounted.create(InodeNo::ROOT, "file");
    mounted.write(ino, 0, &pattern(9, 100_000));
    mounted.volume.close().unwrap();

    let made = mounted.try_make(InodeNo::ROOT, "late", Kind::Regular);
    assert!(matches!(&made, Err(FsError::ReadOnly(why)) if why.contains("closed")), "{made:?}");
    let written = mounted.volume.write_all(ino, 0, b"late", false);
    assert!(matches!(&written, Err(FsError::ReadOnly(_))), "{written:?}");
    assert_eq!(mounted.read(ino, 0, 100_000), pattern(9, 100_000));
    mounted.volume.background().unwrap();
    mounted.volume.close().unwrap();

    let again = Mounted::new(device, Options::default());
    assert!(again.volume.run(|vfs, _| Ok(vfs.store().recovered().was_clean)).unwrap());
    assert_eq!(again.read(again.find(InodeNo::ROOT, "file").unwrap(), 0, 100_000), pattern(9, 100_000));
}
