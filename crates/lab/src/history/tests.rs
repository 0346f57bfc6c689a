use super::engine::{Engine, Pace, Tables};
use super::log::Kind;
use super::tables::{Numbers, Remnants};
use super::{Design, Outcome, Setup, simulate};
use crate::cleaning::workload::Op;
use crate::cleaning::{self, Regime};
use firnfs::clean::{PlacementName, Policy};
use rand::Rng as _;

fn setup(design: Design, live: f64, past: f64) -> Setup {
    Setup {
        workload: "hot-cold".parse().unwrap(),
        policy: "cost-benefit".parse().unwrap(),
        placement: "one".parse().unwrap(),
        live,
        past,
        design,
        segments: 200,
        segment_blocks: 128,
        points: 100,
        commit_blocks: 256,
        seed: 1,
        volumes: 4,
    }
}

fn run(setup: &Setup) -> Outcome {
    simulate(setup, &mut |_| {}).unwrap()
}

/// Which versions are held, by the definition: users see it, or a retained point lies between birth and death.
#[derive(Default)]
struct Model {
    present: std::collections::BTreeMap<u32, u32>,
    dead: Vec<(u32, u32)>,
    points: Vec<u32>,
}

impl Model {
    fn past(&self, retained: usize) -> usize {
        let points = &self.points[self.points.len() - retained..];
        let is_held = |(born, died): &&(u32, u32)| points.iter().any(|point| born <= point && point < died);
        self.dead.iter().filter(is_held).count()
    }
}

#[test]
fn a_dead_version_is_held_exactly_if_a_retained_point_lies_between_birth_and_death() {
    for tables in [Tables::Remnants(Remnants::default()), Tables::Numbers(Numbers::default())] {
        let pace = Pace { point_blocks: Some(40), past_max: 700, commit_blocks: 64, low: 5 };
        let mut engine =
            Engine::new((60, 64, 1500), Policy::default(), PlacementName::One.placement(), pace, tables);
        let mut model = Model::default();
        let mut rng = firnfs_sim::seeded(3, "history");
        let mut most = 0;
        for now in 1..30_000_u32 {
            let block = (rng.next_u64() % 1500) as u32;
            // A write at the time of a point is before it.
            if let Some(born) = model.present.insert(block, now) {
                model.dead.push((born, now));
            }
            engine.run(&[Op::write(block)]);
            if now % 40 == 0 {
                model.points.push(now);
            }
            if now % 997 == 0 {
                engine.log.assert_consistent();
                most = most.max(engine.points());
                assert_eq!(engine.log.count(Kind::Past) as usize, model.past(engine.points()), "at {now}");
                assert_eq!(engine.log.count(Kind::Present) as usize, model.present.len());
            }
        }
        assert!(most > 5, "the past is never long");
    }
}

#[test]
fn without_points_it_agrees_with_the_cleaning_simulator() {
    let ours = run(&Setup { workload: "uniform".parse().unwrap(), ..setup(Design::None, 0.8, 0.0) });
    let theirs = cleaning::simulate(
        &cleaning::Setup {
            workload: "uniform".parse().unwrap(),
            policy: "cost-benefit".parse().unwrap(),
            placement: "one".parse().unwrap(),
            utilisation: 0.8,
            segments: 200,
            segment_blocks: 128,
            // As ours: cleaning begins when five segments are clean, and six do not count for the utilisation.
            regime: Regime { low: 5, high: 6, reserve: 6, ..Regime::STEADY },
            seed: 1,
            precision: 0.01,
            max_volumes: 40.0,
        },
        &mut |_| {},
    );
    let ratio = ours.write_amplification.mean / theirs.unwrap().write_amplification.mean;
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
}

#[test]
fn the_past_grows_to_its_share_and_costs_what_as_much_live_data_costs_or_less() {
    let full = run(&setup(Design::None, 0.9, 0.0));
    let half = run(&setup(Design::None, 0.7, 0.0));
    let ours = run(&setup(Design::Remnants, 0.7, 0.2));
    assert!((0.18..0.22).contains(&ours.past), "{ours:?}");
    assert!(ours.points > 10 && ours.hops_mean > 0.0 && ours.moved_past > 0.0, "{ours:?}");
    let of = |outcome: &Outcome| outcome.write_amplification.mean;
    assert!(of(&ours) > of(&half) && of(&ours) < 1.1 * of(&full), "{half:?} {ours:?} {full:?}");
}

#[test]
fn rows_of_remnants_go_when_no_point_is_older_than_the_move() {
    let mut remnants = Remnants::default();
    remnants.add(10, 0);
    assert!(remnants.take_dirty().is_empty(), "nothing to find again");
    // 32 + 254 * 16 bytes are a block.
    remnants.add(10, 254);
    remnants.add(20, 254);
    assert_eq!(remnants.take_dirty(), [0, 1]);
    assert!(remnants.take_dirty().is_empty());
    assert_eq!(remnants.forget(Some(9)), 0..0);
    assert_eq!(remnants.forget(Some(10)), 0..1);
    remnants.add(30, 1);
    remnants.add(31, 1);
    assert_eq!(remnants.take_dirty(), [2]);
    assert_eq!(remnants.forget(None), 1..2);
}

#[test]
fn numbers_that_are_given_out_together_lie_in_one_block_of_the_table() {
    let mut numbers = Numbers::default();
    (0..1000).for_each(|version| numbers.add(version));
    assert_eq!(numbers.take_dirty(), [0, 1, 2, 3, 4, 5]);
    numbers.change(999);
    assert_eq!(numbers.take_dirty(), [5]);
    (0..500).for_each(|version| numbers.drop(version));
    numbers.take_dirty();
    (0..100).for_each(|version| numbers.add(version));
    assert!(numbers.take_dirty().len() <= 2);
}

#[test]
fn setups_that_do_not_fit_are_refused() {
    for wrong in [
        Setup { live: 0.8, past: 0.2, ..setup(Design::Remnants, 0.0, 0.0) },
        Setup { segments: 10, ..setup(Design::Remnants, 0.7, 0.2) },
        Setup { placement: "oracle".parse().unwrap(), ..setup(Design::None, 0.7, 0.0) },
    ] {
        assert!(simulate(&wrong, &mut |_| {}).is_err(), "{wrong:?}");
    }
}
