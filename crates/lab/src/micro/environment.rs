//! The machine that a benchmark ran on, so that its figures can be judged.

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
    /// Day of the run, UTC, e.g. 2026-01-31.
    pub date: String,
}

impl Environment {
    /// Of this machine, now.
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
            date: today(),
        }
    }
}

fn today() -> String {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = civil_date(since_1970.as_secs() / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Gregorian date of a day counted from 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "firnfs {}, {}; {} x {}, {:.1} GiB of memory, Linux {}.",
            self.version,
            self.date,
            self.processors,
            if self.processor.is_empty() { "processor of unknown model" } else { &self.processor },
            self.memory_kib as f64 / f64::from(1 << 20),
            self.kernel
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_year_ends() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(59), (1970, 3, 1));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
        assert_eq!(civil_date(11_017), (2000, 3, 1));
        assert_eq!(civil_date(20_454), (2026, 1, 1));
    }

    #[test]
    fn this_machine_has_a_kernel_memory_and_processors() {
        let here = Environment::observe();
        assert!(!here.kernel.is_empty() && here.memory_kib > 0 && here.processors > 0, "{here:?}");
    }
}
