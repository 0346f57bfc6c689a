use super::*;
use firnfs_device::{AlignedBuf, MemDevice};

const HEADLESS: Speed = Speed { seek_ns: 0, request_ns: 1000, byte_ps: 2000, flush_ns: 70 };

fn disk(speed: Speed, size_bytes: u64) -> (Arc<TimedDisk<MemDevice>>, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::at(5));
    (Arc::new(TimedDisk::new(MemDevice::new(size_bytes), clock.clone(), speed)), clock)
}

fn write(at_bytes: u64) -> Request {
    Request::Write { at_bytes, data: Arc::new(AlignedBuf::copy_of(&[3; 512])) }
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
