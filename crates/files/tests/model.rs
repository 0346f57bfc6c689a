//! The model is `std::fs` on a directory of the machine: the same random operations give the same results on both, and leave the
//! same trees. It runs over every storage manager.

use firnfs::engine::Engine;
use firnfs::ffs;
use firnfs::mem::{MemOptions, MemStore};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::{Clock, Device, MemDevice, SystemClock};
use firnfs_files::{Caller, File, Fs, FsOptions, Kind, NewVolume, OpenOptions};
use firnfs_format::TimeNs;
use firnfs_volume::Volume;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OPERATIONS: usize = 5_000;
const OPEN_MAX: usize = 6;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };

/// Few names, so that operations meet.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "a name that is longer than the others"];

/// Errors of a rename, here and there, that are both right: the source is missing and the target's name too long; the target
/// is a directory above the source, which makes it one that is not empty.
const RENAME_ERRORS: [(io::ErrorKind, io::ErrorKind); 2] = [
    (io::ErrorKind::InvalidFilename, io::ErrorKind::NotFound),
    (io::ErrorKind::IsADirectory, io::ErrorKind::DirectoryNotEmpty),
];

/// A file that is open on both sides.
struct Pair<S: Engine> {
    ours: File<S>,
    theirs: std::fs::File,
}

struct Run<S: Engine> {
    fs: Fs<S>,
    root: PathBuf,
    open: Vec<Pair<S>>,
    random: Pcg64Mcg,
    /// How many operations succeeded, by name.
    done: BTreeMap<&'static str, usize>,
}

/// What is compared: values must be equal, errors of the same kind.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: io::Result<T>, theirs: io::Result<T>) -> bool {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(ours, theirs, "{what}");
            true
        }
        (Err(ours), Err(theirs)) => {
            // ELOOP has no stable kind.
            let is_loop = theirs.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
            let kind = if is_loop { io::ErrorKind::InvalidInput } else { theirs.kind() };
            assert_eq!(ours.kind(), kind, "{what}: {ours}, {theirs}");
            false
        }
        (ours, theirs) => panic!("{what}: {ours:?} here, {theirs:?} there"),
    }
}

impl<S: Engine> Run<S> {
    fn path(&mut self) -> String {
        let depth = *[1, 2, 2, 2, 3, 3].choose(&mut self.random).unwrap();
        let parts: Vec<&str> = (0..depth).map(|_| *NAMES.choose(&mut self.random).unwrap()).collect();
        let mut path = parts.join("/");
        match self.random.random_range(0..40) {
            0 => path.push('/'),
            1 => path = path.replacen('/', "//", 1),
            2 => path = path.replacen('/', "/./", 1),
            3 => path = format!("{path}/../{}", NAMES[0]),
            4 => path.push_str(&"x".repeat(256)),
            5 => path.clear(),
            _ => {}
        }
        path
    }

