//! Places in a state of the volume, in the order in which the walk that drops a retained point meets them
//! (`upkeep::forget`): a block after all that it leads to.

use crate::bmap;
use crate::states::branch_of;
use crate::store::{BlockKey, Fork};
use firnfs_format::checkpoint::PointCursor;
use firnfs_format::{BlockIndex, InodeNo};

/// True for an internal file.
pub(crate) fn is_internal(ino: InodeNo) -> bool {
    ino != InodeNo::ROOT && ino < InodeNo::FIRST_USER
}

/// True for an inode that belongs to the present alone: an internal file, or an inode of a clone. No point sees it.
pub(crate) fn is_unseen(ino: InodeNo) -> bool {
    is_internal(ino) || branch_of(ino) != 0
}

/// The place of a block in the order of a walk.
pub(in crate::lfs) fn place_of_block(map: bmap::Geometry, key: &BlockKey) -> PointCursor {
    let last = map.first_data(key.level, key.index).0.saturating_add(map.span(key.level) - 1);
    PointCursor { ino: key.ino.0, stage: 0, fork: key.fork as u32, last, level: u32::from(key.level) }
}

/// The place of an inode's record.
pub(crate) fn place_of_record(ino: InodeNo) -> PointCursor {
    PointCursor { ino: ino.0, stage: 1, ..PointCursor::default() }
}

/// The place of a block of the inode map; `fan` children has each node.
pub(in crate::lfs) fn place_in_map(fan: u64, level: u32, index: u64) -> PointCursor {
    let below = fan.saturating_pow(level.saturating_add(1));
    let ino = index.saturating_add(1).saturating_mul(below) - 1;
    PointCursor { ino, stage: 2, level, ..PointCursor::default() }
}

/// The block that an entry of a summary names.
pub(in crate::lfs) fn block_key(ino: InodeNo, fork: u8, level: u8, index: u64) -> BlockKey {
    let fork = [Fork::Data, Fork::Index, Fork::Xattr][usize::from(fork)];
    BlockKey { ino, fork, level, index: BlockIndex(index) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_a_walk_that_meets_children_first() {
        let map = bmap::Geometry::new(4096, 16);
        let block = |fork, level, index| {
            place_of_block(map, &BlockKey { ino: InodeNo(20), fork, level, index: BlockIndex(index) })
        };
        let (first_indirect, data) = (map.parent(0, BlockIndex(12)), BlockIndex(12));
        let Some(bmap::Parent::Indirect { level, index, .. }) = first_indirect else {
            panic!("{first_indirect:?}")
        };
        let order = [
            place_of_record(InodeNo(19)),
            block(Fork::Data, 0, 0),
            block(Fork::Data, 0, 11),
            block(Fork::Data, 0, data.0),
            block(Fork::Data, 0, data.0 + 255),
            block(Fork::Data, level, index.0),
            block(Fork::Data, 0, data.0 + 256),
            block(Fork::Index, 0, 0),
            place_of_record(InodeNo(20)),
            place_of_record(InodeNo(127)),
            place_in_map(128, 0, 0),
            place_of_record(InodeNo(128)),
            place_in_map(128, 0, 1),
            place_in_map(128, 1, 0),
        ];
        assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
    }
}
