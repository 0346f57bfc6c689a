//! The daemon's side of `firn watch`: one operation of the control socket that answers with a [`Tick`].
//!
//! All watchers of a mount share one look at its segments, at most one each [`LOOK_LEAST`] and never more than a hundredth of the
//! time; in between they get the segments of the last look, and present counts. The daemon remembers no watcher. It
//! reads the segments a leaf of the usage table at a time, so operations of users go on in between, and it runs the policies
//! that are asked what they would take without holding the volume. Caller: `mounting::operations`.

use firnfs::FsError;
use firnfs::clean::{Candidate, Policy};
use firnfs::lfs::watch::{SegmentState, WatchedSegment};
use firnfs::lfs::{Lfs, LogKind};
use firnfs_format::TimeNs;
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_volume::Volume;
use firnfs_watch::map::{Cell, State, Tracker};
use firnfs_watch::tick::{
    self, BUCKETS, Counters, DAMAGE_MAX, Marks, POLICIES_MAX, Request, SEGMENTS_MAX, Space, Stalls, Tick,
    VICTIMS_MAX, Victim, WOULD_MAX, Would,
};
use parking_lot::Mutex;
use serde::Deserialize;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Answers with a [`Tick`].
pub const WATCH_OP: &str = "watch";

/// However many watch, and however often.
const LOOK_LEAST: Duration = Duration::from_millis(100);
/// After a look, this many times as long passes without one.
const REST_FACTOR: u32 = 100;
const NS_PER_S: i64 = 1_000_000_000;

/// What the last look at the segments found.
#[derive(Default)]
struct Look {
    /// When the next one may be, if there was one.
    next: Option<Instant>,
    tracker: Tracker,
    segments_in_use: u64,
    live_bytes: u64,
    utilisation: [u64; BUCKETS],
    candidates: Vec<Candidate>,
}

struct Service {
    volume: Weak<Volume<Lfs>>,
    look: Mutex<Look>,
}

/// Registers the operation. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>) {
    let service = Service { volume, look: Mutex::default() };
    let help = "state, counts, marks, victims and changed segments since 'revision' and 'taken'; what 'policies' would take";
    registry.register(WATCH_OP, help, move |request| {
        let invalid = |why: String| OpError::new(ErrorKind::InvalidArgument, why);
        let request = Request::deserialize(request).map_err(|e| invalid(e.to_string()))?;
        let policies = policies(&request).map_err(invalid)?;
        let closing = || OpError::new(ErrorKind::Closing, "the volume is being closed");
        let volume = service.volume.upgrade().ok_or_else(closing)?;
        let tick = service.tick(&volume, &request, &policies).map_err(|e| OpError::from(&e))?;
        serde_json::to_value(tick).map_err(|e| OpError::new(ErrorKind::Failed, e.to_string()))
    });
}

fn policies(request: &Request) -> Result<Vec<Policy>, String> {
    if request.policies.len() > POLICIES_MAX {
        return Err(format!("at most {POLICIES_MAX} policies can be asked at a time"));
    }
    request.policies.iter().map(|name| name.parse()).collect()
}

impl Service {
    fn tick(&self, volume: &Volume<Lfs>, request: &Request, policies: &[Policy]) -> Result<Tick, FsError> {
        let mut look = self.look.lock();
        let begin = Instant::now();
        if look.next.is_none_or(|next| begin >= next) {
            look.look(volume)?;
            look.next = Some(next_look(begin, begin.elapsed()));
        }
        let stalls = volume.stalls();
        let (tick, now, terms) = volume.run_quietly(|vfs, now| {
            let space = vfs.statfs();
            let read_only = vfs.read_only().map(str::to_owned);
            let lfs = vfs.store();
            let space = Space {
                total_bytes: space.total_bytes,
                free_bytes: space.free_bytes,
                inodes_used: space.inodes_used,
            };
            let tick = Tick { read_only, space, ..of_store(lfs, request.taken, now) };
            Ok((tick, now, lfs.next_terms(now)))
        })?;
        let segment_bytes = u64::from(tick.volume.segment_bytes);
        let would = policies.iter().map(|policy| Would {
            policy: policy.to_string(),
            victims: policy
                .choose(
                    look.candidates.iter().copied(),
                    &terms,
                    WOULD_MAX.min(victims_of_a_pass(segment_bytes)),
                )
                .iter()
                .map(|candidate| victim(candidate, now))
                .collect(),
        });
        Ok(Tick {
            segments_in_use: look.segments_in_use,
            live_bytes: look.live_bytes,
            utilisation: look.utilisation,
            stalls: Stalls {
                count: stalls.count,
                total_ns: stalls.total_ns,
                longest_ns: stalls.longest_ns,
                p50_ns: stalls.p50_ns,
                p99_ns: stalls.p99_ns,
            },
            map: look.tracker.since(request.revision, seconds(now)),
            would: would.collect(),
            ..tick
        })
    }
}

fn next_look(begin: Instant, took: Duration) -> Instant {
    begin + LOOK_LEAST.max(took.saturating_mul(REST_FACTOR))
}

/// As many as a pass takes: 16, but no more than 16 MiB of segments.
fn victims_of_a_pass(segment_bytes: u64) -> usize {
    ((16 << 20) / segment_bytes.max(1)).max(2) as usize
}

impl Look {
    fn look(&mut self, volume: &Volume<Lfs>) -> Result<(), FsError> {
        let geometry = volume.run_quietly(|vfs, _| Ok(vfs.store().geometry()))?;
        if geometry.segments > SEGMENTS_MAX {
            return Err(FsError::Invalid("the volume has too many segments to be watched"));
        }
        self.tracker.resize(geometry.segments);
        (self.segments_in_use, self.live_bytes, self.utilisation) = (0, 0, [0; BUCKETS]);
        self.candidates.clear();
        for leaf in 0.. {
            let segments = volume.run_quietly(|vfs, _| vfs.store_mut().watch_leaf(leaf))?;
            if segments.is_empty() {
                break;
            }
            for segment in &segments {
                self.count(segment, geometry.segment_bytes);
            }
        }
        Ok(())
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
            metadata_bytes: counters.log_bytes.saturating_sub(content_bytes),
            moved_bytes: counters.cleaner_moved_bytes.saturating_add(counters.coalesced_bytes),
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

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
