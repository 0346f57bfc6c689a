//! A file system of one policy: aged by the derived workload, then measured with the paper's two benchmarks, and an empty one beside it
//! (section 4).

use super::{
    CACHE_BYTES, DAY_NS, History, MIB, PER_DIRECTORY, Policy, SIZES_KIB, SMALL_KIB, Span, free_bytes, full,
};
use crate::age::layout::{FreeSpace, Layout, Score};
use crate::age::replay::{By, clock_at};
use crate::age::snapshot::{REGULAR, Snapshot};
use crate::age::take::{entries, image};
use crate::error::LabError;
use crate::hardware::Setup;
use crate::hardware::comparison::{Files, create_and_read};
use crate::hardware::lived::{Lived, failed, live_through, mount};
use crate::hardware::rig::{Program, Rig};
use firnfs::ffs::Ffs;
use firnfs_device::MemDevice;
use firnfs_format::InodeNo;
use firnfs_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BLOCK_BYTES: u64 = 8192;
const FRAG_BYTES: u64 = 1024;
/// Files that changed in the last days of the workload are hot.
const HOT_DAYS: i64 = 30;
/// Pieces in which they are read and written.
const PIECE_BYTES: u64 = 4 * MIB;

/// Files of one size, written and read in order.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(in crate::hardware) struct Speed {
    /// Their size.
    pub kib: u64,
    /// MB (2^20 bytes) a second, created and written.
    pub write: f64,
    /// The same, read.
    pub read: f64,
    /// How the files lie.
    pub score: Score,
}

/// The files that changed lately.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(in crate::hardware) struct Hot {
    pub files: u64,
    pub bytes: u64,
    /// Their shares of all files, and of the bytes of all.
    pub shares: (f64, f64),
    pub score: Score,
    /// Those whose inode and first block lie in different groups.
    pub split: u64,
    /// MB (2^20 bytes) a second.
    pub read: f64,
    /// The same, overwritten in place.
    pub write: f64,
}

/// See the module's head.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::hardware) struct Life {
    /// The layout score each evening; only of [`Policy::Original`], which lived as the real one did.
    pub scores: Vec<Score>,
    /// The layout at the end.
    pub layout: Layout,
    /// Files of two blocks; and those of them whose second block is whole.
    pub pairs: (Score, Score),
    /// How free space is divided at the end.
    pub free: FreeSpace,
    /// How full it is at the end.
    pub full: f64,
    /// Operations left out for lack of room.
    pub refused: u64,
    pub empty: Vec<Speed>,
    pub aged: Vec<Speed>,
    pub hot: Hot,
}

/// Ages a file system, and measures it.
///
/// # Errors
/// A volume cannot be made, or the file system failed.
pub(in crate::hardware) fn live(span: Span, policy: Policy, history: &History) -> Result<Life, LabError> {
    let setup = span.setup(policy)?;
    let data_bytes = free_bytes(&setup)?;
    let nights: &[i64] = if policy == Policy::Original { &history.nights_ns } else { &[] };
    let (mut scores, mut last) = (Vec::new(), None);
    let aged = live_through(&setup, By::Group, &history.workload, nights, &mut |volume| {
        let snapshot = image(volume, &mut |_| Ok(()))?;
        scores.push(Layout::of(&snapshot).all.score);
        last = Some(snapshot);
        Ok(())
    })?;
    let snapshot = last.ok_or_else(|| LabError::Setup("nobody looked at the volume".to_owned()))?;
    let sizes = sizes(policy);
    Ok(Life {
        scores,
        layout: Layout::of(&snapshot),
        pairs: pairs(&snapshot),
        free: snapshot.meta.free.clone().unwrap_or_default(),
        full: full(&snapshot, data_bytes),
        refused: aged.tally.refused,
        empty: sequential(span, &setup, None, &sizes)?,
        hot: hot(&setup, &aged, &snapshot)?,
        aged: sequential(span, &setup, Some(&aged), &sizes)?,
    })
}

/// The sizes that the figures show of a policy.
fn sizes(policy: Policy) -> Vec<u64> {
    let large: &[u64] = if policy == Policy::SmartFrag { &[] } else { &SIZES_KIB };
    let small: &[u64] = if matches!(policy, Policy::Realloc | Policy::SmartFrag) { &SMALL_KIB } else { &[] };
    let all: BTreeSet<u64> = large.iter().chain(small).copied().collect();
    all.into_iter().collect()
}

fn pairs(snapshot: &Snapshot) -> (Score, Score) {
    let mut both = (Score::default(), Score::default());
    for entry in snapshot.files.values().filter(|entry| entry.kind == REGULAR) {
        if (BLOCK_BYTES + 1..=2 * BLOCK_BYTES).contains(&entry.size_bytes) {
            let score = Score::of(&entry.extents, snapshot.meta.block_bytes);
            both.0 = both.0.with(score);
            if entry.size_bytes > 2 * BLOCK_BYTES - FRAG_BYTES {
                both.1 = both.1.with(score);
            }
        }
    }
    both
}

