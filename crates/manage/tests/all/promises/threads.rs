//! The driver under several threads: mixed work together with a background thread, group commit, reads during segment
//! writes.

use crate::promises::support::{KIB, MIB, Mounted, make_volume, pattern};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, RenameMode};
use firnfs_device::{Completion, CountingDevice, Device, Geometry, MemDevice, Request, SystemClock, Tag};
use firnfs_format::InodeNo;
use firnfs_manage::open;
use firnfs_torture::audit::audit;
use firnfs_torture::ops::Rng;
use firnfs_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

/// A device whose flushes take a while, as a disk's do, and whose writes can be blocked.
struct Slow {
    inner: MemDevice,
    flush_ms: u64,
    flushes: Mutex<BTreeSet<Tag>>,
    writes: Mutex<BTreeSet<Tag>>,
    gate_is_shut: Mutex<bool>,
    gate: Condvar,
    /// Signalled when a write arrives at the closed gate.
    held: Mutex<Option<mpsc::Sender<()>>>,
}

impl Slow {
    fn new(inner: MemDevice, flush_ms: u64) -> Self {
        Self {
            inner,
            flush_ms,
            flushes: Mutex::default(),
            writes: Mutex::default(),
            gate_is_shut: Mutex::new(false),
            gate: Condvar::new(),
            held: Mutex::default(),
        }
    }

    fn shut_gate(&self) -> mpsc::Receiver<()> {
        let (sender, receiver) = mpsc::channel();
        *self.held.lock().unwrap() = Some(sender);
        *self.gate_is_shut.lock().unwrap() = true;
        receiver
    }

    fn open_gate(&self) {
        *self.gate_is_shut.lock().unwrap() = false;
        self.gate.notify_all();
    }

