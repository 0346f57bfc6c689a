//! `firn mount`'s options: those of the command line and those of `-o`, which fstab(5) uses, resolved into one struct.

use super::{bounds, past, thresholds};
use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::metrics::parse_address;
use crate::record::{absolute, checked_part_bytes};
use crate::sizes::parse_size;
use crate::tune::LABEL_IS;
use clap::Args;
use firnfs::clean::names::{AGE_THRESHOLD, AGELESS_POLICIES, PLACEMENTS};
use firnfs::clean::{PlacementName, Policy};
use firnfs::lfs::Thresholds;
use firnfs::vfs::AtimeMode;
use firnfs_fuse::{MountOptions, RecordPlan, Settings, TransportChoice, default_threads};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Default of `--cache`, in bytes.
const DEFAULT_CACHE_BYTES: u64 = 256 << 20;
/// Default of `--commit-interval`, in milliseconds.
const DEFAULT_COMMIT_INTERVAL_MS: u64 = 5000;
/// Default of `--checkpoint-interval`, in milliseconds.
const DEFAULT_CHECKPOINT_INTERVAL_MS: u64 = 30_000;
/// Default of `--checkpoint-bytes`.
const DEFAULT_CHECKPOINT_BYTES: u64 = 256 << 20;
/// Default of `--coalesce-after`, in milliseconds.
const DEFAULT_COALESCE_AGE_MS: u64 = 60_000;
/// Default of `--idle-after`, in milliseconds.
const DEFAULT_IDLE_AFTER_MS: u64 = 2_000;
/// Words for `--rotational`.
const ROTATIONAL_WORDS: [(&str, Option<bool>); 3] =
    [("auto", None), ("yes", Some(true)), ("no", Some(false))];
/// Options of firnfs that have a value; those of the cleaner's marks have one, too.
const WITH_VALUE: [&str; 13] = [
    "cache",
    "threads",
    "commit",
    "checkpoint",
    "checkpoint_bytes",
    "cleaning_policy",
    "placement",
    "coalesce",
    "idle_after",
    "idle_rate",
    "rotational",
    "transport",
    "metrics",
];
/// Those that need none.
const WITHOUT_VALUE: [&str; 4] = ["nocoalesce", "discard", "nodiscard", "writeback"];
/// Most worker threads; more would be useless.
const MAX_THREADS: usize = 256;

