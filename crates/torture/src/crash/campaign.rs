//! Runs many scenarios on several threads until enough states have been judged.

use super::explorer::Explorer;
use super::mending;
use super::runner::{Run, run};
use super::scenario::Scenario;
use super::seen::Seen;
use super::split;
use super::subject::Subject;
use super::totals::{Failure, Limits, Totals};
use super::world::World;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// An error, with the token that reproduces it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// `scenario:cuts`, for [`replay`]; only `scenario` if it broke before any cut.
    pub token: String,
    /// The error as text.
    pub reason: String,
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How much was judged.
    pub totals: Totals,
    /// The same for each [`Scenario::family`].
    pub families: BTreeMap<&'static str, Family>,
    /// At most one for each scenario, sorted.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Processor time of the campaign.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.families.values().map(|family| family.busy).sum()
    }
}

/// The work of a campaign on one kind of scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Family {
    /// How much was judged.
    pub totals: Totals,
    /// Processor time.
    pub busy: Duration,
}

/// Runs a scenario on a fresh volume, after its earlier rounds.
///
/// # Errors
/// As [`run`]; or a state drawn for the next round does not mount.
pub fn prepare(explorer: &Explorer<'_>, subject: &dyn Subject, scenario: &Scenario) -> Result<Run, String> {
    let (image, world) = match scenario.before() {
        None => (subject.format(), World::new()),
        Some(before) => {
            let earlier = prepare(explorer, subject, &before)?;
            let (image, tree) = explorer
                .pick(&earlier, before.pick_seed(), before.late_stretches())
                .map_err(|why| format!("the round before ({before}): {why}"))?;
            (image, World::of_tree(&tree))
        }
    };
    let ops = scenario.ops(&world);
    run(subject, image, world, &ops)
}

/// Explores scenarios on `threads` threads, until there are no more or there are `states` distinct ones. `progress` is
/// called after each scenario with the totals so far.
pub fn explore(
    subject: &dyn Subject,
    limits: Limits,
    scenarios: impl Iterator<Item = Scenario> + Send,
    threads: usize,
    states: u64,
    progress: &(dyn Fn(&Totals) + Sync),
) -> Report {
    let mut scenarios = scenarios;
    explore_by(subject, limits, |_| scenarios.next(), threads, states, progress)
}

/// As [`explore`], with scenarios that depend on the totals so far.
pub fn explore_by(
    subject: &dyn Subject,
    limits: Limits,
    next: impl FnMut(&Totals) -> Option<Scenario> + Send,
    threads: usize,
    states: u64,
    progress: &(dyn Fn(&Totals) + Sync),
) -> Report {
    let next = Mutex::new(next);
    let report = Mutex::new(Report::default());
    let (enough, seen) = (AtomicBool::new(false), Seen::new());
    let work = || {
        while !enough.load(Relaxed) {
            let totals = report.lock().totals;
            let Some(scenario) = (next.lock())(&totals) else { return };
            let began = processor_time();
            let (totals, finding) = explore_one(subject, limits, &scenario, &seen);
            let mut report = report.lock();
            report.totals.add(&totals);
            let family = report.families.entry(scenario.family()).or_default();
            family.totals.add(&totals);
            family.busy += processor_time().saturating_sub(began);
            report.findings.extend(finding);
            progress(&report.totals);
            if report.totals.distinct >= states {
                enough.store(true, Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut report = report.into_inner();
    report.findings.sort();
    report
}

/// Processor time of this thread, excluding time that other threads take. Zero if the system does not report it.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Explores one scenario; states in `seen` are not judged again.
#[must_use]
pub fn explore_one(
    subject: &dyn Subject,
    limits: Limits,
    scenario: &Scenario,
    seen: &Seen,
) -> (Totals, Option<Finding>) {
    let made = subject.made(scenario.made());
    let subject = made.as_deref().unwrap_or(subject);
    let limits = Limits { states_max: limits.states_max.min(scenario.states_max()), ..limits };
    let finding_of = |failure: Box<Failure>| {
        let cuts = if failure.states.is_empty() { String::new() } else { format!(":{}", failure.cuts()) };
        Finding { token: format!("{scenario}{cuts}"), reason: failure.to_string() }
    };
    match scenario {
        Scenario::Mend { seed } => {
            let (totals, explored) = mending::explore(subject, limits, seen, *seed);
            (totals, explored.err().map(finding_of))
        }
        Scenario::Split { seed } => {
            let (totals, explored) = split::explore(subject, limits, seen, *seed);
            let finding = explored.err().map(|(number, reason)| {
                let number = number.map_or(String::new(), |number| format!(":{number}"));
                Finding { token: format!("{scenario}{number}"), reason }
            });
            (totals, finding)
        }
        _ => {
            let mut explorer = Explorer::new(subject, limits, seen);
            let finding = match prepare(&explorer, subject, scenario) {
                Err(reason) => Some(Finding { token: scenario.to_string(), reason }),
                Ok(run) => explorer.explore(&run).err().map(finding_of),
            };
            (explorer.totals(), finding)
        }
    }
}

/// A replayed finding.
pub struct Replayed {
    /// The run; `None` if even that failed.
    pub run: Option<Run>,
    /// The error as text; also if the token names nothing.
    pub verdict: Result<(), String>,
}

/// Replays a finding.
#[must_use]
pub fn replay(subject: &dyn Subject, limits: Limits, token: &str) -> Replayed {
    let (scenario, cuts) = token.split_once(':').map_or((token, None), |(s, cuts)| (s, Some(cuts)));
    let scenario = match scenario.parse::<Scenario>() {
        Ok(scenario) => scenario,
        Err(unknown) => return Replayed { run: None, verdict: Err(unknown.to_string()) },
    };
    let made = subject.made(scenario.made());
    let subject = made.as_deref().unwrap_or(subject);
    match scenario {
        Scenario::Mend { seed } => Replayed { run: None, verdict: mending::replay(subject, seed, cuts) },
        Scenario::Split { seed } => Replayed { run: None, verdict: split::replay(subject, seed, cuts) },
        _ => {
            let seen = Seen::new();
            let mut explorer = Explorer::new(subject, limits, &seen);
            match prepare(&explorer, subject, &scenario) {
                Err(why) => Replayed { run: None, verdict: Err(why) },
                Ok(run) => {
                    let verdict = cuts.map_or(Ok(()), |cuts| explorer.replay(&run, cuts));
                    Replayed { run: Some(run), verdict }
                }
            }
        }
    }
}
