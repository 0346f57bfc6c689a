//! Carries out a load on the real log, in virtual time, and counts.
//!
//! Sprite's rules, as far as the text has them: victims by cost-benefit with the age of the youngest block, live blocks written oldest
//! first; the cleaner starts when clean segments are short and never in idle time; users' changes wait for 30 s; a checkpoint every
//! 30 s. The first part of the traffic, counted in sizes of the disk, does not count: the paper waited "several months".

use super::event::{Act, Event};
use super::loads::Load;
use crate::error::LabError;
use crate::hardware::find_disk;
use crate::trace::{Driver, IdleRule};
use firnfs::FsError;
use firnfs::clean::{Medium, PlacementName, Policy};
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, KindBytes, LogKind, MkfsOptions, Options};
use firnfs::vfs::{Caller, NewNode, SetAttr};
use firnfs_device::MemDevice;
use firnfs_format::{InodeNo, TimeNs};
use std::collections::BTreeMap;

const START_NS: i64 = 650_000_000_000_000_000;
const INTERVAL_MS: u64 = 30_000;
const CACHE_BYTES: u64 = 16 << 20;
/// Parts of the distribution of segments by their utilisation: whole blocks of a segment of 256 KB. Parts with now one and now two
/// possible numbers of live blocks would show peaks that are none.
pub(in crate::hardware) const BINS: usize = 64;
/// Moments at which the segments are looked at; the last is the end.
const LOOKS: u32 = 16;
/// Events between two looks at how much was written.
const STRIDE: u64 = 256;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// How long a run is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::hardware) struct Length {
    /// Size of the disk in bytes.
    pub disk_bytes: u64,
    pub segment_bytes: u32,
    /// The log is written this often over the disk before anything counts.
    pub warm_up: f64,
    /// And this often while it does.
    pub counted: f64,
}

/// What came of it. Everything but the sizes is of the part that counts.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::hardware) struct Used {
    pub disk_bytes: u64,
    pub segment_bytes: u64,
    /// Virtual time.
    pub hours: f64,
    /// Bytes that users wrote.
    pub user_bytes: u64,
    /// Mean size of the files that exist at the end, without holes.
    pub file_bytes: f64,
    /// Live share of the disk, on average over the looks.
    pub in_use: f64,
    /// What the log did.
    pub log: Counters,
    /// Live bytes by kind at the end.
    pub live: KindBytes,
    /// Share of the segments in each part of the utilisations from 0 to 1, on average over the looks.
    pub segments: Vec<f64>,
    /// The same at the end alone.
    pub segments_at_end: Vec<f64>,
    /// Share of the time in which the disk was busy.
    pub disk_busy: f64,
}

impl Used {
    /// Segments cleaned: by the cleaner, and those that were empty.
    pub fn cleaned(&self) -> f64 {
        (self.log.segments_cleaned + self.log.segments_cleaned_empty) as f64
    }

    /// Share of these that were empty.
    pub fn empty_share(&self) -> f64 {
        self.log.segments_cleaned_empty as f64 / self.cleaned().max(1.0)
    }

    /// Mean utilisation of the others.
    pub fn utilisation(&self) -> f64 {
        let read_bytes = self.log.segments_cleaned as f64 * self.segment_bytes as f64;
        self.log.cleaner_moved_bytes as f64 / read_bytes.max(1.0)
    }

    /// The paper's formula (section 3.4), with both.
    pub fn write_cost(&self) -> f64 {
        let (full, u) = (1.0 - self.empty_share(), self.utilisation());
        1.0 + full * (1.0 + u) / (1.0 - full * u)
    }

    /// The least share of empty ones among the segments without metadata: as if all of the log's metadata had filled segments that
    /// became empty by themselves.
    pub fn empty_without_metadata(&self) -> f64 {
        let log = &self.log;
        let content_bytes = log.log_file_bytes + log.log_directory_bytes + log.log_attributes_bytes;
        let metadata_bytes = log.log_bytes.saturating_sub(content_bytes) as f64;
        let metadata =
            (metadata_bytes / self.segment_bytes.max(1) as f64).min(log.segments_cleaned_empty as f64);
        (log.segments_cleaned_empty as f64 - metadata) / (self.cleaned() - metadata).max(1.0)
    }

