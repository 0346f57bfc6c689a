use super::*;
use crate::Speed;
use firnfs_device::{AlignedBuf, MemDevice};

const HEADLESS: Speed = Speed { seek_ns: 0, request_ns: 1000, byte_ps: 2000, flush_ns: 70 };

fn disk(speed: Speed, size_bytes: u64) -> (Arc<TimedDisk<MemDevice>>, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::at(5));
    (Arc::new(TimedDisk::new(MemDevice::new(size_bytes), clock.clone(), speed)), clock)
}

fn write(at_bytes: u64) -> Request {
    Request::Write { at_bytes, data: AlignedBuf::copy_of(&[3; 512]).into() }
}

#[test]
fn requests_queue_up_and_waiting_takes_until_their_end() {
    let (disk, clock) = disk(HEADLESS, 1 << 20);
    let tags = [disk.submit(write(0)), disk.submit(write(512)), disk.submit(Request::Flush)];
    assert_eq!(clock.now_ns(), 5);
    disk.wait(tags[1]).unwrap();
    assert_eq!(clock.now_ns(), 5 + 2 * (1000 + 1024));
    // Complete by then.
    disk.wait(tags[0]).unwrap();
    assert_eq!(clock.now_ns(), 5 + 2 * (1000 + 1024));
    clock.advance_ns(10);
    disk.wait(tags[2]).unwrap();
    assert_eq!(clock.now_ns(), 5 + 2 * (1000 + 1024) + 70);
    // An idle disk begins at once.
    clock.advance_ns(1_000_000);
    let before_ns = clock.now_ns();
    assert_eq!(&*disk.read(0, 512).unwrap(), &[3; 512]);
    assert_eq!(clock.now_ns() - before_ns, 1000 + 1024);
    assert_eq!(disk.work().busy_ns, 3 * (1000 + 1024) + 70);
}

#[test]
fn requests_of_threads_that_take_turns_queue_up_behind_each_other() {
    let (disk, clock) = disk(HEADLESS, 1 << 20);
    let turns = Arc::new(Turns::new(clock.clone(), 2));
    disk.take_turns(turns.clone());
    let flush_at = |me: usize, at_ns: i64| {
        turns.enter(me);
        turns.sleep_until(at_ns);
        disk.flush().unwrap();
        let done_ns = clock.now_ns();
        turns.leave();
        done_ns
    };
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| flush_at(0, 100));
        let second = scope.spawn(|| flush_at(1, 130));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!((first, second), (170, 240));
}

#[test]
fn reading_on_costs_the_transfer_and_going_elsewhere_a_seek() {
    let (disk, clock) = disk(Speed::HARD_DISK, 1 << 30);
    let took_ns = |at_bytes| {
        let before_ns = clock.now_ns();
        disk.read(at_bytes, 1_000_448).unwrap();
        clock.now_ns() - before_ns
    };
    assert_eq!(took_ns(0), 10_004_480);
    assert_eq!(took_ns(1_000_448), 10_004_480);
    assert_eq!(took_ns(500 << 20), 20_004_480);
    assert_eq!(took_ns((500 << 20) + 1_000_448 + 102_400), 10_004_480 + 1_024_000);
    assert_eq!(took_ns(0), 20_004_480);
    // Further than the disk passes in the time of a seek, and a little back: one seek and the transfer, the terms in which
    // bounds are stated.
    assert_eq!(took_ns(1_000_448 + 1_000_448), Speed::HARD_DISK.transfer_ns(1_000_448));
    assert_eq!(took_ns(2 * 1_000_448), 20_004_480);
    disk.flush().unwrap();
    let work = disk.work();
    assert_eq!((work.seeks, work.asked.read_bytes, work.asked.write_bytes), (4, 7 * 1_000_448, 0));
    assert_eq!(work.busy_ns, clock.now_ns() - 5);
    assert_eq!(disk.work().since(&work), DiskWork::default());
}

#[test]
fn the_time_of_commands_is_told_by_kind_and_adds_up() {
    let params = crate::disk::library::find("dsp3105").unwrap().unwrap();
    let clock = Arc::new(VirtualClock::at(0));
    let disk = TimedDisk::of(MemDevice::new(512 << 20), clock.clone(), &params, 0);
    disk.read(300 << 20, 4096).unwrap();
    disk.read(100 << 20, 256 << 10).unwrap();
    let before = disk.work();
    let data = Arc::new(AlignedBuf::copy_of(&[3; 64 << 10]));
    disk.wait(disk.submit(Request::Write { at_bytes: 400 << 20, data: data.into() })).unwrap();
    let work = disk.work();
    let (short, long, writes) = (work.short_reads, work.long_reads, work.writes);
    assert_eq!(short.total_ns() + long.total_ns() + writes.total_ns(), work.busy_ns);
    assert!(long.transfer_ns > 10 * short.transfer_ns && short.seek_ns > 0 && writes.seek_ns > 0);
    let since = work.since(&before);
    assert_eq!((since.short_reads.total_ns(), since.long_reads.total_ns()), (0, 0));
    assert_eq!(since.writes, writes);
}

