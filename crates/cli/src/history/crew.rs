//! Restores several files side by side: a thread that copies small files waits for answers most of the time.
//!
//! Threads take the wishes in order, each one the next that nobody has taken. After an error or Ctrl-C none begins another, and what
//! is not whole is removed. Directories above a target that are gone, too, are made by the thread that needs them first, and get
//! their attributes after everything in them. A name becomes durable once for each directory, at the end.
//!
//! Caller: `restore`.

use super::attributes::{Attributes, Made};
use super::copy::{Copier, Problems, Totals};
use super::identity::{Facts, facts_of};
use super::snapshot::shown;
use super::staged::Staged;
use crate::failure::{Done, Failure};
use crate::interrupt;
use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Threads that copy, so that the daemon finds another request when it has answered one. Measured beside one thread (docs/bench/history.md), not
/// beside other numbers.
const THREADS_MAX: usize = 4;
/// Directories that are kept open until they are synced.
const UNSYNCED_MAX: usize = 256;

/// A file or directory that came back.
#[derive(Serialize)]
pub struct Restored {
    /// The path that it had then, below the root of the volume.
    pub name: String,
    /// The name of the state that it comes from.
    pub from_state: String,
    /// Where it is now.
    pub to_path: String,
    /// The same, with every byte.
    #[serde(skip)]
    pub target: PathBuf,
}

/// Something to restore.
pub struct Wish {
    /// Where it is in the past.
    pub from: PathBuf,
    /// What it was then.
    pub facts: Facts,
    /// The same path below the root of the volume.
    pub below: PathBuf,
    /// The state.
    pub state: String,
    /// Where to put it.
    pub target: PathBuf,
}

/// What came back.
pub struct Outcome {
    /// In the order of the wishes.
    pub restored: Vec<Restored>,
    /// All of it.
    pub totals: Totals,
    /// What did not come back as it was.
    pub problems: Problems,
}

/// See the module's head.
pub struct Crew<'a> {
    wishes: &'a [Wish],
    /// Replace what is in the place of a target.
    force: bool,
    /// Ctrl-C was pressed.
    stop: &'a AtomicBool,
    /// Is told of everything that has been copied so far.
    show: &'a (dyn Fn(&Totals) + Sync),
    /// The first wish that nobody has taken.
    next: AtomicUsize,
    work: Mutex<Work>,
}

/// What the threads share.
#[derive(Default)]
struct Work {
    /// Each with the number of its wish.
    restored: Vec<(usize, Restored)>,
    /// By thread.
    totals: Vec<Totals>,
    problems: Problems,
    /// Directories that were made above targets, each with its original.
    parents: Vec<(PathBuf, PathBuf)>,
    unsynced: Unsynced,
    /// Why no thread begins another wish.
    failure: Option<Failure>,
}

impl<'a> Crew<'a> {
    /// A crew that has begun nothing.
    pub fn new(
        wishes: &'a [Wish],
        force: bool,
        stop: &'a AtomicBool,
        show: &'a (dyn Fn(&Totals) + Sync),
    ) -> Self {
        Self { wishes, force, stop, show, next: AtomicUsize::new(0), work: Mutex::default() }
    }

    /// Restores everything.
    ///
    /// # Errors
    /// A copy cannot be written; something is in the place of one and `force` is false; Ctrl-C. What is whole by then is durable.
    pub fn restore(self) -> Done<Outcome> {
        let threads = self.wishes.len().min(THREADS_MAX);
        self.work.lock().totals.resize(threads, Totals::default());
        let this = &self;
        std::thread::scope(|scope| {
            for nth in 1..threads {
                scope.spawn(move || this.take_part(nth));
            }
            this.take_part(0);
        });
        let Work { mut restored, totals, problems, mut parents, mut unsynced, failure } =
            self.work.into_inner();
        // A directory changes if another one in it gets its attributes.
        parents.sort_unstable_by_key(|(target, _)| std::cmp::Reverse(target.components().count()));
        let finished =
            parents.iter().try_for_each(|(target, from)| finish_parent(target, from, &mut unsynced));
        let synced = unsynced.sync();
        failure.map_or(Ok(()), Err).and(finished).and(synced)?;
        restored.sort_unstable_by_key(|(nth, _)| *nth);
        let restored = restored.into_iter().map(|(_, restored)| restored).collect();
        Ok(Outcome { restored, totals: totals.into_iter().sum(), problems })
    }

