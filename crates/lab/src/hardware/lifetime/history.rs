//! The "real" file system: it lives through the months, a snapshot is taken each night, and the aging workload is derived from the snapshots
//! (sections 3.2 and 3.4).

use super::life::{Speed, sequential};
use super::people::People;
use super::short_lived::profiles;
use super::{Policy, SIZES_KIB, Span, free_bytes, full};
use crate::age::layout::{Layout, Score};
use crate::age::replay::{By, Tally};
use crate::age::snapshot::Snapshot;
use crate::age::take::image;
use crate::age::workload::{Counts, Series, from_snapshots};
use crate::error::LabError;
use crate::hardware::lived::live_through;
use std::sync::mpsc::sync_channel;

/// See the module's head.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::hardware) struct History {
    /// The derived workload.
    pub workload: Vec<u8>,
    /// What is in it.
    pub counts: Counts,
    /// Its nights, as [`super::live`] looks at them.
    pub nights_ns: Vec<i64>,
    /// What happened on the real file system.
    pub real: Tally,
    /// The layout score of the real file system each evening.
    pub scores: Vec<Score>,
    /// Its layout at the end.
    pub layout: Layout,
    /// How full it is at the end: the share of the space for data.
    pub full: f64,
    /// Reading and writing files of one size on it, for each of [`SIZES_KIB`].
    pub speeds: Vec<Speed>,
}

/// Lives through the real history.
///
/// # Errors
/// A volume cannot be made, or the file system failed.
pub(in crate::hardware) fn live_history(span: Span, seed: u64) -> Result<History, LabError> {
    let setup = span.setup(Policy::Original)?;
    let data_bytes = free_bytes(&setup)?;
    let people = People::live(span, data_bytes, seed)?;
    let nights_ns = People::nights_ns(span);
    let mut history = History { nights_ns: nights_ns.clone(), ..History::default() };
    let profiles = profiles(seed);
    let profiles_from = "short-lived files, made up";
    let series = Series { profiles: &profiles, profiles_from, seed };
    let (sender, receiver) = sync_channel::<Snapshot>(1);
    let (lived, derived) = std::thread::scope(|scope| {
        let series = &series;
        let derive = scope.spawn(move || {
            let mut workload = Vec::new();
            from_snapshots(series, &mut receiver.into_iter().map(Ok), &mut workload)
                .map(|counts| (workload, counts))
        });
        let lived = live_through(&setup, By::Directory, &people, &nights_ns, &mut |volume| {
            let snapshot = image(volume, &mut |_| Ok(()))?;
            let layout = Layout::of(&snapshot);
            history.scores.push(layout.all.score);
            history.full = full(&snapshot, data_bytes);
            history.layout = layout;
            // If nobody receives it, the thread failed, and says why.
            let _ = sender.send(snapshot);
            Ok(())
        });
        drop(sender);
        (lived, derive.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (lived, (workload, counts)) = (lived?, derived?);
    let speeds = sequential(span, &setup, Some(&lived), &SIZES_KIB)?;
    Ok(History { workload, counts, real: lived.tally, speeds, ..history })
}
