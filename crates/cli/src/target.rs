//! Finds the volume that a command line names: any path on a mount, an image file, or a block device.
//!
//! Commands always ask the daemon of a mounted volume, and never read the device themselves: the device may be older
//! than the daemon's state. Callers: all commands that take a mount or an image.

use crate::failure::{Done, Exit, Failure};
use firnfs_fuse::mount::table::{self, Mount};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where a volume is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// Served by a daemon.
    Mounted(Mount),
    /// An image file or block device that no mount of this machine uses.
    Image(PathBuf),
}

/// Resolves a path given on the command line.
///
/// # Errors
/// The path does not exist, cannot be examined, or is neither on a firnfs mount nor an image nor a block device.
pub fn resolve(path: &Path) -> Done<Target> {
    let mountinfo_failed =
        |e: std::io::Error| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e);
    if let Some(mount) = table::mount_of(path).map_err(mountinfo_failed)? {
        return Ok(Target::Mounted(mount));
    }
    let meta = std::fs::metadata(path).map_err(|e| Failure::io("cannot open", path, &e))?;
    let file_type = meta.file_type();
    if file_type.is_dir() {
        return Err(Failure::new(Exit::NotAVolume, format!("{} is not on a firnfs mount", path.display()))
            .advise("mount the volume first, or name its image file"));
    }
    if !file_type.is_file() && !file_type.is_block_device() {
        return Err(Failure::new(
            Exit::NotAVolume,
            format!("{} is neither a file nor a block device", path.display()),
        )
        .advise("name a path on a mount, an image file or a block device"));
    }
    match mount_of_image(path).map_err(mountinfo_failed)? {
        Some(mount) => Ok(Target::Mounted(mount)),
        None => Ok(Target::Image(path.to_owned())),
    }
}

/// Has the kernel hand the daemon what it still holds of what programs wrote: through mappings, or with `--writeback`. Commands that promise
/// to keep everything that was written begin with it.
///
/// # Errors
/// The daemon could not take it, or the mountpoint cannot be opened.
pub fn write_back(mount: &Mount) -> Done {
    firnfs_fuse::mount::write_back(mount).map_err(|errno| {
        Failure::io("cannot write back what the kernel has cached of", &mount.mountpoint, &errno.into())
    })
}

/// The firnfs mount that serves this image or device, if there is one.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn mount_of_image(image: &Path) -> std::io::Result<Option<Mount>> {
    let wanted = faces(image);
    Ok(table::firnfs_mounts()?
        .into_iter()
        .rev()
        .find(|mount| faces(&mount.source).iter().any(|a| wanted.iter().any(|b| same_object(a, b)))))
}

/// The files that a path stands for: itself and, for a loop device, the image behind it.
fn faces(path: &Path) -> Vec<std::fs::Metadata> {
    let paths = [Some(path.to_owned()), backing_file(path)];
    paths.into_iter().flatten().filter_map(|path| std::fs::metadata(path).ok()).collect()
}

fn same_object(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    if a.file_type().is_block_device() && b.file_type().is_block_device() {
        a.rdev() == b.rdev()
    } else {
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
}

/// The image behind a loop device; any other source is itself.
fn backing_file(source: &Path) -> Option<PathBuf> {
    let name = source.file_name()?.to_str()?;
    let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
    match std::fs::read_to_string(backing) {
        Ok(text) => Some(PathBuf::from(text.trim_end_matches('\n'))),
        Err(_) => Some(source.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_an_image_that_is_not_mounted_is_the_image() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(resolve(file.path()).unwrap(), Target::Image(file.path().to_owned()));
    }

    #[test]
    fn what_cannot_be_a_volume_is_refused_with_advice() {
        let missing = resolve(Path::new("/no/such/image")).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "cannot open /no/such/image: No such file or directory; check the path"
        );
        let directory = resolve(Path::new("/proc")).unwrap_err();
        assert_eq!(directory.exit, Exit::NotAVolume);
        let device = resolve(Path::new("/dev/null")).unwrap_err();
        assert!(device.to_string().contains("neither a file nor a block device"), "{device}");
    }
}
