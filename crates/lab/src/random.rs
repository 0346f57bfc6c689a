//! Random numbers that several generators draw. Callers: `trace::generator`, `hardware::fragmented`, `hardware::production`.

use rand::{Rng, RngExt};

/// A number from the standard normal distribution (Box and Muller).
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (angle * std::f64::consts::TAU).cos()
}

/// A number from the exponential distribution with this mean.
pub(crate) fn exponential(random: &mut impl Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_zero_and_the_deviation_one() {
        let mut random = firnfs_sim::seeded(1, "normal");
        let values: Vec<f64> = (0..100_000).map(|_| normal(&mut random)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let deviation =
            (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
        assert!(mean.abs() < 0.01 && (deviation - 1.0).abs() < 0.01, "{mean}, {deviation}");
    }

    #[test]
    fn the_mean_is_the_one_asked_for_and_a_third_lies_above_it() {
        let mut random = firnfs_sim::seeded(1, "exponential");
        let values: Vec<f64> = (0..100_000).map(|_| exponential(&mut random, 3.0)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let above = values.iter().filter(|value| **value > 3.0).count() as f64 / values.len() as f64;
        assert!((mean - 3.0).abs() < 0.03 && (above - (-1.0_f64).exp()).abs() < 0.005, "{mean}, {above}");
    }
}
