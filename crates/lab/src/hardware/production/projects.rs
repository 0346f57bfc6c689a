//! `Projects`: people work on projects, each a directory of files. In a session on one of them they save some sources and make most of its
//! outputs again, each file as a whole and one after the other; some further files live for minutes. After some sessions nobody works on a
//! project any more: its files stay as they are, until it is removed as a whole to make room. Then people begin a new project, or
//! return to an old one.
//!
//! At first the disk is empty. Half of the traffic is then finished projects that come from elsewhere, until the disk is as full as
//! it should be.

use super::event::{Act, Agenda, Event, count, file_bytes, pause_s, taken_bytes};
use super::loads::Traffic;
use crate::random::exponential;
use firnfs_sim::seeded;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, VecDeque};

/// Seconds between two files of a session, on average: to compile one took that long.
const GAP_S: f64 = 15.0;
/// Between two files that are deleted together.
const DELETE_S: f64 = 0.1;
/// Mean life of a file that does not stay, in seconds.
const PASSING_S: f64 = 600.0;
/// The traffic of a session that changes nothing.
const LEAST_BYTES: u64 = 4096;

/// Assumptions. Numbers are means.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Habits {
    /// Files of a new project.
    pub files: f64,
    /// Share of its files that programs make.
    pub outputs: f64,
    /// Share of these that a session makes again.
    pub redone: f64,
    /// Sources that a session saves.
    pub edited: f64,
    /// Files of a session that live for minutes.
    pub passing: f64,
    /// Sessions until nobody works on a project any more.
    pub sessions: f64,
    /// Projects on which people work at a time.
    pub active: usize,
    /// How often people return to a finished project, instead of beginning a new one.
    pub returns: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    MakeDirectory,
    Make {
        bytes: u64,
        is_output: bool,
    },
    Save {
        file: u32,
        bytes: u64,
    },
    /// A file that is deleted some minutes later.
    Pass {
        bytes: u64,
    },
    Delete(u32),
    RemoveDirectory,
}

/// Steps on a project, one after the other.
struct Task {
    directory: u32,
    steps: VecDeque<Step>,
    gap_s: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pending {
    Begin,
    Continue(u32),
    Delete(u32),
}

#[derive(Default)]
struct Project {
    files: Vec<u32>,
    sessions_left: u64,
}

#[derive(Clone, Copy)]
struct File {
    directory: u32,
    bytes: u64,
    is_output: bool,
}

/// See the module's head.
pub(super) struct Projects {
    habits: Habits,
    traffic: Traffic,
    random: Pcg64,
    agenda: Agenda<Pending>,
    tasks: BTreeMap<u32, Task>,
    tasks_begun: u32,
    /// By number of the directory; without those that are being removed.
    projects: BTreeMap<u32, Project>,
    active: Vec<u32>,
    finished: Vec<u32>,
    directories: u32,
    files: BTreeMap<u32, File>,
    files_made: u32,
    /// Of all files, without those that a task is about to delete with their project.
    live_bytes: u64,
    is_filling: bool,
    filled_bytes: u64,
    worked_bytes: u64,
}

impl Projects {
    pub fn new(habits: Habits, traffic: Traffic) -> Self {
        let mut agenda = Agenda::new();
        agenda.put(0, 0.0, Pending::Begin);
        Self {
            habits,
            traffic,
            random: seeded(traffic.seed, traffic.name),
            agenda,
            tasks: BTreeMap::new(),
            tasks_begun: 0,
            projects: BTreeMap::new(),
            active: Vec::new(),
            finished: Vec::new(),
            directories: 1,
            files: BTreeMap::new(),
            files_made: 0,
            live_bytes: 0,
            is_filling: true,
            filled_bytes: 0,
            worked_bytes: 0,
        }
    }

    fn size(&mut self) -> u64 {
        file_bytes(&mut self.random, self.traffic.file_bytes)
    }

