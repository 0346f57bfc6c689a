//! Retained points: makes and drops them, and looks at what they show below `.firn/history`.

use super::OpenVolume;
use super::sending::{SendPoint, send_point};
use crate::crash::contents::Shared;
use crate::crash::op::{CLONES, Op, Part};
use crate::crash::tree::{Entry, Tree};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::lfs::Lfs;
use firnfs::states::is_past;
use firnfs::store::{Scope, State, Store};
use firnfs::ufs::xattr;
use firnfs::vfs::Attr;
use firnfs::vfs::history::{HIDDEN_DIR, HISTORY_DIR};
use firnfs_format::checkpoint::Retention;
use firnfs_format::{Epoch, InodeNo};
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Steps of background work within which a drop or a checkpoint has to end.
const STEPS_MAX: u32 = 20_000;

/// What a store that retains states does with them.
pub(crate) struct Keeper<S: Engine> {
    pub make: fn(&Volume<S>, &str) -> Result<(), FsError>,
    pub drop: fn(&Volume<S>, &str) -> Result<(), FsError>,
    pub make_clone: fn(&Volume<S>, &str, &str) -> Result<(), FsError>,
    pub drop_clone: fn(&Volume<S>, &str) -> Result<(), FsError>,
    pub hold_back: fn(&Volume<S>) -> Result<(), FsError>,
    pub retain: fn(&Volume<S>, &Retention) -> Result<(), FsError>,
    pub retention: fn(&Volume<S>) -> Result<Retention, String>,
    pub settle: fn(&Volume<S>, bool) -> Result<(), String>,
    pub send: SendPoint<S>,
}

impl<S: Engine> Keeper<S> {
    /// For a store that has no room for any state.
    pub const NONE: Self = Self {
        make: |_, _| Err(FsError::NoSpace),
        drop: |_, _| Err(FsError::NotFound),
        make_clone: |_, _, _| Err(FsError::NotFound),
        drop_clone: |_, _| Err(FsError::NotFound),
        hold_back: |_| Err(FsError::NoSpace),
        retain: |_, _| Err(FsError::NoSpace),
        retention: |_| Ok(Retention::default()),
        settle: |_, _| Ok(()),
        send: |_, _, _, _| Err("this store sends nothing".to_owned()),
    };
}

impl Keeper<Lfs> {
    pub const LOG: Self = Self {
        make: make_point,
        drop: drop_point,
        make_clone,
        drop_clone,
        hold_back,
        retain: firnfs_manage::set_retention,
        retention: |volume| {
            volume.run(|vfs, _| Ok(vfs.store().retention().clone())).map_err(|e| e.to_string())
        },
        settle,
        send: send_point,
    };
}

impl<S: Engine> OpenVolume<S> {
    pub(super) fn change_points(&self, op: &Op) -> Result<(), FsError> {
        match op {
            Op::MakePoint(name) => (self.keeper.make)(&self.volume, name),
            Op::DropPoint(name) => (self.keeper.drop)(&self.volume, name),
            Op::MakeClone { point, name } => (self.keeper.make_clone)(&self.volume, point, name),
            Op::DropClone(name) => (self.keeper.drop_clone)(&self.volume, name),
            Op::Retain(retention) => (self.keeper.retain)(&self.volume, retention),
            _ => Err(FsError::Invalid("does not change points")),
        }
    }

    /// After an error the changes are still in memory, so the volume has to be mounted again.
    pub(super) fn hold_back(&mut self, changes: &[Op], name: &str) -> Result<(), FsError> {
        (self.keeper.hold_back)(&self.volume)?;
        let done = changes.iter().try_for_each(|op| self.carry_out(op));
        let done = done.and_then(|()| (self.keeper.make)(&self.volume, name));
        if done.is_err() {
            // No request may be under way when the next mount begins. An error here is reported already.
            let _ = self.volume.sync(Scope::All);
        }
        done
    }

    /// Copies a part of a file from a point.
    pub(super) fn copy_back(&self, point: &str, from: &str, path: &str, part: &Part) -> Result<(), FsError> {
        let original = self.find_below(self.root_of_point(point)?, from)?;
        match part {
            Part::Content => {
                let content = self.content(original)?;
                let ino = self.find(path)?;
                self.volume.write_all(ino, 0, &content, false)
            }
            Part::Attribute(name) => {
                let name = format!("user.{name}");
                self.set_xattr(path, &name, &self.xattr(original, name.as_bytes())?)
            }
        }
    }

