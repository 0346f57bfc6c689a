//! The files of a recording. A block that the disk refuses is lost and counted, and the file stays whole.
//!
//! Invariants:
//! - A file never holds a part of a block for longer than the write takes: what a failed write left is cut off.
//! - The mark of the end needs no new room: if there is none, it replaces the last block, whose records are then lost.
//! - The directory is opened once, so a part is made where the first one was, whatever is mounted there since.

use super::RecordError;
use firnfs_workload::pack::Position;
use firnfs_workload::{Block, End, Header, Packer};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What is on disk.
#[derive(Clone, Default, Debug)]
pub struct Standing {
    /// Records that the disk refused.
    pub lost: u64,
    /// Bytes in all parts.
    pub file_bytes: u64,
    /// Files.
    pub parts: u32,
    /// Why the last write failed, if it did.
    pub trouble: Option<String>,
}

/// See the module's head.
pub struct Parts {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
    part_bytes: u64,
    header: Header,
    packer: Packer,
    part: Part,
    /// Bytes of the parts before.
    before_bytes: u64,
    /// No new part before this one has so many bytes: the last attempt failed.
    rotate_at_bytes: u64,
    /// Records that the workers lost before the last block.
    lost_before: u64,
    standing: Standing,
}

/// The file that is being written.
struct Part {
    file: File,
    len_bytes: u64,
    at: Position,
    /// Where the last block begins, in bytes, and the position before it.
    last: Option<(u64, Position)>,
}

impl Parts {
    /// Makes the first file.
    pub fn create(
        path: &Path,
        part_bytes: u64,
        header: Header,
        device: Option<u64>,
    ) -> Result<Self, RecordError> {
        let failed = |reason: io::Error| RecordError::Io { path: path.to_owned(), reason };
        let name = path.file_name().ok_or_else(|| failed(io::Error::other("it names no file")))?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(parent, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&directory).map_err(|errno| failed(errno.into()))?;
        if device == Some(stat.st_dev) {
            return Err(RecordError::OnItself(path.to_owned()));
        }
        let part = Part::create(&directory, &name, &header).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists(path.to_owned()),
            _ => failed(error),
        })?;
        let packer = Packer::new().map_err(failed)?;
        let standing = Standing { file_bytes: part.len_bytes, parts: 1, ..Standing::default() };
        Ok(Self {
            directory,
            name,
            path: path.to_owned(),
            part_bytes,
            header,
            packer,
            part,
            before_bytes: 0,
            rotate_at_bytes: part_bytes,
            lost_before: 0,
            standing,
        })
    }

    /// Goes on in another file with the same content.
    #[cfg(test)]
    pub fn replace_file(&mut self, file: File) {
        let mut bytes = vec![0; self.part.len_bytes as usize];
        let old = std::fs::File::open(&self.path).unwrap();
        old.read_exact_at(&mut bytes, 0).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        self.part.file = file;
    }

    /// What is on disk.
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Writes a block before which the workers have lost `lost_before` records in all.
    pub fn write(&mut self, block: &Block, lost_before: u64) {
        if self.part.len_bytes >= self.rotate_at_bytes {
            self.rotate();
        }
        self.lost_before = lost_before;
        self.part.at.lost = lost_before + self.standing.lost;
        let written = self.part.append(&mut self.packer, block);
        if let Err(error) = &written {
            self.standing.lost += u64::from(block.count());
            if self.standing.trouble.is_none() {
                tracing::warn!("recording to {}: records are lost: {error}", self.path.display());
            }
        }
        self.standing.trouble = written.err().map(|error| error.to_string());
        self.standing.file_bytes = self.before_bytes + self.part.len_bytes;
    }

    /// Goes on in a new file. If none can be made, this one grows on, and the next attempt is after an eighth of a part.
    fn rotate(&mut self) {
        let mut name = self.name.clone();
        name.push(format!(".{}", self.standing.parts));
        let header = Header { part: self.standing.parts, ..self.header.clone() };
        match Part::create(&self.directory, &name, &header) {
            Ok(next) => {
                self.end_part(End::Continued);
                self.before_bytes += self.part.len_bytes;
                self.part = next;
                self.standing.parts += 1;
                self.rotate_at_bytes = self.part_bytes;
            }
            Err(error) => {
                tracing::warn!("recording to {}: no next part: {error}", self.path.display());
                self.rotate_at_bytes = self.part.len_bytes + (self.part_bytes / 8).max(1);
            }
        }
    }

    /// Ends the last file; `lost` is what the workers have lost in all.
    pub fn finish(&mut self, lost: u64, end: End) {
        self.lost_before = lost;
        self.end_part(end);
        self.standing.file_bytes = self.before_bytes + self.part.len_bytes;
    }

    fn end_part(&mut self, end: End) {
        self.part.at.lost = self.lost_before + self.standing.lost;
        let Err(refused) = self.part.end(&mut self.packer, end) else { return };
        let again = match self.part.last.take() {
            Some((at_bytes, before)) => {
                let dropped = self.part.at.records - before.records;
                self.standing.lost += dropped;
                self.part.len_bytes = at_bytes;
                self.part.at = Position { lost: self.lost_before + self.standing.lost, ..before };
                self.part.end(&mut self.packer, end)
            }
            None => Err(refused),
        };
        if let Err(error) = again {
            tracing::warn!("recording to {}: no mark of the end: {error}", self.path.display());
            self.standing.trouble = Some(error.to_string());
        }
    }
}

impl Part {
    /// A new file with its header; none is left if that fails.
    fn create(directory: &OwnedFd, name: &OsStr, header: &Header) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // Names of files are nobody else's business.
        let file = File::from(rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?);
        let header = header.encode();
        if let Err(error) = file.write_all_at(&header, 0) {
            let _left_empty: Result<(), Errno> = rustix::fs::unlinkat(directory, name, AtFlags::empty());
            return Err(error);
        }
        Ok(Self { file, len_bytes: header.len() as u64, at: Position::default(), last: None })
    }

    fn append(&mut self, packer: &mut Packer, block: &Block) -> io::Result<()> {
        let frame = packer.block(block, self.at);
        if let Err(error) = self.file.write_all_at(frame, self.len_bytes) {
            // If even this fails, the next block is written over the rest.
            let _cut = self.file.set_len(self.len_bytes);
            return Err(error);
        }
        self.last = Some((self.len_bytes, self.at));
        self.len_bytes += frame.len() as u64;
        self.at.records += u64::from(block.count());
        self.at.end_ns = self.at.end_ns.max(block.end_ns());
        Ok(())
    }

    /// Writes the mark of the end here, and makes the file durable.
    fn end(&mut self, packer: &mut Packer, end: End) -> io::Result<()> {
        let frame = packer.end(self.at, end);
        self.file.write_all_at(frame, self.len_bytes)?;
        self.len_bytes += frame.len() as u64;
        self.file.set_len(self.len_bytes)?;
        self.file.sync_data()
    }
}
