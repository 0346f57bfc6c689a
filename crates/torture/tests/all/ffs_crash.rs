//! The crash explorer holds the Fast File System to its promise: after a check, names are those of every operation that ended,
//! and synced data is intact.

use firnfs::mutation::{ALL_OF_FFS, Mutation, choose};
use firnfs_torture::crash::generate::random_ops;
use firnfs_torture::crash::runner::run;
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::shape::Shape;
use firnfs_torture::crash::{Explorer, Fast, Limits, Op, Plan, Seen, Subject, World};

fn limits() -> Limits {
    let plan = Plan { garbage: false, ..Plan::default() };
    Limits { plan, nested_every: 20, nested_states: 6, states_max: 400, rot_every: 0, ..Limits::default() }
}

/// A random history; every third one in a directory whose names fill many sectors.
fn history(seed: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    if seed % 3 == 2 {
        ops.push(Op::Mkdir("d".to_owned()));
        ops.extend((0..48).map(|n| Op::Create(format!("d/{}", name(n)))));
        let moves = (0..24).map(|n| (seed * 31 + n * 7) % 48);
        ops.extend(moves.map(|n| match n % 4 {
            0 => Op::Unlink(format!("d/{}", name(n))),
            1 => Op::Link { from: format!("d/{}", name(n)), to: format!("d/again-{n}") },
            _ => Op::Rename { from: format!("d/{}", name(n)), to: format!("d/{}", name(n + 100)) },
        }));
    }
    ops.extend(random_ops(&World::new(), seed, 40));
    let mut world = World::new();
    // Of exchanges see `Fast`.
    ops.retain(|op| !matches!(op, Op::Exchange { .. }) && world.apply(op).is_ok());
    ops
}

fn name(n: u64) -> String {
    format!("{n:03}-{}", "x".repeat(20 + (n * 13 % 60) as usize))
}

/// Users and groups with quotas.
fn with_quotas(seed: u64) -> Vec<Op> {
    Scenario::Shaped { shape: Shape::Quotas, seed }.ops(&World::new())
}

/// Explores histories from their first seed on until one breaks a promise.
fn explore(
    subject: &dyn Subject,
    history: fn(u64) -> Vec<Op>,
    seeds: std::ops::Range<u64>,
) -> Result<u64, String> {
    let seen = Seen::new();
    let mut distinct = 0;
    for seed in seeds {
        let ops = history(seed);
        let run =
            run(subject, subject.format(), World::new(), &ops).map_err(|e| format!("seed {seed}: {e}"))?;
        let mut explorer = Explorer::new(subject, limits(), &seen);
        explorer.explore(&run).map_err(|failure| {
            let ops: Vec<String> = ops.iter().map(ToString::to_string).collect();
            format!("seed {seed}: {failure:?}\nafter {}", ops.join("; "))
        })?;
        distinct += explorer.totals().distinct;
    }
    Ok(distinct)
}

/// `FIRNFS_FFS_HISTORIES` explores more.
#[test]
fn after_any_cut_and_a_check_all_promises_hold() {
    let histories = std::env::var("FIRNFS_FFS_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let distinct = explore(&Fast::small(), history, 0..histories).unwrap_or_else(|why| panic!("{why}"));
    println!("{distinct} distinct states");
    assert!(distinct > 5000, "{distinct} states");
}

/// Usage is what the files add up to, limits hold, and quotas that were turned on are on.
#[test]
fn after_any_cut_and_a_check_quotas_hold() {
    let distinct = explore(&Fast::small(), with_quotas, 0..18).unwrap_or_else(|why| panic!("{why}"));
    println!("{distinct} distinct states");
    assert!(distinct > 3000, "{distinct} states");
}

#[test]
fn usage_that_a_mount_does_not_count_is_caught() {
    choose(Some(Mutation::UncountedUsage));
    let found = explore(&Fast::small(), with_quotas, 0..24);
    choose(None);
    let why = found.expect_err("it is caught");
    println!("{}", why.chars().take(300).collect::<String>());
    assert!(why.contains("usage is"), "{why}");
}

#[test]
fn with_all_layout_policies_as_well() {
    let mut fast = Fast::small();
    let tuning = &mut fast.mkfs.tuning;
    (tuning.reallocates, tuning.smart_frag, tuning.no_switch) = (true, true, true);
    tuning.maxcontig = 4;
    (fast.mkfs.block_bytes, fast.mkfs.frag_bytes) = (8192, 1024);
    let distinct = explore(&fast, history, 1000..1009).unwrap_or_else(|why| panic!("{why}"));
    assert!(distinct > 1500, "{distinct} states");
}

#[test]
fn each_rule_of_the_order_of_writes_is_needed() {
    for &mutation in ALL_OF_FFS {
        choose(Some(mutation));
        let found = explore(&Fast::small(), history, 0..40);
        choose(None);
        let why = found.expect_err(&format!("{mutation:?} is not caught"));
        println!("{mutation:?}: {}", why.chars().take(300).collect::<String>());
    }
}
