//! Reads retained points as inodes: the inodes of a point have numbers of their own ([`crate::states`]), so everything that reads
//! an inode reads them, too. A block named by a record or an indirect block of a point may have moved since; only these pointers
//! are followed.
//!
//! Blocks and inodes of points are in the caches of the present, under their own numbers, and never change there. A view is never
//! given to another point, so nothing reads what the caches still have of a dropped point.

use crate::device_reader::DeviceReader;
use crate::error::{FsError, Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::places::{is_internal, is_unseen, place_of_record};
use crate::lfs::map::admit::RECORD_MAX_BYTES;
use crate::lfs::map::files::{Files, KEPT_INODES};
use crate::lfs::map::inode::CoreInode;
use crate::lfs::map::shelf::Shelf;
use crate::lfs::past::{StateRoot, need_only};
use crate::states::{VIEWS_MAX, in_view, is_made_up, number_of, view_of};
use crate::store::{BlockKey, State, States};
use firnfs_format::checkpoint::Point;
use firnfs_format::{BlockPtr, Epoch, InodeNo};
use rustc_hash::FxHashMap;

/// Inodes whose records one call reads at most.
pub const RECORDS_AT_ONCE: usize = KEPT_INODES;

/// The points that users look into.
#[derive(Default)]
pub(in crate::lfs) struct Views {
    /// The point that is shown instead of the present: nothing else of the volume is shown then.
    shown: Option<Epoch>,
    /// The point of each view, from view 1 on.
    epochs: Vec<Epoch>,
    /// The index of each point in `epochs`.
    places: FxHashMap<Epoch, u16>,
}

impl Views {
    /// True for an inode of a point.
    pub fn has(&self, ino: InodeNo) -> bool {
        view_of(ino) != 0 || self.shown.is_some() && !is_internal(ino)
    }

    /// The root directory of a point, if it has a view.
    pub fn root_of(&self, epoch: Epoch) -> Option<InodeNo> {
        self.places.get(&epoch).map(|at| in_view(at + 1, InodeNo::ROOT))
    }

    /// The point of an inode.
    pub fn epoch_of(&self, ino: InodeNo) -> Option<Epoch> {
        match view_of(ino).checked_sub(1) {
            None => self.shown,
            Some(at) => self.epochs.get(usize::from(at)).copied(),
        }
    }
}

impl Lfs {
    /// Shows a read-only volume as it was at a retained point.
    ///
    /// # Errors
    /// `NotFound` if there is no such point; `Invalid` if the volume was opened for writing; `Io`.
    pub fn show(&mut self, read: &mut dyn DeviceReader, epoch: Epoch) -> Result<(), FsError> {
        if !self.options.read_only {
            return Err(FsError::Invalid("to show a snapshot of a volume that is written"));
        }
        self.drive_whatever_fails(read, |lfs| lfs.whole_point(epoch).map(|_| ()))?;
        // What is in memory belongs to the present.
        self.files = Files::default();
        self.shelf = Shelf::new(self.geo.clone());
        self.views.shown = Some(epoch);
        Ok(())
    }

    /// See [`crate::store::Store::states`].
    pub(in crate::lfs) fn states_from(&mut self, from: Epoch) -> Outcome<States<'_>> {
        self.load_rows()?;
        let is_whole = |point: &&Point| point.dropped_to.is_none();
        Ok(Box::new(self.tables.points.from(from).filter(is_whole).map(State::from)))
    }

    /// Reads the records of some inodes, no more than [`RECORDS_AT_ONCE`], that are not in memory: all at once, and nothing beside
    /// them. An inode that cannot be read is passed over: whoever asks for it learns why.
    ///
    /// # Errors
    /// `Need`.
    pub fn load_records(&mut self, inos: &[InodeNo]) -> Outcome<()> {
        debug_assert!(inos.len() <= RECORDS_AT_ONCE, "the first may be gone before the last is there");
        let mut needs = Vec::new();
        for &ino in inos {
            if let Err(Stop::Need(more)) = self.load_inode(ino) {
                needs.extend(more);
            }
        }
        if needs.is_empty() { Ok(()) } else { Err(need_only(needs)) }
    }

    /// See [`crate::store::Store::look_into`].
    pub(crate) fn view_of_point(&mut self, epoch: Epoch) -> Outcome<InodeNo> {
        self.whole_point(epoch)?;
        if let Some(root) = self.views.root_of(epoch) {
            return Ok(root);
        }
        let views = &mut self.views;
        if views.epochs.len() == usize::from(VIEWS_MAX) {
            return Err(FsError::NotPermitted("to look into more snapshots before the next mount").into());
        }
        let at = views.epochs.len() as u16;
        views.epochs.push(epoch);
        views.places.insert(epoch, at);
        Ok(in_view(at + 1, InodeNo::ROOT))
    }

    /// Forgets all views if there is no room for another one, with all that is in memory. Nobody may use an inode of a point any more.
    /// Caller: the check, which looks into all points one after the other.
    pub(crate) fn make_room_for_a_view(&mut self) {
        if self.views.epochs.len() == usize::from(VIEWS_MAX) {
            self.files = Files::default();
            self.shelf = Shelf::new(self.geo.clone());
            self.views = Views { shown: self.views.shown, ..Views::default() };
        }
    }

    /// The state that an inode of a point belongs to.
    fn seen_by(&mut self, ino: InodeNo) -> Outcome<StateRoot> {
        let epoch = self.views.epoch_of(ino).filter(|_| !is_made_up(ino)).ok_or(FsError::NotFound)?;
        match self.whole_point(epoch) {
            Err(Stop::Fail(FsError::NotFound)) => Err(FsError::Stale.into()),
            point => point.map(StateRoot::from),
        }
    }

    /// Brings an inode of a point into memory.
    ///
    /// # Errors
    /// `NotFound`; `Stale` if the point was dropped; `Need`, `Corrupt`.
    pub(in crate::lfs) fn load_past_inode(&mut self, ino: InodeNo) -> Outcome<()> {
        let state = self.seen_by(ino)?;
        if self.files.get(ino).is_some() {
            return Ok(());
        }
        let number = number_of(ino);
        let entry = self.past_entry(&state, number)?;
        if entry.ptr.is_hole() || is_unseen(number) {
            return Err(FsError::NotFound.into());
        }
        let record = self.past_block(&place_of_record(number), state.epoch, entry.ptr, RECORD_MAX_BYTES)?;
        let core = CoreInode::decode(number, &entry, &record, &self.geo)?;
        self.files.insert(ino, core);
        Ok(())
    }

    /// Where the block that a pointer leads to is now. Only a block of a point, or one that a clone shares with a point, may be
    /// elsewhere than the pointer says.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn place_now(&mut self, key: &BlockKey, ptr: BlockPtr) -> Outcome<BlockPtr> {
        if !ptr.is_stored() {
            return Ok(ptr);
        }
        if self.views.has(key.ino) {
            let state = self.seen_by(key.ino)?;
            let place = self.place_of(&BlockKey { ino: number_of(key.ino), ..*key });
            return self.follow(&place, state.epoch, ptr);
        }
        self.place_in_origin(key, ptr)
    }
}

impl<'a> From<&'a Point> for State<'a> {
    fn from(point: &'a Point) -> Self {
        Self { epoch: point.epoch, time: point.time, name: &point.name }
    }
}

/// The name under which people find a point: its own, or the time of an automatic one.
#[must_use]
pub fn title(point: &Point) -> String {
    State::from(point).title()
}
