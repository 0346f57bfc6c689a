//! Making and opening volumes: `mkfs`; `open` finds the newest checkpoint, `recovery` rolls forward from there along the
//! summaries (`log_tail`), counts the bytes in them (`tally`), and compares the trees of the changed inodes (`compare`,
//! `near`); `evidence` distinguishes the end of the log from damage, `mend` restates the accounts for a repair. All of them
//! read through [`crate::device_reader`], and steps of the store run through `drive`.

mod compare;
mod drive;
pub(in crate::lfs) mod evidence;
mod log_tail;
pub(in crate::lfs) mod mend;
pub(in crate::lfs) mod mkfs;
mod near;
pub(in crate::lfs) mod open;
pub(in crate::lfs) mod recovery;
pub(in crate::lfs) mod tally;
