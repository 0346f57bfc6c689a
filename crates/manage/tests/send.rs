//! Sending and receiving: after each stream the replica is what the source was, inode numbers and times included; a stream that is cut,
//! damaged or meant for another state changes nothing; a stream that is continued is the same as one that was not cut.

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
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: usize = 4096;
const INLINE_MAX: u64 = 512;
const SIZE_BYTES: u64 = 64 << 20;
const GROWTH_BYTES: u64 = 16 << 20;

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

/// Does something that may be refused.
fn try_it(volume: &Volume<Lfs>, op: &mut dyn FnMut(&mut Vfs<Lfs>) -> Outcome<()>) {
    match volume.run(|vfs, _| op(vfs)) {
        Ok(())
        | Err(
            FsError::Exists
            | FsError::NotEmpty
            | FsError::Invalid(_)
            | FsError::IsDirectory
            | FsError::NotDirectory
            | FsError::NotPermitted(_)
            | FsError::NoAttribute
            | FsError::NotFound,
        ) => {}
        Err(error) => panic!("{error}"),
    }
}

/// A name: its directory, itself, and what it leads to.
type Name = (InodeNo, Vec<u8>, InodeNo, Kind);

/// Changes a volume at random, and makes points of it.
struct Source {
    volume: Volume<Lfs>,
    rng: Pcg64,
    time_ns: i64,
    points: Vec<(Epoch, Tree)>,
}

const ROOT: Caller = Caller { uid: 0, gid: 0, umask: 0o22 };

