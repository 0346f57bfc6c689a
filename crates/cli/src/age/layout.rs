//! `firn age layout`.

use super::{target, unmapped};
use crate::failure::Done;
use crate::output::Output;
use crate::sizes::{Bytes, Count, WholeSeconds};
use clap::Args;
use firnfs_lab::age::layout::{AGES_DAYS, Class, FreeClass, FreeSpace, Layout};
use firnfs_lab::age::snapshot::{Chain, Snapshot};
use firnfs_lab::calendar::rfc3339;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `firn age layout`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn age layout /home                a directory of any file system that has FIEMAP
  firn age layout disk.img             a volume that is not mounted
  firn age layout night*.snap          one line for each of several: how it developed
  firn age layout /mnt --json

The layout score is the share of blocks that lie right after the block before them in their file; first blocks, and so files
of one block, are left out, and the score of many files counts all their blocks together (File System Aging, 3.4). A file
is split if its inode and its first block lie in different groups. In a log, a seam is a place within a file where a
reader has to seek: a log promises few seams, not contiguous blocks.")]
pub struct LayoutArgs {
    /// Directories, image files, block devices, or snapshots
    #[arg(value_name = "DIR|IMAGE|SNAPSHOT", required = true)]
    pub sources: Vec<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct LayoutsView {
    layouts: Vec<LayoutView>,
}

#[derive(Serialize)]
struct LayoutView {
    path: PathBuf,
    taken: String,
    fs_type: String,
    block_bytes: u32,
    files: u64,
    /// Regular files that have blocks.
    placed_files: u64,
    unmapped_files: u64,
    /// Blocks other than the first of a file.
    scored_blocks: u64,
    optimal_blocks: u64,
    layout_score: Option<f64>,
    by_size: Vec<ClassView>,
    by_age: Vec<ClassView>,
    splits: Option<SplitsView>,
    seams_of_files: Option<SeamsView>,
    free_space: Option<FreeView>,
}

/// Files of similar size or age.
#[derive(Serialize)]
struct ClassView {
    /// Largest size; null in a list by age.
    up_to_bytes: Option<u64>,
    /// Changed less than that many days before the newest change; null in a list by size, and for the oldest.
    within_days: Option<u64>,
    placed_files: u64,
    content_bytes: u64,
    scored_blocks: u64,
    optimal_blocks: u64,
    layout_score: Option<f64>,
}

#[derive(Serialize)]
struct SplitsView {
    split_files: u64,
    split_percent: f64,
    one_group_percent: Option<f64>,
    ten_groups_percent: Option<f64>,
    by_distance: Vec<DistanceView>,
}

/// Split files of one distance.
#[derive(Serialize)]
struct DistanceView {
    groups: u64,
    split_files: u64,
}

#[derive(Serialize)]
struct SeamsView {
    seams: u64,
    files_with_seams: u64,
    stored_bytes: u64,
    mean_run_bytes: u64,
}

#[derive(Serialize)]
struct FreeView {
    by_length: Vec<StretchesView>,
    partial_bytes: u64,
    partial_percent: Option<f64>,
}

#[derive(Serialize)]
struct StretchesView {
    up_to_bytes: u64,
    stretches: u64,
    free_bytes: u64,
}

impl StretchesView {
    fn of(class: &FreeClass) -> Self {
        Self { up_to_bytes: class.up_to_bytes, stretches: class.stretches, free_bytes: class.bytes }
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

impl ClassView {
    fn of(class: &Class, up_to_bytes: Option<u64>, within_days: Option<u64>) -> Self {
        Self {
            up_to_bytes,
            within_days,
            placed_files: class.files,
            content_bytes: class.bytes,
            scored_blocks: class.score.blocks,
            optimal_blocks: class.score.optimal,
            layout_score: class.score.value(),
        }
    }
}

impl LayoutView {
    fn of(path: &Path, snapshot: &Snapshot) -> Self {
        let (meta, layout) = (&snapshot.meta, Layout::of(snapshot));
        let placed_files = layout.all.files;
        let days = AGES_DAYS.into_iter().map(Some).chain([None]);
        Self {
            path: path.to_owned(),
            taken: rfc3339(meta.taken_ns),
            fs_type: meta.fs_type.clone(),
            block_bytes: meta.block_bytes,
            files: layout.files,
            placed_files,
            unmapped_files: meta.unmapped_files,
            scored_blocks: layout.all.score.blocks,
            optimal_blocks: layout.all.score.optimal,
            layout_score: layout.all.score.value(),
            by_size: layout
                .by_size
                .iter()
                .map(|(&size, class)| ClassView::of(class, Some(size), None))
                .collect(),
            by_age: layout
                .by_age
                .iter()
                .zip(days)
                .map(|(class, days)| ClassView::of(class, None, days))
                .collect(),
            splits: layout.splits.map(|splits| SplitsView {
                split_files: splits.files(),
                split_percent: percent(splits.files(), placed_files).unwrap_or(0.0),
                one_group_percent: percent(splits.within(1), splits.files()),
                ten_groups_percent: percent(splits.within(10), splits.files()),
                by_distance: splits
                    .by_distance
                    .iter()
                    .map(|(&groups, &split_files)| DistanceView { groups, split_files })
                    .collect(),
            }),
            seams_of_files: layout.seams.map(|seams| SeamsView {
                seams: seams.seams,
                files_with_seams: seams.files,
                stored_bytes: seams.bytes,
                mean_run_bytes: seams.mean_run_bytes(placed_files),
            }),
            free_space: meta.free.as_ref().map(FreeView::of),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}: {}, {}", self.path.display(), self.fs_type, WholeSeconds(&self.taken))?;
        writeln!(
            out,
            "  {}, {} with blocks of {}",
            Count(self.files).of("file", "files"),
            Count(self.placed_files),
            Bytes(self.block_bytes.into())
        )?;
        if self.unmapped_files > 0 {
            writeln!(out, "  {}", unmapped(self.unmapped_files))?;
        }
        writeln!(
            out,
            "  layout score {}: {} of {} right after the one before",
            score(self.layout_score),
            Count(self.optimal_blocks),
            Count(self.scored_blocks).of("block lies", "blocks lie")
        )?;
        self.write_classes(out)?;
        if let Some(splits) = &self.splits {
            let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |p| format!("{p:.0}%"));
            writeln!(
                out,
                "  split files: {} ({:.1}%), {} of them by one group, {} by at most ten",
                Count(splits.split_files),
                splits.split_percent,
                share(splits.one_group_percent),
                share(splits.ten_groups_percent)
            )?;
        }
        if let Some(seams) = &self.seams_of_files {
            writeln!(
                out,
                "  seams: {} in {}; a reader seeks every {}",
                Count(seams.seams),
                Count(seams.files_with_seams).of("file", "files"),
                Bytes(seams.mean_run_bytes)
            )?;
        }
        if let Some(free) = &self.free_space {
            free.write(out, self.seams_of_files.is_some())?;
        }
        Ok(())
    }

    fn write_classes(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "  {:<22}{:>10}{:>12}{:>10}", "size", "files", "content", "score")?;
        for class in &self.by_size {
            let label = format!("up to {}", Bytes(class.up_to_bytes.unwrap_or(0)));
            class.write(out, &label)?;
        }
        writeln!(out, "  {:<22}{:>10}{:>12}{:>10}", "before newest change", "files", "content", "score")?;
        for class in self.by_age.iter().filter(|class| class.placed_files > 0) {
            let label = match class.within_days {
                Some(1) => "less than a day".to_owned(),
                Some(days) => format!("less than {days} days"),
                None => "more".to_owned(),
            };
            class.write(out, &label)?;
        }
        Ok(())
    }

