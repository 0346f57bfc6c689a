//! `State`: an older state of a volume that a store retains; and `Branch`: a clone that began as one.
//!
//! Callers: stores, and `vfs::history`, which shows them as directories.

use firnfs_format::{Epoch, TimeNs};

/// An older state of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State<'a> {
    /// Identifies the state; later states have larger ones.
    pub epoch: Epoch,
    /// When it was the present.
    pub time: TimeNs,
    /// The name that a user gave it; empty for an automatic state.
    pub name: &'a str,
}

/// States, oldest first.
pub type States<'a> = Box<dyn DoubleEndedIterator<Item = State<'a>> + 'a>;

impl State<'_> {
    /// The name under which users find it: its own, or its time.
    #[must_use]
    pub fn title(&self) -> String {
        if self.name.is_empty() { time_name(self.time) } else { self.name.to_owned() }
    }
}

/// A name to look for. A volume may have many states, so the name is parsed once, and the times of states are not formatted.
#[derive(Clone, Copy, Debug)]
pub struct Title<'a> {
    name: &'a [u8],
    /// If the name is a time: its seconds since 1970, and its milliseconds if it has them.
    time: Option<(i64, Option<i64>)>,
}

impl<'a> Title<'a> {
    /// Reads a name.
    #[must_use]
    pub fn of(name: &'a [u8]) -> Self {
        Self { name, time: time_in(name) }
    }

    /// True if the name has the form of a time. A later automatic state could have the same name.
    #[must_use]
    pub fn is_time(&self) -> bool {
        self.time.is_some()
    }

    /// True if that state has this name.
    #[must_use]
    pub fn is_of(&self, state: &State<'_>) -> bool {
        match self.time {
            Some(time) if state.name.is_empty() => parts(state.time) == time,
            _ => !state.name.is_empty() && state.name.as_bytes() == self.name,
        }
    }
}

/// A clone: a directory tree that began as an older state, and that users can change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch {
    /// The branch in the numbers of its inodes (see `states`). Its root directory is inode 1 of that branch.
    pub number: u8,
    /// When it was made.
    pub time: TimeNs,
    /// The state that it began as.
    pub origin: Epoch,
    /// The name under which users find it.
    pub name: String,
}

const MILLISECOND_NS: i64 = 1_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// The time of the next automatic state, if the last one was made at `last`: `now`, moved as little as it takes to give the state
/// a name of its own. The name of the first state of a second has no milliseconds, and those of the others have. The time of the
/// others is a whole millisecond; that of the first is not, unless it is a whole second.
#[must_use]
pub fn time_of_next(now: TimeNs, last: Option<TimeNs>) -> TimeNs {
    let (second, millis) = (now.0.div_euclid(SECOND_NS), now.0.div_euclid(MILLISECOND_NS));
    // A clock that was set back by more than a second leaves newer names, and the times of new states need not follow them.
    let is_near =
        |last: &TimeNs| last.0.div_euclid(SECOND_NS) >= second && last.0 < now.0.saturating_add(SECOND_NS);
    match last.filter(is_near) {
        Some(last) => TimeNs(millis.max(last.0.div_euclid(MILLISECOND_NS) + 1) * MILLISECOND_NS),
        None => TimeNs(now.0 + i64::from(parts(now).1.is_some())),
    }
}

/// The seconds since 1970 of a time, and its milliseconds if they are in its name.
fn parts(time: TimeNs) -> (i64, Option<i64>) {
    let (seconds, rest_ns) = (time.0.div_euclid(SECOND_NS), time.0.rem_euclid(SECOND_NS));
    let has_millis = rest_ns > 0 && rest_ns % MILLISECOND_NS == 0;
    (seconds, has_millis.then_some(rest_ns / MILLISECOND_NS))
}

/// A time as "2026-11-24T13:45:10Z", or as "2026-11-24T13:45:10.250Z".
fn time_name(time: TimeNs) -> String {
    let (seconds, millis) = parts(time);
    let millis = millis.map_or_else(String::new, |millis| format!(".{millis:03}"));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{millis}Z")
}

