//! Several programs on one machine, in virtual time: they take turns, share the processor, the disk and the file system's memory, and wait
//! for each other where they say so. The same programs always behave in the same way.
//!
//! Callers: the Andrew benchmark with several users (BSD-LFS 5.2.2).

use super::{End, Program, Rig};
use crate::error::LabError;
use firnfs_device::Clock;
use firnfs_sim::Turns;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How long a program waits for another one at a time; a notification ends the wait.
const WAIT_NS: i64 = 3_600_000_000_000;
/// After that long, a program gives up waiting for the others.
const PATIENCE_NS: i64 = 1000 * WAIT_NS;

impl Rig {
    /// Mounts the volume, runs that many programs beside each other, and unmounts it once all are done. Each is told its number, from 0 on.
    /// Returns their results in this order.
    pub fn run_several<T: Send>(
        &self,
        users: usize,
        program: impl Fn(&Program<'_>, usize) -> Result<T, LabError> + Sync,
    ) -> Result<Vec<T>, LabError> {
        self.run_until(End::Unmount, users, |context| beside_each_other(context, users, &program))
    }
}

/// Takes a thread out of the turns, also if its program panics: otherwise the others would wait for it for ever.
struct Leaving<'a> {
    turns: &'a Turns,
    under_way: &'a AtomicUsize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.under_way.fetch_sub(1, Relaxed);
        self.turns.notify();
        self.turns.leave();
    }
}

/// The first program runs on this thread, each other one on a thread of its own.
fn beside_each_other<T: Send>(
    context: &Program<'_>,
    users: usize,
    program: &(impl Fn(&Program<'_>, usize) -> Result<T, LabError> + Sync),
) -> Result<Vec<T>, LabError> {
    let Some(turns) = &context.turns else { return Ok(vec![program(context, 0)?]) };
    let under_way = &AtomicUsize::new(users - 1);
    std::thread::scope(|scope| {
        let start = |user: usize| {
            scope.spawn(move || {
                turns.enter(context.first_turn + user);
                let _leaving = Leaving { turns, under_way };
                program(context, user)
            })
        };
        let others: Vec<_> = (1..users).map(start).collect();
        let first = program(context, 0);
        while under_way.load(Relaxed) > 0 {
            turns.wait(WAIT_NS);
        }
        let joined = others.into_iter().map(|other| {
            other.join().unwrap_or_else(|_| Err(LabError::Setup("a program panicked".to_owned())))
        });
        std::iter::once(first).chain(joined).collect()
    })
}

/// A place where programs wait until all of them have come.
pub(in crate::hardware) struct Meeting {
    missing: AtomicUsize,
}

impl Meeting {
    /// Of that many programs.
    pub fn of(users: usize) -> Self {
        Self { missing: AtomicUsize::new(users) }
    }
}

impl Program<'_> {
    /// Waits until all programs of a meeting have come.
    ///
    /// # Errors
    /// One does not come.
    pub fn meet(&self, meeting: &Meeting) -> Result<(), LabError> {
        meeting.missing.fetch_sub(1, Relaxed);
        let Some(turns) = &self.turns else { return Ok(()) };
        turns.notify();
        let until_ns = self.clock.now_ns() + PATIENCE_NS;
        // Any event of the volume ends a wait, too.
        while meeting.missing.load(Relaxed) > 0 {
            if self.clock.now_ns() >= until_ns {
                return Err(LabError::Setup("a program did not come to a meeting".to_owned()));
            }
            turns.wait(WAIT_NS);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{Profile, Setup, StoreKind};
    use firnfs::ffs::Variant;
    use firnfs::inode::Kind;
    use firnfs_format::InodeNo;

    const USERS: usize = 3;
    const SECOND_NS: i64 = 1_000_000_000;

    fn rig(store: StoreKind) -> Rig {
        let setup = Setup::bsd_lfs(Profile::Of1993).unwrap();
        Rig::new(&Setup { store, size_max_bytes: 64 << 20, ..setup }).unwrap()
    }

    /// Each makes and reads a file, meets the others, and computes for a second; returns when it met them, and when it was done.
    fn times(store: StoreKind) -> Vec<(i64, i64)> {
        let meeting = Meeting::of(USERS);
        let times = rig(store).run_several(USERS, |program, user| {
            let start_ns = program.moment().now_ns;
            let ino = program.make(InodeNo::ROOT, &format!("file{user}"), Kind::Regular, 0)?;
            let (content, mut found) = (vec![user as u8 + 1; 300 << 10], vec![0; 300 << 10]);
            program.write(ino, 0, &content)?;
            program.close(ino)?;
            program.read(ino, 0, &mut found)?;
            assert_eq!(found, content);
            program.compute(user as i64 * SECOND_NS);
            program.meet(&meeting)?;
            let met_ns = program.moment().now_ns;
            program.compute(SECOND_NS);
            Ok((met_ns - start_ns, program.moment().now_ns - start_ns))
        });
        times.unwrap()
    }

    #[test]
    fn programs_share_one_processor_meet_where_they_say_so_and_do_the_same_each_time() {
        for store in [StoreKind::Log, StoreKind::Fast(Variant::Efs)] {
            let first = times(store);
            assert_eq!(first, times(store));
            let (met, done): (Vec<i64>, Vec<i64>) = first.into_iter().unzip();
            // One and two seconds of work were done before the last one came.
            assert!(met.iter().all(|met_ns| *met_ns >= 3 * SECOND_NS), "{met:?}");
            assert!(met.iter().max().unwrap() - met.iter().min().unwrap() < SECOND_NS / 10, "{met:?}");
            // Three more seconds of work take three seconds of one processor.
            let last_ns = done.iter().max().unwrap() - met.iter().min().unwrap();
            assert!((3 * SECOND_NS..4 * SECOND_NS).contains(&last_ns), "{met:?} {done:?}");
        }
    }

    #[test]
    fn the_others_end_and_the_error_is_told_if_a_program_fails() {
        let failed = rig(StoreKind::Log).run_several(USERS, |program, user| match user {
            1 => program.open(InodeNo::ROOT, "nothing", 0).map(drop),
            _ => {
                program.compute(SECOND_NS);
                Ok(())
            }
        });
        assert!(matches!(failed, Err(LabError::Volume { .. })), "{failed:?}");
    }

    #[test]
    fn a_program_does_not_wait_for_ever_for_one_that_does_not_come() {
        let meeting = Meeting::of(2);
        let alone = rig(StoreKind::Log).run_several(2, |program, user| match user {
            0 => program.meet(&meeting),
            _ => Ok(()),
        });
        assert!(alone.unwrap_err().to_string().contains("did not come"));
    }
}
