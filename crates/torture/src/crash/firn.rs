//! firnfs as the explorer's subject: the log-structured store behind the real driver, in virtual time, on one thread.

use firnfs_manage::LogVolume;
mod damage;
mod nameless;

use super::op::{Op, pattern};
use super::subject::{Mounted, Refusal, Subject};
use super::tree::{Entry, NodeKind, Tree};
use super::world::{DIRECTORY_MODE, FILE_MODE};
use firnfs::FsError;
use firnfs::check::{From, Severity};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::{Scope, Store};
use firnfs::vfs::{Allocate, AtimeMode, Attr, Caller, NewNode, RenameMode, SetAttr, XattrMode};
use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::superblock::{CHECKPOINT_SLOT_BYTES, CHECKPOINT_SLOTS_AT, SUPERBLOCK_BYTES, Superblock};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::check;
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// When everything begins, in nanoseconds since 1970.
const START_NS: i64 = 1_700_000_000_000_000_000;
/// How long an operation takes, in nanoseconds.
const OP_NS: i64 = 1_000_000;
/// Larger than any file of a scenario, in bytes: a damaged size must not exhaust memory.
const SIZE_MAX_BYTES: u64 = 64 << 20;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// firnfs with these parameters.
#[derive(Clone, Debug)]
pub struct Firn {
    /// How volumes are made.
    pub mkfs: MkfsOptions,
    /// With so many logs for data; `None`: as suits their size.
    pub data_logs: Option<u8>,
    /// How they are run.
    pub options: Options,
    /// Whoever is idle has the volume trimmed too.
    pub trims: bool,
}

impl Firn {
    /// A small volume (16 MiB, segments of 256 KiB) with thresholds so low that commits, checkpoints and segment changes
    /// come often.
    #[must_use]
    pub fn small() -> Self {
        let mkfs = MkfsOptions {
            size_bytes: 16 << 20,
            block_bytes: 4096,
            segment_bytes: 256 << 10,
            physical_block_bytes: super::runner::PHYSICAL_BLOCK_BYTES,
            inline_max_bytes: 1024,
            label: "explorer".to_owned(),
            uuid: *b"firnfs explorer!",
            hash_key: [17, 42],
            now: TimeNs(START_NS),
            root_owner: (0, 0),
        };
        let options = Options {
            cache_bytes: 4 << 20,
            write_threshold_bytes: 256 << 10,
            checkpoint_bytes: 512 << 10,
            discard: true,
            // Whenever it is quiet.
            coalesce_age_ms: Some(0),
            ..Options::default()
        };
        Self { mkfs, data_logs: None, options, trims: false }
    }

    /// [`Firn::small`] with as many logs as large volumes have, and data sorted into them. A commit goes to all of them.
    #[must_use]
    pub fn sorting() -> Self {
        Self { data_logs: Some(5), ..Self::small() }
    }

    /// [`Firn::small`] without discards of its own, but trimmed again and again.
    #[must_use]
    pub fn trimming() -> Self {
        let small = Self::small();
        Self { options: Options { discard: false, ..small.options }, trims: true, ..small }
    }

    /// What the volume on an image has counted since it was made: (name, count).
    ///
    /// # Errors
    /// Why it does not mount, in words.
    pub fn counters(&self, image: SparseImage) -> Result<Vec<(&'static str, u64)>, String> {
        let device = Arc::new(MemDevice::from_image(image));
        let open = self.open(device, Options { read_only: true, ..self.options })?;
        Ok(open.volume.into_vfs().store().counters().list())
    }

    fn open(&self, device: Arc<dyn Device>, options: Options) -> Result<OpenVolume, String> {
        let clock = Arc::new(VirtualClock::at(START_NS));
        let shared: Arc<dyn Clock> = clock.clone();
        let volume = firnfs_manage::open(device, options, AtimeMode::Noatime, shared);
        let open = OpenVolume {
            volume: volume.map_err(|e| e.to_string())?,
            clock,
            trims: self.trims,
            nameless: Vec::new(),
            unnamed: VecDeque::new(),
        };
        open.takes_nothing_for_damage(options.read_only)?;
        Ok(open)
    }
}

