//! The machine that a benchmark ran on, so that its figures can be judged.

use crate::calendar;
use serde::{Deserialize, Serialize};
use std::fmt;

/// See the module's head. Unknown facts are empty.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// Version of firnfs.
    pub version: String,
    /// Processor model.
    pub processor: String,
    /// Logical processors.
    pub processors: usize,
    /// Memory, in KiB.
    pub memory_kib: u64,
    /// Kernel release.
    pub kernel: String,
    /// Load average over the minute before the run: above about 0.5, other programs were using the machine.
    pub load_before: String,
    /// Day of the run, UTC, e.g. 2026-01-31.
    pub date: String,
}

impl Environment {
    /// Describes this machine now.
    #[must_use]
    pub fn observe() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.split_once(':').map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_kib: memory.trim_end_matches(" kB").parse().unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_before: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            date: calendar::rfc3339(calendar::now_ns()).chars().take(10).collect(),
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "firnfs {}, {}; {} x {}, {:.1} GiB of memory, Linux {}; load average before the run: {}.",
            self.version,
            self.date,
            self.processors,
            if self.processor.is_empty() { "processor of unknown model" } else { &self.processor },
            self.memory_kib as f64 / f64::from(1 << 20),
            self.kernel,
            self.load_before
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_memory_and_processors() {
        let here = Environment::observe();
        assert!(!here.kernel.is_empty() && here.memory_kib > 0 && here.processors > 0, "{here:?}");
    }
}