    /// What the points of users show that are not being dropped.
    pub(super) fn points(&self, shared: Option<&Shared<'_>>) -> Result<BTreeMap<String, Arc<Tree>>, String> {
        let name = |state: &State<'_>| (!state.name.is_empty()).then(|| state.name.to_owned());
        let names = self.states(|state| name(&state)).map_err(|e| e.to_string())?;
        let mut points = BTreeMap::new();
        for name in names.into_iter().flatten() {
            let in_it = |why: String| format!("point {name:?}: {why}");
            let root = self.root_of_point(&name).map_err(|e| in_it(e.to_string()))?;
            let entries = self.entries_below(root, shared).map_err(in_it)?;
            points.insert(name, Arc::new(Tree::new(entries)));
        }
        Ok(points)
    }

    /// All clones, with their origins and their contents.
    pub(super) fn clones(
        &self,
        shared: Option<&Shared<'_>>,
    ) -> Result<(BTreeMap<String, String>, Vec<Entry>), String> {
        let branches = self.volume.run(|vfs, _| Ok(vfs.store().branches())).map_err(|e| e.to_string())?;
        let titles = self.states(|state| (state.epoch, state.title())).map_err(|e| e.to_string())?;
        let states: BTreeMap<Epoch, String> = titles.into_iter().collect();
        let (mut clones, mut entries) = (BTreeMap::new(), Vec::new());
        for branch in branches.unwrap_or_default() {
            let above = format!("{CLONES}{}", branch.name);
            let root = self.find(&above).map_err(|e| format!("{above}: {e}"))?;
            let found = self.entries_below(root, shared).map_err(|why| format!("{above}: {why}"))?;
            entries.extend(found.into_iter().map(|entry| match entry.path.as_str() {
                "" => Entry { path: above.clone(), ..entry },
                path => Entry { path: format!("{above}/{path}"), ..entry },
            }));
            let origin = states.get(&branch.origin).ok_or_else(|| format!("{above}: its state is gone"))?;
            clones.insert(branch.name, origin.clone());
        }
        Ok((clones, entries))
    }

    /// Something of each state, oldest first.
    pub(super) fn states<T>(&self, of: impl Fn(State<'_>) -> T) -> Result<Vec<T>, FsError> {
        self.volume.run_quietly(|vfs, _| {
            Ok(vfs.store_mut().states(Epoch(0))?.into_iter().flatten().map(&of).collect())
        })
    }

    pub(super) fn root_of_point(&self, name: &str) -> Result<InodeNo, FsError> {
        [HIDDEN_DIR, HISTORY_DIR, name.as_bytes()].into_iter().try_fold(InodeNo::ROOT, |dir, name| {
            self.volume.run(|vfs, now| vfs.lookup(now, dir, name, false)).map(|attr| attr.ino)
        })
    }

    /// The attributes that an inode has or had. The past shows only permissions that the present still gives.
    pub(super) fn attr(&self, ino: InodeNo) -> Result<Attr, FsError> {
        let attr = self.volume.run(|vfs, _| vfs.getattr(ino))?;
        if !is_past(ino) {
            return Ok(attr);
        }
        let mode = self.volume.run(|vfs, _| Ok(vfs.store_mut().inode(ino)?.mode))?;
        match attr.mode & !mode {
            0 => Ok(Attr { mode, ..attr }),
            _ => Err(FsError::Invalid("the past gives permissions that it had not")),
        }
    }

    /// An attribute that an inode has or had, even if it is withheld now.
    pub(super) fn xattr(&self, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>, FsError> {
        if !is_past(ino) {
            return self.volume.run(|vfs, _| vfs.getxattr(ino, name));
        }
        let stored = self.volume.run(|vfs, _| xattr::get(vfs.store_mut(), ino, name))?;
        stored.ok_or(FsError::NoAttribute)
    }
}

fn make_point(volume: &Volume<Lfs>, name: &str) -> Result<(), FsError> {
    let epoch = volume.run(|vfs, now| vfs.store_mut().make_point(now, name))?;
    volume.pump();
    until(volume, |lfs| lfs.durable_epoch() > epoch)
}

fn make_clone(volume: &Volume<Lfs>, point: &str, name: &str) -> Result<(), FsError> {
    let made = volume.run(|vfs, now| {
        let point = vfs.store_mut().points()?.iter().find(|known| known.name == point);
        let origin = point.map(|point| point.epoch).ok_or(FsError::NotFound)?;
        vfs.store_mut().make_clone(now, origin, name)
    })?;
    volume.pump();
    until(volume, |lfs| lfs.durable_epoch() > made)
}

fn drop_clone(volume: &Volume<Lfs>, name: &str) -> Result<(), FsError> {
    let stated = volume.run_quietly(|vfs, now| {
        vfs.store_mut().drop_clone(now, name)?;
        Ok(vfs.store().durable_epoch())
    })?;
    volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now))?;
    volume.pump();
    until(volume, |lfs| lfs.durable_epoch() > stated)?;
    until(volume, |lfs| !lfs.is_erasing())?;
    // A dropped point must not come back.
    volume.sync(Scope::All)
}