/// The sequential benchmark on a volume that was aged, or on an empty one. Each size finds the volume as it was.
pub(super) fn sequential(
    span: Span,
    setup: &Setup,
    aged: Option<&Lived>,
    sizes_kib: &[u64],
) -> Result<Vec<Speed>, LabError> {
    let one = |&kib: &u64| {
        let file_bytes = kib << 10;
        let count = span.data_bytes() / file_bytes;
        let files = Files { file_bytes, count, per_directory: PER_DIRECTORY };
        let rig = match aged {
            Some(aged) => Rig::on(setup, aged.image.clone(), aged.ended_ns),
            None => Rig::new(setup)?,
        };
        let mb_per_s = |files_per_s: f64| files_per_s * file_bytes as f64 / MIB as f64;
        let [write, read] = create_and_read(&rig, &files)?.map(mb_per_s);
        Ok(Speed { kib, write, read, score: score_of(&rig, &files)? })
    };
    // Two files at least.
    sizes_kib.iter().filter(|&&kib| 2 * (kib << 10) <= span.data_bytes()).map(one).collect()
}

/// How the files of the benchmark lie.
fn score_of(rig: &Rig, files: &Files) -> Result<Score, LabError> {
    let volume = untimed(rig)?;
    let names: BTreeSet<String> = files.directory_names().collect();
    let mut dirs = BTreeMap::new();
    for (name, ino) in entries(&volume, InodeNo::ROOT).map_err(failed("list a directory"))? {
        if names.contains(&name) {
            dirs.insert(ino.0, name);
        }
    }
    let snapshot = image(&volume, &mut |_| Ok(()))?;
    let ours = snapshot.files.values().filter(|entry| dirs.contains_key(&entry.dir));
    Ok(ours
        .fold(Score::default(), |sum, entry| sum.with(Score::of(&entry.extents, snapshot.meta.block_bytes))))
}

/// The volume of a rig, on a disk that takes no time; what happens to it stays here.
fn untimed(rig: &Rig) -> Result<Volume<Ffs>, LabError> {
    let (image, now_ns) = rig.state();
    mount(Arc::new(MemDevice::from_image(image)), CACHE_BYTES, Arc::new(clock_at(now_ns)))
}

/// A directory with the hot files in it: the name, its entries, and name and size of each file.
type HotDirectory = (String, u64, Vec<(String, u64)>);

/// The benchmark of hot files: sorted by directory, read, and overwritten in place.
fn hot(setup: &Setup, aged: &Lived, snapshot: &Snapshot) -> Result<Hot, LabError> {
    let regular = || snapshot.files.iter().filter(|(_, entry)| entry.kind == REGULAR);
    let newest_ns = regular().map(|(_, entry)| entry.ctime_ns).max().unwrap_or(0);
    let is_hot = |ctime_ns: i64| ctime_ns > newest_ns - HOT_DAYS * DAY_NS;
    let files: BTreeMap<u64, _> =
        regular().filter(|(_, entry)| is_hot(entry.ctime_ns)).map(|(&ino, e)| (ino, e.clone())).collect();
    let (count, bytes) = (files.len() as u64, files.values().map(|entry| entry.size_bytes).sum::<u64>());
    let all = regular().fold((0, 0), |sum, (_, entry)| (sum.0 + 1, sum.1 + entry.size_bytes));
    let chosen = Snapshot { meta: snapshot.meta.clone(), files };
    let rig = Rig::on(setup, aged.image.clone(), aged.ended_ns);
    let volume = untimed(&rig)?;
    let mut directories: Vec<HotDirectory> = Vec::new();
    for (dir, ino) in entries(&volume, InodeNo::ROOT).map_err(failed("list a directory"))? {
        let inside = entries(&volume, ino).map_err(failed("list a directory"))?;
        let size = |ino: &InodeNo| chosen.files.get(&ino.0).map(|entry| entry.size_bytes);
        let hot = inside.iter().filter_map(|(name, ino)| Some((name.clone(), size(ino)?))).collect();
        directories.push((dir, inside.len() as u64, hot));
    }
    directories.sort();
    drop(volume);
    let mb_per_s = |seconds: f64| bytes as f64 / MIB as f64 / seconds;
    let read = rig.run(|program| pass(program, &directories, false))?;
    let write = rig.run(|program| pass(program, &directories, true))?;
    let layout = Layout::of(&chosen);
    Ok(Hot {
        files: count,
        bytes,
        shares: (count as f64 / all.0.max(1) as f64, bytes as f64 / all.1.max(1) as f64),
        score: layout.all.score,
        split: layout.splits.map_or(0, |splits| splits.files()),
        read: mb_per_s(read),
        write: mb_per_s(write),
    })
}

/// Reads or overwrites all of them; returns the seconds.
fn pass(program: &Program<'_>, directories: &[HotDirectory], writes: bool) -> Result<f64, LabError> {
    let mut content = vec![5; PIECE_BYTES as usize];
    let start = program.moment();
    for (dir, count, files) in directories.iter().filter(|(.., files)| !files.is_empty()) {
        let parent = program.open(InodeNo::ROOT, dir, directories.len() as u64)?;
        for (name, bytes) in files {
            let ino = program.open(parent, name, *count)?;
            for at in (0..*bytes).step_by(PIECE_BYTES as usize) {
                let piece = &mut content[..PIECE_BYTES.min(bytes - at) as usize];
                if writes { program.write(ino, at, piece)? } else { program.read(ino, at, piece)? }
            }
            program.close(ino)?;
        }
    }
    if writes {
        program.sync()?;
    }
    Ok(program.since(&start).seconds)
}