fn trim(volume: &Volume<Lfs>) -> Result<(), FsError> {
    let mut part = Some(0);
    while let Some(from) = part {
        part = volume.trim(from)?.next;
    }
    Ok(())
}

impl Subject for Firn {
    fn format(&self) -> SparseImage {
        let device = MemDevice::new(self.mkfs.size_bytes);
        firnfs_manage::format_with_logs(&device, &self.mkfs, self.data_logs)
            .expect("the parameters of the subject make a volume");
        device.image()
    }

    fn mount<'a>(&'a self, device: Arc<dyn Device>) -> Result<Box<dyn Mounted + 'a>, String> {
        Ok(Box::new(self.open(device, self.options)?))
    }

    fn replicated(&self) -> Vec<Range<u64>> {
        let slots = CHECKPOINT_SLOTS_AT.map(|at| at..at + u64::from(CHECKPOINT_SLOT_BYTES));
        let superblocks = Superblock::places(self.mkfs.size_bytes);
        let superblocks = superblocks.into_iter().map(|at| at..at + SUPERBLOCK_BYTES as u64);
        slots.into_iter().chain(superblocks).collect()
    }

    fn check(&self, device: Arc<dyn Device>) -> Result<(), String> {
        // A read-only mount recovers in memory and must see a whole tree as well.
        self.open(device.clone(), Options { read_only: true, ..self.options })?.tree()?;
        check_is_clean(&*device)
    }

    fn damage(&self, image: &mut SparseImage, seed: u64) -> Result<String, String> {
        damage::damage(self, image, seed)
    }

    fn repair(&self, device: Arc<dyn Device>) -> Result<(), String> {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::at(START_NS));
        firnfs_manage::repair(&device, &clock, &mut |_| true, &mut |_| {})
            .map(drop)
            .map_err(|e| e.to_string())
    }
}

