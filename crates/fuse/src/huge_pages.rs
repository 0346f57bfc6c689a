//! Memory in huge pages, for what a disk transfers: a piece of memory that lies in one page takes it less time than one in many
//! (docs/decisions/0126). The only `unsafe` code of the crate besides `uring::ring`.
//!
//! Callers: the transports, for the memory of answers. Each buffer takes a whole page once its first byte is used, so they bound how many
//! they have.

#![allow(unsafe_code, reason = "the kernel is told of memory by address; see `zeroed`")]

use firnfs_device::AlignedBuf;
use rustix::mm::{Advice, madvise};

/// A huge page.
const PAGE_BYTES: usize = 2 << 20;

/// A buffer of at least so many zero bytes that fills whole huge pages. If the kernel has none, it works as well, only more slowly.
pub(crate) fn zeroed(len_bytes: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed_at_multiple(len_bytes.next_multiple_of(PAGE_BYTES), PAGE_BYTES);
    // SAFETY: the range is that of the buffer, and the advice changes nothing of what is in it.
    let advised = unsafe { madvise(buf.as_mut_ptr().cast(), buf.len(), Advice::LinuxHugepage) };
    if let Err(errno) = advised {
        tracing::debug!("no huge pages: {errno}");
    }
    buf
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of the mapping that has that address.
    fn flags_of_mapping(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_it = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(start), Some(end))) = range.map(|(start, end)| (number(start), number(end))) {
                is_it = (start..end).contains(&address);
            }
            if is_it && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.to_owned();
            }
        }
        panic!("no mapping has {address:#x}");
    }

    #[test]
    fn a_buffer_fills_huge_pages_and_the_kernel_knows() {
        for (len_bytes, has_bytes) in
            [(1, PAGE_BYTES), (1 << 20, PAGE_BYTES), (PAGE_BYTES + 1, 2 * PAGE_BYTES)]
        {
            let buf = zeroed(len_bytes);
            assert_eq!((buf.len(), buf.as_ptr().align_offset(PAGE_BYTES)), (has_bytes, 0));
            if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
                let flags = flags_of_mapping(buf.as_ptr() as usize);
                assert!(flags.split_whitespace().any(|flag| flag == "hg"), "{flags}");
            }
        }
    }
}
