//! What the image reader reports for an image that is whole, damaged, short, foreign or of another version.

use super::*;
use firnfs::lfs::{MkfsOptions, mkfs};
use firnfs_format::summary::EntryKind;
use firnfs_format::superblock::{FORMAT_VERSION, SUPERBLOCK_PRIMARY_AT};
use firnfs_format::{InodeNo, SegmentId, TimeNs};

const SIZE_BYTES: u64 = 64 << 20;

fn fresh() -> tempfile::NamedTempFile {
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "test".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(SIZE_BYTES).unwrap();
    for (at_bytes, bytes) in mkfs(&options).unwrap() {
        file.as_file().write_all_at(&bytes, at_bytes).unwrap();
    }
    file
}

fn refusal(file: &tempfile::NamedTempFile) -> String {
    let failure = Image::open(file.path()).unwrap_err();
    assert_eq!(failure.exit, Exit::NotAVolume);
    failure.to_string()
}

#[test]
fn the_first_segment_of_a_fresh_volume_lists_the_root_directory() {
    let file = fresh();
    let image = Image::open(file.path()).unwrap();
    let segment = image.segment(SegmentId(0)).unwrap();
    // The root directory; the inode map and the usage table are in the log of metadata.
    assert_eq!(segment.partials.len(), 1);
    assert_eq!(image.segment(SegmentId(3)).unwrap().partials.len(), 2);
    let partial = &segment.partials[0];
    assert!(partial.bad_blocks.is_empty());
    let is_root = |entry: &firnfs_format::summary::Entry| {
        entry.ino == InodeNo::ROOT && matches!(entry.kind, EntryKind::Inode { orphan: false })
    };
    assert!(partial.entries.iter().any(is_root));
    let sectors: u32 = segment.partials.iter().map(|partial| partial.summary.len_sectors).sum();
    assert_eq!(segment.end_sector, sectors);
    assert!(image.segment(SegmentId(1)).unwrap().partials.is_empty());
    assert_eq!(image.segment(SegmentId(10_000)).unwrap_err().exit, Exit::Usage);
}

#[test]
fn a_flipped_bit_in_a_stored_block_is_marked() {
    let file = fresh();
    let at_bytes = {
        let image = Image::open(file.path()).unwrap();
        let segment = image.segment(SegmentId(0)).unwrap();
        let stored = segment.partials[0].entries.iter().find(|entry| entry.ptr.is_stored()).unwrap();
        image.device_place(stored.ptr.addr)
    };
    let mut byte = [0];
    file.as_file().read_exact_at(&mut byte, at_bytes).unwrap();
    file.as_file().write_all_at(&[byte[0] ^ 1], at_bytes).unwrap();
    let image = Image::open(file.path()).unwrap();
    assert_eq!(image.segment(SegmentId(0)).unwrap().partials[0].bad_blocks.len(), 1);
}

#[test]
fn any_one_good_superblock_and_any_one_good_checkpoint_are_enough() {
    let file = fresh();
    let image = Image::open(file.path()).unwrap();
    let [primary, second, last] = Superblock::places(SIZE_BYTES);
    let slots = image.superblock.checkpoint_at_bytes;
    let destroy = |at_bytes: u64| file.as_file().write_all_at(&[0xff; 4096], at_bytes).unwrap();
    destroy(primary);
    destroy(second);
    destroy(slots[0]);
    let image = Image::open(file.path()).unwrap();
    assert_eq!(image.good_copies, [false, false, true]);
    image.checkpoint().unwrap();
    destroy(slots[1]);
    let image = Image::open(file.path()).unwrap();
    assert!(image.checkpoint().unwrap_err().to_string().contains("both checkpoints are bad"));
    destroy(last);
    assert!(refusal(&file).contains("not a firnfs volume"));
}

#[test]
fn each_way_not_to_be_a_volume_has_its_own_words() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    assert!(refusal(&empty).contains("is not a firnfs volume; make one with `firn mkfs`"));

    let cut = fresh();
    cut.as_file().set_len(SIZE_BYTES / 2).unwrap();
    assert!(refusal(&cut).contains("is truncated: the volume has 64 MiB, the file 32 MiB"));

    let newer = fresh();
    for at_bytes in Superblock::places(SIZE_BYTES) {
        newer.as_file().write_all_at(&(FORMAT_VERSION + 1).to_le_bytes(), at_bytes + 8).unwrap();
    }
    let words = refusal(&newer);
    assert!(words.contains(&format!("has format version {}", FORMAT_VERSION + 1)), "{words}");

    let torn = fresh();
    for at_bytes in Superblock::places(SIZE_BYTES) {
        torn.as_file().write_all_at(&[0xff; 64], at_bytes + 512).unwrap();
    }
    assert!(refusal(&torn).contains("all superblocks are bad"));
    assert_eq!(Superblock::places(SIZE_BYTES)[0], SUPERBLOCK_PRIMARY_AT);
}
