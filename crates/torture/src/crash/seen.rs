//! `Seen`: the states that a campaign has judged, shared by its threads.
//!
//! An image is identified by its [`image_hash`](firnfs_sim::crash::image_hash) of 128 bits, whichever scenario it comes from.
//! The same image is judged again only if it is held to another promise: other operations may have preceded it, or more of
//! them have to be durable.
//!
//! Memory: two sets with 17 bytes per slot, of which 7 in 16 to 7 in 8 are in use: 40 to 78 bytes per state, at most
//! [`SEEN_MAX`] states.

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

/// Number of images beyond which new ones are judged but no longer recorded: the sets take less than 350 MiB.
pub const SEEN_MAX: usize = 1 << 22;

/// With this many shards, threads seldom contend for one.
const SHARDS: usize = 64;

/// How a campaign knows a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Novelty {
    /// An image that was never seen before.
    New,
    /// A known image, held to another promise (or the campaign no longer records images).
    Known,
    /// It was judged already.
    Repeat,
}

#[derive(Default)]
struct Shard {
    images: FxHashSet<u128>,
    judged: FxHashSet<u128>,
}

/// See the module's head.
pub struct Seen {
    shards: Vec<Mutex<Shard>>,
    shard_max: usize,
}

impl Seen {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::with_room_for(SEEN_MAX)
    }

    fn with_room_for(images: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, shard_max: images.div_ceil(SHARDS) }
    }

    /// Notes that an image is about to be judged by a promise.
    pub fn note(&self, image: u128, promise: u128) -> Novelty {
        let mut shard = self.shards[(image % SHARDS as u128) as usize].lock();
        let is_full = shard.images.len() >= self.shard_max;
        // Both are hashes; a multiplication by an odd number distinguishes (a, b) from (b, a).
        let both = image ^ promise.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        if shard.judged.contains(&both) {
            return Novelty::Repeat;
        }
        if is_full {
            return Novelty::Known;
        }
        shard.judged.insert(both);
        if shard.images.insert(image) { Novelty::New } else { Novelty::Known }
    }

    /// Distinct images.
    #[must_use]
    pub fn images(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().images.len() as u64).sum()
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_counts_once_and_is_judged_once_for_each_promise() {
        let seen = Seen::new();
        assert_eq!(seen.note(7, 1), Novelty::New);
        assert_eq!(seen.note(7, 2), Novelty::Known);
        assert_eq!(seen.note(7, 1), Novelty::Repeat);
        assert_eq!(seen.note(8, 1), Novelty::New);
        assert_eq!(seen.images(), 2);
    }

    #[test]
    fn a_full_set_counts_no_more_but_lets_everything_be_judged() {
        let seen = Seen::with_room_for(SHARDS);
        assert_eq!(seen.note(0, 1), Novelty::New);
        assert_eq!(seen.note(SHARDS as u128, 1), Novelty::Known);
        assert_eq!(seen.note(0, 1), Novelty::Repeat);
        assert_eq!(seen.images(), 1);
    }
}
