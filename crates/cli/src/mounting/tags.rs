//! `LABEL=` and `UUID=` as the volume to mount: finds the block device by its superblock, as blkid(8) would if it knew firnfs.
//!
//! Callers: `open`, `udev`. It reads 4 KiB of each block device that the kernel lists.

use crate::dump::views::uuid_text;
use crate::failure::{Done, Exit, Failure};
use firnfs_format::ffs;
use firnfs_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_PRIMARY_AT, Superblock};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where the kernel lists block devices.
const PARTITIONS: &str = "/proc/partitions";

/// What a volume is called.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Tag {
    Label(String),
    Uuid(String),
}

/// The tag that a source on the command line is, with or without quotation marks; `None` for a path.
fn tag_of(source: &Path) -> Option<Tag> {
    let (name, value) = source.to_str()?.split_once('=')?;
    let value = value.trim_matches('"');
    match name {
        "LABEL" => Some(Tag::Label(value.to_owned())),
        "UUID" => Some(Tag::Uuid(value.to_lowercase())),
        _ => None,
    }
}

/// The path of the volume that the command line names. A path is returned as it is.
///
/// # Errors
/// No device has the tag, or several have.
pub fn resolve(source: &Path) -> Done<PathBuf> {
    let Some(tag) = tag_of(source) else { return Ok(source.to_owned()) };
    let table = std::fs::read_to_string(PARTITIONS)
        .map_err(|e| Failure::io("cannot read", Path::new(PARTITIONS), &e))?;
    let found: Vec<PathBuf> = devices(&table).filter(|device| has(device, &tag)).collect();
    the_only(source, found)
}

fn the_only(source: &Path, mut found: Vec<PathBuf>) -> Done<PathBuf> {
    let source = source.display();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::new(Exit::NotAVolume, format!("no block device that can be read has {source}"))
            .advise("only root can read most devices; an image file must be given by its path")),
        _ => {
            let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
            Err(Failure::new(Exit::Refused, format!("{source} is on several devices: {}", names.join(", ")))
                .advise("give the one that you mean by its path"))
        }
    }
}

/// The devices of `/proc/partitions`: after two lines of heading, the name is the fourth word.
fn devices(table: &str) -> impl Iterator<Item = PathBuf> {
    let names = table.lines().skip(2).filter_map(|line| line.split_whitespace().nth(3));
    // The kernel writes `!` for `/` in names.
    names.map(|name| Path::new("/dev").join(name.replace('!', "/")))
}

/// The words that name the volumes on the block devices that can be read, for completion.
pub fn all() -> Vec<String> {
    words(devices(&std::fs::read_to_string(PARTITIONS).unwrap_or_default()))
}

fn words(devices: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let named = devices.filter_map(|device| names_of(&device));
    let both = |(label, uuid): (String, [u8; 16])| {
        let label = (!label.is_empty()).then(|| format!("LABEL={label}"));
        label.into_iter().chain([format!("UUID={}", uuid_text(&uuid))])
    };
    named.flat_map(both).collect()
}

/// Whether a device holds a volume of that name.
fn has(device: &Path, tag: &Tag) -> bool {
    names_of(device).is_some_and(|(label, uuid)| match tag {
        Tag::Label(wanted) => label == *wanted,
        Tag::Uuid(wanted) => uuid_text(&uuid) == *wanted,
    })
}

/// Label and uuid of the volume on a device; `None` if there is none, or the device cannot be read.
pub(super) fn names_of(device: &Path) -> Option<(String, [u8; 16])> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    File::open(device).and_then(|file| file.read_exact_at(&mut bytes, SUPERBLOCK_PRIMARY_AT)).ok()?;
    // Both kinds have their first superblock in the same place.
    let log = Superblock::decode(&bytes).map(|sb| (sb.label, sb.uuid));
    let fast = || ffs::Superblock::decode(&bytes[..ffs::superblock::SUPERBLOCK_BYTES]);
    log.or_else(|_| fast().map(|sb| (sb.label, sb.uuid))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_device::{Device, MemDevice};
    use firnfs_format::TimeNs;

    const SIZE_BYTES: u64 = 16 << 20;

    /// An image with a volume of that label; its uuid consists of `byte`.
    fn image(directory: &Path, label: &str, byte: u8) -> PathBuf {
        let device = MemDevice::new(SIZE_BYTES);
        let mkfs = firnfs::lfs::MkfsOptions {
            size_bytes: SIZE_BYTES,
            block_bytes: 4096,
            segment_bytes: 256 << 10,
            physical_block_bytes: 4096,
            inline_max_bytes: 2048,
            label: label.to_owned(),
            uuid: [byte; 16],
            hash_key: [1, 2],
            now: TimeNs(0),
            root_owner: (0, 0),
        };
        firnfs_manage::format(&device, &mkfs).unwrap();
        written(directory, &format!("log-{byte}"), &device)
    }

    fn written(directory: &Path, name: &str, device: &MemDevice) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, &*device.read(0, 64 << 10).unwrap()).unwrap();
        path
    }

    #[test]
    fn volumes_of_both_kinds_are_found_by_label_and_uuid_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let log = image(directory.path(), "backup disk", 0xab);
        let device = MemDevice::new(SIZE_BYTES);
        let mkfs = firnfs::ffs::MkfsOptions {
            label: "fast".to_owned(),
            uuid: [0xcd; 16],
            ..firnfs::ffs::MkfsOptions::with_size(SIZE_BYTES)
        };
        firnfs_manage::format_ffs(&device, &mkfs).unwrap();
        let fast = written(directory.path(), "fast", &device);
        let is = |device: &Path, tag: &str| has(device, &tag_of(Path::new(tag)).unwrap());
        assert!(is(&log, "LABEL=backup disk") && is(&log, "LABEL=\"backup disk\""));
        assert!(is(&log, "UUID=ABABABAB-abab-abab-abab-abababababab"));
        assert!(is(&fast, "LABEL=fast") && is(&fast, "UUID=cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd"));
        assert!(!is(&log, "LABEL=backup") && !is(&fast, "LABEL=") && !is(&log, "UUID=ab"));
        assert!(!is(Path::new("/proc/version"), "LABEL=") && !is(Path::new("/nowhere"), "LABEL=fast"));
        let nameless = image(directory.path(), "", 0xef);
        let offered = words([log, PathBuf::from("/nowhere"), nameless].into_iter());
        let [first, second] = ["ab", "ef"].map(|byte| {
            format!("UUID={}", ["4", "2", "2", "2", "6"].map(|n| byte.repeat(n.parse().unwrap())).join("-"))
        });
        assert_eq!(offered, ["LABEL=backup disk".to_owned(), first, second]);
    }

    #[test]
    fn a_path_stays_and_a_tag_must_name_one_device() {
        assert_eq!(resolve(Path::new("disk=1.img")).unwrap(), Path::new("disk=1.img"));
        let several = vec![PathBuf::from("/dev/a"), PathBuf::from("/dev/b")];
        let refused = the_only(Path::new("LABEL=x"), several).unwrap_err();
        assert!(refused.message.contains("/dev/a, /dev/b"), "{refused}");
        assert_eq!(
            the_only(Path::new("LABEL=x"), Vec::new()).unwrap_err().exit as u8,
            Exit::NotAVolume as u8
        );
        let table =
            "major minor  #blocks  name\n\n   7        0      65536 loop0\n 104        1   1 cciss!c0d0p1\n";
        let listed: Vec<PathBuf> = devices(table).collect();
        assert_eq!(listed, [Path::new("/dev/loop0"), Path::new("/dev/cciss/c0d0p1")]);
    }
}
