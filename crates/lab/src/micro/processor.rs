//! Processor time of the benchmark, of the programs that it starts, and of the daemon that it measures.
//!
//! The client's time is exact for this process and for programs with one thread; what a program's own children took is known
//! in steps of 10 ms, as the kernel tells it. The daemon's is the sum over its threads, in nanoseconds. What kernel threads
//! do on behalf of a file system belongs to no process and is not counted.
//!
//! Callers: `scenario`, `library` and `tool`.

use super::tool;
use crate::floor::client::processor_ns;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// The unit of times in `/proc/PID/stat`, the same on all of Linux' common processors.
const TICK_NS: u64 = 10_000_000;

/// What a task took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Taken {
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time of the benchmark and of the programs that it started, in nanoseconds.
    pub client_ns: u64,
    /// Processor time of the daemon in nanoseconds; null without a daemon.
    pub daemon_ns: Option<u64>,
}

/// Measures a task from its start.
pub struct Meter {
    start: Instant,
    /// Time that reading the processor times took; it is no part of the task.
    reading: Duration,
    client_ns: u64,
    daemon: Option<Daemon>,
}

impl Meter {
    /// Begins now. `daemon` is the process that serves the target.
    #[must_use]
    pub fn start(daemon: Option<u32>) -> Self {
        let daemon = daemon.map(Daemon::observe);
        Self { client_ns: client_ns(), daemon, reading: Duration::ZERO, start: Instant::now() }
    }

    /// What was taken since the start.
    pub fn read(&mut self) -> Taken {
        let elapsed = self.start.elapsed();
        let taken = Taken {
            elapsed_ns: nanoseconds(elapsed.saturating_sub(self.reading)),
            client_ns: client_ns().saturating_sub(self.client_ns),
            daemon_ns: self.daemon.as_ref().map(Daemon::taken_ns),
        };
        self.reading += self.start.elapsed().saturating_sub(elapsed);
        taken
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn client_ns() -> u64 {
    processor_ns() + tool::programs_ns()
}

/// A process with threads, as it was when first observed.
struct Daemon {
    pid: u32,
    threads: FxHashMap<u32, u64>,
    ticks_ns: u64,
}

impl Daemon {
    fn observe(pid: u32) -> Self {
        Self { pid, threads: threads(pid), ticks_ns: ticks(pid).own_ns }
    }

    /// The time of the threads that live, or that of the whole process, in ticks, if threads that took more have ended.
    fn taken_ns(&self) -> u64 {
        let alive: u64 = threads(self.pid)
            .iter()
            .map(|(id, now_ns)| now_ns.saturating_sub(self.threads.get(id).copied().unwrap_or(0)))
            .sum();
        // User and system time are each rounded down to a tick.
        let in_ticks = ticks(self.pid).own_ns.saturating_sub(self.ticks_ns).saturating_sub(2 * TICK_NS);
        alive.max(in_ticks)
    }
}

/// Nanoseconds on a processor by thread; empty if the process has ended.
fn threads(pid: u32) -> FxHashMap<u32, u64> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return FxHashMap::default() };
    let time = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        Some((id, on_processor_ns(&entry.path().join("schedstat"))?))
    };
    entries.flatten().filter_map(time).collect()
}

fn on_processor_ns(schedstat: &Path) -> Option<u64> {
    std::fs::read_to_string(schedstat).ok()?.split(' ').next()?.parse().ok()
}

/// Times of a process from `/proc/PID/stat`, rounded down to ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Ticks {
    /// All its threads, also those that have ended.
    own_ns: u64,
    /// Its children that have ended.
    children_ns: u64,
}

fn ticks(pid: u32) -> Ticks {
    parse_ticks(&std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()).unwrap_or_default()
}

/// See proc_pid_stat(5): the name in brackets may contain anything; utime is the twelfth field after it.
fn parse_ticks(stat: &str) -> Option<Ticks> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let mut two = || Some((times.next()?? + times.next()??) * TICK_NS);
    Some(Ticks { own_ns: two()?, children_ns: two()? })
}

/// Processor time of a program that has ended but has not been waited for, with the children that it waited for.
pub(super) fn of_ended(pid: u32) -> u64 {
    let ticks = ticks(pid);
    let first_thread = on_processor_ns(Path::new(&format!("/proc/{pid}/schedstat"))).unwrap_or(0);
    first_thread.max(ticks.own_ns) + ticks.children_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Occupies a processor for so much processor time of this thread.
    fn work(ms: u64) {
        let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let ns = |t: rustix::time::Timespec| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
        let start = ns(now());
        while ns(now()) - start < ms * 1_000_000 {}
    }

    #[test]
    fn the_times_of_a_stat_line_are_found_behind_any_name() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 12 30 5 6 20 0 9 0 100";
        assert_eq!(parse_ticks(line), Some(Ticks { own_ns: 420_000_000, children_ns: 110_000_000 }));
        assert_eq!(parse_ticks("7 (short) S 1"), None);
        assert_eq!(parse_ticks(""), None);
    }

    #[test]
    fn a_daemon_that_works_in_a_thread_is_charged_for_it_and_not_for_what_came_before() {
        work(30);
        let daemon = Daemon::observe(std::process::id());
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let working = scope.spawn(|| work(60));
            working.join().unwrap();
            work(20);
        });
        let taken_ns = daemon.taken_ns();
        // The thread has ended: its time is known in ticks only.
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        assert!(taken_ns >= 60_000_000 - 2 * TICK_NS, "{taken_ns}");
        assert!(taken_ns <= nanoseconds(begun.elapsed()) * processors + TICK_NS, "{taken_ns}");
    }

    #[test]
    fn programs_that_were_run_count_as_the_client_and_waiting_does_not() {
        let mut meter = Meter::start(None);
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; sleep 0.3";
        tool::run(Command::new("sh").args(["-c", script])).unwrap();
        let taken = meter.read();
        assert!(taken.client_ns > 10_000_000, "{taken:?}");
        assert!(taken.elapsed_ns >= 300_000_000 && taken.daemon_ns.is_none(), "{taken:?}");
        let again = meter.read();
        assert!(again.client_ns >= taken.client_ns && again.elapsed_ns >= taken.elapsed_ns, "{again:?}");
    }
}
