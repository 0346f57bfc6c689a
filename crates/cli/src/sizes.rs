//! Sizes as people write and read them: `20G`, `512MiB`, `4096`.
//!
//! `K M G T P E`, with or without `iB`, count in powers of 1024, as mkfs(8) and truncate(1) do; `KB MB GB ...` in powers
//! of 1000, as disk makers do. Callers: every option of `firn` that takes a size, and every table that shows one.

use std::fmt;

/// Why a text is not a size.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SizeError {
    /// It does not begin with digits.
    #[error("`{0}` is not a size: write a number and a unit, e.g. 20G, 512MiB or 4096")]
    NoNumber(String),
    /// The letters after the number are no unit.
    #[error(
        "`{0}` has no unit that firn knows: use K, M, G, T, P or E (powers of 1024), or KB, MB, ... (powers of 1000)"
    )]
    UnknownUnit(String),
    /// More than 2^64 - 1 bytes.
    #[error("`{0}` is more than 16 EiB")]
    TooLarge(String),
}

/// Reads a size; the result is in bytes. A fraction is allowed if the result is a whole number of bytes (`1.5G`).
///
/// # Errors
/// See [`SizeError`].
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let unit_at = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_at);
    let scale = unit_bytes(unit.trim()).ok_or_else(|| SizeError::UnknownUnit(text.to_owned()))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(SizeError::NoNumber(text.to_owned()));
    }
    let too_large = || SizeError::TooLarge(text.to_owned());
    let whole_bytes = whole.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(too_large)?;
    whole_bytes.checked_add(fraction_bytes(fraction, scale)).ok_or_else(too_large)
}

/// The fraction after the decimal point, rounded down to bytes; digits beyond the twelfth are ignored.
fn fraction_bytes(digits: &str, scale: u64) -> u64 {
    let digits = &digits[..digits.len().min(12)];
    let numerator = digits.parse::<u128>().unwrap_or(0);
    let denominator = 10u128.pow(digits.len() as u32);
    (u128::from(scale) * numerator / denominator) as u64
}

fn unit_bytes(unit: &str) -> Option<u64> {
    const LETTERS: &str = "KMGTPE";
    if unit.is_empty() || unit.eq_ignore_ascii_case("b") {
        return Some(1);
    }
    let mut chars = unit.chars();
    let power = LETTERS.find(chars.next()?.to_ascii_uppercase())? as u32 + 1;
    match chars.as_str().to_ascii_lowercase().as_str() {
        "" | "ib" => 1024u64.checked_pow(power),
        "b" => 1000u64.checked_pow(power),
        _ => None,
    }
}

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// The largest unit of which a number of bytes has one, an index of [`UNITS`].
fn power_of(bytes: u64) -> usize {
    bytes.checked_ilog2().unwrap_or(0) as usize / 10
}

/// The unit of a column of sizes, so that they can be compared at a glance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit(usize);

impl Unit {
    /// The unit in which the largest size of a column reads well.
    pub fn of_column(sizes: impl Iterator<Item = u64>) -> Self {
        Self(power_of(sizes.max().unwrap_or(0)))
    }

    /// For the heading.
    pub fn name(self) -> &'static str {
        UNITS[self.0]
    }

    /// A size in this unit, without its name, with at most one decimal.
    pub fn show_brief(self, bytes: u64) -> String {
        let text = format!("{:.1}", bytes as f64 / (1u64 << (10 * self.0)) as f64);
        text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
    }

    /// A size in this unit, without its name.
    pub fn show(self, bytes: u64) -> String {
        let decimals = if self.0 == 0 { 0 } else { 2 };
        format!("{:.decimals$}", bytes as f64 / (1u64 << (10 * self.0)) as f64)
    }

    /// A size in this unit with its name.
    pub fn show_named(self, bytes: u64) -> String {
        format!("{} {}", self.show(bytes), self.name())
    }
}

