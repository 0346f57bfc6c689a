//! `FreeMap`: which fragments of a volume are free, as its own maps say.
//!
//! As in the paper, nothing else is taken over from a file system that was used: neither files nor directories.

use firnfs::FsError;
use firnfs::ffs::Ffs;
use firnfs_format::ffs::VolumeLayout;
use firnfs_volume::Volume;

/// Parts of a group, from its beginning to its end.
pub(in crate::hardware) const TENTHS: usize = 10;

/// See the module's head.
pub(super) struct FreeMap {
    layout: VolumeLayout,
    /// For each group, for each of its fragments.
    is_free: Vec<Vec<bool>>,
}

impl FreeMap {
    /// Of a volume, as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(volume: &Volume<Ffs>) -> Result<Self, FsError> {
        let layout = volume.run_quietly(|vfs, _| Ok(vfs.store().superblock().layout))?;
        let group = |group| volume.run_quietly(|vfs, _| vfs.store_mut().free_map(group));
        Ok(Self { layout, is_free: (0..layout.groups).map(group).collect::<Result<_, _>>()? })
    }

    /// True if that fragment of the volume is taken.
    pub fn is_taken(&self, frag: u64) -> bool {
        let group_frags = u64::from(self.layout.group_frags);
        let group = self.is_free.get((frag / group_frags) as usize);
        !group.and_then(|group| group.get((frag % group_frags) as usize)).is_some_and(|is_free| *is_free)
    }

    /// Fragments for data of a group, by number.
    fn data(&self, group: u32) -> std::ops::Range<u64> {
        let first = u64::from(group) * u64::from(self.layout.group_frags);
        first + u64::from(self.layout.data_at(group))..first + u64::from(self.layout.frags_in(group))
    }

    /// Fragments for data of all groups, and those of them that are free.
    fn count(&self) -> (u64, u64) {
        let data = || (0..self.layout.groups).flat_map(|group| self.data(group));
        (data().count() as u64, data().filter(|&frag| !self.is_taken(frag)).count() as u64)
    }

    /// The share of all fragments for data that are taken.
    pub fn full(&self) -> f64 {
        let (data, free) = self.count();
        1.0 - free as f64 / data.max(1) as f64
    }

    /// Bytes that are free beyond a reserve of that share of the space for data.
    pub fn usable_bytes(&self, minfree_percent: u32) -> u64 {
        let (data, free) = self.count();
        free.saturating_sub(data * u64::from(minfree_percent) / 100) * u64::from(self.layout.frag_bytes)
    }

    /// For each tenth of the groups: the share of its blocks that are free, and the share of those that lie in clusters of seven or more.
    pub fn by_position(&self) -> [(f64, f64); TENTHS] {
        let per_block = u64::from(self.layout.frags_per_block());
        let mut counts = [(0u64, 0u64, 0u64); TENTHS];
        for group in 0..self.layout.groups {
            let data = self.data(group);
            let blocks = (data.end - data.start) / per_block;
            let is_free = |block: u64| {
                let start = data.start + block * per_block;
                !(start..start + per_block).any(|frag| self.is_taken(frag))
            };
            let mut run = 0;
            for block in 0..=blocks {
                if block < blocks {
                    counts[tenth(block, blocks)].0 += 1;
                }
                if block < blocks && is_free(block) {
                    run += 1;
                    continue;
                }
                for free in block - run..block {
                    let count = &mut counts[tenth(free, blocks)];
                    count.1 += 1;
                    count.2 += u64::from(run >= 7);
                }
                run = 0;
            }
        }
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        counts.map(|(all, free, clustered)| (share(free, all), share(clustered, free)))
    }
}

fn tenth(block: u64, blocks: u64) -> usize {
    (block * TENTHS as u64 / blocks.max(1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: VolumeLayout = VolumeLayout {
        size_frags: 1 << 14,
        block_bytes: 8192,
        frag_bytes: 1024,
        group_frags: 1 << 13,
        group_inodes: 512,
        groups: 2,
    };

    /// All fragments for data are free, except these.
    fn map(is_taken: impl Fn(u32, u32) -> bool) -> FreeMap {
        let is_free =
            |group, frag| frag >= LAYOUT.data_at(group) && !is_taken(group, frag - LAYOUT.data_at(group));
        let frags = |group| (0..LAYOUT.frags_in(group)).map(|frag| is_free(group, frag)).collect();
        FreeMap { layout: LAYOUT, is_free: (0..2).map(frags).collect() }
    }

    #[test]
    fn what_is_not_free_is_taken() {
        let map = map(|group, frag| group == 1 && (8..11).contains(&frag));
        let at = u64::from(LAYOUT.group_frags + LAYOUT.data_at(1)) + 8;
        let taken: Vec<u64> = (at - 2..at + 6).filter(|&frag| map.is_taken(frag)).collect();
        assert_eq!(taken, [at, at + 1, at + 2]);
        assert!(
            map.is_taken(0) && map.is_taken(LAYOUT.size_frags),
            "tables, and what is no part of the volume"
        );
        let data = (0..2).map(|group| u64::from(LAYOUT.frags_in(group) - LAYOUT.data_at(group))).sum::<u64>();
        assert_eq!(map.usable_bytes(0), (data - 3) * 1024);
        assert_eq!(map.usable_bytes(10), (data - data / 10 - 3) * 1024);
        assert!((map.full() - 3.0 / data as f64).abs() < 1e-12);
    }

    #[test]
    fn free_blocks_are_counted_where_they_lie_in_their_group() {
        // In the first tenth of both groups each other block is taken.
        let map = map(|group, frag| {
            let blocks = (LAYOUT.frags_in(group) - LAYOUT.data_at(group)) / 8;
            frag / 8 <= blocks / 10 && frag / 8 % 2 == 0
        });
        let by_position = map.by_position();
        let (free, clustered) = by_position[0];
        assert!((0.45..0.55).contains(&free) && clustered < 0.1, "{by_position:?}");
        assert!(
            by_position[1..].iter().all(|&(free, clustered)| free > 0.98 && clustered > 0.98),
            "{by_position:?}"
        );
    }
}
