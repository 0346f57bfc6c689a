//! Keeps callers on their processors: how the threads that answer over io_uring look to the scheduler.
//!
//! The thread of a queue wakes its caller on the processor on which both have just run. The kernel then looks for an idle processor for
//! the caller, and where there is one it moves the caller to it and back with each request: every time an interrupt of another
//! processor and cold caches. It does not look if the caller never left the run queue of its processor, and Linux 6.12 and later leave a
//! task there that goes to sleep after more than its share of time, until it would be its turn (`DELAY_DEQUEUE` in kernel/sched/fair.c). For that
//! 1. the caller has to be the one of the two that had more than its share: the threads of queues have a higher weight ([`prefer_this_thread`]);
//! 2. both have to be in one group of the scheduler, where their shares are compared. With autogroups (sched(7)) each session is a group, so
//!    a daemon that is preferred stays in the session of the program that mounted ([`may_be_preferred`]).
//!
//! Without the right to 1. a daemon is better off with a group, and so a share, of its own, when many others run. Measured:
//! `docs/internals/fuse.md`. Callers: `uring`; [`crate::session`], which tells the program that mounts.

/// Nice value of a thread that answers: a weight of nine times a usual task's.
const NICE: i32 = -10;

/// Whether this process can prefer its threads. A thread tries it: neither a capability (in a namespace of users) nor the limit of the nice value
/// alone decides.
#[must_use]
pub fn may_be_preferred() -> bool {
    std::thread::spawn(prefer_this_thread).join().unwrap_or(false)
}

/// Gives the calling thread its weight, and those that it will start. False if it has no right to: then nothing happens.
pub fn prefer_this_thread() -> bool {
    rustix::process::setpriority_process(None, NICE).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;

    #[test]
    fn only_the_thread_that_asks_is_preferred_if_it_has_the_right() {
        let before = getpriority_process(None).unwrap();
        let inside = std::thread::spawn(|| (prefer_this_thread(), getpriority_process(None).unwrap()));
        let (is_preferred, nice) = inside.join().unwrap();
        assert_eq!(nice, if is_preferred { NICE } else { before });
        assert_eq!(may_be_preferred(), is_preferred);
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
