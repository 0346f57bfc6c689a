//! `firn mkfs`: makes a volume on an image file or block device, and fills it from a directory tree if asked.
//!
//! [`fast`] makes volumes of the Fast File System; [`plan`] decides and refuses, [`signatures`] recognises existing content, [`from_dir`] copies a tree,
//! and [`fit`] decides before whether it fits; [`least`] knows the smallest size.

mod fast;
mod fit;
mod from_dir;
mod least;
mod plan;
mod signatures;

use crate::args::size;
use crate::beneath;
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use crate::retain::rules::{DEFAULT_PERCENT, DEFAULT_RULES, parse, parse_retention};
use crate::sizes::{Bytes, Count};
use clap::Args;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs_device::{AlignedBuf, Clock, Device, FileDevice, SystemClock};
use firnfs_format::TimeNs;
use firnfs_format::checkpoint::Retention;
use firnfs_format::superblock::LOG_START_BYTES;
use firnfs_volume::Volume;
use from_dir::{Survey, Totals};
pub use least::least_log;
use plan::MkfsPlan;
pub use plan::open_failed;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a segment if the command line does not say.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Bytes of the largest file that is kept inside its inode if the command line does not say.
const INLINE_MAX_BYTES: u64 = 2 << 10;
/// Bytes wiped at the end of the replaced content: backup partition tables and RAID superblocks are stored there.
const WIPE_TAIL_BYTES: u64 = 128 << 10;
/// Bytes wiped at a time.
const WIPE_STEP_BYTES: u64 = 64 << 10;

/// Arguments of `firn mkfs`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn mkfs disk.img --size 20G                    a new, sparse image file
  firn mkfs /dev/sdb1 --label backup               a block device, all of it
  firn mkfs src.img --size 2G --from-dir ~/src     with the content of a directory

Sizes: K, M, G, T count in powers of 1024, KB, MB, GB, TB in powers of 1000.
Never overwrites a known file system, container or partition table without
--force, and never overwrites a mounted volume.

--from-dir looks whether the tree fits before anything is written. If copying
fails, or Ctrl-C ends it, a new image is removed.")]
pub struct MkfsArgs {
    /// Image file, made if it does not exist, or block device
    pub image: PathBuf,
    /// Size of the volume [default: that of the file or device]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// Copy the content of this directory into the volume, with owners, times, links, attributes and holes
    #[arg(long, value_name = "TREE")]
    pub from_dir: Option<PathBuf>,
    /// Name of the volume, at most 64 bytes
    #[arg(long, default_value = "")]
    pub label: String,
    /// Kind of volume
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value = "log")]
    pub kind: KindArg,
    /// ffs: fragment size, the block size / 1, 2, 4 or 8, at least 512 [default: an eighth of the block size]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub frag_size: Option<u64>,
    /// ffs: the layout of one of the Fast File Systems measured in the papers, for their disk [default: clusters of 64 KiB, no
    /// gaps]
    #[arg(long, value_name = "NAME", value_enum)]
    pub variant: Option<fast::VariantArg>,
    /// ffs: percentage of the space that is kept free
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=50))]
    pub minfree: Option<u32>,
    /// ffs: move the blocks of a file to where they are contiguous before they are written
    #[arg(long)]
    pub realloc: bool,
    /// ffs: keep a file in its cylinder group until its second indirect block
    #[arg(long)]
    pub no_switch: bool,
    /// ffs: place the tail of a file right after its last whole block
    #[arg(long)]
    pub smart_frag: bool,
    /// log: segment size, a power of two from 256K to 64M [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub segment_size: Option<u64>,
    /// Block size, a power of two from 4K to 64K
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4K")]
    pub block_size: u64,
    /// log: largest file that is kept inside its inode, 0 to 2K [default: 2K]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub inline_max: Option<u64>,
    /// log: open logs that data is sorted into, 2 to 5: more make skewed writes cheaper to clean, and take two segments each
    /// [default: one for each 256 segments beside the first two]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=5))]
    pub data_logs: Option<u8>,
    /// log: states of the past to keep, as in `firn retain --keep`, or `off` [default: all:1h hourly:2d daily:30d weekly:1y]
    #[arg(long, value_name = "RULES", value_parser = parse_retention)]
    pub history: Option<Retention>,
    /// Overwrite existing content
    #[arg(long)]
    pub force: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Kinds of volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum KindArg {
    /// Log-structured
    Log,
    /// The Fast File System of 4.4BSD
    Ffs,
}

/// The result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Made {
    image: PathBuf,
    /// As `--type` takes it.
    #[serde(rename = "type")]
    kind: &'static str,
    uuid: String,
    label: String,
    size_bytes: u64,
    segment_bytes: u32,
    block_bytes: u32,
    copied: Option<Totals>,
}

