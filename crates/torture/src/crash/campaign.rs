//! Many scenarios on several threads, until enough states have been looked at.

use super::explorer::{Explorer, Failure, Limits, Totals};
use super::mending;
use super::runner::{Run, run};
use super::scenario::{ROUNDS, Scenario};
use super::shape::Shape;
use super::subject::Subject;
use super::world::World;
use firnfs_sim::seeded;
use parking_lot::Mutex;
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Something that went wrong, with what shows it again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// `scenario:cuts`, for [`replay`]; only `scenario` if it broke before any cut.
    pub token: String,
    /// In words.
    pub reason: String,
}

/// What a campaign has found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How much was looked at.
    pub totals: Totals,
    /// The same for each [`Scenario::family`].
    pub families: BTreeMap<&'static str, Family>,
    /// At most one for each scenario, sorted.
    pub findings: Vec<Finding>,
}

/// What a campaign has looked at of one kind of scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Family {
    /// How much.
    pub totals: Totals,
    /// Time that threads spent on it, added up.
    pub busy: Duration,
}

/// Carries out a scenario on a fresh volume, with the rounds before it.
///
/// # Errors
/// As [`run`]; or a state drawn for the next round does not mount.
pub fn prepare(explorer: &Explorer<'_>, subject: &dyn Subject, scenario: &Scenario) -> Result<Run, String> {
    let (image, world) = match scenario.before() {
        None => (subject.format(), World::new()),
        Some(before) => {
            let earlier = prepare(explorer, subject, &before)?;
            let (image, tree) = explorer
                .pick(&earlier, before.pick_seed(), before.ends_late())
                .map_err(|why| format!("the round before ({before}): {why}"))?;
            (image, World::of_tree(&tree))
        }
    };
    let ops = scenario.ops(&world);
    run(subject, image, world, &ops)
}