/// Arguments of `firn mount`.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "firn mount [OPTIONS] <IMAGE> <MOUNTPOINT>\n       firn mount [OPTIONS] --memory <SIZE> <MOUNTPOINT>\n       firn mount -o remount,<OPTIONS> [IMAGE] <MOUNTPOINT>",
    after_help = format!("Examples:
  firn mount disk.img /mnt              an image file
  firn mount /dev/sdb1 /mnt -o noatime  a block device
  firn mount disk.img@before-upgrade /past
                                        as a snapshot has it, read-only
  firn mount --memory 2G /mnt           a volume in memory, gone after the unmount
  firn mount -v disk.img /mnt --checkpoint-bytes 32M
                                        recover quickly, and report what was recovered
  firn mount -o remount,ro /mnt         no more changes, without an unmount
  firn mount disk.img /mnt --record day.fwl
                                        record what programs ask of it
  firn mount disk.img /mnt --cleaning-policy greedy --placement split
                                        clean as Sprite LFS did

It goes to the background once the volume is served, and ends when the volume is unmounted by firn umount, umount(8),
fusermount3 -u, SIGINT or SIGTERM. In the foreground these two are the usual end: once the volume is unmounted and closed,
the exit code is 0, not 130 or 143. Root mounts directly and gives access to all users; ordinary users mount through
fusermount3, with access for themselves only. A mount that a crashed daemon left behind is cleared. The daemon does
not see reads that the kernel's page cache answers, so they change no access time.

IMAGE@STATE mounts what 'firn log IMAGE' lists, by its name, its number or a time (\"2 hours ago\"), read-only; many of them
can be mounted at a time. While the image is mounted to be written, only the user who mounted it can add them (others
find them in MOUNTPOINT/.firn/history): its daemon shows up to 256 states too. 'firn umount' of the volume is refused
then; unmounted in another way, it takes them along. A state that is dropped meanwhile is stale.

As mount.firnfs it is a helper of mount(8), with the letters of those: -f checks everything and mounts nothing, -s ignores
options that are unknown, -N mounts in that namespace.

Policies:   {AGELESS_POLICIES}, {AGE_THRESHOLD}
Placements: {PLACEMENTS}
(firn sim cleaning measures them. A volume was made with two to five logs for data, by its size;
a placement that wants more uses those. What it has learned is lost at the unmount.)")
)]
pub struct MountArgs {
    /// An image file or block device (also LABEL=NAME, UUID=ID, or IMAGE@STATE), and the directory to mount it on
    #[arg(value_names = ["IMAGE", "MOUNTPOINT"], num_args = 1..=2, required_unless_present = "enable_uring", add = values::volumes())]
    paths: Vec<PathBuf>,
    /// Mount a new, empty volume of this size that lives in memory
    #[arg(long, value_name = "SIZE", value_parser = crate::args::size)]
    memory: Option<u64>,
    /// Mount options, comma-separated: ro, noatime, strictatime, nodev, nosuid, noexec, sync, allow_other,
    /// noallow_other, and cache=SIZE, threads=N, commit=SECONDS, checkpoint=SECONDS, checkpoint_bytes=SIZE,
    /// cleaning_policy=NAME, placement=NAME, coalesce=SECONDS, nocoalesce, idle_after=SECONDS, idle_rate=SIZE, clean_low=N, clean_high=N,
    /// clean_idle=N (clean segments below which the cleaner starts, and at which it stops; see 'firn tune'), rotational=auto|yes|no,
    /// transport=auto|uring|dev, writeback, discard (tell the device which segments are free), nodiscard, metrics=ADDRESS|off (serve OpenMetrics at
    /// http://ADDRESS/metrics; a port alone is one of 127.0.0.1)
    #[arg(short = 'o', value_name = "OPTIONS", add = values::mount_words())]
    options: Vec<String>,
    /// Stay in the foreground; SIGINT and SIGTERM unmount, and the exit code is 0 then
    #[arg(short, long)]
    foreground: bool,
    /// Report what was recovered
    #[arg(short, long)]
    verbose: bool,
    /// Memory for cached blocks, at least 4M [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = crate::args::size)]
    cache: Option<u64>,
    /// Threads that answer the kernel [default: processors + 1]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Switch on FUSE over io_uring in the kernel until the next boot (root, Linux 6.14 or later); alone, or before a mount
    #[arg(long)]
    enable_uring: bool,
    /// How requests come from the kernel: uring (a queue for each processor, Linux 6.14 and later if switched on), dev
    /// (/dev/fuse), or auto: uring where there is one [default: auto]
    #[arg(long, value_name = "WORD")]
    transport: Option<String>,
    /// Let the kernel collect writes before the daemon sees them: faster small writes, but a full volume is noticed
    /// only at close or fsync
    #[arg(long)]
    writeback: bool,
    /// Seconds after which unsynced changes become durable [default: 5]
    #[arg(long, value_name = "SECONDS")]
    commit_interval: Option<f64>,
    /// Seconds after which a checkpoint is written, if there are changes [default: 30]
    #[arg(long, value_name = "SECONDS")]
    checkpoint_interval: Option<f64>,
    /// Bytes of log after which a checkpoint is written: about the most that a mount after a crash reads [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = crate::args::size)]
    checkpoint_bytes: Option<u64>,
    /// How the segments to clean are chosen [default: cost-benefit]
    #[arg(long, value_name = "NAME", add = values::policies())]
    cleaning_policy: Option<Policy>,
    /// How the open log for data is chosen [default: dac-leap, on small volumes split]
    #[arg(long, value_name = "NAME", add = values::placements())]
    placement: Option<PlacementName>,
    /// While the volume is idle, rewrite scattered files in order if they have not changed for this many seconds [default:
    /// 60; -o nocoalesce: never]
    #[arg(long, value_name = "SECONDS")]
    coalesce_after: Option<f64>,
    /// Seconds without a request after which the volume counts as idle: then it cleans ahead and puts files in order [default: 2]
    #[arg(long, value_name = "SECONDS")]
    idle_after: Option<f64>,
    /// Bytes a second that cleaning and coalescing in idle time may read and write together [default: off, all that nobody
    /// else uses]
    #[arg(long, value_name = "SIZE", value_parser = crate::args::size)]
    idle_rate: Option<u64>,
    /// Whether the device has a moving head: yes, no, or auto (as the kernel reports for the device or for the one that holds
    /// the image; yes if it reports nothing). Without a head, the cleaner reads only the live blocks of sparse segments, and
    /// short runs of a file are not joined. Virtual disks often claim to have a head [default: auto]
    #[arg(long, value_name = "WORD")]
    rotational: Option<String>,
    /// Record all operations into this file, which must not exist (firn record, firn workload)
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Begin another part of the recording once one has this size [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = crate::args::size, requires = "record")]
    record_part_size: Option<u64>,
    /// Record hashes instead of names
    #[arg(long, requires = "record")]
    record_hash_names: bool,
    /// Append messages to this file [default in the background: root's messages go to the kernel log, those of others are
    /// lost]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Set by the process that starts the daemon
    #[arg(long, hide = true)]
    daemon: bool,
    /// For mount(8): check everything, and mount nothing
    #[arg(long, hide = true)]
    fake: bool,
    /// For mount(8): ignore options that are unknown
    #[arg(long, hide = true)]
    sloppy: bool,
    /// For mount(8): mount in this mount namespace
    #[arg(long, hide = true, value_name = "FILE")]
    namespace: Option<PathBuf>,
}

