//! Histories with a focus that neither bounded enumeration nor an even mixture reaches: directories of many blocks and of many
//! names, open files without names, volumes with hardly any room while all logs are written, files that are coalesced in idle
//! time, quotas, retained points, automatic points.

use super::generate::random_op;
use super::op::Op;
use super::point_ops;
use super::quota_ops;
use super::retained_ops;
use super::tree::NodeKind;
use super::world::World;
use firnfs_sim::seeded;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;

/// The focus of a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shape {
    /// A directory of several blocks with its hash index: long names are added, removed and moved, and others fill their
    /// places.
    Wide,
    /// A directory of a thousand names, whose index has several levels: new names wait high up in it and move down together,
    /// and nodes are split, while other names are added, removed and moved.
    Crowded,
    /// Files lose their names while they are open, grow on, and are freed by a close, an unmount or the crash; others are made
    /// without a name and get one late or never.
    Open,
    /// A volume filled to the last file that it takes; then batches larger than a segment, which go to the logs of data and of
    /// metadata, together with the fsync of single files and a cleaner that never rests.
    Tight,
    /// Files overwritten in random places, and small files rewritten in any order, with idle times in which they are put in
    /// order again; users return before that is done.
    Scattered,
    /// Background work is done step by step between the operations, so that these find batches half laid out.
    Stepped,
    /// A tiny volume whose segments are either nearly empty or needed: the cleaner moves the little live data, and its victims
    /// are rewritten at once, while readers are slow.
    Clean,
    /// Users and groups with quotas: files change their owners and sizes, limits are set, and met.
    Quotas,
    /// A tiny volume with retained points, which are made and dropped while users overwrite what they hold and the cleaner moves it.
    Points,
    /// A tiny volume that makes points by itself, and lets them go by its rule or for lack of room.
    Retained,
}

/// All of them, by name.
const NAMES: [(&str, Shape); 10] = [
    ("wide", Shape::Wide),
    ("crowded", Shape::Crowded),
    ("open", Shape::Open),
    ("tight", Shape::Tight),
    ("scattered", Shape::Scattered),
    ("stepped", Shape::Stepped),
    ("clean", Shape::Clean),
    ("quotas", Shape::Quotas),
    ("points", Shape::Points),
    ("retained", Shape::Retained),
];

impl Shape {
    /// The name that scenarios use.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, shape)| *shape == self).map_or("", |(name, _)| name)
    }

    /// The shape of a [`Shape::name`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
    }

    pub(super) fn ops(self, seed: u64) -> Vec<Op> {
        match self {
            Self::Wide => wide(seed),
            Self::Crowded => crowded(seed),
            Self::Open => open(seed),
            Self::Tight => tight(seed),
            Self::Scattered => scattered(seed),
            Self::Stepped => stepped(seed),
            Self::Clean => clean(seed),
            Self::Quotas => quota_ops::ops(seed),
            Self::Points => point_ops::ops(seed),
            Self::Retained => retained_ops::ops(seed),
        }
    }

    pub(super) fn states_max(self) -> u64 {
        match self {
            Self::Wide => 1500,
            Self::Crowded => 120,
            Self::Open => 5000,
            Self::Tight => 300,
            Self::Scattered => 2000,
            Self::Stepped => 3000,
            Self::Clean => 4000,
            Self::Quotas => 2000,
            Self::Points => 1000,
            Self::Retained => 600,
        }
    }
}

/// Operations with the resulting world.
#[derive(Default)]
pub(super) struct History {
    pub ops: Vec<Op>,
    pub world: World,
}

impl History {
    /// Adds an operation; leaves out invalid ones.
    pub fn push(&mut self, op: Op) {
        if self.world.apply(&op).is_ok() {
            self.ops.push(op);
        }
    }

    pub fn files(&self, under: &str) -> Vec<String> {
        let files = self
            .world
            .list()
            .into_iter()
            .filter(|(path, kind, _)| *kind == NodeKind::File && path.starts_with(under));
        files.map(|(path, ..)| path).collect()
    }
}

/// So long that a block holds about twenty.
fn long_name(number: u32) -> String {
    format!("D/{number:03}-{}", "n".repeat(170))
}

