//! mount(8) and fstab(5): a link named `firnfs` or `mount.firnfs` to the `firn` program mounts, as mount helpers do.
//!
//! For type `fuse.firnfs` mount(8) runs mount.fuse3, which runs `firnfs SOURCE DIRECTORY -o OPTIONS` from the PATH; for
//! type `firnfs` it runs `/sbin/mount.firnfs SOURCE DIRECTORY [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

const HELPER_NAMES: [&str; 2] = ["firnfs", "mount.firnfs"];

/// The words of the command line; a mount helper's words are translated to those of `firn mount`.
pub fn command_line(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.peekable();
    let is_helper = words
        .peek()
        .and_then(|first| Path::new(first).file_name())
        .and_then(OsStr::to_str)
        .is_some_and(|name| HELPER_NAMES.contains(&name));
    if !is_helper {
        return words.collect();
    }
    let mut line: Vec<OsString> = words.by_ref().take(1).collect();
    line.push("mount".into());
    while let Some(word) = words.next() {
        match word.to_str() {
            // Sloppy options, no mtab: nothing to do.
            Some("-s" | "-n") => {}
            Some("-t" | "-N") => {
                words.next();
            }
            _ => line.push(word),
        }
    }
    line
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
        assert_eq!(line("/usr/bin/firn stat -n firnfs"), "/usr/bin/firn stat -n firnfs");
    }
}
