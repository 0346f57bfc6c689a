//! Discard: emptied segments are returned to the device, but never one that a mount could still reach.

use crate::promises::support::{KIB, MIB, Mounted, make_volume, pattern};
use firnfs::engine::{Engine, Job, Step};
use firnfs::lfs::{Options, read_superblock};
use firnfs_device::{AlignedBuf, Completion, Device, Geometry, MemDevice, Request, SparseImage, Tag};
use firnfs_format::checkpoint::Checkpoint;
use firnfs_format::superblock::{CHECKPOINT_SLOT_BYTES, Superblock};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::LogVolume;
use firnfs_torture::ops::Rng;
use std::sync::{Arc, Mutex};

const VOLUME_BYTES: u64 = 16 * MIB;
const SEGMENT_BYTES: u64 = 256 * KIB;
const FILES: u64 = 120;
const FILE_BYTES: usize = 60_000;
/// Discards after which the volume is opened as a crash would leave it.
const CRASHES: usize = 40;

/// Overwrites discarded ranges with garbage, as a device may, and keeps the image after each discard.
struct Shredder {
    inner: MemDevice,
    after_discards: Mutex<Vec<SparseImage>>,
}

impl Device for Shredder {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let Request::Discard { at_bytes, len_bytes } = request else { return self.inner.submit(request) };
        let garbage = Arc::new(AlignedBuf::copy_of(&vec![0xdb; len_bytes as usize]));
        let tag = self.inner.submit(Request::Write { at_bytes, data: garbage.into() });
        self.after_discards.lock().unwrap().push(self.inner.image());
        tag
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

fn options(discard: bool) -> Options {
    Options { write_threshold_bytes: MIB, checkpoint_bytes: 4 * MIB, discard, ..Options::default() }
}

/// A file's first bytes give its version; the rest must belong to that version.
fn version(n: u64, step: u64) -> Vec<u8> {
    let mut bytes = pattern(n << 32 | step, FILE_BYTES);
    bytes[..8].copy_from_slice(&step.to_le_bytes());
    bytes
}

fn assert_all_readable(mounted: &Mounted, when: &str) {
    for n in 0..FILES {
        let ino = mounted.find(InodeNo::ROOT, &format!("f{n}")).unwrap();
        let found = mounted.content(ino);
        let step = u64::from_le_bytes(found[..8].try_into().unwrap());
        assert!(found == version(n, step), "{when}: file {n}, version {step}");
    }
}

/// Overwrites files at random until many segments have been emptied; a sync follows every operation, so that each file is a
/// whole version at every moment.
fn overwrite(mounted: &Mounted, rng: &mut Rng, steps: u64) {
    for step in 1..=steps {
        let n = rng.below(FILES);
        let ino = mounted.find(InodeNo::ROOT, &format!("f{n}")).unwrap();
        mounted.write(ino, 0, &version(n, step));
        mounted.sync();
        mounted.idle_ms(100);
    }
}

fn prepared(inner: MemDevice) -> Arc<Shredder> {
    let device = Arc::new(Shredder { inner, after_discards: Mutex::default() });
    make_volume(&*device, SEGMENT_BYTES);
    let mounted = Mounted::new(device.clone(), options(true));
    for n in 0..FILES {
        let ino = mounted.create(InodeNo::ROOT, &format!("f{n}"));
        mounted.write(ino, 0, &version(n, 0));
    }
    mounted.close();
    device
}

/// The volume without the newer of its checkpoints.
fn without_newest_slot(image: &SparseImage) -> SparseImage {
    let mut read = |at: u64, len: u32| {
        let mut out = vec![0; len as usize];
        image.read(at, &mut out);
        Ok(out)
    };
    let sb: Superblock = read_superblock(&mut read, image.size_bytes()).unwrap();
    let epoch = |at: u64| {
        let mut slot = vec![0; CHECKPOINT_SLOT_BYTES as usize];
        image.read(at, &mut slot);
        Checkpoint::decode(&slot, &sb.uuid).unwrap().epoch
    };
    let newest = sb.checkpoint_at_bytes.into_iter().max_by_key(|&at| epoch(at)).unwrap();
    let mut damaged = image.clone();
    damaged.write(newest, &[0xdb; 512]);
    damaged
}

#[test]
fn emptied_segments_are_discarded_and_none_that_a_mount_could_reach() {
    let device = prepared(MemDevice::new(VOLUME_BYTES));
    let mounted = Mounted::new(device.clone(), options(true));
    overwrite(&mounted, &mut Rng::new(3), 500);
    drop(mounted);
    let images = std::mem::take(&mut *device.after_discards.lock().unwrap());
    assert!(images.len() >= CRASHES, "only {} segments were discarded", images.len());
    let every = images.len() / CRASHES;
    for (n, image) in images.iter().enumerate().step_by(every) {
        let both_slots = MemDevice::from_image(image.clone());
        let mounted = Mounted::new(Arc::new(both_slots), options(false));
        assert_all_readable(&mounted, &format!("discard {n}"));
        // The older checkpoint leads to the same files, through more of the log.
        let older_slot = MemDevice::from_image(without_newest_slot(image));
        let mounted = Mounted::new(Arc::new(older_slot), options(false));
        assert_all_readable(&mounted, &format!("discard {n}, newest checkpoint lost"));
    }
}

#[test]
fn segments_that_earlier_mounts_emptied_are_discarded_and_none_that_a_mount_could_reach() {
    let device = prepared(MemDevice::new(VOLUME_BYTES));
    let mut rng = Rng::new(5);
    for round in 0..8 {
        let mounted = Mounted::new(device.clone(), options(true));
        mounted.idle_ms(100);
        for _ in 0..40 {
            let n = rng.below(FILES);
            let ino = mounted.find(InodeNo::ROOT, &format!("f{n}")).unwrap();
            mounted.write(ino, 0, &version(n, round));
            mounted.sync();
        }
        if round % 3 != 2 {
            mounted.close();
        }
    }
    let images = std::mem::take(&mut *device.after_discards.lock().unwrap());
    for (n, image) in images.iter().enumerate().step_by(images.len() / CRASHES) {
        for image in [image.clone(), without_newest_slot(image)] {
            let mounted = Mounted::new(Arc::new(MemDevice::from_image(image)), options(false));
            assert_all_readable(&mounted, &format!("discard {n}"));
        }
    }
}

#[test]
fn the_next_mount_discards_segments_that_the_last_one_emptied_while_it_ended() {
    for crashes_between in 0..3 {
        let device = Arc::new(MemDevice::new(4 * VOLUME_BYTES));
        make_volume(&*device, SEGMENT_BYTES);
        let mounted = Mounted::new(device.clone(), options(false));
        let ino = mounted.create(InodeNo::ROOT, "large");
        mounted.write(ino, 0, &pattern(1, 30 << 20));
        mounted.sync();
        mounted.unlink(InodeNo::ROOT, "large");
        mounted.close();
        for n in 0..crashes_between {
            let mounted = Mounted::new(device.clone(), options(false));
            mounted.create(InodeNo::ROOT, &format!("small{n}"));
            mounted.sync();
        }
        let kept = device.image().pages();
        let mounted = Mounted::new(device.clone(), options(true));
        mounted.idle_ms(100);
        mounted.close();
        let left = device.image().pages();
        assert!(kept > 7_000 && left < kept / 8, "{left} of {kept} pages are left after {crashes_between}");
    }
}

/// A hold keeps emptied segments from being written and from being discarded. When it ends, the log may take them at once.
#[test]
fn what_is_written_where_a_hold_has_ended_is_not_discarded() {
    const OLD_MIB: u64 = 12;
    const NEW_MIB: u64 = 22;
    let inner = MemDevice::new(2 * VOLUME_BYTES);
    let device = Arc::new(Shredder { inner, after_discards: Mutex::default() });
    make_volume(&*device, SEGMENT_BYTES);
    let mounted = Mounted::new(device.clone(), Options { checkpoint_bytes: 256 * MIB, ..options(true) });
    let checkpoint = || {
        mounted.volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
        // Until it is durable.
        mounted.idle_ms(1);
    };
    let old = mounted.create(InodeNo::ROOT, "old");
    (0..OLD_MIB).for_each(|n| mounted.write(old, n * MIB, &pattern(n, MIB as usize)));
    checkpoint();
    let hold = mounted.volume.run(|vfs, now| Ok(vfs.store_mut().hold_snapshot(now)?.hold)).unwrap();
    mounted.unlink(InodeNo::ROOT, "old");
    for n in 0..3 {
        mounted.create(InodeNo::ROOT, &format!("small{n}"));
        checkpoint();
    }
    assert!(mounted.volume.run(|vfs, _| Ok(vfs.store_mut().release_snapshot(hold))).unwrap());
    // More than the segments that the old file did not have.
    let new = mounted.create(InodeNo::ROOT, "new");
    for n in 0..NEW_MIB {
        mounted.write(new, n * MIB, &pattern(100 + n, MIB as usize));
        mounted.sync();
    }
    checkpoint();
    mounted.close();
    let mounted = Mounted::new(device, options(false));
    let new = mounted.find(InodeNo::ROOT, "new").unwrap();
    for n in 0..NEW_MIB {
        let found = mounted.read(new, n * MIB, MIB as usize);
        assert!(found == pattern(100 + n, MIB as usize), "MiB {n}");
    }
}

/// A trim and background work may find the same segments.
#[test]
fn no_discard_is_queued_for_bytes_that_another_one_has() {
    let device = prepared(MemDevice::new(VOLUME_BYTES));
    let mounted = Mounted::new(device.clone(), options(false));
    overwrite(&mounted, &mut Rng::new(9), 100);
    mounted.close();
    let mounted = Mounted::new(device, options(true));
    mounted.create(InodeNo::ROOT, "new");
    mounted.volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    mounted.sync();
    let discards = mounted
        .volume
        .run(|vfs, now| {
            let later = TimeNs(now.0 + 10_000_000_000);
            vfs.store_mut().trim(0)?;
            while vfs.store_mut().step(later, false)? == Step::Worked {}
            let store = vfs.store_mut();
            let jobs: Vec<Job> = std::iter::from_fn(|| store.next_job()).collect();
            let requests: Vec<_> = jobs.iter().map(Job::request).collect();
            jobs.iter().for_each(|job| store.job_done(job.id, Ok(())));
            Ok(requests)
        })
        .unwrap();
    let mut ends: Vec<(u64, u64)> = discards
        .into_iter()
        .filter_map(|request| match request {
            Request::Discard { at_bytes, len_bytes } => Some((at_bytes, at_bytes + len_bytes)),
            _ => None,
        })
        .collect();
    ends.sort_unstable();
    assert!(ends.len() > 1, "{ends:?}");
    assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ends:?}");
}