/// The volume to mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A new volume of that many bytes.
    Memory(u64),
    /// An image file or block device.
    Image(PathBuf),
}

/// The command line, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct MountPlan {
    /// The volume.
    pub source: Source,
    /// The state to mount instead of the present: a name, a time or a number.
    pub state: Option<String>,
    /// The mountpoint.
    pub mountpoint: PathBuf,
    /// Options that all file systems share.
    pub mount_options: MountOptions,
    /// Memory for cached blocks, in bytes.
    pub cache_bytes: u64,
    /// Worker threads.
    pub threads: usize,
    /// How requests come from the kernel.
    pub transport: TransportChoice,
    /// Settings of the adapter.
    pub settings: Settings,
    /// Longest time until an unsynced change becomes durable, in milliseconds.
    pub commit_interval_ms: u64,
    /// Longest time between checkpoints while there are changes, in milliseconds.
    pub checkpoint_interval_ms: u64,
    /// Log between checkpoints, in bytes.
    pub checkpoint_bytes: u64,
    /// Which segments are cleaned.
    pub cleaning_policy: Policy,
    /// How many clean segments the cleaner makes, and when it begins.
    pub thresholds: Thresholds,
    /// How the open log for data is chosen; `None`: the default for the volume.
    pub placement: Option<PlacementName>,
    /// How long scattered files must be unchanged before they are put in order, in milliseconds; `None`: they never are.
    pub coalesce_age_ms: Option<u64>,
    /// Time without a request after which the volume counts as idle, in milliseconds.
    pub idle_after_ms: u64,
    /// How much of the device work in idle time may use, in bytes a second; `None`: all that nobody else uses.
    pub idle_bytes_per_s: Option<u64>,
    /// Whether the device has a moving head; `None`: as the kernel reports.
    pub rotational: Option<bool>,
    /// Free segments are discarded.
    pub discard: bool,
    /// What to record from the first operation on.
    pub record: Option<RecordPlan>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Messages go here.
    pub log: Option<PathBuf>,
    /// Stay in the foreground.
    pub foreground: bool,
    /// Report what was recovered.
    pub verbose: bool,
    /// This process is the daemon that another one started.
    pub daemon: bool,
    /// Check everything, and mount nothing.
    pub fake: bool,
    /// The mount namespace to mount in.
    pub namespace: Option<PathBuf>,
}

