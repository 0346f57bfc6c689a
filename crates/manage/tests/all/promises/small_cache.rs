//! A small cache makes a volume slow, but never blocks it: one step may need more memory at a time than the cache has.

use crate::promises::support::{KIB, MIB, Mounted, make_volume, pattern};
use firnfs::inode::Kind;
use firnfs::lfs::Options;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Device, MemDevice};
use firnfs_format::InodeNo;
use firnfs_manage::open;
use firnfs_sim::VirtualClock;
use firnfs_torture::ops::Rng;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The smallest possible cache.
const CACHE_BYTES: u64 = 4 * MIB;
/// A test that takes longer is stuck: unhindered, each takes some seconds.
const STUCK: Duration = Duration::from_secs(150);

fn finishes(what: &str, work: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    if finished.recv_timeout(STUCK) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{what}: no end after {STUCK:?}");
    }
    worker.join().unwrap();
}

#[test]
fn the_cleaner_moves_more_inodes_than_the_cache_holds() {
    finishes("cleaning", || {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(24 * MIB));
        make_volume(&*device, 256 * KIB);
        let options =
            Options { cache_bytes: CACHE_BYTES, write_threshold_bytes: 256 * KIB, ..Options::default() };
        let mounted = Mounted::new(device, options);
        let mut rng = Rng::new(4);
        let total_bytes = mounted.space().total_bytes;
        let mut files = Vec::new();
        while mounted.space().free_bytes > total_bytes / 4 {
            let ino = mounted.create(InodeNo::ROOT, &format!("f{}", files.len()));
            mounted.write(ino, 0, &pattern(files.len() as u64, 900));
            files.push((ino, files.len() as u64));
        }
        for step in 1_000_000..1_030_000 {
            let at = rng.below(files.len() as u64) as usize;
            mounted.write(files[at].0, 0, &pattern(step, 900));
            files[at].1 = step;
        }
        assert!(mounted.counters().segments_cleaned > 30, "{:?}", mounted.counters());
        for (ino, seed) in files {
            assert!(mounted.content(ino) == pattern(seed, 900), "inode {ino}");
        }
    });
}

#[test]
fn a_checkpoint_writes_more_of_the_inode_map_than_the_cache_holds() {
    finishes("checkpoint", || {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(1 << 30));
        make_volume(&*device, MIB);
        let options = Options { cache_bytes: CACHE_BYTES, ..Options::default() };
        let mounted = Mounted::new(device.clone(), options);
        // 128 inodes per block of the map: 1,400 blocks.
        let mut inodes = Vec::new();
        for d in 0..18 {
            let dir = mounted.try_make(InodeNo::ROOT, &format!("d{d}"), Kind::Directory).unwrap();
            inodes.extend((0..10_000).map(|n| mounted.create(dir, &format!("f{n}"))));
        }
        mounted.close();
        let clock = Arc::new(VirtualClock::at(3_000_000_000));
        let volume = open(device.clone(), options, AtimeMode::Strictatime, clock.clone()).unwrap();
        for ino in inodes.iter().step_by(120) {
            clock.advance_ms(1);
            assert_eq!(volume.read(*ino, 0, &mut [0; 10]).unwrap(), 0);
        }
        volume.close().unwrap();
        drop(volume);
        // The access times are there, so the blocks were written.
        let mounted = Mounted::new(device, options);
        let atime = |n: usize| mounted.attr(inodes[n]).atime;
        assert!(atime(120) > atime(121) && atime(120 * 1_000) > atime(120));
    });
}