#[test]
fn nothing_is_discarded_unless_asked() {
    let device = prepared(MemDevice::new(VOLUME_BYTES));
    device.after_discards.lock().unwrap().clear();
    let mounted = Mounted::new(device.clone(), options(false));
    overwrite(&mounted, &mut Rng::new(3), 200);
    mounted.close();
    assert!(device.after_discards.lock().unwrap().is_empty());
}

#[test]
fn discards_give_memory_back_to_a_sparse_device() {
    let used_pages = |discard| {
        let device = Arc::new(MemDevice::new(4 * VOLUME_BYTES));
        make_volume(&*device, SEGMENT_BYTES);
        let mounted = Mounted::new(device.clone(), options(discard));
        let ino = mounted.create(InodeNo::ROOT, "large");
        mounted.write(ino, 0, &pattern(1, 30 << 20));
        mounted.sync();
        mounted.unlink(InodeNo::ROOT, "large");
        for n in 0..4 {
            mounted.create(InodeNo::ROOT, &format!("small{n}"));
            mounted.idle_ms(40_000);
        }
        mounted.close();
        device.image().pages()
    };
    let (kept, given_back) = (used_pages(false), used_pages(true));
    assert!(kept > 7_000, "30 MiB were written, {kept} pages are in use");
    assert!(given_back < kept / 8, "{given_back} of {kept} pages are left");
}

