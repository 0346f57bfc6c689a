//! Flips a bit in each sector that only retained points and clones hold. The present does not change. A reader of a point or clone gets an
//! error that names the place. A check reports damage of the points and clones that lead there, for exactly the sectors that points hold.

use firnfs::FsError;
use firnfs::check::{Finding, From, Problem};
use firnfs::lfs::view::TableKind;
use firnfs::lfs::{Lfs, Options};
use firnfs::states::branch_of;
use firnfs::store::Store;
use firnfs::vfs::AtimeMode;
use firnfs::vfs::history::{CLONES_DIR, HIDDEN_DIR, HISTORY_DIR};
use firnfs_device::{Completion, Device, DeviceError, Geometry, MemDevice, Request, SparseImage, Tag};
use firnfs_format::InodeNo;
use firnfs_manage::{check, open};
use firnfs_sim::VirtualClock;
use firnfs_torture::crash::op::CLONES;
use firnfs_torture::crash::runner::run;
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::shape::Shape;
use firnfs_torture::crash::{Firn, Op, Subject, World};
use firnfs_torture::survey::{Answers, Bounds, survey_from};
use firnfs_volume::Volume;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECTOR_BYTES: u64 = 512;
const BOUNDS: Bounds = Bounds { inodes_max: 1000, entries_max: 1000, lookup_every: 1, blocks_max: 1000 };

/// Records the sectors that are read.
struct Noting {
    inner: MemDevice,
    read: Mutex<BTreeSet<u64>>,
}

impl Device for Noting {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        if let Request::Read { at_bytes, len_bytes } = &request {
            self.note(*at_bytes, u64::from(*len_bytes));
        }
        self.inner.submit(request)
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn read_into(&self, at_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.note(at_bytes, out.len() as u64);
        self.inner.read_into(at_bytes, out)
    }
}

impl Noting {
    fn note(&self, at_bytes: u64, len_bytes: u64) {
        self.read.lock().extend((at_bytes / SECTOR_BYTES)..(at_bytes + len_bytes).div_ceil(SECTOR_BYTES));
    }
}

/// An unmounted volume with points, some of whose blocks have moved, and with clones if wanted.
fn volume_with_points(has_clones: bool) -> SparseImage {
    let small = Firn::small();
    // Takes the first seed whose history ends with points.
    for seed in 0..20 {
        let scenario = Scenario::Shaped { shape: Shape::Points, seed };
        let firn = small.as_made(scenario.made()).unwrap();
        let mut ops = scenario.ops(&World::new());
        if !has_clones {
            // If clones existed when a point was made, it holds the parts of the inode map that they had.
            ops.retain(|op| !is_of_clones(op));
        }
        let run = run(&firn, firn.format(), World::new(), &ops).unwrap();
        let world = run.record.world();
        if world.points().len() < 2 || (world.clones().count() > 0) != has_clones {
            continue;
        }
        let end = format!("{}:", run.history.events().len()).parse().unwrap();
        let device = Arc::new(MemDevice::from_image(run.history.image(&end).unwrap()));
        let mut mounted = firn.mount(device.clone()).unwrap();
        mounted.apply(&Op::Idle { ms: 60_000 }).unwrap();
        mounted.unmount().unwrap();
        return device.image();
    }
    panic!("no history ends with points");
}

fn is_of_clones(op: &Op) -> bool {
    matches!(op, Op::MakeClone { .. } | Op::DropClone(_)) || op.to_string().contains(CLONES)
}

fn look(device: Arc<dyn Device>) -> Volume<Lfs> {
    let options = Options { read_only: true, ..Options::default() };
    open(device, options, AtimeMode::Noatime, Arc::new(VirtualClock::at(1 << 60))).unwrap()
}

type Trees = BTreeMap<String, BTreeMap<InodeNo, Answers>>;

/// What the present (as "", first), each point and each clone shows.
fn trees(volume: &Volume<Lfs>, mut each: impl FnMut(&str)) -> Trees {
    let points = volume.run(|vfs, _| Ok(Vec::from(vfs.store_mut().points()?.clone()))).unwrap();
    let clones = volume.run(|vfs, _| Ok(vfs.store().branches().unwrap_or_default())).unwrap();
    let mut trees = Trees::new();
    trees.insert(String::new(), survey_from(volume, InodeNo::ROOT, BOUNDS).inodes);
    each("");
    let points = points.into_iter().map(|point| (HISTORY_DIR, point.name));
    let clones = clones.into_iter().map(|clone| (CLONES_DIR, clone.name));
    for (dir, name) in points.chain(clones) {
        let path = [HIDDEN_DIR, dir, name.as_bytes()];
        let root = path.into_iter().try_fold(InodeNo::ROOT, |dir, name| {
            volume.run(|vfs, now| vfs.lookup(now, dir, name, false)).map(|attr| attr.ino)
        });
        let found = root.map_or_else(|_| BTreeMap::new(), |root| survey_from(volume, root, BOUNDS).inodes);
        let name = format!("{}/{name}", String::from_utf8_lossy(dir));
        each(&name);
        trees.insert(name, found);
    }
    trees
}

