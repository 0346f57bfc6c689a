//! Room: the open operation (`operation`), what it needs (`demand`), live space (`space`), clean segments and who may take them
//! (`segments`), marks that somebody sets (`marks`), and when and how much the cleaner works (`throttle`).

pub(in crate::lfs) mod demand;
pub(in crate::lfs) mod marks;
pub(in crate::lfs) mod operation;
pub(in crate::lfs) mod segments;
pub(in crate::lfs) mod space;
pub(in crate::lfs) mod throttle;
