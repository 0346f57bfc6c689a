//! The page firn-recover(7), "How to get a file back": short steps for somebody who has just lost something.

use clap_mangen::roff::{Roff, roman};
use std::io::{self, Write};

/// Lines that begin with blanks are commands; empty lines end a paragraph.
const SECTIONS: [(&str, &str); 8] = [
    (
        "NAME",
        "firn-recover - how to get a file back from a firnfs volume",
    ),
    (
        "FIRST",
        "Leave the volume mounted. Nothing that a kept state has is lost while you read this: states stay until somebody deletes \
snapshots, or until retention drops automatic ones. /mnt stands for your mountpoint here.

Which states are there?

  firn log /mnt",
    ),
    (
        "I DELETED A FILE OR A DIRECTORY",
        "See what was deleted in the directory that held it, and give it back:

  firn undelete /mnt/letters
  firn undelete /mnt/letters offer.odt

If the directory is gone as well, name it all the same, or take the one above it. If you do not remember where the file was:

  firn restore /mnt --deleted \"*offer*\"",
    ),
    (
        "I OVERWROTE A FILE",
        "List its versions, look at an old one, and put it beside the present one:

  firn log /mnt/letters/offer.odt
  firn restore /mnt/letters/offer.odt --at \"2 hours ago\" --to /mnt/letters/offer-old.odt

Without --to and with --force it takes the place of the present one.",
    ),
    (
        "MANY FILES ARE WRONG",
        "See what changed, take a snapshot of the present so that nothing gets worse, and put the old directory beside the present one:

  firn diff /mnt/work@yesterday
  firn snapshot /mnt as-it-is-now
  firn restore /mnt/work --at yesterday --to /mnt/work-yesterday

The whole volume, with a snapshot of the present to come back to:

  firn rollback /mnt yesterday",
    ),
    (
        "I WANT TO LOOK FIRST",
        "Each state is a directory that no listing shows. Look into it with any program; nothing there can be changed:

  ls /mnt/.firn/history/
  cp -a /mnt/.firn/history/before-upgrade/letters /tmp/

Of an image that is not mounted:

  firn mount disk.img@before-upgrade /past",
    ),
    (
        "WHEN IT DOES NOT WORK",
        "\"no state has it\": no kept state was made while the file was there. If a backup has it, take it from there.

\"Permission denied\": the past is open to you only as far as it was then and the present is. Ask the owner, or root.

\"is there already\": nothing is overwritten. Name another place with --to, or add --force.

The volume cannot be mounted or read: that is damage, and another page, firn-fsck(1). Copy the image first.

No space left: history takes space too. Restore to another disk with --to.",
    ),
    (
        "SEE ALSO",
        "firn-log(1), firn-undelete(1), firn-restore(1), firn-diff(1), firn-rollback(1), firn-snapshot(1), firn-mount(1), firn-fsck(1)",
    ),
];

/// Writes the page.
///
/// # Errors
/// As writing fails.
pub fn render(out: &mut dyn Write) -> io::Result<()> {
    let mut page = Roff::new();
    page.control("TH", ["FIRN-RECOVER", "7", "", concat!("firn ", env!("CARGO_PKG_VERSION")), "firnfs"]);
    for (title, text) in SECTIONS {
        page.control("SH", [title]);
        for line in text.lines() {
            if line.is_empty() {
                page.control("PP", [""; 0]);
            } else if line.starts_with(' ') {
                page.control("nf", [""; 0]).text([roman(line)]).control("fi", [""; 0]);
            } else {
                page.text([roman(line)]);
            }
        }
    }
    page.to_writer(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_page_is_one_that_firn_understands() {
        let commands = SECTIONS.iter().flat_map(|(_, text)| text.lines());
        let mut checked = 0;
        for line in commands.filter(|line| line.trim().starts_with("firn ")) {
            // As a shell would split it.
            let quoted = line.trim().split('"').enumerate();
            let words: Vec<&str> = quoted
                .flat_map(|(n, part)| if n % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
                .collect();
            if let Err(error) = crate::help::command().try_get_matches_from(&words) {
                panic!("{line}: {error}");
            }
            checked += 1;
        }
        assert!(checked > 9, "{checked}");
    }
}