fn errors(tree: &BTreeMap<InodeNo, Answers>) -> impl Iterator<Item = &FsError> {
    tree.values().flat_map(|answers| answers.values()).filter_map(|answer| answer.as_ref().err())
}

#[test]
fn every_sector_that_only_points_hold_may_be_flipped_and_only_points_suffer() {
    let (told, held_bytes) = flip_each(&volume_with_points(false), 1);
    assert!(told[&Told::Points] > 100 && told[&Told::Remnants] > 0, "{told:?}");
    assert!(!told.contains_key(&Told::Clones), "{told:?}");
    assert_eq!(told[&Told::Points] * SECTOR_BYTES, held_bytes, "every sector that is held, and no other");
}

#[test]
fn every_third_sector_that_only_points_and_clones_hold_may_be_flipped_and_only_they_suffer() {
    let (told, held_bytes) = flip_each(&volume_with_points(true), 3);
    assert!(told[&Told::Points] > 100 && told[&Told::Clones] > 30, "{told:?}");
    assert!(told[&Told::Points] * SECTOR_BYTES <= held_bytes, "no sector that is not held");
}

/// Flips a bit in one of `every` sectors that are read only for points and clones. Returns how often a check reported each kind of damage,
/// and the bytes that points hold.
fn flip_each(image: &SparseImage, every: usize) -> (BTreeMap<Told, u64>, u64) {
    let device = Arc::new(Noting { inner: MemDevice::from_image(image.clone()), read: Mutex::default() });
    let volume = look(device.clone());
    volume.limit_read_ahead(0);
    let mut of_present = BTreeSet::new();
    let whole = trees(&volume, |name| {
        if name.is_empty() {
            of_present = std::mem::take(&mut *device.read.lock());
        }
    });
    assert!(whole.len() > 2 && whole.values().all(|tree| errors(tree).count() == 0));
    let held_bytes = volume.run(|vfs, _| Ok(vfs.store().past_bytes())).unwrap();
    let of_past: Vec<u64> = device.read.lock().difference(&of_present).copied().collect();
    let mut told = BTreeMap::new();
    for sector in of_past.into_iter().step_by(every) {
        let mut flipped = image.clone();
        let mut bytes = vec![0; SECTOR_BYTES as usize];
        flipped.read(sector * SECTOR_BYTES, &mut bytes);
        bytes[(sector * 37 % SECTOR_BYTES) as usize] ^= 1 << (sector % 8);
        flipped.write(sector * SECTOR_BYTES, &bytes);
        *told.entry(flip_is_told(&flipped, &whole, sector)).or_default() += 1;
    }
    println!("{} points and clones: {told:?}", whole.len() - 1);
    (told, held_bytes)
}

/// What a check reports of a flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Points,
    Remnants,
    /// A live block of a clone.
    Clones,
    /// The sector was read together with others and holds nothing.
    Nothing,
}

fn flip_is_told(flipped: &SparseImage, whole: &Trees, sector: u64) -> Told {
    let device = Arc::new(MemDevice::from_image(flipped.clone()));
    let volume = look(device.clone());
    volume.limit_read_ahead(0);
    let found = trees(&volume, |_| {});
    assert!(found[""] == whole[""], "sector {sector}: the present is what it was");
    let mut is_noticed = false;
    for (name, tree) in &found {
        for error in errors(tree) {
            is_noticed = true;
            let FsError::Corrupt { at, .. } = error else { panic!("sector {sector}, {name:?}: {error}") };
            assert!(at.contains("segment"), "sector {sector}, {name:?}: {error}");
        }
        for (ino, answers) in tree {
            for (aspect, answer) in answers.iter().filter(|(_, answer)| answer.is_ok()) {
                let right = whole[name].get(ino).and_then(|right| right.get(aspect));
                assert!(
                    right.is_none_or(|right| right == answer),
                    "sector {sector}: {aspect:?} of {name:?} {ino}"
                );
            }
        }
    }
    let report = check(&*device, From::Newest, &mut |_| {}).unwrap();
    let is_of_remnants = |ino: Option<InodeNo>| ino == Some(InodeNo::REMNANTS);
    let is_of_clone = |finding: &Finding| match finding.problem {
        // The present does not read this block of the inode map.
        Problem::Clone { .. } | Problem::TableBlock { table: TableKind::InodeMap, .. } => true,
        _ => finding.ino.is_some_and(|ino| branch_of(ino) != 0),
    };
    let is_of_point = |finding: &Finding| matches!(finding.problem, Problem::Point { .. });
    // The accounts still count a point that the check has given up.
    let is_account = |finding: &Finding| {
        matches!(finding.problem, Problem::Usage { .. } | Problem::LiveBytes(_) | Problem::LiveKind { .. })
    };
    for finding in &report.findings {
        let is_of_past = is_of_point(finding) || is_of_clone(finding) || is_of_remnants(finding.ino);
        assert!(is_of_past || is_account(finding), "sector {sector}: {finding}");
    }
    if report.findings.is_empty() {
        assert!(!is_noticed, "sector {sector} is noticed by readers alone");
        return Told::Nothing;
    }
    if report.findings.iter().any(|finding| is_of_remnants(finding.ino)) {
        Told::Remnants
    } else if report.findings.iter().any(is_of_point) {
        Told::Points
    } else {
        Told::Clones
    }
}
