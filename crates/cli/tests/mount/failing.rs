//! A device that fails under a real mount: which errors the kernel reports to programs, and what the end of the
//! mount reports.

use crate::common::{can_mount, eventually};
use crate::in_process::{Served, volume_image};
use firnfs::lfs::Options;
use firnfs_device::MemDevice;
use firnfs_fuse::SessionError;
use firnfs_sim::{Effect, Fault, FaultyDisk, On, Trigger};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::Arc;

/// Nothing is written except on fsync, however slow the machine is.
fn options() -> Options {
    Options { commit_interval_ms: 3_600_000, checkpoint_interval_ms: 3_600_000, ..Options::default() }
}

fn errno(result: io::Result<()>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

#[test]
fn fsync_on_a_failing_device_is_eio_then_the_mount_is_read_only_and_its_end_says_why() {
    if !can_mount() {
        return;
    }
    for effect in [Effect::Fail, Effect::Vanish] {
        let disk = Arc::new(FaultyDisk::new(MemDevice::from_image(volume_image()), 1));
        let served = Served::start(disk.clone(), options());
        fs::write(served.mnt.join("kept"), vec![1; 100_000]).unwrap();
        File::open(served.mnt.join("kept")).unwrap().sync_all().unwrap();
        let mut file = File::create(served.mnt.join("file")).unwrap();
        file.write_all(&[2; 50_000]).unwrap();
        disk.arm(Fault::anywhere(On::Write, Trigger::From { after: 0 }, effect));
        assert_eq!(errno(file.sync_all()), Some(Errno::IO), "{effect:?}");
        // From then on all changes are refused, and the existing data can be read.
        assert_eq!(errno(fs::write(served.mnt.join("more"), "x")), Some(Errno::ROFS), "{effect:?}");
        assert_eq!(errno(file.sync_all()), Some(Errno::ROFS), "{effect:?}");
        assert!(fs::read(served.mnt.join("kept")).unwrap() == vec![1; 100_000]);
        drop(file);
        let ended = served.end();
        let said = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(matches!(ended, Err(SessionError::Close(_))), "{ended:?}");
        assert!(
            said.contains("the log could not be written: write of") && said.contains("(injected)"),
            "{said}"
        );
        // On the repaired device everything that was synced is there.
        disk.clear();
        let served = Served::start(disk, options());
        assert!(fs::read(served.mnt.join("kept")).unwrap() == vec![1; 100_000]);
        served.end().unwrap();
    }
}

#[test]
fn a_read_that_fails_is_eio_for_that_file_alone() {
    if !can_mount() {
        return;
    }
    let disk = Arc::new(FaultyDisk::new(MemDevice::from_image(volume_image()), 1));
    let served = Served::start(disk.clone(), options());
    fs::write(served.mnt.join("ill"), vec![1; 300_000]).unwrap();
    fs::write(served.mnt.join("well"), vec![2; 300_000]).unwrap();
    served.end().unwrap();
    // Cold: no content is in memory.
    let served = Served::start(disk.clone(), options());
    assert!(fs::read(served.mnt.join("well")).unwrap() == vec![2; 300_000]);
    disk.arm(Fault::anywhere(On::Read, Trigger::Always, Effect::Fail));
    assert_eq!(errno(fs::read(served.mnt.join("ill")).map(drop)), Some(Errno::IO));
    disk.clear();
    eventually("the file can be read again", || {
        fs::read(served.mnt.join("ill")).is_ok_and(|bytes| bytes == vec![1; 300_000])
    });
    fs::write(served.mnt.join("new"), "written").unwrap();
    served.end().unwrap();
}
