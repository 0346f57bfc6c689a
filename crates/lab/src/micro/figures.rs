//! Single figures: ratios between tasks that have no rows of their own, computed round by round.

use super::report::{Figure, Roles, Spread};
use super::task::{Task, Workload};
use super::{Durability, Sample, bandwidth};

/// A ratio of two tasks, and its goal.
struct Ratio {
    title: String,
    part: Task,
    /// The part's target; `None`: the library itself.
    part_target: Option<String>,
    whole: (Task, Durability),
    /// The whole's target.
    whole_target: Option<String>,
    limit: f64,
    at_least: bool,
}

/// Every figure that the samples allow.
#[must_use]
pub fn from_samples(roles: &Roles, w: &Workload, samples: &[Sample]) -> Vec<Figure> {
    let share = |place: &str| Ratio {
        title: format!("writing to {place}, share of its bandwidth (durable)"),
        part: Task::RawWrite,
        part_target: Some(place.to_owned()),
        whole: (Task::SegmentWrite, Durability::Durable),
        whole_target: Some(place.to_owned()),
        limit: 0.9,
        at_least: true,
    };
    let ratios = [
        share(bandwidth::LOOP),
        share(bandwidth::THROTTLED),
        Ratio {
            title: "library without FUSE: create small files + sync, over the same on the first file system (durable)"
                .to_owned(),
            part: Task::LibraryCreate,
            part_target: None,
            whole: (Task::CreateSmall, Durability::Durable),
            whole_target: roles.against.first().cloned(),
            limit: 0.15,
            at_least: false,
        },
        Ratio {
            title: "checksum verification, share of a cold sequential read (cold)".to_owned(),
            part: Task::Checksum,
            part_target: None,
            whole: (Task::ReadSequential, Durability::Cold),
            whole_target: roles.subject.clone(),
            limit: 0.05,
            at_least: false,
        },
    ];
    ratios.iter().filter_map(|ratio| figure(ratio, w, samples)).collect()
}

fn figure(ratio: &Ratio, w: &Workload, samples: &[Sample]) -> Option<Figure> {
    let is_of = |s: &Sample, target: &Option<String>| target.as_ref().is_none_or(|name| &s.target == name);
    let parts: Vec<&Sample> =
        samples.iter().filter(|s| s.task == ratio.part && is_of(s, &ratio.part_target)).collect();
    let whole_of = |round: u32| {
        samples.iter().find(|s| {
            s.round == round && (s.task, s.durability) == ratio.whole && is_of(s, &ratio.whole_target)
        })
    };
    let pairs: Vec<(f64, f64)> = parts
        .iter()
        .filter_map(|part| {
            Some((part.taken.elapsed_ns as f64, whole_of(part.round)?.taken.elapsed_ns.max(1) as f64))
        })
        .collect();
    let shares: Vec<f64> = pairs.iter().map(|(part, whole)| part / whole).collect();
    let median_ms = |pick: fn(&(f64, f64)) -> f64| {
        Spread::of(&pairs.iter().map(pick).collect::<Vec<_>>()).map(|spread| spread.median / 1e6)
    };
    let (part_ms, whole_ms) = (median_ms(|p| p.0)?, median_ms(|p| p.1)?);
    let speed = match ratio.part {
        Task::RawWrite => format!("; {:.0} MB/s raw", w.sequential_bytes as f64 / 1e3 / part_ms),
        _ => String::new(),
    };
    Some(Figure {
        title: ratio.title.clone(),
        value: Spread::of(&shares)?,
        limit: Some(ratio.limit),
        at_least: ratio.at_least,
        detail: format!("{part_ms:.1} ms / {whole_ms:.1} ms{speed}"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::processor::Taken;
    use super::*;

    fn sample(task: Task, durability: Durability, target: &str, round: u32, ms: u64) -> Sample {
        Sample {
            task,
            durability,
            target: target.to_owned(),
            round,
            taken: Taken { elapsed_ns: ms * 1_000_000, ..Taken::default() },
        }
    }

    #[test]
    fn figures_pair_samples_of_one_round_and_of_the_right_target() {
        let roles =
            Roles { subject: None, variants: Vec::new(), null: None, against: vec!["ext4".to_owned()] };
        let durable = Durability::Durable;
        let samples = [
            sample(Task::CreateSmall, durable, "firn", 0, 1),
            sample(Task::CreateSmall, durable, "ext4", 0, 1000),
            sample(Task::CreateSmall, durable, "ext4", 1, 100),
            sample(Task::LibraryCreate, durable, "library", 0, 100),
            sample(Task::LibraryCreate, durable, "library", 1, 10),
        ];
        let figures = from_samples(&roles, &Workload::default(), &samples);
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].value, Spread { median: 0.1, min: 0.1, max: 0.1 });
        assert_eq!(figures[0].reached(), Some(true));
    }

    #[test]
    fn bandwidth_is_a_share_that_shall_be_high() {
        let roles = Roles { subject: None, variants: Vec::new(), null: None, against: Vec::new() };
        let samples = [
            sample(Task::RawWrite, Durability::Durable, bandwidth::LOOP, 0, 80),
            sample(Task::SegmentWrite, Durability::Durable, bandwidth::LOOP, 0, 100),
            sample(Task::RawWrite, Durability::Durable, bandwidth::THROTTLED, 0, 1000),
            sample(Task::SegmentWrite, Durability::Durable, bandwidth::THROTTLED, 0, 1000),
        ];
        let w = Workload { sequential_bytes: 500_000_000, ..Workload::default() };
        let figures = from_samples(&roles, &w, &samples);
        let found: Vec<_> = figures.iter().map(|f| (f.value.median, f.reached())).collect();
        assert_eq!(found, [(0.8, Some(false)), (1.0, Some(true))]);
        assert_eq!(figures[1].detail, "1000.0 ms / 1000.0 ms; 500 MB/s raw");
    }
}