    fn pass_gate(&self) {
        let mut is_shut = self.gate_is_shut.lock().unwrap();
        while *is_shut {
            if let Some(held) = &*self.held.lock().unwrap() {
                let _ = held.send(());
            }
            is_shut = self.gate.wait(is_shut).unwrap();
        }
    }
}

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let kind = match &request {
            Request::Flush => Some(&self.flushes),
            Request::Write { .. } => Some(&self.writes),
            _ => None,
        };
        let tag = self.inner.submit(request);
        if let Some(tags) = kind {
            tags.lock().unwrap().insert(tag);
        }
        tag
    }
    fn wait(&self, tag: Tag) -> Completion {
        if self.flushes.lock().unwrap().remove(&tag) {
            std::thread::sleep(Duration::from_millis(self.flush_ms));
        }
        if self.writes.lock().unwrap().remove(&tag) {
            self.pass_gate();
        }
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

fn options() -> Options {
    Options { write_threshold_bytes: MIB, cache_bytes: 8 * MIB, commit_interval_ms: 20, ..Options::default() }
}

/// An open volume with a thread that does its background work, as in a mount.
struct Served {
    mounted: Arc<Mounted>,
    stop: Arc<AtomicBool>,
    background: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn new(device: Arc<dyn Device>) -> Self {
        let volume = open(device, options(), AtimeMode::Relatime, Arc::new(SystemClock)).unwrap();
        let mounted = Arc::new(Mounted { volume, clock: Arc::default() });
        let stop = Arc::new(AtomicBool::new(false));
        let background = {
            let (mounted, stop) = (mounted.clone(), stop.clone());
            std::thread::spawn(move || serve(&mounted.volume, &stop))
        };
        Self { mounted, stop, background: Some(background) }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.mounted.volume.wake();
        self.background.take().unwrap().join().unwrap();
        self.mounted.volume.close().unwrap();
    }
}

fn serve(volume: &Volume<Lfs>, stop: &AtomicBool) {
    let _promise = volume.promise_background();
    while !stop.load(Ordering::SeqCst) {
        let sleep_ms = volume.background().unwrap();
        volume.wait_for_work(sleep_ms.min(50));
    }
}

/// The files of one thread in its own directory: seed and length by name.
type Files = BTreeMap<String, (u64, usize)>;

fn work(mounted: &Mounted, thread: u64, steps: u64) -> Files {
    let mut rng = Rng::new(thread);
    let mut files = Files::new();
    let dir = mounted.try_make(InodeNo::ROOT, &format!("t{thread}"), Kind::Directory).unwrap();
    for step in 0..steps {
        let name = format!("f{}", rng.below(40));
        let seed = thread << 32 | step;
        match (files.get(&name).copied(), rng.below(10)) {
            (None, _) => {
                let len = rng.pick(&[0, 500, 5_000, 50_000]);
                let ino = mounted.create(dir, &name);
                mounted.write(ino, 0, &pattern(seed, len));
                files.insert(name, (seed, len));
            }
            (Some((_, len)), 0..3) => {
                let ino = mounted.find(dir, &name).unwrap();
                mounted.write(ino, 0, &pattern(seed, len));
                files.insert(name, (seed, len));
            }
            (Some(_), 3..4) => {
                mounted.unlink(dir, &name);
                files.remove(&name);
            }
            (Some(file), 4..5) => {
                let to = format!("g{}", rng.below(40));
                let rename = |vfs: &mut firnfs::vfs::Vfs<Lfs>, now| {
                    vfs.rename(now, (dir, name.as_bytes()), (dir, to.as_bytes()), RenameMode::Replace)
                };
                mounted.volume.run(rename).unwrap();
                files.remove(&name);
                files.insert(to, file);
            }
            (Some(_), 5..6) => {
                let ino = mounted.find(dir, &name).unwrap();
                mounted.volume.sync(Scope::File(ino)).unwrap();
            }
            (Some((seed, len)), _) => {
                let ino = mounted.find(dir, &name).unwrap();
                assert!(mounted.content(ino) == pattern(seed, len), "thread {thread}, step {step}, {name}");
            }
        }
    }
    files
}

#[test]
fn threads_work_side_by_side_and_find_their_files_after_a_remount() {
    let device: Arc<dyn Device> = Arc::new(Slow::new(MemDevice::new(48 * MIB), 0));
    make_volume(&*device, 256 * KIB);
    let served = Served::new(device.clone());
    let threads: Vec<_> = (0..6)
        .map(|thread| {
            let mounted = served.mounted.clone();
            std::thread::spawn(move || work(&mounted, thread, 1_200))
        })
        .collect();
    let all: Vec<Files> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    served.end();
    let mounted = Mounted::new(device, options());
    for (thread, files) in all.iter().enumerate() {
        let dir = mounted.find(InodeNo::ROOT, &format!("t{thread}")).unwrap();
        for (name, &(seed, len)) in files {
            let ino = mounted.find(dir, name).unwrap();
            assert!(mounted.content(ino) == pattern(seed, len), "thread {thread}, {name}");
        }
    }
    assert_eq!(
        mounted.space().inodes_used as usize,
        1 + all.len() + all.iter().map(Files::len).sum::<usize>()
    );
    let wrong = audit(&mounted.volume).unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn one_flush_serves_many_fsyncs() {
    const THREADS: u64 = 8;
    const FSYNCS: u64 = 40;
    let device = Arc::new(CountingDevice::new(Slow::new(MemDevice::new(48 * MIB), 2)));
    make_volume(&*device, 256 * KIB);
    let served = Served::new(device.clone());
    let before = device.counts();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let mounted = served.mounted.clone();
            std::thread::spawn(move || {
                for n in 0..FSYNCS {
                    let ino = mounted.create(InodeNo::ROOT, &format!("t{thread}-{n}"));
                    mounted.write(ino, 0, &pattern(thread << 32 | n, 700));
                    mounted.volume.sync(Scope::File(ino)).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let flushes = device.counts().since(&before).flushes;
    // No clean unmount: everything that fsync promised must be there without one.
    let image = device.inner().inner.image();
    served.end();
    assert!(flushes * 2 < THREADS * FSYNCS, "{flushes} flushes for {} fsyncs", THREADS * FSYNCS);
    let mounted = Mounted::new(Arc::new(MemDevice::from_image(image)), options());
    for (thread, n) in (0..THREADS).flat_map(|t| (0..FSYNCS).map(move |n| (t, n))) {
        let ino = mounted.find(InodeNo::ROOT, &format!("t{thread}-{n}")).unwrap();
        assert!(mounted.content(ino) == pattern(thread << 32 | n, 700), "thread {thread}, file {n}");
    }
}

#[test]
fn reads_and_writes_go_on_while_a_segment_is_being_written() {
    let device = Arc::new(Slow::new(MemDevice::new(48 * MIB), 0));
    make_volume(&*device, 256 * KIB);
    let mounted = Mounted::new(device.clone(), options());
    let cold = mounted.create(InodeNo::ROOT, "cold");
    mounted.write(cold, 0, &pattern(1, 300_000));
    mounted.close();
    let mounted = Arc::new(Mounted::new(device.clone(), options()));
    let warm = mounted.create(InodeNo::ROOT, "warm");
    mounted.sync();
    mounted.write(warm, 0, &pattern(2, 100_000));
    let held = device.shut_gate();
    let syncing = {
        let mounted = mounted.clone();
        std::thread::spawn(move || mounted.sync())
    };
    held.recv_timeout(Duration::from_secs(30)).expect("the segment write came to the gate");
    let (done, finished) = mpsc::channel();
    let working = {
        let mounted = mounted.clone();
        std::thread::spawn(move || {
            let from_device = mounted.content(cold) == pattern(1, 300_000);
            let being_written = mounted.content(warm) == pattern(2, 100_000);
            mounted.write(warm, 50_000, &pattern(3, 1_000));
            let _ = done.send((from_device, being_written));
        })
    };
    let seen = finished.recv_timeout(Duration::from_secs(30));
    assert!(!syncing.is_finished(), "the write is still held up");
    device.open_gate();
    syncing.join().unwrap();
    working.join().unwrap();
    assert_eq!(seen, Ok((true, true)), "both files could be read meanwhile");
    // Data written meanwhile is newer than the data that was being written.
    mounted.sync();
    let mounted = Mounted::new(device.clone(), options());
    assert!(mounted.read(warm, 50_000, 1_000) == pattern(3, 1_000));
    assert!(mounted.read(warm, 0, 50_000) == pattern(2, 100_000)[..50_000]);
}
