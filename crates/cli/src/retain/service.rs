//! The daemon's side of `firn retain`: an operation of the control socket.

use super::{Change, RetentionView, rules};
use crate::socket::{self, answer, arguments};
use firnfs::lfs::Lfs;
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_volume::Volume;
use std::sync::Weak;

/// Which states are kept.
pub const RETAIN_OP: &str = "retain";

/// Registers the operation. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>) {
    registry.register(RETAIN_OP, "shows or sets which states of the volume are kept", move |request| {
        let volume = socket::open(&volume)?;
        let change: Change = arguments(request)?;
        answer(&self::change(&volume, &change)?)
    });
}

/// Makes a change, if it is one, and says what is kept then.
///
/// # Errors
/// `InvalidArgument` for rules that are none; read-only, or the device failed.
pub fn change(volume: &Volume<Lfs>, change: &Change) -> Result<RetentionView, OpError> {
    let now = |volume: &Volume<Lfs>| {
        volume
            .run_quietly(|vfs, _| Ok((vfs.store().retention().clone(), vfs.store().past_bytes())))
            .map_err(|e| OpError::from(&e))
    };
    let (before, _) = now(volume)?;
    let after = change.apply(&before).map_err(|why| OpError::new(ErrorKind::InvalidArgument, why))?;
    if after != before {
        firnfs_manage::set_retention(volume, &after).map_err(|e| OpError::from(&e))?;
    }
    let (retention, held_bytes) = now(volume)?;
    Ok(RetentionView { keep: rules::text(&retention.rules), at_most_percent: retention.percent, held_bytes })
}
