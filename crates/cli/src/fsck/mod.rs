//! `firn fsck`: checks a volume that is not mounted, and repairs it if asked. The check itself is `firnfs::check`.
//!
//! Exit codes are those of fsck(8), not those of the other commands.
//!
//! `view` is the output, with the files that lost content (`lost`). `repair` is `--repair`, `salvage` is `--salvage`, `fast`
//! checks a Fast File System.

mod fast;
mod lost;
mod repair;
mod salvage;
mod view;

use crate::args::size;
use crate::failure::{Done, Exit, Failure};
use crate::mkfs::open_failed;
use crate::output::Output;
use crate::progress::Bar;
use crate::target::{self, Target, mount_of_image};
use crate::tell::tell_failure;
use clap::{ArgGroup, Args};
use firnfs::FsError;
use firnfs::check::{CheckError, From, Progress, Report};
use firnfs::lfs::NotFirnfs;
use firnfs_device::{Access, Device, FileDevice, FileOptions, Lock, ReadOnlyDevice};
use firnfs_fuse::mount;
use firnfs_manage::{VolumeKind, kind_of};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use view::{CheckView, FsckView};

/// How long to wait for a daemon that is closing the volume.
const LOCK_WAIT_MS: u64 = 10_000;

/// fsck(8): errors were corrected.
const CORRECTED: u8 = 1;
/// fsck(8): errors were left uncorrected.
const UNCORRECTED: u8 = 4;
/// fsck(8): operational error.
const OPERATIONAL: u8 = 8;
/// fsck(8): usage or syntax error.
pub const USAGE: u8 = 16;

/// Arguments of `firn fsck`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("writes").args(["repair", "salvage"])), after_help = "Examples:
  firn fsck disk.img                     check; nothing is written
  firn fsck disk.img --all-checkpoints   check the state of each of the two checkpoints
  firn fsck disk.img --all-points        check each snapshot as a volume of its own, too
  firn fsck disk.img --repair            repair what is wrong, asking about each finding
  firn fsck disk.img --repair -y         without asking
  firn fsck disk.img --repair --zero-lost -y
                                         and fill lost data with zeros
  firn fsck disk.img --salvage new.img   rebuild the volume from its log, in a new image
  firn fsck /dev/sdb1 --json             for scripts

Reads everything that is live and verifies every checksum. What only
snapshots hold is read as well. --all-points goes through each snapshot as
somebody who looks into it does: names, counts, and every block where it is now.
A volume that was not unmounted is checked as a mount would see it. A repair
gives files and trees that have lost their names new ones in lost+found; it can
be interrupted and run again. A sound volume is never written to.

If the content of a file cannot be read, reading that part fails with EIO, after
a repair as before: programs do not take zeros for data. The summary names these
files. Copy them from a backup, remove them, write the lost parts anew, or use
--zero-lost.

A snapshot, automatic state or clone that cannot be read completely stays, and
reading the damaged part of it fails, unless you agree to its deletion or give
--drop-states. While one stays, damage that makes the accounts wrong does, too.

--salvage needs neither superblocks nor checkpoints nor tables. It only reads IMAGE.
The new image has the newest files, and no states of the past; what of those can
still be read in IMAGE is listed at the end: none if all superblocks are gone.
If it fails or is stopped, it removes the new image.

Exit codes, as of fsck(8):
  0   no errors
  1   errors, all repaired
  4   errors left, lost data without --zero-lost and damaged states without
      --drop-states too (5: others were repaired)
  8   the check could not be done: in use, no volume, I/O
  16  the command line is invalid
  130 a salvage was stopped by Ctrl-C (143: by SIGTERM)")]
