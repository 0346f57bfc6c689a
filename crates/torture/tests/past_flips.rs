//! Any sector that only retained points hold may be flipped: the present does not notice, whoever reads a point there is told the place, and a
//! check reports it as damage of the points that lead there, no more and no less than what is held.

use firnfs::FsError;
use firnfs::check::{From, Problem};
use firnfs::lfs::{Lfs, Options};
use firnfs::vfs::AtimeMode;
use firnfs::vfs::history::{HIDDEN_DIR, HISTORY_DIR};
use firnfs_device::{Completion, Device, DeviceError, Geometry, MemDevice, Request, SparseImage, Tag};
use firnfs_format::InodeNo;
use firnfs_manage::{check, open};
use firnfs_sim::VirtualClock;
use firnfs_torture::crash::campaign::prepare;
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::shape::Shape;
use firnfs_torture::crash::{Explorer, Firn, Limits, Op, Seen, Subject};
use firnfs_torture::survey::{Answers, Bounds, survey_from};
use firnfs_volume::Volume;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECTOR_BYTES: u64 = 512;
const BOUNDS: Bounds = Bounds { inodes_max: 1000, entries_max: 1000, lookup_every: 1, blocks_max: 1000 };

/// Notes the sectors that are read.
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

/// A volume that was unmounted with points on it, some of whose blocks have moved.
fn volume_with_points() -> SparseImage {
    let small = Firn::small();
    // Ends with points: of the first seeds that do, any.
    for seed in 0..20 {
        let scenario = Scenario::Shaped { shape: Shape::Points, seed };
        let firn = small.as_made(scenario.made()).unwrap();
        let seen = Seen::new();
        let run = prepare(&Explorer::new(&firn, Limits::default(), &seen), &firn, &scenario).unwrap();
        if run.record.world().points().len() < 2 {
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

fn look(device: Arc<dyn Device>) -> Volume<Lfs> {
    let options = Options { read_only: true, ..Options::default() };
    open(device, options, AtimeMode::Noatime, Arc::new(VirtualClock::at(1 << 60))).unwrap()
}

type Trees = BTreeMap<String, BTreeMap<InodeNo, Answers>>;

/// What each point shows, and before all of them the present, as "".
fn trees(volume: &Volume<Lfs>, mut each: impl FnMut(&str)) -> Trees {
    let states = volume.run(|vfs, _| Ok(vfs.store().points().to_vec())).unwrap();
    let mut trees = Trees::new();
    trees.insert(String::new(), survey_from(volume, InodeNo::ROOT, BOUNDS).inodes);
    each("");
    for point in states {
        let path = [HIDDEN_DIR, HISTORY_DIR, point.name.as_bytes()];
        let root = path.into_iter().try_fold(InodeNo::ROOT, |dir, name| {
            volume.run(|vfs, now| vfs.lookup(now, dir, name, false)).map(|attr| attr.ino)
        });
        let found = root.map_or_else(|_| BTreeMap::new(), |root| survey_from(volume, root, BOUNDS).inodes);
        each(&point.name);
        trees.insert(point.name, found);
    }
    trees
}

fn errors(tree: &BTreeMap<InodeNo, Answers>) -> impl Iterator<Item = &FsError> {
    tree.values().flat_map(|answers| answers.values()).filter_map(|answer| answer.as_ref().err())
}

#[test]
fn every_sector_that_only_points_hold_may_be_flipped_and_only_points_suffer() {
    let image = volume_with_points();
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
    let of_points: Vec<u64> = device.read.lock().difference(&of_present).copied().collect();
    let (mut held, mut remnants) = (0, 0);
    for sector in of_points {
        let mut flipped = image.clone();
        let mut bytes = vec![0; SECTOR_BYTES as usize];
        flipped.read(sector * SECTOR_BYTES, &mut bytes);
        bytes[(sector * 37 % SECTOR_BYTES) as usize] ^= 1 << (sector % 8);
        flipped.write(sector * SECTOR_BYTES, &bytes);
        match flip_is_told(&flipped, &whole, sector) {
            Told::Points => held += 1,
            Told::Remnants => remnants += 1,
            Told::Nothing => {}
        }
    }
    println!("{held} sectors held for {} points, {remnants} of remnants", whole.len() - 1);
    assert!(held > 100 && remnants > 0, "{held} sectors are held, {remnants} are of remnants");
    assert_eq!(held * SECTOR_BYTES, held_bytes, "every sector that is held, and no other");
}

/// What a check tells of a flip.
enum Told {
    Points,
    Remnants,
    /// It is read beside others and holds nothing.
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
    // The accounts still have a point that is given up.
    let is_expected = |problem: &Problem| {
        let is_account =
            matches!(problem, Problem::Usage { .. } | Problem::LiveBytes(_) | Problem::LiveKind { .. });
        is_account || matches!(problem, Problem::Point { .. })
    };
    for finding in &report.findings {
        assert!(is_expected(&finding.problem) || is_of_remnants(finding.ino), "sector {sector}: {finding}");
    }
    if report.findings.is_empty() {
        assert!(!is_noticed, "sector {sector} is noticed by readers alone");
        return Told::Nothing;
    }
    if report.findings.iter().any(|finding| is_of_remnants(finding.ino)) {
        Told::Remnants
    } else {
        Told::Points
    }
}
