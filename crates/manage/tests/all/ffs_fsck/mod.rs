//! The check of the Fast File System detects and repairs every kind of finding: for each there is an image, damaged so that it shows exactly
//! that; after its repair it is sound, and all other files are unchanged. A repair that is cut short anywhere is completed by the next
//! one, with the same result.

mod cases;
mod fixture;

use cases::{Case, cases};
use firnfs::check::Problem;
use firnfs::check::ffs::{FfsFinding, FfsProblem};
use firnfs::ffs::Options;
use firnfs::inode::Kind;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Device, MemDevice, SparseImage, TraceDevice};
use firnfs_format::InodeNo;
use firnfs_format::ffs::superblock::COPY_AT_BYTES;
use firnfs_manage::{VolumeKind, check_ffs, kind_of, open_ffs, repair_ffs};
use firnfs_sim::{CrashDisk, FaultyDisk};
use firnfs_torture::crash::{Explorer, Fast, Limits, Plan, Seen as SeenStates};
use fixture::{BLOCK, Fixture, Seen, Tree, check, clock, file, make, mount, pattern, walk};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Cuts judged for each repair.
const STATES: usize = 40;

/// Names the kind of a finding, and lists the kinds: a variant that is in no list does not compile.
macro_rules! kinds {
    (own: $($own:ident)*; shared: $($shared:ident = $name:literal)*; of_the_log: $($log:ident)*) => {
        const KINDS: &[&str] = &[$(stringify!($own),)* $($name,)*];

        fn kind(finding: &FfsFinding) -> &'static str {
            match &finding.problem {
                FfsProblem::Names(names) => match &names.problem {
                    $(Problem::$shared { .. } => $name,)*
                    $(Problem::$log { .. } => panic!("a finding of the log: {names:?}"),)*
                },
                $(FfsProblem::$own { .. } => stringify!($own),)*
            }
        }
    };
}

kinds! {
    own: NotUnmounted Superblock Inode Pointer Shared Unreadable Frags Unreferenced Descriptor UsedInodes FreeFrags Counts Summary;
    shared: DirectoryBlock = "DirectoryBlock" EntryName = "EntryName" EntryTwice = "EntryTwice" EntryDangling = "EntryDangling"
        EntryKind = "EntryKind" EntrySecond = "EntrySecond" DotDot = "DotDot" Counts = "DirCounts" Index = "Index"
        LostTree = "LostTree" LostFile = "LostFile" Links = "Links" Root = "Root" Attributes = "Attributes" Form = "Form";
    of_the_log: SuperblockCopy CheckpointSlot LostLog RollForward TableBlock Record Block Pointer Shared BeyondEnd Version Orphan
        Point PointRows Clone Sums Usage UsageEpoch LiveBytes LiveKind InodeCount NextIno Charge LogWay
}

fn kinds_of(findings: &[FfsFinding]) -> BTreeSet<&'static str> {
    findings.iter().map(kind).collect()
}

fn on(image: &SparseImage) -> (Arc<MemDevice>, Arc<dyn Device>) {
    let memory = Arc::new(MemDevice::from_image(image.clone()));
    (memory.clone(), memory)
}

/// Every path except the lost ones, each with everything below it, leads to the same file as before.
fn assert_kept(before: &Tree, now: &Tree, lost: &[&str], name: &str) {
    let is_lost = |path: &str| lost.iter().any(|lost| path == *lost || path.starts_with(&format!("{lost}/")));
    for (path, seen) in before.iter().filter(|(path, _)| !is_lost(path)) {
        let now = now.get(path).unwrap_or_else(|| panic!("{name}: {path:?} is gone"));
        assert_eq!((now.ino, now.kind), (seen.ino, seen.kind), "{name}: {path:?}");
        assert!(now.content == seen.content && now.xattrs == seen.xattrs, "{name}: content of {path:?}");
    }
}

fn repair(device: &Arc<dyn Device>, name: &str) {
    let repaired = repair_ffs(device, &clock(), &mut |_| true).unwrap_or_else(|e| panic!("{name}: {e}"));
    let left: Vec<String> = repaired.after.findings.iter().map(ToString::to_string).collect();
    assert!(left.is_empty(), "{name}: {left:#?}, {:#?}", repaired.failed);
}

/// The repaired volume's tree; and it can be used.
fn tree_of(device: &Arc<dyn Device>) -> Tree {
    let volume = mount(device);
    let tree = walk(&volume);
    for n in 0..20 {
        file(&volume, InodeNo::ROOT, &format!("new {n}"), &pattern(n, 20_000));
    }
    for n in 0..20 {
        let name = format!("new {n}");
        volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, name.as_bytes())).unwrap();
    }
    volume.close().unwrap();
    tree
}

/// Everything but directories, by number. Where it is may differ: a `lost+found` that was made and not named yet is a lost directory itself.
fn files(tree: &Tree) -> BTreeMap<InodeNo, &Seen> {
    tree.values().filter(|seen| seen.kind != Kind::Directory).map(|seen| (seen.ino, seen)).collect()
}