/// The time that a name of one of these forms means. A date that no calendar has means nothing.
fn time_in(name: &[u8]) -> Option<(i64, Option<i64>)> {
    let form: &[u8] =
        if name.contains(&b'.') { b"dddd-dd-ddTdd:dd:dd.dddZ" } else { b"dddd-dd-ddTdd:dd:ddZ" };
    let is_as = |(c, form): (&u8, &u8)| if *form == b'd' { c.is_ascii_digit() } else { c == form };
    if name.len() != form.len() || !name.iter().zip(form).all(is_as) {
        return None;
    }
    let number =
        |at: std::ops::Range<usize>| name[at].iter().fold(0, |sum, c| sum * 10 + i64::from(c - b'0'));
    // From the first day of the year it is a few steps to any day.
    let first = days_before(number(0..4));
    let day = (first..first + 366).find(|day| civil(*day) == (number(0..4), number(5..7), number(8..10)))?;
    let seconds = day * 86_400 + number(11..13) * 3_600 + number(14..16) * 60 + number(17..19);
    Some((seconds, name.contains(&b'.').then(|| number(20..23))))
}

/// Days from 1970-01-01 to the first of a year's January.
fn days_before(year: i64) -> i64 {
    let before = year - 1;
    let leap_days = |year: i64| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    (year - 1970) * 365 + leap_days(before) - leap_days(1969)
}

/// The date of a day since 1970-01-01 in the Gregorian calendar: years of this count begin in March, so that the day which only
/// leap years have is a year's last.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let day = days + 719_468;
    let (era, day) = (day.div_euclid(ERA_DAYS), day.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / (ERA_DAYS - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_was_made_by_itself_is_found_by_its_time() {
        let name = |seconds: i64| time_name(TimeNs(seconds * 1_000_000_000));
        assert_eq!(name(0), "1970-01-01T00:00:00Z");
        assert_eq!(name(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(name(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(name(1_795_527_910), "2026-11-24T13:45:10Z");
        assert_eq!(name(-1), "1969-12-31T23:59:59Z");
        for seconds in (-100..4_000).map(|n| n * 1_234_567) {
            let (name, time) = (name(seconds), TimeNs(seconds * 1_000_000_000 + 7));
            let title = Title::of(name.as_bytes());
            assert!(title.is_time() && title.is_of(&State { epoch: Epoch(1), time, name: "" }), "{name}");
            assert!(!title.is_of(&State { epoch: Epoch(1), time: TimeNs(time.0 + 1_000_000_000), name: "" }));
            assert!(!title.is_of(&State { epoch: Epoch(1), time, name: "other" }));
        }
    }

    #[test]
    fn states_of_one_second_have_names_of_their_own() {
        let begin_ns = 1_795_527_910 * SECOND_NS;
        let mut last = None;
        let mut names = Vec::new();
        // A clock that stands still now and then, and comes close to the second's end.
        for now_ns in
            [250_000_000, 250_000_400, 250_000_400, 251_900_000, 999_500_000, 999_600_000, 999_700_000]
        {
            let time = time_of_next(TimeNs(begin_ns + now_ns), last);
            assert!(
                last.is_none_or(|last| last < time)
                    && (time.0 - begin_ns - now_ns).abs() < 2 * MILLISECOND_NS
            );
            names.push(time_name(time));
            last = Some(time);
        }
        let second = "2026-11-24T13:45:1";
        let ends = ["0Z", "0.251Z", "0.252Z", "0.253Z", "0.999Z", "1Z", "1.001Z"];
        assert_eq!(names, ends.map(|end| format!("{second}{end}")));
        // The second that the last one was moved into is taken.
        let next = time_of_next(TimeNs(begin_ns + SECOND_NS), last);
        assert_eq!(time_name(next), format!("{second}1.002Z"));
        for name in &names {
            let title = Title::of(name.as_bytes());
            let is_of = |time: &i64| title.is_of(&State { epoch: Epoch(1), time: TimeNs(*time), name: "" });
            assert!(title.is_time());
            let times: Vec<i64> = (0..2_000).map(|ms| begin_ns + ms * MILLISECOND_NS).filter(is_of).collect();
            assert!(times.len() <= 1, "{name}: {times:?}");
        }
    }

    #[test]
    fn a_name_is_found_whatever_its_state_is_called() {
        let state = |name| State { epoch: Epoch(1), time: TimeNs(0), name };
        for name in ["kept", "2026-11-24T13:45:10", "2026-02-30T00:00:00Z", "x026-11-24T13:45:10Z"] {
            let title = Title::of(name.as_bytes());
            assert!(!title.is_time() && title.is_of(&state(name)) && !title.is_of(&state("")), "{name}");
        }
    }
}
