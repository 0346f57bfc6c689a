//! Removing a pair from the node in which it was found.

use super::{Spot, block_mut, node};
use crate::store::{Fork, Intent, Op, Store};
use crate::ufs::edit;
use firnfs_format::InodeNo;

/// A planned removal.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    spot: Spot,
    place: u32,
}

/// Plans the removal of a found entry.
#[must_use]
pub fn plan_remove(spot: Spot, place: u32) -> Removal {
    Removal { spot, place }
}

impl Removal {
    /// Block of the node that loses the pair.
    pub(super) fn block(&self) -> u32 {
        self.spot.block
    }

    /// The pair that goes.
    pub(super) fn pair(&self) -> node::Pair {
        (self.spot.hash, self.place)
    }

    /// Declares the node.
    pub fn declare(&self, dir: InodeNo, block_bytes: u32, intents: &mut Vec<Intent>) {
        intents.push(edit(dir, Fork::Index, u64::from(self.spot.block), block_bytes));
        if self.spot.is_alone {
            let at_bytes = u64::from(self.spot.block) * u64::from(block_bytes);
            let len_bytes = u64::from(block_bytes);
            intents.push(Intent::Punch { ino: dir, fork: Fork::Index, at_bytes, len_bytes });
        }
    }

    /// Removes the pair. An emptied leaf is punched, unless an insertion follows (`keep`).
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op, dir: InodeNo, keep: bool) {
        let here = block_mut(store, op, dir, self.spot.block);
        let left = node::take_place(here, self.spot.slot, self.pair());
        if self.spot.is_alone && left == 0 && !keep {
            let len_bytes = here.len() as u64;
            store.punch(op, dir, Fork::Index, u64::from(self.spot.block) * len_bytes, len_bytes);
        }
    }
}
