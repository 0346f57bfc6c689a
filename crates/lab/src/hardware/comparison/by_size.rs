//! USENIX'95, section 3, and File System Aging, section 4: data in files of one size is created, read, overwritten and deleted,
//! in order.
//!
//! A file is written and read in pieces of up to 4 MB. The volume is mounted again before each phase; phases that write end with
//! a sync.

use crate::error::LabError;
use crate::hardware::Setup;
use crate::hardware::rig::{Program, Rig};
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use serde::Serialize;

const PIECE_BYTES: u64 = 4 << 20;

/// The files.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::hardware) struct Files {
    pub file_bytes: u64,
    pub count: u64,
    pub per_directory: u64,
}

/// The four phases, in files a second.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Rates {
    /// Created.
    pub create: f64,
    /// Read.
    pub read: f64,
    /// Overwritten.
    pub overwrite: f64,
    /// Deleted.
    pub delete: f64,
}

/// Runs the phases on a new volume.
///
/// # Errors
/// The volume cannot be made, or the file system failed.
pub(in crate::hardware) fn run(setup: &Setup, files: &Files) -> Result<Rates, LabError> {
    let rig = Rig::new(setup)?;
    let [create, read] = create_and_read(&rig, files)?;
    Ok(Rates { create, read, overwrite: rate(&rig, files, overwrite)?, delete: rate(&rig, files, delete)? })
}

/// Runs the first two phases on a volume that has none of these files, and returns files a second.
///
/// # Errors
/// There is no room, or the file system failed.
pub(in crate::hardware) fn create_and_read(rig: &Rig, files: &Files) -> Result<[f64; 2], LabError> {
    Ok([rate(rig, files, create)?, rate(rig, files, read)?])
}

fn rate(
    rig: &Rig,
    files: &Files,
    phase: fn(&Files, &Program<'_>) -> Result<f64, LabError>,
) -> Result<f64, LabError> {
    Ok(files.count as f64 / rig.run(|program| phase(files, program))?)
}

impl Files {
    /// Calls for each directory, then for each file in it with the number of entries beside it.
    fn each(
        &self,
        mut directory: impl FnMut(&str, u64) -> Result<InodeNo, LabError>,
        mut file: impl FnMut(InodeNo, &str, u64) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut parent = InodeNo::ROOT;
        for number in 0..self.count {
            let entries = number % self.per_directory;
            if entries == 0 {
                let before = number / self.per_directory;
                parent = directory(&directory_name(before), before)?;
            }
            file(parent, &format!("file{number:06}"), entries)?;
        }
        Ok(())
    }

    /// Names of the directories.
    pub fn directory_names(&self) -> impl Iterator<Item = String> {
        (0..self.directories()).map(directory_name)
    }

    fn directories(&self) -> u64 {
        self.count.div_ceil(self.per_directory)
    }

    /// Offset and length of each piece.
    fn pieces(&self) -> impl Iterator<Item = (u64, usize)> + use<> {
        let bytes = self.file_bytes;
        (0..bytes).step_by(PIECE_BYTES as usize).map(move |at| (at, PIECE_BYTES.min(bytes - at) as usize))
    }

    fn write(&self, program: &Program<'_>, ino: InodeNo, content: &[u8]) -> Result<(), LabError> {
        self.pieces().try_for_each(|(at, len)| program.write(ino, at, &content[..len]))?;
        program.close(ino)
    }

    fn content(&self, fill: u8) -> Vec<u8> {
        vec![fill; self.file_bytes.min(PIECE_BYTES) as usize]
    }
}

fn directory_name(number: u64) -> String {
    format!("d{number}")
}

fn create(files: &Files, program: &Program<'_>) -> Result<f64, LabError> {
    let content = files.content(7);
    let start = program.moment();
    let directory = |name: &str, before| program.make(InodeNo::ROOT, name, Kind::Directory, before);
    files.each(directory, |parent, name, entries| {
        let ino = program.make(parent, name, Kind::Regular, entries)?;
        files.write(program, ino, &content)
    })?;
    program.sync()?;
    Ok(program.since(&start).seconds)
}

fn read(files: &Files, program: &Program<'_>) -> Result<f64, LabError> {
    let mut content = files.content(0);
    let start = program.moment();
    let directory = |name: &str, _| program.open(InodeNo::ROOT, name, files.directories());
    files.each(directory, |parent, name, _| {
        let ino = program.open(parent, name, files.per_directory)?;
        for (at, len) in files.pieces() {
            program.read(ino, at, &mut content[..len])?;
            if content[..len].iter().any(|byte| *byte != 7) {
                return Err(LabError::WrongData { path: name.into(), at_bytes: at });
            }
        }
        program.close(ino)
    })?;
    Ok(program.since(&start).seconds)
}

fn overwrite(files: &Files, program: &Program<'_>) -> Result<f64, LabError> {
    let content = files.content(9);
    let start = program.moment();
    let directory = |name: &str, _| program.open(InodeNo::ROOT, name, files.directories());
    files.each(directory, |parent, name, _| {
        let ino = program.open(parent, name, files.per_directory)?;
        files.write(program, ino, &content)
    })?;
    program.sync()?;
    Ok(program.since(&start).seconds)
}

fn delete(files: &Files, program: &Program<'_>) -> Result<f64, LabError> {
    let start = program.moment();
    let directory = |name: &str, _| program.open(InodeNo::ROOT, name, files.directories());
    files.each(directory, |parent, name, entries| {
        program.unlink(parent, name, files.per_directory - entries)
    })?;
    program.sync()?;
    Ok(program.since(&start).seconds)
}
