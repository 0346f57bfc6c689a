//! Scenarios, each with a name that reproduces it.
//!
//! * `ace1-N`, `ace2-N`, `ace3-N`: bounded enumeration in the manner of ACE: sequences of one, two or three core operations
//!   over a few files and directories, with every placement of fsync, fsyncdir and sync (or none) after each, on top of a
//!   small tree that is durable. All of `ace1` and `ace2` are meant to be run; `ace3` is sampled.
//! * `long-N`: a long random history from seed N, with all operations; `long-N.R` is its round R: it follows R crashes, each
//!   at a state drawn from the round before.
//! * `full-N`: a volume filled almost completely, then overwritten again and again while the cleaner makes room.
//! * `stale-N.1`: overwrites the remains of `stale-N`, see the module `stale` of the explorer.
//! * `mend-N`: a random history from seed N, then damage, then interrupted repairs, see the module `mending`.
//! * `split-N`: a mirror whose halves were used separately, see the module `split`.
//! * `wide-N`, `crowded-N`, `open-N`, `tight-N`, `scattered-N`, `clean-N`, `quotas-N`, `points-N`, `retained-N`:
//!   histories with a focus, see [`Shape`]. Of `long`, `mend` and `stepped`, odd numbers have retained points, too.

use super::generate::random_ops;
use super::mending;
use super::op::Op;
use super::point_ops;
use super::shape::Shape;
use super::split;
use super::stale;
use super::subject::Made;
use super::tree::NodeKind;
use super::world::{AclSpec, World};
use firnfs_sim::seeded;
use rand::RngExt;
use std::fmt;
use std::str::FromStr;

/// A kind of scenario and its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scenario {
    /// Bounded enumeration.
    Ace {
        /// Core operations, 1 to 3.
        length: u32,
        /// Position in the enumeration.
        number: u64,
    },
    /// Random history.
    Long {
        /// Seed.
        seed: u64,
        /// Earlier crashes, 0 to 2.
        round: u32,
    },
    /// Nearly full volume.
    Full {
        /// Seed.
        seed: u64,
    },
    /// Two mounts, the second beside the remains of the first.
    Stale {
        /// Seed.
        seed: u64,
        /// Earlier crashes, 0 or 1.
        round: u32,
    },
    /// A damaged volume under repair.
    Mend {
        /// Seed.
        seed: u64,
    },
    /// The halves of a mirror that were mounted separately.
    Split {
        /// Seed.
        seed: u64,
    },
    /// Random history with a focus.
    Shaped {
        /// The focus.
        shape: Shape,
        /// Seed.
        seed: u64,
    },
}

/// Persistence operations that may follow a core operation: none, fsync of the file, fsync of its directory, sync.
const PERSISTENCE: u64 = 4;
/// Rounds of crash and writing in a long history.
pub const ROUNDS: u32 = 3;
/// Operations of one round of a long history.
const LONG_OPS: usize = 40;

impl Scenario {
    /// Number of scenarios of that length.
    #[must_use]
    pub fn ace_count(length: u32) -> u64 {
        (core_ops().len() as u64 * PERSISTENCE).pow(length)
    }

    /// Operations on a volume that holds `world`; it is empty, except in the later rounds of a long history.
    #[must_use]
    pub fn ops(&self, world: &World) -> Vec<Op> {
        match self {
            Self::Ace { length, number } => ace(*length, *number),
            Self::Long { seed, round } => {
                let of_round = seed << 2 | u64::from(*round);
                let ops = random_ops(world, of_round, LONG_OPS);
                if seed % 2 == 1 { point_ops::among(world, ops, of_round) } else { ops }
            }
            Self::Full { seed } => full(*seed),
            Self::Stale { seed, round } => stale::ops(*seed, *round),
            Self::Mend { seed } => mending::ops(world, *seed),
            Self::Split { seed } => split::ops(*seed),
            Self::Shaped { shape, seed } => shape.ops(*seed),
        }
    }