/// A volume with a file that has just been deleted.
fn with_deleted_file(device: &Arc<MemDevice>, discard: bool) -> Mounted {
    make_volume(&**device, SEGMENT_BYTES);
    let mounted = Mounted::new(device.clone(), options(discard));
    let ino = mounted.create(InodeNo::ROOT, "large");
    mounted.write(ino, 0, &pattern(1, 30 << 20));
    mounted.sync();
    mounted.unlink(InodeNo::ROOT, "large");
    mounted
}

#[test]
fn an_unmount_discards_files_deleted_just_before_it() {
    let device = Arc::new(MemDevice::new(4 * VOLUME_BYTES));
    with_deleted_file(&device, true).close();
    let left = device.image().pages();
    assert!(left < 1_000, "{left} pages are left");
}

#[test]
fn an_unmount_discards_nothing_that_either_checkpoint_needs() {
    let device = prepared(MemDevice::new(2 * VOLUME_BYTES));
    let mut rng = Rng::new(7);
    let mut discards = 0;
    for _ in 0..6 {
        let mounted = Mounted::new(device.clone(), options(true));
        overwrite(&mounted, &mut rng, 20);
        let large = mounted.create(InodeNo::ROOT, "large");
        mounted.write(large, 0, &pattern(1, 1 << 20));
        mounted.sync();
        mounted.unlink(InodeNo::ROOT, "large");
        device.after_discards.lock().unwrap().clear();
        mounted.close();
        let images = std::mem::take(&mut *device.after_discards.lock().unwrap());
        discards += images.len();
        for (n, image) in images.iter().enumerate() {
            for image in [image.clone(), without_newest_slot(image)] {
                let mounted = Mounted::new(Arc::new(MemDevice::from_image(image)), options(false));
                assert_all_readable(&mounted, &format!("discard {n} of an unmount"));
            }
        }
    }
    assert!(discards > 12, "only {discards} discards");
}

