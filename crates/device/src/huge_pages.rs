//! `HugePages`: memory in pages of 2 MiB, for what a disk transfers. A virtual disk takes a list of pieces of memory with each request, and spends most
//! of its time on the pieces: 1 MiB is 256 pages of the usual size, or a part of one of these (docs/decisions/0126).
//!
//! Whether the kernel has such pages is its own affair: the memory works without them, only more slowly. It is taken page by page as it
//! is used, so a buffer of 1 MiB may take 2.
//!
//! Invariant: the mapping belongs to its `HugePages` alone, from `map` to `drop`. Caller: `buffer`.

#![allow(unsafe_code, reason = "memory is asked for and given back by address")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// See the module's head.
pub(crate) struct HugePages {
    at: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: it owns its memory, as a `Vec<u8>` does.
unsafe impl Send for HugePages {}
// SAFETY: a shared reference only gives shared references to the bytes.
unsafe impl Sync for HugePages {}

impl HugePages {
    /// At least so many zero bytes in whole pages, from the beginning of a page on. `None` if the system has no memory.
    pub fn map(len_bytes: usize) -> Option<Self> {
        let len_bytes = len_bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)?.max(HUGE_PAGE_BYTES);
        // The system gives any address; what is beside whole pages goes back.
        let all_bytes = len_bytes.checked_add(HUGE_PAGE_BYTES)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping wherever the system puts it: nothing else is there.
        let all = unsafe { mmap_anonymous(std::ptr::null_mut(), all_bytes, access, flags) }.ok()?;
        let all = all.cast::<u8>();
        let before = all.align_offset(HUGE_PAGE_BYTES);
        let at = all.wrapping_add(before);
        for (start, len) in [(all, before), (at.wrapping_add(len_bytes), HUGE_PAGE_BYTES - before)] {
            if len > 0 {
                // SAFETY: a part of the new mapping, which nobody has seen. If it stays mapped, it takes addresses alone.
                let _ = unsafe { munmap(start.cast::<c_void>(), len) };
            }
        }
        // SAFETY: the range is mapped, and the advice changes nothing of what is in it. A kernel without such pages refuses it.
        let _ = unsafe { madvise(at.cast::<c_void>(), len_bytes, Advice::LinuxHugepage) };
        Some(Self { at: NonNull::new(at)?, len_bytes })
    }
}

impl Deref for HugePages {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped there, and zeros or what was written since.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for HugePages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has a reference.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len_bytes) }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, of which no reference is left.
        let _ = unsafe { munmap(self.at.as_ptr().cast::<c_void>(), self.len_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of the mapping that has that address.
    fn flags_of_mapping(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_it = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(start), Some(end))) = range.map(|(start, end)| (number(start), number(end))) {
                is_it = (start..end).contains(&address);
            }
            if is_it && let Some(flags) = line.strip_prefix("VmFlags:") {
                return Some(flags.to_owned());
            }
        }
        None
    }

    #[test]
    fn it_fills_whole_pages_and_the_kernel_knows() {
        for (len_bytes, has_bytes) in
            [(0, HUGE_PAGE_BYTES), (1, HUGE_PAGE_BYTES), (HUGE_PAGE_BYTES + 1, 2 * HUGE_PAGE_BYTES)]
        {
            let mut memory = HugePages::map(len_bytes).unwrap();
            assert_eq!((memory.len(), memory.as_ptr().align_offset(HUGE_PAGE_BYTES)), (has_bytes, 0));
            assert!(memory.iter().all(|byte| *byte == 0));
            memory.fill(7);
            assert_eq!((memory[0], memory[has_bytes - 1]), (7, 7));
            if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
                let flags = flags_of_mapping(memory.as_ptr() as usize).unwrap();
                assert!(flags.split_whitespace().any(|flag| flag == "hg"), "{flags}");
            }
        }
        assert!(HugePages::map(usize::MAX).is_none() && HugePages::map(1 << 60).is_none());
    }
}
