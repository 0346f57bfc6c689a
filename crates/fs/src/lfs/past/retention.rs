//! Chooses the automatic points to drop, by pure functions of the points, the rules and the time.

use firnfs_format::checkpoint::{Point, Rule};
use firnfs_format::{Epoch, TimeNs};

/// The oldest of these automatic points that no rule keeps. A rule keeps the first point of each of its periods. `before` is the
/// automatic point before them; `may_go` says which of them may be dropped.
#[must_use]
pub(in crate::lfs) fn outlived<'p>(
    mut before: Option<&'p Point>,
    points: impl Iterator<Item = &'p Point>,
    rules: &[Rule],
    now: TimeNs,
    may_go: impl Fn(&Point) -> bool,
) -> Option<Epoch> {
    for point in points {
        let age_ns = now.0.saturating_sub(point.time.0);
        let is_first = |rule: &Rule| before.is_none_or(|before| period(rule, before) != period(rule, point));
        let keeps = |rule: &Rule| {
            age_ns <= i64::from(rule.for_s) * SECOND_NS && (rule.every_s == 0 || is_first(rule))
        };
        if may_go(point) && !rules.iter().any(keeps) {
            return Some(point.epoch);
        }
        before = Some(point);
    }
    None
}

/// The one of these automatic points whose loss matters least: the gap between its neighbours is the smallest in proportion to
/// its age. `before` and `may_go` as for [`outlived`].
#[must_use]
pub(in crate::lfs) fn least_missed<'p>(
    before: Option<&'p Point>,
    points: impl Iterator<Item = &'p Point>,
    now: TimeNs,
    may_go: impl Fn(&Point) -> bool,
) -> Option<Epoch> {
    let points: Vec<&Point> = points.collect();
    let time_before = before.map_or(TimeNs(i64::MIN / 2), |before| before.time);
    let gap = |at: usize| {
        let after = points.get(at + 1).map_or(now, |point| point.time);
        let before = at.checked_sub(1).map_or(time_before, |before| points[before].time);
        let gap_s = (i128::from(after.0) - i128::from(before.0)).max(0) / i128::from(SECOND_NS);
        // In millionths of its age.
        gap_s * 1_000_000 / i128::from(age_s(points[at], now).max(1))
    };
    let going = (0..points.len()).filter(|at| may_go(points[*at]));
    going.min_by_key(|at| gap(*at)).map(|at| points[at].epoch)
}

const SECOND_NS: i64 = 1_000_000_000;

fn seconds(time: TimeNs) -> i64 {
    time.0.div_euclid(SECOND_NS)
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
    use crate::lfs::tables::points::Points;
    use crate::lfs::tables::table::Table;
    use firnfs_format::InodeNo;
    use firnfs_format::checkpoint::Retention;

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

    fn any(_: &Point) -> bool {
        true
    }

    fn next_outlived(points: &[Point], now: TimeNs) -> Option<Epoch> {
        let mut points = Points::new(points.to_vec(), 0, retention());
        let (before, part) = points.examine();
        outlived(before, part, &retention().rules, now, any)
    }

    fn next_missed_least(points: &[Point], now: TimeNs) -> Option<Epoch> {
        let mut points = Points::new(points.to_vec(), 0, retention());
        let (before, part) = points.examine();
        least_missed(before, part, now, any)
    }

    /// The points that are left after all outlived ones were dropped.
    fn left(mut points: Vec<Point>, now: i64) -> Vec<i64> {
        while let Some(epoch) = next_outlived(&points, at(now)) {
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
        assert_eq!(next_outlived(&[named.clone(), going.clone()], at(1 << 30)), None);
        assert_eq!(next_missed_least(&[named, going], at(100)), None);
    }

    #[test]
    fn a_point_that_has_to_stay_still_counts_as_the_first_of_its_period() {
        let points = [point(1, 0), point(2, 60), point(3, 120)];
        let next = |may_go: fn(&Point) -> bool| {
            outlived(None, points.iter(), &retention().rules, at(2 * HOUR_S), may_go)
        };
        assert_eq!(next(|point| point.epoch != Epoch(1)), Some(Epoch(2)));
        assert_eq!(next(|point| point.epoch == Epoch(3)), Some(Epoch(3)));
    }

    #[test]
    fn a_clock_that_was_set_back_drops_nothing() {
        assert_eq!(left(vec![point(1, 5_000), point(2, 5_001)], 0), [5_000, 5_001]);
    }

    #[test]
    fn the_point_between_close_neighbours_is_missed_least() {
        let points = [point(1, 0), point(2, 1_000), point(3, 2_000), point(4, 2_010), point(5, 2_020)];
        assert_eq!(next_missed_least(&points, at(10_000)), Some(Epoch(4)));
        let old =
            [point(1, 0), point(2, 10), point(3, 20), point(4, 9_970), point(5, 9_980), point(6, 9_990)];
        assert_eq!(
            next_missed_least(&old, at(10_000)),
            Some(Epoch(2)),
            "the same gap is less for an old one"
        );
    }
}
