//! The segment map that `firn dump` begins with: a cell for one or more segments, shaded by their live share.
//!
//! [`super::run`] makes it from the segment usage table; the colours of a terminal are not needed to read it.

use super::tables::Tables;
use crate::color::{Meaning, paint};
use crate::failure::Done;
use crate::image::Image;
use crate::sizes::{Bytes, Count};
use std::io::{self, Write};

/// Cells of a line: with the segment number before them they fit 80 columns.
const COLUMNS: u64 = 64;
/// Lines at most.
const LINES: u64 = 16;
/// Live up to a quarter, half, three quarters, all.
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];

/// The segments of a cell.
#[derive(Clone, Copy, Default)]
struct Cell {
    live_bytes: u64,
    in_use: u64,
    is_head: bool,
}

/// See the module's head.
pub struct Map {
    segments: u64,
    segment_bytes: u64,
    /// Segments of a cell.
    per_cell: u64,
    cells: Vec<Cell>,
}

impl Map {
    /// The map of a volume.
    ///
    /// # Errors
    /// No checkpoint is usable, or a block of the segment usage table is damaged.
    pub fn of(image: &Image, tables: &Tables<'_>) -> Done<Self> {
        let checkpoint = image.checkpoint()?;
        let mut map = Self::new(checkpoint.segments, image.superblock.segment_bytes);
        tables.each_segment(&mut |segment, entry| map.add(segment, entry.live_bytes))?;
        for tail in checkpoint.tails.iter().flatten() {
            map.mark_head(tail.segment.0);
        }
        Ok(map)
    }

    fn new(segments: u64, segment_bytes: u32) -> Self {
        let per_cell = segments.div_ceil(COLUMNS * LINES).max(1);
        // At most COLUMNS * LINES, whatever the checkpoint states.
        let cells = vec![Cell::default(); segments.div_ceil(per_cell) as usize];
        Self { segments, segment_bytes: u64::from(segment_bytes.max(1)), per_cell, cells }
    }

    fn add(&mut self, segment: u64, live_bytes: u32) {
        if let Some(cell) = self.cells.get_mut((segment / self.per_cell) as usize) {
            cell.in_use += 1;
            cell.live_bytes += u64::from(live_bytes);
        }
    }

    fn mark_head(&mut self, segment: u64) {
        if let Some(cell) = self.cells.get_mut((segment / self.per_cell) as usize) {
            cell.is_head = true;
        }
    }

    /// The mean of all segments of the cell counts, the clean ones too.
    fn shade(&self, cell: &Cell) -> char {
        let all_bytes = u128::from(self.per_cell) * u128::from(self.segment_bytes);
        match u128::from(cell.live_bytes) * SHADES.len() as u128 / all_bytes {
            _ if cell.is_head => 'H',
            _ if cell.in_use == 0 => '.',
            quarter => SHADES[(quarter as usize).min(SHADES.len() - 1)],
        }
    }

    /// The map with its legend, in at most 20 lines of 80 columns.
    ///
    /// # Errors
    /// As writing reports.
    pub fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let cell = match self.per_cell {
            1 => "one a cell".to_owned(),
            n => format!("{} a cell", Count(n)),
        };
        writeln!(out, "segments      {} of {}, {cell}", Count(self.segments), Bytes(self.segment_bytes))?;
        for (line, cells) in self.cells.chunks(COLUMNS as usize).enumerate() {
            let shades: Vec<char> = cells.iter().map(|cell| self.shade(cell)).collect();
            let shades: String = shades.chunk_by(|one, next| one == next).map(painted).collect();
            writeln!(out, "{:>12}  {shades}", line as u64 * COLUMNS * self.per_cell)?;
        }
        writeln!(out, "{:>12}  live share: ░ below 25%, ▒ below 50%, ▓ below 75%, █ more", "")?;
        writeln!(out, "{:>12}  . clean; H head of a log at the newest checkpoint", "")
    }
}

/// Cells that look the same.
fn painted(cells: &[char]) -> String {
    let text: String = cells.iter().collect();
    match cells.first() {
        Some('H') => paint(Meaning::Mark, text),
        Some('.') => paint(Meaning::Aside, text),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(map: &Map) -> String {
        let mut out = Vec::new();
        map.show(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_cell_shows_the_live_share_of_its_segment() {
        let mut map = Map::new(8, 1000);
        for (segment, live_bytes) in [(1, 0), (2, 249), (3, 250), (4, 749), (5, 750), (6, 1000)] {
            map.add(segment, live_bytes);
        }
        map.mark_head(7);
        assert_eq!(shown(&map).lines().nth(1).unwrap().trim_start(), "0  .░░▒▓██H");
        // Numbers that only a damaged table has.
        map.add(u64::MAX, 1);
        map.add(0, u32::MAX);
        assert_eq!(shown(&map).lines().nth(1).unwrap().trim_start(), "0  █░░▒▓██H");
    }

    #[test]
    fn a_map_of_any_size_fits_the_screen() {
        for segments in [0, 1, 64, 65, 1021, 1025, 1 << 20, u64::MAX] {
            let mut map = Map::new(segments, u32::MAX);
            map.add(segments.saturating_sub(1), u32::MAX);
            let text = shown(&map);
            assert!(text.lines().count() <= 20, "{segments}: {text}");
            // The number of a segment beyond 10^12 makes a line longer.
            let columns = if segments > 1 << 30 { 100 } else { 80 };
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{segments}: {text}");
            assert_eq!(map.cells.iter().map(|cell| cell.in_use).sum::<u64>(), segments.min(1));
        }
    }

    #[test]
    fn a_cell_of_several_segments_shows_their_mean() {
        let mut map = Map::new(2 * COLUMNS * LINES, 1000);
        map.add(0, 1000);
        map.add(2, 1000);
        map.add(3, 900);
        assert!(shown(&map).contains("2,048 of 1000 B, 2 a cell"), "{}", shown(&map));
        assert!(shown(&map).lines().nth(1).unwrap().trim_start().starts_with("0  ▓█."), "{}", shown(&map));
    }
}
