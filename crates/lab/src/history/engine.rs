//! Users' writes, points and the cleaner.
//!
//! What is held: a version is kept if users see it, or if a retained point lies between its birth and its death. The newest point
//! is always retained, so a version that dies is held if it was born before the newest point; and it goes with the last point that
//! sees it.

use super::log::{Kind, Leaving, Log, NONE};
use super::tables::{Numbers, Remnants};
use crate::cleaning::workload::Op;
use firnfs::clean::{BlockFacts, Cleaned, Placement, Policy, Terms, Writer};
use firnfs_format::TimeNs;
use std::collections::{BTreeMap, VecDeque};

/// A point in time that can be looked at.
struct Point {
    /// In blocks written by users.
    made: u32,
    /// Versions that no later point sees.
    last_seen_by_it: Vec<u32>,
}

/// What a design keeps to find moved blocks.
pub(super) enum Tables {
    /// Without a past nothing is needed.
    None,
    Remnants(Remnants),
    Numbers(Numbers),
}

/// How often things happen.
pub(super) struct Pace {
    /// Blocks that users write between two points; `None`: no points.
    pub point_blocks: Option<u32>,
    /// Blocks of the past at most.
    pub past_max: u64,
    /// Blocks that users write between two commits.
    pub commit_blocks: u32,
    /// Clean segments at which the cleaner starts.
    pub low: usize,
}

/// Counts since they were last taken.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub new: u64,
    pub moved: u64,
    pub moved_past: u64,
    pub table: u64,
}

/// See the module's head.
pub(super) struct Engine {
    pub log: Log,
    pub now: u32,
    pub tally: Tally,
    policy: Policy,
    placement: Box<dyn Placement>,
    pace: Pace,
    pub tables: Tables,
    /// The version of each block that users see.
    present: Vec<u32>,
    points: VecDeque<Point>,
    /// The version of each block of the tables.
    table: BTreeMap<u32, u32>,
    segment_blocks: u32,
    turn: u64,
    /// Blocks that the cleaner moved in all.
    pub moved_ever: u64,
}

impl Engine {
    pub fn new(
        (segments, segment_blocks, blocks): (u32, u32, u32),
        policy: Policy,
        placement: Box<dyn Placement>,
        pace: Pace,
        tables: Tables,
    ) -> Self {
        // One log for the past and one for tables, beside those of the placement.
        let logs = placement.logs() + 2;
        Self {
            log: Log::new(segments, segment_blocks, logs),
            now: 0,
            tally: Tally::default(),
            policy,
            placement,
            pace,
            tables,
            present: vec![NONE; blocks as usize],
            points: VecDeque::new(),
            table: BTreeMap::new(),
            segment_blocks,
            turn: 0,
            moved_ever: 0,
        }
    }

    fn log_of_past(&self) -> u8 {
        self.placement.logs()
    }

    fn log_of_tables(&self) -> u8 {
        self.placement.logs() + 1
    }

    /// Carries out the users' operations.
    pub fn run(&mut self, ops: &[Op]) {
        for op in ops {
            let block = op.block() as usize;
            let before = self.present[block];
            if op.is_delete() {
                self.present[block] = NONE;
                self.die(before);
                continue;
            }
            let log = self.log_for_user(before);
            self.present[block] = NONE;
            self.die(before);
            self.make_room(log);
            self.now += 1;
            let version = self.log.write(log, Kind::Present, self.now);
            self.present[block] = version;
            if let Tables::Numbers(numbers) = &mut self.tables {
                numbers.add(version);
            }
            self.tally.new += 1;
            if self.now.is_multiple_of(self.pace.commit_blocks) {
                self.commit();
            }
            if self.pace.point_blocks.is_some_and(|blocks| self.now.is_multiple_of(blocks)) {
                self.make_point();
            }
        }
    }

    fn log_for_user(&self, before: u32) -> u8 {
        let (age, log, moves) = match before {
            NONE => (None, None, 0),
            _ => {
                let version = &self.log.versions[before as usize];
                let moves = version.moved.len().min(255) as u8;
                (Some(u64::from(self.now - version.born)), Some(self.log.log_of(before)), moves)
            }
        };
        self.placement.log_for(&BlockFacts { writer: Writer::User, age, log, moves })
    }

    fn log_for_cleaner(&self, leaving: &Leaving) -> u8 {
        let version = &self.log.versions[leaving.version as usize];
        match version.kind {
            Kind::Past => self.log_of_past(),
            Kind::Table => self.log_of_tables(),
            Kind::Present => self.placement.log_for(&BlockFacts {
                writer: Writer::Cleaner,
                age: Some(u64::from(self.now - version.born)),
                log: Some(leaving.log),
                // Without the move that is under way.
                moves: (version.moved.len() - 1).min(255) as u8,
            }),
        }
    }

