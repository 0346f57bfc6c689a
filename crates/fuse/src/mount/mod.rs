//! Mounting and unmounting: mount(2) for root, fusermount3 (`helper`) for other users. `options` are those of mount(8), `table`
//! has the existing mounts.
//!
//! A block device mounted by root becomes `fuseblk.firnfs`, everything else `fuse.firnfs`. Only `fuseblk` passes
//! sync(2), syncfs(2) and the end of an unmount on to the daemon. Callers: `session`, and `firn mount` and `firn umount`.

mod helper;
mod options;
pub mod table;

pub use options::MountOptions;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::{CString, OsStr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Block size that `fuseblk` announces, in bytes: at least the device's sector, at most a page.
const FUSEBLK_BLOCK_BYTES: u32 = 4096;

/// What to mount, and where.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The source that `mount` shows: the absolute path of the image or device, or a word for a volume in memory.
    pub source: PathBuf,
    /// An existing directory.
    pub mountpoint: PathBuf,
    /// See [`MountOptions`].
    pub options: MountOptions,
}

/// Why something could not be mounted or unmounted. Each message is one line that says what, where, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MountError {
    /// This kernel or container has no FUSE.
    #[error(
        "/dev/fuse is missing; load the kernel's module with 'modprobe fuse', or pass the device to the container"
    )]
    NoFuseDevice,
    /// `/dev/fuse` cannot be opened.
    #[error("no permission to open /dev/fuse; run as root, or ask for access to /dev/fuse")]
    NoFusePermission,
    /// fusermount3 is not installed.
    #[error("only root may mount without fusermount3, which is not installed; install the package fuse3")]
    NoHelper,
    /// fusermount3 refused.
    #[error("fusermount3: {0}")]
    Helper(String),
    /// The mountpoint cannot be used.
    #[error("{}: {reason}; name an existing directory", path.display())]
    Mountpoint {
        /// The mountpoint.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// A dead mount of another file system covers the mountpoint.
    #[error("{} holds a dead mount of another file system; unmount it first", .0.display())]
    ForeignDeadMount(PathBuf),
    /// Something on the mount is in use.
    #[error("{} is busy; close what uses it (see 'fuser -vm'), or detach it with --lazy", .0.display())]
    Busy(PathBuf),
    /// It cannot become read-only while files on it are open for writing.
    #[error("{} has files open for writing; close them (see 'fuser -vm'), then remount it", .0.display())]
    OpenForWriting(PathBuf),
    /// No firnfs is mounted there.
    #[error("{} is not a firnfs mount", .0.display())]
    NotMounted(PathBuf),
    /// Any other error.
    #[error("cannot {action}: {errno}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The system's error.
        errno: Errno,
    },
}

/// Mounts; returns the descriptor of `/dev/fuse` that belongs to the mount. Requests are not served yet.
///
/// # Errors
/// See [`MountError`].
pub fn mount(request: &MountRequest) -> Result<OwnedFd, MountError> {
    if !rustix::process::geteuid().is_root() {
        return helper_mount(request);
    }
    let fd = open_device()?;
    match direct_mount(request, &fd) {
        // Root of a container without CAP_SYS_ADMIN.
        Err(Errno::PERM) => helper_mount(request),
        Err(Errno::BUSY) => {
            Err(MountError::System { action: "mount: the device is in use or mounted", errno: Errno::BUSY })
        }
        Err(errno) => Err(MountError::System { action: "mount", errno }),
        Ok(()) => Ok(fd),
    }
}

/// True if mounting `source` claims the block device for the kernel: then nobody else, this process included, may hold it
/// open exclusively.
#[must_use]
pub fn uses_fuseblk(source: &Path) -> bool {
    rustix::process::geteuid().is_root()
        && std::fs::metadata(source).is_ok_and(|m| m.file_type().is_block_device())
}

fn helper_mount(request: &MountRequest) -> Result<OwnedFd, MountError> {
    // Opened only to report a missing device clearly; the helper opens its own.
    drop(open_device()?);
    helper::mount(request.source.as_os_str(), &request.mountpoint, &request.options.words())
}

fn open_device() -> Result<OwnedFd, MountError> {
    rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(
        |errno| match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV => MountError::NoFuseDevice,
            Errno::ACCESS | Errno::PERM => MountError::NoFusePermission,
            errno => MountError::System { action: "open /dev/fuse", errno },
        },
    )
}

fn direct_mount(request: &MountRequest, fd: &OwnedFd) -> Result<(), Errno> {
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        fd.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    if request.options.others_allowed(true) {
        data.push_str(",allow_other");
    }
    let fs_type = if uses_fuseblk(&request.source) {
        data.push_str(&format!(",blksize={FUSEBLK_BLOCK_BYTES}"));
        "fuseblk.firnfs"
    } else {
        "fuse.firnfs"
    };
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(
        request.source.as_os_str(),
        &request.mountpoint,
        OsStr::new(fs_type),
        request.options.flags(),
        data.as_c_str(),
    )
}

