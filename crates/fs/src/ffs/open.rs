//! Opening a volume: its superblock, the counts of its groups. Nothing else is read at that time.

use super::alloc::Groups;
use super::base::{Geo, WriteId};
use super::cache::{Cache, InodeBlocks};
use super::files::Files;
use super::operation::OpenOperation;
use super::release::Releases;
use super::writes::Writes;
use super::{Ffs, Options, Standing};
use crate::device_reader::{DeviceReader, Extent};
use crate::error::FsError;
use crate::store::recharges::Recharges;
use firnfs_format::TimeNs;
use firnfs_format::ffs::{State, Summary, Superblock};
use std::collections::{BTreeSet, VecDeque};

impl Ffs {
    /// Opens the volume. For writing, the first write says that it is in use.
    ///
    /// # Errors
    /// `ReadOnly` if it was not unmounted and is to be written: a check comes first. `Io`, `Corrupt`.
    pub fn open(
        read: &mut dyn DeviceReader,
        sb: Superblock,
        options: Options,
        now: TimeNs,
    ) -> Result<Self, FsError> {
        if sb.state != State::Clean && !options.read_only {
            return Err(FsError::ReadOnly("the volume was not unmounted: check it first".to_owned()));
        }
        Self::open_mended(read, sb, options, now)
    }

    /// Opens a volume whose inodes, bitmaps and counts a check has mended, to repair its names.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn open_mended(
        read: &mut dyn DeviceReader,
        mut sb: Superblock,
        options: Options,
        now: TimeNs,
    ) -> Result<Self, FsError> {
        let geo = Geo::new(sb.layout);
        let summaries = read_summaries(read, &geo)?;
        let read_only = options.read_only.then(|| "opened for reading".to_owned());
        let may_write = read_only.is_none();
        if may_write {
            (sb.state, sb.changed_ns) = (State::InUse, now.0);
            sb.mounts = sb.mounts.saturating_add(1);
        }
        let mut ffs = Self {
            groups: Groups::new(sb.layout, sb.tuning, summaries),
            geo,
            sb,
            options,
            standing: Standing { read_only, is_broken: false },
            cache: Cache::default(),
            inode_blocks: InodeBlocks::default(),
            files: Files::default(),
            writes: Writes::default(),
            releases: Releases::default(),
            operation: OpenOperation::default(),
            recharges: Recharges::default(),
            nameless: BTreeSet::new(),
            unread: VecDeque::new(),
            dirty_since: None,
            mounted: WriteId(0),
            closed: None,
        };
        if may_write {
            ffs.mounted = ffs.queue_superblock(Vec::new());
        }
        Ok(ffs)
    }
}

fn read_summaries(read: &mut dyn DeviceReader, geo: &Geo) -> Result<Vec<Summary>, FsError> {
    let (at_bytes, len_bytes) = (geo.device_bytes(geo.layout.summaries_at()), geo.layout.summaries_bytes());
    let len_bytes = u32::try_from(len_bytes).map_err(|_| FsError::Invalid("more groups than can be"))?;
    let bytes = read.read(Extent::new(at_bytes, len_bytes))?;
    let summaries: Vec<Summary> =
        bytes.chunks_exact(16).filter_map(|entry| entry.try_into().ok()).map(Summary::decode).collect();
    let block_frags = geo.block_frags();
    for (group, summary) in (0..).zip(&summaries) {
        let data = geo.layout.frags_in(group) - geo.layout.data_at(group);
        let free = u64::from(summary.free_blocks) * u64::from(block_frags) + u64::from(summary.free_frags);
        let fits = free <= data.into() && summary.free_inodes <= geo.layout.group_inodes;
        if !fits {
            return Err(FsError::Corrupt {
                what: format!("summary of group {group}"),
                at: format!("byte {at_bytes}"),
                expected: format!(
                    "at most {data} free fragments and {} free inodes",
                    geo.layout.group_inodes
                ),
                found: format!("{summary:?}"),
            });
        }
    }
    Ok(summaries)
}
