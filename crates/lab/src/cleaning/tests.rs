//! Results that the simulator must reproduce, and errors that it must never make.

use super::engine::{Engine, Sorter};
use super::workload::Stream;
use super::*;
use firnfs::clean::Policy;

fn setup(workload: &str, policy: &str, placement: &str, utilisation: f64) -> Setup {
    Setup {
        workload: workload.parse().unwrap(),
        policy: policy.parse().unwrap(),
        placement: placement.parse().unwrap(),
        utilisation,
        segments: 500,
        segment_blocks: 128,
        regime: Regime::STEADY,
        seed: 1,
        precision: 0.01,
        max_volumes: 60.0,
    }
}

fn run(setup: &Setup) -> Outcome {
    let outcome = simulate(setup, &mut |_| ()).unwrap();
    assert!(outcome.is_steady, "{setup:?}");
    outcome
}

fn cost(setup: &Setup) -> f64 {
    run(setup).write_cost.mean
}

/// Sprite LFS's simulator, as far as its text describes it; the text does not give the number of segments that it cleans at
/// a time.
fn sprite(workload: &str, policy: &str, utilisation: f64, at_a_time: u32) -> Setup {
    Setup {
        segments: 1000,
        regime: Regime::sprite(at_a_time, at_a_time, true),
        ..setup(workload, policy, "one", utilisation)
    }
}

#[test]
fn greedy_under_uniform_writes_costs_what_theory_says() {
    for utilisation in [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95] {
        // The limit holds for large segments, since small ones differ in utilisation, which helps greedy, and for many,
        // since one of them is half empty.
        let outcome = run(&Setup {
            segments: 1000,
            segment_blocks: 1024,
            ..setup("uniform", "greedy", "one", utilisation)
        });
        let limit = limits::amplification(limits::cleaned_utilisation(utilisation));
        let error = outcome.write_amplification.mean / limit - 1.0;
        assert!(error.abs() < 0.02, "{utilisation}: {error:+.3}");
        assert!((outcome.write_cost.mean / outcome.write_amplification.mean - 2.0).abs() < 0.01);
    }
}

#[test]
fn first_in_first_out_costs_the_same_whatever_the_segment_size() {
    for segment_blocks in [16, 100, 512] {
        let outcome = run(&Setup { segment_blocks, ..setup("uniform", "fifo", "one", 0.8) });
        let limit = limits::amplification(limits::cleaned_utilisation(0.8));
        assert!((outcome.write_amplification.mean / limit - 1.0).abs() < 0.02, "{segment_blocks}");
    }
}

#[test]
fn sprite_cleans_segments_at_55_percent_when_the_disk_is_75_percent_full() {
    let outcome = run(&sprite("uniform", "greedy", 0.75, 8));
    let cleaned = outcome.cleaned_utilisation;
    assert!((cleaned.mean - 0.55).abs() + cleaned.half_width < 0.02, "{cleaned:?}");
}

#[test]
fn greedy_does_worse_when_some_files_are_hot() {
    let at = |workload: &str, utilisation| {
        cost(&Setup { segment_blocks: 256, ..sprite(workload, "greedy", utilisation, 4) })
    };
    for utilisation in [0.4, 0.6, 0.75] {
        assert!(at("hot-cold", utilisation) > 1.08 * at("uniform", utilisation), "{utilisation}");
    }
}

#[test]
fn greedy_does_the_worse_the_hotter_they_are_if_blocks_of_one_age_are_not_collected() {
    // One segment at a time: there is nothing to sort.
    let cost =
        |w: &str| cost(&Setup { segment_blocks: 256, max_volumes: 200.0, ..sprite(w, "greedy", 0.75, 1) });
    let costs = ["uniform", "hot-cold:20/80", "hot-cold:10/90", "hot-cold:5/95"].map(cost);
    assert!(costs.windows(2).all(|pair| pair[0] < pair[1]), "{costs:?}");
}