    fn bytes(&mut self) -> Vec<u8> {
        let most = *[10, 5_000, 70_000].choose(&mut self.random).unwrap();
        let mut bytes = vec![0; self.random.random_range(0..most)];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    fn there(&self, path: &str) -> PathBuf {
        // An empty path must stay one: joined, it would name the root.
        if path.is_empty() { PathBuf::new() } else { self.root.join(path) }
    }

    /// One operation on both sides.
    fn step(&mut self) {
        let (name, did) = match self.random.random_range(0..26) {
            0 | 1 => self.make_directory(),
            2..=4 => self.write_whole(),
            5 => self.read_whole(),
            6 | 7 => self.rename(),
            8 => self.remove_file(),
            9 => self.remove_directory(),
            10 => self.link(),
            11 => self.symlink(),
            12 => self.describe(),
            13 => self.set_mode(),
            14 | 15 => self.open_one(),
            16..=20 => self.use_open(),
            21..=24 => self.make_directory(),
            _ => self.list(),
        };
        *self.done.entry(name).or_default() += usize::from(did);
    }

    fn make_directory(&mut self) -> (&'static str, bool) {
        let path = self.path();
        match self.random.random_bool(0.5) {
            true => {
                let theirs = std::fs::create_dir(self.there(&path));
                ("create_dir", same(&format!("mkdir {path}"), self.fs.create_dir(&path), theirs))
            }
            false if path.is_empty() => ("create_dir_all", false),
            false => {
                let theirs = std::fs::create_dir_all(self.there(&path));
                ("create_dir_all", same(&format!("mkdir -p {path}"), self.fs.create_dir_all(&path), theirs))
            }
        }
    }

    fn write_whole(&mut self) -> (&'static str, bool) {
        let (path, bytes) = (self.path(), self.bytes());
        let theirs = std::fs::write(self.there(&path), &bytes);
        ("write", same(&format!("write {path}"), self.fs.write(&path, &bytes), theirs))
    }

    fn read_whole(&mut self) -> (&'static str, bool) {
        let path = self.path();
        let theirs = std::fs::read(self.there(&path));
        ("read", same(&format!("read {path}"), self.fs.read(&path), theirs))
    }

    fn rename(&mut self) -> (&'static str, bool) {
        let (from, to) = (self.path(), self.path());
        let (ours, theirs) =
            (self.fs.rename(&from, &to), std::fs::rename(self.there(&from), self.there(&to)));
        // Two things may be wrong at once; the kernel may name the other one.
        let kinds = (ours.as_ref().err().map(io::Error::kind), theirs.as_ref().err().map(io::Error::kind));
        if let (Some(ours), Some(theirs)) = kinds
            && RENAME_ERRORS.contains(&(ours, theirs))
        {
            return ("rename", false);
        }
        ("rename", same(&format!("mv {from} {to}"), ours, theirs))
    }

    fn remove_file(&mut self) -> (&'static str, bool) {
        let path = self.path();
        let theirs = std::fs::remove_file(self.there(&path));
        ("remove_file", same(&format!("rm {path}"), self.fs.remove_file(&path), theirs))
    }

    fn remove_directory(&mut self) -> (&'static str, bool) {
        let path = self.path();
        match self.random.random_bool(0.3) {
            true if !path.ends_with('/') => {
                let theirs = std::fs::remove_dir_all(self.there(&path));
                let is_link = matches!(&theirs, Ok(()))
                    && self.fs.symlink_metadata(&path).is_ok_and(|found| !found.is_dir());
                if is_link {
                    // std removes a link or file that it is given; here that is an error.
                    self.fs.remove_file(&path).unwrap();
                    return ("remove_dir_all", false);
                }
                ("remove_dir_all", same(&format!("rm -r {path}"), self.fs.remove_dir_all(&path), theirs))
            }
            _ => {
                let theirs = std::fs::remove_dir(self.there(&path));
                ("remove_dir", same(&format!("rmdir {path}"), self.fs.remove_dir(&path), theirs))
            }
        }
    }

    fn link(&mut self) -> (&'static str, bool) {
        // One that is there, mostly.
        let mut from = self.path();
        for _ in 0..20 {
            if !self.fs.symlink_metadata(&from).is_ok_and(|found| found.is_file()) {
                from = self.path();
            }
        }
        let to = self.path();
        let theirs = std::fs::hard_link(self.there(&from), self.there(&to));
        ("hard_link", same(&format!("ln {from} {to}"), self.fs.hard_link(&from, &to), theirs))
    }

    fn symlink(&mut self) -> (&'static str, bool) {
        let (target, link) = (self.path(), self.path());
        // Relative targets, which mean the same on both sides.
        let theirs = std::os::unix::fs::symlink(&target, self.there(&link));
        let did = same(&format!("ln -s {target} {link}"), self.fs.symlink(&target, &link), theirs);
        if did {
            let ours = self.fs.read_link(&link);
            let theirs = std::fs::read_link(self.there(&link));
            same("readlink", ours, theirs.map(|t| t.into_os_string().into_encoded_bytes()));
        }
        ("symlink", did)
    }

    fn describe(&mut self) -> (&'static str, bool) {
        let path = self.path();
        let (ours, theirs) = (self.fs.metadata(&path), std::fs::metadata(self.there(&path)));
        same(&format!("stat {path}"), ours.map(|m| shown(&m)), theirs.map(|m| shown_there(&m)));
        let (ours, theirs) = (self.fs.symlink_metadata(&path), std::fs::symlink_metadata(self.there(&path)));
        let did = same(&format!("lstat {path}"), ours.map(|m| shown(&m)), theirs.map(|m| shown_there(&m)));
        ("metadata", did)
    }

    fn set_mode(&mut self) -> (&'static str, bool) {
        let path = self.path();
        let mode = 0o400 | self.random.random_range(0..0o1000);
        let theirs = std::fs::set_permissions(self.there(&path), PermissionsExt::from_mode(mode));
        ("set_mode", same(&format!("chmod {path}"), self.fs.set_mode(&path, mode as u16), theirs))
    }

    fn open_one(&mut self) -> (&'static str, bool) {
        let path = self.path();
        let mut theirs = std::fs::OpenOptions::new();
        let mut ours = match self.random.random_range(0..5) {
            0 => (theirs.read(true), OpenOptions::read()).1,
            1 => (theirs.write(true), OpenOptions::write()).1,
            2 => (theirs.read(true).write(true), OpenOptions::read_write()).1,
            3 => (theirs.append(true), OpenOptions::append()).1,
            _ => (theirs.read(true).append(true), OpenOptions::read_append()).1,
        };
        if self.random.random_bool(0.5) {
            ours = (theirs.create(true), ours.create()).1;
        } else if self.random.random_bool(0.3) {
            ours = (theirs.create_new(true), ours.create_new()).1;
        }
        if self.random.random_bool(0.2) {
            ours = (theirs.truncate(true), ours.truncate()).1;
        }
        ours = (theirs.mode(0o640), ours.mode(0o640)).1;
        let what = format!("open {path} {ours:?}");
        match (ours.open(&self.fs, &path), theirs.open(self.there(&path))) {
            (Ok(ours), Ok(theirs)) => {
                if self.open.len() == OPEN_MAX {
                    let closed = self.open.swap_remove(self.random.random_range(0..OPEN_MAX));
                    closed.ours.close().unwrap();
                }
                self.open.push(Pair { ours, theirs });
                ("open", true)
            }
            (ours, theirs) => ("open", same(&what, ours.map(drop), theirs.map(drop))),
        }
    }

    fn use_open(&mut self) -> (&'static str, bool) {
        if self.open.is_empty() {
            return ("none open", false);
        }
        let at = self.random.random_range(0..self.open.len());
        let (bytes, place) = (self.bytes(), self.random.random_range(0..200_000));
        let kind = self.random.random_range(0..8);
        let Pair { ours, theirs } = &mut self.open[at];
        let is_dir = theirs.metadata().unwrap().is_dir();
        let mut buffers = (vec![0; bytes.len()], vec![0; bytes.len()]);
        // The kernel says EBADF for the wrong direction, which has no kind that a program could name.
        let plain = |error: io::Error| match error.raw_os_error() {
            Some(9) => io::ErrorKind::InvalidInput.into(),
            _ => error,
        };
        match kind {
            0 => (
                "File::write",
                same("write", ours.write_all(&bytes), theirs.write_all(&bytes).map_err(plain)),
            ),
            1 if !is_dir => {
                let read = (ours.read(&mut buffers.0), theirs.read(&mut buffers.1).map_err(plain));
                let did = same("read", read.0, read.1);
                assert_eq!(buffers.0, buffers.1);
                ("File::read", did)
            }
            2 if !is_dir => {
                let read = (
                    ours.read_at(&mut buffers.0, place),
                    theirs.read_at(&mut buffers.1, place).map_err(plain),
                );
                let did = same("read_at", read.0, read.1);
                assert_eq!(buffers.0, buffers.1);
                ("File::read_at", did)
            }
            3 => {
                let theirs = theirs.write_at(&bytes, place).map_err(plain);
                ("File::write_at", same("write_at", ours.write_at(&bytes, place), theirs))
            }
            4 if !is_dir => {
                let by = place as i64 - 100_000;
                let to = *[SeekFrom::Start(place), SeekFrom::End(by / 50), SeekFrom::Current(by / 50)]
                    .choose(&mut self.random)
                    .unwrap();
                ("File::seek", same(&format!("{to:?}"), ours.seek(to), theirs.seek(to)))
            }
            5 => {
                ("File::set_len", same("set_len", ours.set_len(place), theirs.set_len(place).map_err(plain)))
            }
            6 => {
                let described =
                    (ours.metadata().map(|m| shown(&m)), theirs.metadata().map(|m| shown_there(&m)));
                ("File::metadata", same("fstat", described.0, described.1))
            }
            _ => ("File::sync_all", same("fsync", ours.sync_all(), theirs.sync_all())),
        }
    }

    fn list(&mut self) -> (&'static str, bool) {
        let path = self.path();
        let ours = self.fs.read_dir(&path).map(|entries| {
            let mut found: Vec<_> =
                entries.map(|e| e.unwrap()).map(|e| (e.name().to_vec(), e.kind())).collect();
            found.sort_by(|a, b| a.0.cmp(&b.0));
            found
        });
        let theirs = std::fs::read_dir(self.there(&path)).map(|entries| {
            let mut found: Vec<_> = entries
                .map(|e| e.unwrap())
                .map(|e| (e.file_name().into_encoded_bytes(), kind_of(e.file_type().unwrap())))
                .collect();
            found.sort_by(|a, b| a.0.cmp(&b.0));
            found
        });
        ("read_dir", same(&format!("ls {path}"), ours, theirs))
    }

    /// Both trees, with content and metadata.
    fn compare_trees(&self) {
        let mut ours = BTreeMap::new();
        for found in self.fs.walk("/").unwrap() {
            let entry = found.unwrap().entry;
            let path = entry.path()[1..].to_vec();
            let content = match entry.kind() {
                Kind::Regular => self.fs.read(entry.path()).unwrap(),
                Kind::Symlink => self.fs.read_link(entry.path()).unwrap(),
                _ => Vec::new(),
            };
            ours.insert(path, (shown(&entry.metadata().unwrap()), content));
        }
        let mut theirs = BTreeMap::new();
        gather(&self.root, &self.root, &mut theirs);
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        for (path, found) in &ours {
            assert!(Some(found) == theirs.get(path), "{}", String::from_utf8_lossy(path));
        }
    }
}

fn gather(root: &Path, dir: &Path, found: &mut BTreeMap<Vec<u8>, (Shown, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let content = match kind_of(metadata.file_type()) {
            Kind::Regular => std::fs::read(&path).unwrap(),
            Kind::Symlink => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ => {
                gather(root, &path, found);
                Vec::new()
            }
        };
        let name = path.strip_prefix(root).unwrap().as_os_str().as_encoded_bytes().to_vec();
        found.insert(name, (shown_there(&metadata), content));
    }
}

/// Type, mode and, except for directories, length and number of names.
type Shown = (Kind, u32, Option<(u64, u64)>);

fn shown(metadata: &firnfs_files::Metadata) -> Shown {
    let sizes = (!metadata.is_dir()).then_some((metadata.len(), u64::from(metadata.links())));
    (metadata.kind(), metadata.mode().into(), sizes)
}

fn shown_there(metadata: &std::fs::Metadata) -> Shown {
    let sizes = (!metadata.is_dir()).then_some((metadata.len(), metadata.nlink()));
    (kind_of(metadata.file_type()), metadata.mode() & 0o7777, sizes)
}

fn kind_of(kind: std::fs::FileType) -> Kind {
    match kind {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Symlink,
        _ => Kind::Regular,
    }
}

/// Random operations; returns the volume with what they left.
fn same_as_the_machine<S: Engine>(fs: Fs<S>, seed: u64) -> Run<S> {
    let _previous = rustix::process::umask(rustix::fs::Mode::from_raw_mode(u32::from(CALLER.umask)));
    let root = tempfile::tempdir().unwrap().keep();
    let mut run =
        Run { fs, root, open: Vec::new(), random: Pcg64Mcg::seed_from_u64(seed), done: BTreeMap::new() };
    for dir in NAMES.iter().flat_map(|top| NAMES.iter().map(move |name| format!("{top}/{name}"))) {
        run.fs.create_dir_all(&dir).unwrap();
        std::fs::create_dir_all(run.root.join(dir)).unwrap();
    }
    for step in 0..OPERATIONS {
        run.step();
        if step % 250 == 0 {
            run.compare_trees();
        }
    }
    run.compare_trees();
    // A test in which hardly anything succeeds would compare errors alone.
    for name in
        ["create_dir", "write", "rename", "remove_file", "hard_link", "symlink", "open", "File::write_at"]
    {
        assert!(run.done.get(name).is_some_and(|count| *count >= 3), "{name}: {:?}", run.done);
    }
    run
}

impl<S: Engine> Drop for Run<S> {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.root).ok();
    }
}

