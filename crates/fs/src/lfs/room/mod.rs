//! Room: what an operation needs (`demand`), live space and clean segments (`space`), and how much the cleaner does about them,
//! and when (`throttle`).

pub(in crate::lfs) mod demand;
pub(in crate::lfs) mod space;
pub(in crate::lfs) mod throttle;
