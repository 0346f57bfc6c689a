//! `firn stat --cleaning` for people.

use super::cleaning::{CleanedView, CleaningView, KindView, StallsView};
use crate::sizes::{Bytes, Count};
use std::io::{self, Write};
use std::time::Duration;

/// Tables 2 and 4 of the Sprite LFS paper for one volume.
///
/// # Errors
/// As writing reports.
pub fn cleaning(out: &mut dyn Write, view: &CleaningView) -> io::Result<()> {
    cleaned(out, view)?;
    if let Some(stalls) = &view.stalls {
        stalled(out, stalls)?;
    }
    kinds(out, view)
}

fn cleaned(out: &mut dyn Write, view: &CleaningView) -> io::Result<()> {
    let mount_title = if view.since_mount.is_some() { "since mount" } else { "" };
    writeln!(out, "{}", format!("  {:<24}{:>14}{mount_title:>14}", "cleaning", "since mkfs").trim_end())?;
    let mut line = |name: &str, value: &dyn Fn(&CleanedView) -> String| {
        let mount = view.since_mount.as_ref().map_or_else(String::new, |c| format!("{:>14}", value(c)));
        writeln!(out, "    {name:<22}{:>14}{mount}", value(&view.since_mkfs))
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

fn stalled(out: &mut dyn Write, stalls: &StallsView) -> io::Result<()> {
    let [total, longest] = [stalls.total_ms, stalls.longest_ms].map(|ms| Duration::from_secs_f64(ms / 1e3));
    match stalls.count {
        0 => writeln!(out, "  stalls      none since mount"),
        1 => writeln!(out, "  stalls      1 operation waited for room since mount: {total:.1?}"),
        n => writeln!(
            out,
            "  stalls      {} operations waited for room since mount: {total:.1?} in all, {longest:.1?} at longest",
            Count(n)
        ),
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
