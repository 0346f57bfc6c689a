//! Helpers of mount(8), mkfs(8) and fsck(8): a link of their name to the `firn` program does what they do.
//!
//! - `mount.firnfs`: for type `firnfs` mount(8) runs `/sbin/mount.firnfs SOURCE DIRECTORY [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`.
//! - `mount.fuse.firnfs` (images) and `mount.fuseblk.firnfs` (devices): the same for the types in the table of mounts. That is where
//!   mount(8) takes the type from for a remount of what no line of fstab(5) names.
//! - `firnfs`: without `mount.fuse.firnfs`, mount.fuse3 runs `firnfs SOURCE DIRECTORY -o OPTIONS` from the PATH for that type.
//! - `mkfs.firnfs`: for type `firnfs` mkfs(8) runs it with the options that it does not know itself.
//! - `fsck.firnfs`: fsck(8) runs it with `-a` at boot. A mount recovers by itself, so that does nothing, as with XFS and btrfs.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The words of the command line; a helper's words are translated to those of `firn`.
pub fn command_line(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let name = words.first().and_then(|first| Path::new(first).file_name()).and_then(OsStr::to_str);
    let (command, translate): (&str, fn(&str) -> Word) = match name {
        Some("firnfs" | "mount.firnfs" | "mount.fuse.firnfs" | "mount.fuseblk.firnfs") => ("mount", of_mount),
        Some("mkfs.firnfs") => ("mkfs", of_mkfs),
        Some("fsck.firnfs") => ("fsck", of_fsck),
        _ => return words,
    };
    let mut given = words.split_off(1).into_iter();
    words.push(command.into());
    while let Some(word) = given.next() {
        match word.to_str().map_or(Word::Same, translate) {
            Word::Same => words.push(word),
            Word::Becomes(options) => words.extend(options.iter().map(OsString::from)),
            Word::Nothing => {}
            Word::NothingWithValue => drop(given.next()),
        }
    }
    words
}

/// What becomes of a helper's word.
enum Word {
    Same,
    Becomes(&'static [&'static str]),
    /// It has no meaning here.
    Nothing,
    /// Neither has the next one, which is its value.
    NothingWithValue,
}

fn of_mount(word: &str) -> Word {
    match word {
        // Sloppy options, no mtab: nothing to do.
        "-s" | "-n" => Word::Nothing,
        "-t" | "-N" => Word::NothingWithValue,
        _ => Word::Same,
    }
}

fn of_mkfs(word: &str) -> Word {
    match word {
        "-L" => Word::Becomes(&["--label"]),
        "-f" => Word::Becomes(&["--force"]),
        "-q" | "-v" | "-V" => Word::Nothing,
        "-t" => Word::NothingWithValue,
        _ => Word::Same,
    }
}

fn of_fsck(word: &str) -> Word {
    match word {
        "-a" | "-p" => Word::Becomes(&["--at-boot"]),
        "-f" => Word::Becomes(&["--full"]),
        "-r" => Word::Becomes(&["--repair"]),
        "-y" => Word::Becomes(&["--repair", "--yes"]),
        "-n" | "-M" | "-R" | "-T" | "-V" | "-v" => Word::Nothing,
        // `-C` or `-C5`: where to show progress.
        word if word.starts_with("-C") => Word::Nothing,
        _ => Word::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        let words = command_line(text.split(' ').map(OsString::from));
        words.iter().map(|w| w.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_helper_mounts_and_the_words_of_firn_itself_are_unchanged() {
        let helped = line("/sbin/mount.firnfs a.img /mnt -n -s -t firnfs -o ro,noatime -v");
        assert_eq!(helped, "/sbin/mount.firnfs mount a.img /mnt -o ro,noatime -v");
        assert_eq!(line("firnfs a.img /mnt -o rw"), "firnfs mount a.img /mnt -o rw");
        let remounted = line("/sbin/mount.fuseblk.firnfs /dev/sdb1 /mnt -s -o rw,remount,blksize=4096");
        assert_eq!(remounted, "/sbin/mount.fuseblk.firnfs mount /dev/sdb1 /mnt -o rw,remount,blksize=4096");
        assert!(line("mount.fuse.firnfs a.img /mnt -o remount").starts_with("mount.fuse.firnfs mount a.img"));
        assert_eq!(line("/usr/bin/firn stat -n firnfs"), "/usr/bin/firn stat -n firnfs");
    }

    #[test]
    fn the_helpers_of_mkfs_and_fsck_understand_what_those_programs_pass_on() {
        assert_eq!(
            line("mkfs.firnfs -V -L data -f /dev/sdb1"),
            "mkfs.firnfs mkfs --label data --force /dev/sdb1"
        );
        assert_eq!(line("fsck.firnfs -a -T -C0 /dev/sdb1"), "fsck.firnfs fsck --at-boot /dev/sdb1");
        assert_eq!(line("fsck.firnfs -f -p a.img"), "fsck.firnfs fsck --full --at-boot a.img");
        assert_eq!(
            line("fsck.firnfs -y a.img --zero-lost"),
            "fsck.firnfs fsck --repair --yes a.img --zero-lost"
        );
    }
}
