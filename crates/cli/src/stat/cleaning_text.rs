//! `firn stat --cleaning` for people.

use super::cleaning::{CleanedView, CleaningView, KindView, ReasonView, StallsView};
use crate::sizes::{Bytes, Count};
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

fn kinds(out: &mut dyn Write, view: &CleaningView) -> io::Result<()> {
    let is_known = view.kinds.iter().any(|row| row.live_bytes.is_some());
    let live: u64 = view.kinds.iter().filter_map(|row| row.live_bytes).sum();
    let log: u64 = view.kinds.iter().map(|row| row.log_bytes).sum();
    let since: u64 = view.kinds.iter().filter_map(|row| row.log_bytes_since_mount).sum();
    let mount_title = if view.since_mount.is_some() { "since mount" } else { "" };
    let title = format!("  {:<16}{:>20}{:>20}{mount_title:>20}", "blocks", "live", "log since mkfs");
    writeln!(out, "{}", title.trim_end())?;
    for row in &view.kinds {
        let mount = row.log_bytes_since_mount.map_or_else(String::new, |bytes| cell(bytes, since));
        let live = row.live_bytes.map_or_else(|| format!("{:>20}", "unknown"), |bytes| cell(bytes, live));
        writeln!(out, "    {:<14}{live}{}{mount}", words(row), cell(row.log_bytes, log))?;
    }
    if !is_known {
        writeln!(
            out,
            "  live bytes by kind are unknown: the version that made this volume did not count them"
        )?;
    }
    Ok(())
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

fn cell(bytes: u64, whole: u64) -> String {
    let share = (whole > 0).then(|| bytes as f64 / whole as f64);
    format!(
        "{:>12}{:>8}",
        Bytes(bytes).to_string(),
        share.map_or_else(String::new, |s| format!("{:.1}%", s * 100.0))
    )
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}
