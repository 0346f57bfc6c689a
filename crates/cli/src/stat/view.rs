//! The data that `firn stat` and `firn df` show. The daemon of a mount computes it and sends it over the control socket. For
//! an image that is not mounted, `firn` opens the volume read-only and computes it itself.
//!
//! Field names are part of the command's interface: fields may be added, but existing ones stay.

use super::cleaning::{CleaningView, RoomView};
use super::fast::FastView;
use crate::dump::views::uuid_text;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::ffs::Ffs;
use firnfs::lfs::view::{Durability, SegmentRoom};
use firnfs::lfs::{Counters, Lfs};
use firnfs::mem::MemStore;
use firnfs_format::TimeNs;
use firnfs_format::table::UsageEntry;
use firnfs_lab::calendar::rfc3339;
use firnfs_volume::Volume;
use serde::{Deserialize, Serialize};

/// Buckets of the utilisation histogram: a tenth each.
pub const BUCKETS: usize = 10;

/// Name of the operation on the control socket that returns a [`StatView`].
pub const CONTROL_OP: &str = "stat";

/// Space, as df shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpaceView {
    /// Space for users.
    pub total_bytes: u64,
    /// The unused part of it.
    pub free_bytes: u64,
    /// Inodes in use.
    pub used_inodes: u64,
    /// Inodes that can still be made.
    pub free_inodes: u64,
}

/// The log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LogView {
    /// Volume uuid.
    pub uuid: String,
    /// Label.
    pub label: String,
    /// Time of mkfs.
    pub created: String,
    /// Volume size.
    pub size_bytes: u64,
    /// Block size.
    pub block_bytes: u32,
    /// Segment size.
    pub segment_bytes: u32,
    /// Segments of the volume.
    pub segments: u64,
    /// Those of them that hold data.
    pub segments_in_use: u64,
    /// Live bytes in them.
    pub live_bytes: u64,
    /// Bytes written in them that nothing refers to any more, summaries and padding among them.
    pub dead_bytes: u64,
    /// The part of open segments that their logs have yet to write.
    #[serde(default)]
    pub unwritten_bytes: u64,
    /// Segments in use by utilisation: below 10%, below 20%, ... up to 100%.
    pub utilisation_histogram: [u64; BUCKETS],
    /// Counts since mkfs, by name: those of the format (FORMAT.md), but `segments_cleaned` counts all segments that became clean, as
    /// everywhere, with `segments_cleaned_background` as a further part.
    pub counters: Vec<(String, u64)>,
    /// What was recovered when the volume was opened.
    pub recovery: RecoveryView,
    /// The damage that the mount has met so far, one line each: a lost part of the log, quarantined parts.
    #[serde(default)]
    pub damage: Vec<String>,
    /// Where the bytes of the volume are; null from a daemon of an older version that did not report it.
    #[serde(default)]
    pub room: Option<RoomView>,
    /// The cost of cleaning; null from a daemon of an older version that did not report it.
    #[serde(default)]
    pub cleaning: Option<CleaningView>,
    /// What a power cut would lose now; null if the volume is not mounted for writing, and from a daemon of an older version.
    #[serde(default)]
    pub power_cut: Option<PowerCutView>,
}

/// What a power cut would lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PowerCutView {
    /// It would lose no change older than this; null if it would lose no change.
    pub loses_up_to_ms: Option<u64>,
    /// Changes in memory that are not in the log yet, as they will go there.
    pub dirty_bytes: u64,
    /// Log writes that the device has not completed.
    pub in_flight_bytes: u64,
    /// Time since the last checkpoint was begun, or since the mount before the first.
    pub checkpoint_age_ms: u64,
}

impl From<Durability> for PowerCutView {
    fn from(durability: Durability) -> Self {
        let Durability { volatile_ms, dirty_bytes, in_flight_bytes, checkpoint_age_ms } = durability;
        Self { loses_up_to_ms: volatile_ms, dirty_bytes, in_flight_bytes, checkpoint_age_ms }
    }
}

/// The work of roll-forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RecoveryView {
    /// The previous unmount was clean: there was nothing to do.
    pub cleanly_unmounted: bool,
    /// Partial segments after the checkpoint that were accepted.
    pub rolled_forward_partials: u64,
    /// Their bytes.
    pub rolled_forward_bytes: u64,
    /// Inodes that differ from the checkpoint.
    pub rolled_forward_inodes: u64,
    /// Partial segments of an incomplete batch, which were ignored.
    pub incomplete_partials: u64,
}

