//! The page firn-recover(7), "How to get a file back": short steps for somebody who has just lost something.

use clap_mangen::roff::{Roff, roman};
use std::io::{self, Write};

/// Lines that begin with blanks are commands; empty lines end a paragraph.
const SECTIONS: [(&str, &str); 11] = [
    (
        "NAME",
        "firn-recover - how to get a file back from a firnfs volume",
    ),
    (
        "FIRST",
        "Leave the volume mounted, and stop programs that write to it. It keeps states of its past: snapshots stay until somebody \
deletes them, but of automatic states only some stay after an hour, and the oldest go when the volume is full.

/mnt stands for your mountpoint here; these commands show where volumes are mounted, and which states there are:

  firn df
  firn log /mnt

Give a state that may have your file a name, so that it stays. Times are like \"10 min ago\", \"yesterday 14:00\", \"2026-11-24 \
13:45\"; the newest state at that time or before counts:

  firn snapshot /mnt --hold \"10 min ago\" rescue

Nothing on this page overwrites or removes a file, except where it says so.",
    ),
    (
        "I DELETED A FILE OR A DIRECTORY",
        "See what was deleted in the directory that held it; give one thing back, or all:

  firn undelete /mnt/letters
  firn undelete /mnt/letters offer.odt
  firn undelete /mnt/letters --all

If the directory is gone as well, name it all the same, or give it back from the one above it:

  firn undelete /mnt letters

An odd name is shown as bash and zsh read it: type $'two\\nlines' as it stands. After -- a name may begin with a dash.",
    ),
    (
        "I DO NOT KNOW WHERE IT WAS",
        "It may have been moved, not deleted. If it is nowhere, the second command gives back everything that was deleted and has \
such a name, each where it was:

  find /mnt -name \"*offer*\"
  firn restore /mnt --deleted \"*offer*\"",
    ),
    (
        "I OVERWROTE A FILE",
        "List its versions. The last column has names of states, NAME below; look at the file in one of them. Then put the right version beside \
the present one, by a name or a time:

  firn log /mnt/letters/offer.odt
  less /mnt/.firn/history/NAME/letters/offer.odt
  firn restore /mnt/letters/offer.odt --at \"1 hour ago\" --to /mnt/old.odt

Without --to and with --force it takes the place of the present one, which is gone then if no state has it.",
    ),
    (
        "MANY FILES ARE WRONG",
        "See what changed, keep the present so that nothing gets worse, and put the old directory beside the present one:

  firn diff /mnt/work@yesterday
  firn snapshot /mnt as-it-is-now
  firn restore /mnt/work --at yesterday --to /mnt/work-yesterday

The whole volume: this removes and overwrites what is new, but makes a snapshot of the present first, and says how to come back \
to it. Programs must not write meanwhile.

  firn rollback /mnt yesterday",
    ),
    (
        "I WANT TO LOOK FIRST",
        "Each state is a directory that no listing shows. Look into it with any program; nothing there can be changed:

  ls /mnt/.firn/history/
  cp -a /mnt/.firn/history/NAME/letters /tmp/

Of an image that is not mounted, read-only:

  firn log disk.img
  mkdir /tmp/past
  firn mount disk.img@yesterday /tmp/past
  cp -a /tmp/past/letters /tmp/
  firn umount /tmp/past",
    ),
    (
        "WHEN IT DOES NOT WORK",
        "\"no state has\", \"nothing ... was deleted\": no kept state was made while the file was there. If a backup has it, take it \
from there.

\"has no state as old as\": take a state that firn log shows, by its name.

\"was not deleted\": there is such a file, perhaps overwritten. See above.

\"is there already\": nothing is overwritten. Name another place with --to.

\"Permission denied\": the past is open to you only as far as it was then and the present is. Ask the owner, or root.

\"No space left on device\": put it on another disk with --to /tmp.

\"keeps no history\", \"no states are kept\": this volume has no past. Take a backup.

The volume cannot be mounted or read: that is damage, and another page, firn-fsck(1). Copy the image first.",
    ),
    (
        "FILES",
        "Each state of the past, as a directory of the mount that no listing shows:

  /mnt/.firn/history/NAME",
    ),
    (
        "EXAMPLES",
        "A letter was deleted an hour ago. Keep the state that has it, see what was deleted, and give it back:

  firn snapshot /mnt --hold \"1 hour ago\" rescue
  firn undelete /mnt/letters
  firn undelete /mnt/letters offer.odt",
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

    #[test]
    fn no_command_of_the_page_is_broken_by_a_terminal_of_80_columns() {
        // man(1) indents by 7 columns.
        let commands =
            SECTIONS.iter().flat_map(|(_, text)| text.lines()).filter(|line| line.starts_with(' '));
        let long: Vec<&str> = commands.filter(|line| line.chars().count() > 73).collect();
        assert!(long.is_empty(), "{long:#?}");
    }
}
