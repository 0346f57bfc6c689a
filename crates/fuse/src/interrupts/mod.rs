//! INTERRUPT: a request that waits ends with EINTR if its caller is about to die.
//!
//! The kernel sends INTERRUPT once for a request whose caller has got a signal, whatever the signal is. Programs do not expect that
//! a signal which they handle ends a call on a file: no local file system does that. So a request ends early only if a pending signal
//! will end its caller, which then never sees the answer. All others go on waiting; their callers are looked at again from
//! time to time, since the kernel does not tell of a second signal.
//!
//! Only waits before the first change end early: `firnfs_volume` asks there ([`has_caller_given_up`]), and nowhere else. A request that
//! does not wait costs nearly nothing: it is registered when it is about to wait for the first time. INTERRUPT may come before that,
//! because over io_uring it takes another way than the request; so the last few that belong to no request are kept.
//!
//! Parts: `signals` (what is pending). Callers: the adapter.

mod signals;

use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How many INTERRUPTs without a request are kept. Those of requests that have ended are among them.
const EARLY_MAX: usize = 64;
/// How often callers are looked at again that were signalled and will not die of it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waits,
    /// The kernel has sent INTERRUPT.
    Signalled,
    /// Its caller will die.
    GivenUp,
}

#[derive(Default)]
struct Table {
    /// By the numbers of the requests: the thread of the caller, and what is known of it.
    waiting: BTreeMap<u64, (u32, State)>,
    early: VecDeque<u64>,
    /// A thread looks at callers again.
    is_watched: bool,
}

/// The requests of a mount that wait.
pub struct Interrupts {
    table: Mutex<Table>,
    /// Has all that wait ask again.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// The request that a thread carries out.
struct Current {
    interrupts: Arc<Interrupts>,
    unique: u64,
    /// 0 if the daemon's namespace does not have it.
    caller: u32,
    is_registered: bool,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// While this exists, its thread carries out a request: see [`Interrupts::serve`].
#[must_use = "the request can be interrupted as long as it is kept"]
pub struct Serving(());

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(current) = CURRENT.take()
            && current.is_registered
        {
            current.interrupts.table.lock().waiting.remove(&current.unique);
        }
    }
}

/// Whether the caller of the request that this thread carries out has given up.
pub fn has_caller_given_up() -> bool {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return false };
        let is_first = !std::mem::replace(&mut current.is_registered, true);
        let mut table = current.interrupts.table.lock();
        if is_first {
            let early = table.early.iter().position(|unique| *unique == current.unique);
            let state = if early.is_some() { State::Signalled } else { State::Waits };
            early.map(|at| table.early.remove(at));
            table.waiting.insert(current.unique, (current.caller, state));
            if state == State::Signalled {
                current.interrupts.watch(&mut table);
            }
        }
        matches!(table.waiting.get(&current.unique), Some((_, State::GivenUp)))
    })
}

impl Interrupts {
    /// For a mount; `wake` has all requests that wait ask again.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), wake: Box::new(wake) })
    }

    /// This thread carries out a request of a caller from now on.
    pub fn serve(self: &Arc<Self>, unique: u64, caller: u32) -> Serving {
        CURRENT.set(Some(Current { interrupts: self.clone(), unique, caller, is_registered: false }));
        Serving(())
    }

    /// INTERRUPT has come for that request.
    pub fn interrupt(self: &Arc<Self>, unique: u64) {
        let mut table = self.table.lock();
        match table.waiting.get_mut(&unique) {
            Some((_, state @ State::Waits)) => *state = State::Signalled,
            Some(_) => {}
            None => {
                table.early.push_back(unique);
                if table.early.len() > EARLY_MAX {
                    table.early.pop_front();
                }
                return;
            }
        }
        drop(table);
        if self.look_at_callers() {
            self.watch(&mut self.table.lock());
        }
    }

    /// Finds out which callers that were signalled will die. True if there are others.
    fn look_at_callers(&self) -> bool {
        let signalled: Vec<(u64, u32)> = {
            let table = self.table.lock();
            let is_signalled = |(unique, (caller, state)): (&u64, &(u32, State))| {
                (*state == State::Signalled).then_some((*unique, *caller))
            };
            table.waiting.iter().filter_map(is_signalled).collect()
        };
        let (dying, others): (Vec<_>, Vec<_>) =
            signalled.into_iter().partition(|(_, caller)| signals::will_die(*caller));
        {
            let mut table = self.table.lock();
            for (unique, _) in &dying {
                if let Some((_, state)) = table.waiting.get_mut(unique) {
                    *state = State::GivenUp;
                }
            }
        }
        // Not under the lock: those that wait ask while they hold locks of their own.
        if !dying.is_empty() {
            (self.wake)();
        }
        !others.is_empty()
    }

    /// A thread looks at callers again until none is left that was signalled.
    fn watch(self: &Arc<Self>, table: &mut Table) {
        if std::mem::replace(&mut table.is_watched, true) {
            return;
        }
        let interrupts = self.clone();
        let watch = move || {
            loop {
                std::thread::sleep(LOOK_AGAIN);
                interrupts.look_at_callers();
                let mut table = interrupts.table.lock();
                if !table.waiting.values().any(|(_, state)| *state == State::Signalled) {
                    table.is_watched = false;
                    break;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("firn-fuse-signal".into()).spawn(watch) {
            tracing::debug!("no thread that looks for signals: {error}");
            table.is_watched = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    fn interrupts() -> (Arc<Interrupts>, Arc<AtomicU32>) {
        let woken = Arc::new(AtomicU32::new(0));
        let count = woken.clone();
        let wake = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        (Interrupts::new(wake), woken)
    }

    /// A process that has been killed and is not waited for: what is pending stays pending.
    fn dead() -> Child {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        child.kill().unwrap();
        child
    }

    fn gives_up_soon() -> bool {
        let start = Instant::now();
        while !has_caller_given_up() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        has_caller_given_up()
    }

    #[test]
    fn a_request_that_waits_is_given_up_once_its_caller_will_die() {
        let (interrupts, woken) = interrupts();
        let mut caller = dead();
        let serving = interrupts.serve(4, caller.id());
        assert!(!has_caller_given_up());
        interrupts.interrupt(6);
        assert!(!has_caller_given_up(), "another request was meant");
        interrupts.interrupt(4);
        assert!(gives_up_soon() && woken.load(Ordering::SeqCst) > 0);
        drop(serving);
        assert!(!has_caller_given_up() && interrupts.table.lock().waiting.is_empty());
        caller.wait().unwrap();
    }

    #[test]
    fn an_interrupt_that_comes_before_its_request_counts() {
        let (interrupts, _) = interrupts();
        let mut caller = dead();
        interrupts.interrupt(4);
        let _serving = interrupts.serve(4, caller.id());
        assert!(gives_up_soon());
        caller.wait().unwrap();
        (0..1000).for_each(|unique| interrupts.interrupt(unique));
        assert_eq!(interrupts.table.lock().early.len(), EARLY_MAX);
    }

    #[test]
    fn a_caller_that_survives_its_signal_waits_until_it_gets_another_one() {
        let (interrupts, woken) = interrupts();
        let mut caller = Command::new("sleep").arg("100").spawn().unwrap();
        let _serving = interrupts.serve(4, caller.id());
        assert!(!has_caller_given_up());
        interrupts.interrupt(4);
        std::thread::sleep(LOOK_AGAIN * 3);
        assert!(!has_caller_given_up() && woken.load(Ordering::SeqCst) == 0);
        caller.kill().unwrap();
        assert!(gives_up_soon());
        caller.wait().unwrap();
    }
}