/// The whole state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StatView {
    /// Space.
    pub space: SpaceView,
    /// Why the open volume is not writable, or null.
    pub read_only_reason: Option<String>,
    /// The log; null for a memory volume and a Fast File System, which have none.
    pub log: Option<LogView>,
    /// The groups of a Fast File System; null for other volumes.
    #[serde(default)]
    pub ffs: Option<FastView>,
}

/// A store that can report its state.
pub trait Inspect: Engine + Sized {
    /// Reports the state of the log.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    fn log_view(volume: &Volume<Self>) -> Result<Option<LogView>, FsError>;

    /// Reports the groups of a Fast File System.
    ///
    /// # Errors
    /// `Io`.
    fn fast_view(_volume: &Volume<Self>) -> Result<Option<FastView>, FsError> {
        Ok(None)
    }
}

impl Inspect for MemStore {
    fn log_view(_volume: &Volume<Self>) -> Result<Option<LogView>, FsError> {
        Ok(None)
    }
}

impl Inspect for Ffs {
    fn log_view(_volume: &Volume<Self>) -> Result<Option<LogView>, FsError> {
        Ok(None)
    }

    fn fast_view(volume: &Volume<Self>) -> Result<Option<FastView>, FsError> {
        volume.run_quietly(|vfs, _: TimeNs| Ok(Some(FastView::of(vfs.store()))))
    }
}

impl Inspect for Lfs {
    fn log_view(volume: &Volume<Self>) -> Result<Option<LogView>, FsError> {
        let stalls = volume.stalls();
        let mut view = volume.run_quietly(|vfs, now| Ok(head(vfs.store(), now)))?;
        let (mut room, reserve_bytes, cleaning) = volume.run_quietly(|vfs, now| {
            let lfs = vfs.store();
            Ok((RoomView::new(lfs), lfs.reserve_bytes(), CleaningView::of(lfs, stalls, now)))
        })?;
        let segment_bytes = u64::from(view.segment_bytes);
        let mut seen = 0;
        for leaf in 0.. {
            let entries = volume.run_quietly(|vfs, _| {
                let entries = vfs.store_mut().usage_leaf(leaf)?;
                let lfs = vfs.store();
                Ok(entries
                    .into_iter()
                    .map(|(segment, entry)| (entry, lfs.segment_room(segment, &entry)))
                    .collect::<Vec<_>>())
            })?;
            if entries.is_empty() {
                break;
            }
            for (entry, segment_room) in entries.iter().take((view.segments - seen) as usize) {
                count(&mut view, entry, segment_room, segment_bytes);
                room.add(segment_room);
            }
            seen += (entries.len() as u64).min(view.segments - seen);
        }
        room.set_reserve(reserve_bytes);
        volume.run_quietly(|vfs, _| room.set_history(vfs.store_mut()))?;
        Ok(Some(LogView { room: Some(room), cleaning: Some(cleaning), ..view }))
    }
}

fn count(view: &mut LogView, entry: &UsageEntry, room: &SegmentRoom, segment_bytes: u64) {
    if !entry.in_use {
        return;
    }
    let live_bytes = u64::from(entry.live_bytes);
    let bucket = (live_bytes * BUCKETS as u64 / segment_bytes.max(1)).min(BUCKETS as u64 - 1);
    view.utilisation_histogram[bucket as usize] += 1;
    view.segments_in_use += 1;
    view.live_bytes += live_bytes;
    view.unwritten_bytes += room.unwritten_bytes;
    view.dead_bytes += segment_bytes.saturating_sub(live_bytes + room.unwritten_bytes);
}

/// Damage that the volume has met since it was opened.
fn damage(lfs: &Lfs) -> Vec<String> {
    let lost = lfs.recovered().lost.map(|lost| lost.as_error(&lfs.geometry()).to_string());
    let aside = lfs.quarantined().map(|(thing, why)| format!("{thing} is quarantined: {why}"));
    lost.into_iter().chain(aside).collect()
}

