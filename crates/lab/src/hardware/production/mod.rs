//! The five production file systems of Sprite LFS (paper 001, section 5.2) under made-up users: how much cleaning costs, how full segments
//! are, and which kinds of blocks the log consists of.
//!
//! `loads` has what the paper publishes of each file system, and what is assumed of its use. `projects` (home directories and
//! sources), `scratch` (/tmp) and `paging` (swap files) make the events (`event`), each at its time, from a seed; they know no
//! file system. `run` carries them out on the real log in virtual time and counts. Caller: the figures of the papers.
//!
//! Invariant: which segments are cleaned, how full they are and what the log is made of are results; nothing here sets them.

mod event;
mod loads;
mod paging;
mod projects;
mod run;
mod scratch;
#[cfg(test)]
mod tests;

pub(super) use loads::{LOADS, Load};
#[cfg(test)]
use run::Length;
pub(super) use run::{BINS, Used, run};
