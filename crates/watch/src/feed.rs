//! Where a display gets its numbers from: a daemon, a recording, a simulation.

use crate::screen::Owners;
use crate::screen::keys::Action;
use crate::state::State;
use std::time::Duration;

/// The result of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The state has changed.
    Changed,
    /// Nothing will change for that long.
    Wait(Duration),
    /// There is no more: why, as one line.
    End(String),
}

/// See the module's head.
pub trait Feed {
    /// Goes on as far as it can without waiting. `policies` are asked what they would take.
    ///
    /// # Errors
    /// One line for people.
    fn step(&mut self, policies: &[&str]) -> Result<Step, String>;

    /// What is known.
    fn state(&self) -> &State;

    /// Where the numbers come from, in few words.
    fn label(&self) -> String;

    /// The files with live blocks in a segment.
    fn owners(&mut self, segment: u64) -> Owners;

    /// Why it has no answer for a policy that the screen compares.
    fn unanswered(&self) -> &'static str {
        "not asked yet"
    }

    /// Pauses, takes one step, seeks, or changes its speed; a feed that cannot do that does nothing.
    fn act(&mut self, action: Action);
}
