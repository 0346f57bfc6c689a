//! The vocabulary of the other folders: where things are on the device (`geometry`, `segment_map`), kinds of bytes (`kinds`),
//! live bytes and counts since mkfs (`accounts`, `counters`) and of the last minute (`recent`), summaries as they are read back (`scan`), whether the volume may be
//! written (`standing`), the order of a walk through a state (`places`), why a checkpoint is written (`occasion`), and damaged things that background work leaves alone (`damage`).

pub(in crate::lfs) mod accounts;
pub(in crate::lfs) mod counters;
pub(in crate::lfs) mod damage;
pub(in crate::lfs) mod geometry;
pub(in crate::lfs) mod kinds;
pub(in crate::lfs) mod occasion;
pub(in crate::lfs) mod places;
pub(in crate::lfs) mod recent;
pub mod scan;
pub(in crate::lfs) mod segment_map;
pub(in crate::lfs) mod standing;