impl Source {
    fn new(seed: u64) -> Self {
        // With room to grow.
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES + GROWTH_BYTES));
        format(&*device, &options(1)).unwrap();
        let volume = mount(&device);
        Self {
            volume,
            rng: Pcg64::seed_from_u64(seed),
            time_ns: 1_600_000_000_000_000_000,
            points: Vec::new(),
        }
    }

    fn bytes(&mut self, max: usize) -> Vec<u8> {
        let len = self.rng.random_range(0..=max);
        let mut bytes = vec![0; len];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    fn name(&mut self) -> Vec<u8> {
        format!("n{}", self.rng.random_range(0..12)).into_bytes()
    }

    /// All directories, and all names.
    fn places(&self) -> (Vec<InodeNo>, Vec<Name>) {
        let (mut dirs, mut names, mut at) = (vec![InodeNo::ROOT], Vec::new(), 0);
        while at < dirs.len() {
            for (name, ino, kind) in children(&self.volume, dirs[at]) {
                if kind == Kind::Directory {
                    dirs.push(ino);
                }
                names.push((dirs[at], name, ino, kind));
            }
            at += 1;
        }
        (dirs, names)
    }

    /// One change. Some are refused.
    fn change(&mut self) {
        self.time_ns += 1_234_567;
        let now = TimeNs(self.time_ns);
        let (dirs, names) = self.places();
        let dir = dirs[self.rng.random_range(0..dirs.len())];
        let name = self.name();
        let what = self.rng.random_range(0..100);
        if what < 22 || names.is_empty() {
            let kind =
                [Kind::Regular, Kind::Regular, Kind::Directory, Kind::Symlink, Kind::Fifo, Kind::CharDevice]
                    [self.rng.random_range(0..6)];
            let target: &[u8] = if kind == Kind::Symlink { b"where/it/leads" } else { b"" };
            let rdev = if kind == Kind::CharDevice { 7 << 32 | 5 } else { 0 };
            let node = NewNode { kind, mode: 0o644, rdev, target };
            let made = self.volume.run(|vfs, _| vfs.make(now, ROOT, dir, &name, node, false));
            if let (Ok(attr), Kind::Regular) = (made, kind) {
                let bytes = self.bytes([400, 3 * BLOCK, 40 * BLOCK][what as usize % 3]);
                self.volume.write_all(attr.ino, 0, &bytes, false).unwrap();
            }
            return;
        }
        let (parent, old, ino, kind) = names[self.rng.random_range(0..names.len())].clone();
        let at = self.rng.random_range(0..60 * BLOCK as u64);
        let len = self.rng.random_range(1..20 * BLOCK as u64);
        let bytes = self.bytes(10 * BLOCK);
        let value = self.bytes(if what == 86 { 5000 } else { 60 });
        let (other, second, ..) = names[self.rng.random_range(0..names.len())].clone();
        let set = SetAttr {
            mode: Some(self.rng.random_range(0..0o10000)),
            uid: Some(self.rng.random_range(0..4)),
            gid: Some(self.rng.random_range(0..4)),
            mtime: Some(SetTime::At(TimeNs(self.time_ns / 2))),
            ..SetAttr::default()
        };
        let run = |op: &mut dyn FnMut(&mut Vfs<Lfs>) -> Outcome<()>| try_it(&self.volume, op);
        match what {
            22..42 if kind == Kind::Regular => {
                self.volume.write_all(ino, at, &bytes, false).unwrap();
            }
            42..47 => run(&mut |vfs| {
                vfs.setattr(now, ino, SetAttr { size_bytes: Some(at), ..SetAttr::default() }).map(drop)
            }),
            47..50 => run(&mut |vfs| vfs.fallocate(now, ino, Allocate::PunchHole, at, len, false).map(drop)),
            50..53 => run(&mut |vfs| vfs.fallocate(now, ino, Allocate::KeepSize, at, len, false).map(drop)),
            53..65 => run(&mut |vfs| vfs.rename(now, (parent, &old), (dir, &name), RenameMode::Replace)),
            65..68 => run(&mut |vfs| vfs.rename(now, (parent, &old), (other, &second), RenameMode::Exchange)),
            68..74 => run(&mut |vfs| vfs.link(now, ino, dir, &name, false).map(drop)),
            74..86 if kind == Kind::Directory => run(&mut |vfs| vfs.rmdir(now, parent, &old)),
            74..86 => run(&mut |vfs| vfs.unlink(now, parent, &old)),
            86..91 => run(&mut |vfs| vfs.setxattr(now, ino, b"user.x", &value, XattrMode::Any)),
            91..93 => run(&mut |vfs| vfs.removexattr(now, ino, b"user.x")),
            _ => run(&mut |vfs| vfs.setattr(now, ino, set).map(drop)),
        }
    }

    fn point(&mut self) -> Epoch {
        let point = self.volume.make_point(&format!("p{}", self.points.len())).unwrap();
        self.points.push((point.epoch, tree(&self.volume)));
        point.epoch
    }

    fn stream(&self, from: Option<usize>, to: usize, skip_bytes: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let from = from.map(|at| self.points[at].0);
        let sent =
            send(&self.volume, from, self.points[to].0, skip_bytes, &mut bytes, &mut |_| true).unwrap();
        assert_eq!(sent.bytes, bytes.len() as u64 + skip_bytes);
        bytes
    }
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

/// A send between two states of a volume that was unmounted, and the bytes that it reads. The mount that sends has read nothing before,
/// and reads no more ahead than `ahead_max_bytes`: windows around metadata (a quarter of a MiB each) would be most of what is read in small tests.
fn send_counted(image: SparseImage, first: Epoch, second: Epoch, ahead_max_bytes: u32) -> (Sent, u64) {
    let counted = Arc::new(CountingDevice::new(MemDevice::from_image(image)));
    let counting: Arc<dyn Device> = counted.clone();
    let volume = mount(&counting);
    volume.limit_read_ahead(ahead_max_bytes);
    let before_bytes = counted.counts().read_bytes;
    let sent = send(&volume, Some(first), second, 0, &mut std::io::sink(), &mut |_| true).unwrap();
    (sent, counted.counts().read_bytes - before_bytes)
}

/// One file of a hundred is written anew.
#[test]
fn a_send_reads_little_more_than_what_has_changed() {
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let device: Arc<dyn Device> = memory.clone();
    format(&*device, &options(1)).unwrap();
    let volume = mount(&device);
    let make = |number: usize| make_file(&volume, InodeNo::ROOT, format!("file {number}").as_bytes());
    let files: Vec<InodeNo> = (0..200).map(make).collect();
    let mut rng = Pcg64::seed_from_u64(3);
    let mut bytes = vec![0; 200_000];
    for file in &files {
        rng.fill_bytes(&mut bytes);
        volume.write_all(*file, 0, &bytes, false).unwrap();
    }
    let first = volume.make_point("first").unwrap().epoch;
    for file in [files[33], files[150]] {
        rng.fill_bytes(&mut bytes);
        volume.write_all(file, 0, &bytes, false).unwrap();
    }
    let second = volume.make_point("second").unwrap().epoch;
    volume.close().unwrap();
    let (sent, read_bytes) = send_counted(memory.image(), first, second, 0);
    assert_eq!(sent.content_bytes, 400_000);
    assert!(read_bytes * 10 <= sent.content_bytes * 12, "{read_bytes} bytes read");
}

/// A source with these changes between two states, and a replica that receives both.
fn assert_change_is_sent(first: impl Fn(&Volume<Lfs>), second: impl Fn(&Volume<Lfs>)) {
    let (mut source, replica) = (Source::new(0), new_device(2));
    first(&source.volume);
    source.point();
    second(&source.volume);
    source.point();
    receive_into(&replica, &source.stream(None, 0, 0), "p0").unwrap();
    assert_is(&replica, &source.points[0].1);
    receive_into(&replica, &source.stream(Some(0), 1, 0), "p1").unwrap();
    assert_is(&replica, &source.points[1].1);
}

fn make_file(volume: &Volume<Lfs>, dir: InodeNo, name: &[u8]) -> InodeNo {
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: &[] };
    volume.run(|vfs, now| vfs.make(now, ROOT, dir, name, node, false)).unwrap().ino
}

