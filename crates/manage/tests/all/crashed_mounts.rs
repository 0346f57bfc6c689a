//! Regression: a volume whose mounts all crash soon after a sync.

use firnfs::check::From;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice, SparseImage};
use firnfs_format::checkpoint::MAX_SPANS;
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{check, format, open};
use firnfs_sim::VirtualClock;
use firnfs_sim::crash::{CrashDisk, DiscardMode, Fate, Replay};
use firnfs_volume::Volume;
use std::sync::Arc;

const SIZE_BYTES: u64 = 64 << 20;

#[test]
fn any_number_of_mounts_may_crash_one_after_the_other() {
    crash_again_and_again(false);
}

/// A mount whose background thread is killed before it runs writes no checkpoint of its own.
#[test]
fn any_number_of_mounts_may_be_killed_before_their_background_work() {
    crash_again_and_again(true);
}

/// Machines that restart again and again, each killed in the checkpoint that a mount begins with after many crashes: the
/// checkpoint's blocks are in the log, but its slot is not written.
#[test]
fn any_number_of_mounts_may_be_killed_in_the_checkpoint_that_they_begin_with() {
    let device = empty_volume();
    let mut files = 0;
    while killed_before_its_slot(device.image()).is_none() {
        let volume = mount(device.clone());
        volume.wait_for_work(0);
        make_file(&volume, &format!("file {files}"));
        files += 1;
        assert!(files < MAX_SPANS);
    }
    let mut image = device.image();
    for round in 0..3 * MAX_SPANS {
        image = killed_before_its_slot(image).unwrap_or_else(|| panic!("round {round}: no checkpoint"));
    }
    let device = Arc::new(MemDevice::from_image(image));
    let volume = mount(device.clone());
    for n in 0..files {
        let name = format!("file {n}");
        volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false)).unwrap();
    }
    volume.close().unwrap();
    let report = check(&*device, From::Newest, &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Mounts a volume; returns the medium when the third checkpoint is ready for its slot: the first two only record the mount.
fn killed_before_its_slot(image: SparseImage) -> Option<SparseImage> {
    let disk = Arc::new(CrashDisk::new(image, 4096));
    let volume = mount(disk.clone());
    let slots = volume.run(|vfs, _| Ok(vfs.store().superblock().checkpoint_at_bytes)).unwrap();
    let history = disk.history();
    let to_slots = history.items().iter().filter(|item| slots.contains(&item.at_bytes));
    let cut = to_slots.map(|item| item.submitted_at).nth(2)?;
    let mut replay = Replay::new(&history, DiscardMode::Old);
    replay.seek(cut);
    let fates = vec![Fate::Lands; replay.volatile().len()];
    Some(replay.image_of(&fates))
}

fn empty_volume() -> Arc<MemDevice> {
    let device = Arc::new(MemDevice::new(SIZE_BYTES));
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: String::new(),
        uuid: [9; 16],
        hash_key: [3, 4],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    format(&*device, &options).unwrap();
    device
}

fn mount(device: Arc<dyn Device>) -> Volume<Lfs> {
    let clock = Arc::new(VirtualClock::at(0));
    open(device, Options::default(), AtimeMode::Noatime, clock).unwrap_or_else(|error| panic!("{error}"))
}

fn make_file(volume: &Volume<Lfs>, name: &str) {
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false)).unwrap();
    volume.sync(Scope::All).unwrap();
}

fn crash_again_and_again(before_background_work: bool) {
    let device = empty_volume();
    for round in 0..3 * MAX_SPANS {
        let volume = mount(device.clone());
        if before_background_work {
            volume.wait_for_work(0);
        }
        for before in 0..round {
            let name = format!("file {before}");
            volume
                .run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false))
                .unwrap_or_else(|error| panic!("mount {round}, {name}: {error}"));
        }
        make_file(&volume, &format!("file {round}"));
    }
}
