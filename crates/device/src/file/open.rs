//! Opening image files and block devices: type, lock, size, block sizes, and whether O_DIRECT works.
//!
//! The lock is flock(2): it belongs to the open file, so it survives a fork into the background and ends with the
//! process in any case. Block devices are then opened a second time with O_EXCL, which the kernel refuses while it has
//! the device mounted. That happens after locking, so that another firnfs is recognised and can be waited for.

use super::{DeepReads, Target};
use crate::buffer::{ALIGN_BYTES, AlignedBuf};
use crate::error::{DeviceError, plain_reason};
use crate::request::Geometry;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between attempts to take a lock, in milliseconds.
const LOCK_POLL_MS: u64 = 20;

/// Physical block size assumed for an image file: the page size, and the usual block size of the file systems that hold
/// images.
const FILE_PHYSICAL_BYTES: u32 = 4096;

/// What the caller is going to do with the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Only read; writes and discards fail.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// Protection from other processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// None: to read a volume that may be in use.
    None,
    /// Other processes may read; none may write.
    Shared,
    /// No other process may open the device.
    Exclusive,
}

/// Whether to bypass the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectIo {
    /// Bypass it if the system can; otherwise buffered, see [`super::FileDevice::buffered_because`].
    Prefer,
    /// Always buffered.
    Never,
}

/// How to open a file or a block device. Defaults: read-write, exclusive lock without waiting, O_DIRECT if possible,
/// two writer threads, several reads through an io_uring if possible.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Reading, or reading and writing.
    pub access: Access,
    /// Protection from other processes.
    pub lock: Lock,
    /// How long to wait for the lock, in milliseconds; `u64::MAX` waits for ever.
    pub lock_wait_ms: u64,
    /// Whether to bypass the page cache.
    pub direct: DirectIo,
    /// Threads that write; with 0, the waiting threads do the writes.
    pub writer_threads: usize,
    /// How several reads that one thread has submitted are carried out; if the system refuses a method, the next in
    /// order replaces it.
    pub deep_reads: DeepReads,
    /// Block devices opened for writing: keep the kernel from using the device while it is open. Turn this off if the
    /// kernel itself takes the device for us afterwards (fuseblk); opening still checks that it is not in use now.
    pub hold_claim: bool,
    /// Regular files: set the length to this many bytes (a multiple of 512) once the lock is held.
    pub resize_bytes: Option<u64>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            access: Access::ReadWrite,
            lock: Lock::Exclusive,
            lock_wait_ms: 0,
            direct: DirectIo::Prefer,
            writer_threads: 2,
            deep_reads: DeepReads::Ring,
            hold_claim: true,
            resize_bytes: None,
        }
    }
}

/// Why a file or block device could not be opened: one line with the path, the reason and where possible what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// No file has that name.
    #[error("{}: no such file or device", .0.display())]
    NotFound(PathBuf),
    /// [`super::FileDevice::create`] found a file of that name.
    #[error("{}: exists already", .0.display())]
    Exists(PathBuf),
    /// Permission denied.
    #[error("{}: permission denied: you may not open it for {for_what}", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// "reading" or "writing".
        for_what: &'static str,
    },
    /// Another process holds the lock.
    #[error("{}: in use by {holder}", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// "process N (name)", or "another process" if the system does not tell.
        holder: String,
    },
    /// The kernel uses the block device: mounted, swap, or part of another device.
    #[error("{}: the system is using this device: unmount it first", .0.display())]
    Claimed(PathBuf),
    /// Neither a regular file nor a block device.
    #[error("{}: is a {found}, not an image file or a block device", path.display())]
    WrongType {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// Block sizes that firnfs cannot work with.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file system that holds the file, or a limit of the process, does not allow a file of that size.
    #[error("{}: no file of {size_bytes} bytes can be made there", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The size asked for, in bytes.
        size_bytes: u64,
    },
    /// Anything else the system reported.
    #[error("{}: cannot {action}: {reason}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// "open", "lock", ...
        action: &'static str,
        /// The system's error message.
        reason: String,
    },
}

/// A file ready for use.
pub(super) struct Opened {
    pub(super) target: Target,
    pub(super) buffered_because: Option<String>,
}

pub(super) fn create(path: &Path, size_bytes: u64, options: &FileOptions) -> Result<Opened, OpenError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)).map_err(|e| match e {
        Errno::EXIST => OpenError::Exists(path.into()),
        other => open_error(path, options, other),
    })?;
    let made = rustix::fs::fstat(&file).map_err(|e| system(path, "look at", &e.into()))?;
    drop(file);
    open(path, &FileOptions { resize_bytes: Some(size_bytes), ..options.clone() })
        .inspect_err(|_| remove_again(path, (made.st_dev, made.st_ino)))
}

