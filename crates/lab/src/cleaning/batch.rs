//! Runs many simulations on all cores. Results come in the order of the setups and depend only on them.

use super::simulate::{Outcome, Setup, simulate};
use crate::error::LabError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs all setups on `threads` threads (at least 1). Reports to `progress` how many are done, fractions included;
/// any thread may call it, but only one at a time.
///
/// # Errors
/// The error of the first setup that cannot be run.
pub fn run(
    setups: &[Setup],
    threads: usize,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<Vec<Outcome>, LabError> {
    run_each(setups, threads, progress, simulate)
}

/// The same for any simulation that reports its share.
pub(crate) fn run_each<S: Sync, O: Send>(
    setups: &[S],
    threads: usize,
    progress: &mut (dyn FnMut(f64) + Send),
    simulate: impl Fn(&S, &mut dyn FnMut(f64)) -> Result<O, LabError> + Sync,
) -> Result<Vec<O>, LabError> {
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((vec![0.0; setups.len()], progress));
    let tell = |index: usize, share: f64| {
        let mut guard = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (shares, progress) = &mut *guard;
        shares[index] = share;
        progress(shares.iter().sum());
    };
    let work = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(setup) = setups.get(index) else { return results };
            let mut told = 0.0;
            results.push((
                index,
                simulate(setup, &mut |share| {
                    if share - told > 0.01 {
                        told = share;
                        tell(index, share.min(1.0));
                    }
                }),
            ));
            tell(index, 1.0);
        }
    };
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, setups.len().max(1))).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