/// Demands that the file system check finds nothing but what a crash explains. A damaged copy of the superblock is the
/// explorer's own doing (see [`Subject::replicated`]).
fn check_is_clean(device: &dyn Device) -> Result<(), String> {
    let report = check(device, From::Newest, &mut |_| {}).map_err(|e| e.to_string())?;
    let errors = report.findings.iter().filter(|finding| finding.severity() == Severity::Error);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

struct OpenVolume {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    /// See [`Firn::trims`].
    trims: bool,
    /// Files held open that have lost a name; with their content, once they have none left and were used.
    nameless: Vec<(InodeNo, Option<Vec<u8>>)>,
    /// Files held open that never had a name, the oldest first.
    unnamed: VecDeque<InodeNo>,
}

impl Mounted for OpenVolume {
    fn apply(&mut self, op: &Op) -> Result<(), Refusal> {
        self.clock.advance_ns(OP_NS);
        self.carry_out(op).map_err(|e| match e {
            FsError::NoSpace => Refusal::NoSpace,
            FsError::NotFound
            | FsError::Exists
            | FsError::NotDirectory
            | FsError::IsDirectory
            | FsError::NotEmpty
            | FsError::Invalid(_)
            | FsError::NotPermitted(_) => Refusal::Invalid(e.to_string()),
            other => Refusal::Broken(other.to_string()),
        })
    }

    fn tree(&mut self) -> Result<Tree, String> {
        let root = self.volume.run(|vfs, _| vfs.getattr(InodeNo::ROOT)).map_err(|e| format!("root: {e}"))?;
        let mut pending = vec![(String::new(), root)];
        let mut entries = Vec::new();
        while let Some((path, attr)) = pending.pop() {
            let place = |e: FsError| format!("{path:?}: {e}");
            if attr.kind == Kind::Directory {
                for (name, ino) in self.children(attr.ino).map_err(place)? {
                    let path = if path.is_empty() { name } else { format!("{path}/{name}") };
                    let child =
                        self.volume.run(|vfs, _| vfs.getattr(ino)).map_err(|e| format!("{path:?}: {e}"))?;
                    pending.push((path, child));
                }
            }
            entries.push(self.entry(path.clone(), &attr).map_err(place)?);
        }
        Ok(Tree::new(entries))
    }

    fn unmount(self: Box<Self>) -> Result<(), String> {
        self.volume.close().map_err(|e| e.to_string())
    }
}

impl OpenVolume {
    /// A crash damages nothing: the log is never called damaged, nothing is set aside, and what can be written stays so.
    fn takes_nothing_for_damage(&self, asked_read_only: bool) -> Result<(), String> {
        let told = self.volume.run(|vfs, _| {
            let store = vfs.store();
            let aside = store.quarantined().map(|(thing, why)| format!("{thing} was set aside: {why}"));
            let read_only = store.read_only().filter(|_| !asked_read_only).map(str::to_owned);
            Ok((store.recovered().lost, read_only, aside.collect::<Vec<_>>()))
        });
        match told.map_err(|e| e.to_string())? {
            (None, None, aside) if aside.is_empty() => Ok(()),
            wrong => Err(format!("taken for damage after a crash: {wrong:?}")),
        }
    }

    fn carry_out(&mut self, op: &Op) -> Result<(), FsError> {
        match op {
            Op::UnlinkOpen(path) => return self.unlink_open(path),
            Op::UseOpen { len_bytes, tag } => return self.use_open(*len_bytes, *tag),
            Op::CloseOpen => return self.close_open(),
            Op::MakeUnnamed { len_bytes, tag } => return self.make_unnamed(*len_bytes, *tag),
            Op::FsyncUnnamed => return self.fsync_unnamed(),
            Op::LinkUnnamed { to } => return self.link_unnamed(to),
            _ => {}
        }
        let volume = &self.volume;
        match op {
            Op::Create(path) => self.make(path, Kind::Regular, FILE_MODE, b""),
            Op::Mkdir(path) => self.make(path, Kind::Directory, DIRECTORY_MODE, b""),
            Op::Mkfifo(path) => self.make(path, Kind::Fifo, FILE_MODE, b""),
            Op::Symlink { target, path } => self.make(path, Kind::Symlink, 0o777, target.as_bytes()),
            Op::Link { from, to } => {
                let ino = self.find(from)?;
                let (parent, name) = self.parent(to)?;
                volume.run(|vfs, now| vfs.link(now, ino, parent, name, false)).map(drop)
            }
            Op::Unlink(path) => {
                let (parent, name) = self.parent(path)?;
                volume.run(|vfs, now| vfs.unlink(now, parent, name))
            }
            Op::Rmdir(path) => {
                let (parent, name) = self.parent(path)?;
                volume.run(|vfs, now| vfs.rmdir(now, parent, name))
            }
            Op::Rename { from, to } => self.rename(from, to, RenameMode::Replace),
            Op::Exchange { from, to } => self.rename(from, to, RenameMode::Exchange),
            Op::Write { path, at_bytes, len_bytes, tag } => {
                volume.write_all(self.find(path)?, *at_bytes, &pattern(*tag, *at_bytes, *len_bytes), false)
            }
            Op::Truncate { path, size_bytes } => {
                self.set_attr(path, SetAttr { size_bytes: Some(*size_bytes), ..SetAttr::default() })
            }
            Op::Punch { path, at_bytes, len_bytes } => self.punch(self.find(path)?, *at_bytes, *len_bytes),
            Op::Chmod { path, mode } => {
                self.set_attr(path, SetAttr { mode: Some(*mode), ..SetAttr::default() })
            }
            Op::SetXattr { path, name, len_bytes, tag } => {
                let ino = self.find(path)?;
                let (name, value) = (format!("user.{name}"), pattern(*tag, 0, *len_bytes));
                volume.run(|vfs, now| vfs.setxattr(now, ino, name.as_bytes(), &value, XattrMode::Any))
            }
            Op::Fsync(path) => volume.sync(Scope::File(self.find(path)?)),
            Op::Sync => volume.sync(Scope::All),
            Op::Idle { ms } => {
                self.clock.advance_ms(*ms as i64);
                volume.background()?;
                if self.trims { trim(volume) } else { Ok(()) }
            }
            Op::UnlinkOpen(_)
            | Op::UseOpen { .. }
            | Op::CloseOpen
            | Op::MakeUnnamed { .. }
            | Op::FsyncUnnamed
            | Op::LinkUnnamed { .. } => unreachable!("done above"),
            Op::Remount => Err(FsError::Invalid("a mounted volume does not mount itself")),
        }
    }

    fn find(&self, path: &str) -> Result<InodeNo, FsError> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.into_iter().try_fold(InodeNo::ROOT, |dir, part| {
            self.volume.run(|vfs, now| vfs.lookup(now, dir, part.as_bytes(), false)).map(|attr| attr.ino)
        })
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(InodeNo, &'p [u8]), FsError> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.find(parent)?, name.as_bytes()))
    }

    fn make(&self, path: &str, kind: Kind, mode: u16, target: &[u8]) -> Result<(), FsError> {
        let (parent, name) = self.parent(path)?;
        let node = NewNode { kind, mode, rdev: 0, target };
        self.volume.run(|vfs, now| vfs.make(now, CALLER, parent, name, node, false)).map(drop)
    }

    fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<(), FsError> {
        let (from, to) = (self.parent(from)?, self.parent(to)?);
        self.volume.run(|vfs, now| vfs.rename(now, from, to, mode))
    }

    fn set_attr(&self, path: &str, set: SetAttr) -> Result<(), FsError> {
        let ino = self.find(path)?;
        self.volume.run(|vfs, now| vfs.setattr(now, ino, set)).map(drop)
    }

    fn punch(&self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Result<(), FsError> {
        let (mut at, end) = (at_bytes, at_bytes + len_bytes);
        let mode = Allocate::PunchHole;
        while let Some(rest) =
            self.volume.run(|vfs, now| vfs.fallocate(now, ino, mode, at, end - at, false))?
        {
            at = rest;
        }
        Ok(())
    }

    /// All names in a directory: a call ends early where blocks must be read first, so the end is where one finds nothing.
    fn children(&self, ino: InodeNo) -> Result<Vec<(String, InodeNo)>, FsError> {
        let mut children = Vec::new();
        let mut cookie = 0;
        loop {
            let (found, next) = self.volume.run(|vfs, now| {
                let (mut found, mut next) = (Vec::new(), cookie);
                vfs.readdir(now, ino, cookie, &mut |entry| {
                    next = entry.next;
                    found.push((String::from_utf8_lossy(entry.name).into_owned(), entry.ino));
                    true
                })?;
                Ok((found, next))
            })?;
            if found.is_empty() {
                return Ok(children);
            }
            children.extend(found.into_iter().filter(|(name, _)| name != "." && name != ".."));
            cookie = next;
        }
    }

    fn entry(&self, path: String, attr: &Attr) -> Result<Entry, FsError> {
        let (kind, content) = match attr.kind {
            Kind::Directory => (NodeKind::Directory, Vec::new()),
            Kind::Symlink => (NodeKind::Symlink, self.volume.run(|vfs, now| vfs.readlink(now, attr.ino))?),
            Kind::Fifo => (NodeKind::Fifo, Vec::new()),
            _ if attr.size_bytes > SIZE_MAX_BYTES => {
                return Err(FsError::Invalid("a size that no scenario makes"));
            }
            _ => (NodeKind::File, self.content(attr.ino)?),
        };
        let (ino, nlink, mode) = (attr.ino.0, attr.nlink, attr.mode);
        Ok(Entry { path, kind, ino, nlink, mode, content, xattrs: self.xattrs(attr.ino)? })
    }

    fn xattrs(&self, ino: InodeNo) -> Result<BTreeMap<String, Vec<u8>>, FsError> {
        let names = self.volume.run(|vfs, _| vfs.listxattr(ino))?;
        let names = names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
        let get = |name: &[u8]| {
            let value = self.volume.run(|vfs, _| vfs.getxattr(ino, name))?;
            Ok((String::from_utf8_lossy(&name[5..]).into_owned(), value))
        };
        names.map(get).collect()
    }
}
