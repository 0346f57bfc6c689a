//! `ReadAhead`: bytes that were read before anybody needed them, and reads that were started for the same reason.
//!
//! A *window* is a stretch of the device in memory. A *started* read ([`Soon`]) is under way; nobody has waited for it. One with a
//! token is the store's: its bytes go to the store. One without becomes a window when it is waited for.
//!
//! Bounds: windows of [`BESIDE_MAX_BYTES`] and [`STREAMED_MAX_BYTES`], started reads of [`STARTED_MAX_BYTES`]. The lists drop the entries that were not
//! used for longest. What was read beside a fetch, mostly metadata, has a list of its own: a file's content comes once and goes, and would
//! push it out. Bookkeeping only: the reader submits, waits and verifies.
//!
//! Invariant: a started read is in the list from its submission until somebody takes it out in order to wait for it.
//!
//! Caller: `reader`.

use crate::sync::Mutex;
use firnfs::fetch::{Fetch, Fetched, Soon, Token};
use firnfs_device::{AlignedBuf, Tag};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of windows that were read beside a fetch.
const BESIDE_MAX_BYTES: u64 = 6 << 20;
/// Bytes of windows that were started by themselves: each is used soon, and once.
const STREAMED_MAX_BYTES: u64 = 4 << 20;
/// Bytes of started reads.
const STARTED_MAX_BYTES: u64 = 4 << 20;
/// Longest read that is started for the store.
pub(crate) const SOON_MAX_BYTES: u32 = 1 << 20;
/// Longest read that will be a window: whoever needs its first bytes waits for all of it.
pub(crate) const PIECE_MAX_BYTES: u64 = 128 << 10;

/// A stretch of the device that was read.
#[derive(Clone)]
pub(crate) struct Window {
    pub at_bytes: u64,
    pub data: Arc<AlignedBuf>,
}

impl Window {
    pub fn end(&self) -> u64 {
        self.at_bytes + self.data.len() as u64
    }

    /// The bytes of a range, if it lies inside.
    pub fn range(&self, at_bytes: u64, len_bytes: u64) -> Option<&[u8]> {
        let from = usize::try_from(at_bytes.checked_sub(self.at_bytes)?).ok()?;
        self.data.get(from..from.checked_add(len_bytes as usize)?)
    }

    /// The same, to be kept without a copy.
    pub fn part(&self, at_bytes: u64, len_bytes: u64) -> Option<Fetched> {
        let from = usize::try_from(at_bytes.checked_sub(self.at_bytes)?).ok()?;
        Fetched::part(&self.data, from..from.checked_add(len_bytes as usize)?)
    }

    pub fn holds(&self, at_bytes: u64) -> bool {
        (self.at_bytes..self.end()).contains(&at_bytes)
    }
}

/// A read under way. Its tag has to be waited for.
#[must_use]
pub(crate) struct Started {
    /// What was asked for; the read itself is aligned outwards.
    pub soon: Soon,
    pub at_bytes: u64,
    pub len_bytes: u32,
    pub tag: Tag,
}

impl Started {
    fn end(&self) -> u64 {
        self.at_bytes + u64::from(self.len_bytes)
    }

    /// Whether it has that byte.
    pub fn holds(&self, at_bytes: u64) -> bool {
        (self.at_bytes..self.end()).contains(&at_bytes)
    }
}

/// Windows, the most recently used last: a directory's window outlives those of its files, which come and go.
#[derive(Default)]
struct Kept(VecDeque<Window>);

impl Kept {
    fn take_at(&mut self, at_bytes: u64) -> Option<Window> {
        let found = self.0.iter().rposition(|window| window.holds(at_bytes))?;
        let window = self.0.remove(found)?;
        self.0.push_back(window.clone());
        Some(window)
    }

    fn add(&mut self, window: Window, most_bytes: u64) {
        self.0.push_back(window);
        let mut bytes: u64 = self.0.iter().map(|window| window.data.len() as u64).sum();
        while bytes > most_bytes
            && let Some(oldest) = self.0.pop_front()
        {
            bytes -= oldest.data.len() as u64;
        }
    }
}

#[derive(Default)]
struct Lists {
    /// What was read beside a fetch.
    beside: Kept,
    /// What was started by itself.
    streamed: Kept,
    /// In the order in which they were started.
    started: VecDeque<Started>,
}

impl Lists {
    /// See [`ReadAhead::holds`].
    fn hold(&self, at_bytes: u64, len_bytes: u64) -> bool {
        let (mut at, end) = (at_bytes, at_bytes + len_bytes);
        while at < end {
            let window = self.windows().find(|window| window.holds(at)).map(Window::end);
            let coming = || self.started.iter().find(|read| read.soon.token.is_none() && read.holds(at));
            match window.or_else(|| coming().map(Started::end)) {
                Some(held_to) => at = held_to,
                None => return false,
            }
        }
        true
    }

    fn started_bytes(&self) -> u64 {
        self.started.iter().map(|read| u64::from(read.len_bytes)).sum()
    }

