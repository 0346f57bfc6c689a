//! A mount from beginning to end: mount, serve, unmount, close the volume.
//!
//! Threads of a session: workers (see `device`), one for background work of the volume, one for signals, the threads of
//! the control socket, and those of mounted states (`beside`). [`Session::serve`] ends in this order: the kernel has released the mount; workers are done;
//! background work is done; mounted states are detached; the volume is closed and dropped, its device lock with it; clients that wait for the release
//! are told; `serve` returns.
//!
//! `operations` has what every mount answers on its control socket.

mod operations;

use crate::adapter::{Adapter, Handler, MAX_WRITE_BYTES, PROBE_NAME, Settings, never_waits_at_its_end};
use crate::beside::Beside;
use crate::control::{Registry, Server};
use crate::counters::RequestCount;
use crate::device::{DeviceTransport, TransportError};
use crate::mount::{self, MountError, MountRequest, table};
use crate::preference::may_be_preferred;
use crate::record::{self, RecordError, RecordPlan};
use crate::uring::{self, UringTransport};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::store::Scope;
use firnfs_volume::Volume;
use parking_lot::{Condvar, Mutex};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest sleep of the background thread, in milliseconds.
const MAX_SLEEP_MS: u64 = 60_000;

/// How requests come from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransportChoice {
    /// Over io_uring where the kernel offers it and the store gains by it, else through `/dev/fuse`.
    #[default]
    Auto,
    /// Over io_uring; no mount without it.
    Uring,
    /// Through `/dev/fuse`.
    Dev,
}

impl TransportChoice {
    /// Each choice and its name, as `-o transport=` takes it.
    pub const NAMES: [(&str, Self); 3] = [("auto", Self::Auto), ("uring", Self::Uring), ("dev", Self::Dev)];
}

/// How to serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionConfig {
    /// See [`TransportChoice`].
    pub transport: TransportChoice,
    /// Worker threads, at least one; see [`default_threads`].
    pub threads: usize,
    /// See [`Settings`].
    pub settings: Settings,
    /// SIGTERM, SIGINT and SIGHUP unmount. Off for programs that embed a mount.
    pub handle_signals: bool,
}

/// Why a session could not begin, or how it failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Not mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The transport to the kernel failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The control socket could not be made.
    #[error("cannot make the control socket: {0}")]
    Control(std::io::Error),
    /// The recording could not be started.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The volume could not be closed: changes that were not synced may be lost.
    #[error("closing the volume failed: {0}")]
    Close(FsError),
}

/// A mounted volume that is ready to be served.
pub struct Session<S: Engine + 'static> {
    adapter: Arc<Adapter<S>>,
    transport: DeviceTransport,
    uring: Option<UringTransport>,
    request: MountRequest,
    config: SessionConfig,
    registry: Registry,
    beside: Beside,
    release: Arc<Release>,
    before_close: Vec<Box<dyn FnOnce() + Send>>,
}

/// Lets control connections wait until the volume is closed.
#[derive(Default)]
struct Release {
    outcome: Mutex<Option<Result<(), FsError>>>,
    changed: Condvar,
}

impl Release {
    fn announce(&self, outcome: Result<(), FsError>) {
        *self.outcome.lock() = Some(outcome);
        self.changed.notify_all();
    }

    /// The outcome of the close; `None` if the volume is not closed after `timeout`.
    fn wait(&self, timeout: Duration) -> Option<Result<(), FsError>> {
        let mut outcome = self.outcome.lock();
        self.changed.wait_while_for(&mut outcome, |outcome| outcome.is_none(), timeout);
        outcome.clone()
    }
}

/// Workers that are never surplus: one more than processors. Measured with 1, 2 and 4 clients creating files: between 1 and 8
/// workers the rate differs by a tenth at most, and more workers are slower. While a worker waits for the device, another one
/// replaces it (see `device`).
#[must_use]
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from) + 1
}

