//! The daemon's side of `firn snapshot`, and of all commands that list states: operations of the control socket.
//!
//! Callers: `mounting::operations`; the commands, which read the answers, and use the same functions on volumes that are not
//! mounted.

use super::changed::changed;
use crate::socket;
use firnfs::FsError;
use firnfs::lfs::{Lfs, title};
use firnfs::states::{in_view, view_of};
use firnfs::store::Store;
use firnfs_format::checkpoint::Point;
use firnfs_format::{Epoch, InodeNo};
use firnfs_fuse::control::{OpError, Registry};
use firnfs_manage::LogVolume;
use firnfs_volume::Volume;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Weak;

/// Answers with a [`HistoryView`].
pub const HISTORY_OP: &str = "history";
/// Answers with the bytes that deleting each of some states would give back; null for a state that is gone: a [`HeldRequest`].
pub const HELD_OP: &str = "held_by_states";
/// Names an automatic state, which is then kept: a [`HoldRequest`], answered when that is durable.
pub const HOLD_OP: &str = "hold_state";
/// Answers with the inodes that differ between two states and names that lead to them: a [`ChangedRequest`].
pub const CHANGED_OP: &str = "changed_names";

/// See [`HELD_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldRequest {
    /// Which states.
    pub epochs: Vec<u32>,
}

/// See [`HOLD_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoldRequest {
    /// Which state.
    pub epoch: u32,
    /// Its name from now on.
    pub name: String,
}

/// See [`CHANGED_OP`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ChangedRequest {
    /// A state.
    pub first: u32,
    /// A newer one; without it, the present.
    pub second: Option<u32>,
    /// The inode number of the directory below which to look for names.
    pub below: u64,
}

/// Makes a snapshot: a [`MakeRequest`], answered with its [`PointView`] when it is durable.
pub const SNAPSHOT_OP: &str = "snapshot";
/// Deletes a state: a [`DropRequest`], answered when that is durable.
pub const DROP_OP: &str = "drop_snapshot";
/// Answers with the times of birth of inodes in the present, in nanoseconds; null for an inode that does not exist: a
/// [`BirthsRequest`].
pub const BIRTHS_OP: &str = "births";

/// See [`BIRTHS_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BirthsRequest {
    /// Inode numbers.
    pub inodes: Vec<u64>,
}

/// Answers with the full permissions that inodes had in a state, including those taken away since; null for an inode that the
/// state does not have: a [`ModesRequest`].
pub const MODES_OP: &str = "modes_then";

/// See [`MODES_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModesRequest {
    /// Which state.
    pub epoch: u32,
    /// Inode numbers in the present.
    pub inodes: Vec<u64>,
}

/// See [`SNAPSHOT_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MakeRequest {
    /// The name of the snapshot.
    pub name: String,
}

/// See [`DROP_OP`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct DropRequest {
    /// Which state.
    pub epoch: u32,
}

/// The retained states of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryView {
    /// Oldest first.
    pub points: Vec<PointView>,
    /// Bytes that only these states hold.
    pub past_bytes: u64,
}

/// A retained state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PointView {
    /// The name under which users find it.
    pub name: String,
    /// Number of its checkpoint.
    pub epoch: u32,
    /// When it was made.
    pub time_ns: i64,
    /// Live bytes of the volume then.
    pub live_bytes: u64,
    /// It was made automatically; retention may drop it.
    pub is_automatic: bool,
}

impl From<&Point> for PointView {
    fn from(point: &Point) -> Self {
        Self {
            name: title(point),
            epoch: point.epoch.0,
            time_ns: point.time.0,
            live_bytes: point.live_bytes,
            is_automatic: point.is_automatic,
        }
    }
}