impl MountArgs {
    /// Checks everything that can be checked without touching the system.
    ///
    /// # Errors
    /// A usage failure that names the option.
    pub fn resolve(&self) -> Done<MountPlan> {
        let (source, mountpoint) = self.what_and_where()?;
        let (source, state) = past::at_state(source);
        let mut plan = MountPlan {
            source,
            state,
            mountpoint,
            mount_options: MountOptions::default(),
            cache_bytes: DEFAULT_CACHE_BYTES,
            threads: default_threads(),
            transport: TransportChoice::default(),
            settings: Settings { writeback_cache: self.writeback, exact_atime: false },
            commit_interval_ms: DEFAULT_COMMIT_INTERVAL_MS,
            checkpoint_interval_ms: DEFAULT_CHECKPOINT_INTERVAL_MS,
            checkpoint_bytes: DEFAULT_CHECKPOINT_BYTES,
            cleaning_policy: Policy::default(),
            thresholds: Thresholds::default(),
            placement: None,
            coalesce_age_ms: Some(DEFAULT_COALESCE_AGE_MS),
            idle_after_ms: DEFAULT_IDLE_AFTER_MS,
            idle_bytes_per_s: None,
            rotational: None,
            discard: false,
            record: self.record_plan()?,
            metrics: None,
            log: self.log.clone(),
            foreground: self.foreground,
            verbose: self.verbose,
            daemon: self.daemon,
            fake: self.fake,
            namespace: self.namespace.clone(),
        };
        let words = self.given();
        let is_remount = words.clone().any(|word| word == "remount");
        // The volume keeps its label: a remount has the daemon change it.
        for word in words.filter(|word| !(is_remount && word.starts_with(LABEL_IS))) {
            plan.apply(word)?;
        }
        plan.thresholds.judge().map_err(|unfit| Failure::usage(thresholds::refusal(&unfit)))?;
        plan.mount_options.read_only |= plan.state.is_some();
        plan.settings.exact_atime = plan.mount_options.atime == AtimeMode::Strictatime;
        // The long options are more explicit, so they win.
        if let Some(bytes) = self.cache {
            plan.set_cache(bytes)?;
        }
        if let Some(threads) = self.threads {
            plan.set_threads(threads)?;
        }
        if let Some(seconds) = self.commit_interval {
            plan.set_commit_interval(seconds)?;
        }
        if let Some(seconds) = self.checkpoint_interval {
            plan.set_checkpoint_interval(seconds)?;
        }
        if let Some(bytes) = self.checkpoint_bytes {
            plan.set_checkpoint_bytes(bytes)?;
        }
        plan.cleaning_policy = self.cleaning_policy.unwrap_or(plan.cleaning_policy);
        plan.placement = self.placement.or(plan.placement);
        if let Some(seconds) = self.coalesce_after {
            plan.set_coalesce_age(seconds)?;
        }
        if let Some(seconds) = self.idle_after {
            plan.set_idle_after(seconds)?;
        }
        if let Some(rate) = self.idle_rate {
            plan.set_idle_rate(rate)?;
        }
        if let Some(word) = &self.rotational {
            plan.set_rotational(word)?;
        }
        if let Some(word) = &self.transport {
            plan.set_transport(word)?;
        }
        Ok(plan)
    }

    /// Whether the kernel's parameter is to be switched on.
    pub fn enables_uring(&self) -> bool {
        self.enable_uring
    }

    /// Whether something is to be mounted.
    pub fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// The words after `-o`; a sloppy mount ignores those that nobody knows.
    fn given(&self) -> impl Iterator<Item = &str> + Clone {
        let words = self.options.iter().flat_map(|text| text.split(',')).filter(|word| !word.is_empty());
        words.filter(|word| !self.sloppy || is_known(word))
    }

    /// The given options as words of `-o`: those that all file systems share, and those of firnfs itself.
    pub fn words(&self) -> (Vec<String>, Vec<String>) {
        let mut ignored = MountOptions::default();
        let (shared, mut own): (Vec<String>, Vec<String>) =
            self.given().map(str::to_owned).partition(|word| ignored.apply(word));
        let mut long = |name: &str, value: Option<String>| own.extend(value.map(|v| format!("{name}={v}")));
        long("cache", self.cache.map(|bytes| bytes.to_string()));
        long("threads", self.threads.map(|threads| threads.to_string()));
        long("commit", self.commit_interval.map(|seconds| seconds.to_string()));
        long("checkpoint", self.checkpoint_interval.map(|seconds| seconds.to_string()));
        long("checkpoint_bytes", self.checkpoint_bytes.map(|bytes| bytes.to_string()));
        long("cleaning_policy", self.cleaning_policy.map(|policy| policy.to_string()));
        long("placement", self.placement.map(|placement| placement.to_string()));
        long("coalesce", self.coalesce_after.map(|seconds| seconds.to_string()));
        long("idle_after", self.idle_after.map(|seconds| seconds.to_string()));
        long("idle_rate", self.idle_rate.map(|rate| rate.to_string()));
        long("rotational", self.rotational.clone());
        long("transport", self.transport.clone());
        own.extend(self.writeback.then(|| "writeback".to_owned()));
        (shared, own)
    }

