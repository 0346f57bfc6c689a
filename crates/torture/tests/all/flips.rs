//! Any live byte may be flipped, and any live sector lost: a read detects it, reports it with its place, and only its owner
//! is harmed. The tests are systematic: every live sector of a small volume that holds an object of every kind, once with a
//! flipped bit, once zeroed; and truncated images.

use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, NotFirnfs, Options};
use firnfs::store::{BlockKey, Fork, Scope};
use firnfs_device::SparseImage;
use firnfs_format::InodeNo;
use firnfs_format::superblock::{CHECKPOINT_SLOT_BYTES, CHECKPOINT_SLOTS_AT, LOG_START_BYTES};
use firnfs_manage::OpenError;
use firnfs_torture::anatomy::{Anatomy, Owner, Part};
use firnfs_torture::specimen::{LEAF_ENTRIES, Left, VOLUME_BYTES, make, mount, pattern, specimen};
use firnfs_torture::survey::{Answers, Aspect, Bounds, look_at, survey};
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::ops::Range;

const SECTOR_BYTES: u64 = 512;
/// Segment size of the specimen.
const SEGMENT_BYTES: u64 = 256 << 10;
/// It suffices to look up some names of the large directory, from each leaf of its index.
const BOUNDS: Bounds = Bounds { inodes_max: 1000, entries_max: 1000, lookup_every: 11, blocks_max: 1000 };
/// After every n-th damage the test also writes around it, which takes longer than reading.
const WRITE_EVERY: usize = 5;

fn read_only() -> Options {
    Options { read_only: true, ..Options::default() }
}

/// Opens the volume.
fn look(image: &SparseImage) -> Result<Volume<Lfs>, OpenError> {
    mount(image, read_only()).map(|(volume, _)| volume)
}

/// Whether damage to a structure of `owner` may cause an error of that aspect of an inode.
fn explains(owner: Owner, ino: InodeNo, aspect: &Aspect, names: &Names) -> bool {
    match owner {
        Owner::Superblock | Owner::Checkpoint | Owner::Summary(_) | Owner::Usage => false,
        Owner::Map(from, to) => concerns(&(from..to), ino, aspect, names),
        Owner::Record(damaged) => concerns(&(damaged.0..damaged.0 + 1), ino, aspect, names),
        Owner::Block(BlockKey { ino: owner, .. }) if owner != ino => false,
        Owner::Block(BlockKey { fork: Fork::Xattr, .. }) => {
            matches!(aspect, Aspect::XattrNames | Aspect::Xattr(_))
        }
        Owner::Block(BlockKey { fork: Fork::Index, .. }) => matches!(aspect, Aspect::Lookup(_)),
        Owner::Block(BlockKey { fork: Fork::Data, level: 0, index, .. }) => match aspect {
            Aspect::Block(block) => *block == index.0,
            Aspect::Listing | Aspect::Lookup(_) | Aspect::Target => true,
            _ => false,
        },
        Owner::Block(_) => {
            matches!(aspect, Aspect::Block(_) | Aspect::Extents(_) | Aspect::Listing | Aspect::Lookup(_))
        }
    }
}

/// The inode of each name in a directory.
type Names = BTreeMap<(InodeNo, Vec<u8>), InodeNo>;

/// Whether the inode, or the inode of a name that is looked up in it, is among those.
fn concerns(inodes: &Range<u64>, ino: InodeNo, aspect: &Aspect, names: &Names) -> bool {
    let leads =
        |name: &Vec<u8>| names.get(&(ino, name.clone())).is_some_and(|child| inodes.contains(&child.0));
    inodes.contains(&ino.0) || matches!(aspect, Aspect::Lookup(name) if leads(name))
}

struct Clinic {
    image: SparseImage,
    whole: BTreeMap<InodeNo, Answers>,
    names: Names,
}

impl Clinic {
    fn new() -> Self {
        let image = specimen(Left::Closed).unwrap();
        let volume = look(&image).unwrap();
        let found = survey(&volume, BOUNDS);
        assert_eq!(found.errors().count(), 0);
        let mut names = Names::new();
        for (ino, answers) in &found.inodes {
            for (aspect, answer) in answers {
                if let (Aspect::Lookup(name), Ok(child)) = (aspect, answer) {
                    let child = InodeNo(u64::from_le_bytes(child.as_slice().try_into().unwrap()));
                    names.insert((*ino, name.clone()), child);
                }
            }
        }
        Self { image, whole: found.inodes, names }
    }