fn wide(seed: u64) -> Vec<Op> {
    const NAMES: u32 = 120;
    const OPS: usize = 220;
    let mut rng = seeded(seed, "wide directory");
    let mut history = History::default();
    history.push(Op::Mkdir("D".into()));
    history.push(Op::Mkdir("E".into()));
    for number in 0..NAMES {
        history.push(Op::Create(long_name(number)));
    }
    history.push(Op::Sync);
    while history.ops.len() < OPS {
        let op = wide_op(&history, &mut rng, seed << 20 | history.ops.len() as u64);
        history.push(op);
    }
    history.ops
}

fn crowded(seed: u64) -> Vec<Op> {
    // A leaf takes 511 pairs; the two that it is split into have a root in which 509 can wait. It is full within the rounds.
    const NAMES: u32 = 1000;
    const ROUNDS: u32 = 12;
    let mut rng = seeded(seed, "crowded directory");
    let mut history = History::default();
    let name = |number: u32| format!("D/{number}");
    history.push(Op::Mkdir("D".into()));
    (0..NAMES).for_each(|number| history.push(Op::Create(name(number))));
    history.push(Op::Sync);
    for round in 0..ROUNDS {
        let first = NAMES + round * 100;
        (first..first + rng.random_range(5..40)).for_each(|number| history.push(Op::Create(name(number))));
        for _ in 0..rng.random_range(0..6) {
            let old = name(rng.random_range(0..first));
            let to = name(first + 50 + rng.random_range(0..50));
            history.push(if rng.random_bool(0.5) { Op::Unlink(old) } else { Op::Rename { from: old, to } });
        }
        history.push(match rng.random_range(0..4) {
            0 => Op::Fsync("D".into()),
            1 => Op::Idle { ms: rng.random_range(1..12_000) },
            _ => Op::Sync,
        });
    }
    history.ops
}

fn wide_op(history: &History, rng: &mut Pcg64, tag: u64) -> Op {
    let files = history.files("");
    let Some(file) = files.choose(rng).cloned() else { return Op::Create(long_name(0)) };
    let fresh = long_name(rng.random_range(0..1000));
    match rng.random_range(0..100) {
        0..22 => Op::Create(fresh),
        22..44 => Op::Unlink(file),
        44..56 => Op::Rename { from: file, to: fresh },
        56..60 => Op::Rename { from: file, to: format!("E/{}", rng.random_range(0..20)) },
        60..66 => Op::Link { from: file, to: fresh },
        66..70 => Op::Mkdir(fresh),
        70..73 => Op::Exchange { from: file, to: files.choose(rng).cloned().unwrap_or_default() },
        73..80 => Op::Write { path: file, at_bytes: 0, len_bytes: rng.random_range(1..6000), tag },
        80..90 => Op::Fsync(if rng.random_bool(0.5) { file } else { "D".into() }),
        90..93 => Op::Sync,
        93..98 => Op::Idle { ms: rng.random_range(1..12_000) },
        _ => Op::Remount,
    }
}

fn open(seed: u64) -> Vec<Op> {
    const OPS: usize = 60;
    let mut rng = seeded(seed, "open files");
    let mut history = History::default();
    while history.ops.len() < OPS {
        let tag = seed << 20 | history.ops.len() as u64;
        let fresh = |rng: &mut Pcg64| format!("u{}", rng.random_range(0..6));
        let op = match rng.random_range(0..13) {
            10 => Some(Op::MakeUnnamed { len_bytes: rng.random_range(1..40_000), tag }),
            11 => Some(Op::LinkUnnamed { to: fresh(&mut rng) }),
            12 => Some(Op::FsyncUnnamed),
            0..2 => history.files("").choose(&mut rng).cloned().map(Op::UnlinkOpen),
            2 => Some(Op::UseOpen { len_bytes: rng.random_range(1..40_000), tag }),
            3 if rng.random_bool(0.3) => Some(Op::CloseOpen),
            _ => Some(random_op(&history.world, &mut rng, tag)),
        };
        op.into_iter().for_each(|op| history.push(op));
    }
    history.ops
}