/// Tells the kernel that this thread, and every thread that it starts later, must not wait for memory that only its own
/// writes can free (PR_SET_IO_FLUSHER). For daemons that serve nothing else; they call it before they open the volume. Needs
/// CAP_SYS_RESOURCE; without it the protection is missing and everything else works.
pub fn become_io_flusher() {
    if let Err(errno) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!("PR_SET_IO_FLUSHER: {errno}");
    }
}

impl<S: Engine + 'static> Session<S> {
    /// Mounts `volume`. The caller must keep no reference to it; otherwise its device stays locked after the unmount.
    ///
    /// # Errors
    /// The mountpoint is unusable, mounting is not possible or not allowed, or the kernel's protocol is too old.
    pub fn mount(
        volume: Arc<Volume<S>>,
        request: MountRequest,
        config: SessionConfig,
    ) -> Result<Self, SessionError> {
        Self::mount_recorded(volume, request, config, None)
    }

    /// As [`Session::mount`], and records all operations from the first one on.
    ///
    /// # Errors
    /// As [`Session::mount`], or the recording cannot be started.
    pub fn mount_recorded(
        volume: Arc<Volume<S>>,
        mut request: MountRequest,
        config: SessionConfig,
        record: Option<&RecordPlan>,
    ) -> Result<Self, SessionError> {
        request.mountpoint = mount::prepare_mountpoint(&request.mountpoint)?;
        let adapter = Arc::new(Adapter::new(volume, config.settings));
        // Before the mount: its path may lead to what the mount is about to cover, where nobody answers yet.
        if let Some(plan) = record {
            record::operations::start_before_mount(&adapter, plan, config, &request.mountpoint)?;
        }
        Self::mount_adapter(Arc::clone(&adapter), request, config).inspect_err(|_| {
            if let Some(plan) = record {
                adapter.recorder().end();
                let _gone_already = std::fs::remove_file(&plan.path);
            }
        })
    }

    fn mount_adapter(
        adapter: Arc<Adapter<S>>,
        request: MountRequest,
        config: SessionConfig,
    ) -> Result<Self, SessionError> {
        let choice = match config.transport {
            // Its operations wait for the device at their end: a queue's thread could do none of them.
            TransportChoice::Auto if !never_waits_at_its_end(adapter.volume()) => TransportChoice::Dev,
            choice => choice,
        };
        let transport = DeviceTransport::new(mount::mount(&request)?);
        let uring = begin(&*adapter, &transport, choice).inspect_err(|_| {
            let _gone_already = mount::unmount(&request.mountpoint, true);
        })?;
        adapter.set_over_uring(uring.is_some());
        adapter.set_notifier(Arc::new(transport.clone()));
        let beside = Beside::default();
        let ending = beside.clone();
        adapter.call_before_close(move || ending.end());
        let mut session = Self {
            adapter,
            transport,
            uring,
            request,
            config,
            registry: Registry::default(),
            beside,
            release: Arc::new(Release::default()),
            before_close: Vec::new(),
        };
        session.register_operations();
        Ok(session)
    }

    /// The operations of the control socket; the caller may add more. An added operation must hold the volume weakly.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Reads the counts of requests, also while the session is served; `None` once the volume is being closed.
    pub fn request_counts(&self) -> impl Fn() -> Option<Vec<RequestCount>> + Send + Sync + use<S> {
        let adapter = Arc::downgrade(&self.adapter);
        move || adapter.upgrade().map(|adapter| adapter.counters().list())
    }

    /// Calls `hook` after the unmount, before the volume is closed: for threads that use the volume. By the time that the
    /// hook returns, they must have dropped it.
    pub fn before_close(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.before_close.push(Box::new(hook));
    }

    /// Serves until unmounted, then closes the volume. `ready` runs once the mount answers; it is told whether this process should stay
    /// in the session of the program that started it ([`crate::preference`]).
    ///
    /// # Errors
    /// The transport or the close of the volume failed; the mount is gone in any case.
    pub fn serve(self, ready: impl FnOnce(bool)) -> Result<(), SessionError> {
        let Self { adapter, transport, uring, request, config, registry, beside, release, before_close } =
            self;
        let mut server = start_control(&request, registry, &beside).inspect_err(|_| {
            let _gone_already = mount::unmount(&request.mountpoint, true);
        })?;
        let served = serve_with_helpers(&adapter, (&transport, uring), &request, config, ready);
        if served.is_err() {
            // The kernel waits for answers that will not come.
            let _gone_already = mount::unmount(&request.mountpoint, true);
        }
        drop(transport);
        // From now on the kernel may give the device number, and with it the socket's name, to the next mount.
        server.stop_listening();
        before_close.into_iter().for_each(|hook| hook());
        adapter.recorder().end();
        let closed = adapter.close();
        // Dropping the last reference drops the volume and its device lock; only then is the volume released.
        drop(adapter);
        release.announce(closed.clone());
        server.finish();
        served?;
        closed.map_err(SessionError::Close)
    }
}

