//! Salvage: superblocks, checkpoints and tables are lost, one after the other and all together.

use crate::fsck::doctor::Table;
use crate::fsck::fixture::{BLOCK, Fixture, SIZE_BYTES, Tree, clock, file, mount, pattern, walk};
use firnfs::check::salvage::Assumed;
use firnfs::inode::Kind;
use firnfs::store::Scope;
use firnfs_device::{Device, MemDevice};
use firnfs_format::InodeNo;
use firnfs_format::TimeNs;
use firnfs_format::superblock::{CHECKPOINT_SLOTS_AT, LOG_START_BYTES, Superblock};
use firnfs_manage::{put_together, write_salvaged};
use std::sync::Arc;

fn assumed() -> Assumed {
    Assumed { block_bytes: None, segment_bytes: None, hash_key: [77, 78], now: TimeNs(4_000_000_000) }
}

/// Salvages a volume and asserts that the result is intact; returns its tree, and the volume.
fn salvaged(fixture: &Fixture) -> (Tree, Fixture) {
    let before = fixture.read(0, SIZE_BYTES as usize);
    let together = put_together(&*fixture.device, &assumed(), &mut |_| {}).unwrap();
    let out: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES));
    let repaired =
        write_salvaged(&*fixture.device, together, &out, &clock(), &mut |_| true, &mut |_| {}).unwrap();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
    assert!(fixture.read(0, SIZE_BYTES as usize) == before, "the damaged volume is only read");
    let copy = Fixture { device: out, tree: Tree::new() };
    let tree = copy.with_volume(walk);
    (tree, copy)
}

/// Everything is there as before, and nothing else.
pub fn assert_whole(fixture: &Fixture) {
    let (tree, copy) = salvaged(fixture);
    for (path, seen) in &fixture.tree {
        assert_eq!(tree.get(path), Some(seen), "{path:?}");
    }
    let more: Vec<_> = tree.keys().filter(|path| !fixture.tree.contains_key(*path)).collect();
    assert!(more.is_empty(), "{more:?}");
    copy.with_volume(|volume| {
        let ino = file(volume, InodeNo::ROOT, "new", &pattern(8, 100_000));
        assert!(!fixture.tree.values().any(|seen| seen.ino == ino));
    });
    assert_eq!(copy.codes(), Default::default());
}

fn wipe(fixture: &Fixture, at_bytes: u64, len: usize) {
    fixture.write(at_bytes, &vec![0x5a; len]);
}

fn wipe_superblocks(fixture: &Fixture) {
    Superblock::places(SIZE_BYTES).into_iter().for_each(|at| wipe(fixture, at, 4096));
}

pub fn wipe_slots(fixture: &Fixture) {
    CHECKPOINT_SLOTS_AT.into_iter().for_each(|at| wipe(fixture, at, 64 << 10));
}

#[test]
fn without_checkpoints_everything_is_found_through_the_summaries() {
    let fixture = Fixture::new();
    wipe_slots(&fixture);
    assert_whole(&fixture);
}

#[test]
fn without_superblocks_the_geometry_is_found_as_well() {
    let fixture = Fixture::new();
    wipe_superblocks(&fixture);
    assert_whole(&fixture);
}

#[test]
fn without_superblocks_checkpoints_and_tables_everything_is_found() {
    let fixture = Fixture::new();
    let checkpoint = fixture.checkpoint();
    for ptr in [checkpoint.imap.ptr, checkpoint.usage.ptr] {
        fixture.damage(&ptr);
    }
    wipe(&fixture, 0, LOG_START_BYTES as usize);
    wipe_superblocks(&fixture);
    assert_whole(&fixture);
}

#[test]
fn deleted_files_stay_deleted_and_the_last_change_of_a_file_counts() {
    let mut fixture = Fixture::new();
    fixture.with_volume(|volume| {
        volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, b"small")).unwrap();
        let ino = fixture.ino("dir/blocks");
        volume.write(ino, 0, &pattern(20, BLOCK), false).unwrap();
        volume.sync(Scope::All).unwrap();
        volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, b"attributed")).unwrap();
    });
    fixture.tree = fixture.with_volume(walk);
    assert!(!fixture.tree.contains_key("small") && !fixture.tree.contains_key("attributed"));
    wipe(&fixture, 0, LOG_START_BYTES as usize);
    assert_whole(&fixture);
}

