//! The crash explorer holds the Fast File System to its promise: after a check, names are those of every operation that ended, and what
//! was synced is intact.

use firnfs_torture::crash::generate::random_ops;
use firnfs_torture::crash::runner::run;
use firnfs_torture::crash::{Explorer, Fast, Limits, Op, Plan, Seen, Subject, World};

fn limits() -> Limits {
    let plan = Plan { garbage: false, ..Plan::default() };
    Limits { plan, nested_every: 20, nested_states: 6, states_max: 400, rot_every: 0, ..Limits::default() }
}

/// Explores random histories from their first seed on until one breaks a promise.
fn explore(subject: &dyn Subject, seeds: std::ops::Range<u64>) -> Result<u64, String> {
    let seen = Seen::new();
    let mut distinct = 0;
    for seed in seeds {
        let mut ops = random_ops(&World::new(), seed, 40);
        // See `Fast`.
        let mut world = World::new();
        ops.retain(|op| !matches!(op, Op::Exchange { .. }) && world.apply(op).is_ok());
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

#[test]
fn after_any_cut_a_check_finds_what_was_promised() {
    let distinct = explore(&Fast::small(), 0..24).unwrap_or_else(|why| panic!("{why}"));
    assert!(distinct > 5000, "{distinct} states");
}
