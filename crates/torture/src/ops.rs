//! Operations of a random history, and their generator.
//!
//! A history is a function of its seed and of the answers of the model, so it replays exactly. Names come from a small
//! pool so that operations collide; sizes come in three scales: within an inode, a few blocks, far out. Callers: the
//! model tests, the crash explorer.

use crate::model::Model;
use firnfs::inode::Kind;
use firnfs::vfs::{Allocate, RenameMode, Seek, SetAttr, SetTime, XattrMode};
use firnfs_format::TimeNs;

/// Names from the root down; empty for the root.
pub type Path = Vec<Vec<u8>>;

/// Slots for files held open.
pub const HANDLES: usize = 4;

/// A file to work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// By path.
    Path(Path),
    /// By an open handle; it may be empty.
    Handle(usize),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // fields are those of the calls in `firnfs::vfs`
pub enum Op {
    /// mknod, mkdir, symlink, create.
    Make { path: Path, kind: Kind, mode: u16, umask: u16, rdev: u64, target: Vec<u8> },
    /// link(2) to an existing file.
    Link { from: File, to: Path },
    /// unlink(2)
    Unlink { path: Path },
    /// rmdir(2)
    Rmdir { path: Path },
    /// renameat2(2)
    Rename { from: Path, to: Path, mode: RenameMode },
    /// Holds a file in a slot; first closes the file that was in it.
    Open { path: Path, slot: usize },
    /// Closes the file in a slot.
    Close { slot: usize },
    /// pwrite(2) of bytes made from `fill` and their offset ([`pattern`]).
    Write { file: File, at_bytes: u64, len_bytes: u64, fill: u8, kill_set_id: bool },
    /// pread(2)
    Read { file: File, at_bytes: u64, len_bytes: u64 },
    /// chmod, chown, truncate, utimensat.
    SetAttr { file: File, set: SetAttr },
    /// fallocate(2)
    Allocate { file: File, mode: Allocate, at_bytes: u64, len_bytes: u64 },
    /// lseek(2) for data or holes.
    Seek { file: File, at_bytes: u64, whence: Seek },
    /// stat(2)
    Stat { file: File },
    /// The whole of a directory.
    List { path: Path },
    /// readlink(2)
    Readlink { path: Path },
    /// setxattr(2) of a value made from `fill`.
    SetXattr { file: File, name: Vec<u8>, len_bytes: u64, fill: u8, mode: XattrMode },
    /// getxattr(2)
    GetXattr { file: File, name: Vec<u8> },
    /// listxattr(2)
    ListXattr { file: File },
    /// removexattr(2)
    RemoveXattr { file: File, name: Vec<u8> },
}

/// The byte that a write with that fill puts at an offset; never zero, so that data differs from holes.
#[must_use]
pub fn pattern(fill: u8, at_bytes: u64) -> u8 {
    (fill ^ (at_bytes as u8) ^ (at_bytes >> 8) as u8) | 1
}

/// A small generator of good quality (SplitMix64): the same numbers on every platform, for ever.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator with that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (at least 1).
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound.max(1))) >> 64) as u64
    }

    /// True in `percent` of cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// The proportions of a history.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Names in the pool. A large number makes directories large.
    pub names: u64,
    /// Share of operations that make or remove names, in percent; the others work on files.
    pub names_percent: u64,
    /// Largest offset of ordinary writes, in bytes.
    pub reach_bytes: u64,
}

impl Default for Mix {
    fn default() -> Self {
        Self { names: 12, names_percent: 50, reach_bytes: 20_000 }
    }
}

/// Makes operations. Most of them refer to objects in the model.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
    mix: Mix,
}

impl Generator {
    /// A generator with that seed.
    #[must_use]
    pub fn new(seed: u64, mix: Mix) -> Self {
        Self { rng: Rng::new(seed), mix }
    }

    /// The next operation.
    pub fn next_op(&mut self, model: &Model) -> Op {
        if self.rng.percent(self.mix.names_percent) { self.on_names(model) } else { self.on_file(model) }
    }

    fn on_names(&mut self, model: &Model) -> Op {
        match self.rng.below(100) {
            0..45 => self.make(model),
            45..55 => Op::Link { from: self.file(model), to: self.path(model, 20) },
            55..70 => Op::Unlink { path: self.path(model, 95) },
            70..78 => Op::Rmdir { path: self.path(model, 95) },
            _ => {
                let mode = self.rng.pick(&[
                    RenameMode::Replace,
                    RenameMode::Replace,
                    RenameMode::NoReplace,
                    RenameMode::Exchange,
                ]);
                let existing = if mode == RenameMode::Exchange { 90 } else { 40 };
                Op::Rename { from: self.path(model, 95), to: self.path(model, existing), mode }
            }
        }
    }

    fn make(&mut self, model: &Model) -> Op {
        let kind = self.rng.pick(&[
            Kind::Regular,
            Kind::Regular,
            Kind::Regular,
            Kind::Directory,
            Kind::Directory,
            Kind::Symlink,
            Kind::Fifo,
            Kind::CharDevice,
            Kind::Socket,
        ]);
        let target_len = self.rng.pick(&[0, 1, 10, 60, 300, 2000, 4095, 4096]);
        let target = if kind == Kind::Symlink { vec![b't'; target_len] } else { Vec::new() };
        let rdev = if kind == Kind::CharDevice { 7 << 32 | self.rng.below(9) } else { 0 };
        let mode = self.rng.below(0o10000) as u16;
        let umask = self.rng.pick(&[0, 0o022, 0o077]);
        Op::Make { path: self.path(model, 10), kind, mode, umask, rdev, target }
    }

