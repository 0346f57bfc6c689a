//! Whole images: the specimen with some of its structures changed. Each is checked and repaired; and, unrepaired,
//! it is mounted, read completely, written to, closed and mounted again.
//!
//! An input is a list of edits, so that it stays small and each mutation of it is a meaningful edit:
//!
//! ```text
//! input := flags u8, edit*              (flags: 1 = the crashed specimen, 2 = checksums stay as they were, 4 = that with points)
//! edit  := part u16, offset u16, how u8, value u64
//! ```

use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::{Fork, Scope, Store};
use firnfs::vfs::{Allocate, AtimeMode, RenameMode, SetAttr, XattrMode};
use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::{Epoch, InodeNo};
use firnfs_manage::{open, repair};
use firnfs_sim::VirtualClock;
use firnfs_torture::anatomy::{Anatomy, Owner, Part};
use firnfs_torture::ops::Rng;
use firnfs_torture::specimen::{Left, make, mount, pattern, specimen};
use firnfs_torture::survey::{Bounds, Survey, survey, survey_from};
use firnfs_volume::Volume;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub(super) const EDIT_BYTES: usize = 13;
pub(super) const EDITS_MAX: usize = 12;
const CRASHED: u8 = 1;
const UNSEALED: u8 = 2;
const PAST: u8 = 4;
/// Enough to reach every kind of object of the specimen, but few enough to be fast.
pub(super) const BOUNDS: Bounds =
    Bounds { inodes_max: 200, entries_max: 900, lookup_every: 29, blocks_max: 80 };
/// Points to look into.
const POINTS_MAX: usize = 3;
/// Names to work on, of those found.
const NAMES_MAX: usize = 12;

struct Base {
    image: SparseImage,
    anatomy: Anatomy,
    /// Parts that belong to directories.
    directories: Vec<usize>,
}

fn base(left: Left) -> &'static Base {
    static BASES: [OnceLock<Base>; 3] = [const { OnceLock::new() }; 3];
    BASES[left as usize].get_or_init(|| {
        let image = specimen(left).expect("the specimen can be made");
        let options = Options { read_only: true, ..Options::default() };
        let (volume, _) = mount(&image, options).expect("the specimen mounts");
        let anatomy = Anatomy::of(&image, &volume).expect("the specimen is intact");
        let is_directory = |ino: InodeNo| {
            let attr = volume.run(|vfs, _| vfs.getattr(ino));
            attr.is_ok_and(|attr| attr.kind == firnfs::inode::Kind::Directory)
        };
        let of_directory = |part: &Part| match part.owner {
            Owner::Block(key) => key.fork == Fork::Index || is_directory(key.ino),
            Owner::Record(ino) => is_directory(ino),
            _ => false,
        };
        let directories = (0..anatomy.parts.len()).filter(|&at| of_directory(&anatomy.parts[at])).collect();
        Base { image, anatomy, directories }
    })
}

/// Edits any structures.
pub fn any(bytes: &[u8]) {
    run(bytes, false);
}

/// Edits blocks and records of directories, including indexes.
pub fn directories(bytes: &[u8]) {
    run(bytes, true);
}

fn run(bytes: &[u8], directories_only: bool) {
    exercise(damaged(bytes, directories_only));
}

/// The specimen, changed as the input says.
fn damaged(bytes: &[u8], directories_only: bool) -> SparseImage {
    let (flags, edits) = bytes.split_first().unwrap_or((&0, &[]));
    let base = base(match flags & (CRASHED | PAST) {
        0 => Left::Closed,
        CRASHED => Left::Crashed,
        _ => Left::Past,
    });
    let mut image = base.image.clone();
    let mut changed = Vec::new();
    for edit in edits.as_chunks::<EDIT_BYTES>().0.iter().take(EDITS_MAX) {
        let number = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
        let index = if directories_only {
            base.directories[number % base.directories.len()]
        } else {
            number % base.anatomy.parts.len()
        };
        apply(edit, base.anatomy.parts[index].range.clone(), &mut image);
        changed.push(index);
    }
    if flags & UNSEALED == 0 {
        base.anatomy.seal(&mut image, &changed);
    }
    image
}

/// One edit; offsets wrap around within the part.
pub(super) fn apply(edit: &[u8; EDIT_BYTES], range: Range<u64>, image: &mut SparseImage) {
    let len = (range.end - range.start) as usize;
    let how = edit[4];
    let width = [1, 2, 4, 8][usize::from(how & 3)];
    let offset = usize::from(u16::from_le_bytes([edit[2], edit[3]])) % len / width * width;
    let mut field = vec![0; width];
    image.read(range.start + offset as u64, &mut field);
    let mut old = [0; 8];
    old[..width].copy_from_slice(&field);
    let (old, value) = (u64::from_le_bytes(old), u64::from_le_bytes(edit[5..].try_into().expect("8 bytes")));
    let new = match how >> 2 & 3 {
        0 => value,
        1 => old ^ value,
        2 => old.wrapping_add(value),
        _ => old.wrapping_sub(1 << (value % 64)),
    };
    image.write(range.start + offset as u64, &new.to_le_bytes()[..width]);
}

