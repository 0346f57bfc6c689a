//! Random histories on a log-structured volume against the model: with remounts and crashes after a sync in between, tiny
//! caches that force every kind of fetch, and the accounting added up anew at every remount.

use firnfs::lfs::{MkfsOptions, Options};
use firnfs::store::{Scope, Store};
use firnfs_device::{Device, MemDevice};
use firnfs_format::TimeNs;
use firnfs_manage::format;
use firnfs_torture::audit::audit;
use firnfs_torture::model::{Model, Seen};
use firnfs_torture::on_volume::OnVolume;
use firnfs_torture::ops::{Generator, Mix, Path};
use firnfs_torture::run::Runner;
use std::collections::BTreeMap;
use std::sync::Arc;

const START: TimeNs = TimeNs(1_000_000);

fn time(step: usize) -> TimeNs {
    TimeNs(START.0 + (step as i64 / 2) * 1_000 + (step as i64 / 37) * 90_000_000_000_000)
}

fn mkfs_options(seed: u64, size_bytes: u64) -> MkfsOptions {
    MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: [0, 200, 2048][(seed / 3 % 3) as usize],
        label: String::new(),
        uuid: [7; 16],
        hash_key: [seed, 2],
        now: START,
        root_owner: (0, 0),
    }
}

fn options(seed: u64) -> Options {
    Options {
        cache_bytes: if seed.is_multiple_of(2) { 4 << 20 } else { 64 << 20 },
        write_threshold_bytes: [64 << 10, 1 << 20][(seed / 2 % 2) as usize],
        discard: seed.is_multiple_of(5),
        coalesce_age_ms: [None, Some(0)][(seed % 2) as usize],
        ..Options::default()
    }
}

fn mount(seed: u64, device: &Arc<dyn Device>, now: TimeNs) -> OnVolume {
    OnVolume::open(device.clone(), options(seed), now).unwrap()
}

fn same_identities(seed: u64, expected: &mut BTreeMap<Path, Seen>, found: &mut BTreeMap<Path, Seen>) {
    let mut there = BTreeMap::new();
    for (path, seen) in found {
        let Some(model) = expected.get(path) else { continue };
        assert_eq!(*there.entry(seen.identity).or_insert(model.identity), model.identity, "seed {seed}");
        seen.identity = model.identity;
    }
}

/// Returns how many bytes were put in order in idle times.
fn run_history(seed: u64, steps: usize, remount_every: usize) -> u64 {
    let size = 32 << 20;
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(size));
    format(&*device, &mkfs_options(seed, size)).unwrap();
    let mut model = Model::new(START);
    model.may_be_full = true;
    model.may_lose_atime = true;
    let mut runner = Runner::new(mount(seed, &device, START));
    model.file_max_bytes = runner.target.volume.run(|vfs, _| Ok(vfs.store().facts().file_max_bytes)).unwrap();
    let mut generator = Generator::new(seed, Mix::default());
    for step in 0..steps {
        runner.target.clock.set_ns(time(step).0);
        if step % remount_every == remount_every - 1 {
            let clean = (step / remount_every).is_multiple_of(2);
            for slot in 0..firnfs_torture::ops::HANDLES {
                let close = firnfs_torture::ops::Op::Close { slot };
                let reply = runner.apply(time(step), &close);
                model.judge(time(step), &close, &reply).unwrap();
            }
            if clean {
                runner.target.volume.close().unwrap();
            } else {
                runner.target.volume.sync(Scope::All).unwrap();
            }
            runner.target = mount(seed, &device, time(step));
            let wrong = audit(&runner.target.volume).unwrap();
            assert!(wrong.is_empty(), "seed {seed}, step {step}, clean {clean}: {wrong:#?}");
        }
        if step % 23 == 22 {
            idle(&runner.target);
            runner.target.clock.set_ns(time(step).0);
        }
        let op = generator.next_op(&model);
        let reply = runner.apply(time(step), &op);
        if let Err(right) = model.judge(time(step), &op, &reply) {
            panic!("seed {seed}, step {step}, {op:?}: answered {reply:?}, right is {right}");
        }
    }
    let mut expected = model.seen();
    let mut found = runner.seen(time(steps)).unwrap();
    same_identities(seed, &mut expected, &mut found);
    expected.values_mut().chain(found.values_mut()).for_each(|seen| seen.stat.atime = TimeNs(0));
    let differ: Vec<_> = expected.keys().filter(|k| expected.get(*k) != found.get(*k)).collect();
    assert!(expected == found, "seed {seed}: the trees differ at {differ:?}");
    let counters = runner.target.volume.run(|vfs, _| Ok(*vfs.store().counters())).unwrap();
    counters.coalesced_bytes
}

/// Time for the commit interval, for quiet time, and for what is done then.
fn idle(target: &OnVolume) {
    for _ in 0..12 {
        target.clock.advance_ms(1000);
        target.volume.background().unwrap();
    }
}

#[test]
fn histories_agree_with_the_model() {
    let short: u64 = (0..200).map(|seed| run_history(seed, 400, 60)).sum();
    let long: u64 = (200..210).map(|seed| run_history(seed, 4_000, 500)).sum();
    assert!(short > 1 << 20 && long > 1 << 20, "{short} and {long} bytes were put in order");
}
