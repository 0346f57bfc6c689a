//! Errors that callers get when the device fails: a typed error with its place, EIO, at once; and no caller waits for
//! ever.

use crate::faults::ends;
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice};
use firnfs_format::InodeNo;
use firnfs_manage::{OpenError, open};
use firnfs_sim::{Effect, Fault, FaultyDisk, On, Trigger, VirtualClock};
use firnfs_torture::crash::{Firn, Subject};
use firnfs_torture::survey::{Aspect, Bounds, Survey, survey};
use firnfs_volume::Volume;
use std::sync::Arc;

type Disk = Arc<FaultyDisk<MemDevice>>;

fn disk() -> Disk {
    Arc::new(FaultyDisk::new(MemDevice::from_image(Firn::small().format()), 1))
}

fn try_mount(disk: &Disk, options: Options) -> Result<(Volume<Lfs>, Arc<VirtualClock>), OpenError> {
    let device: Arc<dyn Device> = disk.clone();
    let clock = Arc::new(VirtualClock::at(1 << 60));
    open(device, options, AtimeMode::Noatime, clock.clone()).map(|volume| (volume, clock))
}

fn mount(disk: &Disk) -> (Volume<Lfs>, Arc<VirtualClock>) {
    try_mount(disk, Firn::small().options).unwrap()
}

fn create(volume: &Volume<Lfs>, name: &str) -> Result<InodeNo, FsError> {
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let made = volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false));
    made.map(|attr| attr.ino)
}

fn put(volume: &Volume<Lfs>, name: &str, bytes: &[u8]) -> InodeNo {
    let ino = create(volume, name).unwrap();
    volume.write_all(ino, 0, bytes, false).unwrap();
    ino
}

fn get(volume: &Volume<Lfs>, ino: InodeNo, len: usize) -> Result<Vec<u8>, FsError> {
    let mut out = vec![0; len];
    volume.read(ino, 0, &mut out).map(|len| out[..len].to_vec())
}

fn find(volume: &Volume<Lfs>, name: &str) -> Result<InodeNo, FsError> {
    volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false)).map(|attr| attr.ino)
}

#[test]
fn an_fsync_whose_write_or_flush_fails_is_eio_with_the_place_and_the_volume_read_only() {
    for on in [On::Write, On::Flush] {
        let disk = disk();
        let (volume, _) = mount(&disk);
        let kept = put(&volume, "kept", &[1; 9000]);
        volume.sync(Scope::All).unwrap();
        let lost = put(&volume, "lost", &[2; 9000]);
        disk.arm(Fault::anywhere(on, Trigger::Once { after: 0 }, Effect::Fail));
        let error = volume.sync(Scope::File(lost)).unwrap_err();
        assert_eq!(error.errno_name(), "EIO");
        let said = error.to_string();
        let failure = &disk.injected()[0];
        let place = match on {
            On::Write => format!("write of {} bytes at byte {}", failure.len_bytes, failure.at_bytes),
            _ => "flush of memory".to_owned(),
        };
        assert!(said.contains("the log could not be written") && said.contains(&place), "{said}");
        assert!(volume.broken().unwrap().contains(&place));
        // From now on changes are refused with the reason.
        for refused in [create(&volume, "more").map(drop), volume.sync(Scope::All)] {
            assert!(matches!(&refused, Err(FsError::ReadOnly(why)) if why.contains(&place)), "{refused:?}");
        }
        assert!(matches!(volume.write_all(kept, 0, b"x", false), Err(FsError::ReadOnly(_))));
        // Reads still work, even of data that is lost on the device.
        assert_eq!(get(&volume, kept, 9000).unwrap(), [1; 9000]);
        assert_eq!(get(&volume, lost, 9000).unwrap(), [2; 9000]);
        // Unmounting does not report success.
        assert!(matches!(volume.close(), Err(FsError::ReadOnly(why)) if why.contains(&place)));
        drop(volume);
        let (volume, _) = mount(&disk);
        assert_eq!(get(&volume, find(&volume, "kept").unwrap(), 9000).unwrap(), [1; 9000]);
        volume.close().unwrap();
    }
}