    fn record_plan(&self) -> Done<Option<RecordPlan>> {
        let Some(file) = &self.record else { return Ok(None) };
        let part_bytes = self.record_part_size.map(checked_part_bytes).transpose()?;
        Ok(Some(RecordPlan {
            path: absolute(file)?,
            part_bytes: part_bytes.unwrap_or(RecordPlan::DEFAULT_PART_BYTES),
            hash_names: self.record_hash_names,
        }))
    }

    fn what_and_where(&self) -> Done<(Source, PathBuf)> {
        match (self.memory, self.paths.as_slice()) {
            (Some(bytes), [mountpoint]) => Ok((Source::Memory(bytes), mountpoint.clone())),
            (None, [image, mountpoint]) if image.is_dir() && mountpoint.exists() && !mountpoint.is_dir() => {
                let (dir, image) = (image.display(), mountpoint.display());
                let message = format!("{dir} is a directory and {image} is none");
                Err(Failure::usage(message).advise(format!("swapped? 'firn mount {image} {dir}'")))
            }
            (None, [image, mountpoint]) => Ok((Source::Image(image.clone()), mountpoint.clone())),
            // The mount is there, and knows its image.
            (None, [mountpoint]) if self.words().0.iter().any(|word| word == "remount") => {
                Ok((Source::Image(PathBuf::new()), mountpoint.clone()))
            }
            (None, [path]) if path.is_dir() => {
                Err(Failure::usage(format!("there is no image to mount on {}", path.display()))
                    .advise(format!("firn mount IMAGE {}", path.display())))
            }
            (None, [path]) => Err(Failure::usage(format!(
                "the mountpoint is missing: the directory to mount {} on",
                path.display()
            ))
            .advise(format!("firn mount {} DIRECTORY", path.display()))),
            (Some(_), _) => Err(Failure::usage("--memory takes only a mountpoint, without an image")),
            (None, _) => Err(Failure::usage("mount takes an image (or --memory SIZE) and a mountpoint")),
        }
    }
}

/// Whether a word after `-o` has the name of an option, whatever its value.
fn is_known(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    MountOptions::default().apply(word)
        || WITH_VALUE.contains(&name)
        || WITHOUT_VALUE.contains(&name)
        || thresholds::mark_of(name).is_some()
        || word.starts_with(LABEL_IS)
}