    /// Reads all inodes, and judges each answer. Returns the number of errors.
    fn judge(&self, volume: &Volume<Lfs>, owner: Owner, place: &str) -> usize {
        let mut errors = 0;
        for (ino, right) in &self.whole {
            for (aspect, answer) in look_at(volume, *ino, BOUNDS) {
                let context = || format!("{place}, {owner:?}: {aspect:?} of inode {ino}");
                match (answer, right.get(&aspect)) {
                    (Ok(bytes), Some(right)) => assert!(Ok(&bytes) == right.as_ref(), "{}: wrong", context()),
                    // A hole; it was read because the data extents could not be determined.
                    (Ok(bytes), None) => assert!(bytes.iter().all(|byte| *byte == 0), "{}", context()),
                    (Err(error), _) => {
                        assert!(explains(owner, *ino, &aspect, &self.names), "{}: {error}", context());
                        assert_says_where(&error, &context());
                        errors += 1;
                    }
                }
            }
        }
        errors
    }

    /// Damages a place; its owner gives errors, everything else is right.
    fn damage(&self, at_bytes: u64, bytes: &[u8], owner: Owner, writes: bool, place: &str) {
        let mut image = self.image.clone();
        image.write(at_bytes, bytes);
        let volume = look(&image).unwrap_or_else(|e| panic!("{place}, {owner:?}: {e}"));
        let errors = self.judge(&volume, owner, place);
        let is_found = matches!(owner, Owner::Superblock | Owner::Checkpoint | Owner::Usage) || errors > 0;
        assert!(is_found, "{place}, {owner:?}: nobody noticed");
        if writes {
            self.write_around(&image, owner, place);
        }
    }

    /// Writes to the volume and closes it, unless it says why it cannot be written; the damage has not spread.
    fn write_around(&self, image: &SparseImage, owner: Owner, place: &str) {
        let (volume, device) =
            mount(image, Options::default()).unwrap_or_else(|e| panic!("{place}, {owner:?}: {e}"));
        let made = make(&volume, InodeNo::ROOT, "new", Kind::Regular, b"");
        let written = made.and_then(|ino| volume.write_all(ino, 0, &pattern(1, 30_000), false));
        let synced = volume.sync(Scope::All);
        let _sleep_ms = volume.background().unwrap();
        if let Err(error) = volume.close() {
            assert!(volume.broken().is_some(), "{place}, {owner:?}: {error}");
            assert!(matches!(owner, Owner::Usage | Owner::Map(..)), "{place}, {owner:?}: {error}");
        }
        drop(volume);
        let volume = look(&device.image()).unwrap_or_else(|e| panic!("{place}, {owner:?}: {e}"));
        // Damaged bytes that matter only for writing may have been replaced by now.
        for (ino, right) in self.whole.iter().filter(|(ino, _)| **ino != InodeNo::ROOT) {
            for (aspect, answer) in look_at(&volume, *ino, BOUNDS) {
                let context = || format!("{place}, {owner:?}, written around: {aspect:?} of inode {ino}");
                match (answer, right.get(&aspect)) {
                    (Ok(bytes), Some(right)) => assert!(Ok(&bytes) == right.as_ref(), "{}: wrong", context()),
                    (Ok(bytes), None) => assert!(bytes.iter().all(|byte| *byte == 0), "{}", context()),
                    (Err(error), _) => {
                        assert!(explains(owner, *ino, &aspect, &self.names), "{}: {error}", context());
                    }
                }
            }
        }
        if written.is_ok() && synced.is_ok() {
            let ino = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"new", false));
            let ino = ino.unwrap_or_else(|e| panic!("{place}, {owner:?}: {e}")).ino;
            let mut out = vec![0; 30_000];
            assert_eq!(volume.read(ino, 0, &mut out), Ok(30_000));
            assert!(out == pattern(1, 30_000), "{place}, {owner:?}");
        }
    }
}

/// Asserts that the error is one line with what, where, expected and found.
fn assert_says_where(error: &FsError, context: &str) {
    let FsError::Corrupt { what, at, expected, found } = error else { panic!("{context}: {error:?}") };
    assert!(
        at.contains("segment") && [what, expected, found].iter().all(|s| !s.is_empty()),
        "{context}: {error}"
    );
    assert!(!error.to_string().contains('\n'), "{context}: {error}");
}

