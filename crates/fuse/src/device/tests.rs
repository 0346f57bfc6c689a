//! Tests of the transport on a pair of sockets, and of its workers.

use super::*;
use crate::wire::abi::opcode;
use firnfs_volume::Scattered;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::sync::Barrier;
use std::time::Duration;

/// A connection that carries messages as `/dev/fuse` does, and its other end.
fn connection() -> (DeviceTransport, OwnedFd) {
    let (ours, kernel) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    // A reply that never comes fails its test.
    set_socket_timeout(&kernel, Timeout::Recv, Some(Duration::from_secs(10))).unwrap();
    (DeviceTransport::new(ours), kernel)
}

fn send(kernel: &OwnedFd, opcode: u32, unique: u64) {
    let mut message = Vec::new();
    message.extend_from_slice(&40_u32.to_ne_bytes());
    message.extend_from_slice(&opcode.to_ne_bytes());
    message.extend_from_slice(&unique.to_ne_bytes());
    message.resize(40, 0);
    rustix::io::write(kernel, &message).unwrap();
}

/// Replies as (unique, error).
fn receive(kernel: &OwnedFd) -> (u64, i32) {
    let mut bytes = [0; 4096];
    let len = rustix::io::read(kernel, &mut bytes[..]).unwrap();
    assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, len);
    let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
    (u64::from_ne_bytes(bytes[8..16].try_into().unwrap()), error)
}

struct Meeting(Barrier);

impl Handler for Meeting {
    fn handle(&self, request: &Request<'_>, _reply: &mut Reply) -> Verdict {
        match request.operation {
            Operation::Fsync => {
                // As the driver does before it waits for the device.
                about_to_block();
                self.0.wait();
                Verdict::Answer
            }
            Operation::Statfs => Verdict::Error(Errno::NOSPC),
            Operation::Readlink => panic!("a panic that a test asked for"),
            _ => Verdict::Last,
        }
    }
    fn setxattr_ext(&self) -> bool {
        false
    }
}

#[test]
fn requests_that_wait_for_the_device_do_not_delay_others() {
    const TOGETHER: usize = 12;
    let (transport, kernel) = connection();
    // Each fsync waits until all of them are under way, plus us.
    let handler = Meeting(Barrier::new(TOGETHER + 1));
    std::thread::scope(|scope| {
        let served = scope.spawn(|| transport.serve(&handler, 1));
        (0..TOGETHER).for_each(|n| send(&kernel, opcode::FSYNC, n as u64));
        send(&kernel, opcode::STATFS, 99);
        assert_eq!(receive(&kernel), (99, -Errno::NOSPC.raw_os_error()));
        handler.0.wait();
        let mut answered: Vec<(u64, i32)> = (0..TOGETHER).map(|_| receive(&kernel)).collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..TOGETHER as u64).map(|n| (n, 0)).collect::<Vec<_>>());
        drop(kernel);
        served.join().unwrap().unwrap();
    });
}

#[test]
fn a_read_is_sent_from_where_it_lies_in_however_many_pieces() {
    struct Blocks;
    impl Handler for Blocks {
        fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Verdict {
            // Two blocks for each STATFS, more than writev(2) takes for each READLINK.
            let count = match request.operation {
                Operation::Statfs => 2,
                Operation::Readlink => PIECES_MAX as u32,
                _ => return Verdict::Error(Errno::NOSYS),
            };
            let mut read = Scattered::default();
            (0..count).for_each(|n| read.add_block(&n.to_ne_bytes().into(), 0..4));
            read.add_zeros(3);
            reply.put_read(read);
            Verdict::Answer
        }
        fn setxattr_ext(&self) -> bool {
            false
        }
    }
    let (transport, kernel) = connection();
    let answer_of = |unique: u64| {
        let mut bytes = [0; 8192];
        let len = rustix::io::read(&kernel, &mut bytes[..]).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes[8..16].try_into().unwrap()), unique);
        bytes[16..len].to_vec()
    };
    let expected = |count: u32| (0..count).flat_map(|n| n.to_ne_bytes()).chain([0; 3]).collect::<Vec<u8>>();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| transport.serve(&Blocks, 1));
        send(&kernel, opcode::STATFS, 1);
        assert_eq!(answer_of(1), expected(2));
        send(&kernel, opcode::READLINK, 2);
        assert_eq!(answer_of(2), expected(PIECES_MAX as u32));
        // Nothing is left of an answer that was sent.
        send(&kernel, opcode::FSYNC, 3);
        assert_eq!(receive(&kernel), (3, -Errno::NOSYS.raw_os_error()));
        rustix::net::shutdown(&kernel, rustix::net::Shutdown::Both).unwrap();
        served.join().unwrap().unwrap();
    });
}

