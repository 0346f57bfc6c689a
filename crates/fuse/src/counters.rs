//! How many requests of each kind the kernel sent, how many failed, and how long they took.
//!
//! Round trips decide how fast a FUSE file system is, so `firn stat --requests` shows them. Counting is relaxed:
//! each number is exact, but together they are not a snapshot of one moment.

use crate::wire::abi::opcode;
use firnfs_volume::Latency;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One more than the largest opcode that is counted separately.
const OPCODES: usize = 64;

#[derive(Default)]
struct Counter {
    requests: AtomicU64,
    errors: AtomicU64,
    busy_ns: AtomicU64,
    latency: Latency,
}

/// Counts of one mount.
pub struct Counters {
    by_opcode: [Counter; OPCODES],
    io_errors: AtomicU64,
}

/// Counts of one kind of request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestCount {
    /// The kernel's name of the request, in lower case.
    pub name: String,
    /// Requests handled.
    pub requests: u64,
    /// Of these, answered with an error (ENOENT of a lookup does not count, nor ENODATA of getxattr; ENOSYS does).
    pub errors: u64,
    /// Time in the daemon, in nanoseconds, including waits for the device.
    pub busy_ns: u64,
    /// Time in the daemon, in nanoseconds, that half of the requests did not exceed, at most a quarter too large ([`Latency`]);
    /// `None` from a daemon of an older version.
    #[serde(default)]
    pub p50_ns: Option<u64>,
    /// The same of 99 in 100.
    #[serde(default)]
    pub p99_ns: Option<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { by_opcode: std::array::from_fn(|_| Counter::default()), io_errors: AtomicU64::new(0) }
    }
}

impl Counters {
    /// Counts one request, with the error that answers it.
    pub fn count(&self, opcode: u32, error: Option<Errno>, busy_ns: u64) {
        let counter = &self.by_opcode[(opcode as usize).min(OPCODES - 1)];
        counter.requests.fetch_add(1, Relaxed);
        // Most files have no attribute of the name that is asked for: that is an answer.
        let is_answer = opcode == opcode::GETXATTR && error == Some(Errno::NODATA);
        counter.errors.fetch_add(u64::from(error.is_some() && !is_answer), Relaxed);
        self.io_errors.fetch_add(u64::from(error == Some(Errno::IO)), Relaxed);
        counter.busy_ns.fetch_add(busy_ns, Relaxed);
        counter.latency.record(busy_ns);
    }

    /// Requests that failed with EIO: because of damage or the device.
    #[must_use]
    pub fn io_errors(&self) -> u64 {
        self.io_errors.load(Relaxed)
    }

    /// All kinds that occurred, in the order of their numbers.
    #[must_use]
    pub fn list(&self) -> Vec<RequestCount> {
        let mut list = Vec::new();
        for (number, counter) in self.by_opcode.iter().enumerate() {
            let requests = counter.requests.load(Relaxed);
            if requests > 0 {
                list.push(RequestCount {
                    name: name_of(number as u32).to_owned(),
                    requests,
                    errors: counter.errors.load(Relaxed),
                    busy_ns: counter.busy_ns.load(Relaxed),
                    p50_ns: counter.latency.quantile_ns(0.5),
                    p99_ns: counter.latency.quantile_ns(0.99),
                });
            }
        }
        list
    }
}

/// The kernel's name of a request, in lower case.
#[must_use]
pub fn name_of(number: u32) -> &'static str {
    const NAMES: &[(u32, &str)] = &[
        (opcode::LOOKUP, "lookup"),
        (opcode::FORGET, "forget"),
        (opcode::GETATTR, "getattr"),
        (opcode::SETATTR, "setattr"),
        (opcode::READLINK, "readlink"),
        (opcode::SYMLINK, "symlink"),
        (opcode::MKNOD, "mknod"),
        (opcode::MKDIR, "mkdir"),
        (opcode::UNLINK, "unlink"),
        (opcode::RMDIR, "rmdir"),
        (opcode::RENAME, "rename"),
        (opcode::LINK, "link"),
        (opcode::OPEN, "open"),
        (opcode::READ, "read"),
        (opcode::WRITE, "write"),
        (opcode::STATFS, "statfs"),
        (opcode::RELEASE, "release"),
        (opcode::FSYNC, "fsync"),
        (opcode::SETXATTR, "setxattr"),
        (opcode::GETXATTR, "getxattr"),
        (opcode::LISTXATTR, "listxattr"),
        (opcode::REMOVEXATTR, "removexattr"),
        (opcode::FLUSH, "flush"),
        (opcode::INIT, "init"),
        (opcode::OPENDIR, "opendir"),
        (opcode::READDIR, "readdir"),
        (opcode::RELEASEDIR, "releasedir"),
        (opcode::FSYNCDIR, "fsyncdir"),
        (opcode::GETLK, "getlk"),
        (opcode::SETLK, "setlk"),
        (opcode::SETLKW, "setlkw"),
        (opcode::ACCESS, "access"),
        (opcode::CREATE, "create"),
        (opcode::INTERRUPT, "interrupt"),
        (opcode::BMAP, "bmap"),
        (opcode::DESTROY, "destroy"),
        (opcode::IOCTL, "ioctl"),
        (opcode::POLL, "poll"),
        (opcode::NOTIFY_REPLY, "notify_reply"),
        (opcode::BATCH_FORGET, "batch_forget"),
        (opcode::FALLOCATE, "fallocate"),
        (opcode::READDIRPLUS, "readdirplus"),
        (opcode::RENAME2, "rename2"),
        (opcode::LSEEK, "lseek"),
        (opcode::COPY_FILE_RANGE, "copy_file_range"),
        (opcode::SYNCFS, "syncfs"),
        (opcode::TMPFILE, "tmpfile"),
        (opcode::STATX, "statx"),
        (opcode::COPY_FILE_RANGE_64, "copy_file_range_64"),
    ];
    NAMES.iter().find(|(n, _)| *n == number).map_or("other", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_the_attribute_is_no_failed_request() {
        let counters = Counters::default();
        counters.count(opcode::GETXATTR, Some(Errno::NODATA), 1);
        counters.count(opcode::GETXATTR, Some(Errno::ACCESS), 1);
        counters.count(opcode::REMOVEXATTR, Some(Errno::NODATA), 1);
        let errors: Vec<u64> = counters.list().iter().map(|count| count.errors).collect();
        assert_eq!(errors, [1, 1]);
    }

    #[test]
    fn only_what_occurred_is_listed_and_unknown_kinds_are_not_lost() {
        let counters = Counters::default();
        counters.count(opcode::WRITE, None, 10);
        counters.count(opcode::WRITE, Some(Errno::NOSPC), 5);
        counters.count(9999, Some(Errno::IO), 1);
        let list = counters.list();
        assert_eq!(list.len(), 2);
        assert_eq!(
            (list[0].name.as_str(), list[0].requests, list[0].errors, list[0].busy_ns),
            ("write", 2, 1, 15)
        );
        assert_eq!((list[0].p50_ns, list[0].p99_ns), (Some(1024), Some(1024)), "both took less than 1 us");
        assert_eq!((list[1].name.as_str(), list[1].requests), ("other", 1));
        assert_eq!(counters.io_errors(), 1);
    }
}
