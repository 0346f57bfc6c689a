//! Users' writes and the cleaner, on a [`Disk`].
//!
//! The cleaner starts when [`Regime::low`] clean segments are left and a log needs one, and stops as [`Until`] says. It takes
//! victims in batches, holds their live blocks in memory, frees the victims, and writes the blocks to their logs; so it needs
//! only one clean segment for each log.

use super::disk::{Disk, MAX_LOGS, Segment, State, Survivor};
use super::histogram::Histogram;
use super::oracle::Oracle;
use super::workload::{Op, below};
use firnfs::clean::{BlockFacts, Candidate, Cleaned, Placement, Policy, Terms, Writer};
use firnfs_format::{SegmentId, TimeNs};
use rand_pcg::Pcg64;
use std::fmt;

/// When the cleaner stops. The same batch size means different things under the two. With one victim at a time until a segment
/// is clean, it takes about 1/(1-u) victims in a row, and their survivors fill segments of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// When [`Regime::high`] whole segments are clean (Sprite LFS, section 3.4).
    Clean,
    /// After one batch, if the log that needs a segment can then continue; it may share its segment with survivors.
    SinglePass,
}

/// The order in which the victims of a batch are read. Their live blocks are written in that order unless they are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimOrder {
    /// The policy's, best first.
    Policy,
    /// A random one.
    Random,
    /// By segment number. Clean segments are reused in the order in which they were freed, so neighbours were written at about
    /// the same time: this order implicitly sorts blocks by age.
    Number,
}

/// When and how much the cleaner cleans.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Regime {
    /// Clean segments at which it starts; at least the number of logs plus one if there are several.
    pub low: u32,
    /// Clean segments at which it stops, if it cleans [`Until::Clean`].
    pub high: u32,
    /// When it stops.
    pub until: Until,
    /// Segments cleaned at a time.
    pub batch: u32,
    /// The order of the victims of a batch.
    pub victim_order: VictimOrder,
    /// Whether a batch's live blocks are written oldest first (Sprite LFS, section 3.5: age sort).
    pub age_sort: bool,
    /// Whether they are written in the order of their numbers, as a file system does with the blocks of a file. Blocks with
    /// adjacent numbers are often written equally often.
    pub number_sort: bool,
    /// Whether live blocks go into the dead places of the oldest segments, as far as there are any, instead of a log (Sprite
    /// LFS, figure 2: threading). Each cleaned segment gains a whole one, at the price of small writes.
    pub plug: bool,
    /// Segments that do not count for the utilisation of the disk, because they are always clean.
    pub reserve: u32,
}

impl Regime {
    /// A few clean segments for the open logs, and each segment cleaned when it is needed: the assumption of the theory.
    pub const STEADY: Self = Self {
        low: 7,
        high: 8,
        until: Until::Clean,
        batch: 1,
        victim_order: VictimOrder::Policy,
        age_sort: false,
        number_sort: false,
        plug: false,
        reserve: 8,
    };

    /// The regime with clean segments for this many logs.
    #[must_use]
    pub fn for_logs(self, logs: u8) -> Self {
        let more = (u32::from(logs) + 1).saturating_sub(self.low);
        Self { low: self.low + more, high: self.high + more, reserve: self.reserve + more, ..self }
    }

    /// Sprite LFS's simulator: writes until no segment is clean, then cleans until `high` are.
    #[must_use]
    pub const fn sprite(high: u32, batch: u32, age_sort: bool) -> Self {
        Self { low: 0, high, batch, age_sort, reserve: 0, ..Self::STEADY }
    }

    /// Writes until no segment is clean, then cleans one batch and continues.
    #[must_use]
    pub const fn single_pass(batch: u32, age_sort: bool) -> Self {
        Self { until: Until::SinglePass, ..Self::sprite(1, batch, age_sort) }
    }
}

