//! What a watcher knows: the map, the rates of the last minute, victims, events. It adds up ticks, from a daemon or a recording.
//!
//! Rates are per second of the ticks' own clock, so a recording and a simulation show theirs. Invariant: histories have at most
//! [`HISTORY`] entries, victims and events at most [`KEPT`], the trend some 600.

use crate::events::{Event, events_between};
use crate::map::{BadUpdate, Map};
use crate::tick::{Tick, Victim};
use crate::trend::Trend;
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Rates that are kept, whatever time they span: a minute of ticks a second.
pub const HISTORY: usize = 60;
/// Victims and events that are kept.
pub const KEPT: usize = 256;
/// Write amplification is that of this many ticks: commits come in bursts.
const SMOOTH: usize = 10;

/// What happened between two ticks.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Rates {
    /// Between them, in seconds.
    pub seconds: f64,
    /// Content that users wrote, in bytes a second.
    pub user: f64,
    /// What cleaning and coalescing wrote, metadata included, in bytes a second.
    pub cleaner: f64,
    /// Live bytes that they moved, a second.
    pub moved: f64,
    /// The part of the log that users caused and that is no content of files, in bytes a second.
    pub metadata: f64,
    /// Everything written to the log, in bytes a second.
    pub log: f64,
    /// Bytes that the cleaner read, a second.
    pub cleaner_read: f64,
    /// Log bytes for each byte that users wrote, over the last ten ticks; null if they wrote none.
    pub write_amplification: Option<f64>,
    /// Segments that the cleaner emptied.
    pub cleaned: u64,
    /// Segments that checkpoints found empty.
    pub found_empty: u64,
    /// Requests a second.
    pub requests: f64,
    /// Mean time of a request in the daemon, in milliseconds; null if there was none.
    pub request_ms: Option<f64>,
    /// Operations that waited for room and went on.
    pub stalls: u64,
    /// Their mean wait, in milliseconds; null if there was none.
    pub stall_ms: Option<f64>,
    /// Used space, in bytes a second; negative while it shrinks.
    pub growth: f64,
    /// Clean segments that may be written now.
    pub ready: u64,
}

/// Latency of one kind of requests between the last two ticks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Latency {
    /// The kind.
    pub name: String,
    /// Requests a second.
    pub rate: f64,
    /// Mean time in the daemon, in milliseconds.
    pub mean_ms: f64,
    /// Failed.
    pub errors: u64,
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// All segments.
    pub map: Map,
    /// The newest tick.
    pub last: Option<Tick>,
    /// The newest last.
    pub history: VecDeque<Rates>,
    /// Latency by kind of request, the most time first.
    pub latency: Vec<Latency>,
    /// Victims, the newest last.
    pub victims: VecDeque<Victim>,
    /// Victims by live share since the watch began; those of the first tick were taken before.
    pub victim_shares: [u64; crate::tick::BUCKETS],
    /// The newest last.
    pub events: VecDeque<Event>,
    /// Segments that the cleaner took between the last two ticks.
    pub lit: BTreeSet<u64>,
    counts: VecDeque<(u64, u64)>,
    trend: Trend,
    taken: u64,
}

impl State {
    /// The revision of the map and the last victim, for the next request.
    #[must_use]
    pub fn position(&self) -> (u64, u64) {
        (self.map.revision(), self.taken)
    }

    /// Adds a tick.
    ///
    /// # Errors
    /// Its changes do not fit the map; the state stays as it was.
    pub fn add(&mut self, tick: Tick) -> Result<(), BadUpdate> {
        self.map.apply(&tick.map, tick.volume.segments, seconds(tick.now_ns))?;
        let last = self.last.take();
        self.add_victims(&tick, last.is_none());
        match last {
            Some(last) => self.add_rates(&last, &tick),
            None => self.counts.push_back((tick.counters.user_bytes, tick.counters.log_bytes)),
        }
        self.trend.add(tick.now_ns, tick.space.total_bytes.saturating_sub(tick.space.free_bytes));
        self.last = Some(tick);
        Ok(())
    }

    /// Adds a further part of the map to the last tick, if that had more changes than fit.
    ///
    /// # Errors
    /// As [`State::add`].
    pub fn add_part(&mut self, tick: &Tick) -> Result<(), BadUpdate> {
        self.map.apply(&tick.map, tick.volume.segments, seconds(tick.now_ns))
    }

    fn add_rates(&mut self, last: &Tick, tick: &Tick) {
        self.counts.push_back((tick.counters.user_bytes, tick.counters.log_bytes));
        if self.counts.len() > SMOOTH + 1 {
            self.counts.pop_front();
        }
        let rates = Rates { write_amplification: self.amplification(), ..rates_between(last, tick) };
        push(&mut self.history, rates, HISTORY);
        self.latency = latency_between(last, tick);
        for event in events_between(last, tick, &rates) {
            push(&mut self.events, event, KEPT);
        }
    }

    fn amplification(&self) -> Option<f64> {
        let (first, last) = (self.counts.front()?, self.counts.back()?);
        let user = last.0.saturating_sub(first.0);
        (user > 0).then(|| last.1.saturating_sub(first.1) as f64 / user as f64)
    }

