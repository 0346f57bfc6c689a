//! Holds: they prevent the reuse of emptied segments while a reader still uses an older state.
//!
//! A hold is on a checkpoint: segments that later checkpoints find empty are not reused until the hold ends. There may be
//! several holds, and each has a kind. A *yielding* one (a check of the volume in use) ends when users need the segments; the
//! check notices it and begins again. A *firm* one ends only when its owner says so.
//!
//! Invariant: with holds on checkpoints a < b < c, no segment is reused that the state of a leads to.

use firnfs_format::Epoch;
use std::collections::BTreeMap;

/// What happens to a hold when clean segments run short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldKind {
    /// It ends.
    Yielding,
    /// It stays.
    Firm,
}

/// Names a hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HoldId(u64);

/// See the module's head.
#[derive(Clone, Default, Debug)]
pub(in crate::lfs) struct Holds {
    next: u64,
    held: BTreeMap<HoldId, (HoldKind, Epoch)>,
}

impl Holds {
    /// Holds the state of a checkpoint.
    pub fn add(&mut self, kind: HoldKind, epoch: Epoch) -> HoldId {
        self.next += 1;
        let id = HoldId(self.next);
        self.held.insert(id, (kind, epoch));
        id
    }

    /// Ends a hold; true if it lasted until now.
    pub fn end(&mut self, id: HoldId) -> bool {
        self.held.remove(&id).is_some()
    }

    /// Ends all holds that yield.
    pub fn yield_all(&mut self) {
        self.held.retain(|_, (kind, _)| *kind == HoldKind::Firm);
    }

    /// True while there is a hold.
    pub fn is_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// The oldest checkpoint held.
    pub fn oldest(&self) -> Option<Epoch> {
        self.held.values().map(|(_, epoch)| *epoch).min()
    }

    /// The oldest checkpoint held by a hold that does not yield.
    pub fn oldest_firm(&self) -> Option<Epoch> {
        let firm = self.held.values().filter(|(kind, _)| *kind == HoldKind::Firm);
        firm.map(|(_, epoch)| *epoch).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_hold_counts_and_only_yielding_ones_yield() {
        let mut holds = Holds::default();
        let check = holds.add(HoldKind::Yielding, Epoch(3));
        let named = holds.add(HoldKind::Firm, Epoch(7));
        assert_eq!((holds.oldest(), holds.oldest_firm()), (Some(Epoch(3)), Some(Epoch(7))));
        holds.yield_all();
        assert_eq!(holds.oldest(), Some(Epoch(7)));
        assert!(!holds.end(check), "it has ended already");
        assert!(holds.end(named) && !holds.is_any());
    }
}