fn hold_back(volume: &Volume<Lfs>) -> Result<(), FsError> {
    volume.run(|vfs, now| vfs.store_mut().hold_back(now))
}

fn drop_point(volume: &Volume<Lfs>, name: &str) -> Result<(), FsError> {
    volume.run_quietly(|vfs, now| {
        let point = vfs.store_mut().points()?.iter().find(|point| point.name == name);
        let epoch = point.map(|point| point.epoch).ok_or(FsError::NotFound)?;
        vfs.store_mut().drop_point(now, epoch)
    })
}

fn settle(volume: &Volume<Lfs>, all: bool) -> Result<(), String> {
    let drop_all = || {
        if all {
            // Automatic points go by themselves then.
            firnfs_manage::set_retention(volume, &Retention::default())?;
        }
        until(volume, |lfs| !lfs.is_erasing())?;
        let clones = volume.run(|vfs, _| Ok(vfs.store().branches().unwrap_or_default()))?;
        for clone in clones.iter().filter(|_| all) {
            drop_clone(volume, &clone.name)?;
        }
        until(volume, |lfs| !lfs.is_dropping())?;
        let left = volume.run(|vfs, _| Ok(Vec::from(vfs.store_mut().points()?.clone())))?;
        if let Some(point) = left.iter().find(|point| all && point.is_automatic) {
            return Err(FsError::Io(format!("no rule keeps the point of epoch {}", point.epoch.0)));
        }
        for point in left.iter().filter(|_| all) {
            volume.run_quietly(|vfs, now| vfs.store_mut().drop_point(now, point.epoch))?;
        }
        until(volume, |lfs| !lfs.is_dropping())?;
        let epoch = volume.run(|vfs, now| {
            vfs.store_mut().checkpoint_now(now)?;
            Ok(vfs.store().durable_epoch())
        })?;
        volume.pump();
        until(volume, |lfs| lfs.durable_epoch() > epoch)
    };
    drop_all().map_err(|e| e.to_string())?;
    let told = volume.run(|vfs, _| {
        let store = vfs.store();
        let aside: Vec<String> =
            store.quarantined().map(|(thing, why)| format!("{thing} was quarantined: {why}")).collect();
        Ok((aside, (store.points_len() == 0).then(|| store.past_bytes())))
    });
    match told.map_err(|e| e.to_string())? {
        (aside, None | Some(0)) if aside.is_empty() => Ok(()),
        wrong => Err(format!("quarantined, and held without points: {wrong:?}")),
    }
}

/// Does background work until a condition holds.
fn until(volume: &Volume<Lfs>, is_so: impl Fn(&Lfs) -> bool) -> Result<(), FsError> {
    for _ in 0..STEPS_MAX {
        if volume.run_quietly(|vfs, _| Ok(is_so(vfs.store())))? {
            return Ok(());
        }
        volume.run_quietly(|vfs, now| vfs.store_mut().step(now, true))?;
        volume.pump();
    }
    Err(FsError::Io("work on retained points that does not come to its end".to_owned()))
}
