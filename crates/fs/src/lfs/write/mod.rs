//! Writing the log: the open logs (`log`), which of them a block goes to (`sorting`, `eras`), the layout of what is dirty
//! (`commit`) and of the tables (`checkpoint`), requests for the device (`jobs`), and the segments that readers keep from being
//! written (`pins`).

pub(in crate::lfs) mod checkpoint;
pub(in crate::lfs) mod commit;
pub(in crate::lfs) mod eras;
pub(in crate::lfs) mod jobs;
pub(in crate::lfs) mod log;
pub(in crate::lfs) mod pins;
pub(in crate::lfs) mod sorting;
