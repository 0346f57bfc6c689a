use super::*;
use crate::disk::media::tests::media;
use crate::disk::model::DiskKind;
use crate::disk::{Lbn, library};
use proptest::prelude::*;

const MS: i64 = 1_000_000;

/// A bus as fast as the platters: 0.1 ms a sector. A buffer of 128 sectors.
fn mechanics() -> Mechanics {
    Mechanics {
        media: media(MS),
        controller_ns: MS / 2,
        bus_byte_ps: 195_313,
        buffer_sectors: 128,
        reads_ahead: true,
        writes_behind: false,
    }
}

fn command(work: Work, lbn: u64, sectors: u64) -> Command {
    Command { work, lbn: Lbn(lbn), sectors }
}

/// Rounds to microseconds: the bus's picoseconds do not divide.
fn us(ns: i64) -> i64 {
    (ns + 500) / 1000
}

#[test]
fn a_read_costs_the_sum_of_its_parts() {
    let mut disk = MechanicalDisk::new(mechanics());
    // Overhead until 0.5 ms; sector 0 comes round at 10 ms, ten sectors pass by 11 ms, the last one is on the bus until 11.1 ms.
    let service = disk.serve(&command(Work::Read, 0, 10), 0);
    let parts =
        [service.controller_ns, service.wait_ns, service.seek_ns, service.rotation_ns, service.media_ns];
    assert_eq!(parts, [500_000, 0, 0, 9_500_000, MS]);
    assert_eq!((us(service.bus_ns), us(service.end_ns())), (100, 11_100));
    assert!(!service.is_hit);
}

#[test]
fn a_sequential_read_is_served_from_the_buffer() {
    let mut disk = MechanicalDisk::new(mechanics());
    disk.serve(&command(Work::Read, 0, 10), 0);
    // By 11.6 ms the disk has read on to sector 16, by 12.0 to 20; the bus takes 1 ms from 11.6 on.
    let next = disk.serve(&command(Work::Read, 10, 10), 11_100_000);
    assert_eq!((next.is_hit, us(next.wait_ns), us(next.end_ns())), (true, 0, 12_600));
    // After a pause the buffer is full: sectors 20 to 148. All but the bus is free.
    let later = disk.serve(&command(Work::Read, 20, 128), 100 * MS);
    assert_eq!((later.is_hit, us(later.end_ns())), (true, 100_500 + 12_800));
    // The disk took the room up at once: head 1, slot 10 + 48, came round at 105.8 ms, and 52 sectors later there is a seek of 2 ms.
    let again = disk.serve(&command(Work::Read, 148, 20), 113_300_000);
    assert_eq!((again.is_hit, us(again.end_ns())), (true, 115_800));
}

#[test]
fn a_full_buffer_goes_on_reading_when_there_is_room_and_not_before() {
    let mut disk = MechanicalDisk::new(mechanics());
    disk.serve(&command(Work::Read, 0, 20), 0);
    // The buffer holds sectors 20 to 148. Ten of them are taken at 100.5 ms; their room is read into when the head is there again:
    // sector 148 is at slot 58 of its track, which passes at 105.8 ms.
    let first = disk.serve(&command(Work::Read, 20, 10), 100 * MS);
    assert_eq!((first.is_hit, us(first.end_ns())), (true, 101_500));
    let next = disk.serve(&command(Work::Read, 148, 10), 101_500_000);
    assert_eq!((next.is_hit, us(next.end_ns())), (true, 106_900));
    // A read that begins in the full buffer and ends after it: sectors 148 to 160 pass from 105.8 to 107.0 ms.
    let mut disk = MechanicalDisk::new(mechanics());
    disk.serve(&command(Work::Read, 0, 20), 0);
    let across = disk.serve(&command(Work::Read, 140, 20), 100 * MS);
    assert_eq!((across.is_hit, us(across.end_ns())), (true, 107_100));
}

#[test]
fn a_read_elsewhere_ends_reading_ahead_and_keeps_what_is_in_the_buffer() {
    let mut disk = MechanicalDisk::new(mechanics());
    disk.serve(&command(Work::Read, 0, 10), 0);
    let away = disk.serve(&command(Work::Write, 100_000, 1), 50 * MS);
    assert!(!away.is_hit && away.seek_ns > 0);
    let kept = disk.serve(&command(Work::Read, 10, 128), 200 * MS);
    assert_eq!((kept.is_hit, kept.seek_ns), (true, 0));
    let behind = disk.serve(&command(Work::Read, 138, 1), 300 * MS);
    assert!(!behind.is_hit && behind.seek_ns > 0, "the arm is elsewhere");
}

