use super::*;
use crate::watch::owners;
use firnfs::clean::Policy;
use firnfs::inode::Kind;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{MemDevice, SystemClock};
use firnfs_format::InodeNo;
use firnfs_format::TimeNs;
use firnfs_manage::LogVolume;
use firnfs_watch::map::State;
use firnfs_watch::state::State as Watched;
use std::sync::Arc;

const SIZE_BYTES: u64 = 32 << 20;

fn volume() -> Arc<Volume<Lfs>> {
    let device = Arc::new(MemDevice::new(SIZE_BYTES));
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: String::new(),
        uuid: [3; 16],
        hash_key: [1, 2],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    firnfs_manage::format(&*device, &options).unwrap();
    let clock = Arc::new(SystemClock);
    Arc::new(firnfs_manage::open(device, Options::default(), AtimeMode::Noatime, clock).unwrap())
}

fn file(volume: &Volume<Lfs>, name: &[u8]) -> InodeNo {
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name, node, false)).unwrap().ino
}

/// Fills two thirds with files and overwrites every other block.
fn scatter(volume: &Volume<Lfs>) {
    let inos: Vec<InodeNo> = (0..16).map(|n| file(volume, format!("file{n}").as_bytes())).collect();
    for ino in &inos {
        volume.write_all(*ino, 0, &[1; 1 << 20], false).unwrap();
    }
    // Or memory would absorb the overwrites.
    volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    for ino in &inos {
        for block in (0..256).step_by(2) {
            volume.write_all(*ino, block * 4096, &[2; 4096], false).unwrap();
        }
    }
    volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
}

fn service(volume: &Arc<Volume<Lfs>>) -> Service {
    Service { volume: Arc::downgrade(volume), look: Mutex::default() }
}

fn ask(service: &Service, volume: &Volume<Lfs>, watched: &mut Watched, policies: &[Policy]) -> Tick {
    let (revision, taken) = watched.position();
    let request = Request { revision, taken, policies: Vec::new() };
    service.look.lock().next = None;
    let tick = service.tick(volume, &request, policies).unwrap();
    watched.add(tick.clone()).unwrap();
    tick
}

#[test]
fn a_tick_has_the_numbers_of_stat() {
    let volume = volume();
    scatter(&volume);
    let (service, mut watched) = (service(&volume), Watched::default());
    let tick = ask(&service, &volume, &mut watched, &[]);
    let stat = crate::stat::view::StatView::of(&*volume).unwrap();
    let log = stat.log.unwrap();
    assert_eq!((tick.segments_in_use, tick.live_bytes), (log.segments_in_use, log.live_bytes));
    assert_eq!(tick.utilisation, log.utilisation_histogram);
    assert_eq!(tick.space.free_bytes, stat.space.free_bytes);
    assert_eq!(tick.volume.segments, log.segments);
    let cleaned = log.cleaning.unwrap().since_mkfs;
    assert_eq!(
        (tick.counters.log_bytes, tick.counters.user_bytes),
        (cleaned.log_bytes, cleaned.user_bytes.unwrap())
    );
    assert!(tick.counters.user_bytes >= 24 << 20);
    let in_use = watched
        .map
        .cells()
        .iter()
        .filter(|cell| !matches!(cell.state, State::Clean | State::Waiting | State::Next));
    assert_eq!(in_use.count() as u64, log.segments_in_use);
    assert!(watched.map.cells().iter().any(|cell| cell.state == State::Head));
}

#[test]
fn victims_are_those_that_the_policy_said_it_would_take() {
    let volume = volume();
    scatter(&volume);
    let (service, mut watched) = (service(&volume), Watched::default());
    let before = ask(&service, &volume, &mut watched, &[Policy::Greedy, Policy::CostBenefit]);
    assert_eq!(
        before.would.iter().map(|w| w.policy.as_str()).collect::<Vec<_>>(),
        ["greedy", "cost-benefit"]
    );
    let greedy = &before.would[0].victims;
    assert!(greedy.len() > 4 && greedy.is_sorted_by_key(|victim| victim.live_bytes), "{greedy:?}");
    // Without requests the daemon cleans after two seconds; here its steps are made by hand.
    std::thread::sleep(Duration::from_millis(2100));
    for _ in 0..2000 {
        volume.background().unwrap();
        if volume.run_quietly(|vfs, _| Ok(vfs.store().taken_so_far())).unwrap() > before.taken {
            break;
        }
    }
    let after = ask(&service, &volume, &mut watched, &[]);
    assert!(after.taken > before.taken, "the cleaner took nothing");
    let would: Vec<u64> = before.would[1].victims.iter().map(|victim| victim.segment).collect();
    let taken: Vec<u64> = after.victims.iter().map(|victim| victim.segment).collect();
    assert!(after.victims.iter().all(|victim| ["policy", "idle", "emptiest"].contains(&victim.why.as_str())));
    assert!(
        taken.iter().filter(|segment| would.contains(segment)).count() * 2 > taken.len(),
        "{taken:?} {would:?}"
    );
    assert_eq!(after.counters.cleaned, after.taken);
    assert!(volume.check().unwrap().is_clean());
}

