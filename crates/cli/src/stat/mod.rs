//! `firn stat` and `firn df`: report the state of a volume, and of its log or groups, mounted or not.
//!
//! `view` is what both show, as data; `text` and `df_text` format it for people. `cleaning` is the cost of cleaning,
//! `cleaning_text` formats it; `lock` is the volume's one lock, for `--requests`; `fast` is what is special to a Fast File
//! System.

pub mod cleaning;
#[cfg(test)]
mod cleaning_tests;
pub mod cleaning_text;
mod df_text;
pub mod fast;
mod lock;
pub mod text;
pub mod view;

use crate::beneath::{self, Beneath};
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::freeze::service::{FREEZE_STATUS_OP, FreezeView};
use crate::metrics::Snapshot;
use crate::output::{Output, terminal_columns};
use crate::scrub::service::STATUS_OP;
use crate::scrub::view::{AfterCrashView, EndedView, ScrubView, StatusView};
use crate::socket;
use crate::target::{self, Target};
use crate::tell::tell;
use crate::volume::{AnyVolume, open_any_read_only};
use clap::Args;
use cleaning::CleanedView;
use firnfs_fuse::control::{Client, ClientError, ErrorKind, OpError, Registry};
use firnfs_fuse::counters::RequestCount;
use firnfs_fuse::mount::table::{self, Mount};
use lock::{LockTimes, LockView};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::stdio::stdout;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Weak, mpsc};
use std::time::{Duration, Instant};
use view::{CONTROL_OP, Inspect, StatView};

/// How long `firn df` waits for the daemons of all mounts.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Arguments of `firn stat`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn stat /mnt              a mounted volume, from any path on it
  firn stat disk.img --json   an image, for scripts
  firn stat /mnt --cleaning   what cleaning costs, and what was written to the log
  firn stat /mnt --counters   also all counts since mkfs
  firn stat /mnt --openmetrics > /var/lib/node_exporter/firnfs.prom
                              for a textfile collector
  firn stat /mnt --requests   the requests that the kernel has sent since the mount

--cleaning: segments cleaned, the share of them that was empty and the utilisation of the others give the write cost: bytes
read and written for each byte of new data, 1 at best (Rosenblum and Ousterhout, 1992, tables 2 and 4).

A sparse image takes space only as it is written. If the disk that holds it has
less left than the image can grow by, stat and df say so.

Log besides moved data: what was written to the log, but for the blocks that the cleaner and coalescing moved. The metadata and
summaries that these moves caused are in it, as nothing counts them apart. Cost per new byte: what was written to the log and
read by the cleaner so far, for each byte of that. Cost per user byte: the same for each byte that users wrote; the metadata that commits and the
cleaner write counts as cost there. Three columns: since mkfs, since the mount, and the last minute, which is shorter after
a mount and longer after a rest.

durable: a power cut would lose no change older than the time shown; 'unwritten', or the size in brackets, is what the log or
the device has yet to take. Programs that need more call fsync; firn sync makes everything durable.

