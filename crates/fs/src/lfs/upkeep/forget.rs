//! Drops a retained point: the walk (`past::walk`) frees what neither another point nor the present sees.
//!
//! If a block dies in the present meanwhile, it is freed at once if the walk has passed its place; otherwise the point holds it
//! until the walk comes there (`tables::points`). The cursor is part of the checkpoint, so the walk continues after a crash.
//!
//! Caller: `step`.

use crate::error::{Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::damage::{Thing, is_damage};
use crate::lfs::past::walk::{Progress, Purpose, Walk};
use firnfs_format::TimeNs;

impl Lfs {
    /// The next step of dropping a point, after all points have been read. False if none is being dropped.
    ///
    /// # Errors
    /// `Need`.
    pub(in crate::lfs) fn forget_step(&mut self, now: TimeNs) -> Outcome<bool> {
        if self.load_more_rows()? {
            return Ok(true);
        }
        self.keep_to_share(now);
        let Some((before, point, next)) = self.tables.points.dropping() else { return Ok(false) };
        let mut walk = Walk::new(before, point, next, Purpose::Free);
        self.due.note_change();
        match self.walk_on(&mut walk) {
            Ok(Progress::Pause) => return Ok(true),
            Ok(Progress::Done) => {}
            // The accounts keep what it holds until a check recounts them.
            Err(Stop::Fail(why)) if is_damage(&why) => self.put_in_quarantine(Thing::InodeMap, why),
            Err(stop) => return Err(stop),
        }
        self.tables.points.end_drop();
        self.retain(now);
        Ok(true)
    }
}
