//! A firnfs volume that the benchmark mounts itself, with the `firn` command, as a user would.
//!
//! Several columns may mount one image with different options ([`Backing::SharedImage`]): each is mounted during its own
//! turns only.

use super::target::{Served, Target, drop_caches};
use super::tool;
use crate::LabError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The volume that a [`FirnMount`] mounts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backing {
    /// An image file that `firn mkfs` has made.
    Image(PathBuf),
    /// The same, but other targets mount it too, in their turns.
    SharedImage(PathBuf),
    /// A memory volume of that many bytes: the null file system, whose cost is that of FUSE itself.
    Memory(u64),
}

/// Asks the daemon of a mount point how it serves.
pub type Inspect = fn(&Path) -> Result<Served, LabError>;

/// The `firn` command, and how to ask its daemons.
#[derive(Clone, Debug)]
pub struct Firn {
    /// The program.
    pub program: PathBuf,
    /// Asks a daemon.
    pub inspect: Inspect,
}

/// A firnfs volume that the `firn` command mounts for the duration of the benchmark, or of its turns.
pub struct FirnMount {
    name: String,
    firn: Firn,
    backing: Backing,
    mountpoint: PathBuf,
    options: Vec<String>,
    mounted: bool,
    served: Option<Served>,
}

impl FirnMount {
    /// Mounts `backing` on `mountpoint` (created if necessary); `options` go to `firn mount`. A shared image is unmounted
    /// again until its first turn.
    ///
    /// # Errors
    /// The error of `firn mount`.
    pub fn mount(
        name: &str,
        firn: &Firn,
        backing: Backing,
        mountpoint: &Path,
        options: &[String],
    ) -> Result<Self, LabError> {
        std::fs::create_dir_all(mountpoint).map_err(LabError::io("create", mountpoint))?;
        let mut target = Self {
            name: name.to_owned(),
            firn: firn.clone(),
            backing,
            mountpoint: mountpoint.to_owned(),
            options: options.to_owned(),
            mounted: false,
            served: None,
        };
        target.attach()?;
        target.end_turn()?;
        Ok(target)
    }

    fn attach(&mut self) -> Result<(), LabError> {
        let mut command = Command::new(&self.firn.program);
        command.arg("mount").args(&self.options);
        match &self.backing {
            Backing::Image(image) | Backing::SharedImage(image) => command.arg(image),
            Backing::Memory(bytes) => command.arg("--memory").arg(bytes.to_string()),
        };
        tool::run(command.arg(&self.mountpoint))?;
        self.mounted = true;
        let served = (self.firn.inspect)(&self.mountpoint)?;
        if let Some(before) = self.served.replace(served.clone())
            && before.transport != served.transport
        {
            return Err(LabError::Setup(format!(
                "{} was served through {} and now is through {}: its times cannot be one column",
                self.name, before.transport, served.transport
            )));
        }
        Ok(())
    }

    fn detach(&mut self) -> Result<(), LabError> {
        tool::run(Command::new(&self.firn.program).arg("umount").arg(&self.mountpoint))?;
        self.mounted = false;
        Ok(())
    }
}

impl Target for FirnMount {
    fn name(&self) -> &str {
        &self.name
    }

    fn directory(&self) -> &Path {
        &self.mountpoint
    }

    fn is_scratch(&self) -> bool {
        true
    }

    fn served(&self) -> Option<&Served> {
        self.served.as_ref()
    }

    fn begin_turn(&mut self) -> Result<(), LabError> {
        if self.mounted { Ok(()) } else { self.attach() }
    }

    fn end_turn(&mut self) -> Result<(), LabError> {
        if self.mounted && matches!(self.backing, Backing::SharedImage(_)) { self.detach() } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), LabError> {
        tool::run(Command::new(&self.firn.program).arg("sync").arg(&self.mountpoint))
    }

    fn make_cold(&mut self) -> Result<(), LabError> {
        // A memory volume would be lost after an unmount; the kernel's caches of it can be dropped nevertheless.
        if matches!(self.backing, Backing::Memory(_)) {
            return drop_caches();
        }
        self.detach()?;
        drop_caches()?;
        self.attach()
    }
}

impl Drop for FirnMount {
    fn drop(&mut self) {
        if self.mounted {
            // The error would be useless: the run is over or has failed already.
            let _ = self.detach();
        }
        let _ = std::fs::remove_dir(&self.mountpoint);
    }
}
