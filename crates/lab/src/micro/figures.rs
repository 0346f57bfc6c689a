//! Single figures: ratios between tasks that have no rows of their own, computed round by round.

use super::report::{Figure, Roles, Spread};
use super::task::Task;
use super::{Durability, Sample};

/// A ratio of two tasks, and its goal.
struct Ratio {
    title: &'static str,
    part: Task,
    whole: (Task, Durability),
    /// The whole's target; `None`: the raw device or the library itself.
    whole_target: Option<String>,
    limit: f64,
    at_least: bool,
}

/// Every figure that the samples allow.
#[must_use]
pub fn from_samples(roles: &Roles, samples: &[Sample]) -> Vec<Figure> {
    let ratios = [
        Ratio {
            title: "segment writing, share of the raw device's sequential bandwidth (durable)",
            part: Task::RawWrite,
            whole: (Task::SegmentWrite, Durability::Durable),
            whole_target: None,
            limit: 0.9,
            at_least: true,
        },
        Ratio {
            title: "library without FUSE: create small files + sync, over the same on the first file system (durable)",
            part: Task::LibraryCreate,
            whole: (Task::CreateSmall, Durability::Durable),
            whole_target: roles.against.first().cloned(),
            limit: 0.15,
            at_least: false,
        },
        Ratio {
            title: "checksum verification, share of a cold sequential read (cold)",
            part: Task::Checksum,
            whole: (Task::ReadSequential, Durability::Cold),
            whole_target: roles.subject.clone(),
            limit: 0.05,
            at_least: false,
        },
    ];
    ratios.iter().filter_map(|ratio| figure(ratio, samples)).collect()
}

fn figure(ratio: &Ratio, samples: &[Sample]) -> Option<Figure> {
    let parts: Vec<&Sample> = samples.iter().filter(|s| s.task == ratio.part).collect();
    let whole_of = |round: u32| {
        samples.iter().find(|s| {
            s.round == round
                && (s.task, s.durability) == ratio.whole
                && ratio.whole_target.as_ref().is_none_or(|target| &s.target == target)
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
    Some(Figure {
        title: ratio.title.to_owned(),
        value: Spread::of(&shares)?,
        limit: Some(ratio.limit),
        at_least: ratio.at_least,
        detail: format!("{:.1} ms / {:.1} ms", median_ms(|p| p.0)?, median_ms(|p| p.1)?),
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
        let figures = from_samples(&roles, &samples);
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].value, Spread { median: 0.1, min: 0.1, max: 0.1 });
        assert_eq!(figures[0].reached(), Some(true));
    }

    #[test]
    fn bandwidth_is_a_share_that_shall_be_high() {
        let roles = Roles { subject: None, variants: Vec::new(), null: None, against: Vec::new() };
        let samples = [
            sample(Task::RawWrite, Durability::Durable, "raw", 0, 80),
            sample(Task::SegmentWrite, Durability::Durable, "library", 0, 100),
        ];
        let figures = from_samples(&roles, &samples);
        assert_eq!(figures[0].value.median, 0.8);
        assert_eq!(figures[0].reached(), Some(false));
    }
}
