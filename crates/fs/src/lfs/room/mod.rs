//! Room: the open operation (`operation`), what it needs (`demand`), live space (`space`), clean segments and for whom they are (`segments`), and how
//! much the cleaner does about them, and when (`throttle`).

pub(in crate::lfs) mod demand;
pub(in crate::lfs) mod operation;
pub(in crate::lfs) mod segments;
pub(in crate::lfs) mod space;
pub(in crate::lfs) mod throttle;