An image that is not mounted is opened read-only; after a crash, its log is rolled forward in
memory only.")]
pub struct StatArgs {
    /// Any path on a mount, an image file or a block device
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Show instead the requests that the kernel has sent since the mount
    #[arg(long)]
    pub requests: bool,
    /// Show instead what cleaning costs and what was written to the log
    #[arg(long, conflicts_with = "requests")]
    pub cleaning: bool,
    /// Show also all counters of the log since mkfs; JSON always has them
    #[arg(long, conflicts_with_all = ["requests", "cleaning", "openmetrics"])]
    pub counters: bool,
    /// Show instead everything as OpenMetrics, for the textfile collector of a node exporter
    #[arg(long, conflicts_with_all = ["requests", "cleaning", "json"])]
    pub openmetrics: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `firn df`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn df                     all mounted volumes
  firn df /mnt disk.img       only these two
  firn df -v /mnt             where all of its bytes are

size, used and free are what df(1) shows. The second line is what the volume has
beside them, and never gives to files: room that makes cleaning pay, metadata (summaries
of the log and indirect blocks), a reserve for checkpoints and the cleaner, and what is fixed
outside the log. So size and withheld add up to the volume. A volume
without free space still has all of that: writes fail with ENOSPC although segments
are clean, and only deleting files or a larger volume (firn resize) helps. A third line
appears only if the volume is full, or if the disk beneath the image will be.

With -v, where all bytes of the volume are: live; held by states of the past; reclaimable
by cleaning now; pinned (in segments that a log is writing or a reader uses, or that are
empty but wait for checkpoints); clean; in reserve; fixed (superblocks, checkpoints, unused
ends). Then what is withheld, in the words of the second line, and whether the past gives way to files.

A path that is too long for the terminal is cut at its beginning; -v shows it whole.")]
pub struct DfArgs {
    /// Paths on mounts, image files or block devices [default: all mounted volumes]
    #[arg(add = values::mounts())]
    pub paths: Vec<PathBuf>,
    /// Where all bytes of a volume are
    #[arg(short, long)]
    pub verbose: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Where a volume was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Source {
    /// The image or device, or a word for a memory volume.
    pub image: PathBuf,
    /// Where a daemon serves it; null if it is not mounted.
    pub mountpoint: Option<PathBuf>,
}

/// A volume and its state.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Volume {
    /// Where it was found.
    #[serde(flatten)]
    pub source: Source,
    /// Its state.
    #[serde(flatten)]
    pub stat: StatView,
    /// How requests come from the kernel: `/dev/fuse` or `io_uring`; null if the volume is not mounted.
    pub transport: Option<String>,
    /// The state of the check after a crash; null if the mount did not follow one, and for a volume that is not mounted.
    pub check_after_crash: Option<AfterCrashView>,
    /// The last check since the mount that ended (of `firn scrub`, or after a crash); null if there was none.
    pub last_check: Option<LastCheckView>,
    /// Requests since the mount that failed with EIO, because of damage or the device; null if the volume is not mounted, and from a
    /// daemon of an older version.
    pub io_errors: Option<u64>,
    /// After how long a frozen volume thaws by itself, in milliseconds (`firn thaw` ends that at once); null if it is not frozen, and
    /// from a daemon of an older version.
    pub thaws_in_ms: Option<u64>,
    /// The disk beneath the image, if it may become full before the volume is.
    pub beneath: Option<Beneath>,
}

/// What `firn stat` needs of the daemon's `info`.
#[derive(Deserialize)]
struct Info {
    /// Absent from a daemon of an older version.
    transport: Option<String>,
    /// Absent from a daemon of an older version.
    io_errors: Option<u64>,
}

/// A check that ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LastCheckView {
    /// Whether there is no damage; null if it found none, but did not check everything.
    pub sound: Option<bool>,
    /// It checked everything.
    pub complete: bool,
    /// Paths of the damaged files, from the volume's root.
    pub damaged_paths: Vec<String>,
}

impl LastCheckView {
    /// `None` if the check could not be done.
    fn of(ended: EndedView) -> Option<Self> {
        let ScrubView { sound, complete, damaged_paths, .. } = ended.outcome.ok()?;
        Some(Self { sound, complete, damaged_paths })
    }
}

/// The output of `firn df`.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Volumes {
    volumes: Vec<Volume>,
}

/// The output of `firn stat --requests`.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Requests {
    #[serde(flatten)]
    source: Source,
    /// The kinds of requests that occurred, the longest in the daemon first.
    by_request: Vec<RequestView>,
    /// The one lock of the volume; null from a daemon of an older version.
    lock: Option<LockView>,
}

/// Requests of one kind since the mount.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RequestView {
    /// The kernel's name of the request, in lower case.
    pub request: String,
    /// Requests handled.
    pub requests: u64,
    /// Those answered with an error (ENOENT of a lookup does not count, nor ENODATA of getxattr; ENOSYS does).
    pub failed: u64,
    /// Time in the daemon, including waits for the device.
    pub busy_ms: f64,
    /// Time in the daemon that half of the requests did not exceed; null in `watch`, and from a daemon of an older version.
    pub p50_ms: Option<f64>,
    /// The same of 99 in 100.
    pub p99_ms: Option<f64>,
}

impl From<RequestCount> for RequestView {
    fn from(count: RequestCount) -> Self {
        let RequestCount { name, requests, errors, busy_ns, p50_ns, p99_ns } = count;
        let [p50_ms, p99_ms] = [p50_ns, p99_ns].map(|ns| ns.map(|ns| ns as f64 / 1e6));
        Self { request: name, requests, failed: errors, busy_ms: busy_ns as f64 / 1e6, p50_ms, p99_ms }
    }
}

/// The output of `firn stat --cleaning`.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Cleaning<'a> {
    #[serde(flatten)]
    source: &'a Source,
    /// Segments in use by utilisation: below 10%, below 20%, ... up to 100%.
    utilisation_histogram: &'a [u64; view::BUCKETS],
    #[serde(flatten)]
    cleaning: &'a cleaning::CleaningView,
}

