use super::*;
use crate::age::layout::Layout;
use crate::age::snapshot::{DIRECTORY, REGULAR, Snapshot};
use firnfs::engine::Engine;
use firnfs::ffs;
use firnfs::inode::Kind;
use firnfs::lfs;
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::MemDevice;
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, format_ffs, open, open_ffs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

fn make<S: Engine>(volume: &Volume<S>, dir: InodeNo, name: &str, kind: Kind, len_bytes: usize) -> InodeNo {
    let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let ino = volume.run(|vfs, now| vfs.make(now, caller, dir, name.as_bytes(), node, false)).unwrap().ino;
    volume.write_all(ino, 0, &vec![7; len_bytes], false).unwrap();
    ino
}

fn clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::at(1_000_000_000))
}

fn snapshot<S: Mapped>(volume: &Volume<S>) -> (Snapshot, [InodeNo; 3]) {
    let dir = make(volume, InodeNo::ROOT, "d", Kind::Directory, 0);
    let big = make(volume, dir, "big", Kind::Regular, 304 << 10);
    let small = make(volume, dir, "small", Kind::Regular, 9000);
    volume.sync(Scope::All).unwrap();
    volume.pump();
    (image(volume, &mut |_| Ok(())).unwrap(), [dir, big, small])
}

fn check(snapshot: &Snapshot, [dir, big, small]: [InodeNo; 3]) {
    let root = &snapshot.files[&InodeNo::ROOT.0];
    assert_eq!((root.kind, root.dir), (DIRECTORY, 0));
    assert_eq!((snapshot.files[&dir.0].kind, snapshot.files[&dir.0].dir), (DIRECTORY, InodeNo::ROOT.0));
    let file = &snapshot.files[&big.0];
    assert_eq!((file.kind, file.dir, file.size_bytes), (REGULAR, dir.0, 304 << 10));
    assert_eq!(file.extents.iter().map(|extent| extent.len_bytes).sum::<u64>(), 304 << 10);
    assert!(file.generation > 0 && snapshot.files[&small.0].generation > 0);
    assert_eq!(snapshot.files.len(), 4);
}

#[test]
fn a_snapshot_of_a_fast_file_system_has_its_files_groups_and_free_fragments() {
    let options = ffs::MkfsOptions { group_bytes: Some(4 << 20), ..ffs::MkfsOptions::with_size(32 << 20) };
    let device = Arc::new(MemDevice::new(options.size_bytes));
    format_ffs(&*device, &options).unwrap();
    let volume = open_ffs(device, ffs::Options::default(), AtimeMode::Noatime, clock()).unwrap();
    let (taken, inodes) = snapshot(&volume);
    check(&taken, inodes);
    let places = volume.run(|vfs, _| vfs.store_mut().places(inodes[1])).unwrap();
    assert_eq!(taken.files[&inodes[1].0].extents[0].disk_at_bytes, u64::from(places[0].addr) * 1024);
    // 304 KiB are 38 blocks; the one after the twelfth begins a new group.
    let score = Layout::of(&taken).by_size[&(512 << 10)].score;
    assert_eq!((score.optimal, score.blocks), (36, 37));
    // A block and a fragment of 1000 bytes: 9000 bytes take 9 fragments of 1 KiB.
    let small = &taken.files[&inodes[2].0];
    assert_eq!(small.extents.iter().map(|extent| extent.len_bytes).sum::<u64>(), 9 << 10);
    let free = taken.meta.free.unwrap();
    let summaries = volume.run_quietly(|vfs, _| Ok(vfs.store().summaries().to_vec())).unwrap();
    let frags: u64 = summaries.iter().map(|group| u64::from(group.free_frags)).sum();
    let blocks: u64 = summaries.iter().map(|group| u64::from(group.free_blocks)).sum();
    assert_eq!(free.partial_bytes, frags << 10);
    assert_eq!(free.free_bytes(), (frags << 10) + (blocks << 13));
    assert!(free.partial_bytes > 0);
}

#[test]
fn a_snapshot_of_a_log_has_its_files_and_its_clean_segments() {
    let options = lfs::MkfsOptions {
        size_bytes: 64 << 20,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 0,
        label: String::new(),
        uuid: *b"aging: snapshots",
        hash_key: [19, 97],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    let device = Arc::new(MemDevice::new(options.size_bytes));
    format(&*device, &options).unwrap();
    let volume = open(device, lfs::Options::default(), AtimeMode::Noatime, clock()).unwrap();
    let (taken, inodes) = snapshot(&volume);
    check(&taken, inodes);
    assert_eq!(Layout::of(&taken).seams.unwrap().seams, 0, "just written");
    let clean_bytes: u64 = taken.meta.free.unwrap().stretches.iter().map(|class| class.bytes).sum();
    let room = volume.run_quietly(|vfs, _| Ok(vfs.store().room())).unwrap();
    assert_eq!(clean_bytes, (room.ready_segments + room.waiting_segments) << 20);
}

#[test]
fn a_snapshot_of_a_directory_has_what_the_system_says() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("d")).unwrap();
    std::fs::write(root.path().join("d/a"), vec![1; 100_000]).unwrap();
    std::fs::hard_link(root.path().join("d/a"), root.path().join("b")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.path().join("link")).unwrap();
    let mut heard = 0;
    let taken = directory(root.path(), None, &mut |files| {
        heard = files;
        Ok(())
    })
    .unwrap();
    assert_eq!((taken.files.len(), heard), (4, 4), "a file with two names is one file");
    let file = taken.files.values().find(|entry| entry.kind == REGULAR).unwrap();
    assert_eq!(file.size_bytes, 100_000);
    assert!(file.ctime_ns > 1_600_000_000_000_000_000);
    let stored: u64 = file.extents.iter().map(|extent| extent.len_bytes).sum();
    // File systems without FIEMAP say nothing, and that is counted.
    assert!(stored >= 100_000 || (stored == 0 && taken.meta.unmapped_files == 1), "{stored}");
    assert!(directory(&root.path().join("b"), None, &mut |_| Ok(())).is_err());
}