/// Removes a new file that turned out to be useless, if the path still names it.
fn remove_again(path: &Path, made: (u64, u64)) {
    if rustix::fs::stat(path).is_ok_and(|now| (now.st_dev, now.st_ino) == made) {
        // The error that led here says more than a second one would.
        let _ = rustix::fs::unlink(path);
    }
}

pub(super) fn open(path: &Path, options: &FileOptions) -> Result<Opened, OpenError> {
    let is_block_device = is_block_device(path, options)?;
    let file = open_file(path, options, OFlags::empty())?;
    take_lock(&file, path, options)?;
    let claim = match is_block_device && options.access == Access::ReadWrite {
        true => Some(open_file(path, options, OFlags::EXCL)?).filter(|_| options.hold_claim),
        false => None,
    };
    if let (Some(size_bytes), false) = (options.resize_bytes, is_block_device) {
        file.set_len(size_bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::FileTooLarge => OpenError::TooLarge { path: path.into(), size_bytes },
            _ => system(path, "set the size", &e),
        })?;
    }
    let dio = if is_block_device { None } else { direct_io_alignment(&file) };
    let geometry = geometry(&file, path, is_block_device, dio)?;
    let buffered_because = match options.direct {
        DirectIo::Prefer => try_direct(&file, &geometry, dio).err(),
        DirectIo::Never => None,
    };
    let target = Target {
        file,
        name: Arc::from(path.to_string_lossy()),
        geometry,
        size_bytes: geometry.size_bytes.into(),
        is_block_device,
        read_only: options.access == Access::ReadOnly,
        lock: options.lock,
        _claim: claim,
    };
    Ok(Opened { target, buffered_because })
}

/// Checks the type before it opens: opening a FIFO would block.
fn is_block_device(path: &Path, options: &FileOptions) -> Result<bool, OpenError> {
    let stat = rustix::fs::stat(path).map_err(|e| open_error(path, options, e))?;
    let found = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(false),
        FileType::BlockDevice => return Ok(true),
        FileType::Directory => "directory",
        FileType::CharacterDevice => "character device",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        _ => "special file",
    };
    Err(OpenError::WrongType { path: path.into(), found })
}

fn open_file(path: &Path, options: &FileOptions, more: OFlags) -> Result<File, OpenError> {
    let access = match options.access {
        Access::ReadOnly => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
    };
    let opened = rustix::fs::open(path, access | OFlags::CLOEXEC | more, Mode::empty());
    opened.map(File::from).map_err(|e| open_error(path, options, e))
}

fn take_lock(file: &File, path: &Path, options: &FileOptions) -> Result<(), OpenError> {
    let started = Instant::now();
    loop {
        match try_lock(file, options.lock) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {
                let waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                if waited_ms >= options.lock_wait_ms {
                    return Err(OpenError::InUse { path: path.into(), holder: lock_holder(file) });
                }
                let pause_ms = LOCK_POLL_MS.min(options.lock_wait_ms - waited_ms);
                std::thread::sleep(Duration::from_millis(pause_ms));
            }
            Err(e) => return Err(system(path, "lock", &e.into())),
        }
    }
}

/// Takes the lock, or holds it already.
fn try_lock(file: &File, lock: Lock) -> Result<(), Errno> {
    let operation = match lock {
        Lock::None => return Ok(()),
        Lock::Shared => FlockOperation::NonBlockingLockShared,
        Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    loop {
        match rustix::fs::flock(file, operation) {
            Err(Errno::INTR) => {}
            taken => return taken,
        }
    }
}

/// Whether the lock is still held. A network file system can lose it: then it is taken again, unless another program has it.
pub(super) fn prove_lock(target: &Target) -> Result<(), DeviceError> {
    try_lock(&target.file, target.lock).map_err(|why| {
        let reason = match why {
            Errno::WOULDBLOCK => format!("the lock was lost, and {} has it now", lock_holder(&target.file)),
            why => format!("cannot lock it again: {}", std::io::Error::from(why)),
        };
        DeviceError::replaced(target.name.clone(), reason)
    })
}

/// Who holds the lock, from /proc/locks.
fn lock_holder(file: &File) -> String {
    const UNKNOWN: &str = "another process";
    let (Ok(stat), Ok(locks)) = (rustix::fs::fstat(file), std::fs::read_to_string("/proc/locks")) else {
        return UNKNOWN.into();
    };
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    // "1: FLOCK  ADVISORY  WRITE 4321 fe:00:131081 0 EOF"; waiters have "->" after the number.
    let pid = locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let held = fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&place.as_str());
        fields.get(4).filter(|_| held).and_then(|pid| pid.parse::<u32>().ok())
    });
    match pid {
        // 0: in another pid namespace.
        None | Some(0) => UNKNOWN.into(),
        Some(pid) => match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(name) => format!("process {pid} ({})", name.trim_end()),
            Err(_) => format!("process {pid}, or a child of it"),
        },
    }
}

