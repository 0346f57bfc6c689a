//! `ClockMap`: a map with CLOCK replacement. Deterministic: slots, not hashes, give the order of eviction.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;
use std::hash::{BuildHasher, Hash};

/// Heat beyond which a hit adds nothing.
const HEAT_MAX: u8 = 3;

/// The fields that a lookup touches are together at the beginning of a cache line: key, heat, and the head of the
/// value.
#[repr(C, align(64))]
struct Slot<K, V> {
    key: K,
    heat: u8,
    value: V,
}

/// See the module's head.
pub struct ClockMap<K, V> {
    /// Slots by the hash of their key. Only the slots hold the keys, so the table is small and stays in the
    /// processor's caches.
    index: HashTable<u32>,
    slots: Vec<Option<Slot<K, V>>>,
    vacant: Vec<u32>,
    hand: usize,
}

impl<K: Copy + Eq + Hash, V> Default for ClockMap<K, V> {
    fn default() -> Self {
        Self { index: HashTable::new(), slots: Vec::new(), vacant: Vec::new(), hand: 0 }
    }
}

impl<K: Copy + Eq + Hash, V> ClockMap<K, V> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    fn find(&self, key: &K) -> Option<usize> {
        let slots = &self.slots;
        self.index.find(hash(key), |&at| has_key(slots, at, key)).map(|&at| at as usize)
    }

    /// Finds a value without warming it.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.slots[self.find(key)?].as_ref().map(|s| &s.value)
    }

    /// Brings what lookups of these keys will need into the processor's caches, many at a time: a lookup by itself waits for one access
    /// to memory after another. Reads of each value what `touch` reads.
    pub fn prefetch(&self, keys: impl Iterator<Item = K>, touch: impl Fn(&V) -> u64) {
        // The first slot whose hash looks the same is nearly always the one; to be sure would take one more access.
        let likely: Vec<u32> =
            keys.filter_map(|key| self.index.find(hash(&key), |_| true).copied()).collect();
        let values = || likely.iter().filter_map(|&at| self.slots[at as usize].as_ref());
        let heats: u64 = values().map(|slot| u64::from(slot.heat)).sum();
        let touched: u64 = values().fold(0, |sum, slot| sum.wrapping_add(touch(&slot.value)));
        std::hint::black_box(heats.wrapping_add(touched));
    }

    /// Finds a value and warms it.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let at = self.find(key)?;
        let slot = self.slots[at].as_mut()?;
        slot.heat = (slot.heat + 1).min(HEAT_MAX);
        Some(&mut slot.value)
    }

    /// Inserts a value; the hand must sweep past it `heat` times before it can be evicted. Returns the previous value
    /// of the key.
    pub fn insert(&mut self, key: K, value: V, heat: u8) -> Option<V> {
        let slots = &self.slots;
        let hash_of = |&at: &u32| slots[at as usize].as_ref().map_or(0, |slot| hash(&slot.key));
        let entry = match self.index.entry(hash(&key), |&at| has_key(slots, at, &key), hash_of) {
            Entry::Occupied(entry) => {
                let slot = self.slots[*entry.get() as usize].as_mut().expect("indexed slots are filled");
                slot.heat = slot.heat.max(heat);
                return Some(std::mem::replace(&mut slot.value, value));
            }
            Entry::Vacant(entry) => entry,
        };
        let slot = Some(Slot { key, heat, value });
        if let Some(at) = self.vacant.pop() {
            entry.insert(at);
            self.slots[at as usize] = slot;
        } else {
            entry.insert(self.slots.len() as u32);
            self.slots.push(slot);
        }
        None
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let slots = &self.slots;
        let entry = self.index.find_entry(hash(key), |&at| has_key(slots, at, key)).ok()?;
        let (at, _) = entry.remove();
        self.vacant.push(at);
        self.slots[at as usize].take().map(|s| s.value)
    }

    /// Removes and returns the coldest value that `may_go`; `None` if a few sweeps find none.
    pub fn evict(&mut self, mut may_go: impl FnMut(&K, &V) -> bool) -> Option<(K, V)> {
        for _ in 0..self.slots.len() * usize::from(HEAT_MAX + 1) {
            self.hand = (self.hand + 1) % self.slots.len();
            let Some(slot) = &mut self.slots[self.hand] else { continue };
            if slot.heat > 0 {
                slot.heat -= 1;
            } else if may_go(&slot.key, &slot.value) {
                let key = slot.key;
                return self.remove(&key).map(|value| (key, value));
            }
        }
        None
    }
}

fn hash<K: Hash>(key: &K) -> u64 {
    FxBuildHasher.hash_one(key)
}

fn has_key<K: Eq, V>(slots: &[Option<Slot<K, V>>], at: u32, key: &K) -> bool {
    slots[at as usize].as_ref().is_some_and(|slot| slot.key == *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_prefetched_and_little_else() {
        let mut map = ClockMap::default();
        for k in 0..1000_u64 {
            map.insert(k, k, 0);
        }
        let touched = std::cell::RefCell::new(Vec::new());
        map.prefetch(200..700, |value| {
            touched.borrow_mut().push(*value);
            1
        });
        let touched = touched.into_inner();
        assert_eq!(touched.len(), 500);
        assert!(touched.iter().filter(|value| (200..700).contains(*value)).count() > 480, "{touched:?}");
    }

    #[test]
    fn used_values_and_those_that_may_not_go_stay() {
        let mut map = ClockMap::default();
        for k in 0..10 {
            map.insert(k, k * 10, 0);
        }
        for _ in 0..3 {
            map.get(&4);
        }
        let mut gone = Vec::new();
        while let Some((k, _)) = map.evict(|k, _| *k != 7) {
            gone.push(k);
            if gone.len() == 8 {
                break;
            }
        }
        assert!(map.peek(&4).is_some() && map.peek(&7).is_some(), "{gone:?}");
        assert_eq!(map.evict(|k, _| *k != 7), Some((4, 40)));
        assert_eq!(map.evict(|k, _| *k != 7), None);
        assert_eq!(map.insert(4, 1, 0), None);
        assert_eq!(map.remove(&4), Some(1));
    }
}