/// Makes the queues over io_uring, if they are wanted, and answers INIT. Returns the queues if the kernel agreed on them.
///
/// # Errors
/// The handshake failed, or io_uring was asked for and cannot be had.
pub(crate) fn begin(
    handler: &dyn Handler,
    transport: &DeviceTransport,
    choice: TransportChoice,
) -> Result<Option<UringTransport>, TransportError> {
    let is_needed = choice == TransportChoice::Uring;
    // Before INIT: once io_uring is agreed on, the kernel waits for its queues.
    let uring = match choice {
        TransportChoice::Dev => None,
        TransportChoice::Auto | TransportChoice::Uring => match UringTransport::new(transport.fd()) {
            Err(error) if is_needed => return Err(TransportError::Ring(error)),
            Err(error) => {
                // Most kernels have it switched off: then nobody expects it.
                if uring::is_switched_on() {
                    tracing::warn!(
                        "FUSE over io_uring cannot be used, requests come through /dev/fuse: {error}"
                    );
                }
                None
            }
            Ok(uring) => Some(uring),
        },
    };
    let is_agreed = transport.handshake(handler, uring.is_some())?;
    if is_needed && !is_agreed {
        return Err(TransportError::NoRing);
    }
    Ok(uring.filter(|_| is_agreed))
}

/// Serves through the queues if there are any. If they cannot be registered, or there are none, serves through `/dev/fuse` with
/// so many threads; `fell_back` is called in the first case.
///
/// # Errors
/// The transport failed, or the queues cannot be registered and nothing else is wanted.
pub(crate) fn serve_requests(
    uring: Option<UringTransport>,
    device: &DeviceTransport,
    handler: &dyn Handler,
    (choice, threads): (TransportChoice, usize),
    fell_back: impl FnOnce(),
) -> Result<(), TransportError> {
    match uring.map(|uring| uring.serve(device, handler)) {
        None => device.serve(handler, threads),
        Some(Err(TransportError::NotRegistered(why))) if choice != TransportChoice::Uring => {
            tracing::warn!("FUSE over io_uring cannot be used, requests come through /dev/fuse: {why}");
            fell_back();
            device.serve(handler, threads)
        }
        Some(served) => served,
    }
}

/// Finds the mount in the table of mounts (a stat of the mountpoint itself would wait for workers that do not run yet).
fn start_control(
    request: &MountRequest,
    registry: Registry,
    beside: &Beside,
) -> Result<Server, SessionError> {
    let mounts = table::firnfs_mounts().map_err(SessionError::Control)?;
    let mount = mounts
        .iter()
        .rev()
        .find(|mount| mount.mountpoint == request.mountpoint)
        .ok_or_else(|| MountError::NotMounted(request.mountpoint.clone()))?;
    mount::tune_page_cache(mount, MAX_WRITE_BYTES);
    beside.present_is(mount.own_device);
    Server::start(mount.own_device, registry).map_err(SessionError::Control)
}

