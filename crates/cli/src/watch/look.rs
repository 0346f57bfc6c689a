//! A look at a log-structured volume for the displays of `firn watch`: its segments, and a tick that says what they show.
//!
//! It asks for the segments a leaf of the usage table at a time. Callers: the daemon (`service`), and simulations of the real log
//! (`sim::watch_trace`).

use firnfs::FsError;
use firnfs::clean::{Candidate, Policy, Terms};
use firnfs::lfs::watch::{SegmentState, WatchedSegment};
use firnfs::lfs::{Geometry, Lfs, LogKind};
use firnfs::vfs::{Frozen, Vfs};
use firnfs_format::TimeNs;
use firnfs_watch::map::{Cell, State, Tracker};
use firnfs_watch::tick::{
    self, BUCKETS, Counters, DAMAGE_MAX, Marks, SEGMENTS_MAX, Space, Tick, VICTIMS_MAX, Victim, WOULD_MAX,
    Would,
};

const NS_PER_S: i64 = 1_000_000_000;

/// What the last look at the segments found.
#[derive(Default)]
pub struct Look {
    tracker: Tracker,
    segments_in_use: u64,
    live_bytes: u64,
    utilisation: [u64; BUCKETS],
    candidates: Vec<Candidate>,
}

/// The part of a tick that the file system knows without its segments.
pub fn of_vfs(vfs: &Vfs<Lfs>, taken: u64, now: TimeNs) -> Tick {
    let space = vfs.statfs();
    let space = Space {
        total_bytes: space.total_bytes,
        free_bytes: space.free_bytes,
        inodes_used: space.inodes_used,
    };
    Tick {
        read_only: vfs.read_only().map(str::to_owned),
        is_frozen: vfs.frozen() != Frozen::No,
        space,
        ..of_store(vfs.store(), taken, now)
    }
}

/// As many as a pass takes: 16, but no more than 16 MiB of segments.
fn victims_of_a_pass(segment_bytes: u64) -> usize {
    ((16 << 20) / segment_bytes.max(1)).max(2) as usize
}

impl Look {
    /// Takes a look; `leaf` gives the segments of one leaf of the usage table, none past the last one.
    ///
    /// # Errors
    /// Those of `leaf`; `Invalid` if there are too many segments.
    pub fn take(
        &mut self,
        geometry: &Geometry,
        leaf: &mut dyn FnMut(u64) -> Result<Vec<WatchedSegment>, FsError>,
    ) -> Result<(), FsError> {
        if geometry.segments > SEGMENTS_MAX {
            return Err(FsError::Invalid("the volume has too many segments to be watched"));
        }
        self.tracker.resize(geometry.segments);
        (self.segments_in_use, self.live_bytes, self.utilisation) = (0, 0, [0; BUCKETS]);
        self.candidates.clear();
        for number in 0.. {
            let segments = leaf(number)?;
            if segments.is_empty() {
                break;
            }
            for segment in &segments {
                self.count(segment, geometry.segment_bytes);
            }
        }
        Ok(())
    }

    /// Adds what the look found to a tick: the segments that changed since a revision, and what policies would take.
    pub fn fill(&self, tick: Tick, revision: u64, now: TimeNs, policies: &[Policy], terms: &Terms) -> Tick {
        let most = WOULD_MAX.min(victims_of_a_pass(u64::from(tick.volume.segment_bytes)));
        let would = policies.iter().map(|policy| Would {
            policy: policy.to_string(),
            victims: policy
                .choose(self.candidates.iter().copied(), terms, most)
                .iter()
                .map(|candidate| victim(candidate, now))
                .collect(),
        });
        Tick {
            segments_in_use: self.segments_in_use,
            live_bytes: self.live_bytes,
            utilisation: self.utilisation,
            map: self.changes_since(revision, now),
            would: would.collect(),
            ..tick
        }
    }

    /// The segments that changed since a revision.
    pub fn changes_since(&self, revision: u64, now: TimeNs) -> tick::MapUpdate {
        self.tracker.since(revision, seconds(now))
    }

    fn count(&mut self, watched: &WatchedSegment, segment_bytes: u32) {
        let usage = &watched.usage;
        if usage.in_use {
            let live_bytes = u64::from(usage.live_bytes);
            self.segments_in_use += 1;
            self.live_bytes += live_bytes;
            self.utilisation[tick::bucket(live_bytes, u64::from(segment_bytes))] += 1;
        }
        self.candidates.extend(watched.candidate);
        let state = match watched.state {
            SegmentState::Clean => State::Clean,
            SegmentState::Waiting => State::Waiting,
            SegmentState::Closed => State::Closed,
            SegmentState::Head => State::Head,
            SegmentState::Next => State::Next,
            SegmentState::Victim => State::Victim,
            SegmentState::Emptied => State::Emptied,
            SegmentState::Damaged => State::Damaged,
        };
        let cell = if usage.in_use {
            Cell::new(state, usage.log, usage.live_bytes, segment_bytes, seconds(usage.written))
        } else {
            Cell { state, ..Cell::default() }
        };
        self.tracker.note(watched.segment.0, cell);
    }
}

/// The part of a tick that the store knows.
fn of_store(lfs: &Lfs, taken: u64, now: TimeNs) -> Tick {
    let (geometry, counters, marks) = (lfs.geometry(), lfs.counters(), lfs.marks());
    let content_bytes = counters.log_kind_bytes(LogKind::File);
    let moved_bytes = counters.cleaner_moved_bytes.saturating_add(counters.coalesced_bytes);
    let victims: Vec<Victim> = lfs
        .taken_since(taken)
        .map(|taken| Victim {
            serial: taken.serial,
            why: taken.why.name().to_owned(),
            ..victim(&taken.candidate, taken.at)
        })
        .collect();
    let damage = lfs.quarantined().map(|(thing, why)| format!("{thing} is quarantined: {why}"));
    Tick {
        now_ns: now.0,
        volume: tick::Volume {
            segment_bytes: geometry.segment_bytes,
            segments: geometry.segments,
            policy: lfs.options().cleaning_policy.to_string(),
            ..tick::Volume::default()
        },
        marks: Marks {
            ready: marks.ready,
            waiting: marks.waiting,
            reserve: marks.reserve,
            low: marks.low,
            high: marks.high,
            idle_target: marks.idle_target,
        },
        counters: Counters {
            user_bytes: counters.user_bytes,
            log_bytes: counters.log_bytes,
            metadata_bytes: counters.new_bytes().saturating_sub(content_bytes.saturating_sub(moved_bytes)),
            moved_bytes,
            upkeep_bytes: counters.log_bytes - counters.new_bytes(),
            read_bytes: counters.cleaner_read_bytes,
            checkpoints: counters.checkpoints,
            cleaned: counters.segments_cleaned,
            cleaned_on_demand: counters.segments_cleaned_on_demand,
            emptied: counters.segments_cleaned_empty,
        },
        damage: damage.take(DAMAGE_MAX).collect(),
        taken: lfs.taken_so_far(),
        victims: victims.into_iter().take(VICTIMS_MAX).collect(),
        ..Tick::default()
    }
}

fn victim(candidate: &Candidate, at: TimeNs) -> Victim {
    let age_ns = at.0.saturating_sub(candidate.written.0).max(0) as u64;
    Victim {
        segment: candidate.segment.0,
        live_bytes: candidate.live_bytes,
        age_ms: age_ns / 1_000_000,
        ..Victim::default()
    }
}

fn seconds(time: TimeNs) -> i64 {
    time.0.div_euclid(NS_PER_S)
}