#[test]
fn cost_benefit_cleans_hot_segments_nearly_empty_and_cold_ones_nearly_full() {
    let share = |histogram: &Histogram, from: f64, to: f64| -> f64 {
        histogram.bars().iter().filter(|bar| (from..to).contains(&bar.utilisation)).map(|bar| bar.share).sum()
    };
    let by = |policy: &str| run(&sprite("hot-cold", policy, 0.75, 8));
    let (cost_benefit, greedy) = (by("cost-benefit"), by("greedy"));
    // Two peaks, around .2 and .75, each higher than everything between them.
    let victims = &cost_benefit.victims;
    let (hot, between, cold) =
        (share(victims, 0.14, 0.26), share(victims, 0.3, 0.66), share(victims, 0.7, 0.8));
    assert!(hot > 2.0 * between && cold > between, "{hot:.3} {between:.3} {cold:.3}");
    // Greedy has one, between them.
    assert!(share(&greedy.victims, 0.5, 0.62) > 0.95, "{:?}", greedy.victims.bars());
    // So cold segments stay full, and hold less dead space.
    assert!(share(&cost_benefit.at_start, 0.75, 1.01) > 1.15 * share(&greedy.at_start, 0.75, 1.01));
}

#[test]
fn cost_benefit_halves_the_cost_of_greedy() {
    let by = |policy: &str| cost(&sprite("hot-cold", policy, 0.8, 4));
    assert!(by("cost-benefit") < 4.0);
    assert!(by("cost-benefit") < 0.72 * by("greedy"));
}

/// 500 segments of 256 blocks, 10% of the blocks with 90% of the writes: results of two other simulators of the same model.
fn checked(policy: &str, utilisation: f64, regime: Regime) -> Setup {
    Setup { segment_blocks: 256, regime, ..setup("hot-cold", policy, "one", utilisation) }
}

#[test]
fn one_victim_at_a_time_is_expensive_in_a_single_pass_and_cheap_until_a_segment_is_clean() {
    for (policy, regime, independent) in [
        ("greedy", Regime::single_pass(1, true), 5.93),
        ("cost-benefit", Regime::single_pass(1, true), 5.92),
        ("greedy", Regime::sprite(1, 1, true), 5.27),
        ("cost-benefit", Regime::sprite(1, 1, true), 3.47),
    ] {
        let cost = cost(&checked(policy, 0.75, regime));
        assert!((cost / independent - 1.0).abs() < 0.02, "{policy}, {regime:?}: {cost}");
    }
}

#[test]
fn the_order_in_which_victims_are_read_costs_what_other_simulators_say() {
    let pass = Regime::single_pass(4, false);
    for (age_sort, victim_order, independent) in [
        (true, VictimOrder::Policy, 3.25),
        (false, VictimOrder::Policy, 3.60),
        (false, VictimOrder::Random, 3.50),
        // It does not seem to be the order of age, and is nearly as cheap: adjacent numbers turn cold together.
        (false, VictimOrder::Number, 3.27),
    ] {
        let cost = cost(&checked("cost-benefit", 0.75, Regime { age_sort, victim_order, ..pass }));
        assert!((cost / independent - 1.0).abs() < 0.02, "{age_sort}, {victim_order:?}: {cost}");
    }
}

#[test]
fn the_published_costs_at_95_percent_are_those_of_segment_age_two_at_a_time() {
    let at_95 = |policy: &str, age_sort| cost(&checked(policy, 0.95, Regime::single_pass(2, age_sort)));
    let (sorted, unsorted) = (at_95("cost-benefit", true), at_95("cost-benefit", false));
    assert!((sorted / 11.8 - 1.0).abs() < 0.03, "{sorted}");
    assert!((unsorted / 16.6 - 1.0).abs() < 0.03, "{unsorted}");
    // The age of the youngest block, which the text prescribes, does not give the published values.
    let youngest = at_95("cost-benefit-youngest", true);
    assert!((youngest / 11.8 - 1.0).abs() > 0.1, "{youngest}");
}

