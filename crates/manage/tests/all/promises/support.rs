//! Helpers that the tests of the promises share: a volume on a memory device with a clock that they move, and POSIX
//! calls on it in short form. Every call panics on an error: a test that expects one uses the `try_` form.

use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, Lfs, MkfsOptions, Options};
use firnfs::store::{Scope, Space};
use firnfs::vfs::{AtimeMode, Attr, Caller, NewNode, RenameMode, SetAttr};
use firnfs_device::Device;
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
pub const TIB: u64 = 1 << 40;

const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };
/// Time of mkfs.
pub const START_NS: i64 = 1_000_000_000;

/// An open volume and the clock that it reads.
pub struct Mounted {
    pub volume: Volume<Lfs>,
    pub clock: Arc<VirtualClock>,
}

pub fn mkfs_options(size_bytes: u64, segment_bytes: u64) -> MkfsOptions {
    MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: u32::try_from(segment_bytes).unwrap(),
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "promises".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(START_NS),
        root_owner: (0, 0),
    }
}

/// Makes a volume over the whole device.
pub fn make_volume(device: &dyn Device, segment_bytes: u64) {
    format(device, &mkfs_options(device.geometry().size_bytes, segment_bytes)).unwrap();
}

impl Mounted {
    pub fn new(device: Arc<dyn Device>, options: Options) -> Self {
        let clock = Arc::new(VirtualClock::at(2 * START_NS));
        let volume = open(device, options, AtimeMode::Noatime, clock.clone()).unwrap();
        Self { volume, clock }
    }

    pub fn try_make(&self, parent: InodeNo, name: &str, kind: Kind) -> Result<InodeNo, FsError> {
        let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
        let made = self.volume.run(|vfs, now| vfs.make(now, CALLER, parent, name.as_bytes(), node, false));
        made.map(|attr| attr.ino)
    }

    pub fn create(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.try_make(parent, name, Kind::Regular).unwrap()
    }

    pub fn find(&self, parent: InodeNo, name: &str) -> Result<InodeNo, FsError> {
        self.volume.run(|vfs, now| vfs.lookup(now, parent, name.as_bytes(), false)).map(|attr| attr.ino)
    }

    pub fn unlink(&self, parent: InodeNo, name: &str) {
        self.volume.run(|vfs, now| vfs.unlink(now, parent, name.as_bytes())).unwrap();
    }

    /// Gives a file of a directory another name there.
    pub fn rename(&self, dir: InodeNo, from: &str, to: &str) {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        self.volume.run(|vfs, now| vfs.rename(now, (dir, from), (dir, to), RenameMode::NoReplace)).unwrap();
    }

    pub fn attr(&self, ino: InodeNo) -> Attr {
        self.volume.run(|vfs, _| vfs.getattr(ino)).unwrap()
    }

    pub fn write(&self, ino: InodeNo, at_bytes: u64, bytes: &[u8]) {
        self.volume.write(ino, at_bytes, bytes, false).unwrap();
    }

    pub fn truncate(&self, ino: InodeNo, size_bytes: u64) {
        let set = SetAttr { size_bytes: Some(size_bytes), ..SetAttr::default() };
        self.volume.run(|vfs, now| vfs.setattr(now, ino, set)).unwrap();
    }

    /// Exactly that many bytes, or fewer at the end of the file.
    pub fn read(&self, ino: InodeNo, at_bytes: u64, len_bytes: usize) -> Vec<u8> {
        let mut out = vec![0; len_bytes];
        let mut done = 0;
        while done < out.len() {
            match self.volume.read(ino, at_bytes + done as u64, &mut out[done..]).unwrap() {
                0 => break,
                len => done += len,
            }
        }
        out.truncate(done);
        out
    }

    pub fn content(&self, ino: InodeNo) -> Vec<u8> {
        self.read(ino, 0, self.attr(ino).size_bytes as usize)
    }

    pub fn sync(&self) {
        self.volume.sync(Scope::All).unwrap();
    }

    /// Lets time pass, and does the background work that falls due.
    pub fn idle_ms(&self, ms: i64) {
        self.clock.advance_ms(ms);
        self.volume.background().unwrap();
    }

    pub fn close(self) {
        self.volume.close().unwrap();
    }

    pub fn space(&self) -> Space {
        self.volume.run(|vfs, _| Ok(vfs.statfs())).unwrap()
    }

    pub fn counters(&self) -> Counters {
        self.volume.run(|vfs, _| Ok(*vfs.store().counters())).unwrap()
    }
}

/// Bytes that are unique to this seed; none of them is zero, so that they differ from holes.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8 | 1
        })
        .collect()
}
