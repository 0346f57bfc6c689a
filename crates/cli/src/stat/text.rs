//! `firn stat` as text for people.

use super::cleaning::CleaningView;
use super::view::{BUCKETS, LogView, PowerCutView, SpaceView};
use super::{RequestView, Source, Volume};
use crate::color::{Meaning, paint};
use crate::output::{WIDTH, columns as columns_of, write_field, write_fitting, write_words};
use crate::sizes::{Bytes, Count, WholeSeconds};
use std::io::{self, Write};

/// Bars of the histogram, the lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const LABEL: &str = "  label      ";

/// The reason if the daemon could write, but the kernel lets no change through.
pub(super) const REMOUNTED: &str = "remounted read-only";
/// Damaged files that are named at most.
const DAMAGED_MAX: usize = 10;

/// The state of one volume: in ten lines at most, each of 80 columns, unless it is read-only or frozen, there is damage or there was a crash. `columns` are
/// those of the terminal, if there is one.
///
/// # Errors
/// As writing reports.
pub fn stat(out: &mut dyn Write, volume: &Volume, columns: Option<usize>) -> io::Result<()> {
    writeln!(out, "{}", place_line(&volume.source, columns.unwrap_or(usize::MAX)))?;
    let view = &volume.stat;
    health(out, volume)?;
    if let (Some(why), Some(mountpoint)) = (&view.read_only_reason, &volume.source.mountpoint) {
        let advice = match why.as_str() {
            REMOUNTED => format!("; 'firn mount -o remount,rw {}' ends that", mountpoint.display()),
            _ => String::new(),
        };
        let head = format!("  {}  ", paint(Meaning::Warning, "read-only"));
        write_words(out, &head, &format!("{why}{advice}"))?;
    }
    if let (Some(ms), Some(mountpoint)) = (volume.thaws_in_ms, &volume.source.mountpoint) {
        let left = Count(ms.div_ceil(1000));
        let text = format!("changes wait until 'firn thaw {}', {left} s at most", mountpoint.display());
        write_words(out, &format!("  {}     ", paint(Meaning::Warning, "frozen")), &text)?;
    }
    if let Some(check) = &volume.check_after_crash {
        write_words(out, "  check      ", &format!("after the crash: {}", check.line()))?;
    }
    if let Some(check) = volume.last_check.as_ref().filter(|check| check.sound == Some(false)) {
        damaged(out, &check.damaged_paths)?;
    }
    match &volume.beneath {
        Some(disk) if !disk.full => write_fitting(out, "  disk       ", &[disk.in_brief()])?,
        _ => beneath(out, volume)?,
    }
    if let Some(power_cut) = view.log.as_ref().and_then(|log| log.power_cut.as_ref()) {
        durable(out, power_cut)?;
    }
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

/// Whether a mount can write, and whether a log is known to be damaged; the lines that follow give the reasons. It claims no
/// absence of damage for a volume that the daemon has made read-only, because damage may be the reason.
fn health(out: &mut dyn Write, volume: &Volume) -> io::Result<()> {
    let view = &volume.stat;
    let is_mounted = volume.source.mountpoint.is_some();
    let is_read_only = view.read_only_reason.as_deref().is_some_and(|why| why != REMOUNTED);
    let state = is_mounted.then(|| match view.read_only_reason.as_deref() {
        _ if volume.thaws_in_ms.is_some() => paint(Meaning::Warning, "frozen"),
        Some(REMOUNTED) => paint(Meaning::Warning, "read-only (remounted)"),
        Some(_) => paint(Meaning::Warning, "read-only"),
        None => paint(Meaning::Good, "writable"),
    });
    let checked = volume.last_check.as_ref().filter(|check| check.sound == Some(false));
    let found = checked.map(|_| paint(Meaning::Bad, "damage found by the last check"));
    let failed = volume.io_errors.filter(|errors| *errors > 0);
    let failed = failed.map(|errors| Count(errors).of("request", "requests") + " failed (EIO)");
    let failed = failed.map(|text| paint(Meaning::Bad, text));
    let is_known = found.is_some() || failed.is_some();
    let damage = view.log.as_ref().and_then(|log| match log.damage.len() {
        0 => (!is_known && (!is_mounted || !is_read_only)).then(|| paint(Meaning::Good, "no damage met")),
        n => Some(paint(Meaning::Bad, Count(n as u64).of("damaged part", "damaged parts"))),
    });
    let served = volume.transport.as_ref().map(|transport| format!("served through {transport}"));
    let parts: Vec<String> = [state, damage, found, failed, served].into_iter().flatten().collect();
    if parts.is_empty() {
        return Ok(());
    }
    write_field(out, "  health     ", &parts)
}

/// The files in which the last check found damage.
fn damaged(out: &mut dyn Write, paths: &[String]) -> io::Result<()> {
    let mut shown: Vec<String> =
        paths.iter().take(DAMAGED_MAX).map(|path| path.escape_debug().to_string()).collect();
    if paths.len() > DAMAGED_MAX {
        shown.push(format!("and {} more; 'firn scrub' lists all", Count((paths.len() - DAMAGED_MAX) as u64)));
    }
    if shown.is_empty() { Ok(()) } else { write_field(out, "  damaged    ", &shown) }
}

/// What a power cut would lose.
fn durable(out: &mut dyn Write, view: &PowerCutView) -> io::Result<()> {
    let checkpoint = format!("checkpoint {} ago", Seconds(view.checkpoint_age_ms));
    let Some(ms) = view.loses_up_to_ms else {
        return write_fitting(out, "  durable    ", &[format!("everything; {checkpoint}")]);
    };
    // Nothing may be unwritten, and the device not flushed yet.
    let bytes = view.dirty_bytes.saturating_add(view.in_flight_bytes);
    let [in_words, in_brief] = match bytes {
        0 => [String::new(), String::new()],
        bytes => [format!(", {} unwritten", Bytes(bytes)), format!(" ({})", Bytes(bytes))],
    };
    let ago = Seconds(ms);
    let texts = [
        format!("all but changes of the last {ago}{in_words}; {checkpoint}"),
        format!("all but the last {ago}{in_words}; {checkpoint}"),
        format!("all but the last {ago}{in_brief}; {checkpoint}"),
    ];
    write_fitting(out, "  durable    ", &texts)
}

/// Milliseconds for people: to a tenth below ten seconds.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            // Rounded up: nothing older than what it says is lost.
            ms @ 0..10_000 => write!(f, "{:.1} s", ms.div_ceil(100) as f64 / 10.0),
            ms => write!(f, "{} s", Count(ms.div_ceil(1000))),
        }
    }
}

