//! `Turns`: threads that take turns in virtual time. One runs at a time, so the same program does the same thing every time.
//!
//! A thread runs until it sleeps ([`Turns::sleep_until`]) or waits for what another one does ([`Turns::wait`]). Then the one whose
//! time comes first goes on, and the clock moves to that time; who waits for others looks again whenever another one ran.
//!
//! Invariants: the clock moves only when nobody can go on before; a thread that does not take part does not touch the clock.

use crate::clock::VirtualClock;
use firnfs_device::Clock;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::Cell;
use std::sync::Arc;

/// Turns without time passing after which nobody will ever get on.
const TURNS_MAX: u64 = 1_000_000;

thread_local! {
    /// Which one this thread is.
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Goes on at that time.
    Sleeps(i64),
    /// Goes on at that time, or once another one has run.
    Waits(i64),
    /// Takes part no more.
    Done,
}

struct Table {
    states: Vec<State>,
    running: Option<usize>,
    /// When each ran last, in turns.
    ran_at: Vec<u64>,
    turn: u64,
    turns_in_vain: u64,
}

/// See the module's head.
pub struct Turns {
    clock: Arc<VirtualClock>,
    table: Mutex<Table>,
    changed: Condvar,
}

impl Turns {
    /// For so many threads; nobody runs before all of them have entered or one of them sleeps until later than the others.
    #[must_use]
    pub fn new(clock: Arc<VirtualClock>, threads: usize) -> Self {
        let now_ns = clock.now_ns();
        let table = Table {
            states: vec![State::Sleeps(now_ns); threads],
            running: Some(0),
            ran_at: vec![0; threads],
            turn: 0,
            turns_in_vain: 0,
        };
        Self { clock, table: Mutex::new(table), changed: Condvar::new() }
    }

    /// This thread is number `me` from now on. Returns when it is its turn; number 0 begins.
    pub fn enter(&self, me: usize) {
        ME.set(Some(me));
        self.until_my_turn(&mut self.table.lock(), me);
    }

    /// True on a thread that takes part.
    #[must_use]
    pub fn takes_part(&self) -> bool {
        ME.get().is_some()
    }

    /// Lets others run until that time.
    pub fn sleep_until(&self, at_ns: i64) {
        self.pass_on(State::Sleeps(at_ns));
    }

    /// Lets others run; returns once another one has, at the latest after so long.
    pub fn wait(&self, max_ns: i64) {
        self.pass_on(State::Waits(self.clock.now_ns().saturating_add(max_ns)));
    }

    /// This thread takes part no more.
    pub fn leave(&self) {
        self.pass_on(State::Done);
    }

    fn pass_on(&self, state: State) {
        let me = ME.get().expect("only threads that entered take turns");
        let mut table = self.table.lock();
        table.states[me] = state;
        for (n, other) in table.states.iter_mut().enumerate() {
            if n != me
                && let State::Waits(at_ns) = *other
            {
                *other = State::Waits(at_ns.min(self.clock.now_ns()));
            }
        }
        self.choose(&mut table);
        self.changed.notify_all();
        if state == State::Done {
            ME.set(None);
        } else {
            self.until_my_turn(&mut table, me);
        }
    }

    /// Picks who runs next, the one that has not run for longest among equals, and moves the clock.
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
        assert!(table.turns_in_vain < TURNS_MAX, "all wait for each other: {:?}", table.states);
        self.clock.advance_ns(passes_ns);
    }

    fn until_my_turn(&self, table: &mut MutexGuard<'_, Table>, me: usize) {
        while table.running != Some(me) {
            self.changed.wait(table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_run_in_the_order_of_their_times_and_see_what_others_did() {
        let clock = Arc::new(VirtualClock::at(0));
        let turns = Turns::new(clock.clone(), 2);
        let log = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turns.enter(1);
                for at_ns in [5, 20, 30] {
                    turns.sleep_until(at_ns);
                    log.lock().push(('b', clock.now_ns()));
                }
                turns.leave();
            });
            scope.spawn(|| {
                turns.enter(0);
                turns.sleep_until(10);
                log.lock().push(('a', clock.now_ns()));
                // Woken by what the other one does, then by time.
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
