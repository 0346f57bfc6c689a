//! `CrashState`: the fate of each volatile write at a cut, as text that can be printed and replayed.
//!
//! ```text
//! state  = cut ":" fates [ "~" discards ]       117:LMp3/512Gx9f/4096~g7
//! fates  = one for each volatile item in the order of submission
//! fate   = "L" landed | "M" missing | "G" hex garbage
//!        | "p" n "/" unit     only the first n units landed
//!        | "s" n "/" unit     all but the first n units landed
//!        | "h" n "/" unit     all but the n-th unit, counted from 0, landed
//!        | "x" hex "/" unit   each unit landed, is missing or holds garbage, by this seed
//! discards = "z" zeros | "o" old data | "g" hex garbage | "x" hex each sector one of these, by this seed
//! ```

use super::SECTOR_BYTES;
use super::history::sector_hash;
use crate::random::fill_garbage;
use firnfs_device::SparseImage;
use std::fmt;
use std::str::FromStr;

/// The fate of one volatile write (discards: landed or missing only; anything else counts as landed).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fate {
    /// It reached the medium.
    Lands,
    /// It did not reach the medium.
    Missing,
    /// Every physical block that it touches holds garbage drawn from this seed, neighbours included.
    Garbage(u64),
    /// Its first units landed, the rest did not. Units lie on the disk's grid.
    Prefix {
        /// Number of units.
        units: u32,
        /// 512 or 4096 bytes.
        unit_bytes: u32,
    },
    /// All but its first units landed.
    Suffix {
        /// Number of units that did not land.
        units: u32,
        /// 512 or 4096 bytes.
        unit_bytes: u32,
    },
    /// All but one of its units landed.
    Hole {
        /// The unit that did not land, counted from the one in which the write begins.
        unit: u32,
        /// 512 or 4096 bytes.
        unit_bytes: u32,
    },
    /// Each unit landed, is missing or holds garbage (all of the unit, beyond the write if need be).
    Mixed {
        /// Draws the fates and the garbage.
        seed: u64,
        /// 512 or 4096 bytes.
        unit_bytes: u32,
    },
}

/// The content of discarded sectors once a discard took effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum DiscardMode {
    /// Zeros.
    #[default]
    Zeros,
    /// The old content.
    Old,
    /// Garbage drawn from this seed.
    Garbage(u64),
    /// Each sector is one of the three, by this seed.
    Mixed(u64),
}

/// One state of the medium after a power cut.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CrashState {
    /// Number of events of the history that happened.
    pub cut: usize,
    /// One for each item that is volatile at the cut; items beyond its end are missing.
    pub fates: Vec<Fate>,
    /// The effect of discards.
    pub discards: DiscardMode,
}

/// The content of one sector of the medium.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    /// These bytes, with their [`super::history::sector_hash`].
    Data(&'a [u8], u128),
    Zeros,
    /// Garbage from this seed.
    Garbage(u64),
}

impl Content<'_> {
    pub(super) fn write(self, image: &mut SparseImage, sector: u64) {
        match self {
            Self::Data(bytes, _) => image.write(sector * SECTOR_BYTES, bytes),
            Self::Zeros => image.zero(sector * SECTOR_BYTES, SECTOR_BYTES),
            Self::Garbage(seed) => image.write(sector * SECTOR_BYTES, &garbage(seed, sector)),
        }
    }

    pub(super) fn hash(self, sector: u64) -> u128 {
        match self {
            Self::Data(_, hash) => hash,
            Self::Zeros => 0,
            Self::Garbage(seed) => sector_hash(sector, &garbage(seed, sector)),
        }
    }
}

impl DiscardMode {
    /// The content of a discarded sector afterwards; `None`: its old content.
    pub(super) fn content(self, sector: u64) -> Option<Content<'static>> {
        match self {
            Self::Old => None,
            Self::Zeros => Some(Content::Zeros),
            Self::Garbage(seed) => Some(Content::Garbage(seed)),
            Self::Mixed(seed) => match draw(seed, sector) % 3 {
                0 => Some(Content::Zeros),
                1 => Some(Content::Garbage(seed)),
                _ => None,
            },
        }
    }
}

fn garbage(seed: u64, sector: u64) -> [u8; SECTOR_BYTES as usize] {
    let mut bytes = [0; SECTOR_BYTES as usize];
    fill_garbage(seed, sector, &mut bytes);
    bytes
}

/// A number that depends only on both arguments.
pub(super) fn draw(seed: u64, place: u64) -> u64 {
    let mut bytes = [0; 8];
    fill_garbage(!seed, place, &mut bytes);
    u64::from_le_bytes(bytes)
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lands => f.write_str("L"),
            Self::Missing => f.write_str("M"),
            Self::Garbage(seed) => write!(f, "G{seed:x}"),
            Self::Prefix { units, unit_bytes } => write!(f, "p{units}/{unit_bytes}"),
            Self::Suffix { units, unit_bytes } => write!(f, "s{units}/{unit_bytes}"),
            Self::Hole { unit, unit_bytes } => write!(f, "h{unit}/{unit_bytes}"),
            Self::Mixed { seed, unit_bytes } => write!(f, "x{seed:x}/{unit_bytes}"),
        }
    }
}