#[test]
fn the_index_of_segments_chooses_what_the_greedy_policy_chooses() {
    // A window of everything is greedy, without the index.
    for utilisation in [0.6, 0.9] {
        let [index, scan] =
            ["greedy", "windowed:1"].map(|policy| run(&setup("uniform", policy, "one", utilisation)));
        assert!((index.cleaned_utilisation.mean - scan.cleaned_utilisation.mean).abs() < 1e-3);
        for (a, b) in index.victims.bars().into_iter().zip(scan.victims.bars()) {
            assert!((a.share - b.share).abs() < 0.05, "victims at {}: {a:?} and {b:?}", a.utilisation);
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_and_depend_on_the_seed() {
    let setups: Vec<Setup> = ["uniform", "zipf", "shift:2", "files"]
        .into_iter()
        .flat_map(|workload| {
            [("greedy", "one"), ("d-choices", "dac"), ("cost-benefit", "sepbit"), ("pooled", "oracle:8")]
                .map(|(policy, placement)| setup(workload, policy, placement, 0.8))
        })
        .map(|setup| Setup { segments: 100, segment_blocks: 32, max_volumes: 30.0, ..setup })
        .map(|setup| Setup { regime: setup.regime.for_logs(setup.placement.logs()), ..setup })
        .collect();
    let on = |threads, setups: &[Setup]| {
        serde_json::to_string(&batch::run(setups, threads, &mut |_| ()).unwrap()).unwrap()
    };
    let one = on(1, &setups);
    assert_eq!(on(5, &setups), one);
    let other: Vec<Setup> = setups.iter().map(|setup| Setup { seed: 2, ..setup.clone() }).collect();
    assert_ne!(on(2, &other), one);
}

#[test]
fn every_policy_and_placement_keeps_every_block() {
    let policies = [
        Policy::Greedy,
        Policy::Fifo,
        Policy::DChoices { d: 3 },
        Policy::WindowedGreedy { window: 0.3 },
        Policy::CostBenefitYoungest,
        Policy::CostBenefit,
        Policy::CostBenefitSqrt,
        Policy::AgeThreshold { age: 500.0 },
        Policy::PooledRate { weight: 0.1 },
    ];
    for (workload, placement) in [
        ("hot-cold", "one"),
        ("zipf", "split"),
        ("shift:1", "dac"),
        ("files:9", "sepbit"),
        ("files:40", "mida:3"),
    ] {
        for policy in policies {
            let named: scheme::NamedWorkload = workload.parse().unwrap();
            let placement: scheme::PlacementName = placement.parse().unwrap();
            let sorter = Sorter::Placement(placement.placement().unwrap());
            let mut stream = Stream::new(&named.workload, 1200, 7);
            let plug = policy == Policy::CostBenefit;
            // 70 blocks: neither a power of two nor a multiple of a word of bits.
            let mut engine = Engine::new(32, 70, 1200, policy, sorter, Regime { plug, ..Regime::STEADY });
            engine.run(&stream.initial());
            let mut ops = Vec::new();
            for _ in 0..20 {
                stream.fill(&mut ops, 500);
                engine.run(&ops);
                engine.disk.assert_consistent();
            }
        }
    }
}

#[test]
fn a_placement_that_knows_the_future_does_best() {
    let of = |placement: &str| {
        let setup = setup("hot-cold", "cost-benefit", placement, 0.85);
        run(&Setup { max_volumes: 150.0, regime: setup.regime.for_logs(setup.placement.logs()), ..setup })
            .write_amplification
            .mean
    };
    let (oracle, dac, one) = (of("oracle"), of("dac"), of("one"));
    assert!(oracle < 0.8 * dac && dac < 0.9 * one, "{oracle} {dac} {one}");
}

#[test]
fn a_trace_is_a_workload_like_the_others() {
    // Four files of 300 blocks, written and deleted in turn: segments become empty by themselves, so little is moved.
    let mut text = String::new();
    for file in 0..4 {
        text += &format!("d {at} 300\nw {at} 300\n", at = file * 1000);
    }
    let trace = trace::Trace::parse(&text).unwrap();
    let workload = workload::Workload::Trace(std::sync::Arc::new(trace));
    let named = scheme::NamedWorkload { name: "trace".into(), workload };
    let setup = Setup { workload: named, segment_blocks: 10, ..setup("uniform", "cost-benefit", "one", 0.9) };
    let outcome = simulate(&setup, &mut |_| ()).unwrap();
    assert!(outcome.write_amplification.mean < 1.05 && outcome.empty_share > 0.9, "{outcome:?}");
}

#[test]
fn a_disk_without_room_for_the_cleaner_is_refused() {
    let full = setup("uniform", "greedy", "one", 0.999);
    assert!(simulate(&full, &mut |_| ()).is_err());
    let tiny = Setup { segments: 9, segment_blocks: 1, ..setup("uniform", "greedy", "one", 0.5) };
    assert!(simulate(&tiny, &mut |_| ()).is_err());
    let vast = Setup { segments: 1 << 20, segment_blocks: 1 << 20, ..full };
    assert!(simulate(&vast, &mut |_| ()).is_err());
}

#[test]
fn plugging_holes_moves_less_on_a_nearly_full_disk_and_writes_in_small_pieces() {
    let of = |plug| {
        run(&Setup { regime: Regime { plug, ..Regime::STEADY }, ..setup("uniform", "greedy", "one", 0.9) })
    };
    let (copied, plugged) = (of(false), of(true));
    assert!(plugged.write_amplification.mean < 0.6 * copied.write_amplification.mean);
    let moved = plugged.write_amplification.mean - 1.0;
    assert!(plugged.small_writes > 0.3 * moved && plugged.small_writes <= moved, "{plugged:?}");
    assert_eq!(copied.small_writes, 0.0);
}

/// The default policy with the placement of real volumes: `split` with two logs for data, `dac-leap` with three to five.
fn of_a_volume(workload: &str, logs: u8, utilisation: f64) -> Setup {
    let placement = if logs == 2 { "split".to_owned() } else { format!("dac-leap:{logs}") };
    let setup = setup(workload, "cost-benefit", &placement, utilisation);
    Setup { segments: 800, max_volumes: 250.0, ..setup }
}

#[test]
fn volumes_come_as_close_to_ideal_separation_as_their_logs_let_them() {
    // With four and five logs the goals are met (1.15 and 1.25: docs/decisions/0201), with three at 75%.
    for (logs, at_75, at_90) in [(2, 1.30, 1.45), (3, 1.15, 1.33), (4, 1.10, 1.25), (5, 1.10, 1.20)] {
        for (utilisation, most) in [(0.75, at_75), (0.9, at_90)] {
            let outcome = run(&of_a_volume("hot-cold", logs, utilisation));
            let ratio = outcome.write_amplification.mean / outcome.ideal_separation.unwrap();
            assert!((0.99..most).contains(&ratio), "{logs} logs, {utilisation}: {ratio}");
        }
    }
}

#[test]
fn the_default_of_the_simulator_is_what_large_volumes_run() {
    let large = of_a_volume("uniform", 5, 0.75);
    assert_eq!(
        (large.policy, large.placement),
        (scheme::PolicyName::default(), scheme::PlacementName::default())
    );
}

/// A small disk, for many runs.
fn small(setup: Setup) -> Setup {
    Setup { segments: 200, segment_blocks: 32, precision: 0.05, max_volumes: 60.0, ..setup }
}

#[test]
fn volumes_follow_a_hot_set_that_moves_nearly_as_well_as_any_policy_with_any_placement() {
    let policies = [
        "greedy",
        "fifo",
        "d-choices",
        "windowed",
        "cost-benefit",
        "cost-benefit-youngest",
        "cost-benefit-sqrt",
        "pooled:0.03",
        "age-threshold",
    ];
    let placements = ["one", "split", "age-sort", "dac:5", "dac-leap:5", "sepbit:5", "mida:5"];
    for workload in ["shift:2", "shift:10"] {
        for utilisation in [0.6, 0.75, 0.9] {
            let others = policies.iter().flat_map(|policy| {
                placements.map(|placement| small(setup(workload, policy, placement, utilisation)))
            });
            let ours = [2, 3, 4, 5].map(|logs| small(of_a_volume(workload, logs, utilisation)));
            let setups: Vec<Setup> = ours.into_iter().chain(others).collect();
            let outcomes = batch::run(&setups, 2, &mut |_| ()).unwrap();
            let costs: Vec<f64> = outcomes.iter().map(|outcome| outcome.write_amplification.mean).collect();
            let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
            for ((logs, most), cost) in [(2, 1.30), (3, 1.20), (4, 1.15), (5, 1.1)].into_iter().zip(&costs) {
                assert!(cost / best < most, "{workload}, {utilisation}, {logs} logs: {cost}, best {best}");
            }
        }
    }
}
