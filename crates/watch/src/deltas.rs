//! Ticks as a recording and a page get them: a whole map now and then, and only what changed in between, however many parts
//! the map came in.
//!
//! Invariant: a reader that begins at a whole map and applies all later ticks has the map of the writer.

use crate::map::Map;
use crate::state::State;
use crate::tick::{MapUpdate, Tick};

/// What was written last.
#[derive(Clone, Debug, Default)]
pub struct Deltas {
    written: Map,
    number: u64,
}

impl Deltas {
    /// The newest tick with what changed since the last call; with the whole map if `is_whole`, or if this is the first call or
    /// the volume has another size. `None` before the first tick.
    pub fn next(&mut self, state: &State, is_whole: bool) -> Option<Tick> {
        let tick = state.last.as_ref()?;
        let now_s = tick.now_ns.div_euclid(1_000_000_000);
        let (from, revision) = (self.number, self.number + 1);
        let is_same_size = self.written.cells().len() == state.map.cells().len();
        let map = if is_whole || from == 0 || !is_same_size {
            state.map.whole(revision, now_s)
        } else {
            state.map.since(&self.written, (from, revision), now_s)
        };
        self.number = revision;
        self.written.clone_from(&state.map);
        Some(Tick { map, ..tick.clone() })
    }

    /// The newest tick with the whole map as of the last call, for a reader that begins now.
    #[must_use]
    pub fn whole(&self, state: &State) -> Option<Tick> {
        let tick = state.last.as_ref()?;
        let map: MapUpdate = self.written.whole(self.number, tick.now_ns.div_euclid(1_000_000_000));
        Some(Tick { map, ..tick.clone() })
    }
}