/// A sector's bytes with one bit flipped; its place determines the bit.
fn flipped(sector: &[u8], at_bytes: u64) -> Vec<u8> {
    let draw = (at_bytes / SECTOR_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let mut bytes = sector.to_vec();
    bytes[(draw % SECTOR_BYTES) as usize] ^= 1 << (draw >> 9 & 7);
    bytes
}

#[test]
fn every_live_sector_may_be_damaged_and_only_its_owner_suffers() {
    let clinic = Clinic::new();
    let parts = Anatomy::of(&clinic.image, &look(&clinic.image).unwrap()).unwrap().parts;
    let has = |wanted: fn(&Owner) -> bool| parts.iter().any(|part| wanted(&part.owner));
    let indirect = |levels: u8| parts.iter().any(|p| matches!(p.owner, Owner::Block(k) if k.level == levels));
    assert!((0..=3).all(indirect), "blocks of all levels");
    assert!(has(|o| matches!(o, Owner::Block(k) if k.fork == Fork::Index)));
    assert!(has(|o| matches!(o, Owner::Block(k) if k.fork == Fork::Xattr)));
    assert!(has(|o| matches!(o, Owner::Map(0, to) if *to > LEAF_ENTRIES)), "an inode map of two levels");
    let mut count = 0;
    for Part { range, owner, .. } in &parts {
        for at_bytes in range.clone().step_by(SECTOR_BYTES as usize) {
            let mut sector = vec![0; SECTOR_BYTES as usize];
            clinic.image.read(at_bytes, &mut sector);
            count += 1;
            let place = format!("byte {at_bytes}");
            let writes = count % WRITE_EVERY == 0;
            clinic.damage(
                at_bytes,
                &flipped(&sector, at_bytes),
                *owner,
                writes,
                &format!("bit flipped at {place}"),
            );
            if sector.iter().any(|byte| *byte != 0) {
                let zeros = vec![0; SECTOR_BYTES as usize];
                clinic.damage(at_bytes, &zeros, *owner, false, &format!("sector zeroed at {place}"));
            }
        }
    }
    println!("{count} live sectors");
    assert!(count > 500, "{count} live sectors");
}

#[test]
fn an_image_cut_short_anywhere_is_refused_with_both_sizes() {
    let image = specimen(Left::Closed).unwrap();
    for device_bytes in (0..VOLUME_BYTES).step_by(61 * 512) {
        let mut bytes = vec![0; device_bytes as usize];
        image.read(0, &mut bytes);
        let mut cut = SparseImage::new(device_bytes);
        cut.write(0, &bytes);
        let error = look(&cut).map(drop).unwrap_err();
        let expected = NotFirnfs::Truncated { volume_bytes: VOLUME_BYTES, device_bytes };
        let has_superblock = device_bytes >= 8192;
        match &error {
            OpenError::NotFirnfs(found) if has_superblock => assert_eq!(*found, expected),
            OpenError::NotFirnfs(NotFirnfs::NoSuperblock(_)) => {}
            other => panic!("{device_bytes} bytes: {other}"),
        }
    }
}

#[test]
fn data_lost_from_a_place_on_is_an_error_and_data_before_it_is_there() {
    let clinic = Clinic::new();
    let slots_end = CHECKPOINT_SLOTS_AT[1] + u64::from(CHECKPOINT_SLOT_BYTES);
    let mut readable = 0;
    for at_bytes in (0..VOLUME_BYTES).step_by(29 * 4096) {
        let mut image = clinic.image.clone();
        image.zero(at_bytes, VOLUME_BYTES - at_bytes);
        let volume = match look(&image) {
            Ok(volume) => volume,
            Err(OpenError::Fs(FsError::Corrupt { .. }) | OpenError::NotFirnfs(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        if at_bytes < slots_end {
            // Of two checkpoints the older may be the one that survives, so the test only requires that nothing panics.
            let _errors = survey(&volume, BOUNDS).errors().count();
            continue;
        }
        for (ino, right) in &clinic.whole {
            for (aspect, answer) in look_at(&volume, *ino, BOUNDS) {
                if let Ok(bytes) = answer {
                    let right = right.get(&aspect).map(|right| right.as_ref().unwrap());
                    let is_right = right.map_or(bytes.iter().all(|byte| *byte == 0), |right| *right == bytes);
                    assert!(is_right, "zeros from byte {at_bytes}: {aspect:?} of inode {ino}");
                    readable += 1;
                }
            }
        }
    }
    assert!(readable > 0);
}

/// The canary: if every checksum is updated after the damage, the judge must detect the error.
#[test]
#[should_panic(expected = "canary, Record(InodeNo(16)): Block(0) of inode 16: wrong")]
fn damage_under_right_checksums_does_not_escape_the_judge() {
    let clinic = Clinic::new();
    let volume = look(&clinic.image).unwrap();
    let ino = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"inline", false)).unwrap().ino;
    let anatomy = Anatomy::of(&clinic.image, &volume).unwrap();
    let index = anatomy.parts.iter().position(|part| part.owner == Owner::Record(ino)).unwrap();
    // The record's header, and then its content: every checksum up to the checkpoint is updated.
    let at_bytes = anatomy.parts[index].range.start + 300;
    let mut image = clinic.image.clone();
    let mut bytes = [0; 8];
    image.read(at_bytes, &mut bytes);
    image.write(at_bytes, &bytes.map(|byte| byte ^ 1));
    anatomy.seal(&mut image, &[index]);
    clinic.judge(&look(&image).unwrap(), Owner::Record(ino), "canary");
}

/// The reports of a read-only and a read-write mount about damage to the log, and everything readable.
struct Seen {
    lost: bool,
    found: BTreeMap<InodeNo, Answers>,
}

fn see(image: &SparseImage, options: Options) -> Result<Seen, OpenError> {
    let (volume, _) = mount(image, options)?;
    let lost = volume.run(|vfs, _| Ok(vfs.store().recovered().lost.is_some())).unwrap();
    assert!(
        !lost || volume.sync(Scope::All).is_err() || options.read_only,
        "nothing is promised on a damaged log"
    );
    Ok(Seen { lost, found: survey(&volume, BOUNDS).inodes })
}

/// Serials of a crashed volume's log tail, and the tree after each batch, with everything after the batch cut off.
fn tail_of(image: &SparseImage, parts: &[Part]) -> (Vec<Range<u64>>, Vec<BTreeMap<InodeNo, Answers>>) {
    let mut summaries: Vec<_> = parts.iter().filter(|p| matches!(p.owner, Owner::Summary(_))).collect();
    summaries.sort_by_key(|part| if let Owner::Summary(serial) = part.owner { serial.0 } else { 0 });
    let mut trees = Vec::new();
    for cut in 0..=summaries.len() {
        let mut shorter = image.clone();
        summaries[cut..].iter().for_each(|p| shorter.zero(p.range.start, p.range.end - p.range.start));
        trees.push(see(&shorter, read_only()).unwrap().found);
    }
    // Each partial segment up to the end of its last live part.
    let ranges = summaries.iter().map(|summary| {
        let start = summary.range.start;
        // After the last one in its segment there are blocks that other logs have written elsewhere.
        let segment_end =
            (start - LOG_START_BYTES) / SEGMENT_BYTES * SEGMENT_BYTES + SEGMENT_BYTES + LOG_START_BYTES;
        let next =
            summaries.iter().map(|p| p.range.start).filter(|&at| at > start).min().unwrap_or(segment_end);
        let next = next.min(segment_end);
        let inside = parts.iter().filter(|p| p.range.start >= start && p.range.start < next);
        start..inside.map(|p| p.range.end).max().unwrap_or(summary.range.end)
    });
    (ranges.collect(), trees)
}

#[test]
fn damage_to_the_log_after_the_checkpoint_is_reported_and_never_silently_loses_synced_data() {
    let image = specimen(Left::Crashed).unwrap();
    let parts = Anatomy::of(&image, &look(&image).unwrap()).unwrap().parts;
    let (ranges, trees) = tail_of(&image, &parts);
    assert!(ranges.len() >= 3, "{} partial segments to roll forward", ranges.len());
    let whole = trees.last().unwrap();
    let (mut told, mut refused) = (0, 0);
    for (number, range) in ranges.iter().enumerate() {
        // The search for evidence of the loss takes its time.
        for at_bytes in range.clone().step_by(3 * SECTOR_BYTES as usize) {
            let mut sector = vec![0; SECTOR_BYTES as usize];
            image.read(at_bytes, &mut sector);
            let mut damaged = image.clone();
            damaged.write(at_bytes, &flipped(&sector, at_bytes));
            let options =
                if (at_bytes / SECTOR_BYTES).is_multiple_of(2) { read_only() } else { Options::default() };
            let seen = match see(&damaged, options) {
                Ok(seen) => seen,
                Err(OpenError::Fs(error)) => {
                    assert_eq!(error.errno_name(), "EIO", "byte {at_bytes}: {error}");
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("byte {at_bytes}: {error}"),
            };
            // Nothing durable gives evidence of the last batch: it may as well have been torn.
            let is_last = trees[number] == trees[ranges.len() - 1];
            let right = |answers: &BTreeMap<InodeNo, Answers>| seen.found == *answers;
            assert!(
                right(whole) || (seen.lost || is_last) && trees.iter().any(right),
                "bit flipped at byte {at_bytes}, in partial segment {number}: lost silently"
            );
            told += u64::from(seen.lost);
        }
    }
    println!("{} partial segments, {told} times told, {refused} times refused", ranges.len());
    assert!(told > 0);
}