fn damaged(sound: &Fixture, case: &Case) -> Fixture {
    let mut fixture = sound.clone();
    (case.damage)(&mut fixture);
    fixture
}

#[test]
fn each_kind_of_finding_is_found_and_repaired() {
    let sound = Fixture::new();
    let mut seen = BTreeSet::from(["Unreadable"]);
    for case in &cases() {
        let fixture = damaged(&sound, case);
        let report = check(&fixture.image);
        let told: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let kinds = kinds_of(&report.findings);
        assert_eq!(kinds, case.kinds.iter().copied().collect(), "{}: {told:#?}", case.name);
        seen.extend(kinds);
        let (memory, device) = on(&fixture.image);
        repair(&device, case.name);
        assert_kept(&fixture.tree, &tree_of(&device), case.lost, case.name);
        assert_eq!(check(&memory.image()).findings, [], "{}: after use", case.name);
    }
    assert_eq!(seen, KINDS.iter().copied().collect(), "each kind has a case");
}

#[test]
fn an_indirect_block_that_cannot_be_read_is_cut() {
    let fixture = Fixture::new();
    let at = fixture.at(fixture.inode("dir/sub/large").roots[0][12]);
    let disk = FaultyDisk::new(MemDevice::from_image(fixture.image.clone()), 1);
    disk.spoil(at..at + BLOCK as u64);
    let report = check_ffs(&disk).unwrap();
    let expected = ["Unreadable", "Frags", "FreeFrags", "Counts", "Summary"];
    assert_eq!(kinds_of(&report.findings), expected.into_iter().collect());
    let device: Arc<dyn Device> = Arc::new(disk);
    repair(&device, "unreadable");
    let tree = walk(&mount(&device));
    assert_kept(&fixture.tree, &tree, &["dir/sub/large"], "unreadable");
    let (now, before) = (&tree["dir/sub/large"].content, &fixture.tree["dir/sub/large"].content);
    assert_eq!(now[..12 * BLOCK], before[..12 * BLOCK], "what the inode points at is there");
    assert!(now.len() == before.len() && now[12 * BLOCK..].iter().all(|byte| *byte == 0));
}

#[test]
fn each_repair_can_be_cut_short_anywhere() {
    let sound = Fixture::new();
    let subject = Fast::small();
    let limits = Limits {
        nested_states: STATES,
        plan: Plan { garbage: false, ..Plan::default() },
        ..Limits::default()
    };
    let mut cuts = 0;
    for case in &cases() {
        let fixture = damaged(&sound, case);
        let disk = Arc::new(CrashDisk::new(fixture.image.clone(), BLOCK as u32));
        let device: Arc<dyn Device> = disk.clone();
        repair(&device, case.name);
        let history = disk.history();
        let whole = walk(&mount(&device));
        let seen = SeenStates::new();
        for (state, _) in Explorer::new(&subject, limits, &seen).states_during(&history) {
            let name = format!("{}, cut at {state}", case.name);
            let (_, device) = on(&history.image(&state).expect("a state of this history"));
            repair(&device, &name);
            let tree = walk(&mount(&device));
            assert_kept(&fixture.tree, &tree, case.lost, &name);
            assert!(files(&tree) == files(&whole), "{name}: {:?}, not {:?}", tree.keys(), whole.keys());
            cuts += 1;
        }
    }
    assert!(cuts > 4 * cases().len(), "{cuts} cuts");
}

#[test]
fn a_check_reads_what_it_will_look_at_together() {
    let (_, device) = on(&Fixture::new().image);
    let volume = mount(&device);
    for n in 0..300 {
        make(&volume, InodeNo::ROOT, &format!("directory {n}"), Kind::Directory);
    }
    volume.close().unwrap();
    let disk = TraceDevice::new(device);
    let report = check_ffs(&disk).unwrap();
    assert_eq!((report.findings.len(), report.totals.directories), (0, 305));
    let requests = disk.take().len();
    assert!(requests < 60, "{requests} requests for 305 directories");
}

/// A destroyed first superblock: every command finds the volume, one that is opened for reading writes nothing, and one that is opened for
/// writing has its first superblock back.
#[test]
fn a_volume_is_found_by_a_copy_of_its_superblock() {
    let mut fixture = Fixture::new();
    fixture.edit(COPY_AT_BYTES, 512, |bytes| bytes.fill(0));
    let (memory, device) = on(&fixture.image);
    assert_eq!(kind_of(&*device), VolumeKind::Ffs);
    let options = Options { read_only: true, ..Options::default() };
    let reader = open_ffs(device.clone(), options, AtimeMode::Noatime, clock()).unwrap();
    assert!(walk(&reader) == fixture.tree);
    drop(reader);
    assert_eq!(kinds_of(&check(&memory.image()).findings), BTreeSet::from(["Superblock"]));
    let writer = mount(&device);
    assert!(walk(&writer) == fixture.tree);
    writer.close().unwrap();
    assert_eq!(check(&memory.image()).findings, []);
}