fn try_open(device: &Arc<MemDevice>, read_only: bool) -> Option<(Volume<Lfs>, Arc<VirtualClock>)> {
    let clock = Arc::new(VirtualClock::at(4_000_000_000));
    let options = Options {
        read_only,
        cache_bytes: 4 << 20,
        write_threshold_bytes: 64 << 10,
        checkpoint_bytes: 512 << 10,
        discard: true,
        ..Options::default()
    };
    let device: Arc<dyn Device> = device.clone();
    open(device, options, AtimeMode::Relatime, clock.clone()).ok().map(|volume| (volume, clock))
}

/// Checks and repairs a damaged volume; the repaired volume opens, and has no worse findings than before.
fn repaired(image: &SparseImage) {
    let memory = Arc::new(MemDevice::from_image(image.clone()));
    let device: Arc<dyn Device> = memory.clone();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::at(4_000_000_000));
    let Ok(done) = repair(&device, &clock, &mut |_| true, &mut |_| {}) else { return };
    if done.after.is_clean() {
        assert!(try_open(&memory, false).is_some(), "a volume that is called sound does not open");
    }
    assert!(!done.before.is_clean() || done.actions.is_empty(), "a sound volume was repaired");
}

/// Uses a volume as programs do.
fn exercise(image: SparseImage) {
    repaired(&image);
    let device = Arc::new(MemDevice::from_image(image));
    if let Some((volume, _)) = try_open(&device, true) {
        let _found = survey(&volume, BOUNDS);
        look_back(&volume);
    }
    let Some((volume, clock)) = try_open(&device, false) else { return };
    drop_oldest_point(&volume);
    use_and_close(volume, &clock);
    if let Some((volume, _)) = try_open(&device, true) {
        let _found = survey(&volume, BOUNDS);
    }
}

/// Reads what points show.
fn look_back(volume: &Volume<Lfs>) {
    let epochs = volume.run(|vfs, _| {
        let states = vfs.store_mut().states(Epoch(0))?.into_iter().flatten();
        Ok(states.take(POINTS_MAX).map(|state| state.epoch).collect::<Vec<_>>())
    });
    for epoch in epochs.unwrap_or_default() {
        if let Ok(root) = volume.run(|vfs, _| vfs.store_mut().look_into(epoch)) {
            let _found = survey_from(volume, root, BOUNDS);
        }
    }
}

/// The work that follows has to walk through it.
fn drop_oldest_point(volume: &Volume<Lfs>) {
    let _done_or_refused = volume.run(|vfs, now| {
        let oldest = vfs.store_mut().points()?.front().map(|point| point.epoch);
        oldest.map_or(Ok(()), |epoch| vfs.store_mut().drop_point(now, epoch))
    });
}

/// Reads everything, changes much, and unmounts.
pub(super) fn use_and_close<S: Engine>(volume: Volume<S>, clock: &VirtualClock) {
    let found = survey(&volume, BOUNDS);
    for round in 0..3 {
        // Errors are allowed here; the test is that nothing panics and everything ends.
        let _done = change(&volume, &found, round);
        clock.advance_ms(31_000);
        let _sleep_ms = volume.background();
        let _synced = volume.sync(Scope::All);
    }
    let _closed = volume.close();
}

/// Changes existing objects, and adds new ones; continues after errors.
fn change<S: Engine>(volume: &Volume<S>, found: &Survey, round: u64) -> Result<(), FsError> {
    let root = InodeNo::ROOT;
    let mut rng = Rng::new(round);
    let made = make(volume, root, &format!("new {round}"), firnfs::inode::Kind::Regular, b"");
    if let Ok(ino) = made {
        let _written = volume.write_all(ino, 0, &pattern(round, 100_000), false);
    }
    let names: Vec<_> = found.paths.iter().filter(|(path, _)| !path.is_empty()).collect();
    for _ in 0..NAMES_MAX.min(names.len()) {
        let (path, ino) = names[rng.below(names.len() as u64) as usize];
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (found.paths.get(&path[..slash]).copied().unwrap_or(root), &path[slash + 1..]),
            None => (root, path.as_slice()),
        };
        let _changed = change_one(volume, &mut rng, parent, name, *ino);
    }
    volume.sync(Scope::All)
}