/// For people: `4 at a time until 4 are clean, moved oldest first`.
impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let high = self.high.max(self.low + 1);
        match self.until {
            Until::Clean => write!(f, "{} at a time until {high} are clean", self.batch)?,
            Until::SinglePass => write!(f, "{} at a time, single pass", self.batch)?,
        }
        let order = match (self.age_sort, self.number_sort, self.victim_order) {
            (true, ..) => "moved oldest first",
            (_, true, _) => "moved in the order of the file",
            (.., VictimOrder::Policy) => "victims in the policy's order",
            (.., VictimOrder::Random) => "victims in random order",
            (.., VictimOrder::Number) => "victims by segment number",
        };
        write!(f, ", {order}")
    }
}

/// Number of segments to plug that are selected together.
const PLUGGED_AT_A_TIME: usize = 16;

/// Decides the log of a block.
pub(super) enum Sorter {
    Placement(Box<dyn Placement>),
    Oracle(Oracle),
}

/// Counts since they were last taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Blocks written by users.
    pub new: u64,
    /// Blocks moved by the cleaner.
    pub moved: u64,
    /// Blocks read by the cleaner.
    pub read: u64,
    /// Segments cleaned, excluding empty ones.
    pub cleaned: u64,
    /// Segments reused that had become empty by themselves.
    pub emptied: u64,
    /// Separate writes into dead places.
    pub runs: u64,
    /// Utilisation of the segments cleaned.
    pub victims: Histogram,
    /// Utilisation of all segments when cleaning starts.
    pub at_start: Histogram,
}

/// See the module's head.
pub(super) struct Engine {
    pub disk: Disk,
    policy: Policy,
    sorter: Sorter,
    logs: u8,
    regime: Regime,
    segment_blocks: u32,
    /// The number of blocks that a segment has from a policy's view.
    seen_blocks: u32,
    /// Share of the choices that [`Policy::Greedy`] makes, and how much of the next one is due.
    emptiest_share: f64,
    emptiest_due: f64,
    survivors: Vec<Survivor>,
    /// Draws [`VictimOrder::Random`].
    rng: Pcg64,
    /// Number of choices made.
    turn: u64,
    pub tally: Tally,
    /// The victims and when each was taken, if somebody watches.
    pub taken: Option<Vec<(u32, Candidate)>>,
}

impl Engine {
    /// `blocks`: the largest number of blocks. The regime must fit the number of logs.
    pub fn new(
        segments: u32,
        segment_blocks: u32,
        blocks: u32,
        policy: Policy,
        sorter: Sorter,
        regime: Regime,
    ) -> Self {
        let (logs, sorts_by_age) = match &sorter {
            Sorter::Placement(placement) => (placement.logs(), placement.sorts_by_age()),
            Sorter::Oracle(oracle) => (oracle.logs(), false),
        };
        let regime = Regime { age_sort: regime.age_sort || sorts_by_age, ..regime };
        assert!(usize::from(logs) <= MAX_LOGS && (logs == 1 || u32::from(logs) < regime.low));
        Self {
            disk: Disk::new(segments, segment_blocks, blocks, policy == Policy::Greedy),
            policy,
            sorter,
            logs,
            regime,
            segment_blocks,
            seen_blocks: segment_blocks,
            emptiest_share: 0.0,
            emptiest_due: 0.0,
            survivors: Vec::new(),
            rng: firnfs_sim::seeded(1, "order of victims"),
            turn: 0,
            tally: Tally::default(),
            taken: None,
        }
    }

    /// Policies then see the live share of segments with this many blocks; summaries take some of them.
    pub fn seen_as(self, seen_blocks: u32) -> Self {
        Self { seen_blocks, ..self }
    }

    /// In this share of all choices, 0 to 1, takes the emptiest segments instead of the policy's.
    pub fn taking_emptiest(self, share: f64) -> Self {
        Self { emptiest_share: share, ..self }
    }

    /// Carries out the users' operations.
    pub fn run(&mut self, ops: &[Op]) {
        // One log needs no facts about its blocks; that is worth a loop of its own.
        if self.logs == 1 { self.run_with::<false>(ops) } else { self.run_with::<true>(ops) }
    }