    /// The family under which it is counted: the first word of its name, without a number.
    #[must_use]
    pub fn family(&self) -> &'static str {
        match self {
            Self::Ace { .. } => "ace",
            Self::Long { .. } => "long",
            Self::Full { .. } => "full",
            Self::Stale { .. } => "stale",
            Self::Mend { .. } => "mend",
            Self::Split { .. } => "split",
            Self::Shaped { shape, .. } => shape.name(),
        }
    }

    /// How many of its planned states are worth judging: each state of a full volume or of a large directory takes long to
    /// read.
    #[must_use]
    pub fn states_max(&self) -> u64 {
        match self {
            // One in each group of the mixture.
            Self::Full { .. } => 40,
            Self::Mend { .. } => 2000,
            Self::Split { .. } => 1000,
            Self::Shaped { shape, .. } => shape.states_max(),
            Self::Stale { .. } => 3000,
            Self::Ace { .. } | Self::Long { .. } => u64::MAX,
        }
    }

    /// The volume that it is carried out on.
    #[must_use]
    pub fn made(&self) -> Made {
        match self {
            Self::Stale { .. } => Made::CommitsLate,
            Self::Shaped { shape: Shape::Clean | Shape::Points | Shape::Retained, .. } => Made::Tiny,
            Self::Shaped { shape: Shape::Stepped, .. } => Made::ShortSteps,
            _ => Made::Small,
        }
    }

    /// The round before, if there is one.
    #[must_use]
    pub fn before(&self) -> Option<Self> {
        match self {
            Self::Long { seed, round } => Some(Self::Long { seed: *seed, round: round.checked_sub(1)? }),
            Self::Stale { seed, round } => Some(Self::Stale { seed: *seed, round: round.checked_sub(1)? }),
            Self::Ace { .. }
            | Self::Full { .. }
            | Self::Mend { .. }
            | Self::Split { .. }
            | Self::Shaped { .. } => None,
        }
    }

    /// The stretches of a run, from its end, of which the state for the next round is one; `None`: it may be any.
    #[must_use]
    pub fn late_stretches(&self) -> Option<usize> {
        match self {
            Self::Stale { seed, .. } => Some(stale::late_stretches(*seed)),
            _ => None,
        }
    }

    /// Draws the state at which this scenario ends, if it is the round before another.
    #[must_use]
    pub fn pick_seed(&self) -> u64 {
        match self {
            Self::Long { seed, round } | Self::Stale { seed, round } => seed << 2 | u64::from(*round),
            Self::Ace { number, .. }
            | Self::Full { seed: number }
            | Self::Mend { seed: number }
            | Self::Split { seed: number }
            | Self::Shaped { seed: number, .. } => *number,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ace { length, number } => write!(f, "ace{length}-{number}"),
            Self::Long { seed, round: 0 } => write!(f, "long-{seed}"),
            Self::Stale { seed, round: 0 } => write!(f, "stale-{seed}"),
            Self::Stale { seed, round } => write!(f, "stale-{seed}.{round}"),
            Self::Long { seed, round } => write!(f, "long-{seed}.{round}"),
            Self::Full { seed } => write!(f, "full-{seed}"),
            Self::Mend { seed } => write!(f, "mend-{seed}"),
            Self::Split { seed } => write!(f, "split-{seed}"),
            Self::Shaped { shape, seed } => write!(f, "{}-{seed}", shape.name()),
        }
    }
}

/// The text names no scenario.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no such scenario: {0:?} (expected ace1-N, ace2-N, ace3-N, long-SEED, long-SEED.ROUND, full-SEED, stale-SEED, stale-SEED.ROUND, mend-SEED, \
         split-SEED, wide-SEED, crowded-SEED, open-SEED, tight-SEED, scattered-SEED, stepped-SEED, clean-SEED, quotas-SEED, points-SEED or retained-SEED)"
)]
pub struct UnknownScenario(String);

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(text: &str) -> Result<Self, UnknownScenario> {
        let refuse = || UnknownScenario(text.to_owned());
        let (kind, number) = text.split_once('-').ok_or_else(refuse)?;
        let (number, round) = number.split_once('.').unwrap_or((number, "0"));
        let number: u64 = number.parse().map_err(|_| refuse())?;
        let round: u32 = round.parse().map_err(|_| refuse())?;
        let length = match kind {
            "long" if round < ROUNDS => return Ok(Self::Long { seed: number, round }),
            "stale" if round < 2 => return Ok(Self::Stale { seed: number, round }),
            _ if round > 0 => return Err(refuse()),
            "full" => return Ok(Self::Full { seed: number }),
            "mend" => return Ok(Self::Mend { seed: number }),
            "split" => return Ok(Self::Split { seed: number }),
            "ace1" => 1,
            "ace2" => 2,
            "ace3" => 3,
            _ => {
                let shape = Shape::named(kind).ok_or_else(refuse)?;
                return Ok(Self::Shaped { shape, seed: number });
            }
        };
        let scenario = Self::Ace { length, number };
        (number < Self::ace_count(length)).then_some(scenario).ok_or_else(refuse)
    }
}

/// The tree that every bounded scenario begins with, made durable.
fn prologue() -> Vec<Op> {
    let write = |path: &str, len_bytes, tag| Op::Write { path: path.into(), at_bytes: 0, len_bytes, tag };
    vec![
        Op::Mkdir("A".into()),
        Op::Mkdir("B".into()),
        Op::Create("A/foo".into()),
        write("A/foo", 9000, 1000),
        Op::Create("bar".into()),
        write("bar", 100, 1001),
        Op::SetXattr { path: "bar".into(), name: "old".into(), len_bytes: 30, tag: 1002 },
        Op::Sync,
    ]
}

