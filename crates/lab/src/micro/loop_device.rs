//! `LoopDevice`: a block device over an image file, past the page cache; detached at the end.
//!
//! Callers: `bandwidth`, and the comparison of aged file systems.

use super::tool;
use crate::LabError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// See the module's head.
pub(crate) struct LoopDevice(PathBuf);

impl LoopDevice {
    /// # Errors
    /// losetup(8) failed: it needs root.
    pub fn over(image: &Path) -> Result<Self, LabError> {
        let mut losetup = Command::new("losetup");
        let name = tool::answer(losetup.args(["--find", "--show", "--direct-io=on"]).arg(image))?;
        Ok(Self(PathBuf::from(name.trim())))
    }

    /// Its special file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Bytes that were written to it since it was attached, as the kernel counts them (field 7 of `stat` in sysfs, sectors).
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn written_bytes(&self) -> Result<u64, LabError> {
        let name = self.0.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(name).join("stat");
        let text = std::fs::read_to_string(&path).map_err(LabError::io("read", &path))?;
        let sectors = text.split_whitespace().nth(6).and_then(|field| field.parse::<u64>().ok());
        let sectors = sectors.ok_or_else(|| LabError::Setup(format!("{} has no field 7", path.display())))?;
        Ok(sectors * 512)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // The error would be useless: the run is over or has failed already.
        let _ = tool::run(Command::new("losetup").arg("--detach").arg(&self.0));
    }
}