impl MountPlan {
    /// Applies one word of `-o`.
    ///
    /// # Errors
    /// A usage failure that names the option.
    pub fn apply(&mut self, word: &str) -> Done {
        if self.mount_options.apply(word) {
            return Ok(());
        }
        match word.split_once('=').unwrap_or((word, "")) {
            (name, "") if WITH_VALUE.contains(&name) || thresholds::mark_of(name).is_some() => {
                Err(Failure::usage(format!("-o {name}: the value is missing"))
                    .advise(format!("write {name}=VALUE")))
            }
            ("cache", size) => {
                let bytes = parse_size(size).map_err(|e| Failure::usage(format!("-o {word}: {e}")))?;
                self.set_cache(bytes)
            }
            ("threads", count) => {
                let count = count.parse().map_err(|_| Failure::usage(format!("-o {word}: not a number")))?;
                self.set_threads(count)
            }
            ("commit", seconds) => {
                let seconds =
                    seconds.parse().map_err(|_| Failure::usage(format!("-o {word}: not a number")))?;
                self.set_commit_interval(seconds)
            }
            ("checkpoint", seconds) => {
                let seconds =
                    seconds.parse().map_err(|_| Failure::usage(format!("-o {word}: not a number")))?;
                self.set_checkpoint_interval(seconds)
            }
            ("checkpoint_bytes", size) => {
                let bytes = parse_size(size).map_err(|e| Failure::usage(format!("-o {word}: {e}")))?;
                self.set_checkpoint_bytes(bytes)
            }
            ("cleaning_policy", name) => {
                self.cleaning_policy = name.parse().map_err(|e| Failure::usage(format!("-o {word}: {e}")))?;
                Ok(())
            }
            ("placement", "default") => {
                self.placement = None;
                Ok(())
            }
            ("placement", name) => {
                let placement = name.parse().map_err(|e| Failure::usage(format!("-o {word}: {e}")))?;
                self.placement = Some(placement);
                Ok(())
            }
            ("coalesce", "off") => {
                self.coalesce_age_ms = None;
                Ok(())
            }
            ("coalesce", seconds) => {
                let seconds =
                    seconds.parse().map_err(|_| Failure::usage(format!("-o {word}: not a number")))?;
                self.set_coalesce_age(seconds)
            }
            ("nocoalesce", "") => {
                self.coalesce_age_ms = None;
                Ok(())
            }
            ("idle_after", seconds) => {
                let seconds =
                    seconds.parse().map_err(|_| Failure::usage(format!("-o {word}: not a number")))?;
                self.set_idle_after(seconds)
            }
            ("idle_rate", "off") => {
                self.idle_bytes_per_s = None;
                Ok(())
            }
            ("idle_rate", size) => {
                let rate = parse_size(size).map_err(|e| Failure::usage(format!("-o {word}: {e}")))?;
                self.set_idle_rate(rate)
            }
            ("rotational", word) => self.set_rotational(word),
            ("transport", word) => self.set_transport(word),
            ("metrics", "off") => {
                self.metrics = None;
                Ok(())
            }
            ("metrics", address) => {
                let address =
                    parse_address(address).map_err(|e| Failure::usage(format!("-o metrics: {e}")))?;
                self.metrics = Some(address);
                Ok(())
            }
            ("discard", "" | "yes") => {
                self.discard = true;
                Ok(())
            }
            ("nodiscard", "") | ("discard", "no") => {
                self.discard = false;
                Ok(())
            }
            ("writeback", "" | "yes") => {
                self.settings.writeback_cache = true;
                Ok(())
            }
            ("writeback", "no") => {
                self.settings.writeback_cache = false;
                Ok(())
            }
            (name, value) => {
                match thresholds::mark_of(name) {
                    Some(mark) => thresholds::set(&mut self.thresholds, mark, value)
                        .map_err(|e| Failure::usage(format!("-o {word}: {e}"))),
                    None => Err(Failure::usage(format!("-o {word}: unknown option"))
                        .advise("see 'firn mount --help'")),
                }
            }
        }
    }

    fn set_transport(&mut self, word: &str) -> Done {
        let found = TransportChoice::NAMES.iter().find(|(name, _)| *name == word);
        let wrong = || Failure::usage(format!("transport: {word:?} is not auto, uring or dev"));
        self.transport = found.ok_or_else(wrong)?.1;
        Ok(())
    }

    fn set_threads(&mut self, threads: usize) -> Done {
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(Failure::usage(format!("threads: {threads} is not between 1 and {MAX_THREADS}")));
        }
        self.threads = threads;
        Ok(())
    }

    fn set_rotational(&mut self, word: &str) -> Done {
        let found = ROTATIONAL_WORDS.iter().find(|(known, _)| *known == word);
        let wrong = || Failure::usage(format!("rotational: '{word}' is not one of auto, yes, no"));
        self.rotational = found.ok_or_else(wrong)?.1;
        Ok(())
    }

    fn set_cache(&mut self, bytes: u64) -> Done {
        self.cache_bytes = bounds::CACHE.checked(bytes)?;
        Ok(())
    }

    fn set_commit_interval(&mut self, seconds: f64) -> Done {
        self.commit_interval_ms = bounds::COMMIT.milliseconds(seconds)?;
        Ok(())
    }

    fn set_checkpoint_interval(&mut self, seconds: f64) -> Done {
        self.checkpoint_interval_ms = bounds::CHECKPOINT.milliseconds(seconds)?;
        Ok(())
    }

    fn set_checkpoint_bytes(&mut self, bytes: u64) -> Done {
        self.checkpoint_bytes = bounds::CHECKPOINT_BYTES.checked(bytes)?;
        Ok(())
    }

    fn set_idle_after(&mut self, seconds: f64) -> Done {
        self.idle_after_ms = bounds::IDLE_AFTER.milliseconds(seconds)?;
        Ok(())
    }

    fn set_idle_rate(&mut self, rate: u64) -> Done {
        self.idle_bytes_per_s = Some(bounds::IDLE_RATE.checked(rate)?);
        Ok(())
    }

    fn set_coalesce_age(&mut self, seconds: f64) -> Done {
        self.coalesce_age_ms = Some(bounds::COALESCE.milliseconds(seconds)?);
        Ok(())
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
