//! Flaws that no power cut shows, each with the misfortune that does.

use crate::flawed::{Flaw, Mutant};
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Wanted};
use firnfs::mutation::{Mutation, choose};
use firnfs::store::{Piece, ReadPlan, Scope};
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice, SparseImage};
use firnfs_format::superblock::{CHECKPOINT_SLOTS_AT, LOG_START_BYTES};
use firnfs_format::{InodeNo, SECTOR_BYTES, crc32c};
use firnfs_sim::VirtualClock;
use firnfs_torture::crash::{BLOCK_BYTES, Firn, Op, Subject};
use firnfs_volume::Volume;
use std::ops::Range;
use std::sync::Arc;

/// Carries operations out on a volume and cuts the power once all is flushed.
fn after(subject: &dyn Subject, image: &SparseImage, ops: &[Op]) -> SparseImage {
    let device = Arc::new(MemDevice::from_image(image.clone()));
    let mut mounted = subject.mount(device.clone()).unwrap();
    ops.iter().for_each(|op| mounted.apply(op).unwrap());
    drop(mounted);
    device.image()
}

/// All paths, or why there are none.
fn names(subject: &dyn Subject, image: SparseImage) -> Result<Vec<String>, String> {
    let tree = subject.mount(Arc::new(MemDevice::from_image(image)))?.tree()?;
    Ok(tree.entries().iter().map(|entry| entry.path.clone()).collect())
}

fn block(image: &SparseImage, at_bytes: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    image.read(at_bytes, &mut block);
    block
}

/// Where a block of the log may begin.
fn sectors(image: &SparseImage) -> impl Iterator<Item = u64> + use<> {
    (LOG_START_BYTES..=image.size_bytes() - BLOCK_BYTES as u64).step_by(SECTOR_BYTES as usize)
}

fn log_blocks(image: &SparseImage) -> impl Iterator<Item = u64> + use<> {
    (LOG_START_BYTES..image.size_bytes() / BLOCK_BYTES as u64 * BLOCK_BYTES as u64).step_by(BLOCK_BYTES)
}

/// The halves of a mirror were mounted apart, from the same state, and wrote two histories with the same incarnation and the
/// same serials. Then they are a mirror again, which reads the first write from one and the second from the other.
fn mirror_of_two_histories(subject: &dyn Subject) -> SparseImage {
    let fsync = || Op::Fsync(String::new());
    let create = |name: &str| [Op::Create(name.into()), fsync()];
    let base = after(subject, &subject.format(), &[Op::Create("base".into()), Op::Sync]);
    let left = after(subject, &base, &create("left-1"));
    let left_more = after(subject, &base, &[create("left-1"), create("left-2")].concat());
    let right_more = after(subject, &base, &[create("rite-1"), create("rite-2")].concat());
    let mut mirror = left.clone();
    let second_write = log_blocks(&left).filter(|at| block(&left, *at) != block(&left_more, *at));
    second_write.for_each(|at| mirror.write(at, &block(&right_more, at)));
    assert!(log_blocks(&left).any(|at| block(&mirror, at) != block(&left, at)), "the histories met");
    mirror
}

#[test]
fn a_missing_check_of_the_predecessor_is_caught() {
    let (sound, flawed) = (Firn::small(), mutant(Mutation::AnyPredecessor));
    let mirror = mirror_of_two_histories(&sound);
    let left = Ok(["", "base", "left-1"].map(str::to_owned).to_vec());
    assert_eq!(names(&sound, mirror.clone()), left, "the log ends where the other history begins");
    let found = names(&flawed, mirror);
    assert_ne!(found, left);
    println!("AnyPredecessor on a mirror: {found:?}");
}

