//! Reading retained points: their inodes have numbers of their own ([`crate::states`]), and everything that reads an inode reads
//! these. What a record or an indirect block of a point names may have moved since; only these pointers are followed.
//!
//! Blocks and inodes of points are in the caches of the present, under their own numbers, and never change there. A view is
//! never given to another point, so what the caches have of a dropped point serves nobody.

use crate::error::{FsError, Outcome};
use crate::lfs::Lfs;
use crate::lfs::base::places::{is_internal, is_unseen, place_of_record};
use crate::lfs::map::admit::RECORD_MAX_BYTES;
use crate::lfs::map::files::Files;
use crate::lfs::map::inode::CoreInode;
use crate::lfs::map::shelf::Shelf;
use crate::lfs::past::StateRoot;
use crate::states::{VIEWS_MAX, in_view, is_made_up, number_of, view_of};
use crate::store::{BlockKey, State};
use firnfs_format::checkpoint::Point;
use firnfs_format::{BlockPtr, Epoch, InodeNo, TimeNs};

/// The points that are looked into.
#[derive(Default)]
pub(in crate::lfs) struct Views {
    /// The point that takes the place of the present: nothing else of the volume is shown.
    shown: Option<Epoch>,
    /// The point of each view, from view 1 on.
    epochs: Vec<Epoch>,
}

impl Views {
    /// True for an inode of a point.
    pub fn has(&self, ino: InodeNo) -> bool {
        view_of(ino) != 0 || self.shown.is_some() && !is_internal(ino)
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
    /// Shows a volume that was opened to be read as it was at a retained point.
    ///
    /// # Errors
    /// `NotFound` if there is no such point; `Invalid` for a volume that is open to be written.
    pub fn show(&mut self, epoch: Epoch) -> Result<(), FsError> {
        if !self.options.read_only {
            return Err(FsError::Invalid("to show a snapshot of a volume that is written"));
        }
        self.whole_point(epoch)?;
        // What is in memory is of the present.
        self.files = Files::default();
        self.shelf = Shelf::new(self.geo.clone());
        self.views.shown = Some(epoch);
        Ok(())
    }

    /// See [`crate::store::Store::states`].
    pub(in crate::lfs) fn states_now(&self) -> Vec<State> {
        let is_whole = |point: &&Point| point.dropped_to.is_none();
        let points = self.points().iter().filter(is_whole);
        points.map(|point| State { epoch: point.epoch, time: point.time, name: title(point) }).collect()
    }

    /// See [`crate::store::Store::look_into`].
    pub(crate) fn view_of_point(&mut self, epoch: Epoch) -> Result<InodeNo, FsError> {
        self.whole_point(epoch)?;
        let epochs = &mut self.views.epochs;
        let at = epochs.iter().position(|known| *known == epoch).unwrap_or(epochs.len());
        if at == usize::from(VIEWS_MAX) {
            return Err(FsError::NotPermitted("to look into more snapshots before the next mount"));
        }
        if at == epochs.len() {
            epochs.push(epoch);
        }
        Ok(in_view(at as u16 + 1, InodeNo::ROOT))
    }

    /// The state of an inode of a point.
    fn seen_by(&self, ino: InodeNo) -> Result<StateRoot, FsError> {
        let epoch = self.views.epoch_of(ino).filter(|_| !is_made_up(ino)).ok_or(FsError::NotFound)?;
        Ok(self.whole_point(epoch).map_err(|_| FsError::Stale)?.into())
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

    /// Where that is now what a pointer to a block refers to: the pointer itself, unless the block is one of a point, or one that a
    /// clone shares with a point.
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

/// The name under which people find a point: its own, or the time of an automatic one.
#[must_use]
pub fn title(point: &Point) -> String {
    if point.name.is_empty() { time_name(point.time) } else { point.name.clone() }
}

/// A time as "2026-11-24T13:45:10Z".
fn time_name(time: TimeNs) -> String {
    let seconds = time.0.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Whether a name has the form of [`time_name`]: an automatic point that is made later could have the same title.
pub(in crate::lfs) fn is_time_name(name: &str) -> bool {
    let form = b"dddd-dd-ddTdd:dd:ddZ";
    let is_as = |(c, form): (u8, &u8)| if *form == b'd' { c.is_ascii_digit() } else { c == *form };
    name.len() == form.len() && name.bytes().zip(form).all(is_as)
}

/// The date of a day since 1970-01-01 in the Gregorian calendar: years of this count begin in March, so that the day which only
/// leap years have is a year's last.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let day = days + 719_468;
    let (era, day) = (day.div_euclid(ERA_DAYS), day.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / (ERA_DAYS - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_automatic_point_is_found_by_its_time() {
        let name = |seconds: i64| time_name(TimeNs(seconds * 1_000_000_000));
        assert_eq!(name(0), "1970-01-01T00:00:00Z");
        assert_eq!(name(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(name(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(name(1_795_527_910), "2026-11-24T13:45:10Z");
        assert_eq!(name(-1), "1969-12-31T23:59:59Z");
    }
}
