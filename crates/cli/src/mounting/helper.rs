//! Helpers of mount(8), umount(8), mkfs(8) and fsck(8): a link of their name to the `firn` program does what they do.
//!
//! - `mount.firnfs`: for type `firnfs` mount(8) runs `/sbin/mount.firnfs SOURCE DIRECTORY [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`.
//! - `mount.fuse.firnfs` (images) and `mount.fuseblk.firnfs` (devices): the same for the types in the table of mounts. That is where
//!   mount(8) takes the type from for a remount of what no line of fstab(5) names.
//! - `umount.fuse.firnfs` and `umount.fuseblk.firnfs`: for these types umount(8) runs `UMOUNT DIRECTORY [-flnrv] [-N NAMESPACE] [-t TYPE]`. The
//!   kernel's unmount alone returns before the daemon has closed the volume, and with it the image: the file system that holds the image would
//!   still be busy, at shutdown, too.
//! - `firnfs`: without `mount.fuse.firnfs`, mount.fuse3 runs `firnfs SOURCE DIRECTORY -o OPTIONS` from the PATH for that type.
//! - `mkfs.firnfs`: for type `firnfs` mkfs(8) runs it with the options that it does not know itself.
//! - `fsck.firnfs`: fsck(8) runs it with `-a` at boot. A mount recovers by itself, so that does nothing, as with XFS and btrfs.
//!
//! Letters without a value may share a word: fsck(8) passes on `-fy` as it was given.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The words of the command line; a helper's words are translated to those of `firn`.
pub fn command_line(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let name = words.first().and_then(|first| Path::new(first).file_name()).and_then(OsStr::to_str);
    let helper = match name {
        Some("firnfs" | "mount.firnfs" | "mount.fuse.firnfs" | "mount.fuseblk.firnfs") => &MOUNT,
        Some("umount.fuse.firnfs" | "umount.fuseblk.firnfs") => &UMOUNT,
        Some("mkfs.firnfs") => &MKFS,
        Some("fsck.firnfs") => &FSCK,
        _ => return words,
    };
    let given = words.split_off(1).into_iter();
    let mut given = given.flat_map(|word| apart(word, helper.letters)).peekable();
    words.push(helper.command.into());
    while let Some(word) = given.next() {
        match word.to_str().map_or(Word::Same, helper.translate) {
            Word::Same => words.push(word),
            Word::Takes(option) => words.push(option.into()),
            Word::Flags(flags) => {
                // Twice is as good as once for these programs.
                let new = flags.iter().filter(|flag| !words.iter().any(|word| word == **flag));
                let new: Vec<OsString> = new.map(OsString::from).collect();
                words.extend(new);
            }
            Word::Nothing => {}
            Word::NothingWithValue => drop(given.next()),
            Word::NothingWithNumber => {
                given.next_if(|next| next.to_str().is_some_and(is_number));
            }
        }
    }
    words
}

/// A program that runs a helper, and how it talks to it.
struct Helper {
    /// The command of `firn` that does the work.
    command: &'static str,
    /// Options of one letter without a value.
    letters: &'static str,
    translate: fn(&str) -> Word,
}

const MOUNT: Helper = Helper { command: "mount", letters: "sfnv", translate: of_mount };
const UMOUNT: Helper = Helper { command: "umount", letters: "flnrv", translate: of_umount };
const MKFS: Helper = Helper { command: "mkfs", letters: "fqvV", translate: of_mkfs };
const FSCK: Helper = Helper { command: "fsck", letters: "apfrynMRTVv", translate: of_fsck };

/// What becomes of a helper's word.
enum Word {
    Same,
    Flags(&'static [&'static str]),
    /// An option; the next word is its value.
    Takes(&'static str),
    /// It has no meaning here.
    Nothing,
    /// Neither has the next one, which is its value.
    NothingWithValue,
    /// The same, if the next one is a number.
    NothingWithNumber,
}

/// The letters of a word such as `-fy`, as words of their own; other words stay as they are.
fn apart(word: OsString, letters: &str) -> Vec<OsString> {
    let together = word.to_str().and_then(|word| word.strip_prefix('-')).filter(|rest| rest.len() > 1);
    match together {
        Some(rest) if rest.chars().all(|letter| letters.contains(letter)) => {
            rest.chars().map(|letter| format!("-{letter}").into()).collect()
        }
        _ => vec![word],
    }
}

