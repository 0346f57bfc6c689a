//! Hands an open file to another process, over a local socket. Callers: `mount` (fusermount3 hands over the descriptor of a mount), `beside` and
//! its command (that of the mount of a state).

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Sends a descriptor.
///
/// # Errors
/// As sendmsg(2) reports.
pub fn send_fd(socket: impl AsFd, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    // The descriptor travels with a byte.
    sendmsg(socket.as_fd(), &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Receives a descriptor; `None` if the other side ends without sending one.
///
/// # Errors
/// As recvmsg(2) reports.
pub fn receive_fd(socket: impl AsFd) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    Ok(ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_side_gets_the_same_open_file() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        send_fd(&here, file.as_fd()).unwrap();
        let mut got = std::fs::File::from(receive_fd(&there).unwrap().unwrap());
        std::io::Seek::rewind(&mut got).unwrap();
        let mut text = String::new();
        got.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        drop(here);
        assert!(receive_fd(&there).unwrap().is_none());
    }
}
