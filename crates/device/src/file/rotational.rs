//! Whether a file or block device lies on a disk with a head, according to the kernel: `queue/rotational` in sysfs.
//!
//! For an image file the answer is that of the device that holds its file system, for a partition that of its whole device.
//! File systems without one device of their own (btrfs, overlayfs, tmpfs, NFS) have no answer, and virtual disks often have a
//! wrong one: a program should let its users decide. Caller: [`super::FileDevice::is_rotational`].

use rustix::fs::{Dev, FileType};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where the kernel describes block devices by their numbers.
const SYSFS: &str = "/sys/dev/block";

/// See the module's head; `None` if the kernel does not say.
pub(super) fn ask(file: &File) -> Option<bool> {
    let stat = rustix::fs::fstat(file).ok()?;
    let is_block_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    ask_sysfs(Path::new(SYSFS), if is_block_device { stat.st_rdev } else { stat.st_dev })
}

fn ask_sysfs(sysfs: &Path, device: Dev) -> Option<bool> {
    let name = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    // The entry is a link; beside a partition's directory is its device's queue.
    let entry: PathBuf = sysfs.join(name).canonicalize().ok()?;
    let said = [entry.as_path(), entry.parent()?]
        .iter()
        .find_map(|place| std::fs::read_to_string(place.join("queue/rotational")).ok())?;
    match said.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A sysfs with a disk 8:0 and its partition 8:1.
    fn sysfs_saying(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("devices/sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::write(disk.join("queue/rotational"), text).unwrap();
        std::os::unix::fs::symlink(&disk, dir.path().join("8:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("sda1"), dir.path().join("8:1")).unwrap();
        dir
    }

    #[test]
    fn a_partition_has_the_answer_of_its_disk() {
        for (text, said) in [("0\n", Some(false)), ("1\n", Some(true)), ("perhaps\n", None)] {
            let sysfs = sysfs_saying(text);
            assert_eq!(ask_sysfs(sysfs.path(), rustix::fs::makedev(8, 0)), said);
            assert_eq!(ask_sysfs(sysfs.path(), rustix::fs::makedev(8, 1)), said);
            assert_eq!(ask_sysfs(sysfs.path(), rustix::fs::makedev(8, 2)), None);
        }
    }

    #[test]
    fn a_file_has_the_answer_of_its_file_systems_disk() {
        let file = tempfile::tempfile().unwrap();
        let device = rustix::fs::fstat(&file).unwrap().st_dev;
        assert_eq!(ask(&file), ask_sysfs(Path::new(SYSFS), device));
    }
}