#[test]
fn the_head_is_where_the_queue_leaves_it() {
    let (disk, clock) = disk(Speed::HARD_DISK, 1 << 30);
    // Requests in between send the head away; flushes and discards leave it in place.
    let requests = [
        write(512 << 20),
        Request::Flush,
        Request::Discard { at_bytes: 0, len_bytes: 1 << 20 },
        write((512 << 20) + 512),
        Request::Read { at_bytes: 0, len_bytes: 512 },
        write((512 << 20) + 1024),
    ];
    let tags = requests.map(|request| disk.submit(request));
    assert_eq!(clock.now_ns(), 5, "nobody waited");
    assert_eq!(disk.work().seeks, 3);
    disk.wait(tags[3]).unwrap();
    assert_eq!(clock.now_ns(), 5 + 10_000_000 + 2 * 5120 + 8_000_000);
    disk.wait(tags[5]).unwrap();
    assert_eq!(clock.now_ns(), 5 + 3 * 10_000_000 + 4 * 5120 + 8_000_000);
    assert_eq!((disk.work().asked.read_bytes, disk.work().asked.write_bytes), (512, 3 * 512));
}

#[test]
fn a_disk_whose_seek_takes_no_time_takes_the_same_for_a_request_wherever_it_is() {
    let (disk, clock) = disk(Speed::SOLID_STATE, 1 << 30);
    for at_bytes in [0, 4096, 500 << 20, 0] {
        let before_ns = clock.now_ns();
        disk.read(at_bytes, 4096).unwrap();
        assert_eq!(clock.now_ns() - before_ns, 80_000 + 8192);
    }
    assert_eq!((disk.work().seeks, disk.work().asked.read_bytes), (0, 4 * 4096));
}

fn hp97560(clock: &Arc<VirtualClock>, turnaround_ns: i64) -> Arc<TimedDisk<MemDevice>> {
    let params = crate::disk::library::find("hp97560").unwrap().unwrap();
    Arc::new(TimedDisk::of(MemDevice::new(1 << 30), clock.clone(), &params, turnaround_ns))
}

fn ends_ns(disk: &TimedDisk<MemDevice>, places: &[u64]) -> Vec<i64> {
    let tags: Vec<Tag> = places.iter().map(|at| disk.submit(write(*at))).collect();
    let end_ns = |tag: &Tag| {
        let mut queue = disk.queue.lock();
        let number = queue.tags[tag];
        queue.settle(number)
    };
    let ends_ns = tags.iter().map(end_ns).collect();
    tags.into_iter().for_each(|tag| disk.wait(tag).map(drop).unwrap());
    ends_ns
}

#[test]
fn a_queue_in_elevator_order_serves_the_next_request_above_and_a_flush_keeps_its_place() {
    let clock = Arc::new(VirtualClock::at(0));
    let disk = hp97560(&clock, 0);
    // The first starts at once; the others are sorted upwards from there, and the lowest comes last.
    let ends = ends_ns(&disk, &[500 << 20, 900 << 20, 100 << 20, 600 << 20]);
    let mut sorted: Vec<usize> = (0..4).collect();
    sorted.sort_by_key(|n| ends[*n]);
    assert_eq!(sorted, [0, 3, 1, 2], "{ends:?}");
    let tags = [disk.submit(write(500 << 20)), disk.submit(write(900 << 20)), disk.submit(Request::Flush)];
    let last = disk.submit(write(600 << 20));
    disk.wait(last).unwrap();
    let end_ns = clock.now_ns();
    tags.into_iter().for_each(|tag| disk.wait(tag).map(drop).unwrap());
    assert_eq!(clock.now_ns(), end_ns, "all others were served before");
}

