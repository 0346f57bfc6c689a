//! Lines of a text of any size, with a bound on the length of one.

use crate::error::Error;
use std::io::{BufRead, Read};

/// Longest line, in bytes.
pub const LINE_MAX_BYTES: usize = 64 << 10;

/// Reads lines and counts them.
pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    read_bytes: u64,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, read_bytes: 0 }
    }

    /// The next line without its end; `None` after the last one.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, Error> {
        self.line.clear();
        let read = (&mut self.input).take(LINE_MAX_BYTES as u64 + 1).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.read_bytes += read as u64;
        if read > LINE_MAX_BYTES {
            return Err(self.wrong(format!("longer than {LINE_MAX_BYTES} bytes")));
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Bytes of the lines so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The last line is not what it should be.
    pub fn wrong(&self, what: impl Into<String>) -> Error {
        Error::Line { line: self.number, what: what.into() }
    }
}

/// Seconds since 1970, or since anything, with up to nine decimals, in nanoseconds.
pub fn parse_seconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(decimals) || decimals.len() > 9 {
        return None;
    }
    let fraction: u64 = format!("{decimals:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Nanoseconds since the first time that a text gives. Earlier ones count as the first.
#[derive(Default)]
pub struct Start(Option<u64>);

impl Start {
    pub fn since(&mut self, absolute_ns: u64) -> u64 {
        absolute_ns.saturating_sub(*self.0.get_or_insert(absolute_ns))
    }

    /// The first time; 0 before there was any.
    pub fn start_ns(&self) -> u64 {
        self.0.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_and_nonsense_is_none() {
        assert_eq!(parse_seconds("1034114399.991238"), Some(1_034_114_399_991_238_000));
        assert_eq!(parse_seconds("7"), Some(7_000_000_000));
        for wrong in ["", ".5", "-1", "1.2.3", "1e9", "1.0000000001", "99999999999999", "+1"] {
            assert_eq!(parse_seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let mut lines = Lines::new(std::io::BufReader::new(std::io::repeat(b'a')));
        assert!(matches!(lines.next_line(), Err(Error::Line { line: 1, .. })));
        let mut lines = Lines::new(&b"one\r\n\nlast"[..]);
        for line in [&b"one"[..], b"", b"last"] {
            assert_eq!(lines.next_line().unwrap(), Some(line));
        }
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.wrong("x").to_string(), "line 3: x");
    }
}
