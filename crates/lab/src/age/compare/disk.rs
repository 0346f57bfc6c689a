//! A file system of any kind on a disk of its own: an image file that was written through once, behind a loop device with direct
//! I/O.
//!
//! Dropping it undoes everything: unmounts, detaches, removes. Caller: `compare`.

use crate::error::LabError;
use crate::micro::library::preallocate;
use crate::micro::loop_device::LoopDevice;
use crate::micro::mount::{Backing, Firn, FirnMount};
use crate::micro::programs::is_there;
use crate::micro::stop::Stop;
use crate::micro::target::{PosixDirectory, Target};
use crate::micro::tool;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system that can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The log.
    Firnfs,
    /// Linux's ext4.
    Ext4,
    /// Linux's XFS.
    Xfs,
    /// Linux's btrfs.
    Btrfs,
    /// The Fast File System of firnfs.
    Ffs,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 5] = [Self::Firnfs, Self::Ext4, Self::Xfs, Self::Btrfs, Self::Ffs];

    /// Its name, also that of the kernel's type, or of the volume's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Firnfs => "firnfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Ffs => "ffs",
        }
    }

    /// A daemon of firnfs serves it.
    fn is_ours(self) -> bool {
        matches!(self, Self::Firnfs | Self::Ffs)
    }

    /// Why it cannot be compared here, and what would help.
    #[must_use]
    pub fn missing_because(self) -> Option<String> {
        if self.is_ours() {
            return None;
        }
        let program = format!("mkfs.{}", self.name());
        if !is_there(&program) {
            let package = match self {
                Self::Btrfs => "btrfs-progs",
                Self::Xfs => "xfsprogs",
                _ => "e2fsprogs",
            };
            return Some(format!("no {program} here: install {package}"));
        }
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let is_known = known.split_whitespace().any(|word| word == self.name());
        (!is_known).then(|| format!("this kernel has no {0}: modprobe {0} may help", self.name()))
    }

    /// Makes an empty one on a device. Nothing is discarded: the device's blocks were written, and stay so.
    fn mkfs(self, firn: &Firn, device: &Path) -> Result<(), LabError> {
        let mut command = match self {
            Self::Firnfs | Self::Ffs => Command::new(&firn.program),
            _ => Command::new(format!("mkfs.{}", self.name())),
        };
        match self {
            Self::Firnfs => command.args(["mkfs", "--force"]),
            Self::Ffs => command.args(["mkfs", "--force", "--type", "ffs"]),
            Self::Ext4 => {
                command.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"])
            }
            Self::Xfs | Self::Btrfs => command.args(["-q", "-f", "-K"]),
        };
        tool::run(command.arg(device))
    }
}

/// Where disks are made, and how firnfs is mounted.
pub(super) struct Place<'a> {
    /// Holds images and mount points.
    pub directory: &'a Path,
    /// Bytes of each disk.
    pub size_bytes: u64,
    pub firn: &'a Firn,
    /// Options of `firn mount`.
    pub options: &'a [String],
    pub stop: &'a Stop,
}

/// A disk for one file system after the other.
pub(super) struct Blank {
    device: LoopDevice,
    image: Image,
}

/// Removed at the end.
struct Image(PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        // The error would be useless: the run is over or has failed already.
        let _ = fs::remove_file(&self.0);
    }
}

/// A kernel's mount, unmounted at the end.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = tool::run(Command::new("umount").arg(&self.0));
        let _ = fs::remove_dir(&self.0);
    }
}

/// A mounted file system.
pub(super) struct Disk<'a> {
    // In this order: a daemon that serves it ends, then the kernel unmounts.
    target: Box<dyn Target>,
    _mounted: Option<Mounted>,
    blank: &'a Blank,
}

impl Blank {
    /// Writes an image through and attaches it.
    ///
    /// # Errors
    /// Errors of writing, or of losetup(8); `Interrupted`.
    pub fn make(place: &Place<'_>, name: &str) -> Result<Self, LabError> {
        let image = Image(place.directory.join(format!("{name}.img")));
        preallocate(&image.0, place.size_bytes, place.stop)?;
        Ok(Self { device: LoopDevice::over(&image.0)?, image })
    }

    /// Makes an empty file system of a kind on it and mounts that, until it is dropped.
    ///
    /// # Errors
    /// mkfs or mount failed.
    pub fn with(&self, kind: Kind, place: &Place<'_>) -> Result<Disk<'_>, LabError> {
        let device = self.device.path();
        kind.mkfs(place.firn, device)?;
        let mountpoint = self.image.0.with_extension("mnt");
        if kind.is_ours() {
            let backing = Backing::Image(device.to_owned());
            let target = FirnMount::mount(kind.name(), place.firn, backing, &mountpoint, place.options)?;
            return Ok(Disk { target: Box::new(target), _mounted: None, blank: self });
        }
        fs::create_dir(&mountpoint).map_err(LabError::io("make", &mountpoint))?;
        let mut mount = Command::new("mount");
        let mounted = tool::run(mount.args(["-t", kind.name()]).arg(device).arg(&mountpoint));
        if let Err(error) = mounted {
            let _ = fs::remove_dir(&mountpoint);
            return Err(error);
        }
        let mounted = Mounted(mountpoint);
        let target = PosixDirectory::new(Some(kind.name().to_owned()), &mounted.0)?;
        Ok(Disk { target: Box::new(target), _mounted: Some(mounted), blank: self })
    }
}

impl Disk<'_> {
    /// Its root.
    pub fn directory(&self) -> &Path {
        self.target.directory()
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As the file system says.
    pub fn sync(&self) -> Result<(), LabError> {
        self.target.sync()
    }

    /// Unmounts it, empties all caches, and mounts it again.
    ///
    /// # Errors
    /// One of that failed.
    pub fn make_cold(&mut self) -> Result<(), LabError> {
        self.target.make_cold()
    }

    /// Bytes that were written to the disk since it was made.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn written_bytes(&self) -> Result<u64, LabError> {
        self.blank.device.written_bytes()
    }
}
