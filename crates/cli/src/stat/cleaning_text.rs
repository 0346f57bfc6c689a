//! `firn stat --cleaning` for people.

use super::cleaning::{CleanedView, CleaningView, KindView, ReasonView, StallsView};
use crate::sizes::{Count, Unit};
use std::io::{self, Write};
use std::time::Duration;

/// Tables 2 and 4 of the Sprite LFS paper for one volume.
///
/// # Errors
/// As writing reports.
pub fn cleaning(out: &mut dyn Write, view: &CleaningView) -> io::Result<()> {
    cleaned(out, view)?;
    if let Some(reasons) = &view.victims_by_reason {
        victims(out, reasons)?;
    }
    if let Some(stalls) = &view.stalls {
        stalled(out, stalls)?;
    }
    kinds(out, view)
}

/// A column of the first table; its sizes have one unit.
struct Period<'a> {
    title: String,
    cleaned: &'a CleanedView,
    unit: Unit,
}

impl<'a> Period<'a> {
    fn of(title: impl Into<String>, cleaned: &'a CleanedView) -> Self {
        let CleanedView {
            user_bytes, new_bytes, upkeep_bytes, read_bytes, moved_bytes, coalesced_bytes, ..
        } = *cleaned;
        let sizes =
            [user_bytes.unwrap_or(0), new_bytes, upkeep_bytes, read_bytes, moved_bytes, coalesced_bytes];
        Self { title: title.into(), cleaned, unit: Unit::of_column(sizes.into_iter()) }
    }
}

fn cleaned(out: &mut dyn Write, view: &CleaningView) -> io::Result<()> {
    let mut periods = vec![Period::of("since mkfs", &view.since_mkfs)];
    periods.extend(view.since_mount.as_ref().map(|since| Period::of("since mount", since)));
    // The window is named by its real length: it is shorter than a minute after a mount, longer after a rest.
    let recent = view.recent.as_ref();
    let title = |window_ms: u64| format!("last {} s", window_ms.div_ceil(1000));
    periods.extend(recent.map(|recent| Period::of(title(recent.window_ms), &recent.cleaned)));
    let cells = |cell: &dyn Fn(&Period) -> String| {
        periods.iter().map(|period| format!("{:>14}", cell(period))).collect::<Vec<_>>().concat()
    };
    writeln!(out, "  {:<24}{}", "cleaning", cells(&|period| period.title.clone()))?;
    let mut line = |name: &str, value: &dyn Fn(&CleanedView, Unit) -> String| {
        writeln!(out, "    {name:<22}{}", cells(&|period| value(period.cleaned, period.unit)))
    };
    line("written by users", &|c, unit| c.user_bytes.map_or_else(|| "-".to_owned(), |n| unit.show_named(n)))?;
    line("log, users' part", &|c, unit| unit.show_named(c.new_bytes))?;
    line("log, cleaner's part", &|c, unit| unit.show_named(c.upkeep_bytes))?;
    line("segments cleaned", &|c, _| Count(c.segments_cleaned).to_string())?;
    line("= found empty", &|c, _| Count(c.segments_empty).to_string())?;
    line("+ in background", &|c, _| Count(c.segments_background).to_string())?;
    line("+ on demand", &|c, _| Count(c.segments_on_demand).to_string())?;
    line("share found empty", &|c, _| percent(c.empty_share))?;
    line("utilisation of rest", &|c, _| number(c.utilisation, 3))?;
    line("share in background", &|c, _| percent(c.background_share))?;
    line("rest, read in part", &|c, _| Count(c.segments_read_in_part).to_string())?;
    line("read by the cleaner", &|c, unit| unit.show_named(c.read_bytes))?;
    line("live, and moved", &|c, unit| unit.show_named(c.moved_bytes))?;
    line("read per byte moved", &|c, _| number(c.read_per_moved, 2))?;
    line("write amplification", &|c, _| number(c.write_amplification, 2))?;
    line("write cost", &|c, _| number(c.write_cost, 2))?;
    line("cost per new byte", &|c, _| number(c.measured_cost, 2))?;
    line("cost per user byte", &|c, _| number(c.cost_per_user_byte, 2))?;
    line("files put in order", &|c, _| Count(c.coalesced_files).to_string())?;
    line("rewritten in order", &|c, unit| unit.show_named(c.coalesced_bytes))
}

/// Why the cleaner took its victims, and how full they were.
fn victims(out: &mut dyn Write, reasons: &[ReasonView]) -> io::Result<()> {
    if reasons.iter().all(|reason| reason.segments == 0) {
        return writeln!(out, "  victims     none since mount");
    }
    let unit = Unit::of_column(reasons.iter().map(|reason| reason.live_bytes));
    let (live, share) = (format!("live, {}", unit.name()), "mean share");
    writeln!(out, "  {:<24}{:>14}{live:>14}{share:>14}", "victims since mount", "segments")?;
    reasons.iter().filter(|reason| reason.segments > 0).try_for_each(|row| {
        let words = match row.reason.as_str() {
            "policy" => "the policy's choice",
            "idle" => "the same in idle time",
            "emptiest" => "the emptiest",
            "leaving" => "at the leaving end",
            "asked" => "asked for from outside",
            other => other,
        };
        let (segments, live) = (Count(row.segments).to_string(), unit.show(row.live_bytes));
        writeln!(out, "    {words:<22}{segments:>14}{live:>14}{:>14}", percent(row.utilisation))
    })
}

