//! Automatic points: made by themselves, kept as the rules say, and given up before users are refused room.

use crate::common::{create, mount, new_device, pattern, unlink};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::{Scope, Store};
use firnfs_device::{Device, MemDevice};
use firnfs_format::checkpoint::{Point, Retention, Rule};
use firnfs_format::{Epoch, InodeNo};
use firnfs_manage::{LogVolume, check_all_points};
use firnfs_sim::{CrashDisk, VirtualClock};
use firnfs_torture::crash::{self, Explorer, Firn, Limits};
use firnfs_volume::Volume;
use std::sync::Arc;

const MIB: usize = 1 << 20;

fn retention(percent: u32) -> Retention {
    let rule = |every_s, for_s| Rule { every_s, for_s };
    Retention { percent, rules: vec![rule(0, 600), rule(3_600, 86_400)] }
}

fn keep(volume: &Volume<Lfs>, percent: u32) {
    volume.run(|vfs, now| vfs.store_mut().set_retention(now, retention(percent))).unwrap();
}

fn points(volume: &Volume<Lfs>) -> Vec<Point> {
    volume.run(|vfs, _| Ok(Vec::from(vfs.store_mut().points()?.clone()))).unwrap()
}

fn past_bytes(volume: &Volume<Lfs>) -> u64 {
    volume.run(|vfs, _| Ok(vfs.store().past_bytes())).unwrap()
}

/// Makes a point of that name, durably.
fn snapshot(volume: &Volume<Lfs>, name: &str) -> Epoch {
    let epoch = volume.run(|vfs, now| vfs.store_mut().make_point(now, name)).unwrap();
    volume.sync(Scope::All).unwrap();
    volume.background().unwrap();
    assert!(volume.run(|vfs, _| Ok(vfs.store().durable_epoch())).unwrap() >= epoch);
    epoch
}

