//! `firn stat` and `firn df` as text for people.

use super::cleaning::{RoomView, WithheldView};
use super::view::{BUCKETS, LogView, SpaceView, StatView};
use super::{Source, Volume};
use crate::sizes::{Bytes, Count};
use std::io::{self, Write};

/// Width of the longest bar of the histogram.
const BAR_COLUMNS: u64 = 50;

/// Everything about one volume.
///
/// # Errors
/// As writing reports.
pub fn stat(out: &mut dyn Write, volume: &Volume) -> io::Result<()> {
    place(out, &volume.source)?;
    let view = &volume.stat;
    let is_mounted = matches!(volume.source, Source::Mounted { .. });
    if let (Some(why), true) = (&view.read_only, is_mounted) {
        writeln!(out, "  read-only   {why}")?;
    }
    if let Some(check) = &volume.check_after_crash {
        writeln!(out, "  check       after the crash: {}", check.line())?;
    }
    beneath(out, volume)?;
    if let Some(log) = &view.log {
        head(out, log)?;
    }
    if let Some(fast) = &view.fast {
        fast.head(out)?;
    }
    space(out, &view.space)?;
    if let Some(fast) = &view.fast {
        fast.groups(out)?;
    }
    view.log.as_ref().map_or(Ok(()), |log| segments(out, log))
}

/// Says that the disk beneath an image may become full before the volume is.
fn beneath(out: &mut dyn Write, volume: &Volume) -> io::Result<()> {
    let place = match &volume.source {
        Source::Mounted { mountpoint, .. } => (mountpoint.as_path(), true),
        Source::Image { image } => (image.as_path(), false),
    };
    volume.beneath.as_ref().map_or(Ok(()), |beneath| beneath.describe(out, "  disk       ", place))
}

/// Where a volume was found.
///
/// # Errors
/// As writing reports.
pub fn place(out: &mut dyn Write, source: &Source) -> io::Result<()> {
    match source {
        Source::Mounted { mountpoint, image } => {
            writeln!(out, "{} mounted on {}", image.display(), mountpoint.display())
        }
        Source::Image { image } => writeln!(out, "{}, not mounted", image.display()),
    }
}

fn head(out: &mut dyn Write, log: &LogView) -> io::Result<()> {
    let label = if log.label.is_empty() { "(none)" } else { &log.label };
    writeln!(out, "  label       {label}, uuid {}", log.uuid)?;
    writeln!(
        out,
        "  made        {} with blocks of {} and segments of {}",
        log.created,
        Bytes(u64::from(log.block_bytes)),
        Bytes(u64::from(log.segment_bytes))
    )?;
    let recovery = &log.recovery;
    if !recovery.was_clean && recovery.partials > 0 {
        writeln!(
            out,
            "  recovered   {} inodes from {} of log ({} log writes, {} of an unfinished batch left out)",
            Count(recovery.inodes),
            Bytes(recovery.bytes),
            Count(recovery.partials),
            Count(recovery.incomplete)
        )?;
    }
    log.damage.iter().try_for_each(|line| writeln!(out, "  damage      {line}"))
}

fn space(out: &mut dyn Write, space: &SpaceView) -> io::Result<()> {
    let used_bytes = space.total_bytes.saturating_sub(space.free_bytes);
    writeln!(
        out,
        "  space       {} of {} used ({}%), {} free",
        Bytes(used_bytes),
        Bytes(space.total_bytes),
        percent(used_bytes, space.total_bytes),
        Bytes(space.free_bytes)
    )?;
    writeln!(out, "  inodes      {} used, {} free", Count(space.inodes_used), Count(space.inodes_free))
}

fn segments(out: &mut dyn Write, log: &LogView) -> io::Result<()> {
    writeln!(
        out,
        "  segments    {} of {} in use: {} live, {} dead",
        Count(log.segments_in_use),
        Count(log.segments),
        Bytes(log.live_bytes),
        Bytes(log.dead_bytes)
    )?;
    let is_of_kind = |name: &str| name.starts_with("log_") && name != "log_bytes";
    for (name, value) in log.counters.iter().filter(|(name, _)| !is_of_kind(name)) {
        let shown =
            if name.ends_with("_bytes") { Bytes(*value).to_string() } else { Count(*value).to_string() };
        let words = name.trim_end_matches("_bytes").replace('_', " ");
        writeln!(out, "  {words:<27} {shown} since mkfs")?;
    }
    histogram(out, log)
}