    fn windows(&self) -> impl DoubleEndedIterator<Item = &Window> {
        self.beside.0.iter().chain(&self.streamed.0)
    }
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct ReadAhead(Mutex<Lists>);

impl ReadAhead {
    /// Whether all bytes of a range are in windows or on their way into one.
    pub fn holds(&self, at_bytes: u64, len_bytes: u64) -> bool {
        self.0.lock().hold(at_bytes, len_bytes)
    }

    /// Whether any byte of a range is.
    pub fn has_any_of(&self, range: &Range<u64>) -> bool {
        let lists = self.0.lock();
        let meets = |at_bytes: u64, end: u64| at_bytes < range.end && range.start < end;
        lists.windows().any(|window| meets(window.at_bytes, window.end()))
            || lists.started.iter().any(|read| meets(read.at_bytes, read.end()))
    }

    /// The same as [`Self::holds`] for each of some fetches.
    pub fn which_are_held(&self, fetches: &[Fetch]) -> Vec<bool> {
        let lists = self.0.lock();
        fetches.iter().map(|fetch| lists.hold(fetch.at_bytes, fetch.len_bytes.into())).collect()
    }

    /// The window that holds that byte; it becomes the most recently used.
    pub fn window_at(&self, at_bytes: u64) -> Option<Window> {
        let mut lists = self.0.lock();
        lists.beside.take_at(at_bytes).or_else(|| lists.streamed.take_at(at_bytes))
    }

    /// The latest window that holds that byte and ends before `end`.
    pub fn window_before(&self, at_bytes: u64, end: u64) -> Option<Window> {
        let lists = self.0.lock();
        lists.windows().rev().find(|window| window.holds(at_bytes) && window.end() < end).cloned()
    }

    /// Keeps what was read beside a fetch; another window of that kind may have to go.
    pub fn keep_beside(&self, window: Window) {
        self.0.lock().beside.add(window, BESIDE_MAX_BYTES);
    }

    /// The same for what was started by itself.
    pub fn keep_streamed(&self, window: Window) {
        self.0.lock().streamed.add(window, STREAMED_MAX_BYTES);
    }

    /// Whether a started read has that byte, for the store or for a window.
    pub fn is_started(&self, at_bytes: u64, is_for_store: bool) -> bool {
        let lists = self.0.lock();
        lists.started.iter().any(|read| read.soon.token.is_some() == is_for_store && read.holds(at_bytes))
    }

    /// Takes out the started read that will make a window with that byte.
    pub fn take_at(&self, at_bytes: u64) -> Option<Started> {
        self.take(|read| read.soon.token.is_none() && read.holds(at_bytes))
    }

    /// Takes out the started read of the store that has that byte.
    pub fn take_of_store(&self, at_bytes: u64) -> Option<(Token, Started)> {
        let read = self.take(|read| read.soon.token.is_some() && read.holds(at_bytes))?;
        Some((read.soon.token?, read))
    }

    fn take(&self, is_wanted: impl Fn(&Started) -> bool) -> Option<Started> {
        let mut lists = self.0.lock();
        let found = lists.started.iter().position(is_wanted)?;
        lists.started.remove(found)
    }

    /// Whether none of the started reads has to be waited for if these are added.
    pub fn has_room(&self, soon: &[Soon]) -> bool {
        let more: u64 = soon.iter().map(|soon| u64::from(soon.len_bytes) + 2 * PIECE_MAX_BYTES).sum();
        self.0.lock().started_bytes() + more <= STARTED_MAX_BYTES
    }

    /// Adds a read that was started. Returns those, the oldest, for which there is no room any more.
    pub fn add(&self, started: Started) -> Vec<Started> {
        let mut lists = self.0.lock();
        lists.started.push_back(started);
        let mut bytes = lists.started_bytes();
        let mut excess = Vec::new();
        while bytes > STARTED_MAX_BYTES
            && let Some(oldest) = lists.started.pop_front()
        {
            bytes -= u64::from(oldest.len_bytes);
            excess.push(oldest);
        }
        excess
    }

    /// Takes out all started reads.
    pub fn take_all(&self) -> VecDeque<Started> {
        std::mem::take(&mut self.0.lock().started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(at_bytes: u64) -> Window {
        Window { at_bytes, data: Arc::new(AlignedBuf::zeroed(PIECE_MAX_BYTES as usize)) }
    }

    #[test]
    fn content_does_not_push_out_what_was_read_beside_a_fetch() {
        let ahead = ReadAhead::default();
        ahead.keep_beside(window(0));
        let places = (1..100).map(|n| n * PIECE_MAX_BYTES);
        places.clone().for_each(|at_bytes| ahead.keep_streamed(window(at_bytes)));
        assert!(ahead.window_at(0).is_some() && ahead.holds(98 * PIECE_MAX_BYTES, 2 * PIECE_MAX_BYTES));
        let kept = places.clone().filter(|at_bytes| ahead.window_at(*at_bytes).is_some()).count();
        assert_eq!(kept as u64 * PIECE_MAX_BYTES, STREAMED_MAX_BYTES);
        places.for_each(|at_bytes| ahead.keep_beside(window((1 << 40) + at_bytes)));
        assert!(ahead.window_at(0).is_none(), "but its own kind does");
    }
}
