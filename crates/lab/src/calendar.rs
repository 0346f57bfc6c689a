//! Dates for people: nanoseconds since 1970 as UTC, without a time-zone database.

/// `2026-11-21T02:43:10.123456789Z` (RFC 3339) for nanoseconds since 1970-01-01 UTC; trailing zeros are left out.
#[must_use]
pub fn rfc3339(ns: i64) -> String {
    let (secs, nanos) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let (days, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = format!(".{nanos:09}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The present time, in nanoseconds since 1970-01-01 UTC.
#[must_use]
pub fn now_ns() -> i64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX)
}

/// Gregorian year, month and day of a day counted from 1970-01-01 (H. Hinnant, "chrono-compatible low-level date
/// algorithms").
fn civil_date(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_NS: i64 = 86_400_000_000_000;

    #[test]
    fn dates_are_right_around_leap_days_and_year_ends() {
        for (day, date) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(rfc3339(day * DAY_NS), format!("{date}T00:00:00Z"));
        }
    }

    #[test]
    fn every_nanosecond_in_range_has_a_date_and_short_fractions_stay_short() {
        assert_eq!(rfc3339(1_500_000_000), "1970-01-01T00:00:01.5Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(rfc3339(i64::MAX), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(rfc3339(i64::MIN), "1677-09-21T00:12:43.145224192Z");
    }
}