fn punch(volume: &Volume<Lfs>, file: InodeNo, at: usize, blocks: usize) {
    let (at, len) = ((at * BLOCK) as u64, (blocks * BLOCK) as u64);
    volume.run(|vfs, now| vfs.fallocate(now, file, Allocate::PunchHole, at, len, false)).unwrap();
}

fn only_file(volume: &Volume<Lfs>) -> InodeNo {
    children(volume, InodeNo::ROOT)[0].1
}

#[test]
fn a_hole_is_sent_where_the_older_record_had_content() {
    let small = |volume: &Volume<Lfs>| {
        volume.write_all(make_file(volume, InodeNo::ROOT, b"f"), 0, &[7; 100], false).unwrap();
    };
    let punched = |volume: &Volume<Lfs>| {
        let file = only_file(volume);
        volume.write_all(file, 5 * BLOCK as u64, &[8; BLOCK], false).unwrap();
        punch(volume, file, 0, 2);
    };
    assert_change_is_sent(small, punched);
}

#[test]
fn a_hole_is_sent_where_the_older_state_had_content_although_the_rest_is_new() {
    let whole = |volume: &Volume<Lfs>| {
        volume.write_all(make_file(volume, InodeNo::ROOT, b"f"), 0, &[7; 40 * BLOCK], false).unwrap();
    };
    for hole in [0, 3, 30, 39] {
        let punched = |volume: &Volume<Lfs>| {
            let file = only_file(volume);
            volume.write_all(file, 0, &[8; 40 * BLOCK], false).unwrap();
            punch(volume, file, hole, 1);
        };
        assert_change_is_sent(whole, punched);
    }
}

#[test]
fn attributes_that_a_changed_file_has_lost_are_lost_in_the_replica() {
    for value in [&[1; 20][..], &[1; 3000]] {
        let set = |volume: &Volume<Lfs>, file, name: &[u8], value: &[u8]| {
            volume.run(|vfs, now| vfs.setxattr(now, file, name, value, XattrMode::Any)).unwrap();
        };
        let with_attributes = |volume: &Volume<Lfs>| {
            let file = make_file(volume, InodeNo::ROOT, b"f");
            volume.write_all(file, 0, &[7; 3 * BLOCK], false).unwrap();
            for name in [&b"user.goes"[..], b"user.stays", b"user.changes"] {
                set(volume, file, name, value);
            }
        };
        let changed = |volume: &Volume<Lfs>| {
            let file = only_file(volume);
            volume.write_all(file, 0, &[8; 3 * BLOCK], false).unwrap();
            volume.run(|vfs, now| vfs.removexattr(now, file, b"user.goes")).unwrap();
            set(volume, file, b"user.changes", b"2");
        };
        assert_change_is_sent(with_attributes, changed);
    }
}

/// The older state knows the number, but nothing there has a name.
#[test]
fn a_file_that_gets_its_first_name_between_the_states_is_made_in_the_replica() {
    let nameless = Cell::new(InodeNo::ROOT);
    let without_name = |volume: &Volume<Lfs>| {
        let made = volume.run(|vfs, now| vfs.make_unnamed(now, ROOT, InodeNo::ROOT, 0o644));
        nameless.set(made.unwrap().ino);
        volume.write_all(nameless.get(), 0, &[7; 3 * BLOCK], false).unwrap();
    };
    let linked = |volume: &Volume<Lfs>| {
        volume.run(|vfs, now| vfs.link(now, nameless.get(), InodeNo::ROOT, b"f", false)).unwrap();
    };
    assert_change_is_sent(without_name, linked);
}

