//! The crash explorer explores a small correct file system and finds nothing; then the same file system with one flaw
//! at a time, and must find each.
//!
//! The file system keeps everything in memory and writes all of it, with a checksum, to two slots in turn.

use firnfs_device::{AlignedBuf, Device, MemDevice, Request, SparseImage};
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::shape::Shape;
use firnfs_torture::crash::{
    Entry, Explorer, Limits, Mounted, NodeKind, Op, Plan, Refusal, Seen, Subject, Tree, World, campaign,
};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::sync::Arc;

const SLOT_BYTES: u64 = 4 << 20;
const HEADER_BYTES: usize = 512;
const MAGIC: u64 = 0x7477_6f73_6c6f_7473;

/// The flaw of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    /// A sync does not flush.
    NoFlush,
    /// The flush is submitted before the write is complete.
    EarlyFlush,
    /// Slots are accepted without verifying their checksum.
    NoChecksum,
    /// There is only one slot.
    OneSlot,
    /// An fsync does nothing if the file is empty.
    LazyFsync,
    /// Content is saved one sync late.
    StaleData,
    /// Blocks of two files are swapped when they are saved.
    ForeignData,
    /// The last name is forgotten when there are more than five.
    LostName,
    /// Link counts are saved as one.
    LinkCounts,
    /// Mounting rewrites the slot in use, in place.
    RecoveryInPlace,
    /// The old slot is discarded before the new one is durable.
    EarlyDiscard,
    /// Sizes are saved rounded up to blocks.
    RoundedSize,
    /// After a rename, only the file's first block is saved until the next sync.
    RenameBeforeData,
    /// The same for a file that got its first name late.
    LinkBeforeData,
    /// Attributes are not saved.
    LostAttributes,
}

struct TwoSlots {
    flaw: Option<Flaw>,
}

struct Open {
    device: Arc<dyn Device>,
    flaw: Option<Flaw>,
    world: World,
    serial: u64,
    previous: Tree,
    renamed: Option<String>,
    first_named: Option<String>,
}

impl Subject for TwoSlots {
    fn format(&self) -> SparseImage {
        let device = Arc::new(MemDevice::new(2 * SLOT_BYTES));
        let world = World::new();
        let previous = world.tree();
        let mut open = Open {
            device: device.clone(),
            flaw: None,
            world,
            serial: 0,
            previous,
            renamed: None,
            first_named: None,
        };
        open.save().unwrap();
        device.image()
    }

    fn mount<'a>(&'a self, device: Arc<dyn Device>) -> Result<Box<dyn Mounted + 'a>, String> {
        let mut open = self.open(device)?;
        match self.flaw {
            Some(Flaw::RecoveryInPlace) => {
                open.serial -= 1;
                open.save()?;
            }
            _ => open.save()?,
        }
        Ok(Box::new(open))
    }

    fn look(&self, device: Arc<dyn Device>) -> Result<Tree, String> {
        self.open(device)?.tree()
    }

    fn check(&self, device: Arc<dyn Device>) -> Result<(), String> {
        newest(&*device, self.flaw).map(drop)
    }
}

impl TwoSlots {
    fn open(&self, device: Arc<dyn Device>) -> Result<Open, String> {
        let (serial, tree) = newest(&*device, self.flaw)?;
        let world = World::of_tree(&tree);
        Ok(Open { device, flaw: self.flaw, world, serial, previous: tree, renamed: None, first_named: None })
    }
}

impl Mounted for Open {
    fn apply(&mut self, op: &Op) -> Result<(), Refusal> {
        if matches!(op, Op::MakePoint(_)) {
            // There is no room for another state in the slots.
            return Err(Refusal::NoSpace);
        }
        let lazy = matches!(op, Op::Fsync(path) if self.flaw == Some(Flaw::LazyFsync) && self.is_empty(path));
        self.world.apply(op).map_err(|why| Refusal::Invalid(why.into()))?;
        match op {
            Op::Rename { to, .. } => self.renamed = Some(to.clone()),
            Op::LinkUnnamed { to } => self.first_named = Some(to.clone()),
            _ => {}
        }
        let is_due =
            op.is_sync() || matches!(op, Op::Idle { .. } | Op::Rename { .. } | Op::LinkUnnamed { .. });
        if is_due && !lazy { self.save().map_err(Refusal::Broken) } else { Ok(()) }
    }

    fn tree(&mut self) -> Result<Tree, String> {
        let mut entries = self.world.tree().entries().to_vec();
        if self.flaw == Some(Flaw::LinkCounts) {
            entries.iter_mut().filter(|e| e.kind == NodeKind::File).for_each(|e| e.nlink = 1);
        }
        Ok(Tree::new(entries))
    }

