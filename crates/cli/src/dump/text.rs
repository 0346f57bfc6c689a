//! `firn dump` for people: formats the views as text.

use super::inode_view::{BlockView, InodeView};
use super::views::{
    CheckpointView, IfileView, PartialView, PtrView, SegmentView, SegmentsView, SlotView, SuperblockView,
    UsageView,
};
use crate::output::write_field;
use crate::sizes::{Bytes, Count, WholeSeconds};
use firnfs_format::SECTOR_BYTES;
use std::io::{self, Write};

/// The target of a pointer, in one column.
fn place(ptr: &PtrView) -> String {
    match ptr.kind.as_str() {
        "plain" => format!(
            "segment {} sector {}, {} B, crc {}, birth {}",
            ptr.segment, ptr.sector, ptr.stored_bytes, ptr.crc, ptr.birth
        ),
        other => other.to_owned(),
    }
}

/// The superblock.
///
/// # Errors
/// As writing reports.
pub fn superblock(out: &mut dyn Write, view: &SuperblockView) -> io::Result<()> {
    let bad: Vec<&str> = ["primary", "second", "last"]
        .into_iter()
        .zip(view.good_copies)
        .filter_map(|(name, good)| (!good).then_some(name))
        .collect();
    let copies = if bad.is_empty() { "3 good copies".to_owned() } else { format!("bad: {}", bad.join(", ")) };
    writeln!(out, "superblock    format {}, {copies}", view.format_version)?;
    writeln!(out, "  uuid        {}", view.uuid)?;
    writeln!(out, "  label       {}", if view.label.is_empty() { "(none)" } else { &view.label })?;
    writeln!(out, "  created     {}", view.created)?;
    writeln!(out, "  size        {}", Bytes(view.size_bytes))?;
    writeln!(out, "  block       {}", Bytes(u64::from(view.block_bytes)))?;
    writeln!(out, "  segment     {}", Bytes(u64::from(view.segment_bytes)))?;
    writeln!(out, "  write unit  {}", Bytes(u64::from(view.write_unit_bytes)))?;
    writeln!(out, "  log starts  at byte {}", Count(view.log_start_bytes))?;
    writeln!(out, "  inline max  {}", Bytes(u64::from(view.inline_max_bytes)))
}

/// Both checkpoint slots, in full.
///
/// # Errors
/// As writing reports.
pub fn slots(out: &mut dyn Write, views: &[SlotView]) -> io::Result<()> {
    for view in views {
        match (&view.checkpoint, &view.error) {
            (Some(checkpoint), _) => slot(out, view.slot, checkpoint)?,
            (None, error) => writeln!(
                out,
                "checkpoint slot {}: not usable ({})",
                view.slot,
                error.as_deref().unwrap_or("empty")
            )?,
        }
    }
    Ok(())
}

/// A line for each checkpoint slot.
///
/// # Errors
/// As writing reports.
pub fn slots_in_brief(out: &mut dyn Write, views: &[SlotView]) -> io::Result<()> {
    for SlotView { slot, error, checkpoint } in views {
        let Some(CheckpointView { epoch, newest, cleanly_unmounted, time, .. }) = checkpoint else {
            let why = error.as_deref().unwrap_or("empty");
            writeln!(out, "checkpoint slot {slot}: not usable ({why})")?;
            continue;
        };
        let newest = if *newest { ", newest" } else { "" };
        let state = if *cleanly_unmounted { "clean unmount" } else { "mounted or crashed" };
        let time = WholeSeconds(time);
        writeln!(out, "checkpoint slot {slot}: epoch {epoch}{newest}, {state}, {time}")?;
    }
    Ok(())
}

/// The usage of segments as a table.
///
/// # Errors
/// As writing reports.
pub fn segments(out: &mut dyn Write, view: &SegmentsView) -> io::Result<()> {
    usage_table(out, &view.segment_entries, view.segment_bytes)
}

fn usage_table(out: &mut dyn Write, entries: &[UsageView], segment_bytes: u32) -> io::Result<()> {
    let (written, youngest) = ("written", "youngest block");
    writeln!(out, "{:>9} {:>10} {:>7} {:>4}  {written:<20}  {youngest}", "segment", "live", "live", "log")?;
    entries.iter().try_for_each(|entry| {
        let [written, youngest] = [&entry.written, &entry.youngest].map(|time| {
            time.as_deref().map_or_else(|| "never".to_owned(), |time| WholeSeconds(time).to_string())
        });
        writeln!(
            out,
            "{:>9} {:>10} {:>6.1}% {:>4}  {written:<20}  {youngest}",
            entry.segment,
            Bytes(u64::from(entry.live_bytes)).to_string(),
            percent(entry, segment_bytes),
            entry.log_number
        )
    })
}

