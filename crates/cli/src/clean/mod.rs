//! `firn clean`: a cleaner outside the daemon (BSD-LFS, section 3.5). It decides with the policies of the file system and of
//! `firn sim cleaning`; the daemon checks and moves.
//!
//! `cleaner` does the work; this file decides when to stop, and reports the result. Several cleaners may run on one mount at
//! once. `coalesce` is the other service: it puts files in order, whichever segments they are in.

mod cleaner;
mod coalesce;

use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::port::wire::Room;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use clap::{ArgGroup, Args};
use cleaner::{Cleaner, Pass};
use firnfs::clean::Policy;
use firnfs::clean::names::{AGE_THRESHOLD, AGELESS_POLICIES};
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use firnfs_fuse::mount::table::{Mount, firnfs_mounts};
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Passes that moved nothing after which there is nothing left to clean.
const IDLE_PASSES: u32 = 3;
/// Passes without a further clean segment after which more of them would only rewrite the log. A pass over segments that are
/// 97% live frees half a segment: some passes in a row may gain nothing although the next one does. Where users write as much as
/// passes clean, these gain nothing either.
const FRUITLESS_PASSES: u32 = 8;
/// Pause after a pass without progress: writes and checkpoints may be under way.
const PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `firn clean`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("goal"), after_help = format!("\
Policies: {AGELESS_POLICIES}, {AGE_THRESHOLD}

Examples:
  firn clean /mnt                                as far as cleaning gains clean segments
  firn clean /mnt --stay                         and again after writes, until the unmount
  firn clean /mnt --until 200 --policy greedy    until 200 segments are clean
  firn clean /mnt --segments 50                  50 segments
  firn clean /mnt --once --json                  one pass, for scripts
  firn clean /mnt/db --coalesce                  put the files below /mnt/db in order, for sequential reads

Without a goal, and with every goal that cannot be reached, it ends when passes gain no clean segments any more.
--stay waits for writes instead and keeps segments clean, twice as many as the daemon's own limit, below which the daemon
cleans by itself; the unmount ends it. Ctrl-C stops this command at any point: it says what it did, with exit code 130. Killing it is safe, too: the daemon
checks every request. Segments can be clean only as far as files leave space: --until refuses a number
that cannot be reached, and says which surely can. Exit code 1 means that --until or --segments could not be reached."))]
pub struct CleanArgs {
    /// Any path on the mount
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// How the segments to clean are chosen
    #[arg(long, default_value_t = Policy::default(), add = values::policies())]
    pub policy: Policy,
    /// Clean N segments
    #[arg(long, value_name = "N", group = "goal", value_parser = clap::value_parser!(u64).range(1..))]
    pub segments: Option<u64>,
    /// Clean until N segments are clean
    #[arg(long, value_name = "N", group = "goal", value_parser = clap::value_parser!(u64).range(1..))]
    pub until: Option<u64>,
    /// Make one pass, over as many segments as the daemon moves at once
    #[arg(long, group = "goal")]
    pub once: bool,
    /// Stay until the unmount: wait for writes, and clean again
    #[arg(long, group = "goal")]
    pub stay: bool,
    /// Rewrite scattered files below PATH in order, instead of cleaning segments (an idle mount does so by itself for files
    /// that have not changed for a minute)
    #[arg(long, group = "goal", conflicts_with = "policy")]
    pub coalesce: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
struct Summary {
    /// The policy, as on the command line.
    policy: String,
    /// Passes with progress.
    passes: u64,
    #[serde(flatten)]
    total: Pass,
    /// How much room there is now; null if the volume was unmounted.
    #[serde(serialize_with = "room_view")]
    room: Option<Room>,
    /// Ctrl-C or SIGTERM ended it.
    stopped: bool,
}

/// The room in the words of the other commands; the words of the port are older.
#[derive(Serialize)]
struct RoomView {
    /// Bytes written to the log since mkfs.
    log_bytes: u64,
    /// Segments of the volume.
    segments: u64,
    /// Clean segments.
    segments_clean: u64,
    /// Those of them that can be written now; the others wait for a checkpoint.
    segments_ready: u64,
    /// The daemon cleans by itself below this many.
    segments_low: u64,
}

fn room_view<S: Serializer>(room: &Option<Room>, serializer: S) -> Result<S::Ok, S::Error> {
    let view = room.map(|Room { log_bytes, segments, clean, ready, low }| RoomView {
        log_bytes,
        segments,
        segments_clean: clean,
        segments_ready: ready,
        segments_low: low,
    });
    view.serialize(serializer)
}

/// When to stop.
enum Goal {
    Segments(u64),
    Until(u64),
    Once,
    /// When passes gain nothing more.
    Gain,
    /// At the unmount.
    Unmount,
}

/// Runs the command.
///
/// # Errors
/// Not a mount, a volume without a log, or a goal that cannot be reached.
pub fn run(args: &CleanArgs, output: &mut Output) -> Done<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    if args.coalesce {
        return coalesce::run(&args.path, args.json, &stop, output);
    }
    let (client, mount) = Client::for_path(&args.path).map_err(|e| failure_of(&e))?;
    let goal = match (args.segments, args.until) {
        (Some(count), _) => Goal::Segments(count),
        (_, Some(clean)) => Goal::Until(clean),
        _ if args.once => Goal::Once,
        _ if args.stay => Goal::Unmount,
        _ => Goal::Gain,
    };
    let mut cleaner = Cleaner::new(client, args.policy);
    if let Goal::Until(wanted) = goal {
        refuse_unreachable(&mut cleaner, wanted)?;
    }
    let mut summary = Summary {
        policy: args.policy.to_string(),
        passes: 0,
        total: Pass::default(),
        room: None,
        stopped: false,
    };
    let bar = match goal {
        Goal::Segments(_) | Goal::Until(_) => Bar::of_steps(),
        Goal::Once | Goal::Gain | Goal::Unmount => Bar::endless(),
    };
    let cleaned = clean(&mut cleaner, &goal, &mut summary, &bar, &stop);
    drop(bar);
    match cleaned {
        // The daemon has said, or the mount table shows, that the volume is unmounted: the cleaner's work is over.
        Err(error) if matches!(goal, Goal::Unmount) && (is_closing(&error) || !is_mounted(&mount)) => {
            summary.room = None;
        }
        other => other.map_err(|e| failure_of(&e))?,
    }
    output.show(args.json, &summary, |out| {
        let total = &summary.total;
        let cleaned = Count(total.segments_cleaned).of("segment", "segments");
        writeln!(out, "{cleaned} cleaned with {}", summary.policy)?;
        let moved = Count(total.moved_blocks).of("block", "blocks");
        writeln!(out, "{moved} moved, {}", Bytes(total.moved_bytes))?;
        match summary.room {
            Some(room) => {
                let (clean, all) = (Count(room.clean), Count(room.segments).of("segment", "segments"));
                let why = match goal {
                    _ if summary.stopped => "; stopped",
                    Goal::Gain => "; further passes gain nothing",
                    _ => "",
                };
                writeln!(out, "{clean} of {all} are clean{why}")
            }
            None => Ok(()),
        }
    })?;
    if summary.stopped {
        return Ok(ExitCode::from(interrupt::exit() as u8));
    }
    let short = match (goal, summary.room) {
        (Goal::Until(wanted), Some(room)) if room.clean < wanted => {
            Count(room.clean).of("segment is clean", "segments are clean")
        }
        (Goal::Segments(wanted), _) if summary.total.segments_cleaned < wanted => {
            Count(summary.total.segments_cleaned).of("segment was cleaned", "segments were cleaned")
        }
        _ => return Ok(ExitCode::SUCCESS),
    };
    Err(Failure::failed(format!("only {short}, and further passes gain nothing"))
        .advise("ask for fewer, delete some files, or wait until less is written"))
}

fn clean(
    cleaner: &mut Cleaner,
    goal: &Goal,
    summary: &mut Summary,
    bar: &Bar,
    stop: &AtomicBool,
) -> Result<(), ClientError> {
    let mut gain = Gain::default();
    loop {
        let at_most = match goal {
            Goal::Segments(count) => count.saturating_sub(summary.total.segments_cleaned),
            _ => u64::MAX,
        };
        let room = cleaner.room()?;
        summary.room = Some(room);
        show(bar, goal, summary, room);
        if stop.load(Ordering::SeqCst) {
            summary.stopped = true;
            return Ok(());
        }
        let is_reached = match goal {
            Goal::Until(clean) => room.clean >= *clean,
            Goal::Segments(_) => at_most == 0,
            Goal::Once => summary.passes > 0 || gain.idle_passes > 0,
            Goal::Gain => false,
            Goal::Unmount => room.clean >= 2 * room.low,
        };
        gain.look(room.clean);
        match goal {
            Goal::Unmount if is_reached || gain.is_over() || gain.idle_passes > 0 => {
                cleaner.wait(room, stop)?;
                gain = Gain::default();
                continue;
            }
            _ if is_reached || gain.is_over() => return Ok(()),
            _ if gain.idle_passes > 0 => std::thread::sleep(PAUSE),
            _ => {}
        }
        let pass = cleaner.pass(at_most)?;
        summary.passes += u64::from(!pass.is_idle());
        summary.total += pass;
        gain.count(&pass);
    }
}

/// Whether passes still gain clean segments.
#[derive(Default)]
struct Gain {
    /// Most segments that were clean so far.
    most_clean: u64,
    /// Passes since there were more than ever before.
    fruitless_passes: u32,
    /// Passes in a row that moved nothing.
    idle_passes: u32,
}

impl Gain {
    /// Before each pass: that many are clean.
    fn look(&mut self, clean: u64) {
        if clean > self.most_clean {
            (self.most_clean, self.fruitless_passes) = (clean, 0);
        }
    }

    fn count(&mut self, pass: &Pass) {
        self.fruitless_passes += 1;
        self.idle_passes = if pass.is_idle() { self.idle_passes + 1 } else { 0 };
    }

    fn is_over(&self) -> bool {
        self.fruitless_passes >= FRUITLESS_PASSES || self.idle_passes >= IDLE_PASSES
    }
}

/// Refuses a number of clean segments that no cleaning can reach.
fn refuse_unreachable(cleaner: &mut Cleaner, wanted: u64) -> Done {
    let reachable = cleaner.reachable().map_err(|e| failure_of(&e))?;
    let room = cleaner.room().map_err(|e| failure_of(&e))?;
    if wanted <= reachable.at_most.max(room.clean) {
        return Ok(());
    }
    let message = format!(
        "--until {wanted}: at least {} of the {} segments can be clean, but not that many; {} are now",
        Count(reachable.surely.max(room.clean)),
        Count(room.segments),
        Count(room.clean)
    );
    Err(Failure::failed(message).advise("ask for fewer, or delete some files"))
}

/// Whether the daemon says that the volume is being closed. Its socket may still be there then.
fn is_closing(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refused) if refused.kind == ErrorKind::Closing)
}

