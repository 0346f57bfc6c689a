//! Waiting: how an operation that the core refused waits, either for blocks to be read or for room to be made.
//!
//! An operation that waits for room wakes the background worker and sleeps until the next event (`events`); only if nobody has
//! promised background work does the operation do the work itself. The events are noted under the same hold of the lock as the
//! refusal, so none is missed.
//!
//! No wait depends on time passing, with one exception: [`PROMISE_BROKEN`], for programs that promise background work and do
//! not do it.

use super::Volume;
use super::events::Seen;
use crate::never_waiting;
use crate::sync::atomic::Ordering;
use firnfs::engine::Engine;
use firnfs::engine::Step;
use firnfs::vfs::Vfs;
use firnfs::{Fetch, FsError, Stop, Token};
use firnfs_format::TimeNs;
use std::time::Duration;

/// How long an operation waits for promised background work while nobody does it.
const PROMISE_BROKEN: Duration = Duration::from_millis(100);
/// Steps without progress before an operation that waits for room is refused.
const STUCK_MAX: u32 = 8;
/// Background steps that an operation does while it waits for room: far more than making room can take.
const WORK_MAX: u32 = 4096;
/// Bytes that are read at a time for one operation, and the number of fetches: their memory is outside the cache's bound.
const BATCH_BYTES: u64 = 4 << 20;
const BATCH_FETCHES: usize = 256;
/// How often a block with the wrong bytes is fetched again: its place may have been rewritten meanwhile.
const FETCH_TRIES: u32 = 3;

impl<S: Engine> Volume<S> {
    /// Does the work that a stopped operation waits for.
    pub(super) fn overcome(&self, stop: Stop, patience: &mut Patience) -> Result<(), FsError> {
        match stop {
            Stop::Fail(e) => Err(e),
            Stop::Need(fetches) => self.fetch_all(&fetches, patience, |_| true),
            // Making room needs the device.
            Stop::Room if Self::is_device_frozen(&self.core.lock()) => {
                never_waiting::ask()?;
                self.wait_for_thaw_unless_given_up()
            }
            Stop::Room => {
                never_waiting::ask().inspect_err(|_| self.kick())?;
                self.ask_caller()?;
                patience.stalled_since.get_or_insert_with(|| self.now());
                self.make_room(patience)
            }
        }
    }

    /// Reads blocks and puts them into the cache, as many at a time as is useful, as long as they are `wanted`.
    pub(super) fn fetch_all(
        &self,
        fetches: &[Fetch],
        patience: &mut Patience,
        wanted: impl Fn(&Vfs<S>) -> bool,
    ) -> Result<(), FsError> {
        let mut rest = fetches;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(batch_len(rest));
            rest = later;
            let (started, batch) = self.reader.take_started(batch);
            let answers = self.reader.fetch_all(&batch);
            let landed = started
                .into_iter()
                .filter_map(|(token, read)| Some((token, self.reader.land_for_store(&token, read)?)));
            let landed: Vec<_> = landed.collect();
            let mut core = self.core.lock();
            for (token, bytes) in landed {
                // If the operation still needs them, it asks again, and is told what is wrong.
                let _maybe_later = core.store_mut().supply(&token, &bytes);
            }
            let supplied = batch.iter().zip(answers).map(|(fetch, answer)| {
                let put_in = answer.and_then(|bytes| core.store_mut().supply(&fetch.token, &bytes));
                (fetch, put_in)
            });
            let failed: Vec<_> =
                supplied.filter_map(|(fetch, put_in)| Some((fetch, put_in.err()?))).collect();
            // One error at a time: the operation meets the next one when it is retried.
            if let Some((fetch, why)) = failed.into_iter().next() {
                if why == FsError::WouldWait {
                    return Err(why);
                }
                if patience.fetch_failed(fetch) {
                    patience.failed = None;
                    return core.store_mut().fetch_failed(&fetch.token, why);
                }
                return Ok(());
            }
            if !wanted(&core) {
                break;
            }
        }
        self.core.lock().store_mut().shrink_caches();
        Ok(())
    }

    /// Waits until the background worker has made room or memory, or makes it here.
    fn make_room(&self, patience: &mut Patience) -> Result<(), FsError> {
        if self.has_background() && !patience.is_alone {
            return self.wait_for_room(patience);
        }
        let (step, seen) = self.step_for_room();
        match step {
            Ok(Step::Worked) if patience.worked >= WORK_MAX => Err(FsError::NoSpace),
            Ok(Step::Worked) => {
                patience.stuck = 0;
                patience.worked += 1;
                self.pump();
                Ok(())
            }
            Ok(Step::Waiting) | Err(Stop::Room) if self.get_on(self.core.lock(), seen) => Ok(()),
            Ok(Step::Waiting | Step::Idle(_) | Step::Stuck) | Err(Stop::Room) => patience.met_dead_end(),
            Err(stop) => self.overcome_in_step(stop, patience, |_| true),
        }
    }

    /// Has the background worker make room, and sleeps until the next event: two workers would only hinder each other.
    fn wait_for_room(&self, patience: &mut Patience) -> Result<(), FsError> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.kick();
        let mut core = self.core.lock();
        while self.seen() == patience.seen && self.has_background() && !patience.is_alone {
            let is_over = self.sleep(&mut core, Some(PROMISE_BROKEN));
            let is_idle = self.at_work.load(Ordering::Relaxed) == 0;
            patience.is_alone = is_over && is_idle && self.seen() == patience.seen;
        }
        let seen = self.seen();
        drop(core);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if seen.dead_ends != patience.seen.dead_ends {
            return patience.met_dead_end();
        }
        patience.stuck = 0;
        Ok(())
    }

    /// Background work never waits for room: operations wait for it. It continues to read only while the blocks are `wanted`.
    pub(super) fn overcome_in_step(
        &self,
        stop: Stop,
        patience: &mut Patience,
        wanted: impl Fn(&Vfs<S>) -> bool,
    ) -> Result<(), FsError> {
        match stop {
            Stop::Need(fetches) => self.fetch_all(&fetches, patience, wanted),
            Stop::Fail(e) => Err(e),
            Stop::Room => Ok(()),
        }
    }
}

/// How many of these fetches are read at a time; at least one.
fn batch_len(fetches: &[Fetch]) -> usize {
    let mut bytes = 0;
    let fits = |fetch: &&Fetch| {
        bytes += u64::from(fetch.len_bytes);
        bytes <= BATCH_BYTES
    };
    fetches.iter().take(BATCH_FETCHES).take_while(fits).count().max(1)
}

/// How often one operation was refused for the same reason.
#[derive(Default)]
pub(super) struct Patience {
    /// When it was first refused for lack of room.
    pub(super) stalled_since: Option<TimeNs>,
    stuck: u32,
    /// Background steps that it did itself.
    worked: u32,
    /// Nobody does background work for it.
    is_alone: bool,
    /// The events up to its last refusal.
    pub(super) seen: Seen,
    failed: Option<(Token, u32)>,
}

impl Patience {
    /// There was no way to make room; refuses the operation if that happened too often in a row.
    fn met_dead_end(&mut self) -> Result<(), FsError> {
        self.stuck += 1;
        if self.stuck > STUCK_MAX { Err(FsError::NoSpace) } else { Ok(()) }
    }

    /// A fetch failed; true if that is final.
    fn fetch_failed(&mut self, fetch: &Fetch) -> bool {
        let before = match &self.failed {
            Some((last, times)) if *last == fetch.token => *times,
            _ => 0,
        };
        self.failed = Some((fetch.token, before + 1));
        before + 1 >= FETCH_TRIES
    }
}
