//! Copies a file or a tree of the past into the present: content with its holes, owners, modes, times, extended attributes, ACLs, links,
//! and hard links within the tree.
//!
//! The past cannot change, so its paths are safe. The copy is made through open directories, so that nobody can redirect it by a
//! link. An entry that cannot be read is reported and left out; a write that fails ends the copying.
//!
//! Caller: `staged`, which gives the copy its name when it is whole.

use super::attributes::{Attributes, Made, Owner, forget_inherited, forget_inherited_by_file};
use super::find::entries_of;
use super::identity::{Facts, Identity, facts_of};
use crate::failure::{Done, Failure};
use crate::names::readable;
use crate::sources::next_data;
use rustc_hash::FxHashMap;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, linkat, makedev, mkdirat, mknodat, openat, symlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::iter::Sum;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// Problems whose texts are kept.
pub const PROBLEMS_MAX: usize = 20;

/// What has been copied.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, FIFOs, sockets and device nodes.
    pub others: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Bytes of content, without holes.
    pub content_bytes: u64,
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            files: sum.files + one.files,
            directories: sum.directories + one.directories,
            others: sum.others + one.others,
            hard_links: sum.hard_links + one.hard_links,
            content_bytes: sum.content_bytes + one.content_bytes,
        })
    }
}

/// What could not be copied as it was.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Problems {
    /// How many.
    pub count: u64,
    /// The first of them, one line each.
    pub first: Vec<String>,
}

impl Problems {
    /// Adds one.
    pub fn add(&mut self, text: String) {
        self.count += 1;
        if self.first.len() < PROBLEMS_MAX {
            self.first.push(text);
        }
    }

    /// Adds others.
    pub fn append(&mut self, others: Self) {
        self.count += others.count;
        let room = PROBLEMS_MAX - self.first.len();
        self.first.extend(others.first.into_iter().take(room));
    }
}

/// The copy of a hard-linked file: its path from the top of the whole copy.
type Linked = FxHashMap<Identity, PathBuf>;

/// See the module's head.
pub struct Copier<'a> {
    linked: Linked,
    caller: Owner,
    /// Full permissions, by inode number, of files for which the past shows fewer.
    modes: FxHashMap<u64, u32>,
    /// Entries that could not be copied.
    left_out: u64,
    buffer: Vec<u8>,
    /// What has been copied so far.
    pub totals: Totals,
    /// What was left out, and attributes that could not be kept.
    pub problems: Problems,
    /// Called after each file and each part of a large one; its failure ends the copying.
    progress: &'a mut dyn FnMut(&Totals) -> Done,
}

/// A directory whose entries are being copied.
struct Open {
    from: PathBuf,
    to: OwnedFd,
    /// From the top of the copy.
    below: PathBuf,
    facts: Facts,
    names: std::vec::IntoIter<Vec<u8>>,
}

impl<'a> Copier<'a> {
    /// A copier that reports to `progress`.
    pub fn new(progress: &'a mut dyn FnMut(&Totals) -> Done) -> Self {
        let (linked, totals, problems) = (Linked::default(), Totals::default(), Problems::default());
        Self {
            linked,
            modes: FxHashMap::default(),
            caller: Owner::of_caller(),
            left_out: 0,
            buffer: Vec::new(),
            totals,
            problems,
            progress,
        }
    }

    /// Sets the permissions that files get instead of those that the past shows, by their inode numbers.
    #[must_use]
    pub fn with_modes(self, modes: FxHashMap<u64, u32>) -> Self {
        Self { modes, ..self }
    }

    /// The facts of a file, with its full permissions.
    pub fn in_full(&self, facts: Facts) -> Facts {
        let mode = self.modes.get(&facts.identity.ino).map(|mode| facts.mode & !0o7777 | mode & 0o7777);
        Facts { mode: mode.unwrap_or(facts.mode), ..facts }
    }

