//! Random histories under the worst conditions: volumes of a few segments, always nearly full, the cleaner always at work,
//! little memory, tiny write thresholds, and syncs of single files in between. A crash follows each sync; the names must then
//! be exactly those of that moment, and the synced file unchanged.

use firnfs::clean::Medium;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::{Scope, Store};
use firnfs_device::{Device, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::format;
use firnfs_torture::audit::audit;
use firnfs_torture::model::{Model, Seen};
use firnfs_torture::on_volume::OnVolume;
use firnfs_torture::ops::{Generator, HANDLES, Mix, Op, Path, Rng};
use firnfs_torture::run::Runner;
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;

const START: TimeNs = TimeNs(1_000_000);

fn time(step: usize) -> TimeNs {
    TimeNs(START.0 + (step as i64 / 2) * 1_000_000 + (step as i64 / 37) * 9_000_000_000)
}

/// The conditions of one history, all drawn from its seed.
struct Conditions {
    mkfs: MkfsOptions,
    options: Options,
    mix: Mix,
}

fn conditions(seed: u64) -> Conditions {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let segment_bytes = rng.pick(&[256 << 10, 256 << 10, 256 << 10, 512 << 10]);
    let segments = 28 + rng.below(17);
    let block_bytes = rng.pick(&[4096, 4096, 4096, 16384]);
    let mkfs = MkfsOptions {
        size_bytes: (2 << 20) + (64 << 10) + segments * u64::from(segment_bytes),
        block_bytes,
        segment_bytes,
        physical_block_bytes: rng.pick(&[512, 4096, 16384]),
        inline_max_bytes: rng.pick(&[0, 200, 2048]),
        label: String::new(),
        uuid: [7; 16],
        hash_key: [seed, 2],
        now: START,
        root_owner: (0, 0),
    };
    let options = Options {
        cache_bytes: 4 << 20,
        write_threshold_bytes: rng.pick(&[4096, 20_000, 64 << 10, 1 << 20]),
        commit_interval_ms: rng.pick(&[1, 50, 5_000]),
        checkpoint_interval_ms: rng.pick(&[1, 500, 30_000]),
        checkpoint_bytes: rng.pick(&[64 << 10, 1 << 20, 256 << 20]),
        read_only: false,
        discard: rng.percent(50),
        cache_file_data: rng.percent(70),
        // Not drawn, so that the histories of all seeds stay the same.
        chunk_blocks: [Options::CHUNK_BLOCKS_LEAST, 512][(seed % 2) as usize],
        coalesce_age_ms: seed.is_multiple_of(2).then_some(0),
        medium: Medium::of((seed / 2).is_multiple_of(2)),
        ..Options::default()
    };
    let mix = Mix {
        names: rng.pick(&[6, 12, 60, 400]),
        names_percent: rng.pick(&[20, 50, 70]),
        reach_bytes: rng.pick(&[5_000, 20_000, 200_000]),
    };
    Conditions { mkfs, options, mix }
}

fn mount(device: &Arc<dyn Device>, options: Options, now: TimeNs) -> OnVolume {
    OnVolume::open(device.clone(), options, now).unwrap()
}

fn find(volume: &Volume<Lfs>, path: &Path) -> InodeNo {
    path.iter()
        .fold(InodeNo::ROOT, |at, name| volume.run(|vfs, now| vfs.lookup(now, at, name, false)).unwrap().ino)
}

/// Syncs one file, crashes a copy of the volume, and judges what a mount finds.
fn sync_one_and_crash(
    seed: u64,
    device: &MemDevice,
    target: &OnVolume,
    model: &Model,
    options: Options,
    (now, draw): (TimeNs, u64),
) {
    let expected = model.seen();
    let files: Vec<&Path> =
        expected.iter().filter(|(_, seen)| seen.stat.kind != Kind::Directory).map(|(path, _)| path).collect();
    if files.is_empty() {
        return;
    }
    let synced = files[draw as usize % files.len()];
    target.volume.sync(Scope::File(find(&target.volume, synced))).unwrap();
    let copy: Arc<dyn Device> = Arc::new(MemDevice::from_image(device.image()));
    let crashed = mount(&copy, options, now);
    let wrong = audit(&crashed.volume).unwrap();
    assert!(wrong.is_empty(), "seed {seed}, after a crash: {wrong:#?}");
    let found = Runner::new(crashed).seen(now).unwrap();
    let names = |tree: &BTreeMap<Path, Seen>| -> Vec<(Path, Kind, u32)> {
        tree.iter().map(|(path, seen)| (path.clone(), seen.stat.kind, seen.stat.nlink)).collect()
    };
    assert!(names(&expected) == names(&found), "seed {seed}: the names differ after the sync of a file");
    let (mut right, mut there) = (expected[synced].clone(), found[synced].clone());
    (right.identity, there.identity) = (0, 0);
    (right.stat.atime, there.stat.atime) = (TimeNs(0), TimeNs(0));
    assert!(right == there, "seed {seed}: {synced:?} was synced as {right:?}, is {there:?}");
}

/// After a checkpoint, only segments with an open log may be in use without live blocks; none may be forgotten.
fn assert_no_segment_is_lost(seed: u64, volume: &Volume<Lfs>) {
    let segments = volume.run(|vfs, _| vfs.store_mut().usage_leaf(0)).unwrap();
    let empty: Vec<_> =
        segments.iter().filter(|(_, e)| e.in_use && e.live_bytes == 0).map(|(s, _)| s).collect();
    assert!(empty.len() <= 2, "seed {seed}: segments {empty:?} are in use for nothing");
}

fn run_history(seed: u64, steps: usize) -> MemDevice {
    let Conditions { mkfs, options, mix } = conditions(seed);
    let memory = Arc::new(MemDevice::new(mkfs.size_bytes));
    let device: Arc<dyn Device> = memory.clone();
    format(&*device, &mkfs).unwrap();
    let mut model = Model::new(START);
    model.may_be_full = true;
    model.may_lose_atime = true;
    let mut runner = Runner::new(mount(&device, options, START));
    model.file_max_bytes = runner.target.volume.run(|vfs, _| Ok(vfs.store().facts().file_max_bytes)).unwrap();
    let mut generator = Generator::new(seed, mix);
    let mut rng = Rng::new(seed);
    for step in 0..steps {
        let now = time(step);
        runner.target.clock.set_ns(now.0);
        match rng.below(100) {
            0 => {
                let draw = rng.bits();
                sync_one_and_crash(seed, &memory, &runner.target, &model, options, (now, draw));
            }
            1 => {
                for slot in 0..HANDLES {
                    let close = Op::Close { slot };
                    let reply = runner.apply(now, &close);
                    model.judge(now, &close, &reply).unwrap();
                }
                let is_clean = rng.percent(50);
                if is_clean {
                    runner.target.volume.close().unwrap();
                } else {
                    runner.target.volume.sync(Scope::All).unwrap();
                }
                runner.target = mount(&device, options, now);
                let wrong = audit(&runner.target.volume).unwrap();
                assert!(wrong.is_empty(), "seed {seed}, step {step}: {wrong:#?}");
                if is_clean {
                    assert_no_segment_is_lost(seed, &runner.target.volume);
                }
            }
            2..5 => {
                runner.target.volume.background().unwrap();
            }
            _ => {}
        }
        let op = generator.next_op(&model);
        let reply = runner.apply(now, &op);
        if let Err(right) = model.judge(now, &op, &reply) {
            panic!("seed {seed}, step {step}, {op:?}: answered {reply:?}, right is {right}");
        }
    }
    runner.target.volume.sync(Scope::All).unwrap();
    let mut expected = model.seen();
    let mut found = runner.seen(time(steps)).unwrap();
    for seen in expected.values_mut().chain(found.values_mut()) {
        (seen.stat.atime, seen.identity) = (TimeNs(0), 0);
    }
    let differ: Vec<_> = expected.keys().filter(|k| expected.get(*k) != found.get(*k)).collect();
    assert!(expected == found, "seed {seed}: the trees differ at {differ:?}");
    drop(runner);
    MemDevice::from_image(memory.image())
}

/// The number of histories: `FIRNFS_HISTORIES` in the environment, for long runs.
fn histories(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let first = number("FIRNFS_FIRST_SEED").unwrap_or(0);
    first..first + number("FIRNFS_HISTORIES").unwrap_or(default)
}

#[test]
fn histories_on_tiny_full_volumes_agree_with_the_model() {
    for seed in histories(60) {
        run_history(seed, 1_500);
    }
}

#[test]
fn the_same_seed_leaves_the_same_bytes() {
    for seed in 0..4 {
        let (one, two) = (run_history(seed, 800), run_history(seed, 800));
        let size = one.geometry().size_bytes;
        for at in (0..size).step_by(64 << 10) {
            let len = (size - at).min(64 << 10) as u32;
            assert!(
                one.read(at, len).unwrap()[..] == two.read(at, len).unwrap()[..],
                "seed {seed}, byte {at}"
            );
        }
    }
}
