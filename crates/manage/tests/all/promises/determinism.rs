//! Same seed, same device trace, byte for byte (one thread); and the same as before the last commit, unless that one was to change it.

use crate::promises::support::{KIB, MIB, START_NS, make_volume};
use firnfs::lfs::Options;
use firnfs::store::Store;
use firnfs_device::{MemDevice, TraceDevice, TraceEntry, digest_of};
use firnfs_format::TimeNs;
use firnfs_torture::model::Model;
use firnfs_torture::on_volume::OnVolume;
use firnfs_torture::ops::{Generator, HANDLES, Mix, Op};
use firnfs_torture::run::{Runner, Target};
use std::sync::Arc;

/// When mkfs made the volume; the history begins then.
const START: TimeNs = TimeNs(START_NS);
/// So small that a history fills it and the cleaner has to work.
const VOLUME_BYTES: u64 = 10 * MIB;
const STEPS: usize = 6_000;
const REMOUNT_EVERY: usize = 900;

fn mount(device: &Arc<TraceDevice<MemDevice>>, now: TimeNs) -> OnVolume {
    let options = Options {
        cache_bytes: 4 * MIB,
        write_threshold_bytes: 256 * KIB,
        discard: true,
        ..Options::default()
    };
    OnVolume::open(device.clone(), options, now).unwrap()
}

fn time(step: usize) -> TimeNs {
    TimeNs(START.0 + step as i64 * 40_000_000)
}

/// The device trace of a random history, and the number of segments cleaned in it.
fn history(seed: u64) -> (Vec<TraceEntry>, u64) {
    let device = Arc::new(TraceDevice::new(MemDevice::new(VOLUME_BYTES)));
    make_volume(&*device, 256 * KIB);
    let mut model = Model::new(START);
    model.may_be_full = true;
    model.may_lose_atime = true;
    let mut runner = Runner::new(mount(&device, START));
    model.file_max_bytes = runner.target.run(|vfs| Ok(vfs.store().facts().file_max_bytes)).unwrap();
    let mut generator = Generator::new(seed, Mix { names: 40, names_percent: 20, reach_bytes: 400_000 });
    for step in 0..STEPS {
        let now = time(step);
        runner.target.clock.set_ns(now.0);
        if step % REMOUNT_EVERY == REMOUNT_EVERY - 1 {
            for slot in 0..HANDLES {
                let close = Op::Close { slot };
                let reply = runner.apply(now, &close);
                model.judge(now, &close, &reply).unwrap();
            }
            runner.target.volume.close().unwrap();
            runner.target = mount(&device, now);
        }
        let op = generator.next_op(&model);
        let reply = runner.apply(now, &op);
        // The answers steer the generator, so the history continues only if they are right.
        if let Err(right) = model.judge(now, &op, &reply) {
            panic!("seed {seed}, step {step}, {op:?}: answered {reply:?}, right is {right}");
        }
    }
    runner.target.volume.close().unwrap();
    let cleaned = runner.target.run(|vfs| Ok(vfs.store().counters().segments_cleaned)).unwrap();
    (device.take(), cleaned)
}

/// What each seed's history does to the device. A commit that changes no behaviour leaves them as they are. One that changes what is
/// written, read or discarded, and when, puts the new numbers here and says so.
const RECORDED: [(u64, u64); 2] = [(1, 0x5c87_34df_3488_2702), (2, 0xeb69_6ecf_d827_bcf0)];

#[test]
fn the_same_seed_makes_the_same_device_trace_with_the_cleaner_at_work() {
    let mut traces = Vec::new();
    for (seed, recorded) in RECORDED {
        let (first, cleaned) = history(seed);
        let (second, _) = history(seed);
        assert!(cleaned >= 10, "seed {seed}: only {cleaned} segments were cleaned");
        let writes = first.iter().filter(|e| matches!(e, TraceEntry::Write { .. })).count();
        assert!(writes > 50, "seed {seed}: a trace of {} requests with {writes} writes", first.len());
        let differ = first.iter().zip(&second).position(|(a, b)| a != b);
        assert!(
            first == second,
            "seed {seed}: requests {} and {}, the first that differs: {:?}",
            first.len(),
            second.len(),
            differ.map(|at| (at, first[at], second[at]))
        );
        let found = digest_of(&first);
        assert!(
            found == recorded,
            "seed {seed}: a trace of {} requests, {found:#018x} instead of {recorded:#018x}: see RECORDED",
            first.len()
        );
        traces.push(first);
    }
    assert!(traces[0] != traces[1], "the trace tells histories apart");
}
