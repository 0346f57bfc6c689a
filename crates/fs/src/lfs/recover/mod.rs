//! Making and opening volumes: `mkfs`; `open` finds the newest checkpoint, `recovery` rolls forward from there along the
//! summaries and counts what they say (`tally`), `evidence` tells the end of the log from damage, `mend` states accounts anew for a repair.

pub(in crate::lfs) mod evidence;
pub(in crate::lfs) mod mend;
pub(in crate::lfs) mod mkfs;
pub(in crate::lfs) mod open;
pub(in crate::lfs) mod recovery;
pub(in crate::lfs) mod tally;