/// Says that the disk beneath an image may become full before the volume is.
pub(super) fn beneath(out: &mut dyn Write, volume: &Volume) -> io::Result<()> {
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
    writeln!(out, "{}", place_line(source, usize::MAX))
}

/// The same in that many columns, if its end alone takes no more: of a long path of the image, the beginning is left out.
fn place_line(source: &Source, columns: usize) -> String {
    let image = source.image.display().to_string();
    let end = match &source.mountpoint {
        Some(mountpoint) => format!(" mounted on {}", mountpoint.display()),
        None => ", not mounted".to_owned(),
    };
    cut_to(&image, columns.saturating_sub(columns_of(&end))) + &end
}

/// A path in that many columns; of one that is too long, the end.
pub(super) fn cut_to(path: &str, columns: usize) -> String {
    match path.chars().count() {
        length if length <= columns => path.to_owned(),
        // The mark takes a column.
        length => format!("…{}", path.chars().skip(length + 1 - columns.max(1)).collect::<String>()),
    }
}

/// How a volume is called, when it was made and in which shape. Beside a long label there is no room for all of that.
///
/// # Errors
/// As writing reports.
pub fn names(out: &mut dyn Write, label: &str, uuid: &str, (created, shape): (&str, &str)) -> io::Result<()> {
    let label = if label.is_empty() { "(none)" } else { label };
    let created = WholeSeconds(created);
    let both = format!("{label}, uuid {uuid}");
    if columns_of(LABEL) + 1 + columns_of(&both) <= WIDTH {
        writeln!(out, "{LABEL} {both}\n  made        {created}{shape}")
    } else {
        writeln!(out, "{LABEL} {label}\n  made        {created}, uuid {uuid}")
    }
}

fn head(out: &mut dyn Write, log: &LogView) -> io::Result<()> {
    let [block, segment] = [log.block_bytes, log.segment_bytes].map(|bytes| Bytes(bytes.into()));
    let shape = format!(" with blocks of {block} and segments of {segment}");
    names(out, &log.label, &log.uuid, (&log.created, &shape))?;
    let recovery = &log.recovery;
    if !recovery.cleanly_unmounted && recovery.rolled_forward_partials > 0 {
        let left_out = match recovery.incomplete_partials {
            0 => String::new(),
            left_out => format!(", {} of an unfinished batch left out", Count(left_out)),
        };
        let text = format!(
            "{} from {} of log ({}{left_out})",
            Count(recovery.rolled_forward_inodes).of("inode", "inodes"),
            Bytes(recovery.rolled_forward_bytes),
            Count(recovery.rolled_forward_partials).of("log write", "log writes"),
        );
        write_words(out, "  recovered  ", &text)?;
    }
    let head = format!("  {}     ", paint(Meaning::Bad, "damage"));
    log.damage.iter().try_for_each(|line| write_words(out, &head, line))
}