/// Changes the options of a served mount: `ro`, `rw`, `nodev` and others that the kernel keeps. The access-time mode and
/// the users with access are fixed when mounting.
///
/// # Errors
/// [`MountError::NotMounted`], [`MountError::OpenForWriting`]; ordinary users may not remount.
pub fn remount(mountpoint: &Path, options: &MountOptions) -> Result<(), MountError> {
    let flags = options.flags() & !(MountFlags::RELATIME | MountFlags::NOATIME | MountFlags::STRICTATIME);
    rustix::mount::mount_remount(mountpoint, flags, c"").map_err(|errno| match errno {
        Errno::INVAL | Errno::NOENT => MountError::NotMounted(mountpoint.to_owned()),
        Errno::BUSY => MountError::OpenForWriting(mountpoint.to_owned()),
        errno => MountError::System { action: "remount", errno },
    })
}

/// Makes a mountpoint usable: absolute, a directory, and free of dead mounts that a crashed firnfs daemon left.
///
/// # Errors
/// [`MountError::Mountpoint`], [`MountError::ForeignDeadMount`].
pub fn prepare_mountpoint(path: &Path) -> Result<PathBuf, MountError> {
    let bad = |reason| unusable(path, reason);
    let absolute = std::path::absolute(path).map_err(|e| bad(plain(&e)))?;
    loop {
        clear_dead(&absolute)?;
        let looked = absolute.canonicalize().and_then(|path| Ok((look_at(&path)?, path)));
        match looked {
            Ok((found, canonical))
                if FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory =>
            {
                return Ok(canonical);
            }
            Ok(_) => return Err(bad("not a directory".into())),
            // Its daemon has died since.
            Err(error) if Errno::from_io_error(&error).is_some_and(says_dead) => {}
            Err(error) => return Err(bad(plain(&error))),
        }
    }
}

/// Takes away the dead mounts of firnfs that cover a path.
fn clear_dead(path: &Path) -> Result<(), MountError> {
    while is_dead(path) {
        let resolved = table::resolve_parent(path);
        let ours = table::mount_of(&resolved).map_err(|e| unusable(path, plain(&e)))?;
        if ours.is_none() {
            return Err(MountError::ForeignDeadMount(path.to_owned()));
        }
        tracing::warn!("clearing the mount that a dead daemon left at {}", resolved.display());
        unmount(&resolved, true)?;
    }
    Ok(())
}

fn unusable(path: &Path, reason: String) -> MountError {
    MountError::Mountpoint { path: path.to_owned(), reason }
}

/// True if a mount whose daemon died covers the path.
#[must_use]
pub fn is_dead(path: &Path) -> bool {
    look_at(path).is_err_and(says_dead)
}

/// Whether an error says that no daemon answers any more, or that it died while it was asked.
fn says_dead(errno: Errno) -> bool {
    matches!(errno, Errno::NOTCONN | Errno::CONNABORTED)
}

/// The attributes of a mountpoint as its daemon has them, not as the kernel has cached them. statfs(2) asks the daemon, too, but an automount
/// takes it for an access: it would wait for the very mount that asks.
fn look_at(path: &Path) -> Result<Statx, Errno> {
    let flags = AtFlags::STATX_FORCE_SYNC | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(CWD, path, flags, StatxFlags::TYPE | StatxFlags::MODE)
}

/// Has the kernel hand the daemon what its page cache has and the daemon has not: what programs wrote to files that are still open, through mappings, or
/// with the write-back cache in any way. Whoever wants all of that durable calls this before the daemon's `sync`.
///
/// # Errors
/// The daemon could not take all of it, or the mountpoint cannot be opened.
pub fn write_back(mount: &table::Mount) -> Result<(), Errno> {
    let (major, minor) = mount.device;
    let is_it = |root: &OwnedFd| {
        rustix::fs::fstat(root).is_ok_and(|stat| stat.st_dev == rustix::fs::makedev(major, minor))
    };
    match rustix::fs::open(
        &mount.mountpoint,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(root) if is_it(&root) => rustix::fs::syncfs(&root),
        // It shows a state, another mount covers it, or root may not look into the mount of a user. sync(2) asks for no path.
        Ok(_) | Err(Errno::ACCESS) => {
            rustix::fs::sync();
            Ok(())
        }
        Err(errno) => Err(errno),
    }
}

