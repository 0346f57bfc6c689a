//! INIT: which capabilities this daemon requests from the kernel, and why.
//!
//! The number of round trips decides the speed of a FUSE file system. So OPEN, RELEASE and FLUSH are avoided altogether (ENOSYS
//! once each). The kernel caches names, absent names, attributes, links and listings for ever, keeps pages across opens, and
//! gets attributes with the listing. Requests are up to 1 MiB. The daemon clears set-id bits, so that no GETXATTR precedes each
//! write.

use super::{Adapter, Handled, Settings};
use crate::wire::abi::{self, init};
use crate::wire::{Reply, abi::InitOut};
use firnfs::engine::Engine;
use rustix::io::Errno;

/// Largest WRITE and READ, in bytes. Larger ones are no faster, but take memory in every worker.
pub const MAX_WRITE_BYTES: u32 = 1 << 20;

/// Largest WRITE, in bytes, where the kernel collects writes: it sends [`MAX_BACKGROUND`] of them at a time, and over io_uring fills as many buffers before
/// the first is looked at. So many of 1 MiB fit no processor's cache and took 64 MiB of fresh memory: 0.83 of the time for a new file of 100 MiB, 0.88 for
/// an overwrite in sequence, 1.00 at random (docs/bench/limits.md).
const COLLECTED_WRITE_BYTES: u32 = 128 << 10;

/// Requests that the kernel may have under way in the background (read-ahead, direct I/O, write-back).
const MAX_BACKGROUND: u16 = 64;
const PAGE_BYTES: u32 = 4096;

/// Requested if the kernel has it. Without ASYNC_DIO: after an asynchronous direct write the kernel would leave in the page
/// cache the old data that a reader put there meanwhile.
const WANTED: u64 = init::ASYNC_READ
    | init::EXPORT_SUPPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::PARALLEL_DIROPS
    | init::POSIX_ACL
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::EXPLICIT_INVAL_DATA
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::DIRECT_IO_ALLOW_MMAP;

/// The result of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Protocol minor of the kernel.
    pub kernel_minor: u32,
    /// Capabilities in force ([`abi::init`]).
    pub flags: u64,
    /// SETXATTR has its longer form.
    pub setxattr_ext: bool,
    /// OPEN may be answered with ENOSYS.
    pub no_open: bool,
    /// OPENDIR may be answered with ENOSYS.
    pub no_opendir: bool,
}

impl Agreed {
    pub(crate) fn with_kernel(minor: u32, offered: u64, settings: Settings) -> Self {
        let extra = if settings.writeback_cache { init::WRITEBACK_CACHE } else { 0 };
        let flags = offered & (WANTED | extra);
        Self {
            kernel_minor: minor,
            flags,
            setxattr_ext: flags & init::SETXATTR_EXT != 0,
            no_open: offered & init::NO_OPEN_SUPPORT != 0 && !settings.exact_atime,
            no_opendir: offered & init::NO_OPENDIR_SUPPORT != 0 && !settings.exact_atime,
        }
    }
}

impl<S: Engine> Adapter<S> {
    pub(super) fn init(
        &self,
        (major, minor): (u32, u32),
        max_readahead: u32,
        offered: u64,
        reply: &mut Reply,
    ) -> Handled {
        let agree = || *self.agreed.get_or_init(|| Agreed::with_kernel(minor, offered, self.settings));
        answer_init((major, minor), max_readahead, agree, reply)
    }

    /// OPEN and OPENDIR: after one ENOSYS, the kernel opens by itself, and sends no RELEASE either. It then keeps cached pages
    /// and listings; for kernels that need these requests the flags have the same effect.
    pub(super) fn open(&self, directory: bool, reply: &mut Reply) -> Handled {
        answer_open(self.agreed.get(), self.settings, directory, reply)
    }

    /// Flags that say what the kernel may keep between opens, and that it need not report a close.
    pub(super) fn open_flags(&self, directory: bool) -> u32 {
        open_flags(self.settings, directory)
    }
}

/// See [`Adapter::open`].
pub(super) fn answer_open(
    agreed: Option<&Agreed>,
    settings: Settings,
    directory: bool,
    reply: &mut Reply,
) -> Handled {
    if agreed.is_some_and(|a| if directory { a.no_opendir } else { a.no_open }) {
        return Err(Errno::NOSYS);
    }
    reply.put(&abi::OpenOut { open_flags: open_flags(settings, directory), ..Default::default() });
    Ok(())
}

