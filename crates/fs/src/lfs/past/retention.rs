//! Chooses the automatic points to drop, by pure functions of the points, the rules and the time.

use firnfs_format::checkpoint::{Point, Retention, Rule};
use firnfs_format::{Epoch, TimeNs};

/// The oldest automatic point that no rule keeps. A rule keeps the first point of each of its periods.
#[must_use]
pub(in crate::lfs) fn outlived(points: &[Point], retention: &Retention, now: TimeNs) -> Option<Epoch> {
    let automatic: Vec<&Point> = automatic(points).collect();
    let is_kept = |at: usize| {
        let age_s = age_s(automatic[at], now);
        let before = at.checked_sub(1).map(|before| automatic[before]);
        retention.rules.iter().any(|rule| {
            let is_first = before.is_none_or(|before| period(rule, before) != period(rule, automatic[at]));
            age_s <= i64::from(rule.for_s) && (rule.every_s == 0 || is_first)
        })
    };
    (0..automatic.len()).find(|at| !is_kept(*at)).map(|at| automatic[at].epoch)
}

/// The automatic point whose loss matters least: the gap between its neighbours is the smallest in proportion to its age.
#[must_use]
pub(in crate::lfs) fn least_missed(points: &[Point], now: TimeNs) -> Option<Epoch> {
    let automatic: Vec<&Point> = automatic(points).collect();
    let gap = |at: usize| {
        let after = automatic.get(at + 1).map_or(now, |point| point.time);
        let before = at.checked_sub(1).map_or(TimeNs(i64::MIN / 2), |before| automatic[before].time);
        let gap_s = (i128::from(after.0) - i128::from(before.0)).max(0) / 1_000_000_000;
        // In millionths of its age.
        gap_s * 1_000_000 / i128::from(age_s(automatic[at], now).max(1))
    };
    (0..automatic.len()).min_by_key(|at| gap(*at)).map(|at| automatic[at].epoch)
}

/// The automatic points that are not being dropped, oldest first.
pub(in crate::lfs) fn automatic(points: &[Point]) -> impl DoubleEndedIterator<Item = &Point> {
    points.iter().filter(|point| point.is_automatic && point.dropped_to.is_none())
}

fn seconds(time: TimeNs) -> i64 {
    time.0.div_euclid(1_000_000_000)
}

/// A point in the future, left by a clock that was set back, counts as new.
fn age_s(point: &Point, now: TimeNs) -> i64 {
    seconds(now).saturating_sub(seconds(point.time)).max(0)
}

fn period(rule: &Rule, point: &Point) -> i64 {
    seconds(point.time).div_euclid(i64::from(rule.every_s.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lfs::tables::table::Table;
    use firnfs_format::InodeNo;

    const MINUTE_S: i64 = 60;
    const HOUR_S: i64 = 3_600;

    fn at(seconds: i64) -> TimeNs {
        TimeNs(seconds * 1_000_000_000)
    }

    fn point(epoch: u32, seconds: i64) -> Point {
        Point {
            epoch: Epoch(epoch),
            time: at(seconds),
            imap: Table::EMPTY,
            next_ino: InodeNo(16),
            live_bytes: 0,
            dropped_to: None,
            is_automatic: true,
            name: String::new(),
        }
    }

    fn retention() -> Retention {
        let rule = |every_s, for_s| Rule { every_s, for_s };
        Retention { percent: 30, rules: vec![rule(0, 600), rule(3_600, 86_400)] }
    }

    /// The points that are left after all outlived ones were dropped.
    fn left(mut points: Vec<Point>, now: i64) -> Vec<i64> {
        while let Some(epoch) = outlived(&points, &retention(), at(now)) {
            points.retain(|point| point.epoch != epoch);
        }
        points.iter().map(|point| seconds(point.time)).collect()
    }

    #[test]
    fn the_first_point_of_each_period_stays_as_long_as_its_rule_says() {
        let every_minute: Vec<Point> = (0..180).map(|n| point(n, i64::from(n) * MINUTE_S)).collect();
        let now = 180 * MINUTE_S;
        let mut expected = vec![0, HOUR_S, 2 * HOUR_S];
        expected.extend((170..180).map(|n| n * MINUTE_S));
        assert_eq!(left(every_minute.clone(), now), expected);
        assert_eq!(left(every_minute.clone(), 25 * HOUR_S), [HOUR_S, 2 * HOUR_S]);
        assert_eq!(left(every_minute, 48 * HOUR_S), [0; 0]);
    }

    #[test]
    fn named_points_and_those_that_go_already_are_not_looked_at() {
        let named = Point { is_automatic: false, name: "kept".to_owned(), ..point(1, 0) };
        let going = Point { dropped_to: Some(Default::default()), ..point(2, 0) };
        assert_eq!(outlived(&[named.clone(), going.clone()], &retention(), at(1 << 30)), None);
        assert_eq!(least_missed(&[named, going], at(100)), None);
    }

    #[test]
    fn a_clock_that_was_set_back_drops_nothing() {
        assert_eq!(left(vec![point(1, 5_000), point(2, 5_001)], 0), [5_000, 5_001]);
    }

    #[test]
    fn the_point_between_close_neighbours_is_missed_least() {
        let points = [point(1, 0), point(2, 1_000), point(3, 2_000), point(4, 2_010), point(5, 2_020)];
        assert_eq!(least_missed(&points, at(10_000)), Some(Epoch(4)));
        let old =
            [point(1, 0), point(2, 10), point(3, 20), point(4, 9_970), point(5, 9_980), point(6, 9_990)];
        assert_eq!(least_missed(&old, at(10_000)), Some(Epoch(2)), "the same gap is less for an old one");
    }
}