    /// Bytes written to the log and read by the cleaner, for each byte of the log that users caused.
    pub fn bytes_a_new_byte(&self) -> f64 {
        (self.log.log_bytes + self.log.cleaner_read_bytes) as f64 / self.log.new_bytes().max(1) as f64
    }
}

/// Carries out a load.
///
/// # Errors
/// The volume cannot be made, or the file system failed.
pub(in crate::hardware) fn run(load: &Load, length: &Length, seed: u64) -> Result<Used, LabError> {
    let mut volume = Volume::new(length)?;
    let mut events = load.events(length.disk_bytes, seed);
    let warm_bytes = (length.disk_bytes as f64 * length.warm_up) as u64;
    volume.go_on(&mut events, warm_bytes)?;
    let before = volume.moment();
    let mut used = Used { segments: vec![0.0; BINS], ..Used::default() };
    for look in 1..=LOOKS {
        let counted = length.counted * f64::from(look) / f64::from(LOOKS);
        volume.go_on(&mut events, warm_bytes + (length.disk_bytes as f64 * counted) as u64)?;
        let shares = volume.distribution()?;
        used.segments.iter_mut().zip(&shares).for_each(|(sum, share)| *sum += share / f64::from(LOOKS));
        used.in_use += volume.live().sum() as f64 / length.disk_bytes as f64 / f64::from(LOOKS);
        used.segments_at_end = shares;
    }
    let after = volume.moment();
    let seconds = (after.now_ns - before.now_ns).max(1) as f64 / 1e9;
    Ok(Used {
        disk_bytes: length.disk_bytes,
        segment_bytes: u64::from(length.segment_bytes),
        hours: seconds / 3600.0,
        user_bytes: after.user_bytes - before.user_bytes,
        file_bytes: volume.live().of(LogKind::File) as f64 / volume.files.len().max(1) as f64,
        log: after.log.since(&before.log),
        live: volume.live(),
        disk_busy: (after.busy_ns - before.busy_ns) as f64 / 1e9 / seconds,
        ..used
    })
}

fn failed(action: &'static str) -> impl Fn(FsError) -> LabError {
    move |source| LabError::Volume { action, source }
}

/// Sprite's log, as firnfs can be set up.
fn options(segment_bytes: u32) -> Options {
    Options {
        cache_bytes: CACHE_BYTES,
        write_threshold_bytes: u64::from(segment_bytes),
        held_indirect_bytes: 0,
        commit_interval_ms: INTERVAL_MS,
        checkpoint_interval_ms: INTERVAL_MS,
        cache_file_data: false,
        cleaning_policy: Policy::CostBenefitYoungest,
        placement: Some(PlacementName::AgeSort),
        coalesce_age_ms: None,
        // Never: Sprite cleaned when segments were short.
        idle_after_ms: u64::MAX / 4,
        // A second request would take longer than any segment: whole segments are read.
        medium: Medium { request_ns: 60_000_000_000, ..Medium::HEAD },
        ..Options::default()
    }
}

fn mkfs(length: &Length) -> MkfsOptions {
    MkfsOptions {
        size_bytes: length.disk_bytes,
        block_bytes: 4096,
        segment_bytes: length.segment_bytes,
        physical_block_bytes: 512,
        inline_max_bytes: 0,
        label: "production".to_owned(),
        uuid: *b"firnfs: users...",
        hash_key: [19, 91],
        now: TimeNs(START_NS),
        root_owner: (0, 0),
    }
}

/// Work so far.
struct Moment {
    now_ns: i64,
    user_bytes: u64,
    busy_ns: i64,
    log: Counters,
}

struct Known {
    directory: InodeNo,
    ino: InodeNo,
}

struct Volume {
    driver: Driver,
    directories: BTreeMap<u32, InodeNo>,
    files: BTreeMap<u32, Known>,
    user_bytes: u64,
}

fn file_name(file: u32) -> Vec<u8> {
    format!("f{file:x}").into_bytes()
}

fn directory_name(directory: u32) -> Vec<u8> {
    format!("d{directory:x}").into_bytes()
}