fn assert_sound(device: &Arc<dyn Device>) {
    let report = check_all_points(&**device, &mut |_| {}).unwrap();
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{findings:#?}");
}

fn write(
    volume: &Volume<Lfs>,
    ino: InodeNo,
    at_bytes: u64,
    seed: u64,
    len_bytes: usize,
) -> Result<(), FsError> {
    volume.write_all(ino, at_bytes, &pattern(seed, len_bytes), false)
}

/// Some minutes in which a file changes.
fn live(volume: &Volume<Lfs>, clock: &VirtualClock, ino: InodeNo, minutes: u64) {
    for minute in 0..minutes {
        write(volume, ino, 0, minute, 5_000).unwrap();
        clock.advance_ms(60_000);
        volume.background().unwrap();
    }
}

#[test]
fn a_day_leaves_the_last_ten_minutes_and_one_point_of_each_hour() {
    let device = new_device(64 << 20, 0);
    let (volume, clock) = mount(&device, Options::default());
    let ino = create(&volume, InodeNo::ROOT, "diary", Kind::Regular);
    live(&volume, &clock, ino, 3);
    assert_eq!(points(&volume), [], "nobody has asked for points");
    keep(&volume, 30);
    live(&volume, &clock, ino, 26 * 60);
    let now_s = clock_s(&clock);
    let times: Vec<i64> = points(&volume).iter().map(|point| point.time.0 / 1_000_000_000).collect();
    let young = times.iter().filter(|time| now_s - **time <= 600).count();
    assert!((9..=11).contains(&young), "{times:?} at {now_s}");
    let hours: Vec<i64> = times.iter().take(times.len() - young).map(|time| time / 3_600).collect();
    assert!((22..=25).contains(&hours.len()), "{hours:?}");
    assert!(hours.is_sorted_by(|a, b| b - a == 1), "{hours:?}");
    // An hour ago the file was what it was then.
    let state = volume.run(|vfs, _| Ok(vfs.store_mut().points()?[12].clone())).unwrap();
    let root = volume.run(|vfs, _| vfs.store_mut().look_into(state.epoch)).unwrap();
    let then = volume.run(|vfs, now| vfs.lookup(now, root, b"diary", false)).unwrap();
    assert!((state.time.0 - then.mtime.0) < 120 * 1_000_000_000);
    volume.close().unwrap();
    assert_sound(&device);
    let (volume, _) = mount(&device, Options::default());
    assert_eq!(volume.run(|vfs, _| Ok(vfs.store().retention().clone())).unwrap(), retention(30));
}

fn clock_s(clock: &VirtualClock) -> i64 {
    use firnfs_device::Clock;
    clock.now_ns() / 1_000_000_000
}

#[test]
fn history_takes_no_more_than_its_share() {
    let device = new_device(64 << 20, 0);
    let (volume, clock) = mount(&device, Options::default());
    let ino = create(&volume, InodeNo::ROOT, "large", Kind::Regular);
    write(&volume, ino, 0, 1, 8 * MIB).unwrap();
    keep(&volume, 20);
    let mut most_bytes = 0;
    for round in 0..60 {
        write(&volume, ino, round % 4 * 2 * MIB as u64, round, 2 * MIB).unwrap();
        clock.advance_ms(31_000);
        volume.background().unwrap();
        most_bytes = most_bytes.max(past_bytes(&volume));
    }
    let total_bytes = volume.run(|vfs, _| Ok(vfs.statfs())).unwrap().total_bytes;
    // A point goes once the share is exceeded, by what one round lets die.
    let limit_bytes = total_bytes / 5 + 3 * MIB as u64;
    assert!((total_bytes / 8..limit_bytes).contains(&most_bytes), "{most_bytes} of {total_bytes}");
    volume.close().unwrap();
    assert_sound(&device);
}

#[test]
fn history_gives_way_to_users_and_named_points_do_not() {
    let device = new_device(48 << 20, 0);
    let (volume, clock) = mount(&device, Options::default());
    let total_bytes = volume.run(|vfs, _| Ok(vfs.statfs())).unwrap().total_bytes as usize;
    let ino = create(&volume, InodeNo::ROOT, "large", Kind::Regular);
    let len_bytes = total_bytes * 6 / 10;
    write(&volume, ino, 0, 1, len_bytes).unwrap();
    keep(&volume, 100);
    // Each round all of it is written anew: what there was before has no room beside it.
    for round in 0..6 {
        write(&volume, ino, 0, round, len_bytes).unwrap();
        clock.advance_ms(31_000);
        volume.background().unwrap();
        if points(&volume).is_empty() {
            // The last ones had to give way at once. The state waits, but no longer than a minute, and nothing need change.
            let due_in_ms = volume.background().unwrap();
            assert!(round > 1 && due_in_ms < 60_000, "round {round}: {due_in_ms}");
            clock.advance_ms(due_in_ms as i64);
            volume.background().unwrap();
        }
        assert!(!points(&volume).is_empty(), "round {round}");
        let free_bytes = volume.run(|vfs, _| Ok(vfs.statfs())).unwrap().free_bytes as usize;
        let rest_bytes = total_bytes - len_bytes;
        assert!((rest_bytes * 95 / 100..=rest_bytes).contains(&free_bytes), "{free_bytes} of {rest_bytes}");
    }
    snapshot(&volume, "kept");
    let mut written_bytes = 0;
    let refused = loop {
        match write(&volume, ino, written_bytes, 77, MIB) {
            Ok(()) => written_bytes += MIB as u64,
            Err(why) => break why,
        }
    };
    assert_eq!(refused, FsError::NoSpace);
    assert!((written_bytes as usize) < len_bytes, "what the named point sees stays");
    assert_eq!(points(&volume).iter().map(|point| &*point.name).collect::<Vec<_>>(), ["kept"]);
    let kept = points(&volume)[0].epoch;
    volume.run(|vfs, now| vfs.store_mut().drop_point(now, kept)).unwrap();
    write(&volume, ino, 0, 99, len_bytes).unwrap();
    volume.close().unwrap();
    assert_sound(&device);
}

#[test]
fn a_volume_that_shrinks_gives_up_its_history_but_no_named_point() {
    let device = new_device(64 << 20, 0);
    let (volume, clock) = mount(&device, Options::default());
    keep(&volume, 30);
    let ino = create(&volume, InodeNo::ROOT, "diary", Kind::Regular);
    live(&volume, &clock, ino, 5);
    assert!(points(&volume).len() > 3);
    let epoch = snapshot(&volume, "kept");
    let refused = volume.shrink(48 << 20, &mut |_| true);
    assert!(matches!(refused, Err(FsError::NotPermitted(_))), "{refused:?}");
    assert!(points(&volume).len() > 3, "nothing was dropped");
    volume.run(|vfs, now| vfs.store_mut().drop_point(now, epoch)).unwrap();
    volume.shrink(48 << 20, &mut |_| true).unwrap();
    assert_eq!(points(&volume), []);
    live(&volume, &clock, ino, 3);
    assert!(!points(&volume).is_empty(), "a volume of the new size has history again");
    volume.close().unwrap();
    assert_sound(&device);
}

#[test]
fn a_named_automatic_point_stays() {
    let device = new_device(64 << 20, 0);
    let (volume, clock) = mount(&device, Options::default());
    let ino = create(&volume, InodeNo::ROOT, "diary", Kind::Regular);
    keep(&volume, 30);
    live(&volume, &clock, ino, 2);
    let first = points(&volume)[0].clone();
    let name = |name: &str| volume.run(|vfs, now| vfs.store_mut().name_point(now, first.epoch, name));
    for wrong in ["", "two words", "a/b", "a@b", ".hidden", &"x".repeat(81)] {
        assert!(matches!(name(wrong), Err(FsError::Invalid(_))), "{wrong:?}");
    }
    name("first-day").unwrap();
    let again = volume.run(|vfs, now| vfs.store_mut().make_point(now, "first-day"));
    assert_eq!(again, Err(FsError::Exists));
    unlink(&volume, InodeNo::ROOT, "diary").unwrap();
    let ino = create(&volume, InodeNo::ROOT, "other", Kind::Regular);
    live(&volume, &clock, ino, 30);
    keep(&volume, 0);
    for _ in 0..40 {
        clock.advance_ms(1_000);
        volume.background().unwrap();
    }
    let left = points(&volume);
    assert!(left.iter().any(|point| point.name == "first-day" && point.epoch == first.epoch), "{left:?}");
    volume.close().unwrap();
    assert_sound(&device);
}

/// What a file of that name was in a state; `None` if there was none.
fn content_then(volume: &Volume<Lfs>, epoch: Epoch, name: &str) -> Option<Vec<u8>> {
    let root = volume.run(|vfs, _| vfs.store_mut().look_into(epoch)).unwrap();
    let found = volume.run(|vfs, now| vfs.lookup(now, root, name.as_bytes(), false));
    let node = match found {
        Err(FsError::NotFound) => return None,
        found => found.unwrap(),
    };
    let mut bytes = vec![0; node.size_bytes as usize];
    assert_eq!(volume.read(node.ino, 0, &mut bytes).unwrap(), bytes.len());
    Some(bytes)
}

#[test]
fn what_was_synced_is_a_point_however_soon_it_is_deleted() {
    let device = new_device(64 << 20, 0);
    let (volume, clock) = mount(&device, Options::default());
    keep(&volume, 30);
    let ino = create(&volume, InodeNo::ROOT, "report", Kind::Regular);
    let versions = 40_u64;
    let mut made = Vec::new();
    for version in 0..versions {
        // Hardly any time passes: not even a millisecond between some of them.
        clock.advance_ms((version % 2) as i64);
        write(&volume, ino, 0, version, 5_000 + version as usize).unwrap();
        volume.sync(Scope::All).unwrap();
        made.push(points(&volume).last().unwrap().epoch);
    }
    unlink(&volume, InodeNo::ROOT, "report").unwrap();
    volume.sync(Scope::All).unwrap();
    volume.sync(Scope::All).unwrap();
    assert_eq!(points(&volume).len(), versions as usize + 1, "a sync without a change makes none");
    for (version, epoch) in (0..versions).zip(&made) {
        let then = content_then(&volume, *epoch, "report").unwrap();
        assert!(then == pattern(version, 5_000 + version as usize), "version {version}");
    }
    assert_eq!(content_then(&volume, points(&volume).last().unwrap().epoch, "report"), None);
    // Each has a name of its own, by which it is found.
    let titles: Vec<(String, Epoch)> = volume
        .run(|vfs, _| {
            let states = vfs.store_mut().states(Epoch(0))?.unwrap();
            Ok(states.map(|state| (state.title(), state.epoch)).collect())
        })
        .unwrap();
    for (title, epoch) in &titles {
        let path = [".firn", "history", title.as_str()];
        let find = |dir, name: &&str| {
            volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false)).unwrap().ino
        };
        let root = volume.run(|vfs, _| vfs.store_mut().look_into(*epoch)).unwrap();
        assert_eq!(path.iter().fold(InodeNo::ROOT, find), root, "{title}");
    }
    // After a crash the points of all syncs are there, but for the last, whose checkpoint nobody waited for.
    drop(volume);
    let (volume, _) = mount(&device, Options::default());
    let epochs: Vec<Epoch> = points(&volume).iter().map(|point| point.epoch).collect();
    assert!(made.iter().all(|epoch| epochs.contains(epoch)), "{epochs:?}");
    volume.close().unwrap();
    assert_sound(&device);
}