/// Runs the command.
///
/// # Errors
/// Refused for safety, options out of range, or the device or the tree fails.
pub fn run(args: &MkfsArgs, output: &mut Output) -> Done {
    fast::refuse_options_of_others(args)?;
    let plan = MkfsPlan::resolve(args)?;
    if args.kind == KindArg::Ffs {
        return fast::run(args, plan, output);
    }
    let options = options(args, &plan)?;
    // Before making a file: refuse options that make no volume.
    least::check_log(&options, args.data_logs)?;
    let tree =
        args.from_dir.as_ref().map(|tree| look_at(tree, &plan, &options, args.data_logs)).transpose()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::sets(&interrupted)?;
    let device = plan.open()?;
    let physical_block_bytes = device.geometry().physical_block_bytes;
    let options = MkfsOptions { physical_block_bytes, ..options };
    let make = || -> Done<Option<Totals>> {
        write_volume(&plan, &device, &options, args.data_logs)?;
        let device: Arc<dyn Device> = Arc::new(device);
        let volume = crate::volume::open(device, Options::default(), firnfs::vfs::AtimeMode::Noatime)?;
        let filled = tree.as_ref().map(|tree| fill(&plan, &volume, tree, &interrupted)).transpose();
        let kept = filled.and_then(|totals| keep_history(&volume, args).map(|()| totals));
        let closed = volume.close().map_err(|e| Failure::fs("cannot close the volume", &e));
        kept.and_then(|totals| closed.map(|()| totals))
    };
    let copied = make().inspect_err(|_| plan.remove_new())?;
    warn_of_full_disk(&plan);
    let made = Made {
        image: plan.path,
        kind: "log",
        uuid: crate::dump::views::uuid_text(&options.uuid),
        label: options.label,
        size_bytes: options.size_bytes,
        segment_bytes: options.segment_bytes,
        block_bytes: options.block_bytes,
        copied,
    };
    output.show(args.json, &made, |out| describe(out, &made))
}

fn write_volume(plan: &MkfsPlan, device: &FileDevice, options: &MkfsOptions, data_logs: Option<u8>) -> Done {
    wipe_if_needed(plan, device)
        .map_err(|e| Failure::failed(format!("cannot wipe the existing content: {e}")))?;
    firnfs_manage::format_with_logs(device, options, data_logs).map_err(|e| impossible(&e))
}

/// A tree to be copied.
struct Tree<'a> {
    path: &'a Path,
    survey: Survey,
}

/// Counts the tree and refuses it if it does not fit into the log that is to be made, or on the disk beneath.
fn look_at<'a>(
    path: &'a Path,
    plan: &MkfsPlan,
    options: &MkfsOptions,
    data_logs: Option<u8>,
) -> Done<Tree<'a>> {
    let sizes = (u64::from(options.inline_max_bytes), u64::from(firnfs_format::SECTOR_BYTES));
    let survey = |measure| from_dir::survey(path, plan.source_id(), sizes, measure);
    let quick = survey(from_dir::Measure::Allocated)?;
    let admit = |survey: &Survey| {
        fit::admit_to_log(survey, path, options, data_logs)
            .and_then(|()| fit::admit_to_disk(survey, path, &plan.path))
    };
    if admit(&quick).is_ok() {
        return Ok(Tree { path, survey: quick });
    }
    let survey = survey(from_dir::Measure::Data)?;
    admit(&survey).map(|()| Tree { path, survey })
}

/// Has the volume keep states of the past, from the next change on: what it was filled with is no history.
fn keep_history(volume: &Volume<Lfs>, args: &MkfsArgs) -> Done {
    let retention = match &args.history {
        Some(retention) => retention.clone(),
        None => Retention { percent: DEFAULT_PERCENT, rules: parse(DEFAULT_RULES).map_err(Failure::usage)? },
    };
    if retention.rules.is_empty() {
        return Ok(());
    }
    firnfs_manage::set_retention(volume, &retention).map_err(|e| Failure::fs("cannot set what is kept", &e))
}

/// Copies a tree into the fresh volume, with a progress bar.
fn fill<S: Engine>(
    plan: &MkfsPlan,
    volume: &Volume<S>,
    tree: &Tree<'_>,
    interrupted: &AtomicBool,
) -> Done<Totals> {
    let expected = &tree.survey.totals;
    let bar = Bar::of_bytes();
    let copied = from_dir::copy_tree(volume, tree.path, plan.source_id(), &mut |totals| {
        if interrupted.load(Ordering::SeqCst) {
            return Err(Failure::new(interrupt::exit(), format!("interrupted; {}", plan.remains())));
        }
        let files = format_args!("{} of {}", Count(totals.files), Count(expected.files).of("file", "files"));
        bar.show(totals.content_bytes, expected.content_bytes, files);
        Ok(())
    });
    drop(bar);
    copied
}