    fn unmount(mut self: Box<Self>) -> Result<(), String> {
        self.save()
    }
}

impl Open {
    fn is_empty(&self, path: &str) -> bool {
        self.world.list().iter().any(|(known, _, size)| known == path && *size == 0)
    }

    /// Writes everything to the unused slot, flushes, and only then uses that slot.
    fn save(&mut self) -> Result<(), String> {
        let tree = self.world.tree();
        let payload = encode(&self.flawed(&tree));
        self.serial += 1;
        let slot = if self.flaw == Some(Flaw::OneSlot) { 0 } else { self.serial % 2 };
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.serial.to_le_bytes());
        bytes[16..24].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes[24..32].copy_from_slice(&SipHasher13::new().hash(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes.resize(bytes.len().next_multiple_of(512), 0);

        let data = Arc::new(AlignedBuf::copy_of(&bytes));
        let write = self.device.submit(Request::Write { at_bytes: slot * SLOT_BYTES, data: data.into() });
        let early = (self.flaw == Some(Flaw::EarlyFlush)).then(|| self.device.submit(Request::Flush));
        if self.flaw == Some(Flaw::EarlyDiscard) {
            self.device.discard((1 - slot) * SLOT_BYTES, 64 << 10).map_err(|e| e.to_string())?;
        }
        self.device.wait(write).map_err(|e| e.to_string())?;
        match early {
            Some(flush) => drop(self.device.wait(flush).map_err(|e| e.to_string())?),
            None if self.flaw == Some(Flaw::NoFlush) => {}
            None => self.device.flush().map_err(|e| e.to_string())?,
        }
        self.previous = tree;
        self.renamed = None;
        self.first_named = None;
        Ok(())
    }

    fn flawed(&self, tree: &Tree) -> Tree {
        let mut entries = tree.entries().to_vec();
        let files: Vec<usize> = (0..entries.len()).filter(|i| entries[*i].content.len() > 5000).collect();
        match self.flaw {
            Some(Flaw::StaleData) => {
                for entry in entries.iter_mut().filter(|e| e.kind == NodeKind::File) {
                    let old = self.previous.entries().iter().find(|old| old.path == entry.path);
                    if let Some(old) = old.filter(|old| old.content.len() == entry.content.len()) {
                        entry.content = old.content.clone();
                    }
                }
            }
            Some(Flaw::ForeignData) if files.len() >= 2 => {
                let block = entries[files[0]].content[..4096].to_vec();
                Arc::make_mut(&mut entries[files[1]].content)[..4096].copy_from_slice(&block);
            }
            Some(Flaw::LostName) if entries.len() > 5 => drop(entries.pop()),
            Some(Flaw::RoundedSize) => {
                for entry in entries.iter_mut().filter(|e| e.kind == NodeKind::File) {
                    let len = entry.content.len().next_multiple_of(4096);
                    Arc::make_mut(&mut entry.content).resize(len, 0);
                }
            }
            Some(flaw @ (Flaw::RenameBeforeData | Flaw::LinkBeforeData)) => {
                let early = if flaw == Flaw::LinkBeforeData { &self.first_named } else { &self.renamed };
                for entry in entries.iter_mut().filter(|e| Some(&e.path) == early.as_ref()) {
                    if let Some(rest) = Arc::make_mut(&mut entry.content).get_mut(4096..) {
                        rest.fill(0);
                    }
                }
            }
            Some(Flaw::LostAttributes) => entries.iter_mut().for_each(|e| e.xattrs.clear()),
            _ => {}
        }
        Tree::new(entries)
    }
}

fn newest(device: &dyn Device, flaw: Option<Flaw>) -> Result<(u64, Tree), String> {
    let slots = if flaw == Some(Flaw::OneSlot) { 1 } else { 2 };
    let newest =
        (0..slots).filter_map(|slot| read_slot(device, slot, flaw)).max_by_key(|(serial, _)| *serial);
    newest.ok_or_else(|| "no valid slot".to_owned())
}

fn read_slot(device: &dyn Device, slot: u64, flaw: Option<Flaw>) -> Option<(u64, Tree)> {
    let header = device.read(slot * SLOT_BYTES, HEADER_BYTES as u32).ok()?;
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
    let len = word(16);
    if word(0) != MAGIC || len > SLOT_BYTES - HEADER_BYTES as u64 {
        return None;
    }
    let at_bytes = slot * SLOT_BYTES + HEADER_BYTES as u64;
    let bytes = device.read(at_bytes, len.next_multiple_of(512) as u32).ok()?;
    let payload = &bytes[..len as usize];
    let is_good = SipHasher13::new().hash(payload) == word(24) || flaw == Some(Flaw::NoChecksum);
    Some((word(8), decode(payload)?)).filter(|_| is_good)
}

fn encode(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    for entry in tree.entries() {
        put(entry.path.as_bytes());
        put(&[entry.kind as u8]);
        put(&entry.ino.to_le_bytes());
        put(&entry.nlink.to_le_bytes());
        put(&entry.mode.to_le_bytes());
        put(&entry.content);
        put(&(entry.xattrs.len() as u32).to_le_bytes());
        for (name, value) in &entry.xattrs {
            put(name.as_bytes());
            put(value);
        }
    }
    out
}

fn decode(mut bytes: &[u8]) -> Option<Tree> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let mut take = || {
            let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
            let field = bytes.get(4..4 + len)?;
            bytes = &bytes[4 + len..];
            Some(field)
        };
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).ok();
        let path = text(take()?)?;
        let kinds = [
            NodeKind::File,
            NodeKind::Directory,
            NodeKind::Symlink,
            NodeKind::Fifo,
            NodeKind::Socket,
            NodeKind::CharDevice,
            NodeKind::BlockDevice,
        ];
        let code = *take()?.first()?;
        let kind = *kinds.iter().find(|kind| **kind as u8 == code)?;
        let ino = u64::from_le_bytes(take()?.try_into().ok()?);
        let nlink = u32::from_le_bytes(take()?.try_into().ok()?);
        let mode = u16::from_le_bytes(take()?.try_into().ok()?);
        let content = Arc::new(take()?.to_vec());
        let count = u32::from_le_bytes(take()?.try_into().ok()?);
        let mut xattrs = BTreeMap::new();
        for _ in 0..count {
            xattrs.insert(text(take()?)?, take()?.to_vec());
        }
        entries.push(Entry { path, kind, ino, nlink, mode, owner: (0, 0), content, xattrs });
    }
    Some(Tree::new(entries))
}

