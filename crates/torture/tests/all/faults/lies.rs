//! Disks that answer "done" but did something else: lost and misdirected writes, flipped bits, reads that return another
//! place. A read returns the data that was written, or an error that names its place, but nothing else.

use firnfs::lfs::Options;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Device, MemDevice};
use firnfs_sim::{Effect, Fault, FaultyDisk, On, Trigger, VirtualClock};
use firnfs_torture::crash::generate::random_ops;
use firnfs_torture::crash::{Entry, Firn, Op, Refusal, Subject, World};
use firnfs_torture::survey::{Aspect, BLOCK_BYTES, Bounds, Survey, survey};
use std::collections::BTreeMap;
use std::sync::Arc;

const SEEDS: u64 = 40;
const OPS: usize = 60;

/// Every content that each path ever rightly had.
#[derive(Default)]
struct Ever(BTreeMap<String, Vec<Entry>>);

impl Ever {
    fn note(&mut self, world: &World) {
        for entry in world.tree().entries() {
            let versions = self.0.entry(entry.path.clone()).or_default();
            if versions.last().is_none_or(|last| last.content != entry.content || last.kind != entry.kind) {
                versions.push(entry.clone());
            }
        }
    }

    /// Every content found was right at some time.
    fn judge(&self, found: &Survey) -> Result<(), String> {
        for (path, ino) in &found.paths {
            let path = String::from_utf8_lossy(path).into_owned();
            let versions = self.0.get(&path).ok_or_else(|| format!("{path:?} never was"))?;
            for (aspect, answer) in &found.inodes[ino] {
                let (Aspect::Block(block), Ok(bytes)) = (aspect, answer) else { continue };
                let start = (block * BLOCK_BYTES) as usize;
                let is_one = |entry: &Entry| {
                    let content = entry.content.get(start..).unwrap_or(&[]);
                    let there = content.len().min(bytes.len());
                    content[..there] == bytes[..there] && bytes[there..].iter().all(|byte| *byte == 0)
                };
                if !versions.iter().any(is_one) {
                    return Err(format!("block {block} of {path:?} was never so"));
                }
            }
        }
        Ok(())
    }
}

/// Counts over many histories.
#[derive(Default, Debug)]
struct Tally {
    happened: u64,
    refused: u64,
    unreadable: u64,
}

/// Runs a history under a fault, and judges what a mount finds afterwards.
fn endure(seed: u64, fault: Fault, closes: bool, tally: &mut Tally) {
    let place = format!("seed {seed}, {fault:?}");
    let subject = Firn::small();
    let disk = Arc::new(FaultyDisk::new(MemDevice::from_image(subject.format()), seed));
    let mut mounted = subject.mount(disk.clone()).unwrap();
    let (mut world, mut ever) = (World::new(), Ever::default());
    ever.note(&world);
    disk.arm(fault);
    for op in random_ops(&world, seed, OPS) {
        if op == Op::Remount {
            continue;
        }
        match mounted.apply(&op) {
            Ok(()) => {
                world.apply(&op).unwrap_or_else(|why| panic!("{place}: {op} succeeded, although: {why}"))
            }
            Err(Refusal::Broken(why)) => {
                assert!(why.contains("corrupt"), "{place}: {why}");
                // A part of a long write may have been done.
                if matches!(op, Op::Write { .. }) {
                    let _done = world.apply(&op);
                }
            }
            Err(Refusal::Invalid(_) | Refusal::NoSpace) => {}
        }
        ever.note(&world);
    }
    if closes {
        let _closed = mounted.unmount();
    } else {
        drop(mounted);
    }
    tally.happened += u64::from(!disk.injected().is_empty());
    disk.clear();
    for options in [Options { read_only: true, ..subject.options }, subject.options] {
        let device: Arc<dyn Device> = disk.clone();
        let clock = Arc::new(VirtualClock::at(1 << 60));
        let volume = match firnfs_manage::open(device, options, AtimeMode::Noatime, clock) {
            Ok(volume) => volume,
            Err(why) => {
                let why = why.to_string();
                assert!(why.contains("corrupt") || why.contains("not a firnfs"), "{place}: {why}");
                tally.refused += 1;
                continue;
            }
        };
        let found = survey(&volume, Bounds::default());
        for (ino, aspect, error) in found.errors() {
            assert_eq!(error.errno_name(), "EIO", "{place}: inode {ino}, {aspect:?}: {error}");
            tally.unreadable += 1;
        }
        assert_eq!(ever.judge(&found), Ok(()), "{place}");
        // Background work and its end do not panic either, whatever they meet.
        let _done = volume.background();
        let _closed = volume.close();
    }
}

