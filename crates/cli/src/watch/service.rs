//! The daemon's side of `firn watch`: one operation of the control socket that answers with a [`Tick`].
//!
//! All watchers of a mount share one look at its segments, at most one each [`LOOK_LEAST`] and never more than a hundredth of the
//! time; in between they get the segments of the last look, and present counts. The daemon remembers no watcher. It
//! reads the segments a leaf of the usage table at a time, so operations of users go on in between, and it runs the policies
//! that are asked what they would take without holding the volume. Caller: `mounting::operations`.

use super::look::{self, Look};
use firnfs::FsError;
use firnfs::clean::Policy;
use firnfs::lfs::Lfs;
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_volume::{Stalls, Volume};
use firnfs_watch::tick::{self, POLICIES_MAX, Request, Tick};
use parking_lot::Mutex;
use serde::Deserialize;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Answers with a [`Tick`].
pub const WATCH_OP: &str = "watch";

/// However many watch, and however often.
const LOOK_LEAST: Duration = Duration::from_millis(100);
/// After a look, this many times as long passes without one.
const REST_FACTOR: u32 = 100;

/// The last look at the segments, for all who watch.
#[derive(Default)]
struct LastLook {
    /// When the next one may be, if there was one.
    next: Option<Instant>,
    look: Look,
}

struct Service {
    volume: Weak<Volume<Lfs>>,
    look: Mutex<LastLook>,
}

/// Registers the operation. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>) {
    let service = Service { volume, look: Mutex::default() };
    let help = "state, counts, marks, victims and changed segments since 'revision' and 'taken'; what 'policies' would take";
    registry.register(WATCH_OP, help, move |request| {
        let invalid = |why: String| OpError::new(ErrorKind::InvalidArgument, why);
        let request = Request::deserialize(request).map_err(|e| invalid(e.to_string()))?;
        let policies = policies(&request).map_err(invalid)?;
        let closing = || OpError::new(ErrorKind::Closing, "the volume is being closed");
        let volume = service.volume.upgrade().ok_or_else(closing)?;
        let tick = service.tick(&volume, &request, &policies).map_err(|e| OpError::from(&e))?;
        serde_json::to_value(tick).map_err(|e| OpError::new(ErrorKind::Failed, e.to_string()))
    });
}

fn policies(request: &Request) -> Result<Vec<Policy>, String> {
    if request.policies.len() > POLICIES_MAX {
        return Err(format!("at most {POLICIES_MAX} policies can be asked at a time"));
    }
    request.policies.iter().map(|name| name.parse()).collect()
}

impl Service {
    fn tick(&self, volume: &Volume<Lfs>, request: &Request, policies: &[Policy]) -> Result<Tick, FsError> {
        let mut last = self.look.lock();
        let begin = Instant::now();
        if last.next.is_none_or(|next| begin >= next) {
            let geometry = volume.run_quietly(|vfs, _| Ok(vfs.store().geometry()))?;
            last.look
                .take(&geometry, &mut |leaf| volume.run_quietly(|vfs, _| vfs.store_mut().watch_leaf(leaf)))?;
            last.next = Some(next_look(begin, begin.elapsed()));
        }
        let Stalls { count, total_ns, longest_ns, p50_ns, p99_ns } = volume.stalls();
        let (tick, now, terms) = volume.run_quietly(|vfs, now| {
            Ok((look::of_vfs(vfs, request.taken, now), now, vfs.store().next_terms(now)))
        })?;
        let tick = last.look.fill(tick, request.revision, now, policies, &terms);
        Ok(Tick { stalls: tick::Stalls { count, total_ns, longest_ns, p50_ns, p99_ns }, ..tick })
    }
}

fn next_look(begin: Instant, took: Duration) -> Instant {
    begin + LOOK_LEAST.max(took.saturating_mul(REST_FACTOR))
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