    /// Copies what is at a path into an open directory, under a new name that belongs to this copy alone. False if it cannot be read.
    ///
    /// # Errors
    /// The copy cannot be written; `progress` fails.
    pub fn copy(
        &mut self,
        (from, facts): (&Path, Facts),
        directory: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Done<bool> {
        self.linked.clear();
        let top = Path::new(name);
        let left_out = self.left_out;
        let Some(first) = self.copy_entry((from, facts), directory, (directory, top), name)? else {
            return Ok(self.left_out == left_out);
        };
        let mut open = vec![first];
        while let Some(here) = open.last_mut() {
            match here.names.next() {
                Some(name) => {
                    let name = OsString::from_vec(name);
                    let (from, below) = (here.from.join(&name), here.below.join(&name));
                    let Some(facts) = self.examine(&from)? else { continue };
                    let to = here.to.as_fd();
                    let inner = self.copy_entry((&from, facts), to, (directory, &below), &name)?;
                    open.extend(inner);
                }
                None => {
                    self.finish_directory(here)?;
                    open.pop();
                }
            }
        }
        Ok(true)
    }

    /// Writes the content and attributes of a file into another one, which keeps its identity.
    ///
    /// # Errors
    /// It cannot be written; `progress` fails.
    pub fn rewrite(&mut self, from: &Path, to: &Path) -> Done {
        let Some(facts) = facts_of(from)? else { return Ok(()) };
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(CWD, to, flags, Mode::empty()).map_err(|errno| cannot_write(from, errno))?;
        let (source, made) = (File::open(from), File::from(made));
        let source = source.map_err(|e| Failure::io("cannot open", from, &e))?;
        self.copy_content(from, (&source, &made), &facts)?;
        self.totals.files += 1;
        self.give_attributes(from, to)?;
        (self.progress)(&self.totals)
    }

    /// Gives a file the attributes of another one, and removes those that the other one lacks.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn give_attributes(&mut self, from: &Path, to: &Path) -> Done {
        let Some(facts) = facts_of(from)? else { return Ok(()) };
        let directory = to.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            openat(CWD, directory, flags, Mode::empty()).map_err(|errno| cannot_write(from, errno))?;
        let attributes = Attributes::of(from, self.in_full(facts));
        let name = to.file_name().unwrap_or(OsStr::new("."));
        let made = Made { mode: 0, owner: None };
        let lost = attributes
            .remove_others(to)
            .and_then(|()| attributes.apply_to_name(directory.as_fd(), name, made));
        self.note(from, lost)
    }

    /// Copies one entry. Makes and returns a directory, so that the caller can descend into it. `at` is the path of the copy from
    /// the directory of the whole copy.
    fn copy_entry(
        &mut self,
        (from, facts): (&Path, Facts),
        to: BorrowedFd<'_>,
        at: (BorrowedFd<'_>, &Path),
        name: &OsStr,
    ) -> Done<Option<Open>> {
        if facts.is_dir() {
            return self.begin_directory(from, to, at.1, name, facts);
        }
        if let Some(first) = self.linked.get(&facts.identity) {
            linkat(at.0, first, to, name, AtFlags::empty()).map_err(|errno| cannot_write(from, errno))?;
            self.totals.hard_links += 1;
            return Ok(None);
        }
        let is_made = if facts.is_file() {
            self.copy_file(from, to, at.1, &facts)?
        } else {
            self.make_other(from, to, at.1, &facts)?
        };
        if is_made && facts.links > 1 {
            self.linked.insert(facts.identity, at.1.to_owned());
        }
        (self.progress)(&self.totals)?;
        Ok(None)
    }

    /// The facts of an entry; `None` if they cannot be read.
    fn examine(&mut self, from: &Path) -> Done<Option<Facts>> {
        match facts_of(from) {
            Ok(Some(facts)) => Ok(Some(facts)),
            Ok(None) => self.leave_out(format!("{} is not there", readable(&from))),
            Err(failure) => self.leave_out(failure.to_string()),
        }
    }

    fn leave_out<T: Default>(&mut self, why: String) -> Done<T> {
        self.problems.add(why);
        self.left_out += 1;
        Ok(T::default())
    }

    fn begin_directory(
        &mut self,
        from: &Path,
        to: BorrowedFd<'_>,
        below: &Path,
        name: &OsStr,
        facts: Facts,
    ) -> Done<Option<Open>> {
        let entries = match entries_of(from) {
            Ok(Some(entries)) => entries,
            Ok(None) => return self.leave_out(format!("{} is not open to you", readable(&from))),
            Err(failure) => return self.leave_out(failure.to_string()),
        };
        // Others cannot enter it until it is complete.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = mkdirat(to, name, Mode::RWXU).and_then(|()| openat(to, name, flags, Mode::empty()));
        let made = made.map_err(|errno| cannot_write(from, errno))?;
        if is_top(below) {
            forget_inherited(&made, 0o700).map_err(|errno| cannot_write(from, errno))?;
        }
        let names: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.name).collect();
        let (from, below) = (from.to_owned(), below.to_owned());
        Ok(Some(Open { from, to: made, below, facts, names: names.into_iter() }))
    }

    /// A directory gets its attributes last: entries change its times, and its default ACL would change them.
    fn finish_directory(&mut self, directory: &Open) -> Done {
        let attributes = Attributes::of(&directory.from, directory.facts);
        let lost = attributes.apply_to_file(&directory.to, self.made(0o700, &directory.below));
        self.note(&directory.from, lost)?;
        self.totals.directories += 1;
        (self.progress)(&self.totals)
    }