fn stalled(out: &mut dyn Write, stalls: &StallsView) -> io::Result<()> {
    let time = |ms: f64| Duration::from_secs_f64(ms / 1e3);
    let [total, longest] = [stalls.total_ms, stalls.longest_ms].map(time);
    match stalls.count {
        0 => writeln!(out, "  stalls      none since mount"),
        1 => writeln!(out, "  stalls      1 operation waited for room since mount: {total:.1?}"),
        n => {
            writeln!(
                out,
                "  stalls      {} operations waited for room since mount: {total:.1?} in all",
                Count(n)
            )?;
            let [p50, p99] = [stalls.p50_ms, stalls.p99_ms]
                .map(|ms| ms.map_or_else(|| "-".to_owned(), |ms| format!("{:.1?}", time(ms))));
            writeln!(out, "              p50 {p50}, p99 {p99}, longest {longest:.1?}")
        }
    }
}

/// Live data and log bandwidth by kind of block, each column in one unit.
fn kinds(out: &mut dyn Write, view: &CleaningView) -> io::Result<()> {
    let is_known = view.kinds.iter().any(|row| row.live_bytes.is_some());
    let live = Column::of("live", view.kinds.iter().filter_map(|row| row.live_bytes));
    let log = Column::of("log since mkfs", view.kinds.iter().map(|row| row.log_bytes));
    let since = Column::of("since mount", view.kinds.iter().filter_map(|row| row.log_bytes_since_mount));
    let since = since.filter(|_| view.since_mount.is_some());
    let title = |column: &Option<Column>| column.as_ref().map_or_else(String::new, Column::title);
    let title = format!("  {:<16}{:>20}{:>20}{:>20}", "blocks", title(&live), title(&log), title(&since));
    writeln!(out, "{}", title.trim_end())?;
    let cell = |column: &Option<Column>, bytes: Option<u64>| {
        column.as_ref().zip(bytes).map_or_else(String::new, |(column, bytes)| column.cell(bytes))
    };
    for row in &view.kinds {
        let shown = match row.live_bytes {
            None => format!("{:>20}", "unknown"),
            bytes => cell(&live, bytes),
        };
        let (log, since) = (cell(&log, Some(row.log_bytes)), cell(&since, row.log_bytes_since_mount));
        writeln!(out, "    {:<14}{shown}{log}{since}", words(row))?;
    }
    if !is_known {
        writeln!(
            out,
            "  live bytes by kind are unknown: the version that made this volume did not count them"
        )?;
    }
    Ok(())
}

/// A column of bytes, and their share of its sum.
struct Column {
    name: &'static str,
    unit: Unit,
    sum_bytes: u64,
}

impl Column {
    /// `None` for a column without values.
    fn of(name: &'static str, bytes: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        let unit = Unit::of_column(bytes.clone());
        bytes.clone().next().map(|_| Self { name, unit, sum_bytes: bytes.sum() })
    }

    fn title(&self) -> String {
        format!("{}, {}", self.name, self.unit.name())
    }

    fn cell(&self, bytes: u64) -> String {
        let share = match self.sum_bytes {
            0 => String::new(),
            sum => format!("{:.1}%", bytes as f64 / sum as f64 * 100.0),
        };
        format!("{:>12}{share:>8}", self.unit.show(bytes))
    }
}

fn words(row: &KindView) -> &str {
    match row.kind.as_str() {
        "file" => "file data",
        "directory" => "directories",
        "inode" => "inodes",
        "inode_map" => "inode map",
        "usage_table" => "usage table",
        "summary" => "summaries",
        "not_told_apart" => "of unknown kind",
        other => other,
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_unit_which_its_title_names() {
        let bytes = [24 << 20, 96 << 10, 512, 0];
        let column = Column::of("live", bytes.into_iter()).unwrap();
        assert_eq!(column.title(), "live, MiB");
        let cells = bytes.map(|bytes| column.cell(bytes));
        assert_eq!(cells[0], "       24.00   99.6%");
        assert_eq!(cells[1], "        0.09    0.4%");
        assert_eq!(cells[3], "        0.00    0.0%");
        assert_eq!(Column::of("log", [0, 0].into_iter()).unwrap().cell(0), format!("{:>12}{:8}", "0", ""));
        assert!(Column::of("live", std::iter::empty()).is_none());
        let largest = Column::of("live", [u64::MAX].into_iter()).unwrap();
        assert_eq!((largest.title().as_str(), largest.cell(u64::MAX).len()), ("live, EiB", 20));
    }

    #[test]
    fn the_sizes_of_a_column_have_one_unit_in_the_tables_of_periods_and_of_victims() {
        let since_mkfs = CleanedView {
            new_bytes: 1 << 30,
            read_bytes: 947 << 20,
            moved_bytes: 3000,
            ..CleanedView::default()
        };
        let reason = |name: &str, live_bytes| ReasonView {
            reason: name.to_owned(),
            segments: 1,
            live_bytes,
            utilisation: None,
        };
        let view = CleaningView {
            since_mkfs,
            since_mount: None,
            recent: None,
            victims_by_reason: Some(vec![reason("policy", 1 << 30), reason("idle", 512 << 20)]),
            kinds: Vec::new(),
            stalls: None,
        };
        let mut out = Vec::new();
        cleaning(&mut out, &view).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line[26..].split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("log, users' part"), "1.00 GiB");
        assert_eq!(row("read by the cleaner"), "0.92 GiB");
        assert_eq!(row("live, and moved"), "0.00 GiB");
        assert!(row("victims since mount").contains("live, GiB"), "{text}");
        assert_eq!(row("the same in idle time"), "1 0.50 -");
    }
}