/// Runs `firn stat`.
///
/// # Errors
/// The volume cannot be found or read.
pub fn stat(args: &StatArgs, output: &mut Output) -> Done {
    let target = target::resolve(&args.path)?;
    if args.requests {
        let Target::Mounted(mount) = target else {
            return Err(Failure::usage(format!("{} is not mounted", args.path.display()))
                .advise("--requests shows the requests to a mount"));
        };
        return requests(mount, args.json, output);
    }
    if args.openmetrics {
        return openmetrics(target, output);
    }
    let volume = look(target)?;
    if args.cleaning {
        return cleaning(&volume, args.json, output);
    }
    output.show(args.json, &volume, |out| {
        text::stat(out, &volume, terminal_columns(stdout()))?;
        let log = volume.stat.log.as_ref().filter(|_| args.counters);
        log.map_or(Ok(()), |log| text::counters(out, log))
    })
}

fn requests(mount: Mount, json: bool, output: &mut Output) -> Done {
    let counts: Vec<RequestCount> = ask(&mount, "requests")?;
    let mut by_request: Vec<RequestView> = counts.into_iter().map(Into::into).collect();
    by_request.sort_by(|a, b| b.busy_ms.total_cmp(&a.busy_ms));
    let lock = call::<LockTimes>(&mount, "lock").ok().map(LockView::from);
    let source = Source { image: mount.source, mountpoint: Some(mount.mountpoint) };
    let view = Requests { source, by_request, lock };
    output.show(json, &view, |out| {
        text::place(out, &view.source)?;
        text::requests(out, &view.by_request)?;
        view.lock.as_ref().map_or(Ok(()), |lock| lock.show(out))
    })
}

/// The same text as `firn mount -o metrics=` serves.
fn openmetrics(target: Target, output: &mut Output) -> Done {
    let requests = match &target {
        Target::Mounted(mount) => ask(mount, "requests")?,
        Target::Image(_) => Vec::new(),
    };
    let Volume { source, stat, thaws_in_ms, .. } = look(target)?;
    let (source, is_frozen) = (source.image.display().to_string(), thaws_in_ms.is_some());
    let text = Snapshot { source, stat, is_frozen, requests }.render();
    output.text(|out| out.write_all(text.as_bytes()))
}

fn cleaning(volume: &Volume, json: bool, output: &mut Output) -> Done {
    let log = volume.stat.log.as_ref();
    let Some((log, view)) = log.and_then(|log| Some((log, log.cleaning.as_ref()?))) else {
        return Err(Failure::new(
            Exit::Refused,
            "nothing is known about cleaning: the volume has no log (in memory, Fast File System), or its daemon is an older version",
        )
        .advise("name an image or device, or a mount made with this version of firn"));
    };
    let answer = Cleaning {
        source: &volume.source,
        utilisation_histogram: &log.utilisation_histogram,
        cleaning: view,
    };
    output.show(json, &answer, |out| {
        text::place(out, &volume.source)?;
        cleaning_text::cleaning(out, view)?;
        text::histogram(out, log)
    })
}

/// What a volume's log wrote since mkfs, and its cleaner; nothing without a log.
///
/// # Errors
/// The volume cannot be found or read.
pub fn cleaned_since_mkfs(path: &Path) -> Done<Option<CleanedView>> {
    let volume = look(target::resolve(path)?)?;
    Ok(volume.stat.log.and_then(|log| log.cleaning).map(|cleaning| cleaning.since_mkfs))
}

/// Runs `firn df`.
///
/// # Errors
/// A volume cannot be found or read.
pub fn df(args: &DfArgs, output: &mut Output) -> Done {
    let volumes = if args.paths.is_empty() {
        all_mounted()?
    } else {
        args.paths.iter().map(|path| target::resolve(path).and_then(look)).collect::<Done<Vec<_>>>()?
    };
    let view = Volumes { volumes };
    let columns = terminal_columns(stdout());
    output.show(args.json, &view, |out| df_text::df(out, &view.volumes, args.verbose, columns))
}

