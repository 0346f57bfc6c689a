//! How much is run: as the papers did, or less.

use super::load::Load;
use super::scheme::Host;
use crate::hardware::comparison::Scale;
use crate::hardware::lifetime::Span;

/// Sizes of files in KiB for USENIX'95's figures 3 to 6: 1 KB to 32 MB.
pub(super) const FILES_KIB: [u64; 16] =
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Files, bytes and repetitions.
    pub scale: Scale,
}

impl Size {
    /// As in the papers.
    pub const PAPER: Self = Self { scale: Scale::PAPER };
    /// For a quick look: fewer and smaller files. Rows that depend on sizes are left out.
    pub const SHORT: Self = Self { scale: Scale::SHORT };

    /// True for the papers' sizes.
    #[must_use]
    pub fn is_paper(&self) -> bool {
        *self == Self::PAPER
    }

    /// Numbers and sizes of files on a host: no paper gives any for the solid-state disk, and fewer show the same.
    pub(super) fn on(&self, host: Host) -> Scale {
        if host == Host::Ssd { Scale::SHORT } else { self.scale }
    }

    /// The months of File System Aging.
    pub(super) fn span(&self) -> Span {
        if self.is_paper() { Span::PAPER } else { Span::SHORT }
    }

    /// TPC-B on a disk that is full to so many percent; "call the database 256 MB and the disk system 512 MB" (USENIX'95 4).
    pub(super) fn load(&self, percent: u64) -> Load {
        // Smaller ones have no room for what the log withholds beside 85%.
        let shrink = if self.is_paper() { 1 } else { 2 };
        Load {
            volume_bytes: (512 << 20) / shrink,
            account_bytes: self.scale.account_bytes / shrink,
            percent,
            transactions: self.scale.transactions,
        }
    }

    /// TPC-B on a disk that the account file alone fills to so many percent.
    pub(super) fn load_alone(&self, percent: u64) -> Load {
        let load = self.load(percent);
        let volume_bytes = (load.account_bytes * 100 / percent).next_multiple_of(1 << 20);
        Load { volume_bytes, ..load }
    }

    /// Size of the volume in bytes, and counted passes, of the Andrew benchmark.
    pub(super) fn andrew(&self) -> (u64, u32) {
        if self.is_paper() { (512 << 20, 10) } else { (256 << 20, 2) }
    }

    /// Sizes of files for USENIX'95's figures 3 to 6, in KiB.
    pub(super) fn files_kib(&self) -> &'static [u64] {
        if self.is_paper() { &FILES_KIB } else { &FILES_KIB[..13] }
    }
}