/// A summary that tore in its second sector, above what another batch of the same shape left there, which had lost its first
/// one: freed inodes of the older batch would count for the newer.
fn summary_torn_above_another(subject: &dyn Subject) -> (Vec<String>, SparseImage) {
    let sector = |image: &SparseImage, at: u64| {
        let mut bytes = vec![0; SECTOR_BYTES as usize];
        image.read(at, &mut bytes);
        bytes
    };
    let first_change =
        |a: &SparseImage, b: &SparseImage| sectors(a).find(|at| sector(a, *at) != sector(b, *at));
    let remove = |range: Range<u32>| -> Vec<Op> {
        range.map(|n| Op::Unlink(format!("{n:02}"))).chain([Op::Fsync(String::new())]).collect()
    };
    let files: Vec<Op> = (0..48).map(|n| Op::Create(format!("{n:02}"))).chain([Op::Sync]).collect();
    let base = after(subject, &subject.format(), &files);
    let mut cut = after(subject, &base, &remove(24..48));
    let at = first_change(&base, &cut).expect("a batch was written");
    cut.write(at, &sector(&base, at));
    let mut torn = after(subject, &cut, &remove(0..24));
    assert_eq!(first_change(&cut, &torn), Some(at), "the second batch lies on the first");
    let second = at + u64::from(SECTOR_BYTES);
    torn.write(second, &sector(&cut, second));
    (names(subject, base).unwrap(), torn)
}

#[test]
fn a_missing_checksum_of_summaries_is_caught() {
    let sound = Firn::small();
    let (all, torn) = summary_torn_above_another(&sound);
    assert_eq!(names(&sound, torn.clone()), Ok(all.clone()), "the torn batch does not count");
    let found = names(&Mutant { firn: Firn::small(), flaw: Flaw::UncheckedSummaries }, torn);
    assert_ne!(found, Ok(all));
    println!("UncheckedSummaries: {found:?}");
}

#[test]
fn a_missing_checksum_of_reads_is_caught() {
    let (sound, flawed) = (Firn::small(), mutant(Mutation::UncheckedReads));
    let write = Op::Write { path: "f".into(), at_bytes: 0, len_bytes: 5 * BLOCK_BYTES as u64, tag: 9 };
    let image = after(&sound, &sound.format(), &[Op::Create("f".into()), write, Op::Sync]);
    let device = Arc::new(MemDevice::from_image(image));
    // Behind a checkpoint: the end of a log that is not behind one looks as if it were cut off.
    sound.mount(device.clone()).unwrap().unmount().unwrap();
    let image = device.image();
    let content = content_of(&sound, &image).unwrap();
    let is_live = |at: &u64| content.chunks(BLOCK_BYTES).any(|stored| stored == block(&image, *at));
    let places: Vec<u64> = sectors(&image).filter(is_live).collect();
    assert_eq!(places.len(), 5);
    let rotten = places.iter().map(|at| {
        let (mut rotten, mut bytes) = (image.clone(), block(&image, *at));
        bytes[100] ^= 4;
        rotten.write(*at, &bytes);
        rotten
    });
    let rotten: Vec<SparseImage> = rotten.collect();
    assert!(rotten.iter().all(|image| content_of(&sound, image).is_err()), "rot is told");
    // A flaw stays on in its thread.
    let is_taken = |image| content_of(&flawed, image).is_ok_and(|found| found != content);
    assert!(rotten.iter().all(is_taken), "rot is told by nothing else");
}

#[test]
fn segments_written_while_they_are_read_are_caught() {
    assert_eq!(read_while_all_is_written_again(None), Ok(()));
    let flawed = read_while_all_is_written_again(Some(Mutation::NoPins));
    println!("NoPins: {flawed:?}");
    assert!(flawed.is_err());
}

#[test]
fn a_segment_written_again_too_early_is_caught() {
    assert_eq!(older_slots_while_all_is_written_again(None), Ok(()));
    let flawed = older_slots_while_all_is_written_again(Some(Mutation::ReuseAtOnce));
    println!("ReuseAtOnce: {flawed:?}");
    assert!(flawed.is_err());
}

/// Either checkpoint slot may rot: the other one, with the log behind it, leads to all that was synced. Checkpoints come only
/// when clean segments run out, so that what they find empty is wanted at once.
fn older_slots_while_all_is_written_again(flaw: Option<Mutation>) -> Result<(), String> {
    let mut firn = Firn::small();
    (firn.mkfs.size_bytes, firn.options.checkpoint_bytes) = (24 << 20, 1 << 30);
    let device = Arc::new(MemDevice::from_image(firn.format()));
    choose(flaw);
    let volume = open(&firn, &device);
    let files = ["a", "b"].map(|name| make(&volume, name));
    let mut verdict = Ok(());
    for round in 0..80 {
        write(&volume, files[usize::from(round % 2)], round);
        for slot in &firn.replicated()[..CHECKPOINT_SLOTS_AT.len()] {
            let mut image = device.image();
            image.zero(slot.start, slot.end - slot.start);
            let judged = holds_what_was_written(&firn, image, round);
            verdict = verdict.and_then(|()| judged.map_err(|why| format!("round {round}: {why}")));
        }
    }
    choose(None);
    verdict
}