pub struct FsckArgs {
    /// Image file or block device; not mounted
    pub image: PathBuf,
    /// Check the state of each retained checkpoint, not only of the newest
    #[arg(long)]
    pub all_checkpoints: bool,
    /// Check each snapshot and automatic state as a volume of its own, too
    #[arg(long, conflicts_with_all = ["all_checkpoints", "repair", "salvage", "at_boot"])]
    pub all_points: bool,
    /// Repair the errors that can be repaired
    #[arg(long, conflicts_with = "all_checkpoints")]
    pub repair: bool,
    /// Do not ask: repair everything that costs no data
    #[arg(short, long, requires = "repair")]
    pub yes: bool,
    /// Fill file content that cannot be read with zeros, so that reading it no longer fails
    #[arg(long, requires = "writes")]
    pub zero_lost: bool,
    /// Delete states of the past and clones that cannot be read completely
    #[arg(long, requires = "repair")]
    pub drop_states: bool,
    /// Rebuild the volume in this new image from its segment summaries alone
    #[arg(long, value_name = "OUT", conflicts_with_all = ["all_checkpoints", "repair"])]
    pub salvage: Option<PathBuf>,
    /// Segment size, if no superblock is left [default: as found in the log]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "salvage")]
    pub segment_size: Option<u64>,
    /// Block size, if no superblock is left [default: as found in the log]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "salvage")]
    pub block_size: Option<u64>,
    /// For boot scripts (fsck.firnfs -a): check nothing, because a mount recovers by itself
    #[arg(long, conflicts_with_all = ["repair", "salvage", "all_checkpoints"])]
    pub at_boot: bool,
    /// With --at-boot: check nevertheless
    #[arg(long)]
    pub full: bool,
    /// For fsck(8): check nothing if the volume is mounted
    #[arg(long, hide = true)]
    pub unless_mounted: bool,
    /// Print JSON for programs; a repair then needs --yes
    #[arg(long)]
    pub json: bool,
}

impl FsckArgs {
    /// True if damaged states stay without a question.
    fn leaves_states(&self) -> bool {
        self.yes && !self.drop_states
    }
}

/// Runs the command; its exit code.
pub fn run(args: &FsckArgs, output: &mut Output) -> ExitCode {
    if args.unless_mounted && matches!(mount_of_image(&args.image), Ok(Some(_))) {
        return ExitCode::SUCCESS;
    }
    if args.at_boot && !args.full {
        return leave_to_mount(args, output).unwrap_or_else(|failure| fail(&failure));
    }
    match is_fast(args) {
        Ok(true) => return fast::run(args, output).unwrap_or_else(|failure| fail(&failure)),
        Ok(false) => {}
        Err(failure) => return fail(&failure),
    }
    match fsck(args) {
        Ok(view) => match output.show(args.json, &view, |out| describe(out, &view)) {
            Ok(()) => ExitCode::from(view.exit),
            Err(failure) => fail(&failure),
        },
        Err(failure) => fail(&failure),
    }
}

