//! What the rest of the log is written in: where things are on the device (`geometry`), kinds of bytes (`kinds`), counts
//! since mkfs (`counters`), and damaged things that background work leaves alone (`damage`).

pub(in crate::lfs) mod counters;
pub(in crate::lfs) mod damage;
pub(in crate::lfs) mod geometry;
pub(in crate::lfs) mod kinds;
