//! The superblock: one sector, the first copy in group 0, one more in each group.
//!
//! Only the first copy changes after mkfs: `state` and the fields after it. A sector is written as a whole or not at all, so its
//! CRC tells a superblock from other bytes and never from a torn one.

use crate::error::{DecodeError, ensure};
use crate::ffs::inode::DINODE_BYTES;
use crate::ffs::{BLOCK_BYTES_RANGE, FRAG_BYTES_MIN, FRAGS_PER_BLOCK_MAX, UNWRITTEN, group};
use crate::layout::layout;
use zerocopy::byteorder::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of one copy.
pub const SUPERBLOCK_BYTES: usize = 512;
/// First bytes of a superblock.
pub const MAGIC: [u8; 8] = *b"firnffs\x01";
/// Version of the format that this code writes and the newest that it reads.
pub const VERSION: u32 = 1;
/// Place of a copy, in bytes from the start of its group.
pub const COPY_AT_BYTES: u64 = 4096;
/// Length of a group's head, in bytes, before it is rounded up to a block.
pub const HEAD_BYTES: u32 = 8192;

layout! {
    /// Superblock, one copy. All numbers little endian.
    SuperblockRaw = 512 {
        /// `firnffs\x01`
        magic: [u8; 8],
        /// Format version
        version: U32,
        /// CRC-32C of the 512 bytes with this field zero
        crc: U32,
        /// Volume uuid
        uuid: [u8; 16],
        /// Label, UTF-8, padded with zeros
        label: [u8; 64],
        /// Time of mkfs, ns since 1970
        created_ns: I64,
        /// Length of the volume in fragments
        size_frags: U64,
        /// Block size in bytes, a power of two from 4096 to 65536
        block_bytes: U32,
        /// Fragment size in bytes: block size / 1, 2, 4 or 8, at least 512
        frag_bytes: U32,
        /// Length of a group in fragments, a multiple of 8 blocks
        group_frags: U32,
        /// Inodes of a group, a multiple of the inodes in a block and of 8
        group_inodes: U32,
        /// Number of groups
        groups: U32,
        /// Share of the space that users do not get, in percent
        minfree_percent: U32,
        /// Contiguous blocks before a rotational gap, and blocks of a cluster
        maxcontig: U32,
        /// Time that a rotational gap has to last, in ms
        rotdelay_ms: U32,
        /// Blocks of one file in a group before another one is preferred
        max_blocks_per_group: U32,
        /// Geometry of the disk: sectors of a track; 0 if it is not known
        track_sectors: U32,
        /// Geometry: tracks of a cylinder
        cylinder_tracks: U32,
        /// Geometry: revolutions a second
        rps: U32,
        /// Cylinders after which the rotational positions of blocks repeat; 0 = no rotational layout
        cpc: U32,
        /// Bits of layout policy: 1 = clusters are reallocated, 2 = NoSwitch, 4 = SmartFrag
        policies: U32,
        /// Key of the directory hash (SipHash-1-3)
        hash_key: [U64; 2],
        /// 1 = unmounted cleanly, 2 = mounted, or not unmounted
        state: U32,
        /// Number of mounts for writing
        mounts: U32,
        /// Time of the last change of `state`, ns since 1970
        changed_ns: I64,
        /// Zero
        reserved: [u8; 312],
    }
}

/// Whether a volume was unmounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Unmounted cleanly: bitmaps and counts are right.
    Clean = 1,
    /// Mounted for writing, or not unmounted: a check comes first.
    InUse = 2,
}

/// How files are laid out; fixed by mkfs, may be changed on an unmounted volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Share of the space that users do not get, 0 to 50 percent.
    pub minfree_percent: u32,
    /// Contiguous blocks before a rotational gap, and blocks of a cluster; at least 1.
    pub maxcontig: u32,
    /// Time that a rotational gap has to last, in ms; 0 = no gaps.
    pub rotdelay_ms: u32,
    /// Blocks of one file in a group before another one is preferred; at least 1.
    pub max_blocks_per_group: u32,
    /// Sectors of a track; 0 if the geometry is not known.
    pub track_sectors: u32,
    /// Tracks of a cylinder.
    pub cylinder_tracks: u32,
    /// Revolutions a second.
    pub rps: u32,
    /// Cylinders after which the rotational positions of blocks repeat; 0 = no rotational layout.
    pub cpc: u32,
    /// Blocks of a file, as many as a cluster may have, are moved to where they are contiguous before they are written.
    pub reallocates: bool,
    /// A file keeps its group until its second indirect block.
    pub no_switch: bool,
    /// The tail of a file is placed right after its last whole block if that place is free.
    pub smart_frag: bool,
}

