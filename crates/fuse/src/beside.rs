//! States beside the present: mounts of older states of the volume, which its daemon serves too.
//!
//! The command mounts, with the rights of its user and where that user sees it, and hands the descriptor of `/dev/fuse` over
//! ([`MOUNT_OP`]). Such a mount ends when it is unmounted, and at the latest with the mount of the volume: then it is detached, and programs
//! that still use it get errors. Each has two threads, one of which only waits for its end, and all together [`SPARE_WORKERS`] more for
//! requests that wait for the device; requests come through `/dev/fuse`, whatever the mount of the volume uses.

use crate::adapter::{Adapter, MAX_WRITE_BYTES, StateHandler};
use crate::control::{ErrorKind, OpError, Registry};
use crate::device::DeviceTransport;
use crate::handover::receive_fd;
use crate::mount::{self, table};
use crate::sockets::{self, Device};
use firnfs::engine::Engine;
use firnfs_format::Epoch;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most states that are mounted at a time: each takes two threads.
const MOUNTS_MAX: usize = 256;
/// Most workers beyond one for each mount, of all mounts together.
const SPARE_WORKERS: usize = 32;
/// How long the daemon waits for the command, and for the kernel's first request, which is there once a file system is mounted.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves a mount that shows a state: a [`StateRequest`], answered with null once the mount works.
pub const MOUNT_OP: &str = "mount_state";

/// See [`MOUNT_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StateRequest {
    /// The state.
    pub epoch: u32,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// Device number of that mount.
    pub device: Device,
    /// The local socket that hands over the descriptor of `/dev/fuse`.
    pub socket: PathBuf,
}

/// The mounted states of a volume.
#[derive(Clone)]
pub(crate) struct Beside(Arc<Shared>);

struct Shared {
    /// Device number of the mount of the volume.
    present: OnceLock<Device>,
    list: Mutex<List>,
    spare: AtomicUsize,
}

#[derive(Default)]
struct List {
    mounts: Vec<Mounted>,
    /// The volume is being closed.
    is_over: bool,
}

struct Mounted {
    mountpoint: PathBuf,
    device: Device,
    /// Ends its workers.
    stop: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

impl Default for Beside {
    fn default() -> Self {
        Self(Arc::new(Shared {
            present: OnceLock::new(),
            list: Mutex::default(),
            spare: AtomicUsize::new(SPARE_WORKERS),
        }))
    }
}

impl Beside {
    /// Registers the operation. The adapter is held weakly, except while a state is mounted.
    pub fn register<S: Engine + 'static>(&self, registry: &mut Registry, adapter: Weak<Adapter<S>>) {
        let beside = self.clone();
        let help = "shows the state of checkpoint 'epoch' through the descriptor that the local socket 'socket' hands over; it is mounted on 'mountpoint' with number 'device'";
        registry.register(MOUNT_OP, help, move |request| {
            let request = StateRequest::deserialize(request)
                .map_err(|e| OpError::new(ErrorKind::InvalidArgument, e.to_string()))?;
            let adapter = adapter.upgrade().ok_or_else(closing)?;
            beside.mount(&adapter, request)?;
            Ok(Value::Null)
        });
    }

    /// Tells the device number of the mount of the volume, under which its control socket is found.
    pub fn present_is(&self, device: Device) {
        let _already_known = self.0.present.set(device);
    }

