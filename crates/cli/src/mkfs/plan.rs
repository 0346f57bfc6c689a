//! The plan of `firn mkfs`, decided and checked before anything is written.

use super::MkfsArgs;
use super::signatures::{self, Content};
use crate::failure::{Done, Exit, Failure};
use crate::sizes::Bytes;
use crate::target;
use firnfs_device::{FileDevice, FileOptions, OpenError};
use firnfs_format::superblock::LABEL_MAX_BYTES;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where the volume goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A file that does not exist yet.
    NewFile,
    /// An existing file; its length becomes the volume's.
    ExistingFile {
        /// Its content must be wiped first.
        wipe: bool,
    },
    /// A block device, which keeps its size.
    BlockDevice {
        /// Its content must be wiped first.
        wipe: bool,
    },
}

/// The checked plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MkfsPlan {
    /// Image file or block device.
    pub path: PathBuf,
    /// The kind of the place, and its state.
    pub place: Place,
    /// Size of the volume in bytes.
    pub size_bytes: u64,
}

impl MkfsPlan {
    /// Checks the command line against the present content.
    ///
    /// # Errors
    /// Refuses to destroy foreign content; usage errors.
    pub fn resolve(args: &MkfsArgs) -> Done<Self> {
        if args.label.len() > LABEL_MAX_BYTES {
            return Err(Failure::usage(format!(
                "the label has {} bytes, at most {LABEL_MAX_BYTES} fit",
                args.label.len()
            )));
        }
        let path = args.image.clone();
        match std::fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Self::new_file(path, args.size),
            Err(e) => Err(Failure::io("cannot open", &path, &e)),
            Ok(meta) if meta.file_type().is_block_device() => Self::block_device(path, args),
            Ok(meta) if meta.is_file() => Self::existing_file(path, meta.len(), args),
            Ok(_) => Err(Failure::usage(format!("{} is neither a file nor a block device", path.display()))
                .advise("name an image file, which may be new, or a block device")),
        }
    }

    fn new_file(path: PathBuf, size: Option<u64>) -> Done<Self> {
        let Some(size_bytes) = size else {
            return Err(Failure::usage(format!("{} does not exist", path.display()))
                .advise("give the size of the new image, such as --size 20G"));
        };
        Ok(Self { path, place: Place::NewFile, size_bytes: whole_sectors(size_bytes) })
    }

    fn existing_file(path: PathBuf, len_bytes: u64, args: &MkfsArgs) -> Done<Self> {
        let content = look(&path, args.force)?;
        // Overwriting a user's file needs --force, whatever the file contains; a device without a signature does not need it.
        if content == Content::Unknown && !args.force {
            return Err(refuse(&path, "data that firn does not recognise"));
        }
        let size_bytes = whole_sectors(args.size.unwrap_or(len_bytes));
        if size_bytes == 0 {
            return Err(Failure::usage(format!("{} is empty", path.display()))
                .advise("give the size of the volume, such as --size 20G"));
        }
        let wipe = content != Content::Blank;
        Ok(Self { path, place: Place::ExistingFile { wipe }, size_bytes })
    }

    fn block_device(path: PathBuf, args: &MkfsArgs) -> Done<Self> {
        let content = look(&path, args.force)?;
        if !args.force
            && !matches!(content, Content::Known(_))
            && let Some(found) = signatures::ask_blkid(&path)
        {
            return Err(refuse(&path, &found));
        }
        let device_bytes = length(&open_to_look(&path)?, &path)?;
        let size_bytes = whole_sectors(args.size.unwrap_or(device_bytes));
        if size_bytes > device_bytes {
            return Err(Failure::usage(format!(
                "{} has only {}, --size asks for {}",
                path.display(),
                Bytes(device_bytes),
                Bytes(size_bytes)
            )));
        }
        let wipe = content != Content::Blank;
        Ok(Self { path, place: Place::BlockDevice { wipe }, size_bytes })
    }

    /// Opens the device for writing, exclusively; makes a new file if necessary.
    ///
    /// # Errors
    /// Refused if it is in use.
    pub fn open(&self) -> Done<FileDevice> {
        let options = FileOptions::default();
        let opened = match self.place {
            Place::NewFile => FileDevice::create(&self.path, self.size_bytes, &options),
            Place::ExistingFile { .. } => {
                let resize = FileOptions { resize_bytes: Some(self.size_bytes), ..options };
                FileDevice::open(&self.path, &resize)
            }
            Place::BlockDevice { .. } => FileDevice::open(&self.path, &options),
        };
        opened.map_err(|e| open_failed(&e))
    }

    /// Removes a new file whose volume could not be written.
    pub fn remove_new(&self) {
        if self.place == Place::NewFile {
            // The failure that led here is reported; a second one would add nothing.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// What an interrupted copy leaves, in words.
    #[must_use]
    pub fn remains(&self) -> String {
        match self.place {
            Place::NewFile => format!("{} is removed", self.path.display()),
            Place::ExistingFile { .. } | Place::BlockDevice { .. } => {
                format!("{} is a volume with a part of the tree", self.path.display())
            }
        }
    }

    /// Whether the present content must be wiped first.
    #[must_use]
    pub fn wipe(&self) -> bool {
        matches!(self.place, Place::ExistingFile { wipe: true } | Place::BlockDevice { wipe: true })
    }

    /// Identity of the image file, to leave it out of a tree that contains it.
    #[must_use]
    pub fn source_id(&self) -> Option<(u64, u64)> {
        let meta = std::fs::metadata(&self.path).ok()?;
        meta.is_file().then(|| (meta.dev(), meta.ino()))
    }
}

/// The failure for a device that cannot be opened, with the matching exit code.
#[must_use]
pub fn open_failed(error: &OpenError) -> Failure {
    match error {
        OpenError::InUse { path, .. } => Failure::new(Exit::Refused, error.to_string())
            .advise(format!("unmount it first: firn umount {}", path.display())),
        OpenError::Claimed(_) => Failure::new(Exit::Refused, error.to_string()),
        OpenError::Denied { .. } => {
            Failure::failed(error.to_string()).advise("check its owner and mode, or run as root")
        }
        OpenError::TooLarge { path, size_bytes } => Failure::failed(format!(
            "the file system that holds {} does not support a file of {}",
            path.display(),
            Bytes(*size_bytes)
        ))
        .advise(
            "choose a smaller --size, or put the image on a file system that supports larger files, such as XFS or Btrfs",
        ),
        OpenError::NotFound(_) => Failure::failed(error.to_string()).advise("check the path"),
        _ => Failure::failed(error.to_string()),
    }
}

fn whole_sectors(bytes: u64) -> u64 {
    bytes / u64::from(firnfs_format::SECTOR_BYTES) * u64::from(firnfs_format::SECTOR_BYTES)
}

fn open_to_look(path: &Path) -> Done<File> {
    File::open(path).map_err(|e| Failure::io("cannot open", path, &e))
}

fn length(mut file: &File, path: &Path) -> Done<u64> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::End(0)).map_err(|e| Failure::io("cannot read", path, &e))
}

/// Examines the present content and refuses to overwrite a mounted device; refuses known content unless forced.
fn look(path: &Path, force: bool) -> Done<Content> {
    let mounted = target::mount_of_image(path)
        .map_err(|e| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e))?;
    if let Some(mount) = mounted {
        return Err(Failure::new(
            Exit::Refused,
            format!("{} is mounted on {}", path.display(), mount.mountpoint.display()),
        )
        .advise("unmount it first"));
    }
    let file = open_to_look(path)?;
    let content = signatures::identify(&file, length(&file, path)?)
        .map_err(|e| Failure::io("cannot read", path, &e))?;
    match content {
        Content::Known(name) if !force => Err(refuse(path, name)),
        content => Ok(content),
    }
}

fn refuse(path: &Path, what: &str) -> Failure {
    Failure::new(Exit::Refused, format!("{} holds {what}", path.display()))
        .advise("--force overwrites it; make sure that this is the right path")
}