    /// A watcher that begins is told victims of before, too.
    fn add_victims(&mut self, tick: &Tick, is_first: bool) {
        let segment_bytes = u64::from(tick.volume.segment_bytes);
        self.lit.clear();
        for victim in tick.victims.iter().filter(|victim| victim.serial > self.taken) {
            if !is_first {
                self.victim_shares[crate::tick::bucket(u64::from(victim.live_bytes), segment_bytes)] += 1;
                self.lit.insert(victim.segment);
            }
            push(&mut self.victims, victim.clone(), KEPT);
        }
        self.taken = tick.taken;
    }

    /// The newest rates.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.history.back().copied().unwrap_or_default()
    }

    /// Share of the space that users have filled, 0 to 1.
    #[must_use]
    pub fn fullness(&self) -> f64 {
        let Some(tick) = &self.last else { return 0.0 };
        let used = tick.space.total_bytes.saturating_sub(tick.space.free_bytes);
        used as f64 / (tick.space.total_bytes as f64).max(1.0)
    }

    /// Seconds until the volume is full if the used space goes on to grow as in the last minute; `None` if it does not grow, or
    /// too little is known. Growth of less than a segment is none: metadata come and go that much in files that are overwritten.
    #[must_use]
    pub fn seconds_to_full(&self) -> Option<f64> {
        let last = self.last.as_ref()?;
        let (seconds, grown) = self.trend.growth()?;
        let grows = grown >= f64::from(last.volume.segment_bytes.max(1));
        grows.then(|| last.space.free_bytes as f64 * seconds / grown)
    }

    /// True if the cleaner took one of these segments between the last two ticks.
    #[must_use]
    pub fn is_lit(&self, segments: Range<u64>) -> bool {
        self.lit.range(segments).next().is_some()
    }
}

fn seconds(now_ns: i64) -> i64 {
    now_ns.div_euclid(1_000_000_000)
}

fn push<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

fn rates_between(last: &Tick, tick: &Tick) -> Rates {
    let seconds = (tick.now_ns.saturating_sub(last.now_ns) as f64 / 1e9).max(1e-3);
    let (was, is) = (&last.counters, &tick.counters);
    let rate = |was: u64, is: u64| is.saturating_sub(was) as f64 / seconds;
    // Recordings of older versions know only what was moved.
    let upkeep = |tick: &Tick| tick.counters.upkeep_bytes.max(tick.counters.moved_bytes);
    let sum = |tick: &Tick| {
        let all = tick.requests.iter();
        all.fold((0_u64, 0_u64), |(n, ns), kind| {
            (n.saturating_add(kind.requests), ns.saturating_add(kind.busy_ns))
        })
    };
    let ((requests_was, busy_was), (requests, busy)) = (sum(last), sum(tick));
    let stalls = tick.stalls.count.saturating_sub(last.stalls.count);
    let used = |tick: &Tick| tick.space.total_bytes.saturating_sub(tick.space.free_bytes) as f64;
    Rates {
        seconds,
        user: rate(was.user_bytes, is.user_bytes),
        cleaner: rate(upkeep(last), upkeep(tick)),
        moved: rate(was.moved_bytes, is.moved_bytes),
        metadata: rate(was.metadata_bytes, is.metadata_bytes),
        log: rate(was.log_bytes, is.log_bytes),
        cleaner_read: rate(was.read_bytes, is.read_bytes),
        write_amplification: None,
        cleaned: is.cleaned.saturating_sub(was.cleaned),
        found_empty: is.emptied.saturating_sub(was.emptied),
        requests: rate(requests_was, requests),
        request_ms: mean_ms(requests.saturating_sub(requests_was), busy.saturating_sub(busy_was)),
        stalls,
        stall_ms: mean_ms(stalls, tick.stalls.total_ns.saturating_sub(last.stalls.total_ns)),
        growth: (used(tick) - used(last)) / seconds,
        ready: tick.marks.ready,
    }
}

fn mean_ms(count: u64, total_ns: u64) -> Option<f64> {
    (count > 0).then(|| total_ns as f64 / count as f64 / 1e6)
}

fn latency_between(last: &Tick, tick: &Tick) -> Vec<Latency> {
    let seconds = (tick.now_ns.saturating_sub(last.now_ns) as f64 / 1e9).max(1e-3);
    let mut kinds: Vec<(u64, Latency)> = Vec::new();
    for kind in &tick.requests {
        let was = last.requests.iter().find(|was| was.name == kind.name);
        let (requests, errors, busy_ns) =
            was.map_or((0, 0, 0), |was| (was.requests, was.errors, was.busy_ns));
        let requests = kind.requests.saturating_sub(requests);
        let busy_ns = kind.busy_ns.saturating_sub(busy_ns);
        let Some(mean_ms) = mean_ms(requests, busy_ns) else { continue };
        let errors = kind.errors.saturating_sub(errors);
        kinds.push((
            busy_ns,
            Latency { name: kind.name.clone(), rate: requests as f64 / seconds, mean_ms, errors },
        ));
    }
    kinds.sort_by_key(|(busy_ns, _)| std::cmp::Reverse(*busy_ns));
    kinds.into_iter().map(|(_, latency)| latency).collect()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