fn stepped(seed: u64) -> Vec<Op> {
    const ROUNDS: u32 = 6;
    const FILES: u64 = 24;
    let mut rng = seeded(seed, "step by step");
    let mut history = History::default();
    history.push(Op::Mkdir("D".into()));
    for file in 0..FILES {
        let path = format!("D/f{file}");
        history.push(Op::Create(path.clone()));
        let len_bytes = if file % 8 == 0 { 60_000 } else { rng.random_range(1..5000) };
        history.push(Op::Write { path, at_bytes: 0, len_bytes, tag: file });
    }
    for _ in 0..ROUNDS {
        for _ in 0..rng.random_range(8..20) {
            stepped_op(&mut history, &mut rng, seed);
        }
        // More is dirty than a step lays out, and a commit is due.
        history.push(Op::Step { ms: 5000 });
        for _ in 0..rng.random_range(4..24) {
            stepped_op(&mut history, &mut rng, seed);
            history.push(Op::Step { ms: rng.random_range(0..3) });
        }
        // The same with batches of single files, which others fill.
        let synced = history.files("D/").choose(&mut rng).cloned();
        if let Some(path) = synced {
            for _ in 0..rng.random_range(2..12) {
                stepped_op(&mut history, &mut rng, seed);
                history.push(Op::PartOfFsync(path.clone()));
            }
            history.push(Op::Fsync(path));
        }
        // The same with passes of the cleaner.
        for _ in 0..rng.random_range(0..60) {
            if rng.random_bool(0.3) {
                stepped_op(&mut history, &mut rng, seed);
            }
            history.push(Op::CleanStep);
        }
        if rng.random_bool(0.3) {
            history.push(Op::Sync);
        }
    }
    if seed % 2 == 1 { point_ops::among(&World::new(), history.ops, seed) } else { history.ops }
}

/// Mostly changes of several inodes at once.
fn stepped_op(history: &mut History, rng: &mut Pcg64, seed: u64) {
    let tag = seed << 20 | history.ops.len() as u64;
    let files = history.files("D/");
    let Some(file) = files.choose(rng).cloned() else { return history.push(Op::Create("D/f0".into())) };
    let fresh = format!("D/{}{}", ["f", "g", "h"].choose(rng).expect("some"), rng.random_range(0..24));
    history.push(match rng.random_range(0..12) {
        0..3 => Op::Link { from: file, to: fresh },
        3..5 => Op::Rename { from: file, to: fresh },
        5..7 => Op::Unlink(file),
        7 => Op::Create(fresh),
        8..11 => overwrite(rng, file, 8000, 60_000, tag),
        _ => random_op(&history.world, rng, tag),
    });
}

fn tight(seed: u64) -> Vec<Op> {
    const FILES: u64 = 28;
    const FILE_BYTES: u64 = 480 << 10;
    const ROUNDS: u64 = 110;
    let mut rng = seeded(seed, "tight volume");
    let mut history = History::default();
    for file in 0..FILES {
        history.push(Op::Create(format!("f{file}")));
        history.push(Op::Write { path: format!("f{file}"), at_bytes: 0, len_bytes: FILE_BYTES, tag: file });
    }
    history.push(Op::Sync);
    for round in 0..ROUNDS {
        let (path, tag) = (format!("f{}", rng.random_range(0..FILES)), FILES + round);
        match rng.random_range(0..100) {
            0..35 => history.push(overwrite(&mut rng, path, 60 << 10, FILE_BYTES, tag)),
            35..50 => history.push(overwrite(&mut rng, path, FILE_BYTES, FILE_BYTES, tag)),
            50..60 => {
                history.push(overwrite(&mut rng, path.clone(), 8 << 10, FILE_BYTES, tag));
                history.push(Op::Fsync(path));
            }
            60..66 => {
                let small = format!("s{}", rng.random_range(0..12));
                history.push(Op::Create(small.clone()));
                history.push(Op::Write { path: small.clone(), at_bytes: 0, len_bytes: 700, tag });
                history.push(Op::Fsync(small));
            }
            66..70 => history.push(Op::Rename { from: format!("s{}", rng.random_range(0..12)), to: path }),
            70..74 => {
                history.push(Op::Unlink(path.clone()));
                history.push(Op::Create(path.clone()));
                history.push(Op::Write { path, at_bytes: 0, len_bytes: FILE_BYTES, tag });
            }
            74..80 => history.push(Op::Fsync(path)),
            80..87 => history.push(Op::Sync),
            _ => history.push(Op::Idle { ms: rng.random_range(1000..40_000) }),
        }
    }
    history.ops
}

