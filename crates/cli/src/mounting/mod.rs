//! `firn mount`, `firn umount`, `firn sync`: a thin layer around the `firnfs-fuse` library.
//!
//! `options` resolves the command line, `daemon` goes to the background, `open` opens the volume, `release` is the
//! client of a running daemon. Callers: `main`, with the `Args` structs defined here.
//!
//! - `bounds`, `thresholds`: what settings with a number take; the cleaner's marks. `tags`, `udev`: volumes by label or UUID.
//! - `helper`, `fake`, `namespace`: what mount(8) and its like ask of their helpers, `-f` and `-N` among it. `remount`:
//!   `-o remount`. `past`: `IMAGE@STATE`. `switch`: `--enable-uring`.
//! - `operations`: what the daemon offers on its control socket. `log`: its messages. `notify`: what it tells systemd.

pub mod bounds;
mod daemon;
mod fake;
mod helper;
mod log;
mod namespace;
mod notify;
mod open;
mod operations;
mod options;
mod past;
mod release;
mod remount;
mod switch;
mod tags;
pub mod thresholds;
mod udev;

pub use helper::command_line;
pub use options::{MountArgs, MountPlan};
pub use release::{SyncArgs, UmountArgs, sync, umount};
pub use tags::all as tags_of_volumes;
pub use udev::{UdevArgs, udev_id};

use crate::failure::{Done, Exit, Failure};
use crate::metrics;
use firnfs_fuse::record::RecordError;
use firnfs_fuse::{MountError, MountRequest, Session, SessionConfig, SessionError};
use firnfs_volume::Volume;
use operations::Operations;
use std::path::PathBuf;
use std::sync::Arc;

/// Mounts a volume. In the foreground it returns after the unmount, otherwise once the mount works.
///
/// # Errors
/// The command line is invalid, the volume cannot be opened, or it cannot be mounted there.
pub fn mount(args: &MountArgs) -> Done {
    if args.enables_uring() {
        switch::enable_uring()?;
        if !args.has_paths() {
            return Ok(());
        }
    }
    let plan = args.resolve()?;
    namespace::enter_for(&plan)?;
    if plan.fake {
        return fake::check(&plan);
    }
    if plan.mount_options.remount {
        return remount::remount(args, &plan);
    }
    if !plan.daemon && past::mount_beside(&plan)? {
        return Ok(());
    }
    if !plan.foreground && !plan.daemon {
        return daemon::start();
    }
    log::start(plan.verbose);
    firnfs_fuse::become_io_flusher();
    let served = open::open_and_serve(&plan);
    match served {
        // The waiting process or the log reports it: do not repeat it here.
        Err(failure) if plan.daemon => {
            daemon::report_failure(&failure);
            std::process::exit(i32::from(failure.exit as u8))
        }
        served => served,
    }
}

/// Mounts an open volume and serves it to the end. `source` is the source that `mount` shows.
fn serve<S: Operations>(volume: Arc<Volume<S>>, source: PathBuf, plan: &MountPlan) -> Done {
    let request =
        MountRequest { source, mountpoint: plan.mountpoint.clone(), options: plan.mount_options.clone() };
    // Before the mount: an address that is in use must not leave one behind.
    let metrics = plan.metrics.map(metrics::Listener::bind).transpose()?;
    let source = request.source.clone();
    let config = SessionConfig {
        transport: plan.transport,
        threads: plan.threads,
        settings: plan.settings,
        handle_signals: true,
    };
    let mut session = Session::mount_recorded(Arc::clone(&volume), request, config, plan.record.as_ref())
        .map_err(|e| failure_of(&e))?;
    let metrics = metrics.map(|listener| (listener, source.as_path()));
    let begin = operations::register(&volume, &mut session, plan, metrics)?;
    drop(volume);
    // A daemon must not keep a directory busy. By now the session has absolute paths.
    std::env::set_current_dir("/")
        .map_err(|e| Failure::io("cannot change to", std::path::Path::new("/"), &e))?;
    let mut detached = Ok(());
    let served = session.serve(|stays_in_session| {
        if !plan.daemon {
            begin();
            return notify::ready(&plan.mountpoint);
        }
        detached = daemon::direct_messages(plan.log.as_deref()).and_then(|()| {
            begin();
            daemon::detach(stays_in_session)
        });
    });
    served.map_err(|e| failure_of(&e))?;
    detached
}

fn failure_of(error: &SessionError) -> Failure {
    let exit = match error {
        SessionError::Mount(
            MountError::ForeignDeadMount(_) | MountError::Busy(_) | MountError::OpenForWriting(_),
        ) => Exit::Refused,
        SessionError::Record(RecordError::Exists(_) | RecordError::OnItself(_)) => Exit::Refused,
        SessionError::Mount(MountError::Mountpoint { .. }) => Exit::Usage,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}
