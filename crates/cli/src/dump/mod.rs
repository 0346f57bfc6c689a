//! `firn dump`: the counterpart of BSD's newfs -N and dumpfs. Shows a volume's structures as they are on the
//! device.
//!
//! `views` is the output as data, `text` formats it for people, beginning with the segment map (`map`). `tables` has both tables
//! as a mount would see them. `inode_arg` and `inode_view` read and answer `--inode`. `fast` dumps a Fast File System.

mod fast;
mod inode_arg;
mod inode_view;
mod map;
mod tables;
pub mod text;
pub mod views;

use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::image::Image;
use crate::mkfs::open_failed;
use crate::output::Output;
use crate::target::{self, Target};
use crate::tell::tell;
use clap::{Args, ValueEnum};
use firnfs_device::{Access, FileDevice, FileOptions, Lock};
use firnfs_format::SegmentId;
use firnfs_manage::{VolumeKind, kind_of};
use inode_arg::InodeArg;
use inode_view::InodeView;
use map::Map;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tables::Tables;
use views::{IfileView, SegmentView, SegmentsView, SlotView, SuperblockView};

/// Arguments of `firn dump`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn dump disk.img                  map of the segments, superblock, newest checkpoint
  firn dump disk.img -v               also both checkpoint slots in full
  firn dump disk.img --segments --sort live
                                      the segments in use, those with the least live first
  firn dump disk.img --segment 3      every partial segment of segment 3, block by block
  firn dump disk.img --inode 1        the root directory's inode and its blocks
  firn dump disk.img --inode /a/file  the inode of a file, and where its blocks are
  firn dump disk.img --ifile --json   inode map and segment usage, for scripts

Of a Fast File System it shows the superblock and the groups, or one inode (--inode).

--inode shows neighbouring blocks as one run; JSON has every block with its checksum.

Inodes and segment usage are shown as a mount would find them: as of the newest checkpoint, rolled
forward by the log after it. For a mounted volume firn shows the content of the device, which may be
older than that of the mount: run `firn sync` first.")]
pub struct DumpArgs {
    /// Image file, block device, or any path on a mount
    #[arg(add = values::mounts())]
    pub image: PathBuf,
    #[command(flatten)]
    pub part: PartArgs,
    /// Order of --segments [default: segment]
    #[arg(long, value_enum, value_name = "ORDER", requires = "segments")]
    pub sort: Option<SegmentOrder>,
    /// Show both checkpoint slots in full after the map; JSON always has them
    #[arg(short, long, conflicts_with = "PartArgs")]
    pub verbose: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Orders of segments.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SegmentOrder {
    /// The least live bytes first
    Live,
    /// Those first that were not written for the longest time
    Age,
    /// By number
    #[default]
    Segment,
}

/// Which part to show; at most one.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub struct PartArgs {
    /// One segment: its usage and every partial segment with its blocks
    #[arg(long, value_name = "N")]
    pub segment: Option<u64>,
    /// The usage of all segments in use
    #[arg(long)]
    pub segments: bool,
    /// One inode, by number or by a path from the root of the volume: its record and every block
    #[arg(long, value_name = "N|PATH", value_parser = inode_arg::parse)]
    pub inode: Option<InodeArg>,
    /// Both checkpoint slots in full
    #[arg(long)]
    pub checkpoint: bool,
    /// The readable ifile: inode map and segment usage
    #[arg(long)]
    pub ifile: bool,
}

/// The default view.
#[derive(serde::Serialize)]
struct Overview {
    superblock: SuperblockView,
    slots: Vec<SlotView>,
}

/// The output of `--checkpoint`.
#[derive(serde::Serialize)]
struct Checkpoints {
    slots: Vec<SlotView>,
}

/// Runs the command.
///
/// # Errors
/// The volume cannot be found or read, or the requested structure does not exist.
pub fn run(args: &DumpArgs, output: &mut Output) -> Done {
    let (path, mountpoint) = image_of(&args.image)?;
    let number = |inode: &InodeArg| inode.number(&path, mountpoint.as_deref());
    let inode = args.part.inode.as_ref().map(number).transpose()?;
    if is_fast(&path)? {
        return fast::run(&path, args, inode, output);
    }
    let image = Image::open(&path)?;
    let segment_bytes = image.superblock.segment_bytes;
    let part = &args.part;
    if let Some(number) = part.segment {
        let view = SegmentView::new(&image, &tables(&image), SegmentId(number))?;
        output.show(args.json, &view, |out| text::segment(out, &view, segment_bytes))
    } else if let Some(number) = inode {
        let view = InodeView::new(&image, &tables(&image), number)?;
        output.show(args.json, &view, |out| text::inode(out, &view))
    } else if part.checkpoint {
        let view = Checkpoints { slots: views::slots(&image) };
        output.show(args.json, &view, |out| text::slots(out, &view.slots))
    } else if part.segments {
        let view = SegmentsView::new(&image, &tables(&image), args.sort.unwrap_or_default())?;
        output.show(args.json, &view, |out| text::segments(out, &view))
    } else if part.ifile {
        let view = IfileView::new(&image, &tables(&image))?;
        output.show(args.json, &view, |out| text::ifile(out, &view, segment_bytes))
    } else {
        let view = Overview { superblock: SuperblockView::new(&image), slots: views::slots(&image) };
        output.show(args.json, &view, |out| overview(out, &image, &view, args.verbose))
    }
}

/// The map first; the rest also of a volume whose segment usage cannot be read.
fn overview(out: &mut dyn Write, image: &Image, view: &Overview, verbose: bool) -> io::Result<()> {
    match Map::of(image, &tables(image)) {
        Ok(map) => map.show(out)?,
        Err(failure) => writeln!(out, "segments      no map: {failure}")?,
    }
    text::superblock(out, &view.superblock)?;
    if verbose { text::slots(out, &view.slots) } else { text::slots_in_brief(out, &view.slots) }
}

fn is_fast(path: &Path) -> Done<bool> {
    let file = FileOptions { access: Access::ReadOnly, lock: Lock::None, ..FileOptions::default() };
    let device = FileDevice::open(path, &file).map_err(|e| open_failed(&e))?;
    Ok(kind_of(&device) == VolumeKind::Ffs)
}

/// The tables; tells people if roll-forward is not included.
fn tables(image: &Image) -> Tables<'_> {
    let tables = Tables::of(image);
    if let Some(failure) = tables.why_checkpoint() {
        tell(format_args!("showing the newest checkpoint alone: {failure}"));
    }
    tables
}

/// The device to read: a mount's source with its mountpoint, or the path itself.
fn image_of(path: &Path) -> Done<(PathBuf, Option<PathBuf>)> {
    match target::resolve(path)? {
        Target::Image(image) => Ok((image, None)),
        Target::Mounted(mount) if mount.source.is_absolute() => Ok((mount.source, Some(mount.mountpoint))),
        Target::Mounted(mount) => Err(Failure::usage(format!(
            "{} is a memory volume: it has no log to show",
            mount.mountpoint.display()
        ))),
    }
}