fn open_flags(settings: Settings, directory: bool) -> u32 {
    let unseen = !settings.exact_atime;
    match directory {
        true if unseen => abi::FOPEN_KEEP_CACHE | abi::FOPEN_CACHE_DIR,
        true => 0,
        false if unseen => abi::FOPEN_KEEP_CACHE | abi::FOPEN_NOFLUSH,
        false => abi::FOPEN_NOFLUSH,
    }
}

/// Answers INIT; `agree` is called if the kernel's protocol can be spoken.
pub(crate) fn answer_init(
    (major, minor): (u32, u32),
    max_readahead: u32,
    agree: impl FnOnce() -> Agreed,
    reply: &mut Reply,
) -> Handled {
    if major > abi::MAJOR {
        // The kernel then tries again with our major.
        reply.put(&InitOut { major: abi::MAJOR, minor: abi::MINOR, ..Default::default() });
        return Ok(());
    }
    if major < abi::MAJOR || minor < abi::OLDEST_MINOR {
        tracing::error!("the kernel speaks FUSE {major}.{minor}; 7.{} is needed", abi::OLDEST_MINOR);
        return Err(Errno::PROTO);
    }
    let agreed = agree();
    let collects = agreed.flags & init::WRITEBACK_CACHE != 0;
    reply.put(&InitOut {
        major: abi::MAJOR,
        minor: abi::MINOR.min(minor),
        max_readahead: max_readahead.max(MAX_WRITE_BYTES),
        flags: agreed.flags as u32,
        flags2: (agreed.flags >> 32) as u32,
        max_background: MAX_BACKGROUND,
        congestion_threshold: MAX_BACKGROUND / 4 * 3,
        max_write: if collects { COLLECTED_WRITE_BYTES } else { MAX_WRITE_BYTES },
        time_gran: 1,
        max_pages: (MAX_WRITE_BYTES / PAGE_BYTES) as u16,
        ..Default::default()
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITEBACK: Settings = Settings { writeback_cache: true, exact_atime: false };

    #[test]
    fn nothing_is_taken_that_the_kernel_does_not_offer() {
        let offered = init::ASYNC_READ | init::NO_OPEN_SUPPORT;
        let agreed = Agreed::with_kernel(31, offered, WRITEBACK);
        assert_eq!(agreed.flags, init::ASYNC_READ);
        assert!(agreed.no_open && !agreed.no_opendir && !agreed.setxattr_ext);
    }

    #[test]
    fn the_writeback_cache_is_taken_only_when_asked_for() {
        assert_eq!(Agreed::with_kernel(45, u64::MAX, Settings::default()).flags & init::WRITEBACK_CACHE, 0);
        assert_ne!(Agreed::with_kernel(45, u64::MAX, WRITEBACK).flags & init::WRITEBACK_CACHE, 0);
    }

    #[test]
    fn collected_writes_are_smaller_but_reads_are_not() {
        for (settings, write_bytes) in
            [(WRITEBACK, COLLECTED_WRITE_BYTES), (Settings::default(), MAX_WRITE_BYTES)]
        {
            let mut reply = Reply::new(4096);
            let agree = || Agreed::with_kernel(45, u64::MAX, settings);
            answer_init((abi::MAJOR, 45), 128 << 10, agree, &mut reply).unwrap();
            let field = |at: usize, len| {
                reply.payload()[at..at + len].iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte))
            };
            let (read_ahead, write, pages) = (field(8, 4), field(20, 4), field(28, 2));
            assert_eq!(
                (read_ahead, write, pages * PAGE_BYTES),
                (MAX_WRITE_BYTES, write_bytes, MAX_WRITE_BYTES)
            );
        }
    }

    #[test]
    fn asynchronous_direct_io_is_never_requested() {
        assert_eq!(Agreed::with_kernel(45, u64::MAX, Settings::default()).flags & init::ASYNC_DIO, 0);
    }

    #[test]
    fn opens_reach_the_daemon_if_access_times_must_be_exact() {
        let agreed = Agreed::with_kernel(45, u64::MAX, Settings { exact_atime: true, ..Settings::default() });
        assert!(!agreed.no_open && !agreed.no_opendir);
    }
}
