//! Idle time: users' requests end it, maintenance does not.

use crate::common::{create, mount, new_device, pattern};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::Scope;
use firnfs_format::{InodeNo, SegmentId};
use firnfs_manage::LogVolume;
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;

fn idle_in_ms(volume: &Volume<Lfs>) -> u64 {
    volume.run_quietly(|vfs, now| Ok(vfs.store().idle_in_ms(now))).unwrap()
}

fn let_pass(clock: &VirtualClock, volume: &Volume<Lfs>, ms: i64) {
    clock.advance_ms(ms);
    volume.background().unwrap();
}

#[test]
fn a_volume_is_quiet_two_seconds_after_the_last_request_of_a_user() {
    let (volume, clock) = mount(&new_device(32 << 20, 0), Options::default());
    let ino = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    assert_eq!(idle_in_ms(&volume), 2_000);
    let_pass(&clock, &volume, 1_500);
    assert_eq!(idle_in_ms(&volume), 500);
    volume.write(ino, 0, &pattern(1, 10_000), false).unwrap();
    assert_eq!(idle_in_ms(&volume), 2_000);
    let_pass(&clock, &volume, 1_999);
    volume.read(ino, 0, &mut [0; 100]).unwrap();
    assert_eq!(idle_in_ms(&volume), 2_000);
    let_pass(&clock, &volume, 1_999);
    volume.sync(Scope::File(ino)).unwrap();
    assert_eq!(idle_in_ms(&volume), 2_000);
    let_pass(&clock, &volume, 100_000);
    assert_eq!(idle_in_ms(&volume), 0);
}

#[test]
fn an_option_says_after_which_time_a_volume_is_idle() {
    let options = Options { idle_after_ms: 250, ..Options::default() };
    let (volume, clock) = mount(&new_device(32 << 20, 0), options);
    create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    assert_eq!(idle_in_ms(&volume), 250);
    let_pass(&clock, &volume, 250);
    assert_eq!(idle_in_ms(&volume), 0);
}

#[test]
fn upkeep_leaves_a_volume_as_quiet_as_it_is() {
    let (volume, clock) = mount(&new_device(32 << 20, 0), Options::default());
    create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    let_pass(&clock, &volume, 10_000);
    assert!(volume.check().unwrap().findings.is_empty());
    volume.segclean(&[SegmentId(0)]).unwrap();
    volume.wait_for_log(0, std::time::Duration::ZERO).unwrap();
    volume.background().unwrap();
    assert_eq!(idle_in_ms(&volume), 0);
    // A clock that is set back makes no caller wait for ever.
    clock.advance_ms(-50_000);
    let_pass(&clock, &volume, 0);
    let_pass(&clock, &volume, 2_000);
    assert_eq!(idle_in_ms(&volume), 0);
    create(&volume, InodeNo::ROOT, "second", Kind::Regular);
    assert_eq!(idle_in_ms(&volume), 2_000);
}
