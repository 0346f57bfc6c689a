//! Random histories with quotas on, over the three stores: see `firnfs_torture::quotas`.

use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind as FileType;
use firnfs::store::Scope;
use firnfs::ufs::quota::Class;
use firnfs::vfs::{Caller, LimitChange, NewNode, SetAttr};
use firnfs_device::{Device, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_torture::histories::{History, Kind, OnFfs, OnLog};
use firnfs_torture::on_volume::OnVolume;
use firnfs_torture::quotas::{InMemory, Met, run};
use std::sync::Arc;

fn histories<K: Kind>(seeds: std::ops::Range<u64>, slack_bytes: impl Fn(u64) -> u64) -> Met {
    let mut met = Met::default();
    for seed in seeds {
        let history = History { seed, steps: 400, remount_every: 60 };
        match run::<K>(history, slack_bytes(seed)) {
            Ok(more) => met.add(&more),
            Err(why) => panic!("seed {seed}: {why}"),
        }
    }
    println!("{met:?}");
    met
}

/// A file that grows out of its inode declares its first block twice; attributes and content of a new file are not told apart.
#[test]
fn in_memory() {
    let met = histories::<InMemory>(0..40, |seed| 2 * [512, 4096][(seed % 2) as usize]);
    assert!(met.beyond_hard > 500 && met.past_grace > 50, "{met:?}");
}

/// Blocks that are overwritten are charged whole until they are written.
#[test]
fn on_the_log() {
    let met = histories::<OnLog>(0..20, |_| 4 * 4096);
    assert!(met.beyond_hard > 200 && met.past_grace > 20 && met.mounts[0] * met.mounts[1] > 0, "{met:?}");
}

#[test]
fn on_the_fast_file_system() {
    let met =
        histories::<OnFfs>(0..20, |seed| 2 * [4096, 8192, 4096, 16384, 4096, 65536][(seed / 3 % 6) as usize]);
    assert!(met.beyond_hard > 200 && met.past_grace > 20 && met.mounts[0] * met.mounts[1] > 0, "{met:?}");
}

/// The user of the files below.
const USER: u32 = 1000;

/// How a file grows whose last block waits to be written.
#[derive(Clone, Copy, Debug)]
enum Growth {
    Truncate(u64),
    Write(u64),
    Down,
}

fn make_file<K: Kind>(target: &OnVolume<K::Store>, len_bytes: u64) -> InodeNo
where
    K::Store: Engine,
{
    let caller = Caller { uid: USER, gid: 100, umask: 0 };
    let node = NewNode { kind: FileType::Regular, mode: 0o644, rdev: 0, target: b"" };
    let made = target.volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, b"f", node, false)).unwrap();
    target.volume.write_all(made.ino, 0, &vec![b'x'; len_bytes as usize], false).unwrap();
    made.ino
}

fn grow<K: Kind>(target: &OnVolume<K::Store>, ino: InodeNo, growth: Growth) -> Result<(), FsError>
where
    K::Store: Engine,
{
    let resize = |size_bytes| {
        let set = SetAttr { size_bytes: Some(size_bytes), ..SetAttr::default() };
        target.volume.run(|vfs, now| vfs.setattr(now, ino, set)).map(drop)
    };
    match growth {
        Growth::Truncate(size_bytes) => resize(size_bytes),
        Growth::Down => resize(50),
        Growth::Write(at_bytes) => target.volume.write_all(ino, at_bytes, b"y", false),
    }
}

/// What the user has, as it is kept; a count must agree.
fn usage_bytes<K: Kind>(target: &OnVolume<K::Store>) -> u64
where
    K::Store: Engine,
{
    let report = target.volume.run(|vfs, now| vfs.quota_report(now)).unwrap();
    let line = report.lines.iter().find(|line| (line.class, line.id) == (Class::User, USER));
    assert_eq!(target.volume.recount_quotas().unwrap(), Some(Vec::new()));
    line.map_or(0, |line| line.usage.bytes)
}

/// A user at the hard limit lets the end of a file grow: the call is refused, or usage stays within the limit for good.
fn grows_within_the_limit<K: Kind>(seed: u64, len_bytes: u64, growths: &[Growth]) -> bool
where
    K::Store: Engine,
{
    let history = History { seed, steps: 0, remount_every: 1 };
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(history.volume_bytes()));
    K::format(history, &*device).unwrap();
    let target = K::mount(history, &device, TimeNs(1)).unwrap();
    target.volume.turn_quotas(true).unwrap();
    let ino = make_file::<K>(&target, len_bytes);
    // Content in the inode is free in memory, and 0 is no limit.
    let limit_bytes = usage_bytes::<K>(&target).max(512);
    let limits = LimitChange { bytes_hard: Some(limit_bytes), ..LimitChange::default() };
    target.volume.run(|vfs, now| vfs.set_limits(now, Class::User, USER, limits)).unwrap();
    let mut was_refused = false;
    let case = format!("seed {seed}, {len_bytes} bytes, {growths:?}");
    for growth in growths {
        match grow::<K>(&target, ino, *growth) {
            Ok(()) => {}
            Err(FsError::OverQuota) => was_refused = true,
            Err(other) => panic!("{case}: {other}"),
        }
        assert!(usage_bytes::<K>(&target) <= limit_bytes, "{case}: after the call");
    }
    target.volume.sync(Scope::All).unwrap();
    let kept_bytes = usage_bytes::<K>(&target);
    assert!(kept_bytes <= limit_bytes, "{case}: {kept_bytes} of {limit_bytes} bytes after a sync");
    if K::MAY_CRASH {
        // Nobody unmounts it.
        let target = K::mount(history, &device, TimeNs(2)).unwrap();
        assert_eq!(K::audit(&target.volume).unwrap(), Vec::<String>::new(), "{case}");
        assert_eq!(usage_bytes::<K>(&target), kept_bytes, "{case}: after a crash");
    }
    was_refused
}

fn tails_grow_within_the_limit<K: Kind>()
where
    K::Store: Engine,
{
    use Growth::{Down, Truncate, Write};
    let mut refused = 0;
    for seed in 0..18 {
        for len_bytes in [100, 700, 5000] {
            for growths in [
                &[Truncate(4000)][..],
                &[Truncate(100_000)],
                &[Write(8_200)],
                &[Write(90_000)],
                &[Truncate(4096), Write(3_000)],
                &[Down, Truncate(2_000), Truncate(60_000)],
            ] {
                refused += u64::from(grows_within_the_limit::<K>(seed, len_bytes, growths));
            }
        }
    }
    println!("{refused} refused");
    assert!(refused > 18, "{refused} refused");
}

#[test]
fn a_last_block_that_waits_to_be_written_grows_within_the_limit_in_memory() {
    tails_grow_within_the_limit::<InMemory>();
}

#[test]
fn a_last_block_that_waits_to_be_written_grows_within_the_limit_on_the_log() {
    tails_grow_within_the_limit::<OnLog>();
}

#[test]
fn a_last_block_that_waits_to_be_written_grows_within_the_limit_on_the_fast_file_system() {
    tails_grow_within_the_limit::<OnFfs>();
}