#[test]
fn commits_by_age_are_points_and_those_of_one_file_are_none() {
    let (volume, clock) = mount(&new_device(64 << 20, 0), Options::default());
    keep(&volume, 30);
    let ino = create(&volume, InodeNo::ROOT, "log", Kind::Regular);
    volume.sync(Scope::All).unwrap();
    for made in 1..10 {
        assert_eq!(points(&volume).len(), made);
        write(&volume, ino, 0, made as u64, 5_000).unwrap();
        volume.sync(Scope::File(ino)).unwrap();
        assert_eq!(points(&volume).len(), made, "an fsync of one file leaves other changes out");
        write(&volume, ino, 0, made as u64, 6_000).unwrap();
        clock.advance_ms(5_001);
        volume.background().unwrap();
    }
}

/// A checkpoint that gains room is no point, so soon after the one before; the sync after it finds nothing to write.
#[test]
fn a_sync_keeps_the_state_that_the_cleaner_has_written_before() {
    let device = new_device(64 << 20, 0);
    let (volume, clock) = mount(&device, Options::default());
    keep(&volume, 30);
    let ino = create(&volume, InodeNo::ROOT, "report", Kind::Regular);
    volume.sync(Scope::All).unwrap();
    clock.advance_ms(1);
    write(&volume, ino, 0, 1, 6_000).unwrap();
    let checkpoints = || volume.run(|vfs, _| Ok(vfs.store().counters().checkpoints)).unwrap();
    let before = checkpoints();
    for _ in 0..20 {
        volume.run_quietly(|vfs, now| vfs.store_mut().step(now, true)).unwrap();
        volume.pump();
    }
    assert!(checkpoints() > before, "the cleaner has made room");
    assert_eq!(points(&volume).len(), 1);
    volume.sync(Scope::All).unwrap();
    let made = points(&volume);
    assert_eq!(made.len(), 2);
    write(&volume, ino, 0, 2, 6_000).unwrap();
    volume.sync(Scope::All).unwrap();
    assert!(content_then(&volume, made[1].epoch, "report") == Some(pattern(1, 6_000)));
    volume.sync(Scope::All).unwrap();
    assert_eq!(points(&volume).len(), 3, "a sync without a change makes none");
}