    fn begin_task(&mut self, at_ns: u64, task: Task) {
        self.tasks.insert(self.tasks_begun, task);
        self.agenda.put(at_ns, 0.0, Pending::Continue(self.tasks_begun));
        self.tasks_begun += 1;
    }

    /// Somebody begins something.
    fn begin(&mut self, at_ns: u64) {
        let bytes = if self.is_filling && self.filled_bytes <= self.worked_bytes {
            let (directory, bytes) = self.install(at_ns);
            self.finished.push(directory);
            self.filled_bytes += bytes;
            self.is_filling = self.live_bytes < self.traffic.goal_bytes;
            bytes
        } else {
            let bytes = self.work(at_ns);
            self.worked_bytes += bytes;
            bytes
        };
        let pause_s = pause_s(&mut self.random, bytes.max(LEAST_BYTES), self.traffic.bytes_per_hour);
        self.agenda.put(at_ns, pause_s, Pending::Begin);
    }

    /// A new project comes. Returns its directory, and how much is written.
    fn install(&mut self, at_ns: u64) -> (u32, u64) {
        let mut steps = VecDeque::from([Step::MakeDirectory]);
        let (mut written, mut taken) = (0, 0);
        for _ in 0..1 + count(&mut self.random, self.habits.files - 1.0) {
            let (bytes, is_output) = (self.size(), self.random.random_bool(self.habits.outputs));
            (written, taken) = (written + bytes, taken + taken_bytes(bytes));
            steps.push_back(Step::Make { bytes, is_output });
        }
        while self.live_bytes + taken > self.traffic.goal_bytes && !self.finished.is_empty() {
            self.remove(at_ns);
        }
        let directory = self.directories;
        self.directories += 1;
        self.projects.insert(directory, Project::default());
        self.begin_task(at_ns, Task { directory, steps, gap_s: GAP_S });
        (directory, written)
    }

    /// A finished project goes as a whole.
    fn remove(&mut self, at_ns: u64) {
        let directory = self.finished.swap_remove(self.random.random_range(0..self.finished.len()));
        let Some(project) = self.projects.remove(&directory) else { return };
        let taken = |file: &u32| self.files.get(file).map_or(0, |file| taken_bytes(file.bytes));
        self.live_bytes = self.live_bytes.saturating_sub(project.files.iter().map(taken).sum());
        let mut steps: VecDeque<Step> = project.files.into_iter().map(Step::Delete).collect();
        steps.push_back(Step::RemoveDirectory);
        self.begin_task(at_ns, Task { directory, steps, gap_s: DELETE_S });
    }

    /// A session on a project, or the beginning of one. Returns how much is written.
    fn work(&mut self, at_ns: u64) -> u64 {
        if self.active.len() < self.habits.active {
            let sessions_left = 1 + count(&mut self.random, self.habits.sessions - 1.0);
            let is_return = !self.finished.is_empty() && self.random.random_bool(self.habits.returns);
            let (directory, bytes) = if is_return {
                let at = self.random.random_range(0..self.finished.len());
                (self.finished.swap_remove(at), 0)
            } else {
                self.install(at_ns)
            };
            if let Some(project) = self.projects.get_mut(&directory) {
                project.sessions_left = sessions_left;
            }
            self.active.push(directory);
            return bytes;
        }
        // Some are worked on more than others.
        let at = (self.random.random::<f64>().powi(2) * self.active.len() as f64) as usize;
        let directory = self.active[at];
        let (steps, bytes) = self.session(directory);
        self.begin_task(at_ns, Task { directory, steps, gap_s: GAP_S });
        if let Some(project) = self.projects.get_mut(&directory) {
            project.sessions_left -= 1;
            if project.sessions_left == 0 {
                self.active.remove(at);
                self.finished.push(directory);
            }
        }
        bytes
    }