#[test]
fn a_write_that_fails_in_the_background_is_known_at_once() {
    let disk = disk();
    let (volume, clock) = mount(&disk);
    put(&volume, "file", &[1; 9000]);
    disk.arm(Fault::anywhere(On::Write, Trigger::Always, Effect::Fail));
    assert_eq!(volume.broken(), None);
    clock.advance_ms(6_000);
    volume.background().unwrap();
    assert!(volume.broken().unwrap().contains("input/output error"));
    // The background worker is woken to report it, however long it was about to sleep.
    let volume = Arc::new(volume);
    let sleeper = volume.clone();
    ends("sleeping", move || sleeper.wait_for_work(3_600_000));
}

#[test]
fn a_read_that_fails_is_eio_with_the_place_of_that_file_alone_and_ends_with_its_cause() {
    let disk = disk();
    let (volume, _) = mount(&disk);
    put(&volume, "ill", &[1; 40_000]);
    volume.sync(Scope::All).unwrap();
    put(&volume, "well", &[2; 40_000]);
    volume.close().unwrap();
    drop(volume);
    let (volume, _) = mount(&disk);
    let (ill, well) = (find(&volume, "ill").unwrap(), find(&volume, "well").unwrap());
    let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ill)).unwrap();
    let at = volume.run(|vfs, _| Ok(vfs.store().geometry().device_bytes(blocks[3].ptr.addr))).unwrap();
    disk.spoil(at..at + 1);
    let error = get(&volume, ill, 40_000).unwrap_err();
    assert_eq!(error.errno_name(), "EIO");
    assert!(error.to_string().contains(&format!("unreadable sector at byte {at}")), "{error}");
    assert_eq!(get(&volume, well, 40_000).unwrap(), [2; 40_000]);
    // Only the block in question: the data before it can be read.
    assert_eq!(get(&volume, ill, 3 * 4096).unwrap(), [1; 3 * 4096]);
    // Overwriting it does not need its content, and nothing else was affected.
    volume.write_all(ill, 3 * 4096, &[3; 4096], false).unwrap();
    volume.sync(Scope::All).unwrap();
    let mut expected = vec![1; 40_000];
    expected[3 * 4096..4 * 4096].fill(3);
    assert_eq!(get(&volume, ill, 40_000).unwrap(), expected);
    assert_eq!(volume.broken(), None);
    volume.close().unwrap();
}

#[test]
fn whichever_read_of_a_mount_fails_it_mounts_as_it_was_or_says_io_error() {
    let disk = disk();
    let (volume, _) = mount(&disk);
    for n in 0..40 {
        put(&volume, &format!("f{n}"), &vec![n as u8 + 1; 3000 * n]);
    }
    volume.sync(Scope::All).unwrap();
    // Blocks of large files, so that roll-forward compares trees with those of the checkpoint.
    for n in 30..40 {
        let ino = find(&volume, &format!("f{n}")).unwrap();
        volume.write_all(ino, 60_000, &[n; 8192], false).unwrap();
        volume.sync(Scope::All).unwrap();
    }
    drop(volume);
    // A crash with a log to roll forward.
    let whole = survey(&mount_read_only(&disk).unwrap(), Bounds::default());
    // A read fails once; or that read and all after it fail; or one of its sectors fails for good.
    let once =
        mounts_with(&disk, &whole, |after| Fault::anywhere(On::Read, Trigger::Once { after }, Effect::Fail));
    let from =
        mounts_with(&disk, &whole, |after| Fault::anywhere(On::Read, Trigger::From { after }, Effect::Fail));
    assert!(once.places.len() > 5 && once.places.len() == from.places.len(), "{once:?}, {from:?}");
    // Most reads are tried again, or another copy is read.
    assert!(once.refused < once.places.len() / 4, "{once:?}");
    assert!(from.refused + 1 >= from.places.len(), "{from:?}");
    let mut refused_for_good = 0;
    for at in once.places {
        let place = Fault { on: On::Read, place: at..at + 1, trigger: Trigger::Always, effect: Effect::Fail };
        refused_for_good += u64::from(mounts_despite(&disk, &whole, place).1);
    }
    assert!(refused_for_good > 3, "{refused_for_good}");
}

/// How mounts reacted to faults of their reads.
#[derive(Debug, Default)]
struct Mounts {
    /// Where the first read began that failed, by mount, in bytes.
    places: Vec<u64>,
    /// Mounts that were refused.
    refused: usize,
}

/// Mounts once for each read that a mount makes, with a fault from that read on.
fn mounts_with(disk: &Disk, whole: &Survey, fault: impl Fn(u64) -> Fault) -> Mounts {
    let mut mounts = Mounts::default();
    for after in 0.. {
        let (first, is_refused) = mounts_despite(disk, whole, fault(after));
        let Some(first) = first else { break };
        mounts.places.push(first);
        mounts.refused += usize::from(is_refused);
    }
    mounts
}