fn is_number(word: &str) -> bool {
    word.parse::<i32>().is_ok()
}

fn of_mount(word: &str) -> Word {
    match word {
        "-f" => Word::Flags(&["--fake"]),
        "-s" => Word::Flags(&["--sloppy"]),
        // mount(8) has the helper run in the namespace where itself began.
        "-N" => Word::Takes("--namespace"),
        // There is no mtab.
        "-n" => Word::Nothing,
        "-t" => Word::NothingWithValue,
        _ => Word::Same,
    }
}

fn of_umount(word: &str) -> Word {
    match word {
        // People use these if a daemon no longer answers: they do not ask it.
        "-f" => Word::Flags(&["--force"]),
        "-l" => Word::Flags(&["--lazy", "--at-once"]),
        "-N" => Word::Takes("--namespace"),
        "-n" | "-r" | "-v" => Word::Nothing,
        "-t" => Word::NothingWithValue,
        _ => Word::Same,
    }
}

fn of_mkfs(word: &str) -> Word {
    match word {
        "-L" => Word::Takes("--label"),
        "-f" => Word::Flags(&["--force"]),
        "-q" | "-v" | "-V" => Word::Nothing,
        "-t" => Word::NothingWithValue,
        _ => Word::Same,
    }
}

fn of_fsck(word: &str) -> Word {
    match word {
        "-a" | "-p" => Word::Flags(&["--at-boot"]),
        "-f" => Word::Flags(&["--full"]),
        "-r" => Word::Flags(&["--repair"]),
        "-y" => Word::Flags(&["--repair", "--yes"]),
        "-M" => Word::Flags(&["--unless-mounted"]),
        "-n" | "-R" | "-T" | "-V" | "-v" => Word::Nothing,
        // Where to show progress: `-C5`, or `-C 5`.
        "-C" => Word::NothingWithNumber,
        word if word.strip_prefix("-C").is_some_and(is_number) => Word::Nothing,
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
        assert_eq!(helped, "/sbin/mount.firnfs mount a.img /mnt --sloppy -o ro,noatime -v");
        let helped = line("mount.firnfs a.img /mnt -f -v -o ro -N /proc/7/fd/4");
        assert_eq!(helped, "mount.firnfs mount a.img /mnt --fake -v -o ro --namespace /proc/7/fd/4");
        assert_eq!(line("mount.firnfs a.img /mnt -sfnv"), "mount.firnfs mount a.img /mnt --sloppy --fake -v");
        assert_eq!(line("firnfs a.img /mnt -o rw"), "firnfs mount a.img /mnt -o rw");
        let remounted = line("/sbin/mount.fuseblk.firnfs /dev/sdb1 /mnt -s -o rw,remount,blksize=4096");
        assert_eq!(
            remounted,
            "/sbin/mount.fuseblk.firnfs mount /dev/sdb1 /mnt --sloppy -o rw,remount,blksize=4096"
        );
        assert!(line("mount.fuse.firnfs a.img /mnt -o remount").starts_with("mount.fuse.firnfs mount a.img"));
        assert_eq!(line("umount.fuse.firnfs /mnt -nv -t fuse.firnfs"), "umount.fuse.firnfs umount /mnt");
        assert_eq!(
            line("umount.fuseblk.firnfs /mnt -fl -N /proc/7/fd/4"),
            "umount.fuseblk.firnfs umount /mnt --force --lazy --at-once --namespace /proc/7/fd/4"
        );
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
        assert_eq!(line("fsck.firnfs -fy -y -C 5 a.img"), "fsck.firnfs fsck --full --repair --yes a.img");
        assert_eq!(line("fsck.firnfs -nTVM -C a.img"), "fsck.firnfs fsck --unless-mounted a.img");
        assert_eq!(line("mkfs.firnfs -fq -L a a.img"), "mkfs.firnfs mkfs --force --label a a.img");
        assert_eq!(
            line("fsck.firnfs -y a.img --zero-lost"),
            "fsck.firnfs fsck --repair --yes a.img --zero-lost"
        );
    }
}
