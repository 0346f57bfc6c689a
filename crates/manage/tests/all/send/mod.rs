//! Sending and receiving: after each stream the replica is what the source was, inode numbers and times included; a stream that is cut,
//! damaged or meant for another state changes nothing; a stream that is continued is the same as one that was not cut.
//!
//! `source` is a volume that changes at random. `changes` has single changes between two states, `reads` what sending reads.

mod changes;
mod reads;
mod source;

use firnfs::check::From as CheckFrom;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::ufs::xattr;
use firnfs::vfs::{Allocate, AtimeMode, Attr, Caller, NewNode, RenameMode, SetAttr, SetTime, Vfs, XattrMode};
use firnfs::{FsError, Outcome};
use firnfs_device::{Clock, CountingDevice, Device, MemDevice, SparseImage};
use firnfs_format::{Epoch, InodeNo, TimeNs};
use firnfs_manage::{
    LogVolume, ReceiveError, Received, Sent, StreamReader, check, format, open, receive, send,
};
use firnfs_sim::{CrashDisk, VirtualClock};
use firnfs_torture::crash::{self, Explorer, Firn, Limits};
use firnfs_volume::Volume;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use source::Source;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: usize = 4096;
const INLINE_MAX: u64 = 512;
const SIZE_BYTES: u64 = 64 << 20;
const GROWTH_BYTES: u64 = 16 << 20;
const ROOT: Caller = Caller { uid: 0, gid: 0, umask: 0o22 };

fn options(uuid: u8) -> MkfsOptions {
    MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: BLOCK as u32,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: INLINE_MAX as u32,
        label: String::new(),
        uuid: [uuid; 16],
        hash_key: [u64::from(uuid), 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    }
}

fn new_device(uuid: u8) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES));
    format(&*device, &options(uuid)).unwrap();
    device
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::at(1_700_000_000_000_000_000))
}

fn mount(device: &Arc<dyn Device>) -> Volume<Lfs> {
    open(device.clone(), Options::default(), AtimeMode::Noatime, clock()).unwrap()
}

/// Everything that is visible of a file.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    attr: Attr,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Vec<u8>,
    holes: Vec<bool>,
}

type Tree = BTreeMap<Vec<u8>, Seen>;

fn look(volume: &Volume<Lfs>, ino: InodeNo) -> Seen {
    let attr = volume.run(|vfs, _| vfs.getattr(ino)).unwrap();
    let set = volume.run(|vfs, _| xattr::load(vfs.store_mut(), ino)).unwrap();
    let xattrs = xattr::entries(&set).map(|entry| entry.unwrap());
    let xattrs = xattrs.filter(|entry| entry.name != b"trusted.firn.received");
    let xattrs = xattrs.map(|entry| (entry.name.to_vec(), entry.value.to_vec())).collect();
    let mut content = match attr.kind {
        Kind::Regular => vec![0; attr.size_bytes as usize],
        Kind::Symlink => volume.run(|vfs, now| vfs.readlink(now, ino)).unwrap(),
        _ => Vec::new(),
    };
    let mut holes = Vec::new();
    // A small file may be in its inode here and in a block there.
    if attr.kind == Kind::Regular {
        assert_eq!(volume.read(ino, 0, &mut content).unwrap(), content.len());
        for at in (0..attr.size_bytes).step_by(BLOCK).filter(|_| attr.size_bytes > INLINE_MAX) {
            holes.push(volume.run(|vfs, _| vfs.holes(ino, at, 1)).unwrap().0 > at);
        }
    }
    // Numbers that only the store gives, and what it charges for directories and attributes.
    let attr = Attr { generation: 0, allocated_bytes: 0, ..attr };
    let attr = if attr.kind == Kind::Directory { Attr { size_bytes: 0, ..attr } } else { attr };
    Seen { attr, xattrs, content, holes }
}

fn children(volume: &Volume<Lfs>, dir: InodeNo) -> Vec<(Vec<u8>, InodeNo, Kind)> {
    let mut found = Vec::new();
    let mut cookie = 0;
    loop {
        let before = cookie;
        volume
            .run(|vfs, now| {
                vfs.readdir(now, dir, cookie, &mut |entry| {
                    cookie = entry.next;
                    if entry.name != b"." && entry.name != b".." {
                        found.push((entry.name.to_vec(), entry.ino, entry.kind));
                    }
                    true
                })
            })
            .unwrap();
        if cookie == before {
            return found;
        }
    }
}

