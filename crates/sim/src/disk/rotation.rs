//! `Rotation`: how long the head waits until a sector passes it.
//!
//! All platters turn together and never stop: at time 0 of the clock, slot 0 of every track passes. Times are whole nanoseconds;
//! the slots of a circle add up to exactly one turn. Callers: `media`.

use crate::disk::layout::Angle;

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotation {
    /// Time of one turn, in nanoseconds.
    pub turn_ns: i64,
}

impl Rotation {
    /// A disk with that many turns a minute.
    #[must_use]
    pub fn of_rpm(rpm: f64) -> Self {
        Self { turn_ns: (60e9 / rpm).round() as i64 }
    }

    /// The time from the moment `now_ns` until the beginning of a sector passes, less than a turn.
    #[must_use]
    pub fn wait_ns(&self, angle: Angle, now_ns: i64) -> i64 {
        (self.slot_ns(u64::from(angle.slot), angle.of) - now_ns).rem_euclid(self.turn_ns)
    }

    /// The time in which that many sectors pass, from the one at `angle` on.
    #[must_use]
    pub fn pass_ns(&self, angle: Angle, sectors: u64) -> i64 {
        let slot = u64::from(angle.slot);
        self.slot_ns(slot + sectors, angle.of) - self.slot_ns(slot, angle.of)
    }

    /// How many whole sectors pass within a time, from the one at `angle` on.
    #[must_use]
    pub fn passed(&self, angle: Angle, within_ns: i64) -> u64 {
        let mut sectors =
            (i128::from(within_ns.max(0)) * i128::from(angle.of) / i128::from(self.turn_ns)) as u64;
        while self.pass_ns(angle, sectors + 1) <= within_ns {
            sectors += 1;
        }
        while sectors > 0 && self.pass_ns(angle, sectors) > within_ns {
            sectors -= 1;
        }
        sectors
    }

    /// When slot `slot` of a circle of `of` begins, counted from slot 0 of the same turn.
    fn slot_ns(&self, slot: u64, of: u32) -> i64 {
        (i128::from(slot) * i128::from(self.turn_ns) / i128::from(of.max(1))) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_passes_once_in_a_turn() {
        let rotation = Rotation::of_rpm(4000.0);
        assert_eq!(rotation.turn_ns, 15_000_000);
        let quarter = Angle { slot: 18, of: 72 };
        assert_eq!(rotation.wait_ns(quarter, 0), 3_750_000);
        assert_eq!(rotation.wait_ns(quarter, 3_750_000), 0);
        assert_eq!(rotation.wait_ns(quarter, 3_750_001), 14_999_999);
        assert_eq!(rotation.wait_ns(quarter, -1), 3_750_001);
    }

    #[test]
    fn sectors_that_do_not_divide_the_turn_add_up_to_it() {
        let rotation = Rotation { turn_ns: 11_111_111 };
        let angle = Angle { slot: 50, of: 57 };
        let parts: i64 = (0..57).map(|n| rotation.pass_ns(Angle { slot: (50 + n) % 57, of: 57 }, 1)).sum();
        assert_eq!(parts, 11_111_111);
        assert_eq!(rotation.pass_ns(angle, 57), 11_111_111);
        for sectors in [0, 1, 7, 57, 100] {
            let needs_ns = rotation.pass_ns(angle, sectors);
            assert_eq!(rotation.passed(angle, needs_ns), sectors);
            assert_eq!(rotation.passed(angle, needs_ns - 1), sectors.saturating_sub(1));
        }
    }
}
