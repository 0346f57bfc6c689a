//! When a run has settled, and how precise its result is.
//!
//! The warm-up is the part whose omission makes the standard error of the rest smallest (MSER, White 1997); it has ended
//! if that part is less than half of the windows. The confidence interval comes from the means of ten batches of
//! consecutive windows, because single windows depend on each other.

use serde::Serialize;

/// Number of batches for a confidence interval.
const BATCHES: usize = 10;
/// 97.5% quantiles of Student's t for 1 to 9 degrees of freedom.
const STUDENT: [f64; BATCHES - 1] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// A mean with its 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval.
    pub half_width: f64,
}

impl Interval {
    /// The mean of at least one value; values may depend on their predecessors.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let batches = BATCHES.min(values.len());
        if batches < 2 {
            return Self { mean: values.first().copied().unwrap_or(f64::NAN), half_width: f64::INFINITY };
        }
        let size = values.len() / batches;
        // The latest whole batches.
        let means: Vec<f64> = values[values.len() - size * batches..]
            .chunks(size)
            .map(|batch| batch.iter().sum::<f64>() / size as f64)
            .collect();
        let (mean, variance) = moments(&means);
        let n = batches as f64;
        let half_width = STUDENT[batches - 2] * (variance * n / (n - 1.0) / n).sqrt();
        Self { mean, half_width }
    }

    /// Half the width as a share of the mean.
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.half_width / self.mean
    }
}

/// How many of the first values belong to the warm-up; `None` if it may not have ended.
#[must_use]
pub fn warm_up(values: &[f64]) -> Option<usize> {
    let half = values.len() / 2;
    let standard_error = |skip: usize| {
        let rest = &values[skip..];
        moments(rest).1 / rest.len() as f64
    };
    let best = (0..=half).min_by(|&a, &b| standard_error(a).total_cmp(&standard_error(b)))?;
    (best < half).then_some(best)
}

/// Mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn a_decaying_start_is_left_out_and_a_steady_drift_is_never_steady() {
        let mut rng = firnfs_sim::seeded(1, "noise");
        let mut noise = || rng.random_range(-0.01..0.01);
        let settles: Vec<f64> = (0..100).map(|i| 2.0 + (-f64::from(i) / 5.0).exp() + noise()).collect();
        let skip = warm_up(&settles).unwrap();
        assert!((10..40).contains(&skip), "{skip}");
        let drifts: Vec<f64> = (0..100).map(|i| 2.0 + f64::from(i) * 0.01 + noise()).collect();
        assert_eq!(warm_up(&drifts), None);
    }

    #[test]
    fn the_interval_holds_the_true_mean_19_times_in_20() {
        let mut rng = firnfs_sim::seeded(2, "noise");
        let mut hits = 0;
        for _ in 0..1000 {
            let values: Vec<f64> = (0..40).map(|_| rng.random_range(0.0..1.0)).collect();
            let interval = Interval::of(&values);
            hits += u32::from((interval.mean - 0.5).abs() <= interval.half_width);
        }
        assert!((930..970).contains(&hits), "{hits}");
    }

    #[test]
    fn one_value_says_nothing_of_its_error() {
        assert_eq!(Interval::of(&[3.0]), Interval { mean: 3.0, half_width: f64::INFINITY });
    }
}
