//! The writes that make an empty volume.

use super::alloc::Group;
use super::base::Geo;
use super::inode::{CoreInode, Map};
use crate::error::FsError;
use crate::inode::Inode;
use firnfs_format::ffs::group::descriptor_bytes;
use firnfs_format::ffs::inode::DINODE_BYTES;
use firnfs_format::ffs::superblock::{COPY_AT_BYTES, HEAD_BYTES};
use firnfs_format::ffs::{Dinode, State, Superblock, Tuning, VolumeLayout};
use firnfs_format::{InodeNo, TimeNs};

/// The Fast File Systems of the papers, by contiguous blocks and rotational gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// Every block alone, two blocks of gap between them: FFS before clustering (BSD-LFS; FFS-m1r2 of USENIX'95).
    M1R2,
    /// Clusters of 64 KiB with two blocks of gap between them: the enhanced file system of BSD-LFS, EFS.
    Efs,
    /// Clusters of 8 blocks with two blocks of gap between them (USENIX'95).
    M8R2,
    /// Clusters of 8 blocks without gaps (USENIX'95).
    M8R0,
}

impl Variant {
    /// The layout of that variant for blocks of a size, on the disk that BSD-LFS measured: HP 97560, 4002 revolutions a minute, 72
    /// sectors of 512 bytes a track, 19 tracks a cylinder.
    #[must_use]
    pub fn tuning(self, block_bytes: u32) -> Tuning {
        let (maxcontig, gap_blocks) = match self {
            Self::M1R2 => (1, 2),
            Self::Efs => ((64 << 10) / block_bytes, 2),
            Self::M8R2 => (8, 2),
            Self::M8R0 => (8, 0),
        };
        let (track_sectors, rps) = (72, 67);
        // The longest time that is no more than the gap: gaps are rounded up to blocks.
        let gap_sectors = gap_blocks * block_bytes / 512;
        Tuning {
            minfree_percent: 10,
            maxcontig,
            rotdelay_ms: gap_sectors * 1000 / (track_sectors * rps),
            max_blocks_per_group: block_bytes / 4,
            track_sectors,
            cylinder_tracks: 19,
            rps,
            cpc: 16,
            reallocates: false,
            no_switch: false,
            smart_frag: false,
        }
    }
}

/// Largest group, in bytes.
pub(super) const GROUP_BYTES_MAX: u64 = 64 << 20;
/// Lengths of groups are multiples of this, in bytes: 8 blocks of the smallest size.
pub(super) const GROUP_STEP_BYTES: u64 = 8 * 4096;

/// The options of mkfs. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Size of the device.
    pub size_bytes: u64,
    /// Block size: a power of two, 4096 to 65536.
    pub block_bytes: u32,
    /// Fragment size: block size / 1, 2, 4 or 8.
    pub frag_bytes: u32,
    /// Length of a group, at most 64 MiB; `None`: as long as its bitmaps fit in a block, and the device has a second group (which holds a
    /// copy of the superblock).
    pub group_bytes: Option<u64>,
    /// One inode for that many bytes.
    pub bytes_per_inode: u32,
    /// How files are laid out.
    pub tuning: Tuning,
    /// Label.
    pub label: String,
    /// Volume uuid.
    pub uuid: [u8; 16],
    /// Key of the directory hash.
    pub hash_key: [u64; 2],
    /// Time.
    pub now: TimeNs,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
}

impl MkfsOptions {
    /// The usual choices for a device of that size: 8 KiB blocks, 1 KiB fragments, clusters of 64 KiB without gaps.
    #[must_use]
    pub fn with_size(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            block_bytes: 8192,
            frag_bytes: 1024,
            group_bytes: None,
            bytes_per_inode: 8192,
            tuning: Tuning {
                minfree_percent: 10,
                maxcontig: 8,
                rotdelay_ms: 0,
                max_blocks_per_group: 8192 / 4,
                track_sectors: 0,
                cylinder_tracks: 0,
                rps: 0,
                cpc: 0,
                reallocates: false,
                no_switch: false,
                smart_frag: false,
            },
            label: String::new(),
            uuid: [0; 16],
            hash_key: [0; 2],
            now: TimeNs(0),
            root_owner: (0, 0),
        }
    }

    /// Sizes of the volume; the end of the device may be left out.
    fn layout(&self) -> Result<VolumeLayout, FsError> {
        let (block, frag) = (self.block_bytes, self.frag_bytes);
        if !block.is_power_of_two() || !(4096..=65536).contains(&block) {
            return Err(FsError::Invalid("block size: a power of two, 4096 to 65536"));
        }
        if !frag.is_power_of_two() || frag < 512 || frag > block || block / frag > 8 {
            return Err(FsError::Invalid("fragment size: block size / 1, 2, 4 or 8, at least 512"));
        }
        let per_block = block / frag;
        let unit = u64::from(8 * block);
        let wanted = self.group_bytes.unwrap_or(self.size_bytes / 2);
        let mut bytes = wanted.min(GROUP_BYTES_MAX).max(unit) / unit * unit;
        let inodes_per_block = block / DINODE_BYTES as u32;
        let inodes_of = |bytes: u64| {
            let wanted = (bytes / u64::from(self.bytes_per_inode.max(512))).max(InodeNo::FIRST_USER.0) as u32;
            wanted.next_multiple_of(inodes_per_block)
        };
        let fits = |bytes: u64| {
            descriptor_bytes(inodes_of(bytes), (bytes / u64::from(frag)) as u32, per_block) <= block as usize
        };
        while !fits(bytes) && bytes > unit {
            bytes -= unit;
        }
        let mut layout = VolumeLayout {
            size_frags: (self.size_bytes / u64::from(block)) * u64::from(per_block),
            block_bytes: block,
            frag_bytes: frag,
            group_frags: (bytes / u64::from(frag)) as u32,
            group_inodes: inodes_of(bytes),
            groups: 0,
        };
        layout.groups = layout.size_frags.div_ceil(layout.group_frags.into()).try_into().unwrap_or(u32::MAX);
        // A last group without room for data is left out.
        let last = layout.groups.saturating_sub(1);
        let tables = u64::from(layout.data_at(last)) + u64::from(per_block);
        if last > 0 && u64::from(layout.frags_in(last)) < tables {
            layout.size_frags = u64::from(last) * u64::from(layout.group_frags);
            layout.groups = last;
        }
        Ok(layout)
    }

    fn superblock(&self) -> Result<Superblock, FsError> {
        let sb = Superblock {
            uuid: self.uuid,
            label: self.label.clone(),
            created_ns: self.now.0,
            layout: self.layout()?,
            tuning: self.tuning,
            hash_key: self.hash_key,
            state: State::Clean,
            mounts: 0,
            changed_ns: self.now.0,
        };
        match sb.check() {
            Ok(()) => Ok(sb),
            Err(why) if why.what == "size of a group" => {
                Err(FsError::Invalid("the device is too small for these sizes"))
            }
            Err(_) => Err(FsError::Invalid("sizes or tuning out of range")),
        }
    }
}

