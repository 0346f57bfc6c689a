//! `Paging`: /swap2, the swap files of diskless workstations. A process that begins to be paged out writes all its pages, at places all over
//! its file ("large, sparse, and accessed nonsequentially"); later some of them are overwritten at random, mostly of young processes. Its
//! file is deleted when it ends.
//!
//! How long the long-lived processes live follows from the share of the disk in use, as in `scratch`.

use super::event::{Act, Agenda, Event, HOUR_S, count, file_bytes, pause_s};
use super::loads::Traffic;
use super::scratch;
use crate::random::exponential;
use firnfs_sim::seeded;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, VecDeque};

/// A page of a Sun.
const PAGE_BYTES: u64 = 8192;
/// Seconds between the page-outs of a process that begins, on average.
const GAP_S: f64 = 5.0;

/// Assumptions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Habits {
    /// Share of the traffic that processes write when they begin; the rest overwrites pages.
    pub beginning: f64,
    /// Share of the processes that live long.
    pub long: f64,
    /// Mean life of the others, in seconds.
    pub short_s: f64,
    /// Pages written at a time, on average.
    pub pages: f64,
    /// A file is that many times as long as its pages.
    pub sparse: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pending {
    /// The next page-out: of a new process or of an old one.
    Begin,
    /// A new process writes more of its pages.
    Continue(u32),
    End(u32),
}

struct Process {
    /// Numbers of its pages within its file; the first `written` have been written.
    pages: Vec<u32>,
    written: usize,
}

/// See the module's head.
pub(super) struct Paging {
    habits: Habits,
    traffic: Traffic,
    long_s: f64,
    random: Pcg64,
    agenda: Agenda<Pending>,
    /// By number of the file; the youngest is last.
    processes: BTreeMap<u32, Process>,
    order: Vec<u32>,
    begun: u32,
    /// Page-outs under way.
    ready: VecDeque<Event>,
    /// Bytes of the processes that exist at the beginning and are yet to begin.
    initial_bytes: u64,
    beginning_bytes: u64,
    all_bytes: u64,
}

impl Paging {
    pub fn new(habits: Habits, traffic: Traffic) -> Self {
        let begun_per_hour = traffic.bytes_per_hour * habits.beginning;
        let mean_s = traffic.goal_bytes as f64 / begun_per_hour * HOUR_S;
        let lives = scratch::Habits { long: habits.long, short_s: habits.short_s };
        let mut agenda = Agenda::new();
        agenda.put(0, 0.0, Pending::Begin);
        Self {
            habits,
            traffic,
            long_s: lives.long_s(mean_s),
            random: seeded(traffic.seed, traffic.name),
            agenda,
            processes: BTreeMap::new(),
            order: Vec::new(),
            begun: 0,
            ready: VecDeque::new(),
            initial_bytes: traffic.goal_bytes,
            beginning_bytes: 0,
            all_bytes: 0,
        }
    }

    /// A process begins to be paged out: its file and what it will write. Returns how much.
    fn begin(&mut self, at_ns: u64) -> u64 {
        let bytes = file_bytes(&mut self.random, self.traffic.file_bytes);
        let pages = ((bytes + PAGE_BYTES / 2) / PAGE_BYTES).max(1) as u32;
        let mut places: Vec<u32> = (0..pages * self.habits.sparse).collect();
        places.shuffle(&mut self.random);
        places.truncate(pages as usize);
        let file = self.begun;
        self.begun += 1;
        let is_initial = self.initial_bytes > 0;
        let bytes = u64::from(pages) * PAGE_BYTES;
        self.initial_bytes = self.initial_bytes.saturating_sub(bytes);
        let is_long = is_initial || self.random.random_bool(self.habits.long);
        let mean_s = if is_long { self.long_s } else { self.habits.short_s };
        let life_s = exponential(&mut self.random, mean_s);
        self.agenda.put(at_ns, life_s, Pending::End(file));
        self.agenda.put(at_ns, 0.0, Pending::Continue(file));
        self.processes.insert(file, Process { pages: places, written: 0 });
        self.order.push(file);
        self.ready.push_back(Event { at_ns, act: Act::Make { directory: 0, file, bytes: 0 } });
        self.beginning_bytes += bytes;
        bytes
    }

    /// A new process writes its next pages.
    fn go_on(&mut self, at_ns: u64, file: u32) {
        let pages = 1 + count(&mut self.random, self.habits.pages - 1.0) as usize;
        let Some(process) = self.processes.get_mut(&file) else { return };
        let end = (process.written + pages).min(process.pages.len());
        for page in &process.pages[process.written..end] {
            self.ready.push_back(page_out(at_ns, file, *page));
        }
        process.written = end;
        if end < process.pages.len() {
            let gap_s = exponential(&mut self.random, GAP_S);
            self.agenda.put(at_ns, gap_s, Pending::Continue(file));
        }
    }

    /// Pages of an old process are written again. Returns how many bytes.
    fn overwrite(&mut self, at_ns: u64) -> u64 {
        let pages = 1 + count(&mut self.random, self.habits.pages - 1.0);
        let back = (self.random.random::<f64>().powi(3) * self.order.len() as f64) as usize;
        let Some(file) = self.order.iter().rev().nth(back).copied() else { return 0 };
        let Some(process) = self.processes.get(&file).filter(|process| process.written > 0) else { return 0 };
        for _ in 0..pages {
            let page = process.pages[self.random.random_range(0..process.written)];
            self.ready.push_back(page_out(at_ns, file, page));
        }
        pages * PAGE_BYTES
    }

    fn next_page_out(&mut self, at_ns: u64) {
        let is_initial = self.initial_bytes > 0;
        let is_beginning =
            is_initial || self.beginning_bytes as f64 <= self.all_bytes as f64 * self.habits.beginning;
        let bytes = if is_beginning { self.begin(at_ns) } else { self.overwrite(at_ns) };
        self.all_bytes += bytes;
        if is_initial {
            // These do not count: they are the state at the beginning.
            (self.beginning_bytes, self.all_bytes) = (0, 0);
            self.agenda.put(at_ns, 1.0, Pending::Begin);
        } else {
            let pause_s = pause_s(&mut self.random, bytes, self.traffic.bytes_per_hour);
            self.agenda.put(at_ns, pause_s, Pending::Begin);
        }
    }

    fn end(&mut self, at_ns: u64, file: u32) {
        self.processes.remove(&file);
        self.order.retain(|other| *other != file);
        self.ready.push_back(Event { at_ns, act: Act::Delete(file) });
    }
}

fn page_out(at_ns: u64, file: u32, page: u32) -> Event {
    Event { at_ns, act: Act::Write { file, at_bytes: u64::from(page) * PAGE_BYTES, bytes: PAGE_BYTES } }
}

impl Iterator for Paging {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        while self.ready.is_empty() {
            match self.agenda.take()? {
                (at_ns, Pending::Begin) => self.next_page_out(at_ns),
                (at_ns, Pending::Continue(file)) => self.go_on(at_ns, file),
                (at_ns, Pending::End(file)) => self.end(at_ns, file),
            }
        }
        self.ready.pop_front()
    }
}
