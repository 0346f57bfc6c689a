//! sd_notify(3): tells systemd that a mount in the foreground works, and that it ends. One datagram each, to the socket that
//! `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable in which systemd names its socket: a path, or a name after `@`.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// The mount answers.
pub fn ready(mountpoint: &std::path::Path) {
    // A line break would begin another assignment.
    let place = mountpoint.display().to_string().replace('\n', " ");
    tell(&format!("READY=1\nSTATUS=serving {place}"));
}

/// The mount is gone, and the volume is about to be closed.
pub fn stopping() {
    tell("STOPPING=1\nSTATUS=closing the volume");
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os(VARIABLE).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!("{VARIABLE}: {error}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_hear_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("firnfs-test-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&name).unwrap();
        for (heard, socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&named).unwrap(), format!("@{name}").into()),
        ] {
            send(&socket, "READY=1").unwrap();
            let mut out = [0; 64];
            let len = heard.recv(&mut out).unwrap();
            assert_eq!(&out[..len], b"READY=1");
        }
    }
}
