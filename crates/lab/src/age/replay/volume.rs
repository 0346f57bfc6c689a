//! A target: a volume of firnfs in this process. Its clock shows the time of the workload, so that files have the right ages. The
//! same thread does background work when it is due, so the same workload makes the same requests to the device.

use super::posix::content;
use super::{Fault, Spot, Target};
use crate::error::LabError;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::store::Scope;
use firnfs::vfs::{Caller, NewNode, RenameMode, SetAttr};
use firnfs_device::Clock;
use firnfs_format::InodeNo;
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::BTreeMap;

/// Bytes of one write.
const WRITE_BYTES: usize = 64 << 10;
const SUPERUSER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// See the module's head.
pub struct OnVolume<'a, S: Engine> {
    volume: &'a Volume<S>,
    clock: &'a VirtualClock,
    work_due_ns: i64,
    content: Vec<u8>,
    dirs: BTreeMap<String, InodeNo>,
    /// The file that was used last.
    last: Option<(Spot, InodeNo)>,
}

fn failed(action: &'static str) -> impl Fn(FsError) -> LabError {
    move |source| LabError::Volume { action, source }
}

fn fault(action: &'static str) -> impl Fn(FsError) -> Fault {
    move |source| match source {
        FsError::NoSpace => Fault::NoRoom,
        source => Fault::Failed(LabError::Volume { action, source }),
    }
}

/// The clock for a volume: it shows the time of a workload's beginning, in nanoseconds since 1970.
#[must_use]
pub fn clock_at(start_ns: i64) -> VirtualClock {
    VirtualClock::at(start_ns)
}

impl<'a, S: Engine> OnVolume<'a, S> {
    /// A volume, and the clock that it was opened with.
    #[must_use]
    pub fn new(volume: &'a Volume<S>, clock: &'a VirtualClock) -> Self {
        let content = content(2 * WRITE_BYTES);
        Self { volume, clock, work_due_ns: 0, content, dirs: BTreeMap::new(), last: None }
    }

    fn find(&self, parent: InodeNo, name: &str) -> Result<InodeNo, FsError> {
        self.volume.run(|vfs, now| vfs.lookup(now, parent, name.as_bytes(), false)).map(|attr| attr.ino)
    }

    fn dir(&mut self, spot: &Spot) -> Result<InodeNo, Fault> {
        let Some(name) = spot.dir() else { return Ok(InodeNo::ROOT) };
        if let Some(&ino) = self.dirs.get(&name) {
            return Ok(ino);
        }
        let ino = self.find(InodeNo::ROOT, &name).map_err(fault("look up"))?;
        self.dirs.insert(name, ino);
        Ok(ino)
    }

    fn file(&mut self, spot: &Spot) -> Result<InodeNo, Fault> {
        if let Some((_, ino)) = self.last.filter(|(last, _)| last == spot) {
            return Ok(ino);
        }
        let dir = self.dir(spot)?;
        let ino = self.find(dir, &spot.name()).map_err(fault("look up"))?;
        self.last = Some((*spot, ino));
        Ok(ino)
    }

    fn make(&self, parent: InodeNo, name: &str, kind: Kind, mode: u16) -> Result<InodeNo, FsError> {
        let node = NewNode { kind, mode, rdev: 0, target: b"" };
        let made = self.volume.run(|vfs, now| vfs.make(now, SUPERUSER, parent, name.as_bytes(), node, false));
        made.map(|attr| attr.ino)
    }

    fn set(&mut self, spot: &Spot, set: SetAttr) -> Result<(), Fault> {
        let ino = self.file(spot)?;
        self.volume.run(|vfs, now| vfs.setattr(now, ino, set)).map(drop).map_err(fault("change attributes"))
    }

    fn entries(&self, dir: InodeNo) -> Result<Vec<(String, InodeNo)>, LabError> {
        let mut all = Vec::new();
        let mut cookie = 0;
        loop {
            let listed = self.volume.run(|vfs, now| {
                let mut found = Vec::new();
                vfs.readdir(now, dir, cookie, &mut |entry| {
                    found.push((entry.next, entry.ino, String::from_utf8_lossy(entry.name).into_owned()));
                    found.len() < 1024
                })?;
                Ok(found)
            });
            let found = listed.map_err(failed("list a directory"))?;
            let Some((next, ..)) = found.last() else { return Ok(all) };
            cookie = *next;
            let named = found.into_iter().map(|(_, ino, name)| (name, ino));
            all.extend(named.filter(|(name, _)| name != "." && name != ".."));
        }
    }
}