/// An ACL that a mode cannot express.
const SHARED: AclSpec = AclSpec { owner: 6, named: Some((1000, 5, 6)), group: 4, other: 0 };

/// Core operations of the bounded enumeration, as CrashMonkey's ACE has them, on the tree of [`prologue`].
fn core_ops() -> Vec<Op> {
    let path = |text: &str| text.to_owned();
    let write = |p: &str, at_bytes, len_bytes| Op::Write { path: p.into(), at_bytes, len_bytes, tag: 0 };
    let pairs = [
        ("A/foo", "A/bar"),
        ("A/foo", "B/foo"),
        ("A/foo", "bar"),
        ("bar", "A/foo"),
        ("bar", "foo"),
        ("B", "A/C"),
        ("A", "B/C"),
    ];
    let mut ops = vec![
        Op::Create(path("foo")),
        Op::Create(path("A/bar")),
        Op::Mkdir(path("A/C")),
        Op::Mkfifo(path("B/fifo")),
        Op::Symlink { target: path("bar"), path: path("A/sym") },
        Op::Unlink(path("A/foo")),
        Op::Unlink(path("bar")),
        Op::Rmdir(path("B")),
        Op::Link { from: path("A/foo"), to: path("B/foo") },
        Op::Link { from: path("bar"), to: path("A/bar") },
        Op::Exchange { from: path("A/foo"), to: path("bar") },
        Op::Exchange { from: path("A"), to: path("bar") },
        write("A/foo", 0, 4096),
        write("A/foo", 4000, 5000),
        write("A/foo", 9000, 300),
        write("A/foo", 65536, 4096),
        write("bar", 0, 100),
        write("bar", 100, 12000),
        Op::Truncate { path: path("A/foo"), size_bytes: 0 },
        Op::Truncate { path: path("A/foo"), size_bytes: 4097 },
        Op::Truncate { path: path("bar"), size_bytes: 30000 },
        Op::Punch { path: path("A/foo"), at_bytes: 4096, len_bytes: 4096 },
        Op::Chmod { path: path("bar"), mode: 0o600 },
        Op::SetXattr { path: path("A/foo"), name: path("k"), len_bytes: 40, tag: 7 },
        Op::SetXattr { path: path("A"), name: path("big"), len_bytes: 6000, tag: 8 },
        Op::RemoveXattr { path: path("bar"), name: path("old") },
        Op::Mknod { path: path("A/dev"), kind: NodeKind::CharDevice, rdev: 5 << 32 | 1 },
        Op::Allocate { path: path("bar"), at_bytes: 0, len_bytes: 20_000, keep_size: false },
        Op::Allocate { path: path("A/foo"), at_bytes: 8192, len_bytes: 16_384, keep_size: true },
        Op::ZeroRange { path: path("A/foo"), at_bytes: 100, len_bytes: 6000, keep_size: true },
        Op::ZeroRange { path: path("bar"), at_bytes: 50, len_bytes: 9000, keep_size: false },
        Op::SetAcl { path: path("A/foo"), default: false, acl: SHARED },
        Op::SetAcl { path: path("A"), default: true, acl: SHARED },
        Op::Remount,
    ];
    ops.extend(pairs.map(|(from, to)| Op::Rename { from: from.into(), to: to.into() }));
    ops
}

fn ace(length: u32, number: u64) -> Vec<Op> {
    let core = core_ops();
    let mut ops = prologue();
    let mut world = World::new();
    ops.iter().for_each(|op| world.apply(op).expect("the prologue makes sense"));
    let mut rest = number;
    for place in 0..u64::from(length) {
        let op = with_tag(core[(rest % core.len() as u64) as usize].clone(), place + 1);
        rest /= core.len() as u64;
        let persistence = rest % PERSISTENCE;
        rest /= PERSISTENCE;
        if world.apply(&op).is_err() {
            continue;
        }
        let sync = match persistence {
            0 => None,
            1 => Some(Op::Fsync(target(&op).to_owned())),
            2 => Some(Op::Fsync(target(&op).rsplit_once('/').map_or("", |(parent, _)| parent).to_owned())),
            _ => Some(Op::Sync),
        };
        ops.push(op);
        ops.extend(sync.filter(|sync| world.apply(sync).is_ok()));
    }
    ops
}

fn with_tag(mut op: Op, new: u64) -> Op {
    if let Op::Write { tag, .. } = &mut op {
        *tag = new;
    }
    op
}

