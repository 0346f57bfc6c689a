//! The daemon's side of `firn quota`: operations of the control socket.

use super::view::{CheckView, ClassView, ReportView};
use crate::socket::{self, answer, arguments};
use firnfs::engine::Engine;
use firnfs::vfs::LimitChange;
use firnfs::{FsError, Outcome};
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_volume::Volume;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Weak;

/// Usage and limits.
pub const REPORT_OP: &str = "quota";
/// On or off.
pub const SWITCH_OP: &str = "quota_switch";
/// Limits and grace times.
pub const SET_OP: &str = "quota_set";
/// Counts again.
pub const CHECK_OP: &str = "quota_check";

#[derive(Deserialize)]
struct Switch {
    on: bool,
}

/// Limits of the user or group `id`; or, without one, the grace times of all of its class.
#[derive(Deserialize)]
struct Set {
    class: ClassView,
    id: Option<u32>,
    bytes_soft: Option<u64>,
    bytes_hard: Option<u64>,
    inodes_soft: Option<u64>,
    inodes_hard: Option<u64>,
    grace_s: Option<u32>,
}

/// Registers the operations. The volume is held weakly: it must close after the unmount.
pub fn register<S: Engine + 'static>(registry: &mut Registry, volume: Weak<Volume<S>>) {
    let with = move |operation: fn(&Volume<S>, &Value) -> Result<Value, OpError>| {
        let volume = volume.clone();
        move |request: &Value| operation(&*socket::open(&volume)?, request)
    };
    registry.register(REPORT_OP, "usage and limits of users and groups", with(report));
    registry.register(SWITCH_OP, "turns quotas on or off", with(switch));
    registry.register(SET_OP, "sets limits of a user or group, or grace times", with(set));
    registry.register(CHECK_OP, "counts again what users and groups have", with(check));
}

fn report<S: Engine>(volume: &Volume<S>, _request: &Value) -> Result<Value, OpError> {
    let view = volume.run_quietly(|vfs, now| Ok(ReportView::of(&vfs.quota_report(now)?, now.0)));
    answer(&view.map_err(|e| OpError::from(&e))?)
}

fn switch<S: Engine>(volume: &Volume<S>, request: &Value) -> Result<Value, OpError> {
    let Switch { on } = arguments(request)?;
    volume.turn_quotas(on).map_err(|e| OpError::from(&e))?;
    Ok(Value::Null)
}

fn set<S: Engine>(volume: &Volume<S>, request: &Value) -> Result<Value, OpError> {
    let set: Set = arguments(request)?;
    let class = set.class.into();
    let change = LimitChange {
        bytes_soft: set.bytes_soft,
        bytes_hard: set.bytes_hard,
        inodes_soft: set.inodes_soft,
        inodes_hard: set.inodes_hard,
    };
    let done = volume.run(|vfs, now| -> Outcome<()> {
        match set.id {
            Some(id) => vfs.set_limits(now, class, id, change),
            None => vfs.set_grace(now, class, set.grace_s, set.grace_s),
        }
    });
    match done {
        Err(FsError::Invalid(why)) => Err(OpError::new(ErrorKind::InvalidArgument, why)),
        other => other.map(|()| Value::Null).map_err(|e| OpError::from(&e)),
    }
}

fn check<S: Engine>(volume: &Volume<S>, _request: &Value) -> Result<Value, OpError> {
    let differences = volume.recount_quotas().map_err(|e| OpError::from(&e))?;
    let differences = differences.ok_or_else(|| {
        OpError::new(
            ErrorKind::InvalidArgument,
            "quotas are off, so nothing is counted (turn them on with --on)",
        )
    })?;
    answer(&CheckView::from(differences))
}
