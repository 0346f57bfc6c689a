//! Random histories with quotas on, over the three stores: see `firnfs_torture::quotas`.

use firnfs_torture::histories::{History, Kind, OnFfs, OnLog};
use firnfs_torture::quotas::{InMemory, Met, run};

fn histories<K: Kind>(seeds: std::ops::Range<u64>, slack_bytes: impl Fn(u64) -> u64) -> Met {
    let mut met = Met::default();
    for seed in seeds {
        let history = History { seed, steps: 400, remount_every: 60 };
        match run::<K>(history, slack_bytes(seed)) {
            Ok(more) => met.add(&more),
            Err(why) => panic!("seed {seed}: {why}"),
        }
    }
    println!("{met:?}");
    met
}

/// A file that grows out of its inode declares its first block twice; attributes and content of a new file are not told apart.
#[test]
fn in_memory() {
    let met = histories::<InMemory>(0..40, |seed| 2 * [512, 4096][(seed % 2) as usize]);
    assert!(met.beyond_hard > 500 && met.past_grace > 50, "{met:?}");
}

/// Blocks that are overwritten are charged whole until they are written.
#[test]
fn on_the_log() {
    let met = histories::<OnLog>(0..20, |_| 4 * 4096);
    assert!(met.beyond_hard > 200 && met.past_grace > 20 && met.mounts[0] * met.mounts[1] > 0, "{met:?}");
}

#[test]
fn on_the_fast_file_system() {
    let met =
        histories::<OnFfs>(0..20, |seed| 2 * [4096, 8192, 4096, 16384, 4096, 65536][(seed / 3 % 6) as usize]);
    assert!(met.beyond_hard > 200 && met.past_grace > 20 && met.mounts[0] * met.mounts[1] > 0, "{met:?}");
}