fn trim(mounted: &Mounted) -> u64 {
    let (mut bytes, mut from) = (0, Some(0));
    while let Some(part) = from {
        let trimmed = mounted.volume.trim(part).unwrap();
        bytes += trimmed.bytes;
        from = trimmed.next;
    }
    bytes
}

#[test]
fn a_trim_discards_all_clean_segments_of_a_volume_that_never_discarded() {
    let device = Arc::new(MemDevice::new(4 * VOLUME_BYTES));
    let mounted = with_deleted_file(&device, false);
    let kept = device.image().pages();
    let bytes = trim(&mounted);
    let left = device.image().pages();
    assert!(kept > 7_000 && left < 1_000, "{left} of {kept} pages are left");
    let most = 4 * VOLUME_BYTES;
    assert!((most * 3 / 4..most).contains(&bytes), "the trim reports {bytes} bytes");
    let ino = mounted.create(InodeNo::ROOT, "after");
    mounted.write(ino, 0, &pattern(2, 20 << 20));
    assert!(mounted.content(ino) == pattern(2, 20 << 20));
    mounted.close();
}

#[test]
fn a_trim_cut_anywhere_has_discarded_nothing_that_a_mount_could_reach() {
    let device = prepared(MemDevice::new(VOLUME_BYTES));
    let mut rng = Rng::new(11);
    let mut discards = 0;
    for round in 0..6 {
        let mounted = Mounted::new(device.clone(), options(false));
        overwrite(&mounted, &mut rng, 50);
        assert!(trim(&mounted) > 0);
        overwrite(&mounted, &mut rng, 10);
        match round % 2 {
            0 => mounted.close(),
            _ => drop(mounted),
        }
        let images = std::mem::take(&mut *device.after_discards.lock().unwrap());
        discards += images.len();
        for (n, image) in images.into_iter().chain([device.inner.image()]).enumerate() {
            for image in [image.clone(), without_newest_slot(&image)] {
                let mounted = Mounted::new(Arc::new(MemDevice::from_image(image)), options(false));
                assert_all_readable(&mounted, &format!("round {round}, discard {n}"));
            }
        }
    }
    assert!(discards > 12, "only {discards} discards");
}
