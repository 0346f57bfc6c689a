//! An inode on the command line: its number, or the path of a file.

use crate::failure::{Done, Failure};
use crate::volume::{AnyVolume, open_any_read_only};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs_format::InodeNo;
use firnfs_volume::Volume;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InodeArg {
    /// Its number.
    Number(u64),
    /// A path from the root of the volume, or from that of the machine through the mountpoint.
    Path(PathBuf),
}

/// For clap: digits are a number, everything else is a path.
///
/// # Errors
/// None; the path is looked up later.
#[allow(clippy::unnecessary_wraps, reason = "clap wants a Result")]
pub fn parse(text: &str) -> Result<InodeArg, String> {
    Ok(text.parse().map_or_else(|_| InodeArg::Path(PathBuf::from(text)), InodeArg::Number))
}

impl InodeArg {
    /// The number of the inode on the volume in this image, which may be mounted somewhere.
    ///
    /// # Errors
    /// The volume cannot be read, or has no such file.
    pub fn number(&self, image: &Path, mountpoint: Option<&Path>) -> Done<u64> {
        let path = match self {
            Self::Number(number) => return Ok(*number),
            Self::Path(path) => path,
        };
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let inside = mountpoint.and_then(|mountpoint| absolute.strip_prefix(mountpoint).ok()).unwrap_or(path);
        match open_any_read_only(image)? {
            AnyVolume::Log(volume) => look_up(&volume, inside, image, mountpoint),
            AnyVolume::Ffs(volume) => look_up(&volume, inside, image, mountpoint),
        }
    }
}

/// Follows a path from the root of a volume. Symbolic links are not followed: they have inodes, too.
fn look_up<S: Engine>(volume: &Volume<S>, path: &Path, image: &Path, mountpoint: Option<&Path>) -> Done<u64> {
    let mut at = InodeNo::ROOT;
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::ParentDir => OsStr::new(".."),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
        };
        let found = volume.run(|vfs, now| vfs.lookup(now, at, name.as_bytes(), false));
        at = found
            .map_err(|error| match error {
                FsError::NotFound | FsError::NotDirectory => {
                    let message = format!("{} has no file {}", image.display(), path.display());
                    let how = "give its path from the root of the volume, or its inode number";
                    // The device is older than the mount.
                    Failure::failed(message).advise(mountpoint.map_or_else(
                        || how.to_owned(),
                        |mountpoint| {
                            format!("{how}; if it is new, 'firn sync {}' first", mountpoint.display())
                        },
                    ))
                }
                other => Failure::fs(format_args!("cannot look up {}", path.display()), &other),
            })?
            .ino;
    }
    Ok(at.0)
}
