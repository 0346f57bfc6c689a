//! Takes snapshots: of any mounted directory (`posix`), and of volumes of firnfs (`volume`), which know more of themselves than a mount shows.

mod posix;
#[cfg(test)]
mod tests;
mod volume;

pub use posix::{Mapper, directory};
pub use volume::{Facts, Located, Mapped, entries, image};
