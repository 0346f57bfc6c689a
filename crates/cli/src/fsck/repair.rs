//! `firn fsck --repair`: asks about each finding, repairs, and shows the result of the last check.

use super::view::{CheckView, FindingView, FsckView, RepairView};
use super::{CORRECTED, FsckArgs, UNCORRECTED, impossible, lost, open, show};
use crate::failure::{Done, Failure};
use crate::progress::Bar;
use firnfs::check::Finding;
use firnfs_device::{Access, Clock, Device, SystemClock};
use firnfs_manage::Outcome;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::sync::Arc;

/// Runs it.
///
/// # Errors
/// There is no terminal to ask on, the volume is in use or is no volume, or a write fails.
pub fn run(args: &FsckArgs) -> Done<FsckView> {
    if !args.yes && (args.json || !stdin().is_terminal()) {
        return Err(Failure::usage("--repair asks about each finding, but there is no terminal to ask on")
            .advise("add --yes to repair without asking"));
    }
    let device: Arc<dyn Device> = Arc::new(open(&args.image, Access::ReadWrite)?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let bar = Bar::of_bytes();
    let mut answer = Answer { all: args.yes };
    let repaired = firnfs_manage::repair(
        &device,
        &clock,
        &mut |finding| {
            let costs_state = finding.problem.costs_state();
            match (costs_state, finding.lost_bytes > 0) {
                (true, _) if args.drop_states => true,
                (true, _) if args.leaves_states() => false,
                (_, true) if !args.zero_lost => false,
                _ => bar.suspend(|| answer.to(finding)),
            }
        },
        &mut |progress| show(&bar, progress),
    );
    drop(bar);
    let repaired = repaired.map_err(|e| impossible(&args.image, &e))?;
    let did_something = repaired.actions.iter().any(|action| action.outcome == Outcome::Repaired);
    let corrected = if did_something { CORRECTED } else { 0 };
    let left = if repaired.after.is_clean() { 0 } else { UNCORRECTED };
    Ok(FsckView {
        image: args.image.clone(),
        checks: vec![CheckView::new(&repaired.after, None)],
        repairs: repaired.actions.iter().map(|action| RepairView::new(action, args)).collect(),
        lost: lost::of_repair(&repaired),
        past: None,
        exit: corrected | left,
    })
}

/// Asks on the terminal.
struct Answer {
    all: bool,
}

impl Answer {
    fn to(&mut self, finding: &Finding) -> bool {
        // Nobody means to delete a state who has seen other findings only.
        if self.all && !finding.problem.costs_state() {
            return true;
        }
        let view = FindingView::from(finding);
        let mut err = stderr();
        // If the question cannot be shown, the answer is no.
        if view.describe(&mut err).is_err() || write!(err, "  {}? [y]es, [N]o, [a]ll ", view.repair).is_err()
        {
            return false;
        }
        let mut line = String::new();
        if stdin().read_line(&mut line).is_err() {
            return false;
        }
        let answer = line.trim().to_ascii_lowercase();
        let is_all = matches!(answer.as_str(), "a" | "all");
        self.all |= is_all;
        is_all || matches!(answer.as_str(), "y" | "yes")
    }
}
