//! Random numbers that several generators draw. Callers: `trace::generator`, `hardware::fragmented`.

use rand::{Rng, RngExt};

/// A number from the standard normal distribution (Box and Muller).
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (angle * std::f64::consts::TAU).cos()
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
}
