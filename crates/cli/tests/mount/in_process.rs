//! A mount that the test process itself serves, over a device of its choice.

use crate::common::eventually;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Device, MemDevice, SparseImage, SystemClock};
use firnfs_format::TimeNs;
use firnfs_fuse::{
    MountOptions, MountRequest, Session, SessionConfig, SessionError, Settings, TransportChoice, mount,
};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

pub const VOLUME_BYTES: u64 = 64 << 20;

/// An empty volume.
pub fn volume_image() -> SparseImage {
    let device = MemDevice::new(VOLUME_BYTES);
    let mkfs = MkfsOptions {
        size_bytes: VOLUME_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 1024,
        label: "in process".to_owned(),
        uuid: *b"a test's volume.",
        hash_key: [3, 4],
        now: TimeNs(SystemClock.now_ns()),
        root_owner: (0, 0),
    };
    firnfs_manage::format(&device, &mkfs).unwrap();
    device.image()
}

/// A mount served by a thread of this process. Only threads that do not serve it may touch it, or calls with a timeout
/// of their own.
pub struct Served {
    _directory: tempfile::TempDir,
    pub mnt: PathBuf,
    serving: Option<JoinHandle<Result<(), SessionError>>>,
}

impl Served {
    /// Mounts the volume on a device.
    pub fn start(device: Arc<dyn Device>, options: Options) -> Self {
        Self::start_over(TransportChoice::Auto, device, options)
    }

    /// The same with a choice of the transport.
    pub fn start_over(transport: TransportChoice, device: Arc<dyn Device>, options: Options) -> Self {
        let clock = Arc::new(SystemClock);
        let volume = firnfs_manage::open(device, options, AtimeMode::Relatime, clock).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mnt = directory.path().canonicalize().unwrap();
        let request = MountRequest {
            source: PathBuf::from("in-process"),
            mountpoint: mnt.clone(),
            options: MountOptions::default(),
        };
        let config =
            SessionConfig { transport, threads: 2, settings: Settings::default(), handle_signals: false };
        let session = Session::mount(Arc::new(volume), request, config).unwrap();
        let (ready, is_ready) = mpsc::channel();
        let serving = std::thread::spawn(move || session.serve(move |_| ready.send(()).unwrap()));
        is_ready.recv().unwrap();
        Self { _directory: directory, mnt, serving: Some(serving) }
    }

    /// Unmounts; returns the result of serving.
    pub fn end(mut self) -> Result<(), SessionError> {
        eventually("the mount is free", || mount::unmount(&self.mnt, false).is_ok());
        self.serving.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test has failed: leave no mount behind.
        if let Some(serving) = self.serving.take() {
            let _gone_already = mount::unmount(&self.mnt, true);
            let _outcome = serving.join();
        }
    }
}