/// Explores scenarios on `threads` threads, until there are no more or `states` states have been judged.
/// `progress` is called after each scenario with the totals so far.
pub fn explore(
    subject: &dyn Subject,
    limits: Limits,
    scenarios: impl Iterator<Item = Scenario> + Send,
    threads: usize,
    states: u64,
    progress: &(dyn Fn(&Totals) + Sync),
) -> Report {
    let scenarios = Mutex::new(scenarios);
    let report = Mutex::new(Report::default());
    let enough = AtomicBool::new(false);
    let work = || {
        while !enough.load(Relaxed) {
            let Some(scenario) = scenarios.lock().next() else { return };
            let began = Instant::now();
            let (totals, finding) = explore_one(subject, limits, &scenario);
            let mut report = report.lock();
            report.totals.add(&totals);
            let family = report.families.entry(scenario.family()).or_default();
            family.totals.add(&totals);
            family.busy += began.elapsed();
            report.findings.extend(finding);
            progress(&report.totals);
            if report.totals.states >= states {
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

/// Explores one scenario.
#[must_use]
pub fn explore_one(subject: &dyn Subject, limits: Limits, scenario: &Scenario) -> (Totals, Option<Finding>) {
    let limits = Limits { states_max: limits.states_max.min(scenario.states_max()), ..limits };
    let finding_of = |failure: Box<Failure>| {
        let cuts = if failure.states.is_empty() { String::new() } else { format!(":{}", failure.cuts()) };
        Finding { token: format!("{scenario}{cuts}"), reason: failure.to_string() }
    };
    if let Scenario::Mend { seed } = scenario {
        let (totals, explored) = mending::explore(subject, limits, *seed);
        return (totals, explored.err().map(finding_of));
    }
    let mut explorer = Explorer::new(subject, limits);
    let finding = match prepare(&explorer, subject, scenario) {
        Err(reason) => Some(Finding { token: scenario.to_string(), reason }),
        Ok(run) => explorer.explore(&run).err().map(finding_of),
    };
    (explorer.totals(), finding)
}

/// A finding shown again.
pub struct Replayed {
    /// What was done; `None` if not even that worked.
    pub run: Option<Run>,
    /// What is wrong, in words; among other things that the token names nothing.
    pub verdict: Result<(), String>,
}

/// Shows a finding again.
#[must_use]
pub fn replay(subject: &dyn Subject, limits: Limits, token: &str) -> Replayed {
    let (scenario, cuts) = token.split_once(':').map_or((token, None), |(s, cuts)| (s, Some(cuts)));
    let mut explorer = Explorer::new(subject, limits);
    let parsed = scenario.parse::<Scenario>().map_err(|e| e.to_string());
    if let Ok(Scenario::Mend { seed }) = parsed {
        return Replayed { run: None, verdict: mending::replay(subject, seed, cuts) };
    }
    match parsed.and_then(|scenario| prepare(&explorer, subject, &scenario)) {
        Err(why) => Replayed { run: None, verdict: Err(why) },
        Ok(run) => {
            let verdict = cuts.map_or(Ok(()), |cuts| explorer.replay(&run, cuts));
            Replayed { run: Some(run), verdict }
        }
    }
}

/// Bounded scenarios of the soak between two groups of the mixture.
const BOUNDED_TOGETHER: usize = 200;
/// Prime to the number of sequences of two operations: each part of the soak meets every operation.
const BOUNDED_STRIDE: u64 = 53;

/// The scenarios of a long campaign: all sequences of one and two operations, and between them, from the beginning on, as much
/// of everything else as [`mixed`] has to give.
pub fn soak(seed: u64) -> impl Iterator<Item = Scenario> + Send {
    let bounded = |length: u32| {
        let count = Scenario::ace_count(length);
        (0..count).map(move |place| Scenario::Ace { length, number: place * BOUNDED_STRIDE % count })
    };
    let mut bounded = bounded(1).chain(bounded(2)).peekable();
    let groups = groups(seed).map_while(move |mut group| {
        bounded.peek()?;
        group.extend(bounded.by_ref().take(BOUNDED_TOGETHER));
        Some(group)
    });
    groups.flatten()
}

/// Long histories with their rounds, samples of three operations, directories of many blocks and of many names, open files without names, files put in order,
/// remains of an earlier mount, a damaged volume under repair, and now and then a full volume, endlessly.
pub fn mixed(seed: u64) -> impl Iterator<Item = Scenario> + Send {
    groups(seed).flatten()
}

/// What [`mixed`] has, in groups with one of almost everything.
fn groups(seed: u64) -> impl Iterator<Item = Vec<Scenario>> + Send {
    let mut rng = seeded(seed, "campaign");
    (0..).map(move |group: u64| {
        let long = (0..ROUNDS).map(|round| Scenario::Long { seed: seed.wrapping_add(group), round });
        let sample = |_| Scenario::Ace { length: 3, number: rng.random_range(0..Scenario::ace_count(3)) };
        let mut scenarios: Vec<Scenario> = long.chain((0..12).map(sample)).collect();
        let seed = seed.wrapping_add(group);
        scenarios.extend((0..2).map(|round| Scenario::Stale { seed, round }));
        scenarios.extend(
            [Shape::Wide, Shape::Open, Shape::Scattered].map(|shape| Scenario::Shaped { shape, seed }),
        );
        scenarios.push(Scenario::Mend { seed });
        if group % 8 == 1 {
            scenarios.push(Scenario::Shaped { shape: Shape::Tight, seed });
        }
        if group % 4 == 2 {
            scenarios.push(Scenario::Shaped { shape: Shape::Crowded, seed });
        }
        if group.is_multiple_of(8) {
            scenarios.push(Scenario::Full { seed });
        }
        scenarios
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_soak_has_every_bounded_scenario_once_and_everything_else_from_the_beginning() {
        let bounded = |scenario: &Scenario| matches!(scenario, Scenario::Ace { length: 1 | 2, .. });
        let all: Vec<Scenario> = soak(7).filter(bounded).collect();
        assert_eq!(all.len() as u64, Scenario::ace_count(1) + Scenario::ace_count(2));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());

        let early: BTreeSet<&str> = soak(7).take(500).map(|scenario| scenario.family()).collect();
        let families =
            ["ace", "crowded", "full", "long", "mend", "open", "scattered", "stale", "tight", "wide"];
        assert_eq!(early, BTreeSet::from(families));
    }
}
