//! `ClockMap`: a map with CLOCK replacement. Deterministic: slots, not hashes, give the order of eviction.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Heat beyond which a hit adds nothing.
const HEAT_MAX: u8 = 3;

struct Slot<K, V> {
    key: K,
    value: V,
    heat: u8,
}

/// See the module's head.
pub struct ClockMap<K, V> {
    index: FxHashMap<K, u32>,
    slots: Vec<Option<Slot<K, V>>>,
    vacant: Vec<u32>,
    hand: usize,
}

impl<K: Copy + Eq + Hash, V> Default for ClockMap<K, V> {
    fn default() -> Self {
        Self { index: FxHashMap::default(), slots: Vec::new(), vacant: Vec::new(), hand: 0 }
    }
}

impl<K: Copy + Eq + Hash, V> ClockMap<K, V> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Looks without warming.
    pub fn peek(&self, key: &K) -> Option<&V> {
        let slot = *self.index.get(key)?;
        self.slots[slot as usize].as_ref().map(|s| &s.value)
    }

    /// Looks and warms.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let slot = *self.index.get(key)?;
        let slot = self.slots[slot as usize].as_mut()?;
        slot.heat = (slot.heat + 1).min(HEAT_MAX);
        Some(&mut slot.value)
    }

    /// Puts a value in; `heat` sweeps of the hand pass before it can go. Returns what was there.
    pub fn insert(&mut self, key: K, value: V, heat: u8) -> Option<V> {
        if let Some(&at) = self.index.get(&key) {
            let slot = self.slots[at as usize].as_mut().expect("indexed slots are filled");
            slot.heat = slot.heat.max(heat);
            return Some(std::mem::replace(&mut slot.value, value));
        }
        let slot = Some(Slot { key, value, heat });
        let at = match self.vacant.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(key, at);
        None
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.index.remove(key)?;
        self.vacant.push(at);
        self.slots[at as usize].take().map(|s| s.value)
    }

    /// Takes out the coldest value that `may_go`; `None` if a few sweeps find none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_may_not_go_stays() {
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
