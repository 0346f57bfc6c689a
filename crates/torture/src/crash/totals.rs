//! Limits, totals and failures of an exploration.

use super::plan::Plan;
use super::record::Window;
use firnfs_sim::CrashState;
use std::fmt;

/// Bounds of an exploration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The states of a history to judge.
    pub plan: Plan,
    /// Every n-th state is mounted on a disk that crashes again during recovery; 0 for none.
    pub nested_every: u64,
    /// How many states of such a recovery to judge, spread over all of them.
    pub nested_states: usize,
    /// Every n-th state is judged again with rot in one of the places that are stored twice, or in the log; 0 for none.
    pub rot_every: u64,
    /// Whether the structure is checked before and after each mount.
    pub check: bool,
    /// Number of planned states of one scenario beyond which only every n-th is judged.
    pub states_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            plan: Plan::default(),
            nested_every: 40,
            nested_states: 12,
            rot_every: 5,
            check: true,
            states_max: 50_000,
        }
    }
}

/// What has been judged. A [`super::Seen`] distinguishes the images of a whole campaign.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Scenarios explored.
    pub scenarios: u64,
    /// Distinct images that a crash left: each counts once, in whatever scenarios it occurs.
    pub distinct: u64,
    /// States judged: those images, and some of them again because more had been promised.
    pub judged: u64,
    /// Planned states left out because an equal one had been judged by the same promise.
    pub repeats: u64,
    /// Distinct images left by a crash during recovery.
    pub nested: u64,
    /// Distinct images that also have rot.
    pub rotten: u64,
    /// Distinct images left by a crash during repair.
    pub mended: u64,
    /// Distinct images left by a crash while a write of the cleaner was not durable.
    pub cleaning: u64,
    /// Distinct images that a crash left in a history, with retained points in them.
    pub with_points: u64,
    /// Streams of points that were sent again from recovered volumes.
    pub sent: u64,
}

impl Totals {
    /// Adds the totals of another explorer.
    pub fn add(&mut self, other: &Self) {
        self.scenarios += other.scenarios;
        self.distinct += other.distinct;
        self.judged += other.judged;
        self.repeats += other.repeats;
        self.nested += other.nested;
        self.rotten += other.rotten;
        self.mended += other.mended;
        self.cleaning += other.cleaning;
        self.with_points += other.with_points;
        self.sent += other.sent;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} distinct crash states ({} during cleaning, {} during repair, {} during recovery, {} with rot, {} with points) of {} \
             scenarios; {} judged, {} repeats left out, {} streams sent again",
            self.distinct,
            self.cleaning,
            self.mended,
            self.nested,
            self.rotten,
            self.with_points,
            self.scenarios,
            self.judged,
            self.repeats,
            self.sent
        )
    }
}

/// Rot in addition to a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rot {
    /// One of [`super::Subject::replicated`], all of it.
    Place(usize),
    /// One bit of one of them: (place, bit).
    PlaceBit(usize, u64),
    /// One bit of the volume, counted from its beginning.
    Bit(u64),
}

impl fmt::Display for Rot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(place) => write!(f, "rot{place}"),
            Self::PlaceBit(place, bit) => write!(f, "rot{place}/{bit}"),
            Self::Bit(bit) => write!(f, "rotb{bit}"),
        }
    }
}

impl std::str::FromStr for Rot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().map_err(|e| format!("rot {text:?}: {e}"));
        let body = text.strip_prefix("rot").ok_or_else(|| format!("no rot: {text:?}"))?;
        if let Some(bit) = body.strip_prefix('b') {
            return Ok(Self::Bit(number(bit)?));
        }
        match body.split_once('/') {
            Some((place, bit)) => Ok(Self::PlaceBit(number(place)? as usize, number(bit)?)),
            None => Ok(Self::Place(number(body)? as usize)),
        }
    }
}

/// A state that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The state; a second one is a state of the recovery of the first.
    pub states: Vec<CrashState>,
    /// The rot, if any.
    pub rot: Option<Rot>,
    /// The operations that had ended and begun.
    pub window: Window,
    /// The error as text.
    pub reason: String,
}

impl Failure {
    /// The states as text, as [`super::Explorer::replay`] takes them.
    #[must_use]
    pub fn cuts(&self) -> String {
        let states = self.states.iter().map(ToString::to_string);
        states.chain(self.rot.map(|rot| rot.to_string())).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { ended, begun } = self.window;
        write!(f, "{}: after {ended} operations ({begun} begun): {}", self.cuts(), self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_rot_reads_back() {
        for rot in [Rot::Place(3), Rot::PlaceBit(1, 77), Rot::Bit(1 << 40)] {
            assert_eq!(rot.to_string().parse(), Ok(rot));
        }
        for text in ["", "rot", "rotx", "rot1/x", "rotb"] {
            assert!(text.parse::<Rot>().is_err(), "{text}");
        }
    }
}
