//! A feed from the daemon of a mount.
//!
//! It asks once an interval; while it is paused it asks nothing. A map with more changes than fit into one answer comes in at
//! most [`PARTS_MAX`] parts a tick, and the rest with the next tick.

use super::owners;
use super::service::WATCH_OP;
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use firnfs_fuse::mount::table::Mount;
use firnfs_watch::feed::{Feed, Step};
use firnfs_watch::screen::Owners;
use firnfs_watch::screen::keys::Action;
use firnfs_watch::state::State;
use firnfs_watch::tick::{Request, Requests, Tick};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Parts of the map in one tick, of some 60 KB each.
const PARTS_MAX: usize = 12;

/// See the module's head.
pub struct Live {
    client: Client,
    mount: Mount,
    state: State,
    interval: Duration,
    due: Instant,
    is_paused: bool,
    /// One look although it is paused.
    has_step: bool,
}

impl Live {
    /// Connects to the daemon of a mount.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn new(mount: Mount, interval: Duration) -> Result<Self, ClientError> {
        let client = Client::for_mount(&mount)?;
        let (due, is_paused, has_step) = (Instant::now(), false, false);
        Ok(Self { client, mount, state: State::default(), interval, due, is_paused, has_step })
    }

    /// Whether the volume has a log, which can be watched.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn has_log(&mut self) -> Result<bool, ClientError> {
        Ok(self.client.call("help", json!({}))?.get(WATCH_OP).is_some())
    }

    fn ask<T: DeserializeOwned>(&mut self, op: &str, arguments: Value) -> Result<T, ClientError> {
        self.client.ask(op, arguments)
    }

    fn request(&self, policies: &[&str]) -> Value {
        let (revision, taken) = self.state.position();
        let policies = policies.iter().map(|name| (*name).to_owned()).collect();
        json!(Request { revision, taken, policies })
    }

    fn tick(&mut self, policies: &[&str]) -> Result<(), ClientError> {
        let request = self.request(policies);
        let mut tick: Tick = self.ask(WATCH_OP, request)?;
        tick.requests = self.ask::<Vec<Requests>>("requests", json!({}))?;
        tick.volume.name = self.mount.mountpoint.display().to_string();
        tick.volume.source = self.mount.source.display().to_string();
        let mut more = tick.map.more;
        self.add(|state| state.add(tick))?;
        for _ in 1..PARTS_MAX {
            if !more {
                break;
            }
            let request = self.request(&[]);
            let part: Tick = self.ask(WATCH_OP, request)?;
            more = part.map.more;
            self.add(|state| state.add_part(&part))?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        add: impl FnOnce(&mut State) -> Result<(), firnfs_watch::map::BadUpdate>,
    ) -> Result<(), ClientError> {
        add(&mut self.state)
            .map_err(|e| ClientError::Socket { path: self.mount.mountpoint.clone(), reason: e.to_string() })
    }
}

impl Feed for Live {
    fn step(&mut self, policies: &[&str]) -> Result<Step, String> {
        let now = Instant::now();
        let has_step = std::mem::take(&mut self.has_step);
        if self.is_paused && !has_step {
            return Ok(Step::Wait(self.interval));
        }
        if now < self.due && !has_step {
            return Ok(Step::Wait(self.due - now));
        }
        // A late tick does not make the next ones come in a rush.
        self.due = (self.due + self.interval).max(now);
        match self.tick(policies) {
            Ok(()) => Ok(Step::Changed),
            Err(error) if self.state.last.is_some() && has_ended(&error) => {
                Ok(Step::End(format!("{} was unmounted", self.mount.mountpoint.display())))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn label(&self) -> String {
        if self.is_paused { "PAUSED".to_owned() } else { "live".to_owned() }
    }

    fn owners(&mut self, segment: u64) -> Owners {
        match owners::of(&mut self.client, &self.mount.mountpoint, segment) {
            Ok(owners) => Owners::Found(owners),
            Err(error) => Owners::Unknown(error.to_string()),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Pause => {
                self.is_paused = !self.is_paused;
                self.due = Instant::now();
            }
            Action::Step => (self.is_paused, self.has_step) = (true, true),
            _ => {}
        }
    }
}

/// True if the daemon is closing the volume, or has ended.
fn has_ended(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(refused) => refused.kind == ErrorKind::Closing,
        ClientError::NotUnderstood(_) => false,
        _ => true,
    }
}