/// A superblock that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Volume uuid.
    pub uuid: [u8; 16],
    /// Label; at most 64 bytes of UTF-8.
    pub label: String,
    /// Time of mkfs, ns since 1970.
    pub created_ns: i64,
    /// Where things are.
    pub layout: Layout,
    /// How files are laid out.
    pub tuning: Tuning,
    /// Key of the directory hash.
    pub hash_key: [u64; 2],
    /// Whether the volume was unmounted.
    pub state: State,
    /// Number of mounts for writing.
    pub mounts: u32,
    /// Time of the last change of `state`, ns since 1970.
    pub changed_ns: i64,
}

/// The sizes that give every place on the volume. Addresses are fragments from the start of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Length of the volume in fragments.
    pub size_frags: u64,
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Fragment size in bytes.
    pub frag_bytes: u32,
    /// Length of a group in fragments.
    pub group_frags: u32,
    /// Inodes of a group.
    pub group_inodes: u32,
    /// Number of groups.
    pub groups: u32,
}

impl Layout {
    /// Fragments of a block.
    #[must_use]
    pub fn frags_per_block(&self) -> u32 {
        self.block_bytes / self.frag_bytes
    }

    fn frags_of(&self, bytes: u64) -> u32 {
        (bytes.div_ceil(u64::from(self.block_bytes)) * u64::from(self.frags_per_block())) as u32
    }

    /// Offset of the descriptor in its group, in fragments.
    #[must_use]
    pub fn descriptor_at(&self) -> u32 {
        self.frags_of(HEAD_BYTES.into())
    }

    /// Offset of the inode table in its group, in fragments.
    #[must_use]
    pub fn inodes_at(&self) -> u32 {
        self.descriptor_at() + self.frags_per_block()
    }

    /// Length of the inode table of a group, in blocks.
    #[must_use]
    pub fn inode_blocks(&self) -> u32 {
        self.group_inodes / self.inodes_per_block()
    }

    /// Inodes of a block.
    #[must_use]
    pub fn inodes_per_block(&self) -> u32 {
        self.block_bytes / DINODE_BYTES as u32
    }

    /// Offset of the table of summaries in group 0, in fragments.
    #[must_use]
    pub fn summaries_at(&self) -> u32 {
        self.inodes_at() + self.inode_blocks() * self.frags_per_block()
    }

    /// Length of the table of summaries in bytes.
    #[must_use]
    pub fn summaries_bytes(&self) -> u64 {
        u64::from(self.groups) * group::SUMMARY_BYTES as u64
    }

    /// Offset of the data in a group, in fragments.
    #[must_use]
    pub fn data_at(&self, group: u32) -> u32 {
        let summaries = if group == 0 { self.frags_of(self.summaries_bytes()) } else { 0 };
        self.summaries_at() + summaries
    }

    /// Fragments of a group: the last one may be shorter.
    #[must_use]
    pub fn frags_in(&self, group: u32) -> u32 {
        let start = u64::from(group) * u64::from(self.group_frags);
        self.size_frags.saturating_sub(start).min(self.group_frags.into()) as u32
    }

    /// Whether bitmaps of these sizes fit in a descriptor.
    #[must_use]
    pub fn fits_descriptor(&self) -> bool {
        group::descriptor_bytes(self.group_inodes, self.group_frags, self.frags_per_block())
            <= self.block_bytes as usize
    }

    fn check(&self) -> Result<(), DecodeError> {
        let block = self.block_bytes;
        let block_ok = block.is_power_of_two() && BLOCK_BYTES_RANGE.contains(&block);
        ensure(block_ok, "block size", "a power of two, 4096 to 65536", block)?;
        let frag = self.frag_bytes;
        let frag_ok = frag.is_power_of_two()
            && (FRAG_BYTES_MIN..=block).contains(&frag)
            && block / frag <= FRAGS_PER_BLOCK_MAX;
        ensure(frag_ok, "fragment size", "block size / 1, 2, 4 or 8", frag)?;
        let (frags, inodes) = (self.group_frags, self.group_inodes);
        let frags_ok = frags > 0 && frags.is_multiple_of(8 * self.frags_per_block());
        ensure(frags_ok, "fragments of a group", "a multiple of 8 blocks", frags)?;
        let inodes_ok = inodes > 0 && inodes.is_multiple_of(self.inodes_per_block());
        ensure(inodes_ok, "inodes of a group", "whole blocks of them", inodes)?;
        let small = inodes < 1 << 24 && frags < 1 << 24;
        ensure(small && self.fits_descriptor(), "size of a group", "bitmaps that fit in a block", frags)?;
        let size_ok = (1..u64::from(UNWRITTEN)).contains(&self.size_frags);
        ensure(size_ok, "volume size", "below 2^31 fragments", self.size_frags)?;
        let groups = self.size_frags.div_ceil(frags.into());
        ensure(groups == u64::from(self.groups), "number of groups", groups, self.groups)?;
        let inodes = u64::from(self.groups) * u64::from(self.group_inodes);
        ensure(inodes <= u64::from(u32::MAX), "number of inodes", "32 bits", inodes)?;
        let block_frags = self.frags_per_block();
        let last_ok = [0, self.groups - 1].iter().all(|&group| {
            u64::from(self.data_at(group)) + u64::from(block_frags) <= u64::from(self.frags_in(group))
        });
        ensure(last_ok, "size of a group", "room for data behind its tables", self.frags_in(self.groups - 1))
    }
}

