//! `Turns`: threads that take turns in virtual time. One thread runs at a time, so the same program always behaves in the same
//! way.
//!
//! A thread runs until it sleeps ([`Turns::sleep_until`]) or waits for another thread ([`Turns::wait`]). Then the thread with
//! the earliest time continues, and the clock moves to that time; a waiting thread continues early if another thread calls
//! [`Turns::notify`].
//!
//! Invariants: the clock moves only when no thread can continue before; a thread that does not take part does not touch the
//! clock.

use crate::clock::VirtualClock;
use firnfs_device::Clock;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::Cell;
use std::sync::Arc;

/// Turns without time passing after which the threads count as stuck for ever.
const TURNS_MAX: u64 = 100_000;

thread_local! {
    /// The number of this thread.
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Continues at that time.
    Sleeps(i64),
    /// Continues at that time, or at a notification.
    Waits(i64),
    /// No longer takes part.
    Done,
}

struct Table {
    states: Vec<State>,
    running: Option<usize>,
    /// The turn in which each last ran.
    ran_at: Vec<u64>,
    turn: u64,
    turns_in_vain: u64,
    is_stuck: bool,
}

/// See the module's head.
pub struct Turns {
    clock: Arc<VirtualClock>,
    table: Mutex<Table>,
    /// By number of the thread: it may run. Waking all of them for each turn would cost more than the turns.
    called: Vec<Condvar>,
}

impl Turns {
    /// For this many threads; none runs before all of them have entered, or one of them sleeps until later than the others.
    #[must_use]
    pub fn new(clock: Arc<VirtualClock>, threads: usize) -> Self {
        let now_ns = clock.now_ns();
        let table = Table {
            states: vec![State::Sleeps(now_ns); threads],
            running: Some(0),
            ran_at: vec![0; threads],
            turn: 0,
            turns_in_vain: 0,
            is_stuck: false,
        };
        let called = (0..threads).map(|_| Condvar::new()).collect();
        Self { clock, table: Mutex::new(table), called }
    }

    /// From now on this thread has number `me`. Returns when it is its turn; number 0 begins.
    pub fn enter(&self, me: usize) {
        ME.set(Some(me));
        self.until_my_turn(&mut self.table.lock(), me);
    }

    /// True on a thread that takes part.
    #[must_use]
    pub fn takes_part(&self) -> bool {
        ME.get().is_some()
    }

    /// Lets other threads run until that time.
    pub fn sleep_until(&self, at_ns: i64) {
        self.pass_on(State::Sleeps(at_ns));
    }

    /// Lets other threads run until one of them notifies, at most that long.
    pub fn wait(&self, max_ns: i64) {
        self.pass_on(State::Waits(self.clock.now_ns().saturating_add(max_ns)));
    }

    /// Waiting threads continue when this thread lets others run. Any thread may call it.
    pub fn notify(&self) {
        for state in &mut self.table.lock().states {
            if let State::Waits(_) = *state {
                *state = State::Sleeps(self.clock.now_ns());
            }
        }
    }

    /// This thread no longer takes part.
    pub fn leave(&self) {
        self.pass_on(State::Done);
    }

    fn pass_on(&self, state: State) {
        let me = ME.get().expect("only threads that entered take turns");
        let mut table = self.table.lock();
        table.states[me] = state;
        self.choose(&mut table);
        if table.is_stuck {
            for called in &self.called {
                called.notify_all();
            }
        } else if let Some(next) = table.running.filter(|next| *next != me) {
            self.called[next].notify_all();
        }
        if state == State::Done {
            ME.set(None);
        } else {
            self.until_my_turn(&mut table, me);
        }
    }

    /// Picks the thread that runs next, among equals the one that has not run for longest, and moves the clock.
    fn choose(&self, table: &mut Table) {
        let next = table.states.iter().enumerate().filter_map(|(n, state)| match *state {
            State::Sleeps(at_ns) | State::Waits(at_ns) => {
                Some((at_ns.max(self.clock.now_ns()), table.ran_at[n], n))
            }
            State::Done => None,
        });
        let next = next.min();
        table.running = next.map(|(_, _, n)| n);
        let Some((at_ns, _, n)) = next else { return };
        table.turn += 1;
        table.ran_at[n] = table.turn;
        let passes_ns = at_ns - self.clock.now_ns();
        table.turns_in_vain = if passes_ns > 0 { 0 } else { table.turns_in_vain + 1 };
        if table.turns_in_vain >= TURNS_MAX {
            table.is_stuck = true;
            return;
        }
        self.clock.advance_ns(passes_ns);
    }

    fn until_my_turn(&self, table: &mut MutexGuard<'_, Table>, me: usize) {
        while table.running != Some(me) {
            assert!(!table.is_stuck, "no time passes: {:?}", table.states);
            self.called[me].wait(table);
        }
        assert!(!table.is_stuck, "no time passes: {:?}", table.states);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_run_in_the_order_of_their_times_and_wake_each_other() {
        let clock = Arc::new(VirtualClock::at(0));
        let turns = Turns::new(clock.clone(), 2);
        let log = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turns.enter(1);
                for at_ns in [5, 20, 30] {
                    turns.sleep_until(at_ns);
                    log.lock().push(('b', clock.now_ns()));
                    if at_ns == 20 {
                        turns.notify();
                    }
                }
                turns.leave();
            });
            scope.spawn(|| {
                turns.enter(0);
                turns.sleep_until(10);
                log.lock().push(('a', clock.now_ns()));
                // Woken by the other thread, then by time.
                turns.wait(100);
                log.lock().push(('a', clock.now_ns()));
                turns.wait(3);
                log.lock().push(('a', clock.now_ns()));
                turns.leave();
            });
        });
        let expected = [('b', 5), ('a', 10), ('b', 20), ('a', 20), ('a', 23), ('b', 30)];
        assert_eq!(*log.lock(), expected);
    }
}