    fn session(&mut self, directory: u32) -> (VecDeque<Step>, u64) {
        let Habits { redone, edited, passing, .. } = self.habits;
        let files = self.projects.get(&directory).map_or(Vec::new(), |project| project.files.clone());
        let known = files.iter().filter_map(|file| Some((*file, *self.files.get(file)?)));
        let (outputs, sources): (Vec<_>, Vec<_>) = known.partition(|(_, known)| known.is_output);
        let mut saved = Vec::new();
        for _ in 0..count(&mut self.random, edited) {
            if !sources.is_empty() {
                saved.push(sources[self.random.random_range(0..sources.len())]);
            }
        }
        saved.extend(outputs.into_iter().filter(|_| self.random.random_bool(redone)));
        let (mut steps, mut written) = (VecDeque::new(), 0);
        for (file, known) in saved {
            // About as large as before.
            let bytes = (known.bytes as f64 * self.random.random_range(0.9..1.1)) as u64;
            steps.push_back(Step::Save { file, bytes });
            written += bytes;
        }
        for _ in 0..count(&mut self.random, passing) {
            let bytes = self.size();
            steps.push_back(Step::Pass { bytes });
            written += bytes;
        }
        (steps, written)
    }

    fn go_on(&mut self, at_ns: u64, number: u32) -> Option<Event> {
        let task = self.tasks.get_mut(&number)?;
        let directory = task.directory;
        let Some(step) = task.steps.pop_front() else {
            self.tasks.remove(&number);
            return None;
        };
        let gap_s = exponential(&mut self.random, task.gap_s);
        self.agenda.put(at_ns, gap_s, Pending::Continue(number));
        self.carry_out(at_ns, directory, step).map(|act| Event { at_ns, act })
    }

    /// What a step comes to; nothing if the project, or the file, went meanwhile.
    fn carry_out(&mut self, at_ns: u64, directory: u32, step: Step) -> Option<Act> {
        match step {
            Step::MakeDirectory => Some(Act::MakeDirectory(directory)),
            Step::Make { bytes, is_output } => self.make(directory, bytes, is_output),
            Step::Pass { bytes } => {
                let act = self.make(directory, bytes, false)?;
                let life_s = exponential(&mut self.random, PASSING_S);
                self.agenda.put(at_ns, life_s, Pending::Delete(self.files_made - 1));
                Some(act)
            }
            Step::Save { file, bytes } => {
                let known = self.files.get_mut(&file).filter(|known| known.directory == directory)?;
                self.projects.get(&directory)?;
                self.live_bytes =
                    self.live_bytes.saturating_sub(taken_bytes(known.bytes)) + taken_bytes(bytes);
                known.bytes = bytes;
                Some(Act::Save { file, bytes })
            }
            Step::Delete(file) => self.files.remove(&file).map(|_| Act::Delete(file)),
            Step::RemoveDirectory => Some(Act::RemoveDirectory(directory)),
        }
    }

    fn make(&mut self, directory: u32, bytes: u64, is_output: bool) -> Option<Act> {
        let project = self.projects.get_mut(&directory)?;
        let file = self.files_made;
        self.files_made += 1;
        project.files.push(file);
        self.live_bytes += taken_bytes(bytes);
        self.files.insert(file, File { directory, bytes, is_output });
        Some(Act::Make { directory, file, bytes })
    }

    /// A passing file's time is over, unless its project went before.
    fn pass_away(&mut self, file: u32) -> Option<Act> {
        let known = *self.files.get(&file)?;
        let project = self.projects.get_mut(&known.directory)?;
        project.files.retain(|other| *other != file);
        self.files.remove(&file);
        self.live_bytes = self.live_bytes.saturating_sub(taken_bytes(known.bytes));
        Some(Act::Delete(file))
    }
}

impl Iterator for Projects {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            let (at_ns, pending) = self.agenda.take()?;
            let event = match pending {
                Pending::Begin => {
                    self.begin(at_ns);
                    None
                }
                Pending::Continue(task) => self.go_on(at_ns, task),
                Pending::Delete(file) => self.pass_away(file).map(|act| Event { at_ns, act }),
            };
            if event.is_some() {
                return event;
            }
        }
    }
}