impl Tuning {
    fn check(&self) -> Result<(), DecodeError> {
        ensure(self.minfree_percent <= 50, "minfree", "0 to 50 percent", self.minfree_percent)?;
        ensure((1..=4096).contains(&self.maxcontig), "maxcontig", "1 to 4096", self.maxcontig)?;
        ensure(self.rotdelay_ms <= 1000, "rotdelay", "at most 1000 ms", self.rotdelay_ms)?;
        ensure(self.max_blocks_per_group > 0, "blocks per group", "at least 1", self.max_blocks_per_group)?;
        let known = self.track_sectors > 0;
        let geometry_ok = self.track_sectors <= 1 << 16
            && self.cylinder_tracks <= 1 << 10
            && self.rps <= 1000
            && self.cpc <= 32
            && (!known || self.cylinder_tracks > 0 && self.rps > 0)
            && (known || self.cpc == 0 && self.rotdelay_ms == 0);
        ensure(geometry_ok, "disk geometry", "one that can be", self.track_sectors)
    }

    fn policies(&self) -> u32 {
        u32::from(self.reallocates) | u32::from(self.no_switch) << 1 | u32::from(self.smart_frag) << 2
    }
}

impl Superblock {
    /// The 512 bytes on disk.
    #[must_use]
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut label = [0; 64];
        let label_len = self.label.len().min(64);
        label[..label_len].copy_from_slice(&self.label.as_bytes()[..label_len]);
        let (layout, tuning) = (&self.layout, &self.tuning);
        let mut raw = SuperblockRaw {
            magic: MAGIC,
            version: VERSION.into(),
            crc: 0.into(),
            uuid: self.uuid,
            label,
            created_ns: self.created_ns.into(),
            size_frags: layout.size_frags.into(),
            block_bytes: layout.block_bytes.into(),
            frag_bytes: layout.frag_bytes.into(),
            group_frags: layout.group_frags.into(),
            group_inodes: layout.group_inodes.into(),
            groups: layout.groups.into(),
            minfree_percent: tuning.minfree_percent.into(),
            maxcontig: tuning.maxcontig.into(),
            rotdelay_ms: tuning.rotdelay_ms.into(),
            max_blocks_per_group: tuning.max_blocks_per_group.into(),
            track_sectors: tuning.track_sectors.into(),
            cylinder_tracks: tuning.cylinder_tracks.into(),
            rps: tuning.rps.into(),
            cpc: tuning.cpc.into(),
            policies: tuning.policies().into(),
            hash_key: self.hash_key.map(Into::into),
            state: (self.state as u32).into(),
            mounts: self.mounts.into(),
            changed_ns: self.changed_ns.into(),
            reserved: [0; 312],
        };
        raw.crc = crate::crc32c(raw.as_bytes()).into();
        raw.as_bytes().try_into().expect("the layout has this size")
    }

    /// The copy in another group: as mkfs wrote it, mounts do not change it.
    #[must_use]
    pub fn as_made(&self) -> Self {
        Self { state: State::Clean, mounts: 0, changed_ns: self.created_ns, ..self.clone() }
    }

    /// True if both are copies of one superblock.
    #[must_use]
    pub fn is_same_volume(&self, other: &Self) -> bool {
        self.as_made() == other.as_made()
    }

    /// True if bytes begin as a superblock of this kind does, whatever the rest is.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads and checks one copy.
    ///
    /// # Errors
    /// [`DecodeError`]: another kind of volume, another version, damaged, or values out of range.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (raw, _) = SuperblockRaw::read_from_prefix(bytes)
            .map_err(|_| DecodeError::new("superblock", "512 bytes", bytes.len()))?;
        ensure(raw.magic == MAGIC, "superblock magic", "\"firnffs\"", format_args!("{:02x?}", raw.magic))?;
        ensure(raw.version.get() == VERSION, "format version", VERSION, raw.version.get())?;
        let crc = crate::crc32c(SuperblockRaw { crc: 0.into(), ..raw }.as_bytes());
        ensure(crc == raw.crc.get(), "superblock checksum", raw.crc.get(), crc)?;
        let layout = Layout {
            size_frags: raw.size_frags.get(),
            block_bytes: raw.block_bytes.get(),
            frag_bytes: raw.frag_bytes.get(),
            group_frags: raw.group_frags.get(),
            group_inodes: raw.group_inodes.get(),
            groups: raw.groups.get(),
        };
        let policies = raw.policies.get();
        ensure(policies < 8, "layout policies", "bits 1, 2 and 4", policies)?;
        let tuning = Tuning {
            minfree_percent: raw.minfree_percent.get(),
            maxcontig: raw.maxcontig.get(),
            rotdelay_ms: raw.rotdelay_ms.get(),
            max_blocks_per_group: raw.max_blocks_per_group.get(),
            track_sectors: raw.track_sectors.get(),
            cylinder_tracks: raw.cylinder_tracks.get(),
            rps: raw.rps.get(),
            cpc: raw.cpc.get(),
            reallocates: policies & 1 != 0,
            no_switch: policies & 2 != 0,
            smart_frag: policies & 4 != 0,
        };
        let state = match raw.state.get() {
            1 => State::Clean,
            2 => State::InUse,
            other => return Err(DecodeError::new("state", "1 or 2", other)),
        };
        layout.check()?;
        tuning.check()?;
        Ok(Self {
            uuid: raw.uuid,
            label: String::from_utf8_lossy(&raw.label).trim_end_matches('\0').to_owned(),
            created_ns: raw.created_ns.get(),
            layout,
            tuning,
            hash_key: raw.hash_key.map(U64::get),
            state,
            mounts: raw.mounts.get(),
            changed_ns: raw.changed_ns.get(),
        })
    }

    /// Checks values that mkfs was given.
    ///
    /// # Errors
    /// [`DecodeError`]: as [`Self::decode`] would refuse them.
    pub fn check(&self) -> Result<(), DecodeError> {
        self.layout.check()?;
        self.tuning.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            uuid: [3; 16],
            label: "paper".to_owned(),
            created_ns: 5,
            layout: Layout {
                size_frags: 20_000,
                block_bytes: 4096,
                frag_bytes: 1024,
                group_frags: 8192,
                group_inodes: 512,
                groups: 3,
            },
            tuning: Tuning {
                minfree_percent: 10,
                maxcontig: 8,
                rotdelay_ms: 4,
                max_blocks_per_group: 1024,
                track_sectors: 72,
                cylinder_tracks: 19,
                rps: 67,
                cpc: 16,
                reallocates: true,
                no_switch: false,
                smart_frag: true,
            },
            hash_key: [1, 2],
            state: State::InUse,
            mounts: 9,
            changed_ns: 10,
        }
    }

    #[test]
    fn a_superblock_reads_back_as_it_was_written() {
        assert_eq!(Superblock::decode(&superblock().encode()), Ok(superblock()));
    }

    #[test]
    fn copies_differ_in_what_mounts_change_alone() {
        let first = superblock();
        assert!(first.is_same_volume(&first.as_made()) && first != first.as_made());
        assert!(!first.is_same_volume(&Superblock { hash_key: [1, 3], ..first.as_made() }));
    }

    #[test]
    fn every_flipped_bit_of_a_superblock_is_noticed() {
        let bytes = superblock().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&bytes).is_err(), "bit {bit}");
        }
        assert!(Superblock::decode(&bytes[..511]).is_err());
    }

    #[test]
    fn values_that_cannot_be_are_refused_whatever_the_checksum() {
        let refuse = |change: fn(&mut Superblock)| {
            let mut sb = superblock();
            change(&mut sb);
            assert!(Superblock::decode(&sb.encode()).is_err(), "{sb:?}");
        };
        refuse(|sb| sb.layout.block_bytes = 0);
        refuse(|sb| sb.layout.frag_bytes = 256);
        refuse(|sb| sb.layout.frag_bytes = 8192);
        refuse(|sb| sb.layout.group_frags = 0);
        refuse(|sb| sb.layout.group_frags = 8193);
        refuse(|sb| sb.layout.group_inodes = 0);
        refuse(|sb| sb.layout.group_inodes = u32::MAX);
        refuse(|sb| sb.layout.groups = 4);
        refuse(|sb| sb.layout.size_frags = u64::MAX);
        refuse(|sb| (sb.layout.size_frags, sb.layout.groups) = (16_390, 3));
        refuse(|sb| sb.tuning.maxcontig = 0);
        refuse(|sb| sb.tuning.minfree_percent = 100);
        refuse(|sb| sb.tuning.cylinder_tracks = 0);
    }
}
