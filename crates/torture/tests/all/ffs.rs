//! Random histories on volumes of the Fast File System against the model.

use firnfs_torture::histories::{History, OnFfs, Ran};

#[test]
fn histories_agree_with_the_model() {
    let mut ran = Ran::default();
    for seed in 0..210 {
        ran.add(History::of(seed).run::<OnFfs>().unwrap_or_else(|why| panic!("seed {seed}: {why}")));
    }
    assert!(ran.remounts > 210 * 5, "{ran:?}");
}
