//! Space, in two currencies: live space, the only source of ENOSPC, and log room, a reason to wait.

use super::Lfs;
use super::checkpoint::CHECKPOINT_SEGMENTS;
use super::geometry::Geometry;
use firnfs_format::InodeNo;

/// Part of a segment that summaries, padding and unused ends take at most, in 1/1024.
const SUMMARY_SHARE: u64 = 48;
/// Over-provision: segments in 1/100 that users cannot fill, so that cleaning stays cheap.
const OVER_PROVISION_PERCENT: u64 = 7;
/// Log bytes that saying of an inode that it was freed takes at most.
const FREED_BYTES: u64 = 64;
/// Clean segments that users' writes leave to checkpoints and the cleaner.
pub(super) const RESERVE_SEGMENTS: u64 = CHECKPOINT_SEGMENTS as u64 + 6;
/// Fewest segments a volume can have: the reserve, two open logs, and something to live in.
pub const MIN_SEGMENTS: u64 = RESERVE_SEGMENTS + 14;

/// Live bytes that users can fill on a volume of that geometry.
#[must_use]
pub(super) fn capacity_bytes(geo: &Geometry) -> u64 {
    let over = (geo.segments * OVER_PROVISION_PERCENT).div_ceil(100).max(RESERVE_SEGMENTS + 6);
    geo.segments.saturating_sub(over) * usable_bytes(geo)
}

/// Bytes of a segment that can hold live data.
fn usable_bytes(geo: &Geometry) -> u64 {
    u64::from(geo.segment_bytes) * (1024 - SUMMARY_SHARE) / 1024
}

impl Lfs {
    /// True if that many more live bytes fit.
    pub(super) fn has_space(&self, growth_bytes: u64) -> bool {
        self.live_bytes + self.imap.unwritten_bytes() + growth_bytes <= capacity_bytes(&self.geo)
    }

    /// Dirty bytes, as they will go to the log.
    pub(super) fn dirty_bytes(&self) -> u64 {
        let freed = self.freed.len() as u64 * FREED_BYTES;
        self.shelf.cache.dirty_bytes() + self.dirty_record_bytes + freed
    }

    /// True if what is dirty and `more_bytes` can be laid out without touching the reserve.
    pub(super) fn has_log_room(&self, more_bytes: u64) -> bool {
        let free = self.usage.ready(self.durable_epoch).saturating_sub(RESERVE_SEGMENTS);
        let tables = self.changed_table_bytes().saturating_sub(self.table_reserve_bytes());
        self.dirty_bytes() + more_bytes + tables <= free * usable_bytes(&self.geo) * 3 / 4
    }

    /// Bytes of table blocks that the next checkpoint has to write, those above the leaves apart.
    pub(super) fn changed_table_bytes(&self) -> u64 {
        (self.imap.changed_blocks() + self.usage.changed_blocks()) * u64::from(self.geo.block_bytes)
    }

    /// Bytes of table blocks that the reserve has room for: a checkpoint is due before there are more.
    pub(super) fn table_reserve_bytes(&self) -> u64 {
        u64::from(self.geo.segment_bytes) * CHECKPOINT_SEGMENTS as u64 / 2
    }

    /// Space as statfs shows it; the over-provision is not in it.
    pub(super) fn space_now(&self) -> crate::store::Space {
        let total_bytes = capacity_bytes(&self.geo);
        let free_bytes = total_bytes.saturating_sub(self.live_bytes + self.imap.unwritten_bytes());
        crate::store::Space {
            total_bytes,
            free_bytes,
            inodes_used: self.imap.used,
            // The smallest file takes a sector for its record and its entry in the map.
            inodes_free: (free_bytes / (512 + 32)).min(u64::MAX - InodeNo::FIRST_USER.0),
        }
    }
}
