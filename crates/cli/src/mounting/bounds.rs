//! The least and the most that settings with a number take. `firn mount`, a remount and `firn tune` refuse the rest by name, and the
//! help of `firn tune` lists the same table.
//!
//! Callers: `options`, `tune`.

use crate::failure::{Done, Failure};
use crate::sizes::short;
use firnfs::lfs::Options;
use std::fmt::Write;

/// A setting in seconds.
pub struct Seconds {
    name: &'static str,
    least: f64,
    most: f64,
}

/// A setting in bytes, or bytes a second.
pub struct Size {
    name: &'static str,
    least: u64,
    most: u64,
}

/// With less, the volume could not work.
pub const CACHE: Size = Size { name: "cache", least: Options::CACHE_BYTES_LEAST, most: 1 << 50 };
pub const COMMIT: Seconds = Seconds { name: "commit", least: 0.1, most: 3600.0 };
pub const CHECKPOINT: Seconds = Seconds { name: "checkpoint", least: 1.0, most: 86_400.0 };
/// With less, checkpoints would be most of the written data; with more, a recovery would take too long.
pub const CHECKPOINT_BYTES: Size = Size { name: "checkpoint_bytes", least: 1 << 20, most: 1 << 40 };
/// At most a year.
pub const COALESCE: Seconds = Seconds { name: "coalesce", least: 0.0, most: 31_536_000.0 };
pub const IDLE_AFTER: Seconds = Seconds { name: "idle_after", least: 0.1, most: 3600.0 };
pub const IDLE_RATE: Size = Size { name: "idle_rate", least: Options::IDLE_RATE_LEAST, most: 1 << 40 };

impl Seconds {
    /// A value in milliseconds.
    ///
    /// # Errors
    /// It is out of bounds.
    pub fn milliseconds(&self, seconds: f64) -> Done<u64> {
        let Self { name, least, most } = self;
        if !(*least..=*most).contains(&seconds) {
            return Err(Failure::usage(format!("{name}: {seconds} s is not between {least} and {most}")));
        }
        Ok((seconds * 1000.0) as u64)
    }
}

impl Size {
    /// The value.
    ///
    /// # Errors
    /// It is out of bounds.
    pub fn checked(&self, bytes: u64) -> Done<u64> {
        let Self { name, least, most } = self;
        if !(*least..=*most).contains(&bytes) {
            let (value, least, most) = (short(bytes), short(*least), short(*most));
            return Err(Failure::usage(format!("{name}: {value} is not between {least} and {most}")));
        }
        Ok(bytes)
    }
}

/// The table for help, a line for each setting.
pub fn lines() -> String {
    let mut text = String::new();
    let mut line = |name, least: String, most: String, unit| {
        // Memory takes everything.
        let _ = writeln!(text, "  {name:<17} {least} to {most}{unit}");
    };
    for Seconds { name, least, most } in [COMMIT, CHECKPOINT, COALESCE, IDLE_AFTER] {
        line(name, least.to_string(), most.to_string(), " seconds");
    }
    for Size { name, least, most } in [CACHE, CHECKPOINT_BYTES, IDLE_RATE] {
        line(name, short(least), short(most), "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_each_bound_are_taken_and_nothing_beyond_them() {
        assert_eq!(COMMIT.milliseconds(0.1).unwrap(), 100);
        assert!(COMMIT.milliseconds(0.09).is_err() && COMMIT.milliseconds(f64::NAN).is_err());
        assert_eq!(CACHE.checked(4 << 20).unwrap(), 4 << 20);
        let failure = CACHE.checked((4 << 20) - 1024).unwrap_err();
        assert_eq!(failure.to_string(), "cache: 4095K is not between 4M and 1P");
        assert!(lines().contains("  cache             4M to 1P\n"), "{}", lines());
    }
}
