//! Registers the operations that a mounted volume offers on its control socket, beyond those of every mount
//! (`firnfs_fuse::session`).

use super::options::MountPlan;
use crate::age;
use crate::quota;
use crate::scrub::service::Service;
use crate::stat::view::Inspect;
use crate::{history, port, resize, retain, stat, tune, watch};
use firnfs::ffs::Ffs;
use firnfs::lfs::Lfs;
use firnfs::mem::MemStore;
use firnfs_fuse::Session;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Begins work of its own accord.
pub type Begin = Box<dyn FnOnce()>;

/// A kind of volume, and the control operations that it offers.
pub trait Operations: Inspect + Sized + 'static {
    /// Adds the operations to a session. The volume is held weakly: it must close after the unmount. Returns what is to be done as soon
    /// as messages go to the daemon's log.
    fn register(volume: &Arc<Volume<Self>>, session: &mut Session<Self>, plan: &MountPlan) -> Begin;
}

impl Operations for MemStore {
    fn register(volume: &Arc<Volume<Self>>, session: &mut Session<Self>, _plan: &MountPlan) -> Begin {
        stat::register(session.registry_mut(), Arc::downgrade(volume));
        quota::service::register(session.registry_mut(), Arc::downgrade(volume));
        Box::new(|| ())
    }
}

impl Operations for Ffs {
    fn register(volume: &Arc<Volume<Self>>, session: &mut Session<Self>, _plan: &MountPlan) -> Begin {
        stat::register(session.registry_mut(), Arc::downgrade(volume));
        age::service::register(session.registry_mut(), Arc::downgrade(volume));
        quota::service::register(session.registry_mut(), Arc::downgrade(volume));
        Box::new(|| ())
    }
}

impl Operations for Lfs {
    fn register(volume: &Arc<Volume<Self>>, session: &mut Session<Self>, plan: &MountPlan) -> Begin {
        let weak = Arc::downgrade(volume);
        stat::register(session.registry_mut(), weak.clone());
        age::service::register(session.registry_mut(), weak.clone());
        port::register(session.registry_mut(), weak.clone());
        quota::service::register(session.registry_mut(), weak.clone());
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
