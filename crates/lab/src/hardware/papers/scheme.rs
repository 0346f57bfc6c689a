//! The file systems and machines of the papers, each with its name, its style in drawings and its setup.

use crate::error::LabError;
use crate::hardware::{Cleaner, FastLayout, Profile, Setup, StoreKind, find_disk, find_machine};
use crate::plot::Style;
use firnfs::clean::Medium;
use firnfs::ffs::Variant;

/// A machine and its disk, as a paper describes them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Host {
    /// Sprite LFS 5.1: Sun-4/260, Wren IV.
    Sprite,
    /// USENIX'95 2: SPARCstation II, DSP 3105; LFS with blocks of 4 KB, FFS with 8 KB.
    Usenix,
    /// USENIX'95 3: the same; all with blocks of 8 KB.
    UsenixEight,
    /// USENIX'95 4: the same; all with blocks of 4 KB.
    UsenixFour,
    /// BSD-LFS 5: HP 9000/380, HP 97560; all with blocks of 4 KB.
    Hp,
    /// A processor of 1996 and the model of a solid-state disk; all with blocks of 4 KB.
    Ssd,
}

/// A file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Scheme {
    /// The log in the profile of 1993.
    Lfs,
    /// The same, cleaned as firnfs does, by a thread of its own.
    Today,
    /// The log with its defaults.
    Modern,
    /// One block at a time with gaps: SunOS, m1r2, and BSD-LFS's FFS.
    Ffs,
    /// Clusters with gaps between them, as BSD-LFS's EFS.
    Efs,
    /// Clusters with a gap of two blocks.
    M8R2,
    /// Clusters without gaps.
    M8R0,
}

/// The raw disk.
pub(super) const RAW: Style = Style(4);
/// Sprite LFS beside BSD-LFS.
pub(super) const SPRITE_LFS: Style = Style(8);
/// SunOS, also beside BSD-LFS's FFS.
pub(super) const SUN_OS: Style = Style(7);
/// The log without its cleaner.
pub(super) const WITHOUT_CLEANER: Style = Style(9);
/// The log with small segments.
pub(super) const SMALL_SEGMENTS: Style = Style(10);

impl Scheme {
    /// Its style in every drawing of a host.
    pub fn style(self, host: Host) -> Style {
        match (self, host) {
            (Self::Lfs, _) => Style(0),
            (Self::Today, _) => Style(6),
            (Self::Ffs, Host::Sprite) => SUN_OS,
            (Self::Ffs, _) => Style(1),
            (Self::Efs | Self::M8R2, _) => Style(2),
            (Self::M8R0, _) => Style(3),
            (Self::Modern, _) => Style(5),
        }
    }

    /// Its name on a host.
    pub fn name(self, host: Host) -> &'static str {
        match (self, host) {
            (Self::Lfs, _) => "LFS (1993)",
            (Self::Today, _) => "LFS (1993, today's cleaner)",
            (Self::Modern, _) => "LFS (modern)",
            (Self::Ffs, Host::Sprite) => "SunOS (m1)",
            (Self::Ffs, Host::Hp) => "FFS",
            (Self::Ffs, _) => "FFS-m1r2",
            (Self::Efs, _) => "EFS",
            (Self::M8R2, _) => "FFS-m8r2",
            (Self::M8R0, _) => "FFS-m8r0",
        }
    }

    /// How it is set up on a host.
    ///
    /// # Errors
    /// None with the files that come along.
    pub fn setup(self, host: Host) -> Result<Setup, LabError> {
        let profile = if self == Self::Modern { Profile::Modern } else { Profile::Of1993 };
        let setup = match host {
            Host::Sprite => Setup::sprite_lfs(profile)?,
            Host::Usenix => Setup::usenix_95(profile)?,
            Host::UsenixEight => Setup { log_block_bytes: 8192, ..Setup::usenix_95(profile)? },
            Host::UsenixFour => Setup { fast: FastLayout::of_blocks(4096), ..Setup::usenix_95(profile)? },
            Host::Hp => Setup::bsd_lfs(profile)?,
            Host::Ssd => Setup {
                cpu: find_machine("pentium-pro")?,
                disk: find_disk("ssd")?,
                fast: FastLayout::of_blocks(4096),
                cleaner: Cleaner::Informed(Medium::HEADLESS),
                ..Setup::sprite_lfs(profile)?
            },
        };
        let gap_blocks = match host {
            // USENIX'95 2 deduces it from SunOS's bandwidth.
            Host::Sprite => Some(1),
            // A rotdelay of 4 ms is three blocks of 4 KB: one block in four is a file's (BSD-LFS, figure 11).
            Host::Hp => Some(3),
            Host::Usenix | Host::UsenixEight | Host::UsenixFour | Host::Ssd => None,
        };
        let store = match self {
            Self::Lfs | Self::Today | Self::Modern => StoreKind::Log,
            Self::Ffs => StoreKind::Fast(Variant::M1R2),
            Self::Efs => StoreKind::Fast(Variant::Efs),
            Self::M8R2 => StoreKind::Fast(Variant::M8R2),
            Self::M8R0 => StoreKind::Fast(Variant::M8R0),
        };
        let fast = FastLayout { gap_blocks, ..setup.fast };
        let has_log_thread = setup.has_log_thread || self == Self::Today;
        Ok(Setup { store, fast, has_log_thread, ..setup })
    }
}

impl Host {
    /// How long its disk takes to read: average seek and half a turn for a request, the bus for its bytes.
    pub fn medium(self) -> Medium {
        let (request_ms, mb_per_s) = match self {
            Self::Sprite => (17.5 + 8.3, 1.3),
            Self::Usenix | Self::UsenixEight | Self::UsenixFour => (9.5 + 5.5, 2.3),
            Self::Hp => (13.0 + 7.5, 1.6),
            Self::Ssd => return Medium::HEADLESS,
        };
        Medium { request_ns: (request_ms * 1e6) as u64, byte_ps: (1e6 / mb_per_s) as u64 }
    }

    /// Machine and disk.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sprite => "Sun-4/260, Wren IV",
            Self::Usenix | Self::UsenixEight | Self::UsenixFour => "SPARCstation II, DSP 3105",
            Self::Hp => "HP 9000/380, HP 97560",
            Self::Ssd => "Pentium Pro, model of a solid-state disk",
        }
    }
}