/// Segments in use by utilisation, as bars.
///
/// # Errors
/// As writing reports.
pub fn histogram(out: &mut dyn Write, log: &LogView) -> io::Result<()> {
    if log.segments_in_use == 0 {
        return Ok(());
    }
    writeln!(out, "  segments in use by share of live bytes")?;
    let longest = log.utilisation.iter().max().copied().unwrap_or(1).max(1);
    for (bucket, &number) in log.utilisation.iter().enumerate() {
        let bar = "#".repeat((number * BAR_COLUMNS).div_ceil(longest) as usize);
        let (from, to) = (bucket * 100 / BUCKETS, (bucket + 1) * 100 / BUCKETS);
        let line = format!("    {from:>3}-{to:>3}% {:>9}  {bar}", Count(number));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// One line for each volume, as df(1) prints it.
///
/// # Errors
/// As writing reports.
pub fn df(out: &mut dyn Write, volumes: &[Volume]) -> io::Result<()> {
    writeln!(out, "{:>10} {:>10} {:>10} {:>5} {:>12}  volume", "size", "used", "free", "use%", "inodes")?;
    volumes.iter().try_for_each(|volume| df_line(out, volume))
}

fn df_line(out: &mut dyn Write, volume: &Volume) -> io::Result<()> {
    let StatView { space, log, .. } = &volume.stat;
    let used_bytes = space.total_bytes.saturating_sub(space.free_bytes);
    let place = match &volume.source {
        Source::Mounted { mountpoint, image } => {
            format!("{} on {}", image.display(), mountpoint.display())
        }
        Source::Image { image } => image.display().to_string(),
    };
    writeln!(
        out,
        "{:>10} {:>10} {:>10} {:>4}% {:>12}  {place}",
        Bytes(space.total_bytes),
        Bytes(used_bytes),
        Bytes(space.free_bytes),
        percent(used_bytes, space.total_bytes),
        Count(space.inodes_used)
    )?;
    log.as_ref().and_then(|log| log.room.as_ref()).map_or(Ok(()), |room| -> io::Result<()> {
        room_line(out, room)?;
        withheld_line(out, room)?;
        // In the last hundredth the next write may get ENOSPC.
        if space.free_bytes < space.total_bytes / 100 {
            let advice = "full: delete files, or copy to a larger volume; cleaning gains no more for files";
            writeln!(out, "{:>10}   {advice}", "")?;
        }
        Ok(())
    })?;
    beneath(out, volume)
}

/// Why the size is smaller than the volume.
fn withheld_line(out: &mut dyn Write, room: &RoomView) -> io::Result<()> {
    let Some(WithheldView { reserve_bytes, cleaning_bytes, summary_bytes, metadata_bytes }) = room.withheld
    else {
        return Ok(());
    };
    let all_bytes = room.fixed_bytes + reserve_bytes + cleaning_bytes + summary_bytes + metadata_bytes;
    writeln!(
        out,
        "{:>10} withheld = {} reserve + {} cleaning + {} summaries + {} metadata + {} fixed",
        Bytes(all_bytes),
        Bytes(reserve_bytes),
        Bytes(cleaning_bytes),
        Bytes(summary_bytes),
        Bytes(metadata_bytes),
        Bytes(room.fixed_bytes)
    )
}

fn room_line(out: &mut dyn Write, room: &RoomView) -> io::Result<()> {
    writeln!(
        out,
        "{:>10} = {} live + {} reclaimable + {} pinned + {} clean + {} reserve + {} fixed",
        Bytes(room.size_bytes),
        Bytes(room.live_bytes),
        Bytes(room.reclaimable_bytes),
        Bytes(room.pinned_bytes),
        Bytes(room.clean_bytes),
        Bytes(room.reserve_bytes),
        Bytes(room.fixed_bytes)
    )
}

/// Rounded up, as df(1) does: 100% means full, and 0% empty.
fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100).div_ceil(u128::from(whole.max(1))) as u64
}

/// Counts of requests since the mount, the most frequent first.
///
/// # Errors
/// As writing reports.
pub fn requests(out: &mut dyn Write, answer: &serde_json::Value) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(answer).map_err(io::Error::from)?)
}