#[test]
fn a_worker_that_panics_is_an_error_and_the_others_go_on() {
    let (transport, kernel) = connection();
    let handler = Meeting(Barrier::new(1));
    std::thread::scope(|scope| {
        let served = scope.spawn(|| transport.serve(&handler, 2));
        send(&kernel, opcode::READLINK, 1);
        std::thread::sleep(Duration::from_millis(20));
        send(&kernel, opcode::STATFS, 2);
        assert_eq!(receive(&kernel).0, 2);
        drop(kernel);
        assert!(matches!(served.join().unwrap(), Err(TransportError::Panicked)));
    });
}

/// Workers end and start all the time here: one is steady, and two requests are under way.
#[test]
fn a_mount_never_loses_its_last_worker() {
    struct Plain;
    impl Handler for Plain {
        fn handle(&self, _request: &Request<'_>, _reply: &mut Reply) -> Verdict {
            Verdict::Error(Errno::NOSYS)
        }
        fn setxattr_ext(&self) -> bool {
            false
        }
    }
    let (transport, kernel) = connection();
    let spare = AtomicUsize::new(8);
    std::thread::scope(|scope| {
        let pool = Pool::new(&transport, &Plain, 1, &spare);
        let served = scope.spawn(move || Pool { kept_idle: 0, ..pool }.serve());
        send(&kernel, opcode::STATFS, 0);
        for n in 1..30_000 {
            send(&kernel, opcode::STATFS, n);
            receive(&kernel);
        }
        receive(&kernel);
        drop(kernel);
        served.join().unwrap().unwrap();
    });
    assert_eq!(spare.into_inner(), 8);
}

/// Whether or not a request passes the lead on: the worker that replaced its worker is surplus afterwards.
#[test]
fn a_surplus_worker_is_given_back_after_a_while_and_the_mount_goes_on() {
    struct Slow;
    impl Handler for Slow {
        fn handle(&self, request: &Request<'_>, _reply: &mut Reply) -> Verdict {
            if matches!(request.operation, Operation::Fsync) {
                about_to_block();
            }
            std::thread::sleep(Duration::from_millis(50));
            Verdict::Error(Errno::NOSPC)
        }
        fn setxattr_ext(&self) -> bool {
            false
        }
    }
    for request in [opcode::FSYNC, opcode::STATFS] {
        let (transport, kernel) = connection();
        let spare = AtomicUsize::new(8);
        std::thread::scope(|scope| {
            let pool = Pool::new(&transport, &Slow, 1, &spare);
            // Longer than both requests take if they come one after the other.
            let served = scope.spawn(move || Pool { kept: Duration::from_millis(500), ..pool }.serve());
            (0..2).for_each(|n| send(&kernel, request, n));
            assert_eq!(receive(&kernel).0 + receive(&kernel).0, 1);
            assert!(spare.load(Ordering::SeqCst) < 8);
            let until = std::time::Instant::now() + Duration::from_secs(10);
            while spare.load(Ordering::SeqCst) < 8 {
                assert!(std::time::Instant::now() < until, "it stays");
                std::thread::sleep(Duration::from_millis(10));
            }
            send(&kernel, request, 9);
            assert_eq!(receive(&kernel), (9, -Errno::NOSPC.raw_os_error()));
            drop(kernel);
            served.join().unwrap().unwrap();
        });
    }
}
