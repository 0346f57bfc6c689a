//! `/proc/self/mountinfo`: which mount a path lies on, and what is mounted where.
//!
//! Callers: `target` (find the volume from any path on it) and `mkfs` (refuse to overwrite what is mounted).

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One line of mountinfo, as far as `firn` needs it; see proc_pid_mountinfo(5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Device number, as st_dev of files on it shows it.
    pub device: (u32, u32),
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// File system type, with a subtype: `fuse.firnfs`.
    pub fs_type: String,
    /// What is mounted: a device, an image, a word.
    pub source: PathBuf,
}

impl Mount {
    /// True if firnfs serves it.
    #[must_use]
    pub fn is_firnfs(&self) -> bool {
        matches!(self.fs_type.as_str(), "fuse.firnfs" | "fuseblk.firnfs" | "firnfs")
    }
}

/// All mounts that this process sees, in the order in which they were made.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn all() -> std::io::Result<Vec<Mount>> {
    let bytes = std::fs::read("/proc/self/mountinfo")?;
    Ok(bytes.split(|&b| b == b'\n').filter_map(parse_line).collect())
}

/// The firnfs mount that `path` lies on, if it does. A path that cannot be looked at (a dead mount answers with
/// ENOTCONN) still counts as on the mount if it is the mountpoint itself.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn firnfs_mount_of(path: &Path) -> std::io::Result<Option<Mount>> {
    let device = std::fs::symlink_metadata(path).ok().map(|m| split_device(m.dev()));
    let absolute = std::path::absolute(path)?;
    let mut mounts = all()?;
    // The last mount on a place is the visible one.
    mounts.reverse();
    Ok(mounts
        .into_iter()
        .filter(Mount::is_firnfs)
        .find(|mount| device.map_or(mount.mountpoint == absolute, |device| mount.device == device)))
}

fn split_device(dev: u64) -> (u32, u32) {
    (rustix::fs::major(dev), rustix::fs::minor(dev))
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let separator = fields.iter().skip(6).position(|f| *f == b"-")? + 6;
    let device = std::str::from_utf8(fields.get(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        mountpoint: unescape(fields.get(4)?),
        fs_type: String::from_utf8_lossy(fields.get(separator + 1)?).into_owned(),
        source: unescape(fields.get(separator + 2)?),
    })
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let octal = match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        out.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_escapes_is_understood() {
        let line =
            br"36 35 0:52 / /mnt/with\040space rw,noatime master:1 shared:2 - fuse.firnfs /a\134b.img rw";
        let mount = parse_line(line).unwrap();
        assert_eq!(mount.device, (0, 52));
        assert_eq!(mount.mountpoint, Path::new("/mnt/with space"));
        assert_eq!(mount.source, Path::new("/a\\b.img"));
        assert!(mount.is_firnfs());
    }

    #[test]
    fn lines_that_make_no_sense_are_skipped() {
        for line in
            ["", "36 35", "36 35 x:y / /m rw - ext4 /dev/sda rw", "36 35 8:1 / /m rw ext4 /dev/sda rw"]
        {
            assert_eq!(parse_line(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_root_of_this_process_is_found_and_is_no_firnfs() {
        let mounts = all().unwrap();
        assert!(mounts.iter().any(|m| m.mountpoint == Path::new("/")));
        assert_eq!(firnfs_mount_of(Path::new("/proc")).unwrap(), None);
    }
}