    /// Users do not see a version any more.
    fn die(&mut self, version: u32) {
        if version == NONE {
            return;
        }
        let born = self.log.versions[version as usize].born;
        match self.points.back_mut().filter(|newest| born <= newest.made) {
            None => self.release(version),
            Some(newest) => {
                newest.last_seen_by_it.push(version);
                self.log.pass_away(version);
                if let Tables::Numbers(numbers) = &mut self.tables {
                    numbers.change(version);
                }
            }
        }
    }

    fn release(&mut self, version: u32) {
        self.log.drop(version);
        if let Tables::Numbers(numbers) = &mut self.tables {
            numbers.drop(version);
        }
    }

    fn make_point(&mut self) {
        self.points.push_back(Point { made: self.now, last_seen_by_it: Vec::new() });
        while self.log.count(Kind::Past) > self.pace.past_max && self.drop_oldest() {}
    }

    /// False if only the newest point is left.
    fn drop_oldest(&mut self) -> bool {
        if self.points.len() < 2 {
            return false;
        }
        let Some(oldest) = self.points.pop_front() else { return false };
        oldest.last_seen_by_it.into_iter().for_each(|version| self.release(version));
        let oldest = self.points.front().map(|point| point.made);
        if let Tables::Remnants(remnants) = &mut self.tables {
            for block in remnants.forget(oldest) {
                if let Some(version) = self.table.remove(&block) {
                    self.log.drop(version);
                }
            }
        }
        true
    }

    fn commit(&mut self) {
        let dirty = match &mut self.tables {
            Tables::None => return,
            Tables::Remnants(remnants) => remnants.take_dirty(),
            Tables::Numbers(numbers) => numbers.take_dirty(),
        };
        let log = self.log_of_tables();
        for block in dirty {
            self.make_room(log);
            if let Some(old) = self.table.remove(&block) {
                self.log.drop(old);
            }
            let version = self.log.write(log, Kind::Table, self.now);
            self.table.insert(block, version);
            self.tally.table += 1;
        }
    }

    /// Cleans if `log` needs a segment and few are clean.
    fn make_room(&mut self, log: u8) {
        if self.log.is_full(log) {
            while self.log.clean.len() <= self.pace.low {
                self.clean();
            }
        }
    }

    /// Empties one segment.
    fn clean(&mut self) {
        let terms = Terms::new(self.segment_blocks, TimeNs(i64::from(self.now)), 1).with_turn(self.turn);
        self.turn += 1;
        let chosen = self.policy.choose(self.log.candidates(), &terms, 1);
        let victim = *chosen.first().expect("a volume has closed segments");
        // Nothing to gain: the past gives way to users' space.
        if victim.live_bytes == self.segment_blocks && self.drop_oldest() {
            return;
        }
        let age = u64::from(self.now) - victim.written.0 as u64;
        self.placement.segment_cleaned(&Cleaned { log: victim.log, age });
        let mut leaving = Vec::new();
        self.log.evacuate(victim.segment.0 as u32, self.now, &mut leaving);
        let newest = self.points.back().map(|point| point.made);
        let (mut runs, mut after) = (0, None);
        for moving in &leaving {
            let to_log = self.log_for_cleaner(moving);
            let to = self.log.append(to_log, moving.version, self.now);
            let version = &self.log.versions[moving.version as usize];
            self.tally.moved += 1;
            self.moved_ever += 1;
            self.tally.moved_past += u64::from(version.kind == Kind::Past);
            let is_seen = version.kind != Kind::Table && newest.is_some_and(|newest| version.born <= newest);
            if is_seen {
                runs += u64::from(after != Some((moving.from, to)));
                after = Some((moving.from + 1, to + 1));
            }
            if let (Tables::Numbers(numbers), true) = (&mut self.tables, version.kind != Kind::Table) {
                numbers.change(moving.version);
            }
        }
        if let Tables::Remnants(remnants) = &mut self.tables {
            remnants.add(self.now, runs);
        }
    }

    /// Points that are retained.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// How many moves a reader of the oldest point follows for each block: the mean, and the most.
    pub fn hops(&self) -> (f64, u32) {
        let Some(oldest) = self.points.front().map(|point| point.made) else { return (0.0, 0) };
        let (mut seen, mut sum, mut most) = (0_u64, 0_u64, 0);
        let of_oldest = self.points.front().into_iter().flat_map(|point| &point.last_seen_by_it);
        let later = self.points.iter().skip(1).flat_map(|point| &point.last_seen_by_it);
        let present = self.present.iter().filter(|version| **version != NONE);
        for &version in of_oldest.chain(later).chain(present) {
            let version = &self.log.versions[version as usize];
            if version.born <= oldest {
                let hops = version.moved.iter().filter(|moved| **moved > oldest).count() as u32;
                seen += 1;
                sum += u64::from(hops);
                most = most.max(hops);
            }
        }
        (sum as f64 / (seen as f64).max(1.0), most)
    }

    /// Returns the counts since the last call.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }
}
