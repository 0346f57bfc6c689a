//! Rules of retention as people write them: `all:1h hourly:2d daily:30d weekly:1y`.

use firnfs_format::checkpoint::{RULES_MAX, Retention, Rule};

/// What a new volume keeps, and its share of the volume in percent.
pub const DEFAULT_RULES: &str = "all:1h hourly:2d daily:30d weekly:1y";
/// See [`DEFAULT_RULES`].
pub const DEFAULT_PERCENT: u32 = 30;

/// Names of periods, with their seconds.
const PERIODS: [(&str, u32); 6] = [
    ("all", 0),
    ("hourly", 3_600),
    ("daily", 86_400),
    ("weekly", 7 * 86_400),
    ("monthly", 30 * 86_400),
    ("yearly", 365 * 86_400),
];
/// Units of time, the longest first, with their seconds.
const UNITS: [(char, u32); 6] =
    [('y', 365 * 86_400), ('w', 7 * 86_400), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Reads rules: `PERIOD:TIME` each, where a period is a name or a time.
///
/// # Errors
/// Says which rule is none, and how one looks.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let rules: Vec<Rule> = text.split_whitespace().map(parse_rule).collect::<Result<_, _>>()?;
    match rules.len() {
        0 => Err(format!("no rule; for example '{DEFAULT_RULES}', or 'off'")),
        len if len > RULES_MAX => Err(format!("{len} rules; at most {RULES_MAX}")),
        _ => Ok(rules),
    }
}

fn parse_rule(text: &str) -> Result<Rule, String> {
    let wrong = || {
        let names = PERIODS.map(|(name, _)| name).join(", ");
        format!("'{text}' is no rule: PERIOD:TIME, the period one of {names} or a time; times as 90m, 2d, 1y")
    };
    let (period, time) = text.split_once(':').ok_or_else(wrong)?;
    let named = PERIODS.iter().find(|(name, _)| *name == period).map(|(_, seconds)| *seconds);
    let every_s = named.or_else(|| seconds(period)).ok_or_else(wrong)?;
    let for_s = seconds(time).filter(|for_s| *for_s > 0).ok_or_else(wrong)?;
    Ok(Rule { every_s, for_s })
}

/// A time like `2d`, in seconds.
fn seconds(text: &str) -> Option<u32> {
    let unit = text.chars().last()?;
    let (_, unit_s) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let number: u32 = text[..text.len() - 1].parse().ok()?;
    number.checked_mul(unit_s)
}

/// The rules as [`parse`] reads them.
pub fn text(rules: &[Rule]) -> String {
    let rule = |rule: &Rule| {
        let named = PERIODS.iter().find(|(_, seconds)| *seconds == rule.every_s);
        let period = named.map_or_else(|| time_text(rule.every_s), |(name, _)| (*name).to_owned());
        format!("{period}:{}", time_text(rule.for_s))
    };
    rules.iter().map(rule).collect::<Vec<_>>().join(" ")
}

fn time_text(seconds: u32) -> String {
    let unit = UNITS.into_iter().find(|(_, unit_s)| seconds >= *unit_s && seconds.is_multiple_of(*unit_s));
    unit.map_or_else(|| "0s".to_owned(), |(name, unit_s)| format!("{}{name}", seconds / unit_s))
}

/// Reads `off`, or rules with the default share.
///
/// # Errors
/// As [`parse`].
pub fn parse_retention(text: &str) -> Result<Retention, String> {
    if text == "off" {
        return Ok(Retention::default());
    }
    Ok(Retention { percent: DEFAULT_PERCENT, rules: parse(text)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_back_as_they_were_written() {
        for rules in [DEFAULT_RULES, "all:90m", "15m:8h 2w:26w", "yearly:10y monthly:1y", "all:1s"] {
            assert_eq!(text(&parse(rules).unwrap()), rules);
        }
        assert_eq!(parse("hourly:2d").unwrap(), [Rule { every_s: 3_600, for_s: 172_800 }]);
        assert_eq!(parse("7d:60s").map(|rules| text(&rules)), Ok("weekly:1m".to_owned()));
    }

    #[test]
    fn what_is_no_rule_is_refused_by_name() {
        for wrong in
            ["", "hourly", "hourly:", "hourly:0d", "often:1d", "hourly:1x", "all:99999999y", "all:-1d", "é"]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let many = "all:1h ".repeat(RULES_MAX + 1);
        assert_eq!(parse(&many), Err(format!("7 rules; at most {RULES_MAX}")));
        assert!(parse("all:1h sometimes:2d").unwrap_err().contains("'sometimes:2d'"));
        assert_eq!(parse_retention("off"), Ok(Retention::default()));
    }
}