    fn mount<S: Engine + 'static>(
        &self,
        adapter: &Arc<Adapter<S>>,
        request: StateRequest,
    ) -> Result<(), OpError> {
        let StateRequest { epoch, mountpoint, device, socket } = request;
        let look = adapter.volume().run_quietly(|vfs, _| vfs.root_of_state(Epoch(epoch)));
        let root = look.map_err(|e| OpError::from(&e))?;
        let transport = DeviceTransport::new(handed_over(&socket)?);
        let handler = StateHandler::new(Arc::clone(adapter), root);
        transport.handshake(&handler, false).map_err(failed)?;
        self.serve(transport, handler, mountpoint, device)
    }

    fn serve<S: Engine + 'static>(
        &self,
        transport: DeviceTransport,
        handler: StateHandler<S>,
        mountpoint: PathBuf,
        device: Device,
    ) -> Result<(), OpError> {
        let present = *self.0.present.get().ok_or_else(|| failed("the volume is being mounted"))?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(failed)?);
        let mut list = self.0.list.lock();
        if list.is_over {
            return Err(closing());
        }
        if list.mounts.len() >= MOUNTS_MAX {
            return Err(failed(format!("{MOUNTS_MAX} states are mounted; unmount one first")));
        }
        sockets::lead(device, present).map_err(failed)?;
        let (shared, ends) = (Arc::clone(&self.0), Arc::clone(&stop));
        let place = mountpoint.clone();
        let body = move || {
            if let Err(error) = transport.serve_until(&handler, &shared.spare, &ends) {
                tracing::error!("{}: {error}", place.display());
                detach(&place, device);
            }
            // The volume is closed once nobody holds it any more.
            drop((transport, handler));
            shared.ended(device);
        };
        let started = std::thread::Builder::new().name("firn-state".into()).spawn(body);
        let thread = started.map_err(|error| {
            sockets::lead_no_more(device, present);
            failed(error)
        })?;
        tracing::info!("a state is mounted on {}", mountpoint.display());
        let mounts = table::firnfs_mounts().unwrap_or_default();
        if let Some(mount) = mounts.iter().find(|mount| mount.own_device == device) {
            mount::tune_page_cache(mount, MAX_WRITE_BYTES);
        }
        list.mounts.push(Mounted { mountpoint, device, stop, thread });
        Ok(())
    }

    /// Ends all mounts; there will be no more. Nobody holds the volume for them when it returns.
    pub fn end(&self) {
        let mounts = {
            let mut list = self.0.list.lock();
            list.is_over = true;
            std::mem::take(&mut list.mounts)
        };
        for mounted in &mounts {
            detach(&mounted.mountpoint, mounted.device);
            // It can fail only if it was called 2^64 times.
            let _counted = rustix::io::write(&mounted.stop, &1_u64.to_ne_bytes());
        }
        for mounted in mounts {
            let _panicked = mounted.thread.join();
            self.0.forget_name(mounted.device);
        }
    }
}

impl Shared {
    /// A mount has ended by itself.
    fn ended(&self, device: Device) {
        let mut list = self.list.lock();
        let this = std::thread::current().id();
        let at = list.mounts.iter().position(|mounted| mounted.thread.thread().id() == this);
        let Some(at) = at else { return };
        list.mounts.swap_remove(at);
        // The kernel may have given its number to the next one already.
        if list.mounts.iter().all(|mounted| mounted.device != device) {
            self.forget_name(device);
        }
    }

    fn forget_name(&self, device: Device) {
        if let Some(present) = self.present.get() {
            sockets::lead_no_more(device, *present);
        }
    }
}

/// The descriptor of a new mount.
fn handed_over(socket: &Path) -> Result<OwnedFd, OpError> {
    let stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let fd = receive_fd(&stream).map_err(failed)?;
    let fd = fd.ok_or_else(|| failed("no descriptor was handed over"))?;
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut fds, Some(&patience)).map_err(failed)? {
        0 => Err(failed("the descriptor belongs to no new mount")),
        _ => Ok(fd),
    }
}

/// Detaches a mount, unless something else is mounted there by now. Where this process does not see it, it stays, and is dead.
fn detach(mountpoint: &Path, device: Device) {
    if !table::device_on(mountpoint).is_ok_and(|found| found == Some(device)) {
        return;
    }
    if let Err(error) = mount::unmount(mountpoint, true) {
        tracing::warn!("{error}");
    }
}

fn closing() -> OpError {
    OpError::new(ErrorKind::Closing, "the volume is being closed")
}

fn failed(why: impl ToString) -> OpError {
    OpError::new(ErrorKind::Failed, why.to_string())
}