    fn on_file(&mut self, model: &Model) -> Op {
        let at_bytes = self.offset();
        let len_bytes = self.length();
        let fill = self.rng.bits() as u8;
        let slot = self.rng.below(HANDLES as u64) as usize;
        match self.rng.below(100) {
            0..25 => {
                let kill_set_id = self.rng.percent(30);
                Op::Write { file: self.file(model), at_bytes, len_bytes, fill, kill_set_id }
            }
            25..38 => Op::Read { file: self.file(model), at_bytes, len_bytes },
            38..52 => Op::SetAttr { file: self.file(model), set: self.set_attr() },
            52..60 => Op::Allocate { file: self.file(model), mode: self.allocate(), at_bytes, len_bytes },
            60..65 => {
                let whence = self.rng.pick(&[Seek::Data, Seek::Hole]);
                Op::Seek { file: self.file(model), at_bytes, whence }
            }
            65..70 => Op::Stat { file: self.file(model) },
            70..74 => Op::List { path: self.path(model, 95) },
            74..77 => Op::Readlink { path: self.path(model, 95) },
            77..83 => Op::Open { path: self.path(model, 95), slot },
            83..86 => Op::Close { slot },
            _ => self.on_xattr(model, fill),
        }
    }

    fn on_xattr(&mut self, model: &Model, fill: u8) -> Op {
        let file = self.file(model);
        let name: &[u8] = self.rng.pick(&[
            b"user.a".as_slice(),
            b"user.bb",
            b"trusted.c",
            b"security.d",
            b"nowhere.e",
            b"user.",
        ]);
        let name = name.to_vec();
        match self.rng.below(10) {
            0..6 => {
                let len_bytes = self.rng.pick(&[0, 5, 40, 200, 3000, 65536, 65537]);
                let mode =
                    self.rng.pick(&[XattrMode::Any, XattrMode::Any, XattrMode::Create, XattrMode::Replace]);
                Op::SetXattr { file, name, len_bytes, fill, mode }
            }
            6..7 => Op::GetXattr { file, name },
            7..8 => Op::ListXattr { file },
            _ => Op::RemoveXattr { file, name },
        }
    }

    fn allocate(&mut self) -> Allocate {
        self.rng.pick(&[
            Allocate::Grow,
            Allocate::KeepSize,
            Allocate::PunchHole,
            Allocate::PunchHole,
            Allocate::ZeroRange(true),
            Allocate::ZeroRange(false),
        ])
    }

    fn set_attr(&mut self) -> SetAttr {
        let mut set = SetAttr { kill_set_id: self.rng.percent(50), ..SetAttr::default() };
        if self.rng.percent(30) {
            set.mode = Some(self.rng.below(0o10000) as u16);
        }
        if self.rng.percent(15) {
            set.uid = Some(self.rng.below(3) as u32);
        }
        if self.rng.percent(15) {
            set.gid = Some(self.rng.below(3) as u32);
        }
        if self.rng.percent(50) {
            set.size_bytes = Some(self.offset());
        }
        if self.rng.percent(10) {
            set.atime = Some(SetTime::At(TimeNs(self.rng.below(1 << 40) as i64)));
        }
        if self.rng.percent(10) {
            set.mtime = Some(self.rng.pick(&[SetTime::Now, SetTime::At(TimeNs(-5))]));
        }
        set
    }

    fn offset(&mut self) -> u64 {
        match self.rng.below(20) {
            0..6 => self.rng.below(80),
            6..9 => 0,
            9..19 => self.rng.below(self.mix.reach_bytes),
            _ => {
                self.rng.pick(&[1 << 32, (1 << 40) + 12_345, i64::MAX as u64 - 10, i64::MAX as u64, u64::MAX])
            }
        }
    }

    fn length(&mut self) -> u64 {
        match self.rng.below(10) {
            0..4 => self.rng.below(40),
            4..9 => self.rng.below(self.mix.reach_bytes / 2),
            _ => self.rng.pick(&[512, 4096, 8192]),
        }
    }

    fn file(&mut self, model: &Model) -> File {
        if self.rng.percent(15) {
            File::Handle(self.rng.below(HANDLES as u64) as usize)
        } else {
            File::Path(self.path(model, 97))
        }
    }

    /// A path; in `existing` percent of cases one that exists, else a name from the pool in an existing directory.
    fn path(&mut self, model: &Model, existing: u64) -> Path {
        let mut path = Path::new();
        // Up to four levels; deeper ones are rarer.
        for _ in 0..4 {
            let names = model.child_names(&path);
            if names.is_empty() || self.rng.percent(35) {
                break;
            }
            path.push(names[self.rng.below(names.len() as u64) as usize].clone());
        }
        if self.rng.percent(existing) && !(path.is_empty() && self.rng.percent(95)) {
            return path;
        }
        if model.is_file(&path) && self.rng.percent(97) {
            path.pop();
        }
        path.push(self.name());
        path
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.rng.below(self.mix.names);
        let mut name = format!("n{number}").into_bytes();
        let len = [2, 8, 30, 120, 255][(number % 5) as usize];
        if name.len() < len {
            name.resize(len, b'-');
        }
        if self.rng.percent(1) {
            name.resize(256, b'x');
        }
        name
    }
}
