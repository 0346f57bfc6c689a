//! Parses times as people write them: `yesterday`, `2 hours ago`, `monday 9:30`, `2026-11-24 13:45`, `@1795527910`.
//!
//! A day without a time means its end: the newest state of `yesterday` is the last one that was made before today. Callers:
//! `states`, which looks for the newest state at or before a time; everything that shows a time.

use crate::sizes::Count;
use firnfs_format::TimeNs;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ZonedDateTime};

/// From this many digits on, a number counts seconds since 1970, as `date +%s` prints them.
const EPOCH_DIGITS_MIN: usize = 9;
const NANOS_PER_S: i64 = 1_000_000_000;

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// Parses a time in the past; `None` if the text is no such time.
pub fn parse(text: &str, now: &ZonedDateTime) -> Option<TimeNs> {
    let text = text.trim();
    let found = absolute(text, now.time_zone()).or_else(|| {
        let text = text.to_lowercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        ago(&words, now).or_else(|| day_and_time(&words, now))
    })?;
    i64::try_from(found.as_nanosecond()).ok().map(TimeNs)
}

/// The present, in the time zone of this machine.
pub fn now() -> ZonedDateTime {
    ZonedDateTime::now()
}

/// The present as a time of a state.
pub fn now_ns() -> TimeNs {
    TimeNs(i64::try_from(now().timestamp().as_nanosecond()).unwrap_or(i64::MAX))
}

/// A time for people: local, to the second.
pub fn local(time: TimeNs) -> String {
    match Timestamp::from_nanosecond(i128::from(time.0)) {
        Ok(time) => time.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => firnfs_lab::calendar::rfc3339(time.0),
    }
}

