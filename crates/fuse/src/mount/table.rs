//! `/proc/self/mountinfo`: the existing mounts. Callers: mounting (finds dead mounts), the control client (finds the
//! daemon that serves a path).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File system types under which firnfs is mounted.
pub const FS_TYPES: [&str; 2] = ["fuse.firnfs", "fuseblk.firnfs"];

/// One mount of firnfs; see proc_pid_mountinfo(5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Device number, as st_dev of files on it shows it.
    pub device: (u32, u32),
    /// The directory of the volume that is shown there: `/`, unless it is a bind mount of a part.
    pub root: PathBuf,
    /// The directory on which it is mounted.
    pub mountpoint: PathBuf,
    /// `fuse.firnfs` or `fuseblk.firnfs`.
    pub fs_type: String,
    /// The image, the block device, or a word for a volume in memory.
    pub source: PathBuf,
    /// The user who mounted it.
    pub owner_uid: u32,
}

impl Mount {
    /// It shows the whole volume.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.root == Path::new("/")
    }
}

/// All mounts of firnfs that this process sees: first bind mounts of parts, then those of whole volumes; among each, oldest first.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn firnfs_mounts() -> std::io::Result<Vec<Mount>> {
    let bytes = std::fs::read("/proc/self/mountinfo")?;
    let lines = bytes.split(|&b| b == b'\n');
    let ours = lines.filter_map(parse_line).filter(|m| FS_TYPES.contains(&m.fs_type.as_str()));
    let (whole, mut all): (Vec<Mount>, Vec<Mount>) = ours.partition(Mount::is_whole);
    all.extend(whole);
    Ok(all)
}

/// The bind mount of a part of a volume that is mounted on exactly this directory.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn part_on(directory: &Path) -> std::io::Result<Option<Mount>> {
    let resolved = resolve_parent(&std::path::absolute(directory)?);
    let mut mounts = firnfs_mounts()?.into_iter().rev();
    Ok(mounts.find(|mount| mount.mountpoint == resolved).filter(|mount| !mount.is_whole()))
}

/// The mount that holds `path`. For a dead mount, which no longer answers, `path` must be its mountpoint. Of several
/// stacked mounts, the newest.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn mount_of(path: &Path) -> std::io::Result<Option<Mount>> {
    let device =
        std::fs::metadata(path).ok().map(|m| (rustix::fs::major(m.dev()), rustix::fs::minor(m.dev())));
    let absolute = std::path::absolute(path)?;
    let resolved = resolve_parent(&absolute);
    Ok(firnfs_mounts()?.into_iter().rev().find(|mount| match device {
        Some(device) => mount.device == device,
        None => mount.mountpoint == absolute || mount.mountpoint == resolved,
    }))
}

/// `path` with the links in its parent resolved; the last part cannot be examined if a dead mount covers it.
pub(super) fn resolve_parent(path: &Path) -> PathBuf {
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let separator = fields.iter().skip(6).position(|f| *f == b"-")? + 6;
    let device = std::str::from_utf8(fields.get(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let super_options = String::from_utf8_lossy(fields.get(separator + 3)?).into_owned();
    let owner = super_options.split(',').find_map(|word| word.strip_prefix("user_id="));
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: unescape(fields.get(3)?),
        mountpoint: unescape(fields.get(4)?),
        fs_type: String::from_utf8_lossy(fields.get(separator + 1)?).into_owned(),
        source: unescape(fields.get(separator + 2)?),
        owner_uid: owner.and_then(|uid| uid.parse().ok()).unwrap_or(0),
    })
}

/// The kernel writes space, tab, newline, backslash and `#` as `\ooo`.
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
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_escapes_is_understood() {
        let line = br"36 35 0:52 / /mnt/a\040b rw,noatime master:1 shared:2 - fuse.firnfs /x\134y.img rw,user_id=1000,group_id=0";
        let mount = parse_line(line).unwrap();
        assert_eq!((mount.device, mount.owner_uid), ((0, 52), 1000));
        assert_eq!(mount.mountpoint, Path::new("/mnt/a b"));
        assert!(mount.is_whole());
        let part = br"37 36 0:52 /.firn/history/x /past ro - fuse.firnfs /x rw,user_id=0,group_id=0";
        assert_eq!(parse_line(part).unwrap().root, Path::new("/.firn/history/x"));
        assert_eq!(mount.source, Path::new("/x\\y.img"));
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
    fn a_path_elsewhere_is_on_no_firnfs() {
        assert_eq!(mount_of(Path::new("/proc/self")).unwrap(), None);
        assert_eq!(mount_of(Path::new("/no/such/path")).unwrap(), None);
    }
}