/// How full the volume is, in bytes and inodes.
fn space(out: &mut dyn Write, space: &SpaceView) -> io::Result<()> {
    let used_bytes = space.total_bytes.saturating_sub(space.free_bytes);
    let share = percent(used_bytes, space.total_bytes);
    let [used, total, free] = [used_bytes, space.total_bytes, space.free_bytes].map(Bytes);
    let (inodes, free_inodes) = (Count(space.used_inodes), Count(space.free_inodes));
    let some = inodes.of("inode", "inodes");
    let inode_share = percent(space.used_inodes, space.used_inodes.saturating_add(space.free_inodes));
    let texts = [
        format!("{used} of {total} used ({share}%), {free} free; inodes: {inodes} used, {free_inodes} free"),
        format!("{used} of {total} used ({share}%), {free} free; {some} ({inode_share}%)"),
        format!("{used} of {total} used ({share}%), {free} free; inodes {inode_share}%"),
        format!("{used} of {total} ({share}%), {free} free; inodes {inode_share}%"),
    ];
    write_fitting(out, "  space      ", &texts)
}

fn segments(out: &mut dyn Write, log: &LogView) -> io::Result<()> {
    let (in_use, all) = (Count(log.segments_in_use), Count(log.segments));
    let live = format!("{} live", Bytes(log.live_bytes));
    let [dead, unwritten] = [(log.dead_bytes, "dead"), (log.unwritten_bytes, "unwritten")].map(term);
    let texts = [
        format!("{in_use} of {all} in use: {live}, {dead}, {unwritten}"),
        format!("{in_use} of {all}: {live}, {dead}, {unwritten}"),
        format!("{in_use} of {all}: {live}, {dead}"),
    ];
    write_fitting(out, "  segments   ", &texts)?;
    if let Some(view) = &log.cleaning {
        cleaner(out, view)?;
    }
    histogram(out, log)
}

/// The cleaner's work in one line.
fn cleaner(out: &mut dyn Write, view: &CleaningView) -> io::Result<()> {
    let cleaned = Count(view.since_mkfs.segments_cleaned);
    let cost = view.since_mkfs.write_cost.map_or_else(String::new, |cost| format!(", write cost {cost:.2}"));
    let [stalls, in_brief] = match view.stalls.map(|stalls| stalls.count) {
        None => [String::new(), String::new()],
        Some(0) => ["; no stalls since mount".to_owned(), "; no stalls".to_owned()],
        Some(n) => {
            let stalls = Count(n).of("stall", "stalls");
            [format!("; {stalls} since mount"), format!("; {stalls}")]
        }
    };
    let segments = cleaned.of("segment", "segments");
    let texts = [
        format!("{segments} cleaned since mkfs{cost}{stalls}"),
        format!("{cleaned} cleaned{cost} since mkfs{in_brief}"),
    ];
    write_fitting(out, "  cleaner    ", &texts)
}

/// All counters of the log.
///
/// # Errors
/// As writing reports.
pub fn counters(out: &mut dyn Write, log: &LogView) -> io::Result<()> {
    let is_of_kind = |name: &str| name.starts_with("log_") && name != "log_bytes";
    for (name, value) in log.counters.iter().filter(|(name, _)| !is_of_kind(name)) {
        let shown =
            if name.ends_with("_bytes") { Bytes(*value).to_string() } else { Count(*value).to_string() };
        let words = name.trim_end_matches("_bytes").replace('_', " ");
        writeln!(out, "  {words:<27} {shown:>14} since mkfs")?;
    }
    Ok(())
}

/// Segments in use by utilisation, as one line of bars.
///
/// # Errors
/// As writing reports.
pub fn histogram(out: &mut dyn Write, log: &LogView) -> io::Result<()> {
    if log.segments_in_use == 0 {
        return Ok(());
    }
    let (most, number) =
        log.utilisation_histogram.iter().enumerate().max_by_key(|(_, number)| **number).unwrap_or((0, &0));
    let (from, to) = (most * 100 / BUCKETS, (most + 1) * 100 / BUCKETS);
    let bars = bars(&log.utilisation_histogram);
    let tallest = Count(*number).of("segment", "segments");
    writeln!(out, "  live share  0% [{bars}] 100%; tallest bar {from}-{to}%: {tallest}")
}