#[test]
fn the_second_tick_brings_only_what_changed_and_a_quiet_volume_nothing() {
    let volume = volume();
    scatter(&volume);
    let (service, mut watched) = (service(&volume), Watched::default());
    let first = ask(&service, &volume, &mut watched, &[]);
    let quiet = ask(&service, &volume, &mut watched, &[]);
    assert!(first.map.changes.len() > 100);
    assert_eq!(quiet.map.changes, "");
    volume.write_all(file(&volume, b"more"), 0, &[3; 100_000], false).unwrap();
    volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    let busy = ask(&service, &volume, &mut watched, &[]);
    assert!(!busy.map.changes.is_empty() && busy.map.changes.len() < first.map.changes.len() / 2);
}

#[test]
fn looks_take_at_most_a_hundredth_of_the_time_however_large_the_volume_is() {
    let begin = Instant::now();
    for (took_ms, rest_ms) in [(0, 100), (1, 100), (5, 500), (300, 30_000)] {
        let next = next_look(begin, Duration::from_millis(took_ms));
        assert_eq!(next - begin, Duration::from_millis(rest_ms));
    }
    let volume = volume();
    let (service, mut watched) = (service(&volume), Watched::default());
    ask(&service, &volume, &mut watched, &[]);
    service.look.lock().next = Some(Instant::now() + Duration::from_secs(60));
    scatter(&volume);
    let request = Request { revision: watched.position().0, ..Request::default() };
    let tick = service.tick(&volume, &request, &[]).unwrap();
    assert!(tick.counters.user_bytes >= 24 << 20, "counts are those of now");
    assert_eq!(tick.map.changes, "", "segments those of the last look");
}

#[test]
fn too_many_policies_and_unknown_ones_are_refused() {
    let request = |names: &[&str]| Request {
        policies: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Request::default()
    };
    assert_eq!(policies(&request(&["greedy", "windowed:0.5"])).unwrap().len(), 2);
    assert!(policies(&request(&["lru"])).unwrap_err().contains("no policy is called lru"));
    assert!(policies(&request(&["greedy"; 5])).is_err());
}

#[test]
fn the_owners_of_every_segment_of_a_volume_in_this_process_add_up_before_and_after_a_deletion() {
    let volume = volume();
    let ino = file(&volume, b"precious");
    volume.write_all(ino, 0, &[7; 1 << 20], false).unwrap();
    volume.make_point("s1").unwrap();
    let rows = |wanted: &str| -> u64 {
        let (segments, infos) = volume
            .run_quietly(|vfs, _| {
                let lfs = vfs.store_mut();
                Ok((lfs.geometry().segments, lfs.segment_infos(0)?))
            })
            .unwrap();
        let owners = |segment| owners::of_volume(&volume, segment).unwrap();
        for info in infos.iter().filter(|info| info.usage.in_use) {
            let sum: u64 = owners(info.segment.0).iter().map(|owner| owner.live_bytes).sum();
            assert_eq!(sum, u64::from(info.usage.live_bytes), "segment {}", info.segment.0);
        }
        let all = (0..segments).flat_map(owners);
        all.filter(|owner| owner.path.as_deref() == Some(wanted)).map(|owner| owner.live_bytes).sum()
    };
    assert!(rows("/precious") >= 1 << 20);
    volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, b"precious")).unwrap();
    volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    assert_eq!(rows("/precious"), 0);
    assert!(rows("(kept by snapshots and history)") >= 1 << 20);
}
