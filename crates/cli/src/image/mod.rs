//! Reads a volume that is not mounted: superblock, checkpoints, the two tables and inodes (`table`), segments (`segment`).
//!
//! It depends only on `format`, not on the file system, so that it can also show volumes that the file system refuses.
//! It shows the state of the newest valid checkpoint; log that was written later appears only in segments. It verifies
//! every block against the checksum in its pointer. Callers: `dump`, `stat`, `df`.

pub mod segment;
pub mod table;

use crate::failure::{Done, Exit, Failure};
use crate::sizes::Bytes;
use firnfs::lfs::Geometry;
use firnfs_format::checkpoint::{Checkpoint, UNKNOWN_FEATURES};
use firnfs_format::superblock::{CHECKPOINT_SLOT_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, Superblock};
use firnfs_format::{BlockPtr, DecodeError, PtrKind, SECTOR_BYTES, SectorAddr};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A volume opened for reading.
#[derive(Debug)]
pub struct Image {
    file: File,
    path: PathBuf,
    /// The superblock, from the first good copy.
    pub superblock: Superblock,
    /// Which copies of the superblock are good: primary, second, last.
    pub good_copies: [bool; 3],
    /// Both checkpoint slots, each decoded or with the reason why it could not be.
    pub slots: [Result<Checkpoint, DecodeError>; 2],
}

impl Image {
    /// Opens an image file or block device.
    ///
    /// # Errors
    /// It cannot be read, is no firnfs volume, has another version, or is shorter than the volume.
    pub fn open(path: &Path) -> Done<Self> {
        let mut file = File::open(path).map_err(|e| Failure::io("cannot open", path, &e))?;
        let device_bytes = file.seek(SeekFrom::End(0)).map_err(|e| Failure::io("cannot read", path, &e))?;
        let copies: Vec<Result<Superblock, DecodeError>> = Superblock::places(device_bytes)
            .into_iter()
            .map(|at_bytes| {
                let bytes = read_lossy(&file, at_bytes, SUPERBLOCK_BYTES);
                Superblock::decode(&bytes)
            })
            .collect();
        let good_copies = std::array::from_fn(|copy| copies[copy].is_ok());
        let primary = read_lossy(&file, firnfs_format::superblock::SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_BYTES);
        let superblock = match copies.iter().flatten().next() {
            Some(superblock) => superblock.clone(),
            None => return Err(not_a_volume(path, &primary, copies)),
        };
        if device_bytes < superblock.size_bytes {
            return Err(Failure::new(
                Exit::NotAVolume,
                format!(
                    "{} is truncated: the volume has {}, the file {}",
                    path.display(),
                    Bytes(superblock.size_bytes),
                    Bytes(device_bytes)
                ),
            )
            .advise("copy it again from an intact source"));
        }
        let slots = superblock.checkpoint_at_bytes.map(|at_bytes| {
            let bytes = read_lossy(&file, at_bytes, CHECKPOINT_SLOT_BYTES as usize);
            Checkpoint::decode(&bytes, &superblock.uuid)
        });
        Ok(Self { file, path: path.to_owned(), superblock, good_copies, slots })
    }

    /// The newest valid checkpoint.
    ///
    /// # Errors
    /// Both slots are bad, or one has features that this version does not know.
    pub fn checkpoint(&self) -> Done<&Checkpoint> {
        if let Some(newer) =
            self.slots.iter().filter_map(|slot| slot.as_ref().err()).find(|e| e.what == UNKNOWN_FEATURES)
        {
            let message =
                format!("{} uses features of a newer version of firn ({newer})", self.path.display());
            return Err(Failure::new(Exit::NotAVolume, message).advise("use that version"));
        }
        self.slots.iter().flatten().max_by_key(|checkpoint| checkpoint.epoch).ok_or_else(|| {
            let reasons: Vec<String> =
                self.slots.iter().filter_map(|slot| slot.as_ref().err()).map(ToString::to_string).collect();
            self.damaged(format_args!("both checkpoints are bad ({})", reasons.join("; ")))
        })
    }