/// The older state has another file under the number, with the same name and size. It was made at another time.
#[test]
fn a_file_that_got_the_number_of_a_deleted_one_is_another_file_in_the_replica() {
    let file = |volume: &Volume<Lfs>, time: i64| {
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: &[] };
        let make = |vfs: &mut Vfs<Lfs>, _| vfs.make(TimeNs(time), ROOT, InodeNo::ROOT, b"f", node, false);
        let made = volume.run(make).unwrap().ino;
        volume.write_all(made, 0, &[time as u8; 3 * BLOCK], false).unwrap();
        made
    };
    let first = Cell::new(InodeNo::ROOT);
    let made = |volume: &Volume<Lfs>| first.set(file(volume, 7));
    let made_anew = |volume: &Volume<Lfs>| {
        volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, b"f")).unwrap();
        volume.sync(Scope::All).unwrap();
        assert_eq!(file(volume, 8), first.get(), "the number is used again");
    };
    assert_change_is_sent(made, made_anew);
}

/// One file in each directory is emptied and written anew, as a shell does it: each needs a block of both inode maps, both records and its
/// content.
#[test]
fn a_send_of_files_that_were_written_anew_reads_little_more_than_they_have() {
    // Without look-ahead.
    let (changed_bytes, read_bytes) = send_of_files_written_anew(4, 64 << 10, 0);
    assert!(read_bytes * 100 <= changed_bytes * 116, "{read_bytes} bytes read");
    // With it, as a mount sends. What it reads around the first metadata does not grow with the changes.
    let (changed_bytes, read_bytes) = send_of_files_written_anew(80, 0, u32::MAX);
    assert!(read_bytes * 10 <= changed_bytes * 12 + (15 << 20), "{read_bytes} bytes read");
}

/// One of 130 files in each directory is written anew with 64 KiB; the others have `other_bytes`. Returns the bytes that have changed,
/// and those that a send reads.
fn send_of_files_written_anew(directories: usize, other_bytes: usize, ahead_max_bytes: u32) -> (u64, u64) {
    const CHANGED: usize = 70;
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let device: Arc<dyn Device> = memory.clone();
    format(&*device, &options(1)).unwrap();
    let volume = mount(&device);
    let mut rng = Pcg64::seed_from_u64(5);
    let mut bytes = vec![0; 64 << 10];
    let mut changed = Vec::new();
    for directory in 0..directories {
        let node = NewNode { kind: Kind::Directory, mode: 0o755, rdev: 0, target: &[] };
        let name = format!("d{directory}");
        let made = volume.run(|vfs, now| vfs.make(now, ROOT, InodeNo::ROOT, name.as_bytes(), node, false));
        let dir = made.unwrap().ino;
        for number in 0..130 {
            let file = make_file(&volume, dir, format!("f{number}").as_bytes());
            rng.fill_bytes(&mut bytes);
            let len = if number == CHANGED { bytes.len() } else { other_bytes };
            volume.write_all(file, 0, &bytes[..len], false).unwrap();
            changed.extend((number == CHANGED).then_some(file));
        }
    }
    let first = volume.make_point("first").unwrap().epoch;
    for file in changed {
        rng.fill_bytes(&mut bytes);
        let empty = SetAttr { size_bytes: Some(0), ..SetAttr::default() };
        volume.run(|vfs, now| vfs.setattr(now, file, empty)).unwrap();
        volume.write_all(file, 0, &bytes, false).unwrap();
    }
    let second = volume.make_point("second").unwrap().epoch;
    volume.close().unwrap();
    let (sent, read_bytes) = send_counted(memory.image(), first, second, ahead_max_bytes);
    assert_eq!(sent.content_bytes, directories as u64 * (64 << 10));
    println!("{read_bytes} bytes read, {} changed", sent.content_bytes);
    (sent.content_bytes, read_bytes)
}

#[test]
fn a_mount_after_a_stream_that_was_cut_reads_nothing_of_it() {
    let source = mount(&new_device(1));
    let file = make_file(&source, InodeNo::ROOT, b"large");
    let mut bytes = vec![0; 24 << 20];
    Pcg64::seed_from_u64(4).fill_bytes(&mut bytes);
    source.write_all(file, 0, &bytes, false).unwrap();
    let epoch = source.make_point("one").unwrap().epoch;
    let mut stream = Vec::new();
    send(&source, None, epoch, 0, &mut stream, &mut |_| true).unwrap();
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let replica: Arc<dyn Device> = memory.clone();
    format(&*replica, &options(2)).unwrap();
    let cut = &stream[..stream.len() - 1_000];
    assert!(matches!(receive_into(&replica, cut, "one"), Err(ReceiveError::Cut { .. })));
    let counted = Arc::new(CountingDevice::new(MemDevice::from_image(memory.image())));
    let counting: Arc<dyn Device> = counted.clone();
    mount(&counting).close().unwrap();
    let read_bytes = counted.counts().read_bytes;
    assert!(read_bytes < 4 << 20, "{read_bytes} bytes read");
    receive_into(&replica, &stream, "one").unwrap();
}