fn change_one<S: Engine>(
    volume: &Volume<S>,
    rng: &mut Rng,
    parent: InodeNo,
    name: &[u8],
    ino: InodeNo,
) -> Result<(), FsError> {
    let at_bytes = rng.below(40) * 3000;
    match rng.below(10) {
        0 => volume.run(|vfs, now| vfs.unlink(now, parent, name)),
        1 => volume.run(|vfs, now| vfs.rmdir(now, parent, name)),
        2 => volume.run(|vfs, now| {
            vfs.rename(now, (parent, name), (InodeNo::ROOT, b"renamed"), RenameMode::Replace)
        }),
        3 => volume.run(|vfs, now| vfs.link(now, ino, parent, b"one more name", false)).map(drop),
        4 | 5 => volume.write_all(ino, at_bytes, &pattern(at_bytes, 9000), true),
        6 => {
            let set = SetAttr { size_bytes: Some(at_bytes), ..SetAttr::default() };
            volume.run(|vfs, now| vfs.setattr(now, ino, set)).map(drop)
        }
        7 => {
            let punch = Allocate::PunchHole;
            volume.run(|vfs, now| vfs.fallocate(now, ino, punch, at_bytes, 50_000, false)).map(drop)
        }
        8 => volume.run(|vfs, now| vfs.setxattr(now, ino, b"user.new", &[5; 3000], XattrMode::Any)),
        _ => volume.run(|vfs, now| vfs.removexattr(now, ino, b"user.one")),
    }
}

/// Edits in several places, a few at a time.
pub fn seeds() -> Vec<Vec<u8>> {
    (0..24u64)
        .map(|number| {
            let mut rng = Rng::new(number);
            let flags = [0, PAST, CRASHED, PAST, UNSEALED | PAST][(number % 5) as usize];
            let mut bytes = vec![flags];
            for _ in 0..=number % 4 {
                bytes.extend((rng.bits() as u16).to_le_bytes());
                bytes.extend((rng.bits() as u16).to_le_bytes());
                bytes.push(rng.bits() as u8);
                let value = rng.bits() >> rng.below(64);
                bytes.extend(value.to_le_bytes());
            }
            bytes
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many damaged images can be opened; each has a few random edits.
    fn opened(flags: u8) -> u64 {
        let is_open = |number: u64| {
            let mut rng = Rng::new(number);
            let edits = (0..EDIT_BYTES as u64 * (1 + number % 3)).map(|_| rng.bits() as u8);
            let bytes: Vec<u8> = std::iter::once(flags).chain(edits).collect();
            let device = Arc::new(MemDevice::from_image(damaged(&bytes, false)));
            try_open(&device, false).is_some()
        };
        (0..100).filter(|&number| is_open(number)).count() as u64
    }

    #[test]
    fn most_damage_under_right_checksums_gets_past_the_mount() {
        assert!(opened(0) > 70, "{} of 100", opened(0));
        assert!(opened(CRASHED) > 50, "{} of 100", opened(CRASHED));
        assert!(opened(PAST) > 60, "{} of 100", opened(PAST));
    }

    #[test]
    fn the_specimen_with_points_has_remnants_to_damage() {
        let base = base(Left::Past);
        let is_remnants =
            |part: &Part| matches!(part.owner, Owner::Block(key) if key.ino == InodeNo::REMNANTS);
        assert!(base.anatomy.parts.iter().any(is_remnants));
        let (volume, _) = try_open(&Arc::new(MemDevice::from_image(base.image.clone())), true).unwrap();
        let (points, bytes) =
            volume.run(|vfs, _| Ok((vfs.store().points_len(), vfs.store().past_bytes()))).unwrap();
        assert!(points == 2 && bytes > 20_000, "{points} points hold {bytes} bytes");
    }

    #[test]
    fn damage_under_right_checksums_reaches_code_that_trusts_checksums() {
        let base = base(Left::Closed);
        let record = |part: &Part| matches!(part.owner, Owner::Record(InodeNo::ROOT));
        let part = base.anatomy.parts.iter().position(record).unwrap() as u16;
        // Edit the mode of the root directory, which getattr shows: with the old checksum this is an error.
        let edit = [&part.to_le_bytes()[..], &[4, 0, 0b101], &[0o22, 0, 0, 0, 0, 0, 0, 0]].concat();
        let mode = |flags: u8| {
            let image = damaged(&[&[flags][..], &edit].concat(), false);
            let (volume, _) = try_open(&Arc::new(MemDevice::from_image(image)), true).unwrap();
            volume.run(|vfs, _| vfs.getattr(InodeNo::ROOT)).map(|attr| attr.mode)
        };
        assert_eq!(mode(0), Ok(0o755 ^ 0o22));
        assert!(matches!(mode(UNSEALED), Err(FsError::Corrupt { .. })));
    }
}
