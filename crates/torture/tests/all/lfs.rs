//! Random histories on a log-structured volume against the model, hundreds of them; `firn-torture model` runs thousands.

use firnfs_torture::histories::{History, OnLog, Ran};

#[test]
fn histories_agree_with_the_model() {
    let mut ran = Ran::default();
    for seed in 0..420 {
        ran.add(History::of(seed).run::<OnLog>().unwrap_or_else(|why| panic!("seed {seed}: {why}")));
    }
    assert!(ran.coalesced_bytes > 2 << 20, "{ran:?}");
    assert!(ran.remounts > 420 * 5 && ran.cleaned > 0, "{ran:?}");
}

#[test]
fn the_same_seed_is_the_same_history() {
    assert_eq!(History::of(1).run::<OnLog>(), History::of(1).run::<OnLog>());
}
