//! `firn mkfs --type ffs`.

use super::fit::{self, Room};
use super::plan::MkfsPlan;
use super::{
    KindArg, MkfsArgs, Totals, Tree, fill, from_dir, identity, impossible, least, narrow, warn_of_full_disk,
    wipe_if_needed,
};
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::sizes::{Bytes, Count};
use clap::ValueEnum;
use firnfs::ffs::{MkfsOptions, Options, Variant};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, SystemClock};
use firnfs_format::TimeNs;
use firnfs_format::ffs::Tuning;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes of a cluster if no variant is asked for.
const CLUSTER_BYTES: u32 = 64 << 10;
/// Fragments of a block if no fragment size is asked for.
const FRAGS_PER_BLOCK: u32 = 8;

/// See [`Variant`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum VariantArg {
    /// Single blocks, two blocks of gap
    M1r2,
    /// Clusters of 64 KiB, two blocks of gap
    Efs,
    /// Clusters of 8 blocks, two blocks of gap
    M8r2,
    /// Clusters of 8 blocks, no gaps
    M8r0,
}

impl From<VariantArg> for Variant {
    fn from(arg: VariantArg) -> Self {
        match arg {
            VariantArg::M1r2 => Self::M1R2,
            VariantArg::Efs => Self::Efs,
            VariantArg::M8r2 => Self::M8R2,
            VariantArg::M8r0 => Self::M8R0,
        }
    }
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
    block_bytes: u32,
    frag_bytes: u32,
    copied: Option<Totals>,
}

/// Refuses options that only the other kind of volume has.
///
/// # Errors
/// Usage, naming the option.
pub fn refuse_options_of_others(args: &MkfsArgs) -> Done {
    let (others, needed): (&[(&str, bool)], _) = match args.kind {
        KindArg::Log => (
            &[
                ("--frag-size", args.frag_size.is_some()),
                ("--variant", args.variant.is_some()),
                ("--minfree", args.minfree.is_some()),
                ("--realloc", args.realloc),
                ("--no-switch", args.no_switch),
                ("--smart-frag", args.smart_frag),
            ],
            "ffs",
        ),
        KindArg::Ffs => (
            &[
                ("--segment-size", args.segment_size.is_some()),
                ("--inline-max", args.inline_max.is_some()),
                ("--data-logs", args.data_logs.is_some()),
                ("--history", args.history.is_some()),
            ],
            "log",
        ),
    };
    match others.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::usage(format!("{option} needs --type {needed}"))),
        None => Ok(()),
    }
}

/// Makes the volume.
///
/// # Errors
/// As `firn mkfs`.
pub fn run(args: &MkfsArgs, plan: MkfsPlan, output: &mut Output) -> Done {
    let options = options(args, &plan)?;
    least::check_fast(&options)?;
    let tree = args.from_dir.as_ref().map(|tree| look_at_first(tree, &plan)).transpose()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::sets(&interrupted)?;
    let device = plan.open()?;
    let make = || -> Done<Option<Totals>> {
        wipe_if_needed(&plan, &device)
            .map_err(|e| Failure::failed(format!("cannot wipe the existing content: {e}")))?;
        firnfs_manage::format_ffs(&device, &options).map_err(|e| impossible(&e))?;
        let Some(tree) = tree else { return Ok(None) };
        let volume = crate::volume::open_fast(Arc::new(device), Options::default(), AtimeMode::Noatime)?;
        // Making one in memory, to know this before, would take as much memory as all its groups.
        let room = Room::of(&volume)?;
        if room.admit(&tree.survey, tree.path).is_err() {
            room.admit(&look_at(tree.path, &plan, from_dir::Measure::Data)?.survey, tree.path)
                .map_err(|failure| failure.advise("make the volume larger (--size)"))?;
        }
        let filled = fill(&plan, &volume, &tree, &interrupted);
        let closed = volume.close().map_err(|e| Failure::fs("cannot close the volume", &e));
        filled.and_then(|totals| closed.map(|()| Some(totals)))
    };
    let copied = make().inspect_err(|_| plan.remove_new())?;
    warn_of_full_disk(&plan);
    let made = Made {
        image: plan.path,
        kind: "ffs",
        uuid: crate::dump::views::uuid_text(&options.uuid),
        label: options.label,
        size_bytes: options.size_bytes,
        block_bytes: options.block_bytes,
        frag_bytes: options.frag_bytes,
        copied,
    };
    output.show(args.json, &made, |out| describe(out, &made))
}

/// Counts the tree: inodes have space of their own.
fn look_at<'a>(path: &'a Path, plan: &MkfsPlan, measure: from_dir::Measure) -> Done<Tree<'a>> {
    from_dir::survey(path, plan.source_id(), (0, 0), measure).map(|survey| Tree { path, survey })
}

/// The same before anything is made: refuses the tree if the disk beneath cannot take it.
fn look_at_first<'a>(path: &'a Path, plan: &MkfsPlan) -> Done<Tree<'a>> {
    let quick = look_at(path, plan, from_dir::Measure::Allocated)?;
    if fit::admit_to_disk(&quick.survey, path, &plan.path).is_ok() {
        return Ok(quick);
    }
    let tree = look_at(path, plan, from_dir::Measure::Data)?;
    fit::admit_to_disk(&tree.survey, path, &plan.path).map(|()| tree)
}

fn options(args: &MkfsArgs, plan: &MkfsPlan) -> Done<MkfsOptions> {
    let (uuid, hash_key) = identity()?;
    let block_bytes = narrow(args.block_size, "--block-size")?;
    let frag_bytes = match args.frag_size {
        Some(bytes) => narrow(bytes, "--frag-size")?,
        None => (block_bytes / FRAGS_PER_BLOCK).max(512),
    };
    let usual = MkfsOptions::with_size(plan.size_bytes);
    let tuning = match args.variant {
        Some(variant) => Variant::from(variant).tuning(block_bytes),
        None => Tuning {
            maxcontig: (CLUSTER_BYTES / block_bytes.max(1)).max(1),
            max_blocks_per_group: block_bytes / 4,
            ..usual.tuning
        },
    };
    Ok(MkfsOptions {
        block_bytes,
        frag_bytes,
        tuning: Tuning {
            minfree_percent: args.minfree.unwrap_or(tuning.minfree_percent),
            reallocates: args.realloc,
            no_switch: args.no_switch,
            smart_frag: args.smart_frag,
            ..tuning
        },
        label: args.label.clone(),
        uuid,
        hash_key,
        now: TimeNs(SystemClock.now_ns()),
        root_owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
        ..usual
    })
}

fn describe(out: &mut dyn std::io::Write, made: &Made) -> std::io::Result<()> {
    let label = if made.label.is_empty() { String::new() } else { format!(" \"{}\"", made.label) };
    writeln!(
        out,
        "{}: a Fast File System{label} of {}, blocks of {}, fragments of {}\n  uuid {}",
        made.image.display(),
        Bytes(made.size_bytes),
        Bytes(made.block_bytes.into()),
        Bytes(made.frag_bytes.into()),
        made.uuid
    )?;
    match &made.copied {
        Some(copied) => {
            let files = Count(copied.files).of("file", "files");
            writeln!(out, "copied {files} with {}", Bytes(copied.content_bytes))
        }
        None => Ok(()),
    }
}