/// Mounts with a fault: as it was, or refused for an I/O error. Returns where the fault happened first, and whether it was refused.
fn mounts_despite(disk: &Disk, whole: &Survey, fault: Fault) -> (Option<u64>, bool) {
    let seen = disk.injected().len();
    disk.arm(fault.clone());
    let mounted = mount_read_only(disk);
    let first = disk.injected().get(seen).map(|injected| injected.at_bytes);
    disk.clear();
    let is_refused = match mounted {
        Ok(volume) => {
            assert!(survey(&volume, Bounds::default()) == *whole, "{fault:?}");
            false
        }
        Err(error) => {
            assert!(error.to_string().contains("input/output error (injected)"), "{error}");
            true
        }
    };
    (first, is_refused)
}

fn mount_read_only(disk: &Disk) -> Result<Volume<Lfs>, OpenError> {
    let options = Options { read_only: true, ..Firn::small().options };
    try_mount(disk, options).map(|(volume, _)| volume)
}

#[test]
fn an_fsync_on_a_volume_mounted_read_only_succeeds() {
    let disk = disk();
    let (volume, _) = mount(&disk);
    let ino = put(&volume, "file", &[1; 9000]);
    volume.sync(Scope::All).unwrap();
    drop(volume);
    let volume = mount_read_only(&disk).unwrap();
    volume.sync(Scope::File(ino)).unwrap();
    volume.sync(Scope::All).unwrap();
    assert_eq!(volume.broken(), None);
    volume.close().unwrap();
}

#[test]
fn when_the_device_vanishes_under_many_threads_each_is_told_and_none_waits_for_ever() {
    for after in [0, 3, 20, 77] {
        let disk = disk();
        let (volume, _) = mount(&disk);
        let volume = Arc::new(volume);
        put(&volume, "first", &[7; 50_000]);
        volume.sync(Scope::All).unwrap();
        disk.arm(Fault::anywhere(On::Any, Trigger::Once { after }, Effect::Vanish));
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let volume = volume.clone();
                move || -> FsError {
                    for n in 0.. {
                        let step = || -> Result<(), FsError> {
                            let ino = create(&volume, &format!("w{worker}-{n}"))?;
                            volume.write_all(ino, 0, &vec![worker; 30_000], false)?;
                            volume.sync(Scope::File(ino))
                        };
                        if let Err(error) = step() {
                            return error;
                        }
                    }
                    unreachable!("the volume is full before that")
                }
            })
            .collect();
        let helper = volume.clone();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let background = std::thread::spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::SeqCst) {
                let sleep_ms = helper.background().unwrap_or(1000);
                helper.wait_for_work(sleep_ms.min(50));
            }
        });
        let errors = ends("the workers", move || {
            let threads: Vec<_> = workers.into_iter().map(std::thread::spawn).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        background.join().unwrap();
        for error in errors {
            assert!(matches!(error, FsError::Io(_) | FsError::ReadOnly(_)), "{error:?}");
            assert!(error.to_string().contains("no such device (injected)"), "{error}");
        }
        assert!(volume.close().is_err());
        drop(volume);
        disk.clear();
        let (volume, _) = mount(&disk);
        assert_eq!(get(&volume, find(&volume, "first").unwrap(), 50_000).unwrap(), [7; 50_000]);
        let found = survey(&volume, Bounds::default());
        assert_eq!(found.errors().count(), 0);
        // All files of each worker but the last were synced: they are whole.
        let names: Vec<_> = found.paths.iter().filter(|(path, _)| path.starts_with(b"w")).collect();
        for worker in 0..4u8 {
            let mine = |path: &[u8]| path.starts_with(format!("w{worker}-").as_bytes());
            let count = names.iter().filter(|(path, _)| mine(path)).count();
            for n in 0..count.saturating_sub(1) {
                let ino = found.paths[format!("w{worker}-{n}").as_bytes()];
                let blocks =
                    found.inodes[&ino].iter().filter(|(aspect, _)| matches!(aspect, Aspect::Block(_)));
                let bytes: Vec<u8> = blocks.flat_map(|(_, answer)| answer.clone().unwrap()).collect();
                assert!(bytes == vec![worker; 30_000], "file {n} of worker {worker}");
            }
        }
    }
}