#[test]
fn without_a_rule_that_keeps_all_syncs_make_no_points() {
    let (volume, _) = mount(&new_device(64 << 20, 0), Options::default());
    let hourly = Retention { percent: 30, rules: vec![Rule { every_s: 3_600, for_s: 86_400 }] };
    volume.run(|vfs, now| vfs.store_mut().set_retention(now, hourly.clone())).unwrap();
    let ino = create(&volume, InodeNo::ROOT, "log", Kind::Regular);
    for round in 0..20 {
        write(&volume, ino, 0, round, 5_000).unwrap();
        volume.sync(Scope::All).unwrap();
    }
    assert_eq!(points(&volume), []);
}

/// Power cuts that are judged.
const CUTS: usize = 150;

#[test]
fn a_power_cut_leaves_the_states_of_all_syncs_that_another_has_followed() {
    let made_by_mkfs = Arc::new(MemDevice::new(32 << 20));
    firnfs_manage::format(&*made_by_mkfs, &crate::common::mkfs_options(32 << 20, 0)).unwrap();
    let plain: Arc<dyn Device> = made_by_mkfs.clone();
    let (volume, _) = mount(&plain, Options::default());
    keep(&volume, 30);
    volume.close().unwrap();
    let disk = Arc::new(CrashDisk::new(made_by_mkfs.image(), 4096));
    let device: Arc<dyn Device> = disk.clone();
    let (volume, _) = mount(&device, Options::default());
    let mut made = Vec::new();
    for version in 0..30_u64 {
        // A new file each time: names are at stake, too.
        let ino = create(&volume, InodeNo::ROOT, "report", Kind::Regular);
        write(&volume, ino, 0, version, 9_000).unwrap();
        volume.sync(Scope::All).unwrap();
        disk.mark(version);
        made.push(points(&volume).last().unwrap().epoch);
        unlink(&volume, InodeNo::ROOT, "report").unwrap();
    }
    let history = disk.history();
    let (subject, seen) = (Firn::small(), crash::Seen::new());
    let explorer = Explorer::new(&subject, Limits { nested_states: CUTS, ..Limits::default() }, &seen);
    let states = explorer.states_during(&history);
    assert!(states.len() >= CUTS / 2, "only {} states", states.len());
    let mut most_lost = 0;
    for (state, _) in states {
        let synced = history.marks_before(state.cut).count();
        let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(history.image(&state).unwrap()));
        let (volume, _) = mount(&device, Options::default());
        let found: Vec<Epoch> = points(&volume).iter().map(|point| point.epoch).collect();
        let kept = made.iter().take_while(|epoch| found.contains(epoch)).count();
        // The state of the last one may have been on its way.
        assert!(kept + 1 >= synced, "{state:?}: {kept} states after {synced} syncs");
        most_lost = most_lost.max(synced.saturating_sub(kept));
        for (version, epoch) in (0..).zip(&made).filter(|(_, epoch)| found.contains(epoch)) {
            let then = content_then(&volume, *epoch, "report");
            assert!(then == Some(pattern(version, 9_000)), "{state:?}: version {version}");
        }
        volume.close().unwrap();
        assert_sound(&device);
    }
    assert_eq!(most_lost, 1, "a sync waits for its commit, not for its state");
}