impl fmt::Display for CrashState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.cut)?;
        for fate in &self.fates {
            fate.fmt(f)?;
        }
        match self.discards {
            DiscardMode::Zeros => Ok(()),
            DiscardMode::Old => f.write_str("~o"),
            DiscardMode::Garbage(seed) => write!(f, "~g{seed:x}"),
            DiscardMode::Mixed(seed) => write!(f, "~x{seed:x}"),
        }
    }
}

/// The text is not a crash state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a crash state: {0:?} (expected CUT:FATES[~DISCARDS], as a failure prints it)")]
pub struct ParseError(String);

impl FromStr for CrashState {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refuse = || ParseError(text.to_owned());
        let (cut, rest) = text.split_once(':').ok_or_else(refuse)?;
        let (mut fates_text, discards) = rest.split_once('~').unwrap_or((rest, "z"));
        let mut fates = Vec::new();
        while !fates_text.is_empty() {
            let (fate, rest) = parse_fate(fates_text).ok_or_else(refuse)?;
            fates.push(fate);
            fates_text = rest;
        }
        let discards = parse_discards(discards).ok_or_else(refuse)?;
        Ok(Self { cut: cut.parse().map_err(|_| refuse())?, fates, discards })
    }
}

fn parse_discards(text: &str) -> Option<DiscardMode> {
    let seed = || u64::from_str_radix(text.get(1..)?, 16).ok();
    match text.chars().next()? {
        'z' if text.len() == 1 => Some(DiscardMode::Zeros),
        'o' if text.len() == 1 => Some(DiscardMode::Old),
        'g' => seed().map(DiscardMode::Garbage),
        'x' => seed().map(DiscardMode::Mixed),
        _ => None,
    }
}

/// One fate from the front of `text`, and the rest. Fates begin with a letter that is not a hexadecimal
/// digit.
fn parse_fate(text: &str) -> Option<(Fate, &str)> {
    let end = text.get(1..)?.find(|c| "LMGpshx".contains(c)).map_or(text.len(), |at| at + 1);
    let (fate, rest) = text.split_at(end);
    let body = &fate[1..];
    let units = || {
        let (count, unit) = body.split_once('/')?;
        let unit_bytes: u32 = unit.parse().ok().filter(|u| [512, 4096].contains(u))?;
        Some((count, unit_bytes))
    };
    let fate = match &fate[..1] {
        "L" if body.is_empty() => Fate::Lands,
        "M" if body.is_empty() => Fate::Missing,
        "G" => Fate::Garbage(u64::from_str_radix(body, 16).ok()?),
        "p" => {
            units().and_then(|(n, unit_bytes)| Some(Fate::Prefix { units: n.parse().ok()?, unit_bytes }))?
        }
        "s" => {
            units().and_then(|(n, unit_bytes)| Some(Fate::Suffix { units: n.parse().ok()?, unit_bytes }))?
        }
        "h" => units().and_then(|(n, unit_bytes)| Some(Fate::Hole { unit: n.parse().ok()?, unit_bytes }))?,
        "x" => {
            let (seed, unit_bytes) = units()?;
            Fate::Mixed { seed: u64::from_str_radix(seed, 16).ok()?, unit_bytes }
        }
        _ => return None,
    };
    Some((fate, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_state_reads_back_as_the_same_state() {
        let fates = vec![
            Fate::Lands,
            Fate::Garbage(0x9f),
            Fate::Missing,
            Fate::Prefix { units: 3, unit_bytes: 512 },
            Fate::Suffix { units: 12, unit_bytes: 4096 },
            Fate::Hole { unit: 2, unit_bytes: 512 },
            Fate::Mixed { seed: u64::MAX, unit_bytes: 4096 },
            Fate::Lands,
        ];
        let modes =
            [DiscardMode::Zeros, DiscardMode::Old, DiscardMode::Garbage(7), DiscardMode::Mixed(0xabc)];
        for discards in modes {
            let state = CrashState { cut: 117, fates: fates.clone(), discards };
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        let empty = CrashState { cut: 0, fates: vec![], discards: DiscardMode::Zeros };
        assert_eq!(empty.to_string(), "0:");
        assert_eq!("0:".parse(), Ok(empty));
    }

    #[test]
    fn text_that_is_no_state_is_refused() {
        for text in
            ["", "5", ":L", "5:Q", "5:L~", "5:L~q", "5:p3", "5:p3/100", "5:Gzz", "5:é", "5:Lé", "5:L~zz"]
        {
            assert!(text.parse::<CrashState>().is_err(), "{text}");
        }
    }
}