/// Says that the disk beneath a new image has less space than the image may take.
fn warn_of_full_disk(plan: &MkfsPlan) {
    if let Some(beneath) = beneath::of(&plan.path) {
        // If the warning cannot be shown, the volume is made all the same.
        let _ = beneath.describe(&mut std::io::stderr(), "firn: warning:", (&plan.path, false));
    }
}

fn options(args: &MkfsArgs, plan: &MkfsPlan) -> Done<MkfsOptions> {
    let (uuid, hash_key) = identity()?;
    let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    Ok(MkfsOptions {
        size_bytes: plan.size_bytes,
        block_bytes: narrow(args.block_size, "--block-size")?,
        segment_bytes: narrow(args.segment_size.unwrap_or(SEGMENT_BYTES), "--segment-size")?,
        physical_block_bytes: 4096,
        inline_max_bytes: narrow(args.inline_max.unwrap_or(INLINE_MAX_BYTES), "--inline-max")?,
        label: args.label.clone(),
        uuid,
        hash_key,
        now: TimeNs(SystemClock.now_ns()),
        root_owner: owner,
    })
}

/// The UUID and the hash key of a new volume.
///
/// # Errors
/// The system provides no random bytes.
pub fn identity() -> Done<([u8; 16], [u64; 2])> {
    let mut random = [0; 32];
    fill_random(&mut random)?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| random[at + i]));
    Ok((random_uuid(std::array::from_fn(|i| random[i])), [word(16), word(24)]))
}

/// A size that must fit in 32 bits.
///
/// # Errors
/// Usage, naming the option.
pub fn narrow(bytes: u64, option: &str) -> Done<u32> {
    u32::try_from(bytes).map_err(|_| Failure::usage(format!("{option} {} is too large", Bytes(bytes))))
}

/// Random bytes that cannot be guessed.
///
/// # Errors
/// The system provides none.
pub fn fill_random(out: &mut [u8]) -> Done {
    use std::io::Read;
    let path = std::path::Path::new("/dev/urandom");
    std::fs::File::open(path)
        .and_then(|mut source| source.read_exact(out))
        .map_err(|e| Failure::io("cannot read", path, &e))
}

/// Marks random bytes as a random uuid (RFC 9562, version 4).
fn random_uuid(mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// The failure of a volume that cannot be made.
pub fn impossible(error: &FsError) -> Failure {
    match error {
        FsError::Invalid(why) => Failure::usage(format!("the volume cannot be made: {why}")),
        other => Failure::fs("the volume cannot be made", other),
    }
}

/// Writes zeros where other file systems keep their signatures, so that no program takes the volume for its
/// predecessor.
fn wipe_if_needed(plan: &MkfsPlan, device: &dyn Device) -> Result<(), firnfs_device::DeviceError> {
    if !plan.wipe() {
        return Ok(());
    }
    let size_bytes = device.geometry().size_bytes;
    let tail_at = size_bytes.saturating_sub(WIPE_TAIL_BYTES) / WIPE_STEP_BYTES * WIPE_STEP_BYTES;
    for (from_bytes, to_bytes) in [(0, LOG_START_BYTES.min(size_bytes)), (tail_at, size_bytes)] {
        let mut at_bytes = from_bytes;
        while at_bytes < to_bytes {
            let len_bytes = WIPE_STEP_BYTES.min(to_bytes - at_bytes);
            device.write(at_bytes, Arc::new(AlignedBuf::zeroed(len_bytes as usize)))?;
            at_bytes += len_bytes;
        }
    }
    device.flush()
}

fn describe(out: &mut dyn std::io::Write, made: &Made) -> std::io::Result<()> {
    let label = if made.label.is_empty() { String::new() } else { format!(" \"{}\"", made.label) };
    writeln!(
        out,
        "{}: a volume{label} of {}, segments of {}, blocks of {}\n  uuid {}",
        made.image.display(),
        Bytes(made.size_bytes),
        Bytes(u64::from(made.segment_bytes)),
        Bytes(u64::from(made.block_bytes)),
        made.uuid
    )?;
    made.copied.map_or(Ok(()), |totals| {
        writeln!(
            out,
            "copied {} with {}, {}, {}, {}",
            Count(totals.files).of("file", "files"),
            Bytes(totals.content_bytes),
            Count(totals.directories).of("directory", "directories"),
            Count(totals.others).of("other entry", "other entries"),
            Count(totals.hard_links).of("hard link", "hard links")
        )
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