    /// One of several.
    fn line(&self, out: &mut dyn Write) -> io::Result<()> {
        let last = match (&self.splits, &self.seams_of_files) {
            (Some(splits), _) => format!("{} split", Count(splits.split_files)),
            (_, Some(seams)) => Count(seams.seams).of("seam", "seams"),
            _ => String::new(),
        };
        let line = format!(
            "{:<20} {:>15}  score {:<5} {last:>13}  {}",
            WholeSeconds(&self.taken),
            Count(self.files).of("file", "files"),
            score(self.layout_score),
            self.path.display()
        );
        writeln!(out, "{}", line.trim_end())
    }
}

impl ClassView {
    fn write(&self, out: &mut dyn Write, label: &str) -> io::Result<()> {
        let (files, content) = (Count(self.placed_files), Bytes(self.content_bytes));
        let score = score(self.layout_score);
        writeln!(out, "  {label:<22}{files:>10}{content:>12}{score:>10}")
    }
}

impl FreeView {
    fn of(free: &FreeSpace) -> Self {
        Self {
            by_length: free.stretches.iter().map(StretchesView::of).collect(),
            partial_bytes: free.partial_bytes,
            partial_percent: free.partial_share().map(|share| share * 100.0),
        }
    }

    fn write(&self, out: &mut dyn Write, is_log: bool) -> io::Result<()> {
        let (unit, rest) = match is_log {
            true => ("clean segments", "dead in segments with live data"),
            false => ("whole blocks", "in blocks that are used in part"),
        };
        writeln!(out, "  {:<22}{:>10}{:>12}", format!("free {unit}"), "stretches", "together")?;
        for class in &self.by_length {
            let label = format!("up to {}", Bytes(class.up_to_bytes));
            writeln!(out, "  {label:<22}{:>10}{:>12}", Count(class.stretches), Bytes(class.free_bytes))?;
        }
        let share = self.partial_percent.map_or_else(String::new, |p| format!(" ({p:.1}% of free space)"));
        writeln!(out, "  {} {rest}{share}", Bytes(self.partial_bytes))
    }
}

fn score(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

/// Runs the command.
///
/// # Errors
/// A source cannot be read or is damaged.
pub fn run(args: &LayoutArgs, output: &mut Output) -> Done {
    let mut chain = Chain::default();
    let mut layouts = Vec::new();
    for path in &args.sources {
        layouts.push(LayoutView::of(path, &target::snapshot(path, &mut chain)?));
    }
    let view = LayoutsView { layouts };
    output.show(args.json, &view, |out| match &view.layouts[..] {
        [one] => one.write(out),
        all => all.iter().try_for_each(|view| view.line(out)),
    })
}
