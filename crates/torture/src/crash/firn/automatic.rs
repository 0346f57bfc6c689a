//! Automatic points: what those show that the volume has made by itself. Users find them by their time, below `.firn/history`; the
//! explorer knows them by their epochs, since a clock that was set back can give two of them one time.

use super::OpenVolume;
use crate::crash::contents::Shared;
use crate::crash::subject::Found;
use crate::crash::tree::{Entry, Tree};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::states::number_of;
use firnfs_format::{Epoch, InodeNo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl<S: Engine> OpenVolume<S> {
    /// What all automatic points show that are not being dropped.
    pub(super) fn automatic_points(
        &self,
        shared: Option<&Shared<'_>>,
    ) -> Result<BTreeMap<u32, Arc<Tree>>, String> {
        let titles = self.titles().map_err(|e| e.to_string())?;
        let show = |(epoch, title): (&u32, &String)| Ok((*epoch, self.show(*epoch, title, &titles, shared)?));
        titles.iter().map(show).collect()
    }

    pub(super) fn look_for_automatic(&self, known: &BTreeSet<u32>) -> Result<Found, String> {
        // As in a walk.
        let _promise = self.volume.promise_background();
        let titles = self.titles().map_err(|e| e.to_string())?;
        let mut found = Found::new();
        for (epoch, title) in &titles {
            let shown = match known.contains(epoch) {
                true => None,
                false => Some(self.show(*epoch, title, &titles, None)?),
            };
            found.insert(*epoch, shown);
        }
        Ok(found)
    }

    /// The names of all automatic points, by their epochs.
    fn titles(&self) -> Result<BTreeMap<u32, String>, FsError> {
        let states = self.states(|state| state.name.is_empty().then(|| (state.epoch.0, state.title())))?;
        Ok(states.into_iter().flatten().collect())
    }

    fn show(
        &self,
        epoch: u32,
        title: &str,
        titles: &BTreeMap<u32, String>,
        shared: Option<&Shared<'_>>,
    ) -> Result<Arc<Tree>, String> {
        let in_it = |why: String| format!("the automatic point of epoch {epoch} ({title}): {why}");
        let root = self.root_of_epoch(epoch).map_err(|e| in_it(e.to_string()))?;
        let is_only = titles.values().filter(|other| *other == title).count() == 1;
        if is_only && self.root_of_point(title).map_err(|e| in_it(e.to_string()))? != root {
            return Err(in_it("another state has its name".to_owned()));
        }
        let entries = self.entries_below(root, shared).map_err(in_it)?;
        // The view is another one if an older point has gone.
        let as_then = |entry: Entry| Entry { ino: number_of(InodeNo(entry.ino)).0, ..entry };
        Ok(Arc::new(Tree::new(entries.into_iter().map(as_then).collect())))
    }

    fn root_of_epoch(&self, epoch: u32) -> Result<InodeNo, FsError> {
        self.volume.run_quietly(|vfs, _| vfs.store_mut().look_into(Epoch(epoch)))
    }
}