fn tree(volume: &Volume<Lfs>) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![(Vec::new(), InodeNo::ROOT)];
    while let Some((path, ino)) = pending.pop() {
        let seen = look(volume, ino);
        if seen.attr.kind == Kind::Directory {
            for (name, child, _) in children(volume, ino) {
                pending.push(([&path[..], b"/", &name].concat(), child));
            }
        }
        tree.insert(path, seen);
    }
    tree
}

fn receive_into(device: &Arc<dyn Device>, bytes: &[u8], name: &str) -> Result<Received, ReceiveError> {
    let mut input = bytes;
    let mut stream = StreamReader::new(&mut input)?;
    receive(mount(device), &mut stream, name, &mut |_, _| {})
}

fn assert_is(device: &Arc<dyn Device>, expected: &Tree) {
    let volume = mount(device);
    let found = tree(&volume);
    for (path, seen) in expected {
        let path = String::from_utf8_lossy(path);
        let other = found.get(path.as_bytes()).unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!((&other.attr, &other.xattrs), (&seen.attr, &seen.xattrs), "{path}");
        assert!(other.content == seen.content, "content of {path}");
        assert_eq!(other.holes, seen.holes, "holes of {path}");
    }
    assert_eq!(found.len(), expected.len());
    volume.close().unwrap();
    let report = check(&**device, CheckFrom::Newest, &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(range) = std::env::var("FIRNFS_SEEDS") else { return 0..3 };
    let (from, to) = range.split_once("..").expect("FIRNFS_SEEDS=a..b");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn a_replica_is_what_the_source_was_at_each_state() {
    for seed in seeds() {
        let mut source = Source::new(seed);
        let replica = new_device(2);
        (0..120).for_each(|_| source.change());
        source.point();
        receive_into(&replica, &source.stream(None, 0, 0), "p0").unwrap();
        assert_is(&replica, &source.points[0].1);
        for step in 1..6 {
            (0..40).for_each(|_| source.change());
            source.point();
            let stream = source.stream(Some(step - 1), step, 0);
            receive_into(&replica, &stream, &format!("p{step}"))
                .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_is(&replica, &source.points[step].1);
        }
        // A state is sent as it was, whatever came later; and to a volume that skips the states between.
        let other = new_device(3);
        receive_into(&other, &source.stream(None, 1, 0), "p1").unwrap();
        receive_into(&other, &source.stream(Some(1), 4, 0), "p4").unwrap();
        assert_is(&other, &source.points[4].1);
    }
}

#[test]
fn a_stream_that_is_cut_or_damaged_changes_nothing() {
    let mut source = Source::new(11);
    (0..80).for_each(|_| source.change());
    source.point();
    (0..60).for_each(|_| source.change());
    source.point();
    let replica = new_device(2);
    receive_into(&replica, &source.stream(None, 0, 0), "p0").unwrap();
    let stream = source.stream(Some(0), 1, 0);
    let mut rng = Pcg64::seed_from_u64(5);
    for turn in 0..40 {
        let mut bytes = stream.clone();
        if turn % 2 == 0 {
            bytes.truncate(rng.random_range(0..bytes.len()));
            let error = receive_into(&replica, &bytes, "p1").unwrap_err();
            assert!(matches!(error, ReceiveError::Cut { .. }), "{error}");
        } else {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
            let error = receive_into(&replica, &bytes, "p1").unwrap_err();
            assert!(matches!(error, ReceiveError::Damaged { .. } | ReceiveError::Cut { .. }), "{error}");
        }
        assert_is(&replica, &source.points[0].1);
    }
    receive_into(&replica, &stream, "p1").unwrap();
    assert_is(&replica, &source.points[1].1);
}

#[test]
fn a_stream_is_continued_where_it_was_cut() {
    let mut source = Source::new(12);
    (0..100).for_each(|_| source.change());
    source.point();
    let whole = source.stream(None, 0, 0);
    // Whatever happens meanwhile.
    (0..50).for_each(|_| source.change());
    source.volume.sync(Scope::All).unwrap();
    for cut in [0, 1, 160, 170, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let rest = source.stream(None, 0, cut as u64);
        assert!([&whole[..cut], &rest[..]].concat() == whole, "cut at {cut}");
    }
    // The header has the size, which was sent before.
    source.volume.grow(SIZE_BYTES + GROWTH_BYTES).unwrap();
    let cut = whole.len() / 2;
    let rest = source.stream(None, 0, cut as u64);
    let joined = [&whole[..cut], &rest[..]].concat();
    assert!(joined == whole && source.stream(None, 0, 0) != whole, "the size is in the header alone");
    let replica = new_device(2);
    receive_into(&replica, &joined, "p0").unwrap();
    assert_is(&replica, &source.points[0].1);
}

#[test]
fn a_stream_for_another_state_is_refused() {
    let mut source = Source::new(13);
    (0..40).for_each(|_| source.change());
    source.point();
    (0..40).for_each(|_| source.change());
    source.point();
    (0..40).for_each(|_| source.change());
    source.point();
    let replica = new_device(2);
    let refused = |bytes: &[u8]| match receive_into(&replica, bytes, "next") {
        Err(ReceiveError::Unfit(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(&source.stream(Some(0), 1, 0)).contains("has not received that state"));
    receive_into(&replica, &source.stream(None, 0, 0), "p0").unwrap();
    assert!(refused(&source.stream(None, 1, 0)).contains("only an empty volume"));
    assert!(refused(&source.stream(Some(1), 2, 0)).contains("starts from the state"));
    let volume = mount(&replica);
    volume
        .run(|vfs, now| {
            let node = NewNode { kind: Kind::Directory, mode: 0o755, rdev: 0, target: &[] };
            vfs.make(now, ROOT, InodeNo::ROOT, b"of its own", node, false)
        })
        .unwrap();
    volume.close().unwrap();
    assert!(refused(&source.stream(Some(0), 1, 0)).contains("has changed since"));
}

#[test]
fn a_whole_state_is_refused_by_a_volume_whose_names_have_to_be_read_first() {
    let mut source = Source::new(13);
    (0..40).for_each(|_| source.change());
    source.point();
    let device = new_device(2);
    let volume = mount(&device);
    for n in 0..200 {
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: &[] };
        let name = format!("a name of its own {n}");
        volume.run(|vfs, now| vfs.make(now, ROOT, InodeNo::ROOT, name.as_bytes(), node, false)).unwrap();
    }
    volume.close().unwrap();
    let received = receive_into(&device, &source.stream(None, 0, 0), "p0");
    assert!(matches!(received, Err(ReceiveError::Unfit(why)) if why.contains("only an empty volume")));
}

/// Cuts that are judged.
const CUTS: usize = 120;

#[test]
fn a_power_cut_leaves_the_state_before_or_the_one_that_was_received() {
    let mut source = Source::new(14);
    (0..100).for_each(|_| source.change());
    source.point();
    (0..80).for_each(|_| source.change());
    source.point();
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let replica: Arc<dyn Device> = memory.clone();
    format(&*replica, &options(2)).unwrap();
    receive_into(&replica, &source.stream(None, 0, 0), "p0").unwrap();
    let disk = Arc::new(CrashDisk::new(memory.image(), 4096));
    let device: Arc<dyn Device> = disk.clone();
    let stream = source.stream(Some(0), 1, 0);
    receive_into(&device, &stream, "p1").unwrap();
    let history = disk.history();
    let (subject, seen) = (Firn::small(), crash::Seen::new());
    let explorer = Explorer::new(&subject, Limits { nested_states: CUTS, ..Limits::default() }, &seen);
    let states = explorer.states_during(&history);
    assert!(states.len() >= CUTS / 2, "only {} states", states.len());
    let mut outcomes = [0, 0];
    for (state, _) in states {
        let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(history.image(&state).unwrap()));
        let volume = mount(&device);
        let is_received = volume.points().unwrap().iter().any(|point| point.name == "p1");
        volume.close().unwrap();
        assert_is(&device, &source.points[usize::from(is_received)].1);
        outcomes[usize::from(is_received)] += 1;
        // What was not received can be received now.
        if !is_received {
            receive_into(&device, &stream, "p1").unwrap();
            assert_is(&device, &source.points[1].1);
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

fn make_file(volume: &Volume<Lfs>, dir: InodeNo, name: &[u8]) -> InodeNo {
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: &[] };
    volume.run(|vfs, now| vfs.make(now, ROOT, dir, name, node, false)).unwrap().ino
}