#[test]
fn synced_files_of_a_crashed_volume_are_found() {
    let fixture = Fixture::new();
    let volume = mount(&fixture.device);
    let ino = file(&volume, InodeNo::ROOT, "synced", &pattern(30, 5 * BLOCK));
    volume.sync(Scope::File(ino)).unwrap();
    drop(volume);
    wipe(&fixture, 0, LOG_START_BYTES as usize);
    let (tree, _) = salvaged(&fixture);
    assert!(tree["synced"].content == pattern(30, 5 * BLOCK));
    assert!(fixture.tree.iter().all(|(path, seen)| tree.get(path) == Some(seen)));
}

#[test]
fn of_a_device_cut_short_everything_before_the_cut_is_found() {
    let fixture = Fixture::new();
    let kept = SIZE_BYTES / 2;
    let cut = MemDevice::new(kept);
    let bytes = fixture.read(0, kept as usize);
    cut.write(0, Arc::new(firnfs_device::AlignedBuf::copy_of(&bytes))).unwrap();
    let together = put_together(&cut, &assumed(), &mut |_| {}).unwrap();
    let out: Arc<dyn Device> = Arc::new(MemDevice::new(kept));
    let repaired = write_salvaged(&cut, together, &out, &clock(), &mut |_| true, &mut |_| {}).unwrap();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
    let tree = Fixture { device: out, tree: Tree::new() }.with_volume(walk);
    // The log has not reached it yet.
    assert!(fixture.tree.iter().all(|(path, seen)| tree.get(path) == Some(seen)));
}

#[test]
fn a_damaged_block_of_the_inode_map_is_rebuilt_in_place() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.checkpoint().imap.ptr);
    fixture.is_repaired(&["table-block"], &[]);
    // Without any table there is nothing to find, not even the root.
    let fixture = Fixture::new();
    fixture.edit_table_root(Table::Imap, |root| root.ptr.crc ^= 1);
    fixture.is_repaired(&["table-block"], &[]);
}

#[test]
fn a_device_without_a_log_is_reported_as_such() {
    let empty = MemDevice::new(SIZE_BYTES);
    let error = put_together(&empty, &assumed(), &mut |_| {}).err().unwrap();
    assert!(error.to_string().contains("segment summaries"), "{error}");
}

#[test]
fn a_directory_that_lost_its_record_is_found_in_an_older_one_or_in_lost_and_found() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.record_ptr(fixture.ino("dir/sub/deep")));
    wipe(&fixture, 0, LOG_START_BYTES as usize);
    let (tree, _) = salvaged(&fixture);
    let content = pattern(3, 3 * BLOCK + 5);
    assert!(tree.values().any(|seen| seen.kind == Kind::Regular && seen.content == content));
}

#[test]
fn of_a_full_cleaned_volume_everything_is_found_and_deleted_files_only_in_lost_and_found() {
    use firnfs_torture::crash::campaign::prepare;
    use firnfs_torture::crash::scenario::Scenario;
    use firnfs_torture::crash::{Explorer, Firn, Limits, Seen};
    let (subject, seen) = (Firn::small(), Seen::new());
    for seed in 0..24 {
        let explorer = Explorer::new(&subject, Limits::default(), &seen);
        let scenario = if seed < 8 { Scenario::Full { seed } } else { Scenario::Long { seed, round: 1 } };
        let run = prepare(&explorer, &subject, &scenario).unwrap();
        let end = format!("{}:", run.history.events().len()).parse().unwrap();
        let image = run.history.image(&end).unwrap();
        let size_bytes = image.size_bytes();
        let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image.clone()));
        let expected = walk(&mount(&device));

        let source = MemDevice::from_image(image);
        let zeros = firnfs_device::AlignedBuf::zeroed(LOG_START_BYTES as usize);
        source.write(0, Arc::new(zeros)).unwrap();
        let last = Superblock::places(size_bytes)[2];
        source.write(last, Arc::new(firnfs_device::AlignedBuf::zeroed(4096))).unwrap();
        let together = put_together(&source, &assumed(), &mut |_| {}).unwrap();
        let out: Arc<dyn Device> = Arc::new(MemDevice::new(size_bytes));
        let repaired = write_salvaged(&source, together, &out, &clock(), &mut |_| true, &mut |_| {}).unwrap();
        assert!(repaired.after.is_clean(), "{scenario}: {:#?}", repaired.after.findings);
        let tree = walk(&mount(&out));
        for (path, seen) in &expected {
            let found = tree.get(path).unwrap_or_else(|| panic!("{scenario}: {path:?} is gone"));
            assert!((found.ino, &found.content) == (seen.ino, &seen.content), "{scenario}: {path:?}");
        }
        let more: Vec<&String> = tree.keys().filter(|path| !expected.contains_key(*path)).collect();
        assert!(more.iter().all(|path| path.starts_with("lost+found")), "{scenario}: {more:?}");
    }
}
