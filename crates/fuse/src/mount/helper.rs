//! fusermount3: mounts and unmounts for users who may not call mount(2).
//!
//! The helper opens `/dev/fuse`, mounts, and sends the descriptor over a socket whose number is in
//! `_FUSE_COMMFD`.

use super::MountError;
use crate::handover::receive_fd;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

const HELPER: &str = "fusermount3";

/// Mounts through the helper; the descriptor of `/dev/fuse`.
pub(super) fn mount(source: &OsStr, mountpoint: &Path, words: &[&str]) -> Result<OwnedFd, MountError> {
    let system = |errno: rustix::io::Errno| MountError::System { action: "talk to fusermount3", errno };
    // The helper inherits its end, which must stay open across exec; our end must not.
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None).map_err(system)?;
    rustix::io::fcntl_setfd(&ours, FdFlags::CLOEXEC).map_err(system)?;
    let child = Command::new(HELPER)
        .arg("-o")
        .arg(option_text(source, words))
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|_| MountError::NoHelper)?;
    drop(theirs);
    let received = receive_fd(&ours);
    let output = child.wait_with_output().map_err(|_| MountError::NoHelper)?;
    match received {
        Ok(Some(fd)) if output.status.success() => Ok(fd),
        _ => Err(MountError::Helper(message_of(&output.stderr))),
    }
}

/// Unmounts through the helper.
pub(super) fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), MountError> {
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let output = command
        .arg("--")
        .arg(mountpoint)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .map_err(|_| MountError::NoHelper)?;
    if output.status.success() {
        return Ok(());
    }
    let message = message_of(&output.stderr);
    if message.contains("busy") {
        return Err(MountError::Busy(mountpoint.to_owned()));
    }
    Err(MountError::Helper(message))
}

/// `fsname=SOURCE,subtype=firnfs,...`; commas and backslashes of a name are escaped as the helper wants them.
fn option_text(source: &OsStr, words: &[&str]) -> OsString {
    let mut text = b"subtype=firnfs,fsname=".to_vec();
    for &byte in source.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    for word in words {
        text.push(b',');
        text.extend_from_slice(word.as_bytes());
    }
    OsString::from_vec(text)
}

/// The helper's error message as one line, without its own name.
fn message_of(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().next().unwrap_or("it failed without a message");
    line.strip_prefix("fusermount3: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_with_commas_does_not_become_options() {
        let text = option_text(OsStr::new("/a,allow_other\\.img"), &["ro"]);
        assert_eq!(text, "subtype=firnfs,fsname=/a\\,allow_other\\\\.img,ro");
    }
}
