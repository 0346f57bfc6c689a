//! `FileDevice` on a block device: needs root and losetup(8), and prints a message if it cannot run.

use firnfs_device::{AlignedBuf, Device, FailureKind, FileDevice, FileOptions, Lock, OpenError};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// A loop device, detached when dropped.
struct Loop {
    path: String,
    _dir: tempfile::TempDir,
}

impl Loop {
    fn attach(size_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(size_bytes).unwrap();
        let output =
            Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(image).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { path: String::from_utf8(output.stdout).unwrap().trim().to_owned(), _dir: dir }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").args(["--detach", &self.path]).status();
        assert!(std::thread::panicking() || detached.unwrap().success());
    }
}

#[test]
fn a_block_device_reports_its_size_keeps_writes_and_excludes_the_kernel() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: NOT TESTED: needs root");
        return;
    }
    let disk = Loop::attach(16 << 20);
    let path = Path::new(&disk.path);
    let device = FileDevice::open(path, &FileOptions::default()).unwrap();
    let geometry = device.geometry();
    assert_eq!(geometry.size_bytes, 16 << 20);
    assert!(geometry.logical_block_bytes >= 512);
    assert!(geometry.physical_block_bytes >= geometry.logical_block_bytes);
    assert_eq!(device.buffered_because(), None);

    device.write(1 << 20, Arc::new(AlignedBuf::copy_of(&[7; 8192]))).unwrap();
    device.flush().unwrap();
    assert_eq!(&*device.read(1 << 20, 8192).unwrap(), &[7; 8192]);
    let ranges: Vec<(u64, u32)> = (0..64).map(|i| ((1 << 20) - 65536 + i * 2048, 2048)).collect();
    for (i, data) in device.read_all(&ranges).into_iter().enumerate() {
        let byte = if (32..36).contains(&i) { 7 } else { 0 };
        assert_eq!(&*data.unwrap(), &[byte; 2048], "read {i}");
    }
    match device.discard(1 << 20, 4096) {
        Ok(()) => assert_eq!(&*device.read(1 << 20, 4096).unwrap(), &[0; 4096]),
        Err(e) => assert_eq!(e.kind, FailureKind::Unsupported, "{e}"),
    }

    assert!(matches!(FileDevice::open(path, &FileOptions::default()), Err(OpenError::InUse { .. })));
    let unlocked = FileOptions { lock: Lock::None, ..FileOptions::default() };
    let second = FileDevice::open(path, &unlocked).err().unwrap();
    assert_eq!(second, OpenError::Claimed(path.into()));
    drop(device);

    // Without the claim the kernel could take the device, but the lock still keeps a second daemon out.
    let unclaimed = FileOptions { hold_claim: false, ..FileOptions::default() };
    let device = FileDevice::open(path, &unclaimed).unwrap();
    assert!(matches!(FileDevice::open(path, &unclaimed), Err(OpenError::InUse { .. })));
    drop(device);
}
