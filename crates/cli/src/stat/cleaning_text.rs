//! `firn stat --cleaning` for people.

use super::cleaning::{CleanedView, CleaningView, KindView, ReasonView, StallsView};
use crate::sizes::{Bytes, Count, Unit};
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

fn cleaned(out: &mut dyn Write, view: &CleaningView) -> io::Result<()> {
    let mut columns = vec![("since mkfs".to_owned(), &view.since_mkfs)];
    columns.extend(view.since_mount.as_ref().map(|since| ("since mount".to_owned(), since)));
    // The window is named by its real length: it is shorter than a minute after a mount, longer after a rest.
    let recent = view.recent.as_ref();
    columns.extend(recent.map(|r| (format!("last {} s", r.window_ms.div_ceil(1000)), &r.cleaned)));
    let cells = |cell: &dyn Fn(&(String, &CleanedView)) -> String| {
        columns.iter().map(|column| format!("{:>14}", cell(column))).collect::<Vec<_>>().concat()
    };
    writeln!(out, "  {:<24}{}", "cleaning", cells(&|(title, _)| title.clone()))?;
    let mut line = |name: &str, value: &dyn Fn(&CleanedView) -> String| {
        writeln!(out, "    {name:<22}{}", cells(&|(_, cleaned)| value(cleaned)))
    };
    line("written by users", &|c| c.user_bytes.map_or_else(|| "-".to_owned(), |n| Bytes(n).to_string()))?;
    line("new data and metadata", &|c| Bytes(c.new_bytes).to_string())?;
    line("segments cleaned", &|c| Count(c.segments_cleaned).to_string())?;
    line("= found empty", &|c| Count(c.segments_empty).to_string())?;
    line("+ in background", &|c| Count(c.segments_background).to_string())?;
    line("+ on demand", &|c| Count(c.segments_on_demand).to_string())?;
    line("share found empty", &|c| percent(c.empty_share))?;
    line("utilisation of rest", &|c| number(c.utilisation, 3))?;
    line("share in background", &|c| percent(c.background_share))?;
    line("rest, read in part", &|c| Count(c.segments_read_in_part).to_string())?;
    line("read by the cleaner", &|c| Bytes(c.read_bytes).to_string())?;
    line("live, and moved", &|c| Bytes(c.moved_bytes).to_string())?;
    line("read per byte moved", &|c| number(c.read_per_moved, 2))?;
    line("write amplification", &|c| number(c.write_amplification, 2))?;
    line("write cost", &|c| number(c.write_cost, 2))?;
    line("cost per new byte", &|c| number(c.measured_cost, 2))?;
    line("cost per user byte", &|c| number(c.cost_per_user_byte, 2))?;
    line("files put in order", &|c| Count(c.coalesced_files).to_string())?;
    line("rewritten in order", &|c| Bytes(c.coalesced_bytes).to_string())
}

/// Why the cleaner took its victims, and how full they were.
fn victims(out: &mut dyn Write, reasons: &[ReasonView]) -> io::Result<()> {
    if reasons.iter().all(|reason| reason.segments == 0) {
        return writeln!(out, "  victims     none since mount");
    }
    let [live, share] = ["live", "mean share"];
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
        let (segments, live) = (Count(row.segments).to_string(), Bytes(row.live_bytes).to_string());
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
}