/// For boot scripts: only looks whether there is something to mount.
fn leave_to_mount(args: &FsckArgs, output: &mut Output) -> Done<ExitCode> {
    std::fs::File::open(&args.image).map_err(|e| Failure::io("cannot open", &args.image, &e))?;
    output.text(|out| {
        writeln!(
            out,
            "{}: not checked: a mount recovers by itself. 'firn fsck' checks.",
            args.image.display()
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the volume is a Fast File System. A salvage wants a log.
fn is_fast(args: &FsckArgs) -> Done<bool> {
    if args.salvage.is_some() {
        return Ok(false);
    }
    refuse_mounted(&args.image)?;
    Ok(kind_of(&open(&args.image, Access::ReadOnly)?) == VolumeKind::Ffs)
}

fn fail(failure: &Failure) -> ExitCode {
    tell_failure(failure);
    ExitCode::from(if failure.exit == Exit::Usage { USAGE } else { OPERATIONAL })
}

fn fsck(args: &FsckArgs) -> Done<FsckView> {
    refuse_mounted(&args.image)?;
    if args.repair {
        return repair::run(args);
    }
    if let Some(out) = &args.salvage {
        return salvage::run(args, out);
    }
    let device = ReadOnlyDevice::new(open(&args.image, Access::ReadOnly)?);
    let slots: &[Option<usize>] = if args.all_checkpoints { &[Some(0), Some(1)] } else { &[None] };
    let mut checks = Vec::new();
    let mut lost = Vec::new();
    let mut failure = None;
    for slot in slots {
        match check(&device, args, *slot) {
            Ok(report) => {
                // Of two checkpoints, the older one is a state of the past.
                if checks.iter().all(|check: &CheckView| check.epoch < report.epoch) {
                    lost = lost::of_check(&report);
                }
                checks.push(CheckView::new(&report, *slot));
            }
            Err(why) => failure = Some(why),
        }
    }
    // A slot that a crash tore is reported as a note in the check of the other one.
    if let Some(why) = failure.filter(|_| checks.is_empty()) {
        return Err(why);
    }
    let exit = if checks.iter().all(|check| check.sound) { 0 } else { UNCORRECTED };
    Ok(FsckView { image: args.image.clone(), checks, repairs: Vec::new(), lost, past: None, exit })
}

fn describe(out: &mut dyn std::io::Write, view: &FsckView) -> std::io::Result<()> {
    let image = view.image.display().to_string();
    view.repairs.iter().try_for_each(|repair| repair.describe(out))?;
    view.checks.iter().try_for_each(|check| check.describe(out, &image))?;
    let findings = view.checks.iter().flat_map(|check| &check.findings);
    let can_repair = findings.filter(|finding| finding.is_repairable()).count() > 0;
    if can_repair && view.repairs.is_empty() {
        writeln!(out, "Nothing was changed. 'firn fsck --repair {image}' repairs what can be repaired.")?;
    }
    lost::describe(out, &view.lost, &image)?;
    if view.checks.iter().any(CheckView::has_damaged_states) {
        writeln!(out, "A state of the past or a clone is damaged. What can be read of it stays;")?;
        writeln!(out, "'firn fsck --repair --drop-states {image}' deletes it.")?;
    }
    view.past.iter().try_for_each(|past| past.describe(out))
}

/// Refuses a mounted volume; the lock would refuse too, but without saying where it is mounted. Its directory is refused, too.
fn refuse_mounted(image: &Path) -> Done {
    if let (true, Ok(Target::Mounted(mount))) = (image.is_dir(), target::resolve(image)) {
        let (source, place) = (mount.source.display(), mount.mountpoint.display());
        let message = format!("{} is on a mounted volume, not an image or a device", image.display());
        let advice = format!(
            "'firn scrub {place}' checks it while it is mounted; after 'firn umount {place}', 'firn fsck {source}' does"
        );
        return Err(Failure::new(Exit::Refused, message).advise(advice));
    }
    let failed = |e: std::io::Error| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e);
    match mount_of_image(image).map_err(failed)? {
        Some(mounted) if !mount::is_dead(&mounted.mountpoint) => {
            let place = mounted.mountpoint.display();
            let message = format!("{} is mounted on {place}", image.display());
            Err(Failure::new(Exit::Refused, message).advise(format!(
                "unmount it first: firn umount {place}; 'firn scrub {place}' checks it while it is mounted"
            )))
        }
        _ => Ok(()),
    }
}

fn open(image: &Path, access: Access) -> Done<FileDevice> {
    let lock = if access == Access::ReadOnly { Lock::Shared } else { Lock::Exclusive };
    let options = FileOptions { access, lock, lock_wait_ms: LOCK_WAIT_MS, ..FileOptions::default() };
    FileDevice::open(image, &options).map_err(|e| open_failed(&e))
}

/// One check, with a progress bar.
fn check(device: &dyn Device, args: &FsckArgs, slot: Option<usize>) -> Done<Report> {
    let from = slot.map_or(From::Newest, From::Slot);
    let (mut bar, mut counts_points) = (Bar::of_bytes(), false);
    let mut watch = |progress: Progress| {
        if counts_points != progress.points.is_some() {
            counts_points = !counts_points;
            bar = if counts_points { Bar::of_steps() } else { Bar::of_bytes() };
        }
        match progress.points {
            Some((done, all)) => bar.show(done, all, "states of the past"),
            None => show(&bar, progress),
        }
    };
    let report = match args.all_points {
        true => firnfs_manage::check_all_points(device, &mut watch),
        false => firnfs_manage::check(device, from, &mut watch),
    };
    drop(bar);
    report.map_err(|e| impossible(&args.image, &e))
}

fn show(bar: &Bar, progress: Progress) {
    bar.show(progress.done_bytes, progress.total_bytes, format_args!("phase {} of 5", progress.phase));
}

/// Why there is nothing to check, and what the user can do about it.
fn impossible(image: &Path, error: &CheckError) -> Failure {
    let failure = Failure::new(Exit::NotAVolume, format!("{}: {error}", image.display()));
    match error {
        CheckError::NotFirnfs(NotFirnfs::NoSuperblock(_)) => {
            failure.advise("check the path; if it was a firnfs volume, try --salvage")
        }
        CheckError::NotFirnfs(NotFirnfs::Version(_)) => failure.advise("use a firn that knows this version"),
        CheckError::NotFirnfs(NotFirnfs::Truncated { .. }) => {
            failure.advise("copy it again from an intact source, or try --salvage")
        }
        CheckError::Fs(FsError::Corrupt { .. }) => failure.advise("try --salvage"),
        CheckError::NotFirnfs(NotFirnfs::Io(_)) | CheckError::Fs(_) => failure,
    }
}
