//! Regression: a volume whose mounts all crash soon after a sync.

use firnfs::inode::Kind;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice};
use firnfs_format::checkpoint::MAX_SPANS;
use firnfs_format::{InodeNo, TimeNs};
use firnfs_sim::VirtualClock;
use firnfs_volume::{format, open};
use std::sync::Arc;

const SIZE_BYTES: u64 = 64 << 20;

#[test]
fn any_number_of_mounts_may_crash_one_after_the_other() {
    crash_again_and_again(false);
}

/// A mount with a thread for background work that is killed before that thread runs writes no checkpoint of its own.
#[test]
fn any_number_of_mounts_may_be_killed_before_their_background_work() {
    crash_again_and_again(true);
}

fn crash_again_and_again(before_background_work: bool) {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES));
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
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    for mount in 0..3 * MAX_SPANS {
        let clock = Arc::new(VirtualClock::at(0));
        let volume = open(device.clone(), Options::default(), AtimeMode::Noatime, clock)
            .unwrap_or_else(|error| panic!("mount {mount}: {error}"));
        if before_background_work {
            volume.wait_for_work(0);
        }
        for before in 0..mount {
            let name = format!("file {before}");
            volume
                .run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false))
                .unwrap_or_else(|error| panic!("mount {mount}, {name}: {error}"));
        }
        let name = format!("file {mount}");
        volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false)).unwrap();
        volume.sync(Scope::All).unwrap();
    }
}