/// The file written in that round holds what was written.
fn holds_what_was_written(subject: &dyn Subject, image: SparseImage, round: u8) -> Result<(), String> {
    let tree = subject.mount(Arc::new(MemDevice::from_image(image)))?.tree()?;
    let path = ["a", "b"][usize::from(round % 2)];
    match tree.entries().iter().find(|entry| entry.path == path) {
        Some(entry) if entry.content == vec![round; FILE_BYTES] => Ok(()),
        _ => Err(format!("what was synced in {path:?} is lost")),
    }
}

const FILE_BYTES: usize = 1 << 20;

/// A reader has its plan, and takes its time until every segment of the volume has been written again.
fn read_while_all_is_written_again(flaw: Option<Mutation>) -> Result<(), String> {
    let mut firn = Firn::small();
    firn.options.discard = false;
    let device = Arc::new(MemDevice::from_image(firn.format()));
    choose(flaw);
    let volume = open(&firn, &device);
    let file = make(&volume, "read");
    write(&volume, file, 1);
    volume.close().unwrap();
    drop(volume);
    // Mounted anew: nothing of the file is in memory.
    let volume = open(&firn, &device);
    let other = make(&volume, "written");
    let plan = volume.run(|vfs, now| vfs.read(now, file, 0, FILE_BYTES as u64)).unwrap();
    let mut verdict = Ok(());
    for round in 0..60 {
        for ino in [file, other] {
            write(&volume, ino, round + 2);
        }
        volume.background().unwrap();
        verdict =
            verdict.and_then(|()| still_reads(&plan, &device).map_err(|at| format!("{at}, round {round}")));
    }
    volume.into_vfs().store_mut().unpin(plan.pin);
    choose(None);
    verdict
}

fn open(firn: &Firn, device: &Arc<MemDevice>) -> Volume<Lfs> {
    let clock = Arc::new(VirtualClock::at(1_700_000_000_000_000_000));
    firnfs_manage::open(device.clone(), firn.options, AtimeMode::Noatime, clock).unwrap()
}

fn make(volume: &Volume<Lfs>, name: &str) -> InodeNo {
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false)).unwrap().ino
}

fn write(volume: &Volume<Lfs>, ino: InodeNo, byte: u8) {
    volume.write_all(ino, 0, &vec![byte; FILE_BYTES], false).unwrap();
    volume.sync(Scope::All).unwrap();
}

/// What a plan refers to has the checksums that the plan says.
fn still_reads(plan: &ReadPlan, device: &MemDevice) -> Result<(), String> {
    let mut stored = 0;
    for piece in &plan.pieces {
        let Piece::Stored { token, at_bytes, .. } = piece else { continue };
        let Wanted::Block(_, ptr) = Wanted::of(token) else { panic!("a read plan is of blocks") };
        stored += 1;
        let bytes = device.read(*at_bytes, ptr.stored_bytes()).unwrap();
        if crc32c(&bytes) != ptr.crc {
            return Err(format!("the block planned at byte {at_bytes} was overwritten"));
        }
    }
    assert_eq!(stored, FILE_BYTES / BLOCK_BYTES, "all of the file was to be read from the device");
    Ok(())
}

fn mutant(mutation: Mutation) -> Mutant {
    Mutant { firn: Firn::small(), flaw: Flaw::Core(mutation) }
}

fn content_of(subject: &dyn Subject, image: &SparseImage) -> Result<Vec<u8>, String> {
    let tree = subject.mount(Arc::new(MemDevice::from_image(image.clone())))?.tree()?;
    let file = tree.entries().iter().find(|entry| entry.path == "f");
    file.map(|entry| entry.content.clone()).ok_or_else(|| "no such file".to_owned())
}