/// Every mounted volume that answers in time. A mount that does not (another user's, or one whose daemon has died or is stopped) must
/// not hide the others, nor hold them up.
fn all_mounted() -> Done<Vec<Volume>> {
    let mounts = table::firnfs_mounts()
        .map_err(|e| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e))?;
    // A state beside the present, or another bind mount, is no other volume; mounts of whole volumes come last.
    let devices: Vec<(u32, u32)> = mounts.iter().map(|mount| mount.device).collect();
    let is_last = |at: usize| !devices[at + 1..].contains(&devices[at]);
    let once = mounts.into_iter().enumerate().filter(|(at, _)| is_last(*at));
    // All are asked at once, so those that do not answer cost their time together. Nothing can end a thread that waits for one: the
    // program ends without it.
    let asked = once.map(|(_, mount)| {
        let (answers, answer) = mpsc::channel();
        let place = mount.mountpoint.clone();
        std::thread::spawn(move || {
            // Nobody may wait for it any more.
            let _ = answers.send(look(Target::Mounted(mount)));
        });
        (place, answer)
    });
    let asked: Vec<_> = asked.collect();
    let deadline = Instant::now() + ANSWER_MAX;
    let answered = asked.into_iter().filter_map(|(place, answer)| {
        let looked = answer.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        let looked = looked.unwrap_or_else(|_| Err(no_answer(&place)));
        looked.inspect_err(|failure| tell(format_args!("not shown: {failure}"))).ok()
    });
    Ok(answered.collect())
}

fn no_answer(mountpoint: &Path) -> Failure {
    let seconds = ANSWER_MAX.as_secs();
    Failure::failed(format!("{}: its daemon has not answered for {seconds} seconds", mountpoint.display()))
}

fn look(target: Target) -> Done<Volume> {
    match target {
        Target::Mounted(mount) => {
            let mut stat: StatView = ask(&mount, CONTROL_OP)?;
            if stat.read_only_reason.is_none() && is_read_only_in_kernel(&mount) {
                stat.read_only_reason = Some(text::REMOUNTED.to_owned());
            }
            let info: Info = ask(&mount, "info")?;
            let checks = checks(&mount)?;
            let (check_after_crash, ended) =
                checks.map_or((None, None), |view| (view.after_crash, view.ended));
            let freeze: Option<FreezeView> = ask_newer(&mount, FREEZE_STATUS_OP)?;
            let beneath = beneath::of(&mount.source);
            let source = Source { image: mount.source, mountpoint: Some(mount.mountpoint) };
            Ok(Volume {
                source,
                stat,
                transport: info.transport,
                check_after_crash,
                last_check: ended.and_then(LastCheckView::of),
                io_errors: info.io_errors,
                thaws_in_ms: freeze.and_then(|freeze| freeze.thaws_in_ms),
                beneath,
            })
        }
        Target::Image(image) => {
            let stat = match open_any_read_only(&image)? {
                AnyVolume::Log(volume) => StatView::of(&volume),
                AnyVolume::Ffs(volume) => StatView::of(&volume),
            };
            let stat = stat.map_err(|e| Failure::fs(format_args!("cannot read {}", image.display()), &e))?;
            let beneath = beneath::of(&image);
            let source = Source { image, mountpoint: None };
            let (transport, check_after_crash, last_check, io_errors, thaws_in_ms) = Default::default();
            Ok(Volume {
                source,
                stat,
                transport,
                check_after_crash,
                last_check,
                io_errors,
                thaws_in_ms,
                beneath,
            })
        }
    }
}

/// `None` also for a volume in memory and for a daemon of an older version, which do not check.
fn checks(mount: &Mount) -> Done<Option<StatusView>> {
    let answer: Option<serde_json::Value> = ask_newer(mount, STATUS_OP)?;
    Ok(answer.and_then(|answer| serde_json::from_value(answer).ok()))
}

/// `None` if the daemon does not know the operation.
fn ask_newer<T: DeserializeOwned>(mount: &Mount, op: &str) -> Done<Option<T>> {
    match call(mount, op) {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Refused(refused)) if refused.kind == ErrorKind::UnknownOp => Ok(None),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

/// Whether the kernel refuses changes, as after a remount; the daemon does not know that.
fn is_read_only_in_kernel(mount: &Mount) -> bool {
    statvfs(&mount.mountpoint).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn ask<T: DeserializeOwned>(mount: &Mount, op: &str) -> Done<T> {
    call(mount, op).map_err(|error| Failure::failed(error.to_string()))
}

fn call<T: DeserializeOwned>(mount: &Mount, op: &str) -> Result<T, ClientError> {
    Client::for_mount(mount)?.ask(op, serde_json::json!({}))
}

/// Registers the operations for `firn stat` and `firn df`. The volume is held weakly: it must close after the unmount.
pub fn register<S: Inspect + 'static>(registry: &mut Registry, volume: Weak<firnfs_volume::Volume<S>>) {
    registry.register(CONTROL_OP, "space and log, as firn stat shows them", move |_| {
        let volume = socket::open(&volume)?;
        socket::answer(&StatView::of(&volume).map_err(|e| OpError::from(&e))?)
    });
}
