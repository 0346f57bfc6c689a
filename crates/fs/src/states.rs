//! Inodes of older states: a store that retains states of the volume gives them numbers beside those of the present, so that everything
//! that reads an inode of the present reads one of the past.
//!
//! A number has the *view* in its upper bits: 0 is the present, others are older states that somebody looks into, in the order in
//! which they were first looked into ([`crate::store::Store::look_into`]). Below it is the number that the inode had in that state.
//! Directories of a state name its inodes by their numbers then; [`within`] turns these into numbers of the directory's state.
//!
//! The last view is no state: its inodes are made up by `vfs::history`.
//!
//! In the present, a number has the *branch* below the view: 0 is the volume itself, others are its clones
//! ([`crate::store::Store::branches`]). Entries and `..` of directories name inodes of their own branch, without it; a store keeps numbers
//! with it.
//!
//! Callers: `ufs::dir` (what directories name), `vfs`, `lfs::past::views`, `lfs::tables::branches`.

use firnfs_format::InodeNo;
use firnfs_format::checkpoint::BRANCH_BITS;

/// Bits of a number below the view: no store has more inodes.
const NUMBER_BITS: u32 = 48;
/// The view of inodes that are in no state.
const MADE_UP: u16 = 0x7fff;
/// Views that a store may use: 1 to this.
pub const VIEWS_MAX: u16 = MADE_UP - 1;

/// The view of an inode; 0 is the present.
#[must_use]
pub fn view_of(ino: InodeNo) -> u16 {
    (ino.0 >> NUMBER_BITS) as u16
}

/// True for an inode that nobody can change: it is older than the present, or made up.
#[must_use]
pub fn is_past(ino: InodeNo) -> bool {
    view_of(ino) != 0
}

/// True for an inode that is in no state.
#[must_use]
pub fn is_made_up(ino: InodeNo) -> bool {
    view_of(ino) == MADE_UP
}

/// A made-up inode.
#[must_use]
pub const fn made_up(number: u64) -> InodeNo {
    InodeNo((MADE_UP as u64) << NUMBER_BITS | number)
}

/// The number that an inode has in its own state.
#[must_use]
pub fn number_of(ino: InodeNo) -> InodeNo {
    InodeNo(ino.0 & ((1 << NUMBER_BITS) - 1))
}

/// The inode that has that number in a view.
#[must_use]
pub fn in_view(view: u16, ino: InodeNo) -> InodeNo {
    InodeNo(u64::from(view) << NUMBER_BITS | number_of(ino).0)
}

/// The branch of an inode; 0 is the volume itself.
#[must_use]
pub const fn branch_of(ino: InodeNo) -> u8 {
    (ino.0 >> BRANCH_BITS) as u8
}

/// The number that an inode has within its branch.
#[must_use]
pub const fn local(ino: InodeNo) -> InodeNo {
    InodeNo(ino.0 & ((1 << BRANCH_BITS) - 1))
}

/// The inode of the present that has that number in a branch.
#[must_use]
pub const fn in_branch(branch: u8, ino: InodeNo) -> InodeNo {
    InodeNo((branch as u64) << BRANCH_BITS | local(ino).0)
}

/// The inode to which an entry of `dir` refers, which has that number there.
#[must_use]
pub fn within(dir: InodeNo, ino: InodeNo) -> InodeNo {
    InodeNo((dir.0 - local(dir).0) | local(ino).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_a_state_leads_to_inodes_of_that_state() {
        let dir = in_view(7, InodeNo::ROOT);
        let file = within(dir, InodeNo(20));
        assert_eq!((view_of(file), number_of(file)), (7, InodeNo(20)));
        assert_eq!(within(InodeNo::ROOT, InodeNo(20)), InodeNo(20));
        let dir = in_branch(3, InodeNo::ROOT);
        assert_eq!(within(dir, InodeNo(20)), in_branch(3, InodeNo(20)));
        assert_eq!((branch_of(dir), local(dir)), (3, InodeNo::ROOT));
        assert!(is_past(file) && !is_past(InodeNo((1 << NUMBER_BITS) - 1)));
        assert!(is_made_up(made_up(1)) && !is_made_up(in_view(VIEWS_MAX, InodeNo(1))));
    }
}