/// Offset alignment that O_DIRECT needs on this file in bytes, as the file system states it: 0 means it cannot do it;
/// `None` that the kernel (before 6.1) or the file system does not say.
fn direct_io_alignment(file: &File) -> Option<u32> {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return None;
    }
    let fits = stat.stx_dio_mem_align as usize <= ALIGN_BYTES;
    Some(if fits { stat.stx_dio_offset_align } else { 0 })
}

fn geometry(
    file: &File,
    path: &Path,
    is_block_device: bool,
    dio: Option<u32>,
) -> Result<Geometry, OpenError> {
    let size =
        rustix::fs::seek(file, SeekFrom::End(0)).map_err(|e| system(path, "find the size", &e.into()))?;
    let (logical, physical) = if is_block_device {
        let ask = |answer: rustix::io::Result<u32>| {
            answer.map_err(|e| system(path, "ask for the block size", &e.into()))
        };
        (ask(rustix::fs::ioctl_blksszget(file))?, ask(rustix::fs::ioctl_blkpbszget(file))?)
    } else {
        (dio.unwrap_or(0).max(512), FILE_PHYSICAL_BYTES)
    };
    if !logical.is_power_of_two() || !(512..=65536).contains(&logical) {
        let reason = format!("its block size of {logical} bytes is not supported");
        return Err(OpenError::Unusable { path: path.into(), reason });
    }
    // Some drives report nonsense here (0, or less than the logical block): assume a safe value.
    let physical = if physical.is_power_of_two() { physical.max(logical) } else { logical.max(4096) };
    Ok(Geometry {
        size_bytes: size / u64::from(logical) * u64::from(logical),
        logical_block_bytes: logical,
        physical_block_bytes: physical,
    })
}

/// Switches O_DIRECT on and reads a block to see that it works; otherwise switches it off again and says why.
fn try_direct(file: &File, geometry: &Geometry, dio: Option<u32>) -> Result<(), String> {
    const REFUSED: &str = "the file system under the image does not support O_DIRECT";
    if dio == Some(0) {
        return Err(REFUSED.into());
    }
    let flags = rustix::fs::fcntl_getfl(file).map_err(|e| format!("O_DIRECT is not possible: {e}"))?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).map_err(|_| REFUSED.to_owned())?;
    let mut block = AlignedBuf::zeroed(geometry.logical_block_bytes as usize);
    match file.read_at(&mut block, 0) {
        Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            rustix::fs::fcntl_setfl(file, flags).map_err(|e| format!("O_DIRECT cannot be left: {e}"))?;
            Err(REFUSED.into())
        }
        // Any other failure is the device's, and shows again when a caller needs the block.
        _ => Ok(()),
    }
}

fn open_error(path: &Path, options: &FileOptions, error: Errno) -> OpenError {
    match error {
        Errno::NOENT => OpenError::NotFound(path.into()),
        Errno::ACCESS | Errno::PERM => OpenError::Denied {
            path: path.into(),
            for_what: if options.access == Access::ReadOnly { "reading" } else { "writing" },
        },
        Errno::BUSY => OpenError::Claimed(path.into()),
        other => system(path, "open", &other.into()),
    }
}

fn system(path: &Path, action: &'static str, error: &std::io::Error) -> OpenError {
    OpenError::System { path: path.into(), action, reason: plain_reason(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FailureKind;

    #[test]
    fn a_file_system_that_refuses_direct_io_leaves_the_file_buffered_and_readable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, [7; 4096]).unwrap();
        let file = open_file(&path, &FileOptions::default(), OFlags::empty()).unwrap();
        let geometry = geometry(&file, &path, false, Some(0)).unwrap();
        let note = try_direct(&file, &geometry, Some(0)).unwrap_err();
        assert!(note.contains("O_DIRECT"), "{note}");
        assert!(!rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT));
        let mut odd = [0; 3];
        assert_eq!(file.read_at(&mut odd, 1).unwrap(), 3);
    }

    #[test]
    fn a_lock_that_was_lost_is_taken_again_unless_another_program_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, [7; 8192]).unwrap();
        let options = FileOptions::default();
        let first = open(&path, &options).unwrap().target;
        prove_lock(&first).unwrap();
        assert!(matches!(open(&path, &options), Err(OpenError::InUse { .. })));
        // As a network file system does when its server was away.
        let lose = || rustix::fs::flock(&first.file, FlockOperation::Unlock).unwrap();
        lose();
        prove_lock(&first).unwrap();
        assert!(matches!(open(&path, &options), Err(OpenError::InUse { .. })));
        lose();
        let second = open(&path, &options).unwrap().target;
        let refused = prove_lock(&first).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Replaced);
        assert!(refused.to_string().contains("the lock was lost, and process"), "{refused}");
        prove_lock(&second).unwrap();
    }
}
