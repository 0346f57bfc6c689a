//! Quotas for people, in 80 columns.

use super::view::{AmountView, CheckView, ClassView, LineView, ReportView};
use crate::sizes::{Bytes, Count};
use std::io::{self, Write};

/// Usage and limits.
pub fn report(out: &mut dyn Write, report: &ReportView) -> io::Result<()> {
    if !report.on {
        writeln!(
            out,
            "quotas are off: usage is not counted, limits are not enforced (turn them on with --on)"
        )?;
    } else if !report.counted {
        writeln!(out, "the inodes are being counted: nothing is refused yet")?;
    }
    for class in [ClassView::User, ClassView::Group] {
        let lines: Vec<&LineView> = report.lines.iter().filter(|line| line.class == class).collect();
        if lines.is_empty() {
            continue;
        }
        writeln!(
            out,
            "{:<12}{:>31}{:>35}",
            "", "---- blocks (bytes of space) --", "------------ inodes -----------"
        )?;
        writeln!(
            out,
            "{:<12}{:>8}{:>8}{:>8}{:>7}    {:>8}{:>8}{:>8}{:>7}",
            class.word(),
            "used",
            "soft",
            "hard",
            "grace",
            "used",
            "soft",
            "hard",
            "grace"
        )?;
        for line in lines {
            let name = line.name.clone().unwrap_or_else(|| line.id.to_string());
            let name: String = if name.chars().count() > 11 { line.id.to_string() } else { name };
            writeln!(out, "{name:<12}{}    {}", amount(&line.bytes(), size), amount(&line.inodes(), count))?;
        }
    }
    Ok(())
}

fn amount(amount: &AmountView, show: fn(u64) -> String) -> String {
    let limit = |limit| if limit == 0 { "-".to_owned() } else { show(limit) };
    let grace = amount.grace_left_s.map_or("-".to_owned(), left);
    format!("{:>8}{:>8}{:>8}{:>7}", show(amount.used), limit(amount.soft), limit(amount.hard), grace)
}

/// `1.5G`
fn size(bytes: u64) -> String {
    Bytes(bytes).to_string().replace(' ', "").replace("iB", "").replace('B', "")
}

/// Up to seven digits, beyond that in thousands, millions and so on.
fn count(count: u64) -> String {
    let (mut count, mut letters) = (count, " KMGTP".chars());
    let mut letter = letters.next();
    while count >= 10_000_000 || letter != Some(' ') && count >= 100_000 {
        count /= 1000;
        letter = letters.next();
    }
    format!("{count}{}", letter.unwrap_or(' ')).trim_end().to_owned()
}

/// The time left, in its two largest units.
fn left(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let Some(at) = UNITS.iter().position(|(scale, _)| seconds >= *scale) else { return "over".to_owned() };
    let (scale, unit) = UNITS[at];
    let rest = UNITS.get(at + 1).map(|(next, name)| (seconds % scale / next, *name)).filter(|(n, _)| *n > 0);
    match rest {
        Some((n, name)) if seconds / scale < 100 => format!("{}{unit}{n}{name}", seconds / scale),
        _ => format!("{}{unit}", seconds / scale),
    }
}

/// What a check has found.
pub fn check(out: &mut dyn Write, check: &CheckView) -> io::Result<()> {
    if check.differences.is_empty() {
        return writeln!(out, "everything that was kept is right");
    }
    for difference in &check.differences {
        writeln!(
            out,
            "{} {} has {} in {}; {} in {} had been kept (now right)",
            difference.class.word(),
            difference.id,
            Bytes(difference.counted_bytes),
            Count(difference.counted_inodes).of("inode", "inodes"),
            Bytes(difference.kept_bytes),
            Count(difference.kept_inodes)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fits_80_columns() {
        let none = AmountView { used: 1023 << 40, soft: 0, hard: 0, grace_left_s: None };
        let above = AmountView {
            used: 9_999_999,
            soft: 9_999_998,
            hard: 12_345_678_901,
            grace_left_s: Some(604_799),
        };
        let line = |class, id, name: &str, bytes: AmountView, inodes: AmountView| LineView {
            class,
            id,
            name: Some(name.into()),
            used_bytes: bytes.used,
            soft_bytes: bytes.soft,
            hard_bytes: bytes.hard,
            bytes_grace_left_s: bytes.grace_left_s,
            used_inodes: inodes.used,
            soft_inodes: inodes.soft,
            hard_inodes: inodes.hard,
            inodes_grace_left_s: inodes.grace_left_s,
        };
        let view = ReportView {
            on: true,
            counted: true,
            user_bytes_grace_s: 604_800,
            user_inodes_grace_s: 604_800,
            group_bytes_grace_s: 604_800,
            group_inodes_grace_s: 604_800,
            lines: vec![
                line(ClassView::User, 4_294_967_295, "ann", none, above),
                line(ClassView::User, 4_294_967_294, "a-name-that-is-far-too-long", above, none),
                line(ClassView::Group, 0, "wheel", AmountView { grace_left_s: Some(0), ..above }, none),
            ],
        };
        let mut text = Vec::new();
        report(&mut text, &view).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        for part in ["ann ", "6d23h", "over", "4294967294 ", "9.5M", "12345M", "1124T"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn time_left_has_two_units_at_most() {
        let shown = [0, 59, 60, 3_661, 90_000, 86_400 * 365].map(left);
        assert_eq!(shown, ["over", "59s", "1m", "1h1m", "1d1h", "365d"]);
    }
}