fn endure_all(on: On, trigger: impl Fn(u64) -> Trigger, effect: impl Fn(u64) -> Effect) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        let fault = Fault::anywhere(on, trigger(seed), effect(seed));
        endure(seed, fault, seed % 2 == 0, &mut tally);
    }
    println!("{on:?}: {tally:?}");
    assert!(tally.happened > SEEDS / 2, "{tally:?}");
    tally
}

#[test]
fn writes_that_land_elsewhere_are_never_taken_for_the_right_data() {
    let once = |seed| Trigger::Once { after: seed * 3 % 23 };
    // Within the segment, into another one, and onto superblocks and checkpoints.
    let by_bytes = |seed| [4096, -8192, 262_144, -1_048_576, 512, 3 << 20][(seed % 6) as usize];
    let tally = endure_all(On::Write, once, |seed| Effect::Misdirected { by_bytes: by_bytes(seed) });
    assert!(tally.unreadable > 0, "{tally:?}");
    let often = |_| Trigger::Chance(0.1);
    endure_all(On::Write, often, |seed| Effect::Misdirected { by_bytes: by_bytes(seed) });
}

#[test]
fn lost_writes_never_let_old_bytes_pass_for_new_ones() {
    endure_all(On::Write, |seed| Trigger::Once { after: seed * 3 % 23 }, |_| Effect::Lost);
    endure_all(On::Write, |_| Trigger::Chance(0.2), |_| Effect::Lost);
}

#[test]
fn bits_flipped_on_the_way_to_the_disk_are_found() {
    let tally = endure_all(On::Write, |_| Trigger::Chance(0.2), |_| Effect::FlipBit);
    assert!(tally.unreadable > 0, "{tally:?}");
}

#[test]
fn reads_of_another_place_and_flipped_reads_are_found() {
    for chance in [0.05, 0.7] {
        endure_reads(chance, Effect::FlipBit);
        endure_reads(chance, Effect::Misdirected { by_bytes: 4096 });
        endure_reads(chance, Effect::Misdirected { by_bytes: -262_144 });
    }
}

/// Reads after the mount return wrong data; once they no longer do, everything is there.
fn endure_reads(chance: f64, effect: Effect) {
    let subject = Firn::small();
    let (mut lied, mut failed) = (0, 0);
    for seed in 0..10 {
        let disk = Arc::new(FaultyDisk::new(MemDevice::from_image(subject.format()), seed));
        let mut mounted = subject.mount(disk.clone()).unwrap();
        for op in random_ops(&World::new(), seed, OPS).iter().filter(|op| **op != Op::Remount) {
            mounted.apply(op).unwrap();
        }
        mounted.unmount().unwrap();
        let open = || {
            let device: Arc<dyn Device> = disk.clone();
            let clock = Arc::new(VirtualClock::at(1 << 60));
            firnfs_manage::open(device, subject.options, AtimeMode::Noatime, clock).unwrap()
        };
        let whole = survey(&open(), Bounds::default());
        assert_eq!(whole.errors().count(), 0);
        let volume = open();
        disk.arm(Fault::anywhere(On::Read, Trigger::Chance(chance), effect));
        let partial = survey(&volume, Bounds::default());
        lied += disk.injected().len();
        failed += compare(&partial, &whole);
        disk.clear();
        assert!(survey(&volume, Bounds::default()) == whole, "seed {seed}: all is well again");
    }
    assert!(lied > 0 && (chance < 0.5 || failed > 0), "{effect:?}: {lied} lies, {failed} errors");
}

/// Every answer is right; returns the number of errors.
fn compare(partial: &Survey, whole: &Survey) -> usize {
    for (ino, answers) in &partial.inodes {
        for (aspect, bytes) in
            answers.iter().filter_map(|(aspect, answer)| Some((aspect, answer.as_ref().ok()?)))
        {
            match whole.inodes[ino].get(aspect) {
                Some(right) => assert_eq!(Ok(bytes), right.as_ref(), "inode {ino}: {aspect:?}"),
                // A hole; it was read because the data extents could not be determined.
                None => assert!(bytes.iter().all(|byte| *byte == 0), "inode {ino}: {aspect:?}"),
            }
        }
    }
    partial.errors().inspect(|(.., error)| assert_eq!(error.errno_name(), "EIO")).count()
}
