//! Zipf popularity in constant time from one random word: Walker's alias method.

use rand::Rng;
use rand_pcg::Pcg64;

/// See the module's head. Block b has rank b + 1.
pub(super) struct Zipf {
    /// For each column: the threshold at which it switches, as a share of 2^32, and the other value.
    columns: Vec<(u32, u32)>,
}

impl Zipf {
    pub fn new(blocks: u32, exponent: f64) -> Self {
        let weights: Vec<f64> = (1..=blocks).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let mean = weights.iter().sum::<f64>() / f64::from(blocks);
        let mut left: Vec<f64> = weights.iter().map(|w| w / mean).collect();
        let mut columns: Vec<(u32, u32)> = (0..blocks).map(|block| (u32::MAX, block)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..blocks).partition(|&b| left[b as usize] < 1.0);
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            columns[poor as usize] = ((left[poor as usize] * 2f64.powi(32)) as u32, rich);
            left[rich as usize] -= 1.0 - left[poor as usize];
            if left[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { columns }
    }

    #[inline]
    pub fn draw(&self, rng: &mut Pcg64) -> u32 {
        let word = rng.next_u64();
        let column = (((word >> 32) * self.columns.len() as u64) >> 32) as u32;
        let (until, other) = self.columns[column as usize];
        if (word as u32) < until { column } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_drawn_in_proportion_to_their_power() {
        for exponent in [0.0, 0.8, 1.0, 1.4] {
            let zipf = Zipf::new(1000, exponent);
            let mut rng = firnfs_sim::seeded(1, "zipf");
            let mut drawn = [0u32; 1000];
            for _ in 0..2_000_000 {
                drawn[zipf.draw(&mut rng) as usize] += 1;
            }
            let all: f64 = (1..=1000).map(|r| f64::from(r).powf(-exponent)).sum();
            for rank in [1, 2, 10, 100] {
                let expected = 2_000_000.0 * f64::from(rank).powf(-exponent) / all;
                let error = (f64::from(drawn[rank as usize - 1]) - expected) / expected.sqrt();
                assert!(error.abs() < 4.5, "exponent {exponent}, rank {rank}: {error} standard errors");
            }
        }
    }
}
