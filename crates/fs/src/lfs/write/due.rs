//! When the next commit and the next checkpoint are due: what was changed, how much was written, and since when.

use firnfs_format::TimeNs;

/// See the module's head.
pub(in crate::lfs) struct Due {
    /// Log bytes since the last checkpoint: roll-forward would read them.
    log_bytes: u64,
    /// Something changed since the last checkpoint.
    has_changed: bool,
    checkpointed_at: TimeNs,
    /// When the oldest change that no flush was asked for yet was made.
    dirty_since: Option<TimeNs>,
}

impl Due {
    /// The state after a mount.
    pub fn new(now: TimeNs) -> Self {
        Self { log_bytes: 0, has_changed: false, checkpointed_at: now, dirty_since: None }
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

    /// All that is dirty is on its way, and a flush was asked for.
    pub fn note_clean(&mut self) {
        self.dirty_since = None;
    }

    /// A checkpoint is in line.
    pub fn note_checkpoint(&mut self, now: TimeNs) {
        *self = Self { dirty_since: self.dirty_since, ..Self::new(now) };
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
