//! Two short experiments of Sprite LFS: the writes that two new files take (figure 1), and recovery after a crash (table 3).

use crate::error::LabError;
use crate::hardware::Setup;
use crate::hardware::rig::Rig;
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use firnfs_sim::DiskWork;

const CONTENT: [u8; 4096] = [7; 4096];
const DIRECTORY_FILES: u64 = 100;

/// The disk's work until dir1/file1 and dir2/file2, a block each, are durable; the directories are there already.
///
/// # Errors
/// The volume cannot be made, or the file system failed.
pub(super) fn two_files(setup: &Setup) -> Result<DiskWork, LabError> {
    let rig = Rig::new(setup)?;
    rig.run(|program| {
        for name in ["dir1", "dir2"] {
            let directory = program.make(InodeNo::ROOT, name, Kind::Directory, 0)?;
            // So that the directory has a block and its inode has been written.
            program.make(directory, "before", Kind::Regular, 0)?;
        }
        program.sync()
    })?;
    rig.run(|program| {
        let directories = [program.open(InodeNo::ROOT, "dir1", 2)?, program.open(InodeNo::ROOT, "dir2", 2)?];
        for directory in directories {
            program.open(directory, "before", 1)?;
        }
        let start = program.moment();
        for (directory, name) in directories.into_iter().zip(["file1", "file2"]) {
            let ino = program.make(directory, name, Kind::Regular, 1)?;
            program.write(ino, 0, &CONTENT)?;
            program.close(ino)?;
        }
        program.sync()?;
        Ok(program.since(&start).disk)
    })
}

/// Seconds that a mount takes after a crash, when so many files had been written since the last checkpoint; and seconds that it takes
/// after an unmount.
///
/// # Errors
/// The volume cannot be made or recovered, or the file system failed.
pub(super) fn recovery(setup: &Setup, file_bytes: u64, data_bytes: u64) -> Result<(f64, f64), LabError> {
    let rig = Rig::new(&Setup { without_checkpoints: true, ..setup.clone() })?;
    let content = vec![5; file_bytes as usize];
    let count = (data_bytes / file_bytes).max(1);
    rig.run_and_crash(|program| {
        let mut directory = InodeNo::ROOT;
        for file in 0..count {
            if file % DIRECTORY_FILES == 0 {
                let name = format!("d{}", file / DIRECTORY_FILES);
                directory = program.make(InodeNo::ROOT, &name, Kind::Directory, file / DIRECTORY_FILES)?;
            }
            let ino = program.make(directory, &format!("f{file}"), Kind::Regular, file % DIRECTORY_FILES)?;
            program.write(ino, 0, &content)?;
            program.close(ino)?;
        }
        program.sync()
    })?;
    let crashed = rig.mount_seconds()?;
    let mut read = vec![0; file_bytes as usize];
    // Everything that had been synced is there.
    rig.run(|program| {
        let last = count - 1;
        let name = format!("d{}", last / DIRECTORY_FILES);
        let directory = program.open(InodeNo::ROOT, &name, count.div_ceil(DIRECTORY_FILES))?;
        let ino = program.open(directory, &format!("f{last}"), DIRECTORY_FILES)?;
        program.read(ino, 0, &mut read)?;
        match read == content {
            true => Ok(()),
            false => Err(LabError::WrongData { path: "file".into(), at_bytes: 0 }),
        }
    })?;
    Ok((crashed, rig.mount_seconds()?))
}