pub(super) fn overwrite(rng: &mut Pcg64, path: String, len_max_bytes: u64, file_bytes: u64, tag: u64) -> Op {
    let len_bytes = rng.random_range(1..len_max_bytes);
    Op::Write { path, at_bytes: rng.random_range(0..file_bytes - len_bytes), len_bytes, tag }
}

fn scattered(seed: u64) -> Vec<Op> {
    const FILES: u64 = 3;
    const FILE_BYTES: u64 = 300 << 10;
    const SMALL_FILES: u64 = 24;
    const ROUNDS: u64 = 60;
    let mut rng = seeded(seed, "scattered files");
    let mut history = History::default();
    history.push(Op::Mkdir("D".into()));
    for file in 0..FILES {
        history.push(Op::Create(format!("f{file}")));
        history.push(Op::Write { path: format!("f{file}"), at_bytes: 0, len_bytes: FILE_BYTES, tag: file });
    }
    (0..SMALL_FILES).for_each(|file| history.push(Op::Create(format!("D/s{file}"))));
    history.push(Op::Sync);
    for round in 0..ROUNDS {
        let (file, small) = (rng.random_range(0..FILES), rng.random_range(0..SMALL_FILES));
        let (path, small) = (format!("f{file}"), format!("D/s{small}"));
        let tag = FILES + round;
        match rng.random_range(0..100) {
            0..40 => {
                for _ in 0..rng.random_range(1..6) {
                    history.push(overwrite(&mut rng, path.clone(), 12 << 10, FILE_BYTES, tag));
                }
                history.push(Op::Fsync(path));
            }
            40..60 => {
                let len_bytes = rng.random_range(1..9000);
                history.push(Op::Truncate { path: small.clone(), size_bytes: 0 });
                history.push(Op::Write { path: small.clone(), at_bytes: 0, len_bytes, tag });
                history.push(Op::Fsync(small));
            }
            60..64 => history
                .push(Op::Rename { from: small, to: format!("D/s{}", rng.random_range(0..SMALL_FILES)) }),
            64..68 => {
                history.push(Op::Punch { path, at_bytes: 4096 * rng.random_range(0..60), len_bytes: 20_000 })
            }
            68..70 => history.push(Op::Truncate { path, size_bytes: rng.random_range(0..FILE_BYTES) }),
            70..75 => history.push(Op::Sync),
            75..77 => history.push(Op::Remount),
            // Long enough for the commit and for idle work, or not.
            _ => history.push(Op::Idle { ms: rng.random_range(1_000..12_000) }),
        }
    }
    history.ops
}

/// Each round fills most of a segment with files that the next round removes, and leaves a few small files in it. Volumes of
/// odd seeds also have half of their room taken, so that a clean segment is rewritten at once.
fn clean(seed: u64) -> Vec<Op> {
    const KEPT: u32 = 24;
    const ROUNDS: u64 = 70;
    let mut rng = seeded(seed, "cleaning");
    let mut history = History::default();
    let create = |path: &str, len_bytes, tag| {
        [Op::Create(path.into()), Op::Write { path: path.into(), at_bytes: 0, len_bytes, tag }]
    };
    if seed % 2 == 1 {
        let taken =
            (0..7).flat_map(|file| create(&format!("taken{file}"), 250_000, (seed << 20) | (0xff00 + file)));
        taken.for_each(|op| history.push(op));
    }
    for round in 0..ROUNDS {
        let tag = seed << 20 | round << 8;
        let junk = create("junk", rng.random_range(80_000..240_000), tag);
        junk.into_iter().for_each(|op| history.push(op));
        for number in 1..rng.random_range(2..5) {
            let kept = format!("k{}", rng.random_range(0..KEPT));
            history.push(Op::Truncate { path: kept.clone(), size_bytes: 0 });
            let written = create(&kept, rng.random_range(2_000..9_000), tag | number);
            written.into_iter().for_each(|op| history.push(op));
        }
        history.push(Op::Sync);
        history.push(Op::Unlink("junk".into()));
        match rng.random_range(0..12) {
            0..3 => history.push(Op::Idle { ms: rng.random_range(1000..40_000) }),
            3..6 => {
                // None of it is in memory.
                history.push(Op::Remount);
                history.push(Op::BeginRead(format!("k{}", rng.random_range(0..KEPT))));
            }
            6 => history.push(Op::FinishRead),
            _ => {}
        }
    }
    history.push(Op::FinishRead);
    history.ops
}
