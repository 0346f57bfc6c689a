//! Rotational positions: which block of a cylinder comes under the heads next.
//!
//! A track's sectors are divided into [`POSITIONS`] positions. A table, built once from the geometry, lists the blocks of each
//! cylinder of a cycle by position (4.4BSD's `fs_postbl` and `fs_rotbl`); after `cpc` cylinders the pattern repeats. Pure arithmetic; without a known
//! geometry there is no [`Rotation`].

use firnfs_format::SECTOR_BYTES;
use firnfs_format::ffs::{Tuning, VolumeLayout};

/// Positions that are told apart.
const POSITIONS: u64 = 8;

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rotation {
    group_frags: u64,
    frags_per_block: u64,
    /// Blocks of a cylinder cycle.
    cycle_blocks: u64,
    /// For each block of the cycle: its cylinder in the cycle and its position.
    places: Vec<(u32, u8)>,
    /// Blocks of the cycle by cylinder and position.
    blocks: Vec<[Vec<u32>; POSITIONS as usize]>,
}

impl Rotation {
    /// The tables of a geometry; `None` if it is not known, or blocks do not repeat their positions after `cpc` cylinders.
    #[must_use]
    pub fn new(layout: &VolumeLayout, tuning: &Tuning) -> Option<Self> {
        if tuning.cpc == 0 || tuning.track_sectors == 0 {
            return None;
        }
        let block_sectors = u64::from(layout.block_bytes / SECTOR_BYTES);
        let track = u64::from(tuning.track_sectors);
        let cylinder = track * u64::from(tuning.cylinder_tracks);
        let cycle = cylinder * u64::from(tuning.cpc);
        if !cycle.is_multiple_of(block_sectors) {
            return None;
        }
        let place = |block: u64| {
            let sector = block * block_sectors;
            ((sector / cylinder) as u32, (sector % track * POSITIONS / track) as u8)
        };
        let cycle_blocks = cycle / block_sectors;
        let places: Vec<_> = (0..cycle_blocks).map(place).collect();
        let mut blocks = vec![<[Vec<u32>; POSITIONS as usize]>::default(); tuning.cpc as usize];
        for (block, &(cylinder, position)) in (0..).zip(&places) {
            blocks[cylinder as usize][usize::from(position)].push(block);
        }
        let (group_frags, frags_per_block) = (layout.group_frags.into(), layout.frags_per_block().into());
        Some(Self { group_frags, frags_per_block, cycle_blocks, places, blocks })
    }

    /// The block of the same cylinder that comes next when the heads are where the block at `wanted` (a fragment of that group)
    /// starts, among those that are `free`, which is asked with fragments of the group.
    pub fn closest(&self, group: u32, wanted: u32, free: impl Fn(u32) -> bool) -> Option<u32> {
        let start = u64::from(group) * self.group_frags / self.frags_per_block;
        let block = start + u64::from(wanted) / self.frags_per_block;
        let cycle = block / self.cycle_blocks * self.cycle_blocks;
        let (cylinder, position) = self.places[(block - cycle) as usize];
        let by_position = &self.blocks[cylinder as usize];
        let in_group = |&block: &u32| {
            let frag = (cycle + u64::from(block)).checked_sub(start)? * self.frags_per_block;
            u32::try_from(frag).ok().filter(|frag| u64::from(*frag) < self.group_frags)
        };
        (0..POSITIONS as usize)
            .map(|ahead| (usize::from(position) + ahead) % POSITIONS as usize)
            .find_map(|position| by_position[position].iter().filter_map(in_group).find(|&frag| free(frag)))
    }
}

/// Fragments from the end of a block to the start of the next one that the heads reach after the rotational gap, in whole blocks.
#[must_use]
pub fn gap_frags(layout: &VolumeLayout, tuning: &Tuning) -> u32 {
    let sectors =
        u64::from(tuning.rotdelay_ms) * u64::from(tuning.rps) * u64::from(tuning.track_sectors) / 1000;
    let frags = (sectors * u64::from(SECTOR_BYTES)).div_ceil(u64::from(layout.frag_bytes));
    let block = u64::from(layout.frags_per_block());
    u32::try_from(frags.next_multiple_of(block)).unwrap_or(0)
}
