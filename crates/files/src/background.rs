//! `Background`: the one thread of this crate, for programs that ask for it.

use crate::fs::Fs;
use firnfs::engine::Engine;
use firnfs_volume::Volume;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause after a failure that the volume survived.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A thread that does a volume's background work until this is dropped; see [`Fs::start_background`].
#[must_use = "the thread ends when this is dropped"]
pub struct Background<S: Engine + 'static> {
    volume: Arc<Volume<S>>,
    should_stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<S: Engine + 'static> fmt::Debug for Background<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

impl<S: Engine + 'static> Fs<S>
where
    Volume<S>: Send + Sync,
{
    /// Starts a thread that commits changes by age, writes checkpoints and cleans. Drop the returned value before
    /// [`Fs::close`].
    ///
    /// ```
    /// # let device = std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20));
    /// # let new = firnfs_files::NewVolume::default();
    /// let fs = firnfs_files::Fs::format(device, &new, firnfs_files::FsOptions::default())?;
    /// let background = fs.start_background()?;
    /// fs.write("file", "durable after 5 s by itself")?;
    /// drop(background);
    /// fs.close()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_background(&self) -> io::Result<Background<S>> {
        let should_stop = Arc::new(AtomicBool::new(false));
        let (volume, stop) = (Arc::clone(self.volume()), Arc::clone(&should_stop));
        let thread = std::thread::Builder::new()
            .name("firn-background".to_owned())
            .spawn(move || work_until(&volume, &stop))?;
        Ok(Background { volume: Arc::clone(self.volume()), should_stop, thread: Some(thread) })
    }
}

fn work_until<S: Engine>(volume: &Volume<S>, should_stop: &AtomicBool) {
    let _promise = volume.promise_background();
    while !should_stop.load(Ordering::SeqCst) {
        match volume.background() {
            Ok(sleep_ms) => volume.wait_for_work(sleep_ms),
            // The next sync or change reports it: the volume is read-only, or the failure was of one attempt.
            Err(_) => volume.wait_for_work(AFTER_FAILURE.as_millis() as u64),
        }
    }
}

impl<S: Engine + 'static> Drop for Background<S> {
    fn drop(&mut self) {
        self.should_stop.store(true, Ordering::SeqCst);
        self.volume.wake();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