    /// The work of one thread.
    fn take_part(&self, thread: usize) {
        let mut progress = |totals: &Totals| self.note(thread, totals);
        let mut copier = Copier::new(&mut progress);
        loop {
            let nth = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(wish) = self.wishes.get(nth) else { return };
            let done = self.restore_one(&mut copier, wish);
            let mut work = self.work.lock();
            work.problems.append(std::mem::take(&mut copier.problems));
            match done {
                Ok(restored) => work.restored.extend(restored.map(|restored| (nth, restored))),
                // The first one is the cause; the others may only have been stopped by it.
                Err(failure) => _ = work.failure.get_or_insert(failure),
            }
            if work.failure.is_some() {
                return;
            }
        }
    }

    fn note(&self, thread: usize, totals: &Totals) -> Done {
        let mut work = self.work.lock();
        work.totals[thread] = *totals;
        let all = work.totals.iter().copied().sum();
        let is_over = work.failure.is_some();
        drop(work);
        (self.show)(&all);
        match is_over || self.stop.load(Ordering::SeqCst) {
            true => Err(Failure::new(interrupt::exit(), "stopped; what was not whole is removed")),
            false => Ok(()),
        }
    }

    /// `None` if it cannot be read.
    fn restore_one(&self, copier: &mut Copier<'_>, wish: &Wish) -> Done<Option<Restored>> {
        self.make_parents(wish)?;
        let Some(mut staged) = Staged::copy(copier, (&wish.from, wish.facts), &wish.target)? else {
            return Ok(None);
        };
        staged.name(self.force)?;
        // Not before it has its name: another thread may sync what is unsynced at any moment.
        self.work.lock().unsynced.add(parent_of(&wish.target), staged.directory())?;
        Ok(Some(Restored {
            name: shown(&wish.below),
            from_state: wish.state.clone(),
            to_path: shown(&wish.target),
            target: wish.target.clone(),
        }))
    }

    /// Makes the directories above a target that are gone, too, with nothing else in them.
    fn make_parents(&self, wish: &Wish) -> Done {
        let is_missing = |(target, _): &(&Path, &Path)| {
            !target.as_os_str().is_empty() && target.symlink_metadata().is_err()
        };
        // Nobody else makes one of them meanwhile.
        let mut work = self.work.lock();
        if work.unsynced.0.contains_key(parent_of(&wish.target)) {
            return Ok(());
        }
        let pairs = wish.target.ancestors().zip(wish.from.ancestors()).skip(1);
        let missing: Vec<(&Path, &Path)> = pairs.take_while(is_missing).collect();
        for (target, from) in missing.into_iter().rev() {
            // The mask is cleared.
            let made = rustix::fs::mkdir(target, Mode::RWXU);
            made.map_err(|errno| Failure::io("cannot make", target, &errno.into()))?;
            work.parents.push((target.to_owned(), from.to_owned()));
        }
        Ok(())
    }
}

/// The directory in which a copy gets its name.
fn parent_of(target: &Path) -> &Path {
    target.parent().unwrap_or(target)
}

/// Gives a directory that was made for its entries the attributes of its original.
fn finish_parent(target: &Path, from: &Path, unsynced: &mut Unsynced) -> Done {
    let cannot = |errno: Errno| Failure::io("cannot restore", target, &errno.into());
    let Some(facts) = facts_of(from)?.filter(Facts::is_dir) else { return Ok(()) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(CWD, target, flags, Mode::empty()).map_err(cannot)?;
    let made = Made { mode: 0o700, owner: None };
    // The files in it report the attributes that could not be given.
    let _lost = Attributes::of(from, facts).apply_to_file(&directory, made).map_err(cannot)?;
    unsynced.add(target, directory.as_fd())
}

/// Directories with names or attributes that are not durable yet, by path. Each sync waits for the device, so many copies share one.
#[derive(Default)]
struct Unsynced(BTreeMap<PathBuf, OwnedFd>);

impl Unsynced {
    /// Adds a directory that has changed.
    fn add(&mut self, path: &Path, directory: BorrowedFd<'_>) -> Done {
        if self.0.contains_key(path) {
            return Ok(());
        }
        if self.0.len() >= UNSYNCED_MAX {
            self.sync()?;
        }
        let directory = directory.try_clone_to_owned();
        let directory = directory.map_err(|e| Failure::io("cannot open", path, &e))?;
        self.0.insert(path.to_owned(), directory);
        Ok(())
    }

    fn sync(&mut self) -> Done {
        for (path, directory) in std::mem::take(&mut self.0) {
            let synced = rustix::fs::fsync(&directory);
            synced.map_err(|errno| Failure::io("cannot sync", &path, &errno.into()))?;
        }
        Ok(())
    }
}