/// Registers the operations. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>) {
    let [for_list, for_held, for_make, for_hold, for_changed, for_births, for_modes] =
        std::array::from_fn(|_| volume.clone());
    let help = "the retained states of the volume, and the bytes that only they hold";
    registry.register(HISTORY_OP, help, move |_| {
        socket::answer(&history(&*socket::open(&for_list)?).map_err(|e| OpError::from(&e))?)
    });
    let help = "bytes that deleting each of the states of checkpoints 'epochs' alone would give back; null for one that is gone";
    registry.register(HELD_OP, help, move |request| {
        let HeldRequest { epochs } = socket::arguments(request)?;
        let volume = socket::open(&for_held)?;
        let all: Result<Vec<_>, _> = epochs.iter().map(|epoch| held(&volume, *epoch)).collect();
        socket::answer(&all.map_err(|e| OpError::from(&e))?)
    });
    let help = "gives the automatic state of checkpoint 'epoch' a name, under which it stays";
    registry.register(HOLD_OP, help, move |request| {
        let HoldRequest { epoch, name } = socket::arguments(request)?;
        let volume = socket::open(&for_hold)?;
        firnfs_manage::name_point(&volume, Epoch(epoch), &name).map_err(|e| OpError::from(&e))?;
        Ok(Value::Null)
    });
    let help = "the inodes that differ between the states of checkpoints 'first' and 'second', and names in the directory 'below' that lead to them";
    registry.register(CHANGED_OP, help, move |request| {
        let request = socket::arguments(request)?;
        let volume = socket::open(&for_changed)?;
        socket::answer(&changed(&volume, &request).map_err(|e| OpError::from(&e))?)
    });
    let help = "makes the present state a snapshot called 'name', and waits until it is durable";
    registry.register(SNAPSHOT_OP, help, move |request| {
        let MakeRequest { name } = socket::arguments(request)?;
        let point = socket::open(&for_make)?.make_point(&name).map_err(|e| OpError::from(&e))?;
        tracing::info!("snapshot {name} made");
        socket::answer(&PointView::from(&point))
    });
    let help = "when each of 'inodes' was made, in nanoseconds since 1970; null for one that is not there";
    registry.register(BIRTHS_OP, help, move |request| {
        let BirthsRequest { inodes } = socket::arguments(request)?;
        socket::answer(&births(&*socket::open(&for_births)?, &inodes).map_err(|e| OpError::from(&e))?)
    });
    let help = "the permissions that each of 'inodes' had in the state of checkpoint 'epoch', in full";
    registry.register(MODES_OP, help, move |request| {
        let request: ModesRequest = socket::arguments(request)?;
        socket::answer(&modes(&*socket::open(&for_modes)?, &request).map_err(|e| OpError::from(&e))?)
    });
    let help = "deletes the retained state of checkpoint 'epoch'";
    registry.register(DROP_OP, help, move |request| {
        let DropRequest { epoch } = socket::arguments(request)?;
        let volume = socket::open(&volume)?;
        volume.drop_point(Epoch(epoch)).map_err(|e| match clone_of(&volume, Epoch(epoch)) {
            Some(name) => OpError {
                message: format!("clone '{name}' was made from it, and still exists"),
                ..OpError::from(&e)
            },
            None => OpError::from(&e),
        })?;
        Ok(Value::Null)
    });
}

/// The name of an existing clone of a state.
fn clone_of(volume: &Volume<Lfs>, epoch: Epoch) -> Option<String> {
    let clone = volume.run_quietly(|vfs, _| Ok(vfs.store().clone_of(epoch).map(str::to_owned)));
    clone.ok().flatten()
}

/// The bytes that deleting a state of an open volume would give back; `None` if retention has dropped it meanwhile.
///
/// # Errors
/// `Io`; `Corrupt` if the bytes cannot be counted.
pub fn held(volume: &Volume<Lfs>, epoch: u32) -> Result<Option<u64>, FsError> {
    match volume.held_by_point(Epoch(epoch)) {
        Err(FsError::NotFound | FsError::Stale) => Ok(None),
        counted => counted.map(Some),
    }
}

/// The retained states of an open volume.
///
/// # Errors
/// `Io`, `Corrupt`.
pub fn history(volume: &Volume<Lfs>) -> Result<HistoryView, FsError> {
    let points = volume.points()?.iter().map(PointView::from).collect();
    let past_bytes = volume.run_quietly(|vfs, _| Ok(vfs.store().past_bytes()))?;
    Ok(HistoryView { points, past_bytes })
}

fn births(volume: &Volume<Lfs>, inodes: &[u64]) -> Result<Vec<Option<i64>>, FsError> {
    let birth = |&ino: &u64| match volume.run_quietly(|vfs, _| vfs.getattr(InodeNo(ino))) {
        // An inode without a name exists only because a program has it open.
        Ok(attr) => Ok((attr.nlink > 0).then_some(attr.btime.0)),
        Err(FsError::NotFound | FsError::Stale) => Ok(None),
        Err(error) => Err(error),
    };
    inodes.iter().map(birth).collect()
}

fn modes(volume: &Volume<Lfs>, request: &ModesRequest) -> Result<Vec<Option<u16>>, FsError> {
    let root = volume.run_quietly(|vfs, _| vfs.store_mut().look_into(Epoch(request.epoch)))?;
    let mode = |&number: &u64| {
        let ino = in_view(view_of(root), InodeNo(number));
        match volume.run_quietly(|vfs, _| Ok(vfs.store_mut().inode(ino)?.mode)) {
            Ok(mode) => Ok(Some(mode)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    };
    request.inodes.iter().map(mode).collect()
}