#[test]
fn a_posted_request_proceeds_while_time_passes_for_other_reasons() {
    let clock = Arc::new(VirtualClock::at(0));
    let disk = hp97560(&clock, 0);
    let tag = disk.submit(write(0));
    clock.advance_ms(500);
    disk.wait(tag).unwrap();
    assert_eq!(clock.now_ns(), 500_000_000, "it was complete long before");
    // A request that arrives while the disk works starts when the disk is free, not when a caller waits.
    let first = disk.submit(write(800 << 20));
    clock.advance_ms(1);
    let second = disk.submit(write((800 << 20) + 512));
    disk.wait(first).unwrap();
    let first_ns = clock.now_ns();
    clock.advance_ms(100);
    disk.wait(second).unwrap();
    assert_eq!(clock.now_ns(), first_ns + 100_000_000);
}

#[test]
fn long_requests_are_split_and_the_host_takes_its_time_between_commands() {
    let text = crate::disk::library::text_of("constant-ssd").unwrap();
    let params = crate::disk::DiskParams::read("d", &format!("{text}transfer_max_kb = 64\n")).unwrap();
    let clock = Arc::new(VirtualClock::at(0));
    let disk = TimedDisk::of(MemDevice::new(1 << 20), clock.clone(), &params, 1_000_000);
    disk.write(0, Arc::new(AlignedBuf::zeroed(150_528))).unwrap();
    assert_eq!((disk.work().commands, disk.work().asked.writes), (3, 1));
    // Three times 80 us, 2 ns a byte, and twice the host.
    assert_eq!(clock.now_ns(), 3 * 80_000 + 2 * 150_528 + 2 * 1_000_000);
    // The host has had its time when the next request comes later.
    clock.advance_ms(5);
    let before_ns = clock.now_ns();
    disk.read(0, 512).unwrap();
    assert_eq!(clock.now_ns() - before_ns, 80_000 + 1024);
}

#[test]
fn threads_that_take_turns_are_served_in_elevator_order() {
    let clock = Arc::new(VirtualClock::at(0));
    let disk = hp97560(&clock, 0);
    let turns = Arc::new(Turns::new(clock.clone(), 3));
    disk.take_turns(turns.clone());
    let write_at = |me: usize, at_ns: i64, at_bytes: u64| {
        turns.enter(me);
        turns.sleep_until(at_ns);
        let tag = disk.submit(write(at_bytes));
        disk.wait(tag).unwrap();
        let done_ns = clock.now_ns();
        turns.leave();
        done_ns
    };
    let done: Vec<i64> = std::thread::scope(|scope| {
        let places = [(0, 10, 500 << 20), (1, 20, 100 << 20), (2, 30, 600u64 << 20)];
        let threads = places.map(|(me, at_ns, at_bytes)| scope.spawn(move || write_at(me, at_ns, at_bytes)));
        threads.map(|thread| thread.join().unwrap()).into_iter().collect()
    });
    assert!(
        done[0] < done[2] && done[2] < done[1],
        "the second one waits although it came before the third: {done:?}"
    );
}

proptest::proptest! {
    /// Times are computed lazily, which is not visible.
    #[test]
    fn ends_do_not_depend_on_observers_or_on_the_order_of_waiting(
        requests in proptest::collection::vec((0u64..2000, 0i64..40_000_000, 0u8..8), 1..25),
        looks in proptest::collection::vec(0i64..20_000_000, 0..25),
    ) {
        let post_all = |looks: &[i64]| {
            let clock = Arc::new(VirtualClock::at(0));
            let disk = hp97560(&clock, 500_000);
            let mut looks = looks.iter();
            let mut tags = Vec::new();
            for &(place, gap_ns, kind) in &requests {
                let at_bytes = place * 512 * 1024;
                tags.push(disk.submit(match kind {
                    0 => Request::Flush,
                    1..4 => Request::Read { at_bytes, len_bytes: 131_072 },
                    _ => write(at_bytes),
                }));
                let look_ns = looks.next().copied().unwrap_or(gap_ns).min(gap_ns);
                clock.advance_ns(look_ns);
                disk.work();
                clock.advance_ns(gap_ns - look_ns);
            }
            (disk, clock, tags)
        };
        let end_after = |looks: &[i64], backwards: bool| {
            let (disk, clock, mut tags) = post_all(looks);
            if backwards {
                tags.reverse();
            }
            tags.into_iter().for_each(|tag| drop(disk.wait(tag).unwrap()));
            (clock.now_ns(), disk.work())
        };
        let expected = end_after(&[], false);
        proptest::prop_assert_eq!(end_after(&looks, false), expected);
        proptest::prop_assert_eq!(end_after(&looks, true), expected);
        let posted: i64 = requests.iter().map(|(_, gap_ns, _)| gap_ns).sum();
        proptest::prop_assert!(expected.0 >= posted);
    }
}