    fn run_with<const SORTED: bool>(&mut self, ops: &[Op]) {
        for op in ops {
            let block = op.block();
            if op.is_delete() {
                self.disk.kill(block);
                continue;
            }
            let log = if SORTED { self.log_for_user(block) } else { 0 };
            self.disk.kill(block);
            if self.disk.is_full(log) && self.disk.clean.len() as u32 <= self.regime.low {
                self.clean::<SORTED>(log);
            }
            self.disk.now += 1;
            self.disk.born[block as usize] = self.disk.now;
            if SORTED {
                self.disk.moves[block as usize] = 0;
            }
            self.disk.append(log, block, self.disk.now);
            self.tally.new += 1;
        }
    }

    fn log_for_user(&mut self, block: u32) -> u8 {
        match &mut self.sorter {
            Sorter::Oracle(oracle) => oracle.log_for_user(block, self.disk.now),
            Sorter::Placement(placement) => {
                let log = self.disk.log_of(block);
                let age = log.map(|_| u64::from(self.disk.now - self.disk.born[block as usize]));
                let moves = self.disk.moves[block as usize];
                placement.log_for(&BlockFacts { writer: Writer::User, age, log, moves })
            }
        }
    }

    /// Cleans because `log` needs a segment.
    fn clean<const SORTED: bool>(&mut self, log: u8) {
        self.note_utilisations();
        let high = self.regime.high.max(self.regime.low + 1);
        loop {
            self.pass::<SORTED>();
            let clean = self.disk.clean.len() as u32;
            let is_enough = match self.regime.until {
                Until::Clean => clean >= high,
                Until::SinglePass => clean > self.regime.low || !self.disk.is_full(log),
            };
            if is_enough {
                return;
            }
        }
    }

    /// Cleans one batch.
    fn pass<const SORTED: bool>(&mut self) {
        let mut victims = Vec::with_capacity(self.regime.batch as usize);
        self.choose(&mut victims);
        assert!(!victims.is_empty(), "the disk is not full, so a segment has dead blocks");
        self.put_in_order(&mut victims);
        for &segment in &victims {
            self.take_out(segment);
        }
        if self.regime.age_sort {
            self.survivors.sort_by_key(|s| s.born);
        }
        if self.regime.number_sort {
            self.survivors.sort_by_key(|s| s.block);
        }
        if self.regime.plug {
            self.plug_holes();
        }
        self.write_survivors::<SORTED>();
    }

    fn put_in_order(&mut self, victims: &mut [u32]) {
        match self.regime.victim_order {
            VictimOrder::Policy => {}
            VictimOrder::Number => victims.sort_unstable(),
            VictimOrder::Random => {
                for i in (1..victims.len()).rev() {
                    victims.swap(i, below(&mut self.rng, i as u32 + 1) as usize);
                }
            }
        }
    }

    fn plug_holes(&mut self) {
        let segment_blocks = self.segment_blocks;
        let terms = Terms::new(segment_blocks, TimeNs(i64::from(self.disk.now)), 1);
        while !self.survivors.is_empty() {
            // The oldest: the dead blocks there are the least likely to be joined by the rest.
            let with_holes = self.candidates().filter(|c| c.live_bytes < segment_blocks);
            let targets = Policy::Fifo.choose(with_holes, &terms, PLUGGED_AT_A_TIME);
            if targets.is_empty() {
                return;
            }
            for target in targets {
                self.tally.runs += self.disk.plug(target.segment.0 as u32, &mut self.survivors);
            }
        }
    }

    fn choose(&mut self, victims: &mut Vec<u32>) {
        victims.clear();
        let batch = self.regime.batch as usize;
        if let Some(buckets) = &mut self.disk.buckets {
            // The choice of `Policy::Greedy`, without examining every segment.
            while let Some(segment) = buckets.emptiest().filter(|_| victims.len() < batch) {
                buckets.remove(segment, self.disk.live[segment as usize]);
                victims.push(segment);
            }
            for &segment in victims.iter() {
                buckets.insert(segment, self.disk.live[segment as usize]);
            }
            return;
        }
        let terms = Terms::new(self.seen_blocks, TimeNs(i64::from(self.disk.now)), 1).with_turn(self.turn);
        self.turn += 1;
        self.emptiest_due += self.emptiest_share;
        let policy = if self.emptiest_due >= 1.0 { Policy::Greedy } else { self.policy };
        self.emptiest_due -= self.emptiest_due.floor();
        let chosen = policy.choose(self.candidates(), &terms, batch);
        victims.extend(chosen.iter().map(|c| c.segment.0 as u32));
    }