/// Runs workers, background work and signals; all have ended when it returns.
fn serve_with_helpers<S: Engine + 'static>(
    adapter: &Arc<Adapter<S>>,
    (transport, uring): (&DeviceTransport, Option<UringTransport>),
    request: &MountRequest,
    config: SessionConfig,
    ready: impl FnOnce(bool),
) -> Result<(), SessionError> {
    let stop = AtomicBool::new(false);
    let signals = if config.handle_signals { Signals::new([SIGTERM, SIGINT, SIGHUP]).ok() } else { None };
    let signals_handle = signals.as_ref().map(Signals::handle);
    std::thread::scope(|scope| {
        let volume = adapter.volume();
        let background = scope.spawn(|| do_background_work(volume, &stop));
        let mountpoint = request.mountpoint.as_path();
        let on_signals =
            signals.map(|signals| scope.spawn(move || unmount_on_signals(signals, volume, mountpoint)));
        let how = (config.transport, config.threads);
        let serving = scope.spawn(move || {
            serve_requests(uring, transport, &**adapter, how, || adapter.set_over_uring(false))
        });
        probe_open(adapter, mountpoint);
        ready(adapter.is_over_uring() && may_be_preferred());
        let served = serving.join().unwrap_or(Err(TransportError::Panicked));
        stop.store(true, Ordering::SeqCst);
        volume.wake();
        if let Some(handle) = signals_handle {
            handle.close();
        }
        let background = background.join();
        let on_signals = on_signals.map_or(Ok(()), std::thread::ScopedJoinHandle::join);
        served?;
        background.and(on_signals).map_err(|_| TransportError::Panicked.into())
    })
}

/// Opens the probe, so that the kernel learns at once that it need not send OPEN and RELEASE.
fn probe_open<S: Engine>(adapter: &Adapter<S>, mountpoint: &Path) {
    adapter.set_probing(true);
    let opened = std::fs::File::open(mountpoint.join(PROBE_NAME));
    adapter.set_probing(false);
    if let Err(error) = opened {
        tracing::debug!("the probe could not be opened: {error}");
    }
}

fn do_background_work<S: Engine>(volume: &Volume<S>, stop: &AtomicBool) {
    let _promise = volume.promise_background();
    let mut last_error = None;
    let mut is_broken = false;
    while !stop.load(Ordering::SeqCst) {
        match volume.broken() {
            Some(why) if !is_broken => {
                tracing::error!("the volume is read-only from now on: {why}");
                is_broken = true;
            }
            None if is_broken => {
                tracing::warn!("the volume is writable again");
                is_broken = false;
            }
            _ => {}
        }
        let sleep_ms = match volume.background() {
            Ok(sleep_ms) => sleep_ms,
            Err(error) => {
                // Log each error once, not every second.
                if last_error.as_ref() != Some(&error) {
                    tracing::error!("background work: {error}");
                }
                last_error = Some(error);
                1000
            }
        };
        if !stop.load(Ordering::SeqCst) {
            volume.wait_for_work(sleep_ms.min(MAX_SLEEP_MS));
        }
    }
}

/// The first signal makes everything durable and unmounts. A busy mount is detached: it accepts no new users, and is served
/// until the last user is done.
fn unmount_on_signals<S: Engine>(mut signals: Signals, volume: &Volume<S>, mountpoint: &Path) {
    for signal in signals.forever() {
        tracing::info!("signal {signal}: unmounting {}", mountpoint.display());
        if let Err(error) = volume.sync(Scope::All) {
            tracing::error!("sync before the unmount: {error}");
        }
        let outcome = match mount::unmount(mountpoint, false) {
            Err(MountError::Busy(_)) => {
                tracing::warn!(
                    "{} is busy: detached, serving until the last user is done",
                    mountpoint.display()
                );
                mount::unmount(mountpoint, true)
            }
            other => other,
        };
        match outcome {
            // NotMounted: detached by an earlier signal.
            Ok(()) | Err(MountError::NotMounted(_)) => {}
            Err(error) => tracing::error!("{error}"),
        }
    }
}