/// A bar for each number, relative to the largest; none for 0.
fn bars(numbers: &[u64]) -> String {
    let largest = u128::from(numbers.iter().max().copied().unwrap_or(0).max(1));
    let bar = |number: u64| match (u128::from(number) * BARS.len() as u128).div_ceil(largest) as usize {
        0 => ' ',
        height => BARS[height - 1],
    };
    numbers.iter().map(|&number| bar(number)).collect()
}

pub(super) fn term((bytes, word): (u64, &str)) -> String {
    format!("{} {word}", Bytes(bytes))
}

/// Rounded up, as df(1) does: 100% means full, and 0% empty.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100).div_ceil(u128::from(whole.max(1))) as u64
}

/// Counts of requests since the mount, and how long they took.
///
/// # Errors
/// As writing reports.
pub fn requests(out: &mut dyn Write, list: &[RequestView]) -> io::Result<()> {
    let titles = ["requests", "failed", "total ms", "p50 ms", "p99 ms"];
    let [requests, failed, busy, p50, p99] = titles;
    writeln!(out, "  {:<18}{requests:>12}{failed:>10}{busy:>14}{p50:>11}{p99:>11}", "request")?;
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}"));
    list.iter().try_for_each(|RequestView { request, requests, failed, busy_ms, p50_ms, p99_ms }| {
        let (requests, failed) = (Count(*requests).to_string(), Count(*failed).to_string());
        let (p50, p99) = (ms(*p50_ms), ms(*p99_ms));
        writeln!(out, "  {request:<18}{requests:>12}{failed:>10}{busy_ms:>14.3}{p50:>11}{p99:>11}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_relative_to_the_largest_and_only_nothing_has_none() {
        assert_eq!(bars(&[0, 1, 50, 100, 1000]), " ▁▁▁█");
        assert_eq!(bars(&[u64::MAX, u64::MAX / 2, 0]), "█▄ ");
        assert_eq!(bars(&[0, 0]), "  ");
    }

    #[test]
    fn what_a_power_cut_loses_fits_80_columns() {
        let view = PowerCutView {
            loses_up_to_ms: Some(3_599_990),
            dirty_bytes: (1023 << 20) + 900_000,
            in_flight_bytes: 0,
            checkpoint_age_ms: 86_399_990,
        };
        let mut out = Vec::new();
        durable(&mut out, &view).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().count() == 1 && text.trim_end().len() <= 80, "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, "durable all but the last 3,600 s (1023.9 MiB); checkpoint 86,400 s ago");
        let mut out = Vec::new();
        durable(&mut out, &PowerCutView { dirty_bytes: 0, checkpoint_age_ms: 300, ..view }).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "  durable     all but changes of the last 3,600 s; checkpoint 0.3 s ago\n");
    }

    #[test]
    fn space_takes_one_line_with_the_largest_numbers() {
        let shown = |used: u64, free: u64, inodes: u64| {
            let mut out = Vec::new();
            let view = SpaceView {
                total_bytes: used + free,
                free_bytes: free,
                used_inodes: inodes,
                free_inodes: inodes,
            };
            space(&mut out, &view).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            shown(1 << 20, 1 << 20, 9),
            "  space       1 MiB of 2 MiB used (50%), 1 MiB free; inodes: 9 used, 9 free\n"
        );
        let free = (900 << 30) + (900 << 20);
        assert!(shown(1 << 10, free, 1).ends_with(" free; 1 inode (50%)\n"), "{}", shown(1 << 10, free, 1));
        let bytes = (1023 << 30) + (900 << 20);
        for text in [shown(bytes / 2, bytes / 2, 7_000_000), shown(bytes - 1024, 1024, 1 << 40)] {
            assert!(text.trim_end().len() <= WIDTH && text.contains("inodes"), "{text}");
        }
    }

    #[test]
    fn of_a_long_image_the_place_leaves_out_the_beginning() {
        let source = Source { image: "/var/lib/disk.img".into(), mountpoint: Some("/mnt".into()) };
        assert_eq!(place_line(&source, 33), "/var/lib/disk.img mounted on /mnt");
        assert_eq!(place_line(&source, 25), "…disk.img mounted on /mnt");
        assert_eq!(place_line(&source, 5), "… mounted on /mnt");
    }
}
