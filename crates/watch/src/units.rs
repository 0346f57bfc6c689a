//! Numbers for people, in few columns: `1.4 GiB`, `12 ms`, `3 min`. Each is at most eight columns wide.

use std::fmt;

/// Bytes, or bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub f64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0.max(0.0);
        for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
            if value < 999.5 {
                let text = if unit != "B" && value < 9.95 {
                    format!("{value:.1} {unit}")
                } else {
                    format!("{value:.0} {unit}")
                };
                return f.pad(&text);
            }
            value /= 1024.0;
        }
        f.pad(&format!("{value:.1} PiB"))
    }
}

/// Bytes a second as megabytes (10^6) a second, four to six columns.
#[derive(Clone, Copy, Debug)]
pub struct Megabytes(pub f64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 / 1e6;
        f.pad(&if value < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") })
    }
}

/// Milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Millis(pub f64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            ms if ms < 0.0995 => format!("{:.0} us", ms * 1e3),
            ms if ms < 9.95 => format!("{ms:.1} ms"),
            ms if ms < 999.5 => format!("{ms:.0} ms"),
            ms => Seconds(ms / 1e3).to_string(),
        };
        f.pad(&text)
    }
}

/// Seconds, in the unit that suits.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            s if s < 9.95 => format!("{s:.1} s"),
            s if s < 99.5 => format!("{s:.0} s"),
            s if s < 5970.0 => format!("{:.0} min", s / 60.0),
            s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
            s if s < 86_400.0 * 999.0 => format!("{:.0} d", s / 86_400.0),
            _ => "years".to_owned(),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_size() {
        let bytes = [0.0, 999.0, 1000.0, 1536.0, 1e6, 1e12, 1e18].map(|b| Bytes(b).to_string());
        assert_eq!(bytes, ["0 B", "999 B", "1.0 KiB", "1.5 KiB", "977 KiB", "931 GiB", "888.2 PiB"]);
        let rates = [0.0, 1.25e6, 99.94e6, 99.96e6, 12345e6].map(|b| Megabytes(b).to_string());
        assert_eq!(rates, ["0.0", "1.2", "99.9", "100", "12345"]);
        let times = [0.02, 0.5, 12.0, 2500.0].map(|ms| Millis(ms).to_string());
        assert_eq!(times, ["20 us", "0.5 ms", "12 ms", "2.5 s"]);
        let times = [3.0, 60.0, 600.0, 7200.0, 864_000.0, 1e12].map(|s| Seconds(s).to_string());
        assert_eq!(times, ["3.0 s", "60 s", "10 min", "2 h", "10 d", "years"]);
    }
}
