//! A simulation that is watched: the same engine as [`simulate()`](super::simulate()), stopped after each stretch of writes for
//! a look at all segments.
//!
//! Invariant: looking changes nothing; the writes, and what the cleaner takes, are those of an unwatched run with the same setup.

use super::disk::State;
use super::engine::{Engine, Sorter};
use super::scheme::PolicyName;
use super::simulate::{Setup, Size};
use super::workload::Stream;
use crate::error::LabError;
use firnfs::clean::{Candidate, Policy};

/// Operations between two looks at the stream.
const CHUNK: usize = 1024;

/// What is being done with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Nothing is in it.
    Clean,
    /// A log writes to it.
    Head,
    /// It is full.
    Closed,
}

/// A segment at a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentLook {
    /// What is being done with it.
    pub state: Use,
    /// Its log.
    pub log: u8,
    /// Live blocks; in a head also those that are still to be written.
    pub live_blocks: u32,
    /// When its last block was written, in blocks written by users.
    pub written: u32,
}

/// Counts since the simulation began, the filling of the volume left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Blocks written by users.
    pub new: u64,
    /// Blocks moved by the cleaner.
    pub moved: u64,
    /// Blocks read by the cleaner.
    pub read: u64,
    /// Segments cleaned, excluding empty ones.
    pub cleaned: u64,
    /// Segments that had become empty by themselves.
    pub emptied: u64,
}

/// See the module's head.
pub struct Watched {
    engine: Engine,
    stream: Stream,
    totals: Totals,
    live_blocks: u32,
}

impl Watched {
    /// Fills the volume.
    ///
    /// # Errors
    /// The disk cannot be set up as requested, or the placement looks ahead: an oracle needs to know the whole run.
    pub fn new(setup: &Setup) -> Result<Self, LabError> {
        let size = Size::of(setup)?;
        let Some(placement) = setup.placement.placement() else {
            return Err(LabError::Setup("an oracle cannot be watched: it knows how the run ends".into()));
        };
        let policy = setup.policy.for_volume(size.live_blocks);
        let sorter = Sorter::Placement(placement);
        let mut engine =
            Engine::new(size.segments, setup.segment_blocks, size.numbers, policy, sorter, setup.regime);
        let mut stream = Stream::new(&setup.workload.workload, size.live_blocks, setup.seed);
        engine.run(&stream.initial());
        engine.take_tally();
        engine.taken = Some(Vec::new());
        Ok(Self { engine, stream, totals: Totals::default(), live_blocks: size.live_blocks })
    }

    /// Live blocks of the volume when it is full.
    #[must_use]
    pub fn live_blocks(&self) -> u32 {
        self.live_blocks
    }

    /// Carries out that many more operations of users.
    pub fn run(&mut self, operations: u64) {
        let mut ops = Vec::with_capacity(CHUNK);
        let mut left = operations;
        while left > 0 {
            self.stream.fill(&mut ops, CHUNK.min(left as usize));
            self.engine.run(&ops);
            left = left.saturating_sub(ops.len() as u64);
        }
        let tally = self.engine.take_tally();
        self.totals.new += tally.new;
        self.totals.moved += tally.moved;
        self.totals.read += tally.read;
        self.totals.cleaned += tally.cleaned;
        self.totals.emptied += tally.emptied;
    }

    /// Blocks written by users, the filling included: the simulation's clock.
    #[must_use]
    pub fn now(&self) -> u32 {
        self.engine.disk.now
    }

    /// Counts so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Clean segments.
    #[must_use]
    pub fn clean(&self) -> u64 {
        self.engine.disk.clean.len() as u64
    }

    /// All segments, by number.
    pub fn segments(&self) -> impl Iterator<Item = SegmentLook> + '_ {
        let disk = &self.engine.disk;
        disk.segments.iter().zip(&disk.live).map(|(segment, &live_blocks)| SegmentLook {
            state: match segment.state {
                State::Clean => Use::Clean,
                State::Open => Use::Head,
                State::Closed => Use::Closed,
            },
            log: segment.log,
            live_blocks,
            written: segment.written,
        })
    }

    /// The victims since the last call, with the clock when each was taken.
    pub fn take_victims(&mut self) -> Vec<(u32, Candidate)> {
        self.engine.taken.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What a policy would take now.
    #[must_use]
    pub fn would_take(&self, policy: PolicyName, count: usize) -> Vec<Candidate> {
        let policy: Policy = policy.for_volume(self.live_blocks);
        self.engine.would_take(policy, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cleaning::Regime;
    use std::collections::BTreeSet;

    fn setup() -> Setup {
        Setup {
            workload: "hot-cold".parse().unwrap(),
            policy: PolicyName::default(),
            placement: "split".parse().unwrap(),
            utilisation: 0.75,
            segments: 100,
            segment_blocks: 64,
            regime: Regime::STEADY,
            seed: 1,
            precision: 0.005,
            max_volumes: 10.0,
        }
    }

    #[test]
    fn looking_changes_nothing() {
        let (mut seldom, mut often) = (Watched::new(&setup()).unwrap(), Watched::new(&setup()).unwrap());
        seldom.run(20_000);
        for _ in 0..20 {
            often.run(1000);
            let _looked = (often.segments().count(), often.would_take(PolicyName::default(), 3));
        }
        assert_eq!(seldom.totals(), often.totals());
        assert!(seldom.segments().eq(often.segments()));
        assert!(seldom.totals().moved > 0);
    }

    #[test]
    fn every_cleaned_segment_is_named_and_it_is_the_one_that_the_policy_would_take() {
        let mut watched = Watched::new(&setup()).unwrap();
        watched.run(10_000);
        watched.take_victims();
        let before = watched.totals().cleaned;
        let mut foreseen = 0;
        for _ in 0..2000 {
            let would: BTreeSet<u64> =
                watched.would_take(PolicyName::default(), 3).iter().map(|c| c.segment.0).collect();
            watched.run(1);
            let taken = watched.take_victims();
            foreseen += taken.first().map_or(0, |(_, first)| usize::from(would.contains(&first.segment.0)));
        }
        let cleaned = watched.totals().cleaned - before;
        assert!(cleaned > 20 && foreseen > 5, "{cleaned} cleaned, {foreseen} foreseen");
        let live: u32 = watched.segments().filter(|s| s.state == Use::Closed).map(|s| s.live_blocks).sum();
        assert!(live <= watched.live_blocks());
    }

    #[test]
    fn an_oracle_is_refused() {
        let setup = Setup { placement: "oracle".parse().unwrap(), ..setup() };
        assert!(Watched::new(&setup).err().unwrap().to_string().contains("cannot be watched"));
    }
}