#[test]
fn a_write_makes_the_buffer_forget_its_sectors() {
    let mut disk = MechanicalDisk::new(mechanics());
    disk.serve(&command(Work::Read, 0, 10), 0);
    disk.serve(&command(Work::Write, 5, 1), 50 * MS);
    assert!(!disk.serve(&command(Work::Read, 4, 2), 100 * MS).is_hit);
}

#[test]
fn a_write_waits_for_arm_sector_and_platters() {
    let mut disk = MechanicalDisk::new(mechanics());
    // Track 1 of cylinder 0: switch and settling 1.5 ms until 2.0 ms; slot 10 passed at 1.0 ms and comes again at 11 ms.
    let service = disk.serve(&command(Work::Write, 100, 10), 0);
    let parts =
        [service.controller_ns, service.seek_ns, service.bus_ns, service.rotation_ns, service.media_ns];
    assert_eq!(parts, [500_000, 1_500_000, 0, 9 * MS, MS]);
    // The next ones arrive after their sector has passed: a turn is lost.
    let next = disk.serve(&command(Work::Write, 110, 10), service.end_ns());
    assert_eq!(next.end_ns() - service.end_ns(), 11 * MS);
}

#[test]
fn a_write_over_a_slow_bus_begins_when_the_rest_will_arrive_in_time() {
    let mut disk = MechanicalDisk::new(Mechanics { bus_byte_ps: 5 * 195_313, ..mechanics() });
    // 50 sectors take 25 ms on the bus, until 25.5 ms, and 5 ms to write: from 20.6 ms on; sector 0 comes round at 30 ms.
    let service = disk.serve(&command(Work::Write, 0, 50), 0);
    assert_eq!((us(service.bus_ns), us(service.rotation_ns)), (20_100, 9400));
    assert_eq!(us(service.end_ns()), 35_000);
}

#[test]
fn with_write_behind_a_write_ends_on_the_bus_and_a_flush_waits_for_the_platters() {
    let mut disk = MechanicalDisk::new(Mechanics { writes_behind: true, ..mechanics() });
    let first = disk.serve(&command(Work::Write, 0, 60), 0);
    assert_eq!(us(first.end_ns()), 500 + 6000);
    // No turn is lost: the data is there before the sector passes.
    let second = disk.serve(&command(Work::Write, 60, 60), first.end_ns());
    assert_eq!(us(second.end_ns() - first.end_ns()), 6500);
    // 120 of 128 sectors are taken until the first write has reached the platters, at 16 ms.
    let third = disk.serve(&command(Work::Write, 120, 60), second.end_ns());
    assert_eq!((us(third.wait_ns), us(third.end_ns())), (16_000 - 13_500, 16_000 + 6000));
    // Sectors 0 to 99 pass by 20 ms, the rest of the track from 21.5 ms, a turn later: the settling is not hidden.
    let flush = disk.serve(&command(Work::Flush, 0, 0), third.end_ns());
    assert_eq!(us(flush.end_ns()), 39_000);
}

fn hp97560() -> Mechanics {
    match library::find("hp97560").unwrap().unwrap().kind {
        DiskKind::Mechanical(mechanics) => *mechanics,
        other => panic!("{other:?} is no disk with an arm"),
    }
}

#[test]
fn the_hp_97560_has_the_bandwidth_that_was_published() {
    let mechanics = hp97560();
    let cylinder = 19 * 72;
    let arm = Arm { cylinder: 100, head: 0, at_ns: 0 };
    let from =
        mechanics.media.layout.sector_at(crate::disk::layout::Place { cylinder: 100, head: 0, sector: 0 });
    let start = mechanics.media.pass(arm, from.unwrap(), 1, 0, false).begin_ns;
    // A cylinder is 19 turns, 18 skews of 8 sectors and one of 18: 21.25 turns of 14.99 ms.
    let end = mechanics.media.pass(arm, from.unwrap(), 3 * cylinder + 1, 0, false).arm.at_ns;
    let sector_ns = mechanics.media.sector_ns(Lbn(0));
    let turns = (end - start - sector_ns) as f64 / mechanics.media.rotation.turn_ns as f64;
    assert!((turns - 3.0 * 21.25).abs() < 1e-3, "{turns}");
    let mb_per_s = 3.0 * cylinder as f64 * 512.0 / (turns * 14.9925 / 1000.0) / 1e6;
    assert!((mb_per_s / 2.2 - 1.0).abs() < 0.002, "{mb_per_s}: BSD-LFS table 5 has 2.2 MB/s");
    let mean_ms = mechanics.media.seek.mean_ns(1962) as f64 / 1e6;
    assert!((mean_ms / 13.0 - 1.0).abs() < 0.02, "{mean_ms}: BSD-LFS table 5 has 13.0 ms");
}

