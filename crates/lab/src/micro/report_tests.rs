//! Statistics and tables on samples made by hand.

use super::super::processor::Taken;
use super::*;

fn sample(task: Task, durability: Durability, target: &str, round: u32, ms: u64) -> Sample {
    let taken = Taken {
        elapsed_ns: ms * 1_000_000,
        client_ns: ms * 500_000,
        daemon_ns: (target != "ext4").then_some(ms * 250_000),
    };
    Sample { task, durability, target: target.to_owned(), round, taken }
}

fn report(samples: Vec<Sample>) -> Report {
    let roles = Roles {
        subject: Some("firn".to_owned()),
        variants: vec!["dev".to_owned(), "writeback".to_owned()],
        null: Some("mem".to_owned()),
        against: vec!["ext4".to_owned()],
    };
    let column = |target: &str, transport: Option<&str>| Column {
        target: target.to_owned(),
        transport: transport.map(str::to_owned),
        writeback: target == "writeback",
    };
    let columns = vec![
        column("ext4", None),
        column("firn", Some("io_uring")),
        column("dev", Some("/dev/fuse")),
        column("writeback", Some("io_uring")),
    ];
    Report::new(Environment::default(), (roles, columns), 3, Workload::default(), samples)
}

#[test]
fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
    assert_eq!(Spread::of(&[4.0, 1.0, 3.0, 2.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    assert_eq!(Spread::of(&[5.0]), Some(Spread { median: 5.0, min: 5.0, max: 5.0 }));
    assert_eq!(Spread::of(&[]), None);
}

#[test]
fn ratios_are_taken_within_a_round_so_that_a_slow_round_cancels_out() {
    let times = [(0, 10, 20), (1, 100, 200), (2, 11, 22)];
    let samples = times
        .iter()
        .flat_map(|&(round, firn, ext4)| {
            [
                sample(Task::CreateSmall, Durability::Durable, "firn", round, firn),
                sample(Task::CreateSmall, Durability::Durable, "ext4", round, ext4),
            ]
        })
        .collect();
    let report = report(samples);
    let ratio = &report.rows[0].ratios[0];
    assert_eq!(ratio.ratio, Spread { median: 0.5, min: 0.5, max: 0.5 });
    assert_eq!((ratio.limit, ratio.reached()), (Some(1.0), Some(true)));
    assert_eq!(report.median_ms(Task::CreateSmall, Durability::Durable, "firn"), Some(11.0));
}

#[test]
fn buffered_and_durable_times_never_meet_in_one_row() {
    let report = report(vec![
        sample(Task::CreateSmall, Durability::Buffered, "firn", 0, 1),
        sample(Task::CreateSmall, Durability::Durable, "firn", 0, 7),
        sample(Task::CreateSmall, Durability::Durable, "ext4", 0, 7),
    ]);
    assert_eq!(report.rows.len(), 2);
    assert!(report.rows[0].ratios.is_empty());
    assert_eq!(report.rows[1].ratios[0].ratio.median, 1.0);
}

#[test]
fn a_missed_goal_is_listed_and_marked() {
    let mut report = report(vec![
        sample(Task::ReadSmall, Durability::Cold, "firn", 0, 50),
        sample(Task::ReadSmall, Durability::Cold, "ext4", 0, 100),
        sample(Task::ReadSmall, Durability::Cold, "mem", 0, 45),
    ]);
    report.figures.push(Figure {
        title: "share of raw bandwidth".to_owned(),
        value: Spread { median: 0.8, min: 0.8, max: 0.8 },
        limit: Some(0.9),
        at_least: true,
        detail: String::new(),
    });
    assert_eq!(report.missed().len(), 2, "{:?}", report.missed());
    let text = report.to_markdown();
    assert!(text.contains("| **0.50 (0.50-0.50)** |") && text.contains(">= 0.90, **missed**"), "{text}");
}

#[test]
fn each_variant_is_compared_with_the_first_file_system_and_a_write_back_cache_has_goals_of_its_own() {
    let times = [("ext4", 100), ("firn", 120), ("dev", 300), ("writeback", 95), ("mem", 60)];
    let report = report(
        times.map(|(target, ms)| sample(Task::WriteSequential, Durability::Durable, target, 0, ms)).to_vec(),
    );
    let found: Vec<_> =
        report.rows[0].ratios.iter().map(|r| (r.of.as_str(), r.to.as_str(), r.limit)).collect();
    let expected = [
        ("firn", "ext4", Some(1.3)),
        ("dev", "ext4", None),
        ("writeback", "ext4", Some(0.9)),
        ("firn", "mem", None),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        report.missed(),
        ["write 100 MiB sequentially, 8192 B a call (durable): writeback 0.95 x ext4, goal 0.90"]
    );
    let rereads = [
        sample(Task::Reread, Durability::Cold, "ext4", 0, 10),
        sample(Task::Reread, Durability::Cold, "writeback", 0, 90),
    ];
    assert_eq!(self::report(rereads.to_vec()).rows[0].ratios[0].limit, None);
    let text = report.to_markdown();
    assert!(text.contains("| 1.20 (1.20-1.20) | 3.00 (3.00-3.00) | **0.95 (0.95-0.95)** |"), "{text}");
    assert!(text.contains("<= 1.30, writeback <= 0.90"), "{text}");
    let served = "Served through: firn io_uring; dev /dev/fuse; writeback io_uring, with the kernel's write-back cache.";
    assert!(text.contains(served), "{text}");
}

#[test]
fn writes_have_a_goal_relative_to_the_store_in_memory() {
    let times = [("ext4", 100), ("firn", 120), ("mem", 90)];
    let report = report(
        times.map(|(target, ms)| sample(Task::OverwriteRandom, Durability::Buffered, target, 0, ms)).to_vec(),
    );
    assert_eq!(report.missed().len(), 1);
    assert!(report.missed()[0].ends_with("firn 1.33 x mem, goal 1.15"), "{:?}", report.missed());
    let text = report.to_markdown();
    assert!(text.contains("| **1.33 (1.33-1.33)** | firn / mem <= 1.15"), "{text}");
}

#[test]
fn the_report_survives_a_trip_through_json() {
    let report = report(vec![sample(Task::Find, Durability::Warm, "firn", 0, 3)]);
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

#[test]
fn processor_time_is_that_of_one_operation_and_a_file_system_of_the_kernel_has_no_daemon() {
    let report = report(vec![
        sample(Task::CreateSmall, Durability::Durable, "ext4", 0, 100),
        sample(Task::CreateSmall, Durability::Durable, "firn", 0, 400),
    ]);
    let row = &report.rows[0];
    assert_eq!(
        (row.operations, row.times[1].client_ms, row.times[1].daemon_ms),
        (10_000, 200.0, Some(100.0))
    );
    let text = report.to_markdown();
    assert!(text.contains("| durable | 5.0  | 20.0 + 10.0 | -   | -         | -   |"), "{text}");
}