fn limits() -> Limits {
    Limits { plan: Plan { random_mixtures: 4, ..Plan::default() }, nested_every: 15, ..Limits::default() }
}

/// Explores bounded and long scenarios; returns the first failure with the name of its scenario.
fn explore(flaw: Option<Flaw>, scenarios: &[Scenario]) -> Result<u64, (String, String)> {
    let subject = TwoSlots { flaw };
    let seen = Seen::new();
    let mut explorer = Explorer::new(&subject, limits(), &seen);
    for scenario in scenarios {
        let fail = |why: String| (scenario.to_string(), why);
        let run = campaign::prepare(&explorer, &subject, scenario).map_err(fail)?;
        if let Err(failure) = explorer.explore(&run) {
            let replayed = explorer.replay(&run, &failure.cuts()).expect_err("a failure replays");
            assert_eq!(replayed, failure.reason, "{failure}");
            return Err((scenario.to_string(), failure.to_string()));
        }
    }
    Ok(explorer.totals().distinct)
}

fn scenarios() -> Vec<Scenario> {
    let bounded = (0..Scenario::ace_count(1)).map(|number| Scenario::Ace { length: 1, number });
    let long = (0..12).map(|number| Scenario::Long { seed: number / 3, round: (number % 3) as u32 });
    let open = (0..4).map(|seed| Scenario::Shaped { shape: Shape::Open, seed });
    bounded.chain(long).chain(open).collect()
}

#[test]
fn a_correct_file_system_breaks_no_promise() {
    let states = explore(None, &scenarios()).unwrap_or_else(|failure| panic!("{failure:?}"));
    assert!(states > 5000, "only {states} states were looked at");
}

#[test]
fn every_flaw_is_found() {
    use Flaw::*;
    let flaws = [
        (NoFlush, "older than the last sync"),
        (EarlyFlush, "no valid slot"),
        (NoChecksum, ""),
        (OneSlot, "no valid slot"),
        (LazyFsync, "older than the last sync"),
        (StaleData, "is of no moment"),
        (ForeignData, "found block 0 of"),
        (LostName, "the names are those"),
        (LinkCounts, "links, its inode says 1"),
        (RecoveryInPlace, "no valid slot"),
        (EarlyDiscard, "no valid slot"),
        (RoundedSize, "the size of"),
        (RenameBeforeData, "is of no moment"),
        (LinkBeforeData, "is of no moment"),
        (LostAttributes, "the set of attributes"),
    ];
    for (flaw, expected) in flaws {
        let (scenario, failure) =
            explore(Some(flaw), &scenarios()).expect_err(&format!("{flaw:?} is not found"));
        assert!(failure.contains(expected), "{flaw:?} in {scenario}: {failure}");
    }
}