fn percent(entry: &UsageView, segment_bytes: u32) -> f64 {
    f64::from(entry.live_bytes) * 100.0 / f64::from(segment_bytes.max(1))
}

fn slot(out: &mut dyn Write, number: usize, view: &CheckpointView) -> io::Result<()> {
    let newest = if view.newest { ", newest" } else { "" };
    let state = if view.cleanly_unmounted { "clean unmount" } else { "mounted or crashed" };
    writeln!(out, "checkpoint slot {number}: epoch {}{newest}, {state}", view.epoch)?;
    writeln!(out, "  written     {} by mount {}", view.time, view.incarnation)?;
    writeln!(out, "  covers      serial {} (summary crc {})", view.serial, view.serial_crc)?;
    writeln!(
        out,
        "  segments    {} of {} in use, {} just emptied",
        Count(view.segment_usage.used),
        Count(view.segments),
        view.emptied
    )?;
    writeln!(out, "  live        {} of {}", Bytes(view.live_bytes), Bytes(view.size_bytes))?;
    writeln!(
        out,
        "  inodes      {} in use, {}, first never used {}",
        Count(view.inode_map.used),
        Count(view.inode_map.special).of("orphan", "orphans"),
        view.next_inode
    )?;
    for (name, table) in [("inode map ", &view.inode_map), ("seg. usage", &view.segment_usage)] {
        let root = place(&table.root);
        let height = format!("height {}", table.height);
        let parts: Vec<String> = std::iter::once(height).chain(root.split(", ").map(str::to_owned)).collect();
        write_field(out, &format!("  {name} "), &parts)?;
    }
    for tail in &view.tails {
        writeln!(
            out,
            "  log {}       at segment {} sector {}, then segment {}",
            tail.log_number, tail.segment, tail.sector, tail.next_segment
        )?;
    }
    for (serial, incarnation) in &view.spans {
        writeln!(out, "  span        from serial {serial}: mount {incarnation}")?;
    }
    for (name, value) in &view.counters {
        writeln!(out, "  {name:<24} {}", Count(*value))?;
    }
    Ok(())
}

/// One segment with all its partial segments.
///
/// # Errors
/// As writing reports.
pub fn segment(out: &mut dyn Write, view: &SegmentView, segment_bytes: u32) -> io::Result<()> {
    let SegmentView { usage, used_sectors, partials } = view;
    let number = usage.segment;
    match (&usage.written, &usage.youngest) {
        (Some(written), Some(youngest)) => {
            let state = if usage.in_use { "in use" } else { "clean" };
            let (live, share) = (Bytes(u64::from(usage.live_bytes)), percent(usage, segment_bytes));
            writeln!(out, "segment {number}: {state}, {live} live ({share:.1}%), log {}", usage.log_number)?;
            writeln!(out, "  written   {written}")?;
            writeln!(out, "  youngest  {youngest}")?;
        }
        _ if partials.is_empty() => writeln!(out, "segment {number}: clean, never written")?,
        _ => writeln!(out, "segment {number}: clean; what was in it before it was cleaned:")?,
    }
    let bytes = Bytes(u64::from(*used_sectors) * u64::from(firnfs_format::SECTOR_BYTES));
    let count = Count(partials.len() as u64).of("partial segment", "partial segments");
    writeln!(out, "{count}, {bytes} written")?;
    partials.iter().try_for_each(|partial| self::partial(out, partial))
}

fn partial(out: &mut dyn Write, view: &PartialView) -> io::Result<()> {
    let flags: String = view.flags.iter().map(|flag| format!(", {flag}")).collect();
    let PartialView { sector, serial, incarnation, epoch, log_number, len_sectors, .. } = view;
    writeln!(
        out,
        "\nsector {sector}: serial {serial}, mount {incarnation}, epoch {epoch}, log {log_number}{flags}"
    )?;
    writeln!(out, "  {len_sectors} sectors, written {}", view.time)?;
    writeln!(
        out,
        "  next segment {}, durable through {}, crc {}, previous {}",
        view.next_segment, view.durable_through, view.crc, view.prev_crc
    )?;
    if !view.summary_entries.is_empty() {
        let titles = ["inode", "ver.", "block", "sector", "bytes"];
        let [inode, version, block, sector, bytes] = titles;
        writeln!(
            out,
            "  {:<9} {inode:>9} {version:>5} {block:>10} {sector:>6} {bytes:>5} {:<8} birth",
            "kind", "crc"
        )?;
    }
    for entry in &view.summary_entries {
        let block = entry.block.map_or_else(String::new, |block| block.to_string());
        let place = entry.ptr.as_ref().map_or_else(String::new, in_segment);
        let mark = if entry.good { "" } else { " BAD CHECKSUM" };
        let line =
            format!("  {:<9} {:>9} {:>5} {block:>10} {place}", entry.what, entry.inode, entry.inode_version);
        writeln!(out, "{}{mark}", line.trim_end())?;
    }
    Ok(())
}

