//! All operations of the control socket are registered here, except those that every mount has: these are in
//! `firnfs_fuse::session::operations`, in one function. docs/internals/control.md describes both, and a test holds it to what a
//! daemon answers to `help`.

use super::notify;
use super::options::MountPlan;
use crate::age;
use crate::failure::Done;
use crate::freeze;
use crate::metrics;
use crate::quota;
use crate::scrub::service::Service;
use crate::stat::view::Inspect;
use crate::{history, port, resize, retain, stat, tune, watch};
use firnfs::ffs::Ffs;
use firnfs::lfs::Lfs;
use firnfs::mem::MemStore;
use firnfs_fuse::Session;
use firnfs_volume::Volume;
use std::path::Path;
use std::sync::Arc;

/// Begins work of its own accord.
pub type Begin = Box<dyn FnOnce()>;

/// Adds all operations to a session, and what ends their work before the volume is closed. They hold the volume weakly: it must close
/// after the unmount. `metrics` is served with the given source of the volume. Returns what is to be done as soon as messages go to the
/// daemon's log.
///
/// # Errors
/// The thread that serves the metrics cannot be started.
pub fn register<S: Operations>(
    volume: &Arc<Volume<S>>,
    session: &mut Session<S>,
    plan: &MountPlan,
    metrics: Option<(metrics::Listener, &Path)>,
) -> Done<Begin> {
    stat::register(session.registry_mut(), Arc::downgrade(volume));
    quota::service::register(session.registry_mut(), Arc::downgrade(volume));
    // A freeze ends first: what is ended after it may wait for the thaw, as a resize does.
    freeze::service::register(volume, session);
    let begin = S::register_own(volume, session, plan);
    if !plan.daemon {
        session.before_close(notify::stopping);
    }
    if let Some((listener, source)) = metrics {
        metrics::serve(listener, volume, session, source)?;
    }
    Ok(begin)
}

/// A kind of volume, and the operations that not every kind has.
pub trait Operations: Inspect + Sized + 'static {
    /// As [`register`], which calls it.
    fn register_own(volume: &Arc<Volume<Self>>, session: &mut Session<Self>, plan: &MountPlan) -> Begin;
}

impl Operations for MemStore {
    fn register_own(_volume: &Arc<Volume<Self>>, _session: &mut Session<Self>, _plan: &MountPlan) -> Begin {
        Box::new(|| ())
    }
}

impl Operations for Ffs {
    fn register_own(volume: &Arc<Volume<Self>>, session: &mut Session<Self>, _plan: &MountPlan) -> Begin {
        age::service::register(session.registry_mut(), Arc::downgrade(volume));
        Box::new(|| ())
    }
}

impl Operations for Lfs {
    fn register_own(volume: &Arc<Volume<Self>>, session: &mut Session<Self>, plan: &MountPlan) -> Begin {
        let weak = Arc::downgrade(volume);
        age::service::register(session.registry_mut(), weak.clone());
        port::register(session.registry_mut(), weak.clone());
        retain::service::register(session.registry_mut(), weak.clone());
        tune::service::register(session.registry_mut(), weak.clone(), plan);
        let sizes = resize::service::Service::new(weak.clone());
        sizes.register(session.registry_mut());
        history::service::register(session.registry_mut(), weak.clone());
        history::clone::register(session.registry_mut(), weak.clone());
        let sends = history::send::Service::new(weak.clone());
        sends.register(session.registry_mut());
        watch::service::register(session.registry_mut(), weak.clone());
        let checks = Service::new(weak);
        checks.register(session.registry_mut());
        let has_crashed = volume
            .run(|vfs, _| Ok(!vfs.store().recovered().was_clean && vfs.read_only().is_none()))
            .is_ok_and(|has_crashed| has_crashed);
        let ending = Arc::clone(&checks);
        session.before_close(move || {
            sends.end();
            sizes.end();
            ending.end();
        });
        Box::new(move || {
            if has_crashed {
                checks.check_after_crash();
            }
        })
    }
}