#[test]
fn the_log_does_what_the_machine_does_and_keeps_it_across_a_close() {
    for seed in 0..3 {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(128 << 20));
        let options = FsOptions { caller: CALLER, ..FsOptions::default() };
        let fs = Fs::format(device.clone(), &NewVolume::default(), options.clone()).unwrap();
        let mut run = same_as_the_machine(fs, seed);
        run.open.clear();
        run.fs.clone().close().unwrap();
        run.fs = Fs::open(device, options).unwrap();
        run.compare_trees();
    }
}

#[test]
fn the_memory_store_does_what_the_machine_does() {
    let store = MemStore::new(MemOptions::with_capacity(128 << 20), TimeNs(0));
    let vfs = Vfs::new(store, AtimeMode::Relatime);
    let volume = Volume::new(vfs, None, Arc::new(SystemClock));
    same_as_the_machine(Fs::over(Arc::new(volume), CALLER), 10);
}

#[test]
fn the_fast_file_system_does_what_the_machine_does() {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(128 << 20));
    let clock = Arc::new(SystemClock);
    let mkfs = ffs::MkfsOptions { now: TimeNs(clock.now_ns()), ..ffs::MkfsOptions::with_size(128 << 20) };
    firnfs_manage::format_ffs(&*device, &mkfs).unwrap();
    let volume =
        firnfs_manage::open_ffs(device, ffs::Options::default(), AtimeMode::Relatime, clock).unwrap();
    same_as_the_machine(Fs::over(Arc::new(volume), CALLER), 20);
}
