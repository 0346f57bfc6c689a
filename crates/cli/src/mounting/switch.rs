//! `firn mount --enable-uring`: switches on the kernel's parameter without which FUSE has no io_uring.

use crate::failure::{Done, Exit, Failure};
use std::path::Path;

/// The parameter. Mounts that exist keep the transport that they have.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Switches it on, and says so.
///
/// # Errors
/// The kernel is too old, or this is not root.
pub fn enable_uring() -> Done {
    let refused = |message: String, advice: &str| Err(Failure::new(Exit::Failed, message).advise(advice));
    match std::fs::read_to_string(PARAMETER) {
        Ok(value) if value.trim() == "Y" => {
            eprintln!("FUSE over io_uring is on already");
            return Ok(());
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refused(
                format!("this kernel has no FUSE over io_uring ({PARAMETER} does not exist)"),
                "it needs Linux 6.14 or later, built with CONFIG_FUSE_IO_URING; without it firn mount uses /dev/fuse",
            );
        }
        Err(error) => return Err(Failure::io("cannot read", Path::new(PARAMETER), &error)),
    }
    if let Err(error) = std::fs::write(PARAMETER, "Y") {
        return match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                refused("only root may switch on FUSE over io_uring".to_owned(), "run it as root, once")
            }
            _ => Err(Failure::io("cannot write", Path::new(PARAMETER), &error)),
        };
    }
    eprintln!("FUSE over io_uring is on until the next boot, for mounts made from now on");
    eprintln!("to keep it on: echo 'options fuse enable_uring=1' >/etc/modprobe.d/firnfs.conf");
    Ok(())
}
