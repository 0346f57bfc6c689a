//! `Scratch`: /tmp. Files are written as wholes, at random times; most are deleted minutes later, the others days later.
//!
//! How long the others live follows from the share of the disk in use: bytes in use = traffic times mean lifetime (Little's law).

use super::event::{Act, Agenda, Event, HOUR_S, file_bytes, pause_s, taken_bytes};
use super::loads::Traffic;
use crate::random::exponential;
use firnfs_sim::seeded;
use rand::RngExt;
use rand_pcg::Pcg64;

/// Assumptions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Habits {
    /// Share of the files that live long.
    pub long: f64,
    /// Mean life of the others, in seconds.
    pub short_s: f64,
}

impl Habits {
    /// Mean life of the long-lived files if all live for `mean_s` on average.
    pub fn long_s(&self, mean_s: f64) -> f64 {
        (mean_s - (1.0 - self.long) * self.short_s) / self.long
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pending {
    Make,
    Delete(u32),
}

/// See the module's head.
pub(super) struct Scratch {
    habits: Habits,
    traffic: Traffic,
    long_s: f64,
    random: Pcg64,
    agenda: Agenda<Pending>,
    files: u32,
    /// Bytes of the files that exist at the beginning and are yet to be made.
    initial_bytes: u64,
}

impl Scratch {
    pub fn new(habits: Habits, traffic: Traffic) -> Self {
        let mean_s = traffic.goal_bytes as f64 / traffic.bytes_per_hour * HOUR_S;
        let mut agenda = Agenda::new();
        agenda.put(0, 0.0, Pending::Make);
        Self {
            habits,
            traffic,
            long_s: habits.long_s(mean_s),
            random: seeded(traffic.seed, traffic.name),
            agenda,
            files: 0,
            initial_bytes: traffic.goal_bytes,
        }
    }

    fn make(&mut self, at_ns: u64) -> Event {
        let (file, bytes) = (self.files, file_bytes(&mut self.random, self.traffic.file_bytes));
        self.files += 1;
        // At any moment nearly all bytes are those of long-lived files, so the first ones are.
        let is_initial = self.initial_bytes > 0;
        self.initial_bytes = self.initial_bytes.saturating_sub(taken_bytes(bytes));
        let is_long = is_initial || self.random.random_bool(self.habits.long);
        let mean_s = if is_long { self.long_s } else { self.habits.short_s };
        let life_s = exponential(&mut self.random, mean_s);
        self.agenda.put(at_ns, life_s, Pending::Delete(file));
        let pause_s =
            if is_initial { 0.5 } else { pause_s(&mut self.random, bytes, self.traffic.bytes_per_hour) };
        self.agenda.put(at_ns, pause_s, Pending::Make);
        Event { at_ns, act: Act::Make { directory: 0, file, bytes } }
    }
}

impl Iterator for Scratch {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let (at_ns, pending) = self.agenda.take()?;
        Some(match pending {
            Pending::Make => self.make(at_ns),
            Pending::Delete(file) => Event { at_ns, act: Act::Delete(file) },
        })
    }
}
