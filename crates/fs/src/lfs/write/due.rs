//! When the next commit and the next checkpoint are due, and which changes a power cut would lose: what was changed, how much was
//! written, and since when.

use firnfs_format::{Serial, TimeNs};
use std::collections::VecDeque;

/// Commits under way that are told apart; with more, the newest ones count as one.
const COMMITS_MAX: usize = 32;

/// See the module's head.
pub(in crate::lfs) struct Due {
    /// Log bytes since the last checkpoint: roll-forward would read them.
    log_bytes: u64,
    /// Something changed since the last checkpoint.
    has_changed: bool,
    checkpointed_at: TimeNs,
    /// When the oldest change that no flush was asked for yet was made.
    dirty_since: Option<TimeNs>,
    /// Commits for which a flush was asked for: the serial that has to be durable, and when the oldest change was made. Oldest
    /// first, at most [`COMMITS_MAX`].
    commits: VecDeque<(Serial, TimeNs)>,
}

impl Due {
    /// The state after a mount.
    pub fn new(now: TimeNs) -> Self {
        Self {
            log_bytes: 0,
            has_changed: false,
            checkpointed_at: now,
            dirty_since: None,
            commits: VecDeque::new(),
        }
    }

    /// The log grew.
    pub fn note_log(&mut self, bytes: u64) {
        self.log_bytes += bytes;
    }

    /// Something changed that only a checkpoint makes part of the tables.
    pub fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// A user's change begins.
    pub fn note_dirty(&mut self, now: TimeNs) {
        self.dirty_since.get_or_insert(now);
    }

    /// All that is dirty is on its way up to that serial, and a flush was asked for; `durable` is the highest durable serial.
    pub fn note_clean(&mut self, through: Serial, durable: Serial) {
        while self.commits.front().is_some_and(|(commit, _)| *commit <= durable) {
            self.commits.pop_front();
        }
        let Some(since) = self.dirty_since.take() else { return };
        if through <= durable {
            return;
        }
        let is_full = self.commits.len() == COMMITS_MAX;
        match self.commits.back_mut() {
            Some((last, _)) if is_full || *last == through => *last = through,
            _ => self.commits.push_back((through, since)),
        }
    }

    /// No change made before this time would be lost by a power cut; `None` if no change would.
    pub fn volatile_since(&self, durable: Serial) -> Option<TimeNs> {
        let under_way = self.commits.iter().find(|(through, _)| *through > durable);
        under_way.map(|(_, since)| *since).or(self.dirty_since)
    }

    /// When the last checkpoint was put in line; the time of the mount before the first.
    pub fn checkpointed_at(&self) -> TimeNs {
        self.checkpointed_at
    }

    /// A checkpoint is in line.
    pub fn note_checkpoint(&mut self, now: TimeNs) {
        let commits = std::mem::take(&mut self.commits);
        *self = Self { dirty_since: self.dirty_since, commits, ..Self::new(now) };
    }

    /// Log bytes since the last checkpoint.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// True if a checkpoint would find something.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Milliseconds until a commit is due by age; `u64::MAX` if nothing is dirty.
    pub fn commit_in_ms(&self, now: TimeNs, interval_ms: u64) -> u64 {
        due_in_ms(now, self.dirty_since, interval_ms)
    }

    /// Milliseconds until a checkpoint is due by age; `u64::MAX` if nothing changed.
    pub fn checkpoint_in_ms(&self, now: TimeNs, interval_ms: u64) -> u64 {
        due_in_ms(now, self.has_changed.then_some(self.checkpointed_at), interval_ms)
    }
}

fn due_in_ms(now: TimeNs, since: Option<TimeNs>, interval_ms: u64) -> u64 {
    since.map_or(u64::MAX, |since| interval_ms.saturating_sub(now.millis_since(since)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_volatile_until_its_commit_is_durable() {
        let mut due = Due::new(TimeNs(0));
        assert_eq!(due.volatile_since(Serial(4)), None);
        due.note_dirty(TimeNs(10));
        due.note_dirty(TimeNs(11));
        assert_eq!(due.volatile_since(Serial(4)), Some(TimeNs(10)));
        due.note_clean(Serial(5), Serial(4));
        due.note_dirty(TimeNs(20));
        due.note_checkpoint(TimeNs(21));
        assert_eq!(due.volatile_since(Serial(4)), Some(TimeNs(10)), "the commit is under way");
        assert_eq!(due.volatile_since(Serial(5)), Some(TimeNs(20)));
        due.note_clean(Serial(6), Serial(6));
        assert_eq!(due.volatile_since(Serial(6)), None);
        assert!(due.commits.is_empty());
    }

    #[test]
    fn many_commits_under_way_take_bounded_memory_and_none_is_forgotten() {
        let mut due = Due::new(TimeNs(0));
        let all = 3 * COMMITS_MAX as u64;
        for n in 1..=all {
            due.note_dirty(TimeNs(n as i64));
            due.note_clean(Serial(n), Serial(0));
        }
        assert_eq!(due.commits.len(), COMMITS_MAX);
        assert_eq!(due.volatile_since(Serial(0)), Some(TimeNs(1)));
        let before_last = due.volatile_since(Serial(all - 1)).unwrap();
        assert!(before_last <= TimeNs(all as i64), "{before_last:?}");
        assert_eq!(due.volatile_since(Serial(all)), None);
    }
}