impl<S: Engine> Target for OnVolume<'_, S> {
    fn at(&mut self, time_ns: i64) -> Result<(), LabError> {
        if time_ns > self.clock.now_ns() {
            self.clock.set_ns(time_ns);
        }
        if self.clock.now_ns() >= self.work_due_ns {
            let sleep_ms = self.volume.background().map_err(failed("do background work"))?;
            let sleep_ns = i64::try_from(sleep_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
            self.work_due_ns = self.clock.now_ns().saturating_add(sleep_ns);
        }
        Ok(())
    }

    fn mkdir(&mut self, dir: &str) -> Result<(), Fault> {
        let ino = self.make(InodeNo::ROOT, dir, Kind::Directory, 0o755).map_err(fault("make a directory"))?;
        self.dirs.insert(dir.to_owned(), ino);
        Ok(())
    }

    fn rmdir(&mut self, dir: &str) -> Result<(), Fault> {
        self.dirs.remove(dir);
        let removed = self.volume.run(|vfs, now| vfs.rmdir(now, InodeNo::ROOT, dir.as_bytes()));
        removed.map_err(fault("remove a directory"))
    }

    fn create(&mut self, spot: &Spot) -> Result<(), Fault> {
        let dir = self.dir(spot)?;
        let ino = self.make(dir, &spot.name(), Kind::Regular, 0o644).map_err(fault("make a file"))?;
        self.last = Some((*spot, ino));
        Ok(())
    }

    fn write(&mut self, spot: &Spot, at_bytes: u64, len_bytes: u64) -> Result<(), Fault> {
        let ino = self.file(spot)?;
        let end_bytes = at_bytes.saturating_add(len_bytes);
        for at in (at_bytes..end_bytes).step_by(WRITE_BYTES) {
            let len = (end_bytes - at).min(WRITE_BYTES as u64) as usize;
            let from = (at / 8).wrapping_add(len_bytes) as usize % WRITE_BYTES;
            let bytes = &self.content[from..from + len];
            self.volume.write_all(ino, at, bytes, false).map_err(fault("write"))?;
        }
        Ok(())
    }

    fn truncate(&mut self, spot: &Spot, size_bytes: u64) -> Result<(), Fault> {
        self.set(spot, SetAttr { size_bytes: Some(size_bytes), ..SetAttr::default() })
    }

    fn chmod(&mut self, spot: &Spot, mode: u32) -> Result<(), Fault> {
        self.set(spot, SetAttr { mode: Some(mode as u16 & 0o777), ..SetAttr::default() })
    }

    fn rename(&mut self, from: &Spot, to: &Spot) -> Result<(), Fault> {
        let (old, new) = (self.dir(from)?, self.dir(to)?);
        let (from, to) = (from.name(), to.name());
        self.last = None;
        let renamed = self.volume.run(|vfs, now| {
            vfs.rename(now, (old, from.as_bytes()), (new, to.as_bytes()), RenameMode::NoReplace)
        });
        renamed.map_err(fault("move"))
    }

    fn unlink(&mut self, spot: &Spot) -> Result<(), Fault> {
        let (dir, name) = (self.dir(spot)?, spot.name());
        self.last = None;
        self.volume.run(|vfs, now| vfs.unlink(now, dir, name.as_bytes())).map_err(fault("delete"))
    }

    fn close(&mut self, spot: &Spot) -> Result<(), Fault> {
        let ino = self.file(spot)?;
        self.volume.file_closed(ino).map_err(fault("close"))
    }

    fn list(&mut self) -> Result<BTreeMap<String, Option<u64>>, LabError> {
        let mut found = BTreeMap::new();
        let mut todo = vec![(InodeNo::ROOT, String::new())];
        while let Some((dir, prefix)) = todo.pop() {
            let entries = self.entries(dir)?;
            if let (true, Some(dir)) = (entries.is_empty(), prefix.strip_suffix('/')) {
                found.insert(dir.to_owned(), None);
            }
            for (name, ino) in entries {
                let attr = self.volume.run(|vfs, _| vfs.getattr(ino)).map_err(failed("examine a file"))?;
                let name = format!("{prefix}{name}");
                match attr.kind {
                    Kind::Directory if !super::is_not_ours(&name) => todo.push((ino, name + "/")),
                    _ => {
                        found.insert(name, Some(attr.size_bytes));
                    }
                }
            }
        }
        Ok(found)
    }

    fn load(&mut self, name: &str) -> Result<Option<Vec<u8>>, LabError> {
        let ino = match self.find(InodeNo::ROOT, name) {
            Ok(ino) => ino,
            Err(FsError::NotFound) => return Ok(None),
            Err(why) => return Err(failed("look up")(why)),
        };
        let attr = self.volume.run(|vfs, _| vfs.getattr(ino)).map_err(failed("examine a file"))?;
        let mut bytes = vec![0; usize::try_from(attr.size_bytes.min(64 << 20)).unwrap_or(0)];
        let len = self.volume.read(ino, 0, &mut bytes).map_err(failed("read"))?;
        bytes.truncate(len);
        Ok(Some(bytes))
    }

    fn save(&mut self, name: &str, content: Option<&[u8]>) -> Result<(), LabError> {
        match self.volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, name.as_bytes())) {
            Ok(()) | Err(FsError::NotFound) => {}
            Err(why) => return Err(failed("delete")(why)),
        }
        if let Some(content) = content {
            let made = self.make(InodeNo::ROOT, name, Kind::Regular, 0o644).map_err(failed("make a file"))?;
            self.volume.write_all(made, 0, content, false).map_err(failed("write"))?;
        }
        self.volume.sync(Scope::All).map_err(failed("sync"))
    }
}
