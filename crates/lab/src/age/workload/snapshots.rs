//! Aging workloads from a series of snapshots: populated with the first one, then the changes between neighbours, with short-lived files in the
//! most active directories of each day (section 3.2).

use super::changes::{between, populate, root_of};
use super::profile::{DAY_NS, Profile, peak};
use super::{Counts, Emitter, Event};
use crate::age::snapshot::{Meta, Snapshot};
use crate::error::LabError;
use firnfs_workload::{Header, Origin};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::io::Write;

/// One profile a day for this much of the original file system.
const BYTES_PER_PROFILE: u64 = 40 << 20;

/// How a workload is made of snapshots.
pub struct Series<'a> {
    /// Profiles of short-lived files; empty: none are added.
    pub profiles: &'a [Profile],
    /// Where they come from, for the header.
    pub profiles_from: &'a str,
    /// For the times of deletes and the choice of profiles.
    pub seed: u64,
}

/// Writes the workload of snapshots in the order of time.
///
/// # Errors
/// There is none, they are not in order, one cannot be read, or writing failed.
pub fn from_snapshots(
    series: &Series<'_>,
    snapshots: &mut dyn Iterator<Item = Result<Snapshot, LabError>>,
    out: impl Write,
) -> Result<Counts, LabError> {
    let Some(first) = snapshots.next().transpose()? else {
        return Err(LabError::Setup("there is no snapshot".to_owned()));
    };
    let events = populate(&first);
    let start_ns = events.first().map_or(first.meta.taken_ns, |event| event.time_ns);
    let mut emitter = Emitter::new(out, &series.header(&first, start_ns))?;
    events.iter().try_for_each(|event| emitter.event(event))?;
    let mut rng = Pcg64Mcg::seed_from_u64(series.seed);
    let (mut old, mut next_file) = (first, 0);
    for new in snapshots {
        let new = new?;
        if new.meta.taken_ns < old.meta.taken_ns {
            return Err(LabError::Setup("the snapshots are not in the order of time".to_owned()));
        }
        let skeleton = between(&old, &new, &mut rng);
        let span = old.meta.taken_ns..new.meta.taken_ns;
        for event in series.flesh_out(skeleton, span, &new.meta, &mut rng, &mut next_file) {
            emitter.event(&event)?;
        }
        old = new;
    }
    emitter.finish()
}

impl Series<'_> {
    fn header(&self, first: &Snapshot, start_ns: i64) -> Header {
        let mut header = Header::new(Origin::Made);
        header.start_ns = start_ns.max(0).cast_unsigned();
        let mut option = |name: &str, value: String| header.options.push((name.to_owned(), value));
        option("from", "snapshots".to_owned());
        option("fs_type", first.meta.fs_type.clone());
        option("size_bytes", first.meta.size_bytes.to_string());
        option("seed", self.seed.to_string());
        option("profiles", self.profiles_from.to_owned());
        if let Some(groups) = first.meta.groups {
            option("groups", first.meta.size_bytes.div_ceil(groups.bytes.max(1)).to_string());
            option("group_inodes", groups.inodes.to_string());
            option("first_inode", groups.first_inode.to_string());
            option("root_inode", root_of(first).unwrap_or(groups.first_inode).to_string());
        }
        header
    }

    /// Adds short-lived files to the changes between two snapshots, day by day.
    fn flesh_out(
        &self,
        skeleton: Vec<Event>,
        span: std::ops::Range<i64>,
        meta: &Meta,
        rng: &mut Pcg64Mcg,
        next_file: &mut u64,
    ) -> Vec<Event> {
        let len_ns = (span.end - span.start).max(0).cast_unsigned();
        let days = ((len_ns + DAY_NS / 2) / DAY_NS).max(1);
        let day_ns = (len_ns / days).max(1).cast_signed();
        let count = meta.size_bytes / BYTES_PER_PROFILE;
        let is_removal = |event: &Event| event.act == super::Act::RemoveDirectory;
        let (removals, mut events): (Vec<_>, Vec<_>) = skeleton.into_iter().partition(is_removal);
        let mut added = Vec::new();
        for nth in 0..days.cast_signed() {
            let start = span.start + nth * day_ns;
            let end = if nth + 1 == days.cast_signed() { span.end } else { start + day_ns };
            added.extend(self.day(&events, start..end, count, rng, next_file));
        }
        events.extend(added);
        // Stable: events of one file at one time stay in their order.
        events.sort_by_key(|event| event.time_ns);
        events.extend(removals);
        events
    }

    /// The short-lived files of one day.
    fn day(
        &self,
        skeleton: &[Event],
        day: std::ops::Range<i64>,
        count: u64,
        rng: &mut Pcg64Mcg,
        next_file: &mut u64,
    ) -> Vec<Event> {
        let mut active: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for event in skeleton.iter().filter(|event| day.contains(&event.time_ns)) {
            let since_ns = (event.time_ns - day.start).cast_unsigned();
            active.entry(event.dir).or_default().push(since_ns);
        }
        let mut dirs: Vec<(u64, Vec<u64>)> = active.into_iter().collect();
        dirs.sort_by_key(|(dir, times)| (std::cmp::Reverse(times.len()), *dir));
        dirs.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        let mut events = Vec::new();
        if dirs.is_empty() || self.profiles.is_empty() {
            return events;
        }
        for _ in 0..count {
            let profile = &self.profiles[rng.random_range(0..self.profiles.len())];
            let (dir, times) = &dirs[rng.random_range(0..dirs.len())];
            let peak_ns = peak(times.iter().copied());
            events.extend(profile.place(*dir, day.clone(), peak_ns, next_file));
        }
        events
    }
}