/// The bandwidth of `count` requests of 64 KB, each `gap_ns` after the one before, in MB/s.
fn sequential(mechanics: Mechanics, work: Work, gap_ns: i64, count: u64) -> f64 {
    let mut disk = MechanicalDisk::new(mechanics);
    let mut at_ns = disk.serve(&command(work, 0, 128), 0).end_ns();
    let start_ns = at_ns;
    for n in 1..=count {
        at_ns = disk.serve(&command(work, n * 128, 128), at_ns + gap_ns).end_ns();
    }
    count as f64 * 65.536e6 / (at_ns - start_ns) as f64
}

#[test]
fn the_hp_97560_reads_at_the_speed_of_its_bus_and_loses_turns_when_it_writes() {
    // Each read is 1.0 ms of overhead and 41 ms on the bus: 1.56 MB/s, also if the host takes a few milliseconds each time.
    let read = sequential(hp97560(), Work::Read, 0, 500);
    assert!((read - 65.536 / 41.96).abs() < 0.01, "{read}");
    // 128 sectors are 1.78 turns and two or one skews: a write that ends on the bus after 42 ms ends on the platters after 3 turns of
    // this pattern, 44.7 ms on average, and after 4 if 5 ms pass before it.
    let posted = sequential(hp97560(), Work::Write, 0, 500);
    assert!((1.40..1.50).contains(&posted), "{posted}");
    let with_gap = sequential(hp97560(), Work::Write, 5_461_333, 500);
    assert!((1.05..1.15).contains(&with_gap), "{with_gap}");
}

proptest! {
    #[test]
    fn parts_add_up_and_none_is_negative_and_runs_repeat(
        requests in prop::collection::vec((0u8..4, 0u64..300_000, 1u64..300, 0i64..30 * MS), 1..60),
        reads_ahead: bool, writes_behind: bool, bus_byte_ps in 1000i64..1_000_000,
    ) {
        let mechanics = Mechanics { reads_ahead, writes_behind, bus_byte_ps, ..hp97560() };
        let serve_all = || {
            let mut disk = MechanicalDisk::new(mechanics.clone());
            let mut at_ns = 0;
            let serve = |&(kind, lbn, sectors, gap_ns): &(u8, u64, u64, i64)| {
                let work = [Work::Read, Work::Write, Work::Read, Work::Flush][usize::from(kind)];
                let sectors = if work == Work::Flush { 0 } else { sectors };
                let service = disk.serve(&command(work, lbn, sectors), at_ns + gap_ns);
                at_ns = service.end_ns();
                (sectors, service)
            };
            requests.iter().map(serve).collect::<Vec<_>>()
        };
        let services = serve_all();
        prop_assert_eq!(&services, &serve_all());
        let turn_ns = mechanics.media.rotation.turn_ns;
        for (sectors, service) in services {
            let Service { controller_ns, wait_ns, seek_ns, rotation_ns, media_ns, bus_ns, .. } = service;
            let parts = [controller_ns, wait_ns, seek_ns, rotation_ns, media_ns, bus_ns];
            prop_assert!(parts.iter().all(|part| *part >= 0), "{:?}", service);
            prop_assert_eq!(parts.iter().sum::<i64>(), service.end_ns() - service.start_ns);
            prop_assert!(rotation_ns < turn_ns);
            // Nothing is faster than bus and controller.
            if sectors > 0 {
                prop_assert!(service.took_ns() >= mechanics.bus_ns(sectors) + mechanics.controller_ns);
            }
        }
    }

    #[test]
    fn a_faster_part_never_makes_a_single_read_slower(
        lbn in 0u64..2_000_000, sectors in 1u64..500, start_ns in 0i64..50 * MS, faster in 1i64..1000,
    ) {
        let one = |mechanics| MechanicalDisk::new(mechanics).serve(&command(Work::Read, lbn, sectors), start_ns).end_ns();
        let slow = one(hp97560());
        let faster_bus = one(Mechanics { bus_byte_ps: 625_000 - faster * 600, ..hp97560() });
        let faster_controller = one(Mechanics { controller_ns: MS - faster * 1000, ..hp97560() });
        prop_assert!(faster_bus <= slow && faster_controller <= slow);
    }
}
