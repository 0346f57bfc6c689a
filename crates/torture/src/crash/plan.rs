//! `Plan`: the states to judge at one cut.
//!
//! With n volatile writes there are 2^n subsets of them, and endless ways to tear them. Up to a bound the plan takes all
//! subsets; beyond it, every prefix, every subset and complement of at most two, and random ones. It adds each write torn at
//! chosen places and in garbage, with the others landed and with the others missing; and random mixtures of everything. All
//! draws follow from the plan's seed and the cut.

use firnfs_sim::crash::{Item, SECTOR_BYTES};
use firnfs_sim::{Fate, seeded};
use rand::RngExt;
use rand_pcg::Pcg64;

/// Writes of at most this many sectors are also torn sector by sector, in up to this many ways: that reaches every part of a
/// summary.
const SMALL_SECTORS: u64 = 16;
const SMALL_MIXTURES: usize = 4;

/// How thorough to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Up to this many volatile writes (at most 16), all subsets are taken.
    pub exhaustive_items: u32,
    /// Random subsets at each cut beyond that.
    pub random_subsets: u32,
    /// Whether single writes are torn and filled with garbage.
    pub tears: bool,
    /// Random mixtures of all fates at each cut with anything volatile.
    pub random_mixtures: u32,
    /// Whether a sector that was being written may hold garbage.
    pub garbage: bool,
    /// Draws everything random.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            exhaustive_items: 6,
            random_subsets: 32,
            tears: true,
            random_mixtures: 8,
            garbage: true,
            seed: 1,
        }
    }
}

impl Plan {
    /// The fates to try at a cut with these volatile items. May hold duplicates; never empty.
    #[must_use]
    pub fn states(&self, cut: usize, items: &[&Item]) -> Vec<Vec<Fate>> {
        let count = items.len();
        let mut rng = seeded(self.seed.wrapping_add(cut as u64), "crash states");
        let mut states = Vec::new();
        if count as u32 <= self.exhaustive_items.min(16) {
            states.extend((0..1u32 << count).map(|bits| subset(count, |i| bits >> i & 1 == 1)));
        } else {
            self.large_subsets(count, &mut rng, &mut states);
        }
        if self.tears {
            for (index, item) in items.iter().enumerate() {
                for fate in tears(item, &mut rng) {
                    for others in [Fate::Lands, Fate::Missing] {
                        let mut fates = vec![others; count];
                        fates[index] = fate;
                        states.push(fates);
                    }
                }
            }
        }
        if count > 0 {
            let mixtures = 0..self.random_mixtures;
            states.extend(mixtures.map(|_| items.iter().map(|item| any_fate(item, &mut rng)).collect()));
        }
        if !self.garbage {
            let has_garbage = |fate: &Fate| matches!(fate, Fate::Garbage(_) | Fate::Mixed { .. });
            states.retain(|fates| !fates.iter().any(has_garbage));
        }
        states
    }

    fn large_subsets(&self, count: usize, rng: &mut Pcg64, states: &mut Vec<Vec<Fate>>) {
        states.extend((0..=count).map(|prefix| subset(count, |i| i < prefix)));
        for first in 0..count {
            for second in first..count {
                states.push(subset(count, |i| i == first || i == second));
                states.push(subset(count, |i| i != first && i != second));
            }
        }
        for _ in 0..self.random_subsets {
            states.push((0..count).map(|_| landed(rng.random_bool(0.5))).collect());
        }
    }
}

fn landed(lands: bool) -> Fate {
    if lands { Fate::Lands } else { Fate::Missing }
}

fn subset(count: usize, lands: impl Fn(usize) -> bool) -> Vec<Fate> {
    (0..count).map(|i| landed(lands(i))).collect()
}

/// Ways to tear one write: after its first unit, before its last, in the middle; the same from the end; with one unit missing;
/// by units at random; garbage.
fn tears(item: &Item, rng: &mut Pcg64) -> Vec<Fate> {
    let mut fates = vec![Fate::Garbage(rng.random_range(0..1 << 16))];
    if item.sectors().end - item.sectors().start <= SMALL_SECTORS {
        let mixed = || Fate::Mixed { seed: rng.random_range(0..1 << 32), unit_bytes: 512 };
        fates.extend(std::iter::repeat_with(mixed).take(SMALL_MIXTURES));
    }
    for unit_bytes in [512u32, 4096] {
        let unit_sectors = u64::from(unit_bytes) / SECTOR_BYTES;
        let units = (item.sectors().end.div_ceil(unit_sectors) - item.sectors().start / unit_sectors) as u32;
        fates.push(Fate::Mixed { seed: rng.random_range(0..1 << 32), unit_bytes });
        if units < 2 {
            continue;
        }
        let mut at = vec![1, units / 2, units - 1, rng.random_range(1..units)];
        at.sort_unstable();
        at.dedup();
        for units in at.into_iter().filter(|units| *units > 0) {
            fates.push(Fate::Prefix { units, unit_bytes });
            fates.push(Fate::Suffix { units, unit_bytes });
        }
        // The sectors of a summary after its first come first.
        let mut holes = vec![1, 2, rng.random_range(0..units)];
        holes.sort_unstable();
        holes.dedup();
        fates.extend(
            holes.into_iter().filter(|unit| *unit < units).map(|unit| Fate::Hole { unit, unit_bytes }),
        );
    }
    fates
}

fn any_fate(item: &Item, rng: &mut Pcg64) -> Fate {
    match rng.random_range(0..10) {
        0..4 => Fate::Lands,
        4..7 => Fate::Missing,
        _ => {
            let fates = tears(item, rng);
            fates[rng.random_range(0..fates.len())]
        }
    }
}