/// Places of all copies of the superblock, in bytes, the first one first.
pub fn places_of_superblocks(layout: &VolumeLayout) -> impl Iterator<Item = u64> {
    let group_bytes = u64::from(layout.group_frags) * u64::from(layout.frag_bytes);
    (0..u64::from(layout.groups)).map(move |group| group * group_bytes + COPY_AT_BYTES)
}

/// Writes bytes at an offset of the device.
pub type DeviceWriter<'a> = dyn FnMut(u64, &[u8]) -> Result<(), FsError> + 'a;

/// Writes of at most this length.
const WRITE_MAX_BYTES: usize = 1 << 20;

/// Makes an empty volume, a write at a time; what it passes to `write` are offset and bytes. Returns the last write, the first copy
/// of the superblock, which makes the volume valid: it comes after a flush.
///
/// # Errors
/// `Invalid`: options out of range, or the device is too small, before anything is written. Those of `write`.
pub fn mkfs(options: &MkfsOptions, write: &mut DeviceWriter<'_>) -> Result<(u64, Vec<u8>), FsError> {
    mkfs_around(options, &|_| false, write)
}

/// [`mkfs`] of a volume in which some fragments are taken though no file has them, so that it has the free space of another one (USENIX'95,
/// section 5.3). `is_taken` is asked for each fragment of the volume, by number. A check calls these fragments lost.
///
/// # Errors
/// As [`mkfs`].
pub fn mkfs_around(
    options: &MkfsOptions,
    is_taken: &dyn Fn(u64) -> bool,
    write: &mut DeviceWriter<'_>,
) -> Result<(u64, Vec<u8>), FsError> {
    let sb = options.superblock()?;
    let geo = Geo::new(sb.layout);
    let block = geo.layout.block_bytes as usize;
    let mut summaries = Vec::new();
    let mut copy = sb.encode().to_vec();
    copy.resize(HEAD_BYTES as usize - COPY_AT_BYTES as usize, 0);
    for (number, place) in (0..).zip(places_of_superblocks(&geo.layout)) {
        let mut group = Group::empty(&geo.layout, number);
        let first = u64::from(number) * u64::from(geo.layout.group_frags);
        for frag in geo.layout.data_at(number)..geo.layout.frags_in(number) {
            if is_taken(first + u64::from(frag)) {
                group.take_exactly(frag, 1);
            }
        }
        if number == 0 {
            for reserved in 0..InodeNo::FIRST_USER.0 as u32 {
                group.take_inode(Some(reserved), InodeNo(reserved.into()) == InodeNo::ROOT);
            }
        }
        summaries.extend(group.summary().encode());
        let descriptor = group.descriptor().encode(&geo.layout, options.now.0);
        write(geo.device_bytes(geo.descriptor_addr(number)), &descriptor)?;
        write_inodes(&geo, number, (number == 0).then(|| root(options)), write)?;
        if number > 0 {
            write(place, &copy)?;
        }
    }
    summaries.resize(summaries.len().next_multiple_of(block), 0);
    write(geo.device_bytes(geo.layout.summaries_at()), &summaries)?;
    Ok((COPY_AT_BYTES, copy))
}

/// An inode table with nothing but the root directory in it, if that is in this group.
fn write_inodes(
    geo: &Geo,
    group: u32,
    root: Option<Dinode>,
    write: &mut DeviceWriter<'_>,
) -> Result<(), FsError> {
    let start = geo.device_bytes(geo.inode_block_addr(group * geo.layout.inode_blocks()));
    let len_bytes = geo.layout.inode_blocks() as usize * geo.layout.block_bytes as usize;
    let mut part = vec![0; len_bytes.min(WRITE_MAX_BYTES)];
    if let Some(root) = root {
        part[DINODE_BYTES..2 * DINODE_BYTES].copy_from_slice(&root.encode());
    }
    for at in (0..len_bytes).step_by(WRITE_MAX_BYTES) {
        let len = (len_bytes - at).min(WRITE_MAX_BYTES);
        write(start + at as u64, &part[..len])?;
        part.fill(0);
    }
    Ok(())
}

fn root(options: &MkfsOptions) -> Dinode {
    let mut root = Inode::root(0, options.now);
    (root.uid, root.gid) = options.root_owner;
    root.generation = 1;
    let mode = root.mode;
    CoreInode::fresh(root).encode(&Map { mode, ..Map::default() })
}