/// Whether the mount still exists and its daemon is alive. Another mount may have its device number by now, and with that its socket's name.
fn is_mounted(mount: &Mount) -> bool {
    let is_it = |other: &Mount| {
        (other.device, &other.mountpoint, &other.source) == (mount.device, &mount.mountpoint, &mount.source)
    };
    let is_listed = firnfs_mounts().map_or(true, |mounts| mounts.iter().any(is_it));
    is_listed && Client::for_mount(mount).is_ok()
}

fn show(bar: &Bar, goal: &Goal, summary: &Summary, room: Room) {
    let cleaned = summary.total.segments_cleaned;
    let moved = Bytes(summary.total.moved_bytes);
    let rate = bar.rate(summary.total.moved_bytes);
    let message =
        format!("{cleaned} emptied, {moved} moved ({rate}), {} of {} clean", room.clean, room.segments);
    match goal {
        Goal::Segments(count) => bar.show(cleaned, *count, message),
        Goal::Until(count) => bar.show(room.clean, *count, message),
        Goal::Once | Goal::Gain => bar.tell(message),
        Goal::Unmount => bar.tell(format_args!("{message}; until the unmount, or Ctrl-C")),
    }
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string()),
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => {
            Failure::new(Exit::Refused, "this volume has no log to clean")
                .advise("only log-structured volumes on a device have one; if this is one, mount it with this version of firn")
        }
        _ => Failure::failed(error.to_string()),
    }
}
