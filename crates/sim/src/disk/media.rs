//! `Media`: the moving parts. Given where the arm is, how long it takes until a run of sectors has passed the head.
//!
//! Within a track sectors pass one after the other. Between tracks the disk switches heads or moves the arm, and then waits until
//! the first sector passes; skews make that wait short. Pure: the same arm and sectors give the same times. Callers:
//! `mechanical`, `ahead`.

use crate::disk::layout::{Layout, Lbn, Place};
use crate::disk::rotation::Rotation;
use crate::disk::seek::SeekCurve;

/// Where the arm is, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arm {
    /// The cylinder.
    pub cylinder: u32,
    /// The head in use.
    pub head: u32,
    /// The arm is there, and free, from this moment on.
    pub at_ns: i64,
}

/// The passage of sectors under the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// Time to move the arm or switch heads before the first sector.
    pub move_ns: i64,
    /// Cylinders that the arm moved over before the first sector.
    pub distance: u32,
    /// When the first sector begins to pass.
    pub begin_ns: i64,
    /// Where the arm is after the last sector, and when.
    pub arm: Arm,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Media {
    /// Where sectors are.
    pub layout: Layout,
    /// How the platters turn.
    pub rotation: Rotation,
    /// How the arm moves.
    pub seek: SeekCurve,
    /// Time to use another head in the same cylinder, in nanoseconds.
    pub head_switch_ns: i64,
    /// The additional time of a seek or switch before a write, in nanoseconds.
    pub write_settle_ns: i64,
}

impl Media {
    /// The time to move the arm to a place's track, in nanoseconds; 0 if it is there. Heads switch while the arm moves.
    #[must_use]
    pub fn move_ns(&self, arm: Arm, to: Place, writes: bool) -> i64 {
        let switch_ns = if arm.head == to.head { 0 } else { self.head_switch_ns };
        let move_ns = self.seek.time_ns(arm.cylinder.abs_diff(to.cylinder)).max(switch_ns);
        if move_ns > 0 && writes { move_ns + self.write_settle_ns } else { move_ns }
    }

    /// Lets `sectors` from `lbn` on pass, not beginning before `earliest_ns`. `sectors` is at least 1.
    #[must_use]
    pub fn pass(&self, arm: Arm, lbn: Lbn, sectors: u64, earliest_ns: i64, writes: bool) -> Passage {
        let place = self.layout.place_of(lbn);
        let move_ns = self.move_ns(arm, place, writes);
        let ready_ns = (arm.at_ns + move_ns).max(earliest_ns);
        let begin_ns = ready_ns + self.rotation.wait_ns(self.layout.angle(place), ready_ns);
        let distance = arm.cylinder.abs_diff(place.cylinder);
        let mut arm = Arm { cylinder: place.cylinder, head: place.head, at_ns: begin_ns };
        let (mut at, end) = (lbn, Lbn(lbn.0 + sectors));
        while at < end {
            let here = (end.0 - at.0).min(self.layout.left_on_track(at));
            arm = self.pass_track(arm, at, here, writes);
            at = Lbn(at.0 + here);
        }
        Passage { move_ns, distance, begin_ns, arm }
    }

    /// Lets sectors of one track pass.
    fn pass_track(&self, arm: Arm, lbn: Lbn, sectors: u64, writes: bool) -> Arm {
        let (begin_ns, place) = self.arrive(arm, lbn, writes);
        let at_ns = begin_ns + self.rotation.pass_ns(self.layout.angle(place), sectors);
        Arm { cylinder: place.cylinder, head: place.head, at_ns }
    }

    /// When a sector begins to pass, and its place.
    fn arrive(&self, arm: Arm, lbn: Lbn, writes: bool) -> (i64, Place) {
        let place = self.layout.place_of(lbn);
        let ready_ns = arm.at_ns + self.move_ns(arm, place, writes);
        (ready_ns + self.rotation.wait_ns(self.layout.angle(place), ready_ns), place)
    }

    /// Reads on from `lbn` until `until_ns`, at most up to `limit`. Returns the first sector not yet read, and the arm after the
    /// last one that was.
    #[must_use]
    pub fn read_until(&self, mut arm: Arm, mut lbn: Lbn, limit: Lbn, until_ns: i64) -> (Lbn, Arm) {
        while lbn < limit {
            let (begin_ns, place) = self.arrive(arm, lbn, false);
            let angle = self.layout.angle(place);
            let here = (limit.0 - lbn.0).min(self.layout.left_on_track(lbn));
            let read = self.rotation.passed(angle, until_ns - begin_ns).min(here);
            if begin_ns > until_ns || read == 0 {
                break;
            }
            let at_ns = begin_ns + self.rotation.pass_ns(angle, read);
            arm = Arm { cylinder: place.cylinder, head: place.head, at_ns };
            lbn = Lbn(lbn.0 + read);
            if read < here {
                break;
            }
        }
        (lbn, arm)
    }

    /// Time of one sector at a place, in nanoseconds.
    #[must_use]
    pub fn sector_ns(&self, lbn: Lbn) -> i64 {
        self.rotation.pass_ns(self.layout.angle(self.layout.place_of(lbn)), 1)
    }
}

#[cfg(test)]
#[path = "media_tests.rs"]
pub(crate) mod tests;