    /// False if it cannot be read.
    fn copy_file(&mut self, from: &Path, to: BorrowedFd<'_>, below: &Path, facts: &Facts) -> Done<bool> {
        let name = below.file_name().unwrap_or_default();
        let source = match File::open(from) {
            Ok(source) => source,
            Err(e) => return self.leave_out(Failure::io("cannot open", from, &e).message),
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Below the top, nobody else can reach it before the whole copy is complete.
        let mode = if is_top(below) { 0o600 } else { facts.mode & 0o777 };
        let made = openat(to, name, flags, Mode::from_raw_mode(mode));
        let made = File::from(made.map_err(|errno| cannot_write(from, errno))?);
        let mut made_as = self.made(mode, below);
        if is_top(below) {
            let owner = forget_inherited_by_file(&made, mode).and_then(|()| Owner::of_file(&made));
            made_as.owner = Some(owner.map_err(|errno| cannot_write(from, errno))?);
        }
        if !self.copy_content(from, (&source, &made), facts)? {
            drop(made);
            rustix::fs::unlinkat(to, name, AtFlags::empty()).map_err(|errno| cannot_write(from, errno))?;
            return Ok(false);
        }
        let lost = Attributes::of(from, *facts).apply_to_file(&made, made_as);
        self.note(from, lost)?;
        self.totals.files += 1;
        Ok(true)
    }

    /// Copies the data between the holes. False if it cannot be read.
    fn copy_content(&mut self, from: &Path, (source, made): (&File, &File), facts: &Facts) -> Done<bool> {
        let len_bytes = facts.size_bytes;
        let is_sparse = facts.allocated_bytes < len_bytes;
        self.buffer.resize(
            COPY_BYTES.min(usize::try_from(len_bytes).unwrap_or(COPY_BYTES)).max(self.buffer.len()),
            0,
        );
        let mut at_bytes = 0;
        loop {
            let range = match is_sparse {
                true => next_data(source, at_bytes, len_bytes),
                false => Ok((at_bytes < len_bytes).then_some((at_bytes, len_bytes))),
            };
            let (start_bytes, end_bytes) = match range {
                Ok(Some(range)) => range,
                Ok(None) => break,
                Err(e) => return self.unreadable(from, &e),
            };
            at_bytes = start_bytes;
            while at_bytes < end_bytes {
                let want = (end_bytes - at_bytes).min(self.buffer.len() as u64) as usize;
                let got = match source.read_at(&mut self.buffer[..want], at_bytes) {
                    Ok(0) => return self.unreadable(from, &std::io::ErrorKind::UnexpectedEof.into()),
                    Ok(got) => got,
                    Err(e) => return self.unreadable(from, &e),
                };
                made.write_all_at(&self.buffer[..got], at_bytes).map_err(|e| cannot_write(from, e))?;
                at_bytes += got as u64;
                self.totals.content_bytes += got as u64;
                if at_bytes < end_bytes {
                    (self.progress)(&self.totals)?;
                }
            }
        }
        if at_bytes < len_bytes {
            made.set_len(len_bytes).map_err(|e| cannot_write(from, e))?;
        }
        Ok(true)
    }

    fn unreadable(&mut self, from: &Path, error: &std::io::Error) -> Done<bool> {
        self.leave_out(Failure::io("cannot read", from, error).message)
    }

    /// Makes a link or a special file. False if it cannot be read, or this user may not make it.
    fn make_other(&mut self, from: &Path, to: BorrowedFd<'_>, below: &Path, facts: &Facts) -> Done<bool> {
        let name = below.file_name().unwrap_or_default();
        let made = if facts.is_symlink() {
            match std::fs::read_link(from) {
                Ok(target) => symlinkat(target.as_os_str(), to, name),
                Err(e) => return self.unreadable(from, &e),
            }
        } else {
            let device = makedev(facts.rdev.0, facts.rdev.1);
            mknodat(to, name, FileType::from_raw_mode(facts.mode), Mode::RUSR | Mode::WUSR, device)
        };
        match made {
            Ok(()) => {}
            Err(Errno::PERM) => {
                return self.leave_out(format!("{} is a device, which only root can make", readable(&from)));
            }
            Err(errno) => return Err(cannot_write(from, errno)),
        }
        let lost = Attributes::of(from, *facts).apply_to_name(to, name, self.made(0o600, below));
        self.note(from, lost)?;
        self.totals.others += 1;
        Ok(true)
    }

    fn made(&self, mode: u32, below: &Path) -> Made {
        Made { mode, owner: (!is_top(below)).then_some(self.caller) }
    }

    /// Notes attributes that this user may not give.
    fn note(&mut self, from: &Path, lost: Result<Vec<String>, Errno>) -> Done {
        let lost = lost.map_err(|errno| cannot_write(from, errno))?;
        if !lost.is_empty() {
            self.problems.add(format!("{}: {} could not be kept", readable(&from), lost.join(", ")));
        }
        Ok(())
    }
}

fn cannot_write(from: &Path, error: impl Into<io::Error>) -> Failure {
    let error = error.into();
    let failure = Failure::io("cannot write the copy of", from, &error);
    match error.kind() {
        io::ErrorKind::StorageFull => failure.advise("put it on another disk with --to"),
        _ => failure,
    }
}

/// Clears the caller's mask, so that copies get exactly the permissions that the copier sets.
pub fn take_off_umask() {
    rustix::process::umask(Mode::empty());
}

/// Raises the limit of open files, for deep trees.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this fails, only very deep trees cannot be copied.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// True for the copy itself, false for what is in it.
fn is_top(below: &Path) -> bool {
    below.parent().is_none_or(|parent| parent.as_os_str().is_empty())
}
