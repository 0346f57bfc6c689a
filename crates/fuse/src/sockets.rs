//! Where the control sockets are: each mount has a name there, by its device number, so that programs find its daemon. The name of a mount
//! that shows a state beside the present is a link to the socket of the volume's own mount: one daemon serves both.
//!
//! Callers: `control`, which listens and connects; `mount::table`, which tells the two kinds of mounts apart; `beside`, which makes the links.

use rustix::fs::Mode;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Major and minor number of a mount.
pub type Device = (u32, u32);

/// The directory that holds the sockets of a user's mounts: `/run/firnfs` for root, else `/run/user/UID/firnfs`, else
/// `/tmp/firnfs-UID`. It does not depend on the environment, so that daemon and client agree.
#[must_use]
pub fn socket_directory(owner_uid: u32) -> PathBuf {
    if owner_uid == 0 {
        return PathBuf::from("/run/firnfs");
    }
    let runtime = PathBuf::from(format!("/run/user/{owner_uid}"));
    if is_owned_directory(&runtime, owner_uid) {
        runtime.join("firnfs")
    } else {
        PathBuf::from(format!("/tmp/firnfs-{owner_uid}"))
    }
}

/// The socket of the mount with that device number.
#[must_use]
pub fn socket_path(owner_uid: u32, device: Device) -> PathBuf {
    socket_directory(owner_uid).join(name_of(device))
}

/// Makes the directory of this user's sockets; no other user can read it.
pub(crate) fn make_socket_directory(path: &Path, owner_uid: u32) -> Result<()> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    // In /tmp another user may have made it first.
    if is_owned_directory(path, owner_uid) {
        return rustix::fs::chmod(path, Mode::RWXU).map_err(Into::into);
    }
    Err(Error::other(format!("{} belongs to somebody else", path.display())))
}

/// The mount whose daemon serves that one as well; `None` if it has a daemon of its own.
///
/// # Errors
/// Only its owner and root may know.
pub(crate) fn leads_to(owner_uid: u32, device: Device) -> Result<Option<Device>> {
    match std::fs::read_link(socket_path(owner_uid, device)) {
        Ok(target) => Ok(target.to_str().and_then(device_of)),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Err(e),
        Err(_) => Ok(None),
    }
}

/// Has the name of a mount of this user lead to the daemon of another one.
///
/// # Errors
/// The link cannot be made.
pub(crate) fn lead(device: Device, to: Device) -> Result<()> {
    let path = socket_path(rustix::process::geteuid().as_raw(), device);
    // Device numbers of live mounts are unique: what has that name belongs to a daemon that died.
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    std::os::unix::fs::symlink(name_of(to), path)
}

/// Takes a name back, unless another daemon has it by now.
pub(crate) fn lead_no_more(device: Device, to: Device) {
    let owner_uid = rustix::process::geteuid().as_raw();
    if leads_to(owner_uid, device).is_ok_and(|found| found == Some(to)) {
        let _already_gone = std::fs::remove_file(socket_path(owner_uid, device));
    }
}

fn name_of(device: Device) -> String {
    format!("{}:{}.sock", device.0, device.1)
}

fn device_of(name: &str) -> Option<Device> {
    let (major, minor) = name.strip_suffix(".sock")?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn is_owned_directory(path: &Path, owner_uid: u32) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == owner_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_mount_it_is_of() {
        assert_eq!(name_of((0, 52)), "0:52.sock");
        assert_eq!(device_of("0:52.sock"), Some((0, 52)));
        for name in ["0:52", "52.sock", "0:x.sock", ""] {
            assert_eq!(device_of(name), None, "{name}");
        }
    }
}