    /// Closed segments. A block counts as one byte, and one block written by users as one nanosecond.
    fn candidates(&self) -> impl Iterator<Item = Candidate> + Clone + '_ {
        let segments = self.disk.segments.iter().zip(&self.disk.live).enumerate();
        segments
            .filter(|(_, (segment, _))| segment.state == State::Closed)
            .map(|(number, (segment, &live))| candidate(number, segment, live))
    }

    /// What a policy would take now.
    pub fn would_take(&self, policy: Policy, count: usize) -> Vec<Candidate> {
        let terms = Terms::new(self.seen_blocks, TimeNs(i64::from(self.disk.now)), 1).with_turn(self.turn);
        policy.choose(self.candidates(), &terms, count)
    }

    fn take_out(&mut self, segment: u32) {
        let entry = self.disk.segments[segment as usize];
        let live = self.disk.live[segment as usize];
        self.tally.cleaned += 1;
        self.tally.read += u64::from(self.segment_blocks);
        self.tally.moved += u64::from(live);
        self.tally.victims.add(live, self.segment_blocks);
        if let Some(taken) = &mut self.taken {
            taken.push((self.disk.now, candidate(segment as usize, &entry, live)));
        }
        if let Sorter::Placement(placement) = &mut self.sorter {
            placement
                .segment_cleaned(&Cleaned { log: entry.log, age: u64::from(self.disk.now - entry.written) });
        }
        self.disk.evacuate(segment, &mut self.survivors);
    }

    fn write_survivors<const SORTED: bool>(&mut self) {
        let survivors = std::mem::take(&mut self.survivors);
        for survivor in &survivors {
            let block = survivor.block as usize;
            let log = if SORTED {
                let moves = self.disk.moves[block];
                self.disk.moves[block] = moves.saturating_add(1);
                self.log_for_cleaner(survivor, moves)
            } else {
                0
            };
            self.disk.append(log, survivor.block, survivor.born);
        }
        self.survivors = survivors;
        self.survivors.clear();
    }

    fn log_for_cleaner(&self, survivor: &Survivor, moves: u8) -> u8 {
        match &self.sorter {
            Sorter::Oracle(oracle) => oracle.log_for(survivor.block, self.disk.now),
            Sorter::Placement(placement) => placement.log_for(&BlockFacts {
                writer: Writer::Cleaner,
                age: Some(u64::from(self.disk.now - survivor.born)),
                log: Some(survivor.log),
                moves,
            }),
        }
    }

    fn note_utilisations(&mut self) {
        // If segments are cleaned one after the other, this would be most of the work; a sample suffices.
        if self.regime.high <= self.regime.low + 1 && self.tally.cleaned > 0 {
            return;
        }
        for (segment, &live) in self.disk.segments.iter().zip(&self.disk.live) {
            if segment.state == State::Closed {
                self.tally.at_start.add(live, self.segment_blocks);
            }
        }
    }

    /// Returns the counts since the last call.
    pub fn take_tally(&mut self) -> Tally {
        let mut tally = std::mem::take(&mut self.tally);
        tally.emptied = std::mem::take(&mut self.disk.emptied);
        tally
    }
}

/// The facts of a segment; a block counts as one byte, and one block written by users as one nanosecond.
fn candidate(number: usize, segment: &Segment, live_blocks: u32) -> Candidate {
    Candidate {
        segment: SegmentId(number as u64),
        live_bytes: live_blocks,
        written: TimeNs(i64::from(segment.written)),
        youngest: TimeNs(i64::from(segment.youngest)),
        log: segment.log,
    }
}
