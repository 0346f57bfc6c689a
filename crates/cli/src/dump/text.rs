//! `firn dump` for people: formats the views as text.

use super::inode_view::InodeView;
use super::views::{
    CheckpointView, IfileView, PartialView, PtrView, SegmentView, SegmentsView, SlotView, SuperblockView,
    UsageView,
};
use crate::sizes::{Bytes, Count};
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
        writeln!(out, "checkpoint slot {slot}: epoch {epoch}{newest}, {state}, {time}")?;
    }
    Ok(())
}

/// The usage of segments as a table.
///
/// # Errors
/// As writing reports.
pub fn segments(out: &mut dyn Write, view: &SegmentsView) -> io::Result<()> {
    writeln!(out, "{:>9} {:>10} {:>7} {:>4}  written", "segment", "live", "live", "log")?;
    view.segment_entries.iter().try_for_each(|entry| {
        let share = f64::from(entry.live_bytes) * 100.0 / f64::from(view.segment_bytes.max(1));
        writeln!(
            out,
            "{:>9} {:>10} {share:>6.1}% {:>4}  {}",
            entry.segment,
            Bytes(u64::from(entry.live_bytes)).to_string(),
            entry.log_number,
            entry.written.as_deref().unwrap_or("never")
        )
    })
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
        "  inodes      {} in use, {} orphans, first never used {}",
        Count(view.inode_map.used),
        view.inode_map.special,
        view.next_inode
    )?;
    for (name, table) in [("inode map ", &view.inode_map), ("seg. usage", &view.segment_usage)] {
        writeln!(out, "  {name}  height {}, root {}", table.height, place(&table.root))?;
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

fn usage_line(out: &mut dyn Write, view: &UsageView, segment_bytes: u32) -> io::Result<()> {
    let share = f64::from(view.live_bytes) / f64::from(segment_bytes.max(1));
    let state = if view.in_use { "in use" } else { "clean" };
    let (Some(written), Some(youngest)) = (&view.written, &view.youngest) else {
        return writeln!(out, "segment {:<8} {state:<7} never written", view.segment);
    };
    writeln!(
        out,
        "segment {:<8} {state:<7} {:>9} live ({:>5.1}%)  log {}  written {}  youngest {}",
        view.segment,
        Bytes(u64::from(view.live_bytes)),
        share * 100.0,
        view.log_number,
        written,
        youngest
    )
}

/// One segment with all its partial segments.
///
/// # Errors
/// As writing reports.
pub fn segment(out: &mut dyn Write, view: &SegmentView, segment_bytes: u32) -> io::Result<()> {
    usage_line(out, &view.usage, segment_bytes)?;
    writeln!(
        out,
        "{} partial segments, {} written",
        view.partials.len(),
        Bytes(u64::from(view.used_sectors) * u64::from(firnfs_format::SECTOR_BYTES))
    )?;
    view.partials.iter().try_for_each(|partial| self::partial(out, partial))
}

fn partial(out: &mut dyn Write, view: &PartialView) -> io::Result<()> {
    writeln!(
        out,
        "\nsector {:<6} serial {}  mount {}  epoch {}  log {}  {}  {}",
        view.sector,
        view.serial,
        view.incarnation,
        view.epoch,
        view.log_number,
        view.flags.join("|"),
        view.time
    )?;
    writeln!(
        out,
        "  {} sectors, next segment {}, durable through {}, crc {}, previous {}",
        view.len_sectors, view.next_segment, view.durable_through, view.crc, view.prev_crc
    )?;
    for entry in &view.summary_entries {
        let block = entry.block.map_or_else(String::new, |block| block.to_string());
        let where_to = entry.ptr.as_ref().map_or_else(String::new, place);
        let mark = if entry.good { "" } else { "  BAD CHECKSUM" };
        writeln!(
            out,
            "  {:<9} inode {:<9} v{:<5} block {block:<9} {where_to}{mark}",
            entry.what, entry.inode, entry.inode_version
        )?;
    }
    Ok(())
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
    writeln!(out, "  owner       {}:{}, {} links", view.uid, view.gid, view.links)?;
    writeln!(
        out,
        "  size        {} B, {} charged{}",
        Count(view.size_bytes),
        Bytes(view.charged_bytes),
        view.inline_bytes.map_or_else(String::new, |bytes| format!(", {bytes} B inline"))
    )?;
    if let (Some(parent), Some(entries)) = (view.parent, view.entries) {
        writeln!(out, "  directory   {} entries, parent {parent}", Count(entries))?;
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
    for block in &view.block_map {
        writeln!(out, "  {:<5} block {:<9} {}", block.fork, block.block, place(&block.ptr))?;
    }
    Ok(())
}

/// The readable ifile.
///
/// # Errors
/// As writing reports.
pub fn ifile(out: &mut dyn Write, view: &IfileView, segment_bytes: u32) -> io::Result<()> {
    writeln!(out, "{} segments in use", Count(view.segment_entries.len() as u64))?;
    view.segment_entries.iter().try_for_each(|segment| usage_line(out, segment, segment_bytes))?;
    writeln!(out, "\n{} inodes in use", Count(view.inode_entries.len() as u64))?;
    for entry in &view.inode_entries {
        let orphan = if entry.orphan { "  orphan" } else { "" };
        writeln!(
            out,
            "inode {:<9} v{:<5} {}  atime {}{orphan}",
            entry.inode,
            entry.inode_version,
            place(&entry.record),
            entry.atime
        )?;
    }
    Ok(())
}