/// Unmounts. `lazy`: detaches the mount for new users at once, and unmounts it when the last old user is done.
///
/// # Errors
/// [`MountError::Busy`], [`MountError::NotMounted`], or the system's error.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), MountError> {
    unmount_unasked(mountpoint, false, lazy)
}

/// As [`unmount`], for a daemon that may no longer answer. `force`: requests that it has not answered fail, and all later ones do.
///
/// # Errors
/// As [`unmount`].
pub fn unmount_unasked(mountpoint: &Path, force: bool, lazy: bool) -> Result<(), MountError> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    flags.set(UnmountFlags::FORCE, force);
    match rustix::mount::unmount(mountpoint, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => helper::unmount(mountpoint, lazy),
        Err(Errno::BUSY) => Err(MountError::Busy(mountpoint.to_owned())),
        Err(Errno::INVAL | Errno::NOENT) => Err(MountError::NotMounted(mountpoint.to_owned())),
        Err(errno) => Err(MountError::System { action: "unmount", errno }),
    }
}

/// Per cent of the pages that the kernel lets be changed and not yet written back, for one mount.
const CHANGED_PAGES_PER_CENT: u32 = 25;

/// Tells the kernel what its page cache may do for the mount. Best effort: only root has the right.
///
/// - It reads two of the largest requests ahead, so that one is on the device while the other one is verified and copied. Its default of 128 KiB wastes
///   round trips on cold reads.
/// - A quarter of the pages that it lets be changed at all (in mappings, or in the write-back cache) may belong to the mount. By default it is a
///   hundredth, and programs wait for the daemon from then on: calls that overwrote 100 MiB took 3 to 4 times as long (docs/bench/limits.md). A daemon
///   that hangs leaves three quarters to the others.
pub(crate) fn tune_page_cache(mount: &table::Mount, request_max_bytes: u32) {
    let (major, minor) = mount.own_device;
    let suffix = if mount.fs_type.starts_with("fuseblk") { "-fuseblk" } else { "" };
    let settings = [("read_ahead_kb", 2 * request_max_bytes / 1024), ("max_ratio", CHANGED_PAGES_PER_CENT)];
    for (name, value) in settings {
        let path = format!("/sys/class/bdi/{major}:{minor}{suffix}/{name}");
        let outcome = std::fs::write(&path, value.to_string());
        tracing::debug!("{value} to {path}: {outcome:?}");
    }
}

/// The reason without Rust's ` (os error N)`.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Handler, Verdict};
    use crate::device::DeviceTransport;
    use crate::floor::NullFiles;
    use crate::wire::{Operation, Reply, Request};
    use rustix::event::{EventfdFlags, eventfd};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_mountpoint_must_be_an_existing_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(prepare_mountpoint(directory.path()).is_ok());
        let error = prepare_mountpoint(&file).unwrap_err().to_string();
        assert!(error.ends_with("not a directory; name an existing directory"), "{error}");
        let error = prepare_mountpoint(&directory.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn unmounting_a_path_without_a_mount_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = unmount(directory.path(), false).unwrap_err();
        assert!(!matches!(error, MountError::Busy(_)), "{error}");
    }

    /// A daemon that dies when it is asked for attributes a second time.
    struct Dying {
        files: NullFiles,
        looks: AtomicUsize,
        stop: OwnedFd,
    }

    impl Handler for Dying {
        fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Verdict {
            if matches!(request.operation, Operation::Getattr)
                && self.looks.fetch_add(1, Ordering::SeqCst) == 1
            {
                rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).unwrap();
                return Verdict::Silent;
            }
            self.files.handle(request, reply)
        }
        fn setxattr_ext(&self) -> bool {
            self.files.setxattr_ext()
        }
    }

    #[test]
    fn a_mountpoint_whose_daemon_dies_between_two_looks_is_cleared_too() {
        let directory = tempfile::tempdir().unwrap();
        let mountpoint = directory.path().canonicalize().unwrap();
        let options = MountOptions::default();
        let request = MountRequest { source: "dying".into(), mountpoint: mountpoint.clone(), options };
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: NOT TESTED: needs root and /dev/fuse");
            return;
        }
        let fuse = mount(&request).unwrap();
        let (looks, stop) = (AtomicUsize::new(0), eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let daemon = Dying { files: NullFiles::default(), looks, stop };
        let serving = std::thread::spawn(move || {
            let transport = DeviceTransport::new(fuse);
            transport.handshake(&daemon, false).unwrap();
            transport.serve_beside(&daemon, &daemon.stop).unwrap();
            daemon.looks.into_inner()
        });
        assert_eq!(prepare_mountpoint(&mountpoint).unwrap(), mountpoint);
        assert_eq!(serving.join().unwrap(), 2);
        assert_eq!(table::device_on(&mountpoint).unwrap(), None);
    }
}
