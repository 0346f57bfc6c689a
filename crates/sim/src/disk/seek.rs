//! `SeekCurve`: the time of a seek as a function of its distance.
//!
//! The arm accelerates over short distances, so the time grows with their square root; over long ones it coasts, and the time
//! grows with the distance (Ruemmler and Wilkes 1994). A measured curve has two pieces. Where only a data sheet's three times are
//! known, the curve of Lee and Katz (1993) goes through them.
//!
//! Invariant: a seek over no distance takes no time. The times include settling. Callers: `media`, `params`.

use crate::disk::ns;

/// See the module's head. Times in milliseconds, distances in cylinders.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SeekCurve {
    /// `short_ms + short_root_ms * sqrt(d)` for d up to `short_cylinders`, else `long_ms + long_cylinder_ms * d`.
    TwoPieces {
        /// Constant of the short seeks.
        short_ms: f64,
        /// Factor of the root.
        short_root_ms: f64,
        /// Longest short seek.
        short_cylinders: u32,
        /// Constant of the long seeks.
        long_ms: f64,
        /// Time of each cylinder of a long seek.
        long_cylinder_ms: f64,
    },
    /// `single_ms + root * sqrt(d - 1) + linear * (d - 1)`.
    ThreePoints {
        /// Time to the next cylinder.
        single_ms: f64,
        /// Factor of the root.
        root_ms: f64,
        /// Factor of the distance.
        linear_ms: f64,
    },
}

impl SeekCurve {
    /// The curve of Lee and Katz, *An Analytic Performance Model of Disk Arrays*, 1993: takes `single_ms` to the next
    /// cylinder, `full_ms` across all of them, and `average_ms` on average over seeks of a random distance.
    #[must_use]
    pub fn through(single_ms: f64, average_ms: f64, full_ms: f64, cylinders: u32) -> Self {
        let n = f64::from(cylinders);
        let root_ms = (-10.0 * single_ms + 15.0 * average_ms - 5.0 * full_ms) / (3.0 * n.sqrt());
        let linear_ms = (7.0 * single_ms - 15.0 * average_ms + 8.0 * full_ms) / (3.0 * n);
        Self::ThreePoints { single_ms, root_ms, linear_ms }
    }

    /// The time of a seek over that many cylinders, in nanoseconds.
    #[must_use]
    pub fn time_ns(&self, cylinders: u32) -> i64 {
        if cylinders == 0 { 0 } else { ns(self.time_ms(f64::from(cylinders))).max(0) }
    }

    fn time_ms(&self, distance: f64) -> f64 {
        match *self {
            Self::TwoPieces { short_ms, short_root_ms, short_cylinders, .. }
                if distance <= f64::from(short_cylinders) =>
            {
                short_ms + short_root_ms * distance.sqrt()
            }
            Self::TwoPieces { long_ms, long_cylinder_ms, .. } => long_ms + long_cylinder_ms * distance,
            Self::ThreePoints { single_ms, root_ms, linear_ms } => {
                single_ms + root_ms * (distance - 1.0).sqrt() + linear_ms * (distance - 1.0)
            }
        }
    }

    /// The first distance whose seek takes less time than a shorter one, among those of a disk; `None` if the curve rises
    /// everywhere. A fall of less than a hundredth is rounding of the published constants where two pieces meet.
    #[must_use]
    pub fn first_fall(&self, cylinders: u32) -> Option<u32> {
        let mut longest_ns = 0;
        (1..cylinders).find(|d| {
            let time_ns = self.time_ns(*d);
            longest_ns = longest_ns.max(time_ns);
            time_ns < longest_ns / 100 * 99
        })
    }

    /// The mean over all pairs of different cylinders, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self, cylinders: u32) -> i64 {
        let n = i128::from(cylinders);
        let weighted = (1..cylinders).map(|d| i128::from(self.time_ns(d)) * (n - i128::from(d)));
        (weighted.sum::<i128>() / (n * (n - 1) / 2).max(1)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HP_97560: SeekCurve = SeekCurve::TwoPieces {
        short_ms: 3.24,
        short_root_ms: 0.4,
        short_cylinders: 383,
        long_ms: 8.0,
        long_cylinder_ms: 0.008,
    };

    #[test]
    fn the_hp_97560_has_the_published_curve() {
        let times = [1, 100, 383, 384, 1000, 1961].map(|d| HP_97560.time_ns(d));
        assert_eq!(times, [3_640_000, 7_240_000, 11_068_154, 11_072_000, 16_000_000, 23_688_000]);
        assert_eq!(HP_97560.time_ns(0), 0);
        assert_eq!(HP_97560.first_fall(1962), None);
    }

    #[test]
    fn three_points_are_met() {
        let curve = SeekCurve::through(2.0, 9.5, 20.0, 2568);
        assert_eq!(curve.time_ns(1), 2_000_000);
        let near =
            |ns: i64, ms: f64| assert!((ns as f64 / 1e6 / ms - 1.0).abs() < 0.01, "{ns} is not {ms} ms");
        near(curve.time_ns(2567), 20.0);
        near(curve.mean_ns(2568), 9.5);
        assert_eq!(curve.first_fall(2568), None);
    }

    #[test]
    fn a_curve_that_falls_is_noticed() {
        // An average far above half the full stroke bends the curve down at its end.
        let bent = SeekCurve::through(1.0, 18.0, 20.0, 1000);
        assert!(bent.first_fall(1000).is_some());
    }
}
