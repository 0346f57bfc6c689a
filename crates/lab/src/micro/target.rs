//! The file systems of the benchmark: any directory, or a firnfs mount that the benchmark makes itself
//! ([`mount`](super::mount)).
//!
//! A target knows how to make everything durable and how to make its caches cold.

use super::tool;
use crate::LabError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system to run tasks on.
pub trait Target {
    /// Short name for tables; unique within a run.
    fn name(&self) -> &str;

    /// An existing directory that the benchmark may fill.
    fn directory(&self) -> &Path;

    /// True if the whole file system is discarded after the run, so that nothing on it needs to be removed.
    fn is_scratch(&self) -> bool {
        false
    }

    /// How it is served, if a daemon does; as of its latest mount.
    fn served(&self) -> Option<&Served> {
        None
    }

    /// Gets ready for its turn.
    ///
    /// # Errors
    /// Errors of mounting.
    fn begin_turn(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    /// Gives up what another target needs for its own turn.
    ///
    /// # Errors
    /// Errors of unmounting.
    fn end_turn(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// The file system's error.
    fn sync(&self) -> Result<(), LabError>;

    /// Empties every cache between the reader and the disk: unmounts and mounts where that is possible, and drops the
    /// kernel's caches.
    ///
    /// # Errors
    /// Errors of unmounting, mounting or dropping caches.
    fn make_cold(&mut self) -> Result<(), LabError>;
}

/// How a daemon serves a mount, as the daemon itself says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// How requests come from the kernel, in the words of `firn stat`.
    pub transport: String,
    /// Whether the kernel collects writes.
    pub writeback: bool,
    /// Its process.
    pub pid: u32,
}

/// True if this process may drop the kernel's caches, which cold reads need.
#[must_use]
pub fn may_drop_caches() -> bool {
    std::fs::OpenOptions::new().write(true).open(DROP_CACHES).is_ok()
}

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

pub(super) fn drop_caches() -> Result<(), LabError> {
    std::fs::write(DROP_CACHES, "3").map_err(LabError::io("write to", Path::new(DROP_CACHES)))
}

/// A directory on any POSIX file system.
pub struct PosixDirectory {
    name: String,
    directory: PathBuf,
    remount: Option<Remount>,
}

/// How to mount a file system again that was found mounted.
struct Remount {
    mountpoint: PathBuf,
    source: String,
    fs_type: String,
    options: String,
    /// Held open: a loop device made by `mount -o loop` would disappear with the unmount.
    _device: std::fs::File,
}

impl PosixDirectory {
    /// Takes a directory in its present mount. `name` defaults to the type of its file system.
    ///
    /// # Errors
    /// It is not a directory, or findmnt(8) does not know its file system.
    pub fn new(name: Option<String>, directory: &Path) -> Result<Self, LabError> {
        let directory = directory.canonicalize().map_err(LabError::io("find", directory))?;
        if !directory.is_dir() {
            return Err(LabError::Setup(format!("{} is not a directory", directory.display())));
        }
        let field = |column: &str| findmnt(&directory, column);
        let fs_type = field("FSTYPE")?;
        let (mountpoint, source) = (PathBuf::from(field("TARGET")?), field("SOURCE")?);
        // Only a file system on a device survives an unmount, and the root cannot be unmounted. Without the right to
        // drop caches there are no cold reads, so nothing is unmounted.
        let remountable = may_drop_caches() && source.starts_with("/dev/") && mountpoint != Path::new("/");
        let remount = if remountable {
            let device = std::fs::File::open(&source).map_err(LabError::io("open", Path::new(&source)))?;
            let options = field("VFS-OPTIONS")?;
            Some(Remount { mountpoint, source, fs_type: fs_type.clone(), options, _device: device })
        } else {
            None
        };
        Ok(Self { name: name.unwrap_or(fs_type), directory, remount })
    }
}

fn findmnt(directory: &Path, column: &str) -> Result<String, LabError> {
    let failed = |reason: String| LabError::Tool { command: "findmnt".to_owned(), reason };
    let output = Command::new("findmnt")
        .args(["--noheadings", "--first-only", "--output", column, "--target"])
        .arg(directory)
        .output()
        .map_err(|e| failed(e.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text.is_empty() {
        return Err(failed(format!("it does not know what {} lies on", directory.display())));
    }
    Ok(text)
}

impl Target for PosixDirectory {
    fn name(&self) -> &str {
        &self.name
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn sync(&self) -> Result<(), LabError> {
        let directory =
            std::fs::File::open(&self.directory).map_err(LabError::io("open", &self.directory))?;
        rustix::fs::syncfs(&directory)
            .map_err(|e| LabError::io("sync", &self.directory)(std::io::Error::from(e)))
    }

    fn make_cold(&mut self) -> Result<(), LabError> {
        self.sync()?;
        let Some(remount) = &self.remount else { return drop_caches() };
        tool::run(Command::new("umount").arg(&remount.mountpoint))?;
        drop_caches()?;
        tool::run(
            Command::new("mount")
                .args(["-t", &remount.fs_type, "-o", &remount.options, &remount.source])
                .arg(&remount.mountpoint),
        )
    }
}