/// The target of an fsync after the operation.
fn target(op: &Op) -> &str {
    match op {
        Op::Create(path) | Op::Mkdir(path) | Op::Mkfifo(path) | Op::Fsync(path) | Op::PartOfFsync(path) => {
            path
        }
        // A removed file cannot be synced, but its directory can.
        Op::Unlink(path) | Op::UnlinkOpen(path) | Op::Rmdir(path) => {
            path.rsplit_once('/').map_or("", |(parent, _)| parent)
        }
        Op::Symlink { path, .. }
        | Op::Mknod { path, .. }
        | Op::Allocate { path, .. }
        | Op::ZeroRange { path, .. }
        | Op::RemoveXattr { path, .. }
        | Op::SetAcl { path, .. }
        | Op::RemoveAcl { path, .. }
        | Op::BeginRead(path)
        | Op::CreateFor { path, .. }
        | Op::Chown { path, .. }
        | Op::Write { path, .. }
        | Op::Truncate { path, .. }
        | Op::Punch { path, .. }
        | Op::Chmod { path, .. }
        | Op::CopyBack { path, .. }
        | Op::SetXattr { path, .. } => path,
        Op::Link { to, .. } | Op::Rename { to, .. } | Op::Exchange { to, .. } | Op::LinkUnnamed { to } => to,
        Op::UseOpen { .. }
        | Op::FinishRead
        | Op::CloseOpen
        | Op::MakeUnnamed { .. }
        | Op::TurnQuotas(_)
        | Op::SetLimits { .. }
        | Op::MakePoint(_)
        | Op::DropPoint(_)
        | Op::MakeClone { .. }
        | Op::DropClone(_)
        | Op::HeldBack { .. }
        | Op::Retain(_)
        | Op::FsyncUnnamed
        | Op::Sync
        | Op::Idle { .. }
        | Op::Step { .. }
        | Op::CleanStep
        | Op::Remount => "",
    }
}

/// Fills most of a volume of 16 MiB with files, then overwrites them piece by piece.
fn full(seed: u64) -> Vec<Op> {
    const FILES: u64 = 9;
    const FILE_BYTES: u64 = 1000 << 10;
    let mut rng = seeded(seed, "full volume");
    let write = |file: u64, at_bytes, len_bytes, tag| Op::Write {
        path: format!("f{file}"),
        at_bytes,
        len_bytes,
        tag,
    };
    let mut ops = Vec::new();
    for file in 0..FILES {
        ops.push(Op::Create(format!("f{file}")));
        ops.push(write(file, 0, FILE_BYTES, file));
    }
    ops.push(Op::Sync);
    for round in 0..150 {
        let len_bytes = rng.random_range(1..100 << 10);
        let at_bytes = rng.random_range(0..FILE_BYTES - len_bytes);
        ops.push(write(rng.random_range(0..FILES), at_bytes, len_bytes, FILES + round));
        match rng.random_range(0..10) {
            0..3 => ops.push(Op::Fsync(format!("f{}", rng.random_range(0..FILES)))),
            3 => ops.push(Op::Sync),
            4 | 5 => ops.push(Op::Idle { ms: rng.random_range(1000..40_000) }),
            _ => {}
        }
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_makes_the_same_scenario_again() {
        let world = World::new();
        for name in [
            "ace1-0",
            "ace2-17",
            "ace3-99999",
            "long-7",
            "long-7.2",
            "full-3",
            "stale-4",
            "stale-4.1",
            "mend-5",
            "wide-1",
            "crowded-1",
            "open-2",
            "tight-3",
            "clean-4",
            "split-2",
            "quotas-3",
            "points-3",
            "retained-3",
        ] {
            let scenario: Scenario = name.parse().unwrap();
            assert_eq!(scenario.to_string(), name);
            assert_eq!(scenario.ops(&world), name.parse::<Scenario>().unwrap().ops(&world));
        }
        for name in [
            "",
            "ace4-1",
            "long",
            "long-x",
            "ace1-99999999",
            "long-7.3",
            "full-1.1",
            "ace1-0.1",
            "wide-1.1",
            "stale-1.2",
            "narrow-1",
        ] {
            assert!(name.parse::<Scenario>().is_err(), "{name}");
        }
    }

    #[test]
    fn every_core_operation_makes_sense_on_the_prologue() {
        for op in core_ops() {
            let mut world = World::new();
            prologue().iter().for_each(|op| world.apply(op).unwrap());
            assert_eq!(world.apply(&op), Ok(()), "{op}");
        }
    }

    #[test]
    fn long_histories_use_every_kind_of_operation() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..40 {
            for op in (Scenario::Long { seed, round: 0 }).ops(&World::new()) {
                kinds.insert(op.to_string().split(' ').next().unwrap().to_owned());
            }
        }
        assert_eq!(kinds.len(), 32, "{kinds:?}");
    }
}