/// See [`LogView::counters`].
fn told(counters: &Counters) -> Vec<(String, u64)> {
    let background = counters.segments_cleaned.saturating_sub(counters.segments_cleaned_on_demand);
    let cleaned = counters.segments_cleaned + counters.segments_cleaned_empty;
    let all = Counters { segments_cleaned: cleaned, ..*counters };
    let mut list: Vec<_> = all.list().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    list.push(("segments_cleaned_background".to_owned(), background));
    list
}

/// The view without the parts that come from the segments.
fn head(lfs: &Lfs, now: TimeNs) -> LogView {
    let (superblock, geometry, recovered) = (lfs.superblock(), lfs.geometry(), lfs.recovered());
    LogView {
        uuid: uuid_text(&superblock.uuid),
        label: superblock.label.clone(),
        created: rfc3339(superblock.created_ns),
        size_bytes: superblock.size_bytes,
        block_bytes: geometry.block_bytes,
        segment_bytes: geometry.segment_bytes,
        segments: geometry.segments,
        segments_in_use: 0,
        live_bytes: 0,
        dead_bytes: 0,
        unwritten_bytes: 0,
        utilisation_histogram: [0; BUCKETS],
        counters: told(lfs.counters()),
        recovery: RecoveryView {
            cleanly_unmounted: recovered.was_clean,
            rolled_forward_partials: recovered.partials,
            rolled_forward_bytes: recovered.bytes,
            rolled_forward_inodes: recovered.inodes,
            incomplete_partials: recovered.incomplete,
        },
        damage: damage(lfs),
        room: None,
        cleaning: None,
        power_cut: (!lfs.options().read_only).then(|| lfs.durability(now).into()),
    }
}

impl StatView {
    /// Reports the state of an open volume.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn of<S: Inspect>(volume: &Volume<S>) -> Result<Self, FsError> {
        let (space, read_only_reason) = volume
            .run_quietly(|vfs, _: TimeNs| Ok((vfs.statfs(), vfs.store().read_only().map(str::to_owned))))?;
        let space = SpaceView {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            used_inodes: space.inodes_used,
            free_inodes: space.inodes_free,
        };
        Ok(Self { space, read_only_reason, log: S::log_view(volume)?, ffs: S::fast_view(volume)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs::inode::Kind;
    use firnfs::lfs::{MkfsOptions, Options};
    use firnfs::vfs::{AtimeMode, Caller, NewNode};
    use firnfs_device::{AlignedBuf, Device, MemDevice, SystemClock};
    use firnfs_format::InodeNo;
    use std::sync::Arc;

    fn open(device: &Arc<MemDevice>) -> Volume<Lfs> {
        let clock = Arc::new(SystemClock);
        firnfs_manage::open(device.clone(), Options::default(), AtimeMode::Noatime, clock).unwrap()
    }

    #[test]
    fn a_quarantined_inode_is_listed_as_damage() {
        let device = Arc::new(MemDevice::new(16 << 20));
        let options = MkfsOptions {
            size_bytes: 16 << 20,
            block_bytes: 4096,
            segment_bytes: 256 << 10,
            physical_block_bytes: 4096,
            inline_max_bytes: 2048,
            label: String::new(),
            uuid: [3; 16],
            hash_key: [1, 2],
            now: TimeNs(0),
            root_owner: (0, 0),
        };
        firnfs_manage::format(&*device, &options).unwrap();
        let volume = open(&device);
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
        let caller = Caller { uid: 0, gid: 0, umask: 0 };
        let ino =
            volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, b"file", node, false)).unwrap().ino;
        volume.write_all(ino, 0, &[1; 100_000], false).unwrap();
        volume.close().unwrap();
        let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
        let indirect = blocks.iter().find(|block| block.key.level == 1).unwrap().ptr;
        let at_bytes = volume.run(|vfs, _| Ok(vfs.store().geometry().device_bytes(indirect.addr))).unwrap();
        let garbage = Arc::new(AlignedBuf::copy_of(&vec![0xdb; indirect.stored_bytes() as usize]));
        device.write(at_bytes, garbage).unwrap();
        drop(volume);
        let volume = open(&device);
        assert!(StatView::of(&volume).unwrap().log.unwrap().damage.is_empty());
        volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, b"file")).unwrap();
        volume.background().unwrap();
        let damage = StatView::of(&volume).unwrap().log.unwrap().damage;
        assert_eq!(damage.len(), 1);
        assert!(damage[0].starts_with(&format!("inode {ino} is quarantined: corrupt")), "{damage:?}");
    }
}