/// The target of a pointer within a segment that is known, in columns.
fn in_segment(ptr: &PtrView) -> String {
    match ptr.kind.as_str() {
        "plain" => format!("{:>6} {:>5} {:<8} {:>5}", ptr.sector, ptr.stored_bytes, ptr.crc, ptr.birth),
        other => other.to_owned(),
    }
}

/// One inode with all its blocks.
///
/// # Errors
/// As writing reports.
pub fn inode(out: &mut dyn Write, view: &InodeView) -> io::Result<()> {
    let orphan = if view.orphan { ", orphan" } else { "" };
    let reaping = if view.reaping { ", freeing blocks behind its end" } else { "" };
    writeln!(out, "inode {}  {}, mode {}{orphan}{reaping}", view.inode, view.kind, view.mode)?;
    writeln!(out, "  generation  {}, version {}", view.generation, view.inode_version)?;
    let links = Count(view.links.into()).of("link", "links");
    writeln!(out, "  owner       {}:{}, {links}", view.uid, view.gid)?;
    writeln!(
        out,
        "  size        {} B, {} charged{}",
        Count(view.size_bytes),
        Bytes(view.charged_bytes),
        view.inline_bytes.map_or_else(String::new, |bytes| format!(", {bytes} B inline"))
    )?;
    if let (Some(parent), Some(entries)) = (view.parent, view.entries) {
        writeln!(out, "  directory   {}, parent {parent}", Count(entries).of("entry", "entries"))?;
    }
    if view.xattr_bytes > 0 {
        writeln!(out, "  attributes  {} B", view.xattr_bytes)?;
    }
    for (name, time) in
        [("atime", &view.atime), ("mtime", &view.mtime), ("ctime", &view.ctime), ("btime", &view.btime)]
    {
        writeln!(out, "  {name}       {time}")?;
    }
    writeln!(out, "  record      {}", place(&view.record))?;
    view.block_map.chunk_by(is_next).try_for_each(|run| match run {
        [first, .., last] => {
            let blocks = format!("{}-{}", first.block, last.block);
            let bytes = run.iter().map(|block| u64::from(block.ptr.stored_bytes)).sum();
            let place = run_place(&first.ptr, Bytes(bytes));
            writeln!(out, "  {:<5} blocks {blocks:<9} {place}", first.fork)
        }
        run => run.iter().try_for_each(|block| {
            writeln!(out, "  {:<5} block {:<10} {}", block.fork, block.block, place(&block.ptr))
        }),
    })
}

/// Whether a block follows another one in its file and on the device, and was written with it.
fn is_next(before: &BlockView, block: &BlockView) -> bool {
    let (a, b) = (&before.ptr, &block.ptr);
    let is_next_in_file =
        (before.fork, before.block + 1, before.level) == (block.fork, block.block, block.level);
    let end = a.sector + u64::from(a.stored_bytes.div_ceil(SECTOR_BYTES));
    let is_next_on_device = a.kind != "plain" || (a.segment, end, a.birth) == (b.segment, b.sector, b.birth);
    is_next_in_file && a.kind == b.kind && is_next_on_device
}

/// The place of a run of neighbouring blocks. Each has a checksum of its own; JSON has them.
fn run_place(first: &PtrView, all: Bytes) -> String {
    match first.kind.as_str() {
        "plain" => {
            format!("from segment {} sector {}, {all}, birth {}", first.segment, first.sector, first.birth)
        }
        other => other.to_owned(),
    }
}

/// The readable ifile.
///
/// # Errors
/// As writing reports.
pub fn ifile(out: &mut dyn Write, view: &IfileView, segment_bytes: u32) -> io::Result<()> {
    writeln!(out, "{} in use", Count(view.segment_entries.len() as u64).of("segment", "segments"))?;
    usage_table(out, &view.segment_entries, segment_bytes)?;
    writeln!(out, "\n{} in use", Count(view.inode_entries.len() as u64).of("inode", "inodes"))?;
    let titles = ["inode", "ver.", "segment", "sector", "bytes", "birth"];
    let [inode, version, segment, sector, bytes, birth] = titles;
    writeln!(
        out,
        "{inode:>9} {version:>5} {segment:>8} {sector:>6} {bytes:>5} {:<8} {birth:>5} read",
        "crc"
    )?;
    for entry in &view.inode_entries {
        let orphan = if entry.orphan { " orphan" } else { "" };
        writeln!(
            out,
            "{:>9} {:>5} {:>8} {} {}{orphan}",
            entry.inode,
            entry.inode_version,
            entry.record.segment,
            in_segment(&entry.record),
            WholeSeconds(&entry.atime)
        )?;
    }
    Ok(())
}
