//! `/proc/self/mountinfo`: the existing mounts. Callers: mounting (finds dead mounts), the control client (finds the
//! daemon that serves a path).
//!
//! A state that the daemon of its volume shows beside the present (`beside`) is a mount with a device number of its own. Here it is what a
//! bind mount of `.firn/history/STATE` is: a part of the volume, whose commands go to the volume's daemon.

use crate::sockets::{self, Device};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File system types under which firnfs is mounted.
pub const FS_TYPES: [&str; 2] = ["fuse.firnfs", "fuseblk.firnfs"];

/// One mount of firnfs; see proc_pid_mountinfo(5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Device number of the volume's own mount: its daemon serves this one.
    pub device: Device,
    /// Device number, as st_dev of files on it shows it: another one if the daemon shows a state there.
    pub own_device: Device,
    /// The directory of the volume that is shown there: `/`, unless it is a bind mount of a part, or a state.
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

/// All mounts of firnfs that this process sees: first those of parts, then those of whole volumes; among each, oldest first.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn firnfs_mounts() -> std::io::Result<Vec<Mount>> {
    let (whole, mut all): (Vec<Mount>, Vec<Mount>) = by_age()?.into_iter().partition(Mount::is_whole);
    all.extend(whole);
    Ok(all)
}

/// All mounts of firnfs, oldest first.
fn by_age() -> std::io::Result<Vec<Mount>> {
    let is_ours = |mount: &Mount| FS_TYPES.contains(&mount.fs_type.as_str());
    let ours: Vec<Mount> = all_mounts()?.into_iter().filter(is_ours).collect();
    Ok(with_daemons(ours, sockets::leads_to))
}

/// The device number of the uppermost mount on a directory, of whatever kind it is; `None` without a mount.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn device_on(mountpoint: &Path) -> std::io::Result<Option<Device>> {
    let mut mounts = all_mounts()?.into_iter().rev();
    Ok(mounts.find(|mount| mount.mountpoint == mountpoint).map(|mount| mount.own_device))
}

fn all_mounts() -> std::io::Result<Vec<Mount>> {
    let bytes = std::fs::read("/proc/self/mountinfo")?;
    Ok(bytes.split(|&b| b == b'\n').filter_map(parse_line).collect())
}

/// Finds the states among the mounts. `leads_to` says whose daemon serves a mount; a user who may not know goes by the source.
fn with_daemons(
    mut mounts: Vec<Mount>,
    leads_to: impl Fn(u32, Device) -> std::io::Result<Option<Device>>,
) -> Vec<Mount> {
    for at in 0..mounts.len() {
        let Some((image, state)) = split_source(&mounts[at].source) else { continue };
        let Mount { owner_uid, own_device, .. } = mounts[at];
        let daemon = match leads_to(owner_uid, own_device) {
            Ok(device) => device,
            Err(_) => {
                let volume =
                    mounts.iter().find(|other| other.source == image && other.owner_uid == owner_uid);
                volume.map(|volume| volume.own_device)
            }
        };
        // A daemon that died leaves its links, and the kernel may have given its number away.
        let is_other = |other: &Mount| Some(other.own_device) == daemon && other.source != image;
        if let Some(device) = daemon.filter(|_| !mounts.iter().any(is_other)) {
            let root = Path::new("/.firn/history").join(state);
            (mounts[at].device, mounts[at].root) = (device, root);
        }
    }
    mounts
}

/// Splits `IMAGE@STATE`.
fn split_source(source: &Path) -> Option<(PathBuf, OsString)> {
    let bytes = source.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|&b| b == b'@')?;
    let [image, state] = [&bytes[..at], &bytes[at + 1..]].map(OsStr::from_bytes);
    Some((image.into(), state.into()))
}

/// The bind mount of a part of a volume, or the state, that is mounted on exactly this directory.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn part_on(directory: &Path) -> std::io::Result<Option<Mount>> {
    let resolved = resolve_parent(&std::path::absolute(directory)?);
    let mut mounts = by_age()?.into_iter().rev();
    Ok(mounts.find(|mount| mount.mountpoint == resolved).filter(|mount| !mount.is_whole()))
}

/// The mount that holds `path`; of a part, that of the whole volume, if there is one. For a dead mount, which no longer answers, `path`
/// must be its mountpoint. Of several stacked mounts, the newest.
///
/// # Errors
/// As reading `/proc/self/mountinfo` reports.
pub fn mount_of(path: &Path) -> std::io::Result<Option<Mount>> {
    let device =
        std::fs::metadata(path).ok().map(|m| (rustix::fs::major(m.dev()), rustix::fs::minor(m.dev())));
    let absolute = std::path::absolute(path)?;
    let resolved = resolve_parent(&absolute);
    let all = firnfs_mounts()?;
    let found = all.iter().rev().find(|mount| match device {
        Some(device) => mount.own_device == device,
        None => mount.mountpoint == absolute || mount.mountpoint == resolved,
    });
    let whole = |part: &Mount| all.iter().rev().find(|other| other.own_device == part.device);
    Ok(found.map(|found| whole(found).unwrap_or(found).clone()))
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
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let super_options = String::from_utf8_lossy(fields.get(separator + 3)?).into_owned();
    let owner = super_options.split(',').find_map(|word| word.strip_prefix("user_id="));
    Some(Mount {
        device,
        own_device: device,
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
    fn a_state_beside_the_present_is_a_part_of_its_volume() {
        let mount = |minor: u32, source: &str| {
            let line = format!("36 35 0:{minor} / /m{minor} rw - fuse.firnfs {source} rw,user_id=1000");
            parse_line(line.as_bytes()).unwrap()
        };
        let all = vec![mount(50, "/a.img"), mount(51, "/a.img@one"), mount(52, "/b@c.img")];
        let found = |leads_to: &dyn Fn(Device) -> std::io::Result<Option<Device>>| {
            let mounts = with_daemons(all.clone(), |_, device| leads_to(device));
            mounts.into_iter().map(|mount| (mount.device.1, mount.root)).collect::<Vec<_>>()
        };
        let (whole, part) = (PathBuf::from("/"), PathBuf::from("/.firn/history/one"));
        let known = [(50, whole.clone()), (50, part), (52, whole.clone())];
        assert_eq!(found(&|device| Ok((device == (0, 51)).then_some((0, 50)))), known);
        assert_eq!(found(&|_| Err(std::io::ErrorKind::PermissionDenied.into())), known, "another user");
        let own = [50, 51, 52].map(|minor| (minor, whole.clone()));
        assert_eq!(found(&|_| Ok(None)), own, "a daemon of its own");
        assert_eq!(found(&|device| Ok((device == (0, 51)).then_some((0, 52)))), own, "of a daemon that died");
    }

    #[test]
    fn a_path_elsewhere_is_on_no_firnfs() {
        assert_eq!(mount_of(Path::new("/proc/self")).unwrap(), None);
        assert_eq!(mount_of(Path::new("/no/such/path")).unwrap(), None);
    }
}
