//! Making and opening volumes: `mkfs`; `open` finds the newest checkpoint, `recovery` rolls forward from there along the
//! summaries (`log_tail`), counts what they say (`tally`), and compares the trees of what they changed (`compare`, `near`);
//! `evidence` tells the end of the log from damage, `mend` states accounts anew for a repair. All of them read through
//! [`crate::device_reader`], steps of the store through `drive`.

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