/// A size that [`parse_size`] reads back as exactly the same number: `64M`.
pub fn short(bytes: u64) -> String {
    let units = [(1 << 50, "P"), (1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(unit_bytes, _)| bytes > 0 && bytes.is_multiple_of(*unit_bytes)) {
        Some((unit_bytes, unit)) => format!("{}{unit}", bytes / unit_bytes),
        None => bytes.to_string(),
    }
}

/// Shows a number of bytes with a binary unit and at most one decimal: `1.5 GiB`, `4 KiB`, `17 B`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = power_of(self.0);
        // Tenths, rounded; rounding may reach the next unit (1023.96 KiB is 1 MiB).
        let scale = 1u128 << (10 * power);
        let tenths = (u128::from(self.0) * 10 + scale / 2) / scale;
        let (tenths, power) =
            if tenths >= 10_240 && power + 1 < UNITS.len() { (10, power + 1) } else { (tenths, power) };
        let text = if tenths % 10 == 0 || power == 0 {
            format!("{} {}", tenths / 10, UNITS[power])
        } else {
            format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power])
        };
        f.pad(&text)
    }
}

/// Shows a count with thin groups of three digits: `1,234,567`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count(pub u64);

impl Count {
    /// The count with what is counted, in the words for one or for any other number: `1 file`, `2,000 files`.
    pub fn of(self, one: &str, many: &str) -> String {
        format!("{self} {}", if self.0 == 1 { one } else { many })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// Shows a time in RFC 3339 without its fraction of a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WholeSeconds<'a>(pub &'a str);

impl fmt::Display for WholeSeconds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_once('.') {
            Some((seconds, _)) => write!(f, "{seconds}Z"),
            None => f.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_without_b_and_with_ib_are_powers_of_1024() {
        for text in ["20G", "20g", "20GiB", "20 GiB", " 20gib "] {
            assert_eq!(parse_size(text), Ok(20 << 30), "{text}");
        }
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("0b"), Ok(0));
        assert_eq!(parse_size("15E"), Ok(15 << 60));
    }

    #[test]
    fn units_with_b_are_powers_of_1000() {
        assert_eq!(parse_size("3KB"), Ok(3_000));
        assert_eq!(parse_size("2TB"), Ok(2_000_000_000_000));
    }

    #[test]
    fn fractions_are_exact_to_the_byte() {
        assert_eq!(parse_size("1.5G"), Ok(3 << 29));
        assert_eq!(parse_size("0.1K"), Ok(102));
        assert_eq!(parse_size("1.0000000000000001K"), Ok(1024));
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        for text in ["", "G", ".5G", "1.G", "1.2.3G", "-1"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(parse_size("5X"), Err(SizeError::UnknownUnit("5X".into())));
        assert_eq!(parse_size("5GiBi"), Err(SizeError::UnknownUnit("5GiBi".into())));
        assert_eq!(parse_size("16E"), Err(SizeError::TooLarge("16E".into())));
        assert_eq!(
            parse_size("99999999999999999999"),
            Err(SizeError::TooLarge("99999999999999999999".into()))
        );
    }

    #[test]
    fn shown_sizes_are_short_and_rounded() {
        let shown = |n: u64| Bytes(n).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1024), "1 KiB");
        assert_eq!(shown(1536), "1.5 KiB");
        assert_eq!(shown((1 << 20) - 1), "1 MiB");
        assert_eq!(shown(20 << 30), "20 GiB");
        assert_eq!(shown(u64::MAX), "16 EiB");
    }

    #[test]
    fn counts_are_grouped_in_threes() {
        assert_eq!(Count(7).to_string(), "7");
        assert_eq!(Count(999).to_string(), "999");
        assert_eq!(Count(1_000).to_string(), "1,000");
        assert_eq!(Count(1_234_567).to_string(), "1,234,567");
    }

    #[test]
    fn only_one_is_singular() {
        let told = |n: u64| Count(n).of("entry is lost", "entries are lost");
        assert_eq!([0, 1, 2].map(told), ["0 entries are lost", "1 entry is lost", "2 entries are lost"]);
        assert_eq!(told(21_001), "21,001 entries are lost");
    }
}
