//! What years of use cost the Fast File System (USENIX'95, section 5; figure 8).
//!
//! `servers` makes up the months of the paper's six file systems as workloads; `aged` carries one out on the real file system and takes a
//! snapshot on each of four dates; `free_map` makes empty volumes with the same free space. On each of them files of one size are
//! created and read, and on a volume that is really empty. Caller: the figures of the papers.

mod aged;
mod free_map;
mod servers;

#[cfg(test)]
pub(super) use aged::Test;
pub(super) use aged::{Aged, run};
pub(super) use free_map::TENTHS;
pub(super) use servers::{SERVERS, taken_bytes};

/// Dates on which a file system is looked at.
pub(super) const DATES: usize = 4;
/// Sizes of the files that are created and read, in KiB.
pub(super) const SIZES_KIB: [u64; 3] = [8, 64, 1024];
