//! Ctrl-C and SIGTERM for commands that have to undo something before they end.
//!
//! The signal sets a flag; the command checks it, cleans up, and ends with [`exit`], which tells the two apart as a shell does for
//! programs that a signal ended.

use crate::failure::{Done, Exit, Failure};
use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Time between two looks at the flag.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// SIGTERM arrived.
static TERMINATED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on, Ctrl-C and SIGTERM only set `flag`.
///
/// # Errors
/// The system refuses.
pub fn sets(flag: &Arc<AtomicBool>) -> Done {
    // In this order: once `flag` is set, `exit` knows the signal.
    for (signal, flag) in [(SIGTERM, &*TERMINATED), (SIGTERM, flag), (SIGINT, flag)] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .map_err(|e| Failure::system("cannot watch for signals", &e))?;
    }
    Ok(())
}

/// A file that a command makes, and that Ctrl-C, SIGTERM and failures remove while it is half made.
pub struct HalfMade {
    path: Arc<Mutex<Option<PathBuf>>>,
}

impl HalfMade {
    /// From now on, Ctrl-C and SIGTERM end the program, and remove the file that [`HalfMade::make`] has begun.
    ///
    /// # Errors
    /// The system refuses.
    pub fn watch() -> Done<Self> {
        let (flag, path) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        sets(&flag)?;
        let half_made = Arc::clone(&path);
        let wait = move || {
            while !flag.load(Ordering::SeqCst) {
                std::thread::sleep(LOOK_EVERY);
            }
            // Nothing is made any more while this thread holds the lock.
            let mut half_made = half_made.lock();
            match remove(&mut half_made) {
                Some(path) => eprintln!("firn: stopped; {} is removed", path.display()),
                None => eprintln!("firn: stopped"),
            }
            std::process::exit(exit() as i32);
        };
        std::thread::Builder::new()
            .name("firn-signals".into())
            .spawn(wait)
            .map_err(|e| Failure::system("cannot start a thread", &e))?;
        Ok(Self { path })
    }

    /// Makes the file, which must not be there before.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn make<T>(&self, path: &Path, make: impl FnOnce() -> Done<T>) -> Done<T> {
        let mut half_made = self.path.lock();
        let made = make()?;
        *half_made = Some(path.to_owned());
        Ok(made)
    }

    /// The file is whole.
    pub fn keep(self) {
        self.path.lock().take();
    }
}

impl Drop for HalfMade {
    fn drop(&mut self) {
        remove(&mut self.path.lock());
    }
}

fn remove(half_made: &mut Option<PathBuf>) -> Option<PathBuf> {
    // An error of its own would hide the one that led here.
    half_made.take().inspect(|path| drop(std::fs::remove_file(path)))
}

/// The exit code of a command that a signal ended.
#[must_use]
pub fn exit() -> Exit {
    if TERMINATED.load(Ordering::SeqCst) { Exit::Terminated } else { Exit::Interrupted }
}
