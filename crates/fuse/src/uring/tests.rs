use super::*;
use crate::floor::{EXISTING, NullFiles};
use crate::mount::{self, MountOptions, MountRequest};
use crate::session::{TransportChoice, serve_requests};
use std::process::Command;

#[test]
fn many_processors_share_the_slots_but_each_queue_has_enough_of_them() {
    assert_eq!([1, 2, 4, 8, 16, 64, 1024].map(slots_of_a_queue), [128, 128, 128, 128, 64, 32, 32]);
    assert_eq!([1, 2, 4, 8, 16, 32, 64].map(huge_slots_of_a_queue), [8, 8, 8, 4, 2, 1, 0]);
}

#[test]
fn lists_of_processors_are_counted() {
    assert_eq!(count_listed("0-1\n"), Some(2));
    assert_eq!(count_listed("0"), Some(1));
    assert_eq!(count_listed("0-3,8,10-11"), Some(7));
    for bad in ["", "x", "3-1", "0-", "0-99999"] {
        assert_eq!(count_listed(bad), None, "{bad}");
    }
}

/// Mounts a file system with nothing behind it over queues that `make` makes; returns whether a file was found there, whether
/// `/dev/fuse` took over, and how serving ended.
fn serve_over(
    make: impl FnOnce(&DeviceTransport) -> UringTransport,
    choice: TransportChoice,
) -> (bool, bool, Result<(), TransportError>) {
    let directory = tempfile::tempdir().unwrap();
    let mountpoint = directory.path().canonicalize().unwrap();
    let request = MountRequest {
        source: "queues".into(),
        mountpoint: mountpoint.clone(),
        options: MountOptions::default(),
    };
    let device = DeviceTransport::new(mount::mount(&request).unwrap());
    let files = NullFiles::default();
    let uring = make(&device);
    assert!(device.handshake(&files, true).unwrap(), "the kernel agrees");
    let has_fallen_back = AtomicBool::new(false);
    let (is_found, served) = std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let served = serve_requests(Some(uring), &device, &files, (choice, 2), || {
                has_fallen_back.store(true, Ordering::SeqCst)
            });
            if served.is_err() {
                // As a session does, for those who wait.
                mount::unmount(&mountpoint, true).unwrap();
            }
            served
        });
        // A call of this process could not be ended if nobody answered.
        let name = mountpoint.join(EXISTING);
        let found = Command::new("timeout").args(["-s", "KILL", "10", "stat"]).arg(name).output().unwrap();
        if !serving.is_finished() {
            let _gone_already = mount::unmount(&mountpoint, true);
        }
        (found.status.success(), serving.join().unwrap())
    });
    (is_found, has_fallen_back.into_inner(), served)
}

/// Queues of which the kernel refuses all slots, because their buffers are too small.
fn refused(device: &DeviceTransport) -> UringTransport {
    UringTransport::with_payload(device.fd(), 4096).unwrap()
}

/// Queues of which the last never reaches the kernel.
fn incomplete(device: &DeviceTransport) -> UringTransport {
    let mut uring = UringTransport::new(device.fd()).unwrap();
    uring.rings.last_mut().unwrap().spoil();
    uring
}

#[test]
fn queues_that_cannot_be_registered_leave_the_requests_to_dev_fuse_unless_only_they_are_wanted() {
    let can_switch = std::path::Path::new("/dev/fuse").exists() && std::fs::write(SWITCH, "Y").is_ok();
    if !can_switch || !is_switched_on() {
        eprintln!("SKIPPED: NOT TESTED: needs root and a kernel with FUSE over io_uring");
        return;
    }
    let whole = |device: &DeviceTransport| UringTransport::new(device.fd()).unwrap();
    let (is_found, has_fallen_back, served) = serve_over(whole, TransportChoice::Auto);
    assert!(is_found && !has_fallen_back && served.is_ok(), "{served:?}");
    for make in [refused, incomplete] {
        let (is_found, has_fallen_back, served) = serve_over(make, TransportChoice::Auto);
        assert!(is_found && has_fallen_back && served.is_ok(), "{is_found} {has_fallen_back} {served:?}");
        let (_, has_fallen_back, served) = serve_over(make, TransportChoice::Uring);
        assert!(!has_fallen_back && matches!(served, Err(TransportError::NotRegistered(_))), "{served:?}");
    }
}
