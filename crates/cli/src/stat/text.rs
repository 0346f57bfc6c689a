//! `firn stat` and `firn df` as text for people.

use super::cleaning::{RoomView, WithheldView};
use super::view::{BUCKETS, LogView, SpaceView, StatView};
use super::{RequestView, Source, Volume};
use crate::output::{WIDTH, write_list, write_sum, write_words};
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
    let is_mounted = volume.source.mountpoint.is_some();
    if let (Some(why), true) = (&view.read_only_reason, is_mounted) {
        writeln!(out, "  read-only   {why}")?;
    }
    if let Some(check) = &volume.check_after_crash {
        writeln!(out, "  check       after the crash: {}", check.line())?;
    }
    beneath(out, volume)?;
    if let Some(log) = &view.log {
        head(out, log)?;
    }
    if let Some(fast) = &view.ffs {
        fast.head(out)?;
    }
    space(out, &view.space)?;
    if let Some(fast) = &view.ffs {
        fast.groups(out)?;
    }
    view.log.as_ref().map_or(Ok(()), |log| segments(out, log))
}

/// Says that the disk beneath an image may become full before the volume is.
fn beneath(out: &mut dyn Write, volume: &Volume) -> io::Result<()> {
    let place = match &volume.source.mountpoint {
        Some(mountpoint) => (mountpoint.as_path(), true),
        None => (volume.source.image.as_path(), false),
    };
    volume.beneath.as_ref().map_or(Ok(()), |beneath| beneath.describe(out, "  disk       ", place))
}

/// Where a volume was found.
///
/// # Errors
/// As writing reports.
pub fn place(out: &mut dyn Write, source: &Source) -> io::Result<()> {
    let image = source.image.display();
    match &source.mountpoint {
        Some(mountpoint) => writeln!(out, "{image} mounted on {}", mountpoint.display()),
        None => writeln!(out, "{image}, not mounted"),
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
    if !recovery.cleanly_unmounted && recovery.rolled_forward_partials > 0 {
        writeln!(
            out,
            "  recovered   {} inodes from {} of log ({} log writes, {} of an unfinished batch left out)",
            Count(recovery.rolled_forward_inodes),
            Bytes(recovery.rolled_forward_bytes),
            Count(recovery.rolled_forward_partials),
            Count(recovery.incomplete_partials)
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
    writeln!(out, "  inodes      {} used, {} free", Count(space.used_inodes), Count(space.free_inodes))
}

fn segments(out: &mut dyn Write, log: &LogView) -> io::Result<()> {
    let (in_use, all) = (Count(log.segments_in_use), Count(log.segments));
    let parts = [(log.live_bytes, "live"), (log.dead_bytes, "dead"), (log.unwritten_bytes, "unwritten")];
    write_list(out, &format!("  segments    {in_use} of {all} in use:"), &parts.map(term), WIDTH)?;
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
    let longest = log.utilisation_histogram.iter().max().copied().unwrap_or(1).max(1);
    for (bucket, &number) in log.utilisation_histogram.iter().enumerate() {
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
    let image = volume.source.image.display();
    let place = match &volume.source.mountpoint {
        Some(mountpoint) => format!("{image} on {}", mountpoint.display()),
        None => image.to_string(),
    };
    let row = format!(
        "{:>10} {:>10} {:>10} {:>4}% {:>12}",
        Bytes(space.total_bytes),
        Bytes(used_bytes),
        Bytes(space.free_bytes),
        percent(used_bytes, space.total_bytes),
        Count(space.used_inodes)
    );
    match row.len() + 2 + place.chars().count() <= WIDTH {
        true => writeln!(out, "{row}  {place}")?,
        false => writeln!(out, "{row}\n{:>10}   {place}", "")?,
    }
    log.as_ref().and_then(|log| log.room.as_ref()).map_or(Ok(()), |room| -> io::Result<()> {
        room_line(out, room)?;
        withheld_line(out, room)?;
        // In the last hundredth the next write may get ENOSPC.
        if space.free_bytes < space.total_bytes / 100 {
            let advice = "delete files, or copy to a larger volume; cleaning gains no more for files";
            write_words(out, &format!("{:>10}  ", "full:"), advice)?;
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
    let terms = [
        (reserve_bytes, "reserve"),
        (cleaning_bytes, "cleaning"),
        (summary_bytes, "summaries"),
        (metadata_bytes, "metadata"),
        (room.fixed_bytes, "fixed"),
    ];
    let all_bytes = terms.iter().map(|(bytes, _)| bytes).sum();
    write_sum(out, &format!("{:>10} withheld =", Bytes(all_bytes)), &terms.map(term))
}

fn term((bytes, word): (u64, &str)) -> String {
    format!("{} {word}", Bytes(bytes))
}

fn room_line(out: &mut dyn Write, room: &RoomView) -> io::Result<()> {
    let terms = [
        (room.live_bytes, "live"),
        (room.reclaimable_bytes, "reclaimable"),
        (room.pinned_bytes, "pinned"),
        (room.clean_bytes, "clean"),
        (room.reserve_bytes, "reserve"),
        (room.fixed_bytes, "fixed"),
    ];
    write_sum(out, &format!("{:>10} =", Bytes(room.size_bytes)), &terms.map(term))
}

/// Rounded up, as df(1) does: 100% means full, and 0% empty.
fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100).div_ceil(u128::from(whole.max(1))) as u64
}

/// Counts of requests since the mount.
///
/// # Errors
/// As writing reports.
pub fn requests(out: &mut dyn Write, list: &[RequestView]) -> io::Result<()> {
    writeln!(out, "  {:<20}{:>14}{:>12}{:>14}", "request", "requests", "failed", "busy ms")?;
    list.iter().try_for_each(|RequestView { request, requests, failed, busy_ms }| {
        writeln!(out, "  {request:<20}{:>14}{:>12}{busy_ms:>14.1}", Count(*requests), Count(*failed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_df_fit_80_columns_and_break_below_their_first_term() {
        let bytes = (1023 << 40) + (900 << 30);
        let withheld = WithheldView {
            reserve_bytes: bytes,
            cleaning_bytes: bytes,
            summary_bytes: bytes,
            metadata_bytes: bytes,
        };
        let room = RoomView {
            size_bytes: bytes,
            live_bytes: bytes,
            reclaimable_bytes: bytes,
            pinned_bytes: bytes,
            clean_bytes: bytes,
            reserve_bytes: bytes,
            fixed_bytes: bytes,
            withheld: Some(withheld),
        };
        for show in [room_line, withheld_line] {
            let mut out = Vec::new();
            show(&mut out, &room).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() <= WIDTH), "{text}");
            let first = text.find("= ").unwrap() + 2;
            for line in text.lines().skip(1) {
                assert_eq!(line.len() - line.trim_start().len(), first, "{text}");
            }
            assert!(text.ends_with("1023.9 TiB fixed\n"), "{text}");
        }
    }
}