    /// The path of the image.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Place of an address on the device, in bytes.
    #[must_use]
    pub fn device_place(&self, addr: SectorAddr) -> u64 {
        self.geometry().device_bytes(addr)
    }

    /// Where segments lie.
    fn geometry(&self) -> Geometry {
        Geometry::new(&self.superblock, self.superblock.size_bytes)
    }

    /// "segment 12 sector 40".
    #[must_use]
    pub fn place_name(&self, addr: SectorAddr) -> String {
        let sectors = u64::from(self.superblock.segment_bytes / SECTOR_BYTES);
        format!("segment {} sector {}", addr.0 / sectors, addr.0 % sectors)
    }

    /// Reads the target of a pointer and verifies its checksum; padded with zeros to a block.
    ///
    /// # Errors
    /// The device fails, or the bytes differ from those that were written.
    pub fn read(&self, ptr: &BlockPtr, what: &str) -> Done<Vec<u8>> {
        let mut bytes = vec![0; self.superblock.block_bytes as usize];
        match ptr.kind {
            PtrKind::Hole | PtrKind::Reserved => return Ok(bytes),
            PtrKind::Unknown(kind) => {
                return Err(self.damaged(format_args!("{what} has a pointer of unknown kind {kind}")));
            }
            PtrKind::Plain => {}
        }
        let stored = self.read_at(self.device_place(ptr.addr), ptr.stored_bytes() as usize)?;
        let crc = firnfs_format::crc32c(&stored);
        if crc != ptr.crc {
            return Err(self.damaged(format_args!(
                "{what} at {} has checksum {crc:08x}, its pointer says {:08x}",
                self.place_name(ptr.addr),
                ptr.crc
            )));
        }
        bytes.resize(bytes.len().max(stored.len()), 0);
        bytes[..stored.len()].copy_from_slice(&stored);
        Ok(bytes)
    }

    /// Reads raw bytes.
    ///
    /// # Errors
    /// The device fails or ends early.
    pub fn read_at(&self, at_bytes: u64, len_bytes: usize) -> Done<Vec<u8>> {
        let mut bytes = vec![0; len_bytes];
        self.file.read_exact_at(&mut bytes, at_bytes).map_err(|e| {
            Failure::io(&format!("cannot read {len_bytes} bytes at byte {at_bytes} of"), &self.path, &e)
        })?;
        Ok(bytes)
    }

    /// A failure that names the damaged structure.
    pub fn damaged(&self, what: impl std::fmt::Display) -> Failure {
        Failure::new(Exit::NotAVolume, format!("{} is damaged: {what}", self.path.display()))
            .advise("check it with `firn fsck`, or restore it from a copy")
    }
}

/// As many bytes as can be read; decoding then reports the missing rest.
fn read_lossy(file: &File, at_bytes: u64, len_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; len_bytes];
    let mut done = 0;
    while done < len_bytes {
        match file.read_at(&mut bytes[done..], at_bytes + done as u64) {
            Ok(n) if n > 0 => done += n,
            _ => break,
        }
    }
    bytes.truncate(done);
    bytes
}

/// The most helpful of three reasons: a copy with the right magic tells more than one without.
fn not_a_volume(path: &Path, primary: &[u8], copies: Vec<Result<Superblock, DecodeError>>) -> Failure {
    let reasons: Vec<DecodeError> = copies.into_iter().filter_map(Result::err).collect();
    let version = reasons.iter().find(|reason| reason.what == "format version");
    if let Some(reason) = version {
        return Failure::new(
            Exit::NotAVolume,
            format!(
                "{} has format version {}, this firn reads {}",
                path.display(),
                reason.found,
                reason.expected
            ),
        )
        .advise("use a firn that knows this version");
    }
    match reasons.into_iter().next() {
        Some(reason) if primary.starts_with(&SUPERBLOCK_MAGIC) => {
            Failure::new(Exit::NotAVolume, format!("{}: all superblocks are bad ({reason})", path.display()))
                .advise("try `firn fsck --salvage`, or restore it from a copy")
        }
        _ => Failure::new(Exit::NotAVolume, format!("{} is not a firnfs volume", path.display()))
            .advise("make one with `firn mkfs`, or check the path"),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