impl Volume {
    fn new(length: &Length) -> Result<Self, LabError> {
        let device = MemDevice::new(length.disk_bytes);
        firnfs_manage::format(&device, &mkfs(length)).map_err(failed("make a volume"))?;
        let disk = find_disk("dsp3501")?.params;
        let (options, rule) = (options(length.segment_bytes), (IdleRule::Requests, 1));
        let mut driver = Driver::open(&device, options, &disk, rule, START_NS)?;
        driver.start_clock(&disk, START_NS);
        Ok(Self {
            driver,
            directories: BTreeMap::from([(0, InodeNo::ROOT)]),
            files: BTreeMap::new(),
            user_bytes: 0,
        })
    }

    fn moment(&self) -> Moment {
        let (driver, seen) = (&self.driver, self.driver.seen());
        Moment {
            now_ns: driver.now().0,
            user_bytes: self.user_bytes,
            busy_ns: seen.user_busy_ns + seen.cleaner_busy_ns,
            log: *driver.counters(),
        }
    }

    fn live(&self) -> KindBytes {
        self.driver.vfs().store().live_kinds().unwrap_or_default()
    }

    /// Carries out events until that much was written to the log in all.
    fn go_on(&mut self, events: &mut dyn Iterator<Item = Event>, log_bytes: u64) -> Result<(), LabError> {
        for (n, event) in (0_u64..).zip(events) {
            self.driver.advance_to(START_NS.saturating_add_unsigned(event.at_ns))?;
            self.carry_out(event.act).map_err(failed("carry out what users do"))?;
            if n.is_multiple_of(STRIDE) && self.driver.counters().log_bytes >= log_bytes {
                break;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, act: Act) -> Result<(), FsError> {
        match act {
            Act::MakeDirectory(directory) => {
                let ino = self.make(InodeNo::ROOT, &directory_name(directory), Kind::Directory)?;
                self.directories.insert(directory, ino);
                Ok(())
            }
            Act::RemoveDirectory(directory) => {
                self.directories.remove(&directory);
                let name = directory_name(directory);
                self.driver.user(|vfs, now| vfs.rmdir(now, InodeNo::ROOT, &name))
            }
            Act::Make { directory, file, bytes } => {
                let directory = *self.directories.get(&directory).ok_or(FsError::NotFound)?;
                let ino = self.make(directory, &file_name(file), Kind::Regular)?;
                self.files.insert(file, Known { directory, ino });
                self.write(file, 0, bytes)
            }
            Act::Save { file, bytes } => {
                let known = self.files.get(&file).ok_or(FsError::NotFound)?;
                let (ino, cut) = (known.ino, SetAttr { size_bytes: Some(0), ..SetAttr::default() });
                self.driver.user(|vfs, now| vfs.setattr(now, ino, cut))?;
                self.write(file, 0, bytes)
            }
            Act::Write { file, at_bytes, bytes } => self.write(file, at_bytes, bytes),
            Act::Delete(file) => {
                let known = self.files.remove(&file).ok_or(FsError::NotFound)?;
                let name = file_name(file);
                self.driver.user(|vfs, now| vfs.unlink(now, known.directory, &name))
            }
        }
    }

    fn make(&mut self, directory: InodeNo, name: &[u8], kind: Kind) -> Result<InodeNo, FsError> {
        let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
        let node = NewNode { kind, mode, rdev: 0, target: b"" };
        self.driver.user(|vfs, now| vfs.make(now, CALLER, directory, name, node, false)).map(|attr| attr.ino)
    }

    fn write(&mut self, file: u32, at_bytes: u64, bytes: u64) -> Result<(), FsError> {
        let ino = self.files.get(&file).ok_or(FsError::NotFound)?.ino;
        self.user_bytes += bytes;
        self.driver.write(ino, at_bytes, bytes)
    }

    /// Shares of the segments by their utilisation.
    fn distribution(&mut self) -> Result<Vec<f64>, LabError> {
        let segment_bytes = f64::from(self.driver.vfs().store().geometry().segment_bytes);
        let (mut counts, mut all) = (vec![0.0; BINS], 0.0);
        for leaf in 0.. {
            let looked = self.driver.look(|lfs| lfs.usage_leaf(leaf));
            let entries = looked.map_err(failed("look at the segments"))?;
            if entries.is_empty() {
                break;
            }
            for (_, usage) in entries {
                let share = f64::from(usage.live_bytes) / segment_bytes;
                counts[((share * BINS as f64) as usize).min(BINS - 1)] += 1.0;
                all += 1.0;
            }
        }
        Ok(counts.into_iter().map(|count: f64| count / all).collect())
    }
}