/// How long ago a time is, in its largest unit: `3 hours ago`.
pub fn age(time: TimeNs, now: TimeNs) -> String {
    const UNITS: [(i64, &str); 6] = [
        (365 * 86_400, "year"),
        (30 * 86_400, "month"),
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let seconds = now.0.saturating_sub(time.0) / NANOS_PER_S;
    let unit = UNITS.into_iter().find(|(unit_s, _)| seconds >= *unit_s);
    match unit {
        Some((unit_s, name)) => {
            let count = seconds / unit_s;
            format!("{} ago", Count(count as u64).of(name, &format!("{name}s")))
        }
        None if seconds < 0 => "in the future".to_owned(),
        None => "now".to_owned(),
    }
}

/// ISO 8601, with or without time and zone; or seconds since 1970.
fn absolute(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let digits = text.strip_prefix('@').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if is_number && (text.starts_with('@') || digits.len() >= EPOCH_DIGITS_MIN) {
        return Timestamp::from_second(digits.parse().ok()?).ok();
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let is_date_alone = text.len() <= "2026-11-24".len();
    if let (true, Ok(date)) = (is_date_alone, text.parse::<Date>()) {
        return end_of(date, zone);
    }
    // It needs a date: `13:45` alone is a time of today.
    let is_date = text.len() > "2026-11-24".len() && text.contains('-');
    let local: DateTime = text.parse().ok().filter(|_| is_date)?;
    Some(local.to_zoned_datetime(zone.clone()).ok()?.timestamp())
}

/// `2 hours ago`, `1h 30min ago`, `an hour ago`, `last week`; `ago` may be missing.
fn ago(words: &[&str], now: &ZonedDateTime) -> Option<Timestamp> {
    let amounts = match words {
        ["last", unit] => return earlier(now, 1, unit).map(|at| at.timestamp()),
        [amounts @ .., "ago"] => amounts,
        amounts => amounts,
    };
    let mut parts: Vec<&str> = Vec::new();
    for word in amounts.iter().filter(|word| **word != "and") {
        let letters_at = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (digits, letters) = word.split_at(letters_at);
        parts.extend([digits, letters].into_iter().filter(|part| !part.is_empty()));
    }
    if parts.is_empty() || !parts.len().is_multiple_of(2) {
        return None;
    }
    let mut at = now.clone();
    for amount in parts.chunks(2) {
        let count =
            if matches!(amount[0], "a" | "an" | "one") { 1 } else { amount[0].parse::<u32>().ok()? };
        at = earlier(&at, i64::from(count), amount[1])?;
    }
    Some(at.timestamp())
}

fn earlier(at: &ZonedDateTime, count: i64, unit: &str) -> Option<ZonedDateTime> {
    let span = Span::new();
    let span = match unit {
        "s" | "sec" | "secs" | "second" | "seconds" => span.try_seconds(count),
        "m" | "min" | "mins" | "minute" | "minutes" => span.try_minutes(count),
        "h" | "hr" | "hrs" | "hour" | "hours" => span.try_hours(count),
        "d" | "day" | "days" => span.try_days(count),
        "w" | "week" | "weeks" => span.try_weeks(count),
        "mo" | "month" | "months" => span.try_months(count),
        "y" | "year" | "years" => span.try_years(count),
        _ => return None,
    };
    at.checked_sub(span.ok()?).ok()
}

/// `now`, `yesterday`, `monday 9:30`, `13:45`, `2026-11-24 noon`.
fn day_and_time(words: &[&str], now: &ZonedDateTime) -> Option<Timestamp> {
    let words: Vec<&str> = words.iter().copied().filter(|word| *word != "at").collect();
    let zone = now.time_zone();
    match words[..] {
        ["now"] => Some(now.timestamp()),
        [time] if time_of(time).is_some() => {
            // If the time is still to come today, it means yesterday's.
            let today = at_time(now.date(), time_of(time)?, zone)?;
            let is_to_come = today > now.timestamp();
            if is_to_come { at_time(now.date().yesterday().ok()?, time_of(time)?, zone) } else { Some(today) }
        }
        [day] | ["last", day] => end_of(day_of(day, now)?, zone),
        [day, time] | ["last", day, time] => at_time(day_of(day, now)?, time_of(time)?, zone),
        _ => None,
    }
}

fn day_of(word: &str, now: &ZonedDateTime) -> Option<Date> {
    let today = now.date();
    match word {
        "today" => Some(today),
        "yesterday" => today.yesterday().ok(),
        _ => {
            match WEEKDAYS.iter().find(|(name, _)| *name == word || word.len() == 3 && name.starts_with(word))
            {
                Some((_, weekday)) => today.nth_weekday(-1, *weekday).ok(),
                None => word.parse().ok(),
            }
        }
    }
}

fn time_of(word: &str) -> Option<Time> {
    match word {
        "noon" => Some(Time::constant(12, 0, 0, 0)),
        "midnight" => Some(Time::midnight()),
        _ => {
            let is_clock = word.contains(':') && word.bytes().all(|b| b.is_ascii_digit() || b == b':');
            let padded = if word.find(':') == Some(1) { format!("0{word}") } else { word.to_owned() };
            padded.parse().ok().filter(|_| is_clock)
        }
    }
}

fn at_time(day: Date, time: Time, zone: &TimeZone) -> Option<Timestamp> {
    Some(day.to_datetime(time).to_zoned_datetime(zone.clone()).ok()?.timestamp())
}

fn end_of(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    at_time(day, Time::MAX, zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Tuesday, in a zone that has summer time.
    fn now() -> ZonedDateTime {
        // Spelled out, since this also runs on machines without a database of time zones.
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        "2026-11-24T14:30:00".parse::<DateTime>().unwrap().to_zoned_datetime(zone).unwrap()
    }

    /// The time that a text means, local and to the second.
    fn read(text: &str) -> Option<String> {
        let time = parse(text, &now())?;
        let at = Timestamp::from_nanosecond(i128::from(time.0)).unwrap();
        let local = at.to_zoned_datetime(now().time_zone().clone());
        Some(local.strftime("%Y-%m-%d %H:%M:%S").to_string())
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, time) in [
            ("now", "2026-11-24 14:30:00"),
            ("2 hours ago", "2026-11-24 12:30:00"),
            ("2 Hours Ago", "2026-11-24 12:30:00"),
            ("10 min ago", "2026-11-24 14:20:00"),
            ("an hour ago", "2026-11-24 13:30:00"),
            ("1h 30min ago", "2026-11-24 13:00:00"),
            ("1 hour and 30 minutes ago", "2026-11-24 13:00:00"),
            ("90s", "2026-11-24 14:28:30"),
            ("3 days ago", "2026-11-21 14:30:00"),
            ("a week ago", "2026-11-17 14:30:00"),
            ("last week", "2026-11-17 14:30:00"),
            ("6 months ago", "2026-05-24 14:30:00"),
            ("last year", "2025-11-24 14:30:00"),
            ("today", "2026-11-24 23:59:59"),
            ("yesterday", "2026-11-23 23:59:59"),
            ("yesterday 9:30", "2026-11-23 09:30:00"),
            ("yesterday at noon", "2026-11-23 12:00:00"),
            ("monday", "2026-11-23 23:59:59"),
            ("tuesday", "2026-11-17 23:59:59"),
            ("last fri 18:00", "2026-11-20 18:00:00"),
            ("13:45", "2026-11-24 13:45:00"),
            ("18:00", "2026-11-23 18:00:00"),
            ("2026-11-20", "2026-11-20 23:59:59"),
            ("2026-11-20 noon", "2026-11-20 12:00:00"),
            ("2026-11-20 13:45", "2026-11-20 13:45:00"),
            ("2026-11-20T13:45:10", "2026-11-20 13:45:10"),
            ("2026-11-20T12:45:10Z", "2026-11-20 13:45:10"),
            ("2026-11-20T13:45:10+01:00", "2026-11-20 13:45:10"),
            ("@1795527910", "2026-11-24 14:45:10"),
            ("1795527910", "2026-11-24 14:45:10"),
        ] {
            assert_eq!(read(text).as_deref(), Some(time), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "ago",
            "before",
            "2 ago",
            "hours ago",
            "2 apples ago",
            "17",
            "before-upgrade",
            "25:00",
            "2026-13-40",
            "yesterday morning",
            "@",
            "@x",
            "-1 day ago",
            "tomorrow",
            "1 2 3 4",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar_also_when_the_clocks_change() {
        // Five weeks before, it was summer: the hours were shifted.
        assert_eq!(read("5 weeks ago").as_deref(), Some("2026-10-20 14:30:00"));
        assert_eq!(read("840 hours ago").as_deref(), Some("2026-10-20 15:30:00"));
    }

    #[test]
    fn an_age_has_one_unit() {
        let now = TimeNs(1_795_527_910 * NANOS_PER_S);
        let ago = |seconds: i64| age(TimeNs(now.0 - seconds * NANOS_PER_S), now);
        assert_eq!((ago(0), ago(-5)), ("now".to_owned(), "in the future".to_owned()));
        assert_eq!((ago(1), ago(119)), ("1 second ago".to_owned(), "1 minute ago".to_owned()));
        assert_eq!((ago(7_200), ago(86_400 * 400)), ("2 hours ago".to_owned(), "1 year ago".to_owned()));
    }
}
