//! Sends retained points, and receives them into another volume.

use super::{Firn, OpenVolume};
use crate::crash::tree::Tree;
use firnfs::engine::Engine;
use firnfs::lfs::{Lfs, MkfsOptions};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Device, MemDevice};
use firnfs_format::Epoch;
use firnfs_manage::{StreamReader, receive, send};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Size of a volume that receives, in bytes: a stream is held back to its end.
const REPLICA_BYTES: u64 = 64 << 20;

/// Sends what a point has and an older one does not have, from a byte of the stream on.
pub(crate) type SendPoint<S> = fn(&Volume<S>, Option<Epoch>, Epoch, u64) -> Result<Vec<u8>, String>;

impl<S: Engine> OpenVolume<S> {
    /// The names of the points that nobody has begun to drop, oldest first; none if their streams cannot be compared.
    pub(super) fn names_by_age(&self) -> Result<Vec<String>, String> {
        if self.is_resized {
            return Ok(Vec::new());
        }
        let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        let names = self.states(|state| name(state.name)).map_err(|e| e.to_string())?;
        Ok(names.into_iter().flatten().collect())
    }

    /// The stream from one point to another, from a byte on.
    pub(super) fn stream(&self, from: Option<&str>, to: &str, skip_bytes: u64) -> Result<Vec<u8>, String> {
        // Nothing that is due comes between: a run has the same operations whether it sends or not.
        let _promise = self.volume.promise_background();
        let known = self.states(|state| (state.name.to_owned(), state.epoch)).map_err(|e| e.to_string())?;
        let epoch = |name: &str| {
            let found = known.iter().find(|(known, _)| known == name);
            found.map(|(_, epoch)| *epoch).ok_or_else(|| format!("there is no point {name:?}"))
        };
        (self.keeper.send)(&self.volume, from.map(epoch).transpose()?, epoch(to)?, skip_bytes)
    }
}

pub(super) fn send_point(
    volume: &Volume<Lfs>,
    from: Option<Epoch>,
    to: Epoch,
    skip_bytes: u64,
) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let sent = send(volume, from, to, skip_bytes, &mut bytes, &mut |_| true).map_err(|e| e.to_string())?;
    match sent.bytes == bytes.len() as u64 + skip_bytes {
        true => Ok(bytes),
        false => Err(format!("{} bytes besides {skip_bytes} are said to be {}", bytes.len(), sent.bytes)),
    }
}

impl Firn {
    /// What a new volume shows that has received these points, one after another.
    pub(super) fn replica_of(&self, streams: &[(String, Vec<u8>)]) -> Result<Tree, String> {
        let mkfs = MkfsOptions { size_bytes: REPLICA_BYTES, uuid: *b"explorer replica", ..self.mkfs.clone() };
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(REPLICA_BYTES));
        firnfs_manage::format(&*device, &mkfs).map_err(|e| e.to_string())?;
        for (name, bytes) in streams {
            let clock: Arc<dyn Clock> = Arc::new(VirtualClock::at(super::START_NS));
            let volume = firnfs_manage::open(device.clone(), self.options, AtimeMode::Noatime, clock);
            let mut input = &bytes[..];
            let mut reader = StreamReader::new(&mut input).map_err(|e| e.to_string())?;
            receive(volume.map_err(|e| e.to_string())?, &mut reader, name, &mut |_, _| {})
                .map_err(|e| format!("point {name:?}: {e}"))?;
        }
        self.checked(device)?.walk(None)
    }
}
