//! `Sectors`: what is stored on the disk of a replay. File data are zeros there, and sectors of zeros take four bytes.
//!
//! A table has the slot of each sector that is not all zeros. A cleaner moves mostly zeros, so what counts is how fast they are recognised,
//! and that neither writing nor reading them allocates or copies anything.
//!
//! Invariant: a slot belongs to one sector, or is free. Caller: `driver`.

use firnfs_device::SparseImage;

const SECTOR_BYTES: usize = 512;
/// In the table: the sector is all zeros.
const ZEROS: u32 = 0;

/// See the module's head. Reads and writes lie within the size.
pub(super) struct Sectors {
    /// By sector: [`ZEROS`], or the number of its slot plus one.
    table: Vec<u32>,
    slots: Vec<[u8; SECTOR_BYTES]>,
    free: Vec<u32>,
}

impl Sectors {
    /// The same content as an image.
    pub fn of(image: &SparseImage) -> Self {
        let sectors = image.size_bytes().div_ceil(SECTOR_BYTES as u64) as usize;
        let mut all = Self { table: vec![ZEROS; sectors], slots: Vec::new(), free: Vec::new() };
        image.for_each_page(|at_bytes, bytes| {
            let len = bytes.len().min((image.size_bytes() - at_bytes) as usize);
            all.write(at_bytes, &bytes[..len]);
        });
        all
    }

    /// Copies bytes out.
    pub fn read(&self, at_bytes: u64, out: &mut [u8]) {
        out.fill(0);
        for_each_sector(at_bytes, out.len(), |sector, start, range| {
            if self.table[sector] != ZEROS {
                let slot = &self.slots[self.table[sector] as usize - 1];
                let len = range.len();
                out[range].copy_from_slice(&slot[start..start + len]);
            }
        });
    }

    /// Copies bytes in.
    pub fn write(&mut self, at_bytes: u64, bytes: &[u8]) {
        for_each_sector(at_bytes, bytes.len(), |sector, start, range| {
            let part = &bytes[range];
            let is_whole = part.len() == SECTOR_BYTES;
            match (is_zeros(part), is_whole) {
                (true, true) => self.clear(sector),
                (true, false) if self.table[sector] == ZEROS => {}
                _ => self.slot_of(sector)[start..start + part.len()].copy_from_slice(part),
            }
        });
    }

    /// Makes a range read as zeros.
    pub fn zero(&mut self, at_bytes: u64, len_bytes: u64) {
        for_each_sector(at_bytes, len_bytes as usize, |sector, start, range| {
            if range.len() == SECTOR_BYTES {
                self.clear(sector);
            } else if self.table[sector] != ZEROS {
                self.slot_of(sector)[start..start + range.len()].fill(0);
            }
        });
    }

    fn clear(&mut self, sector: usize) {
        match std::mem::replace(&mut self.table[sector], ZEROS) {
            ZEROS => {}
            slot => self.free.push(slot),
        }
    }

    fn slot_of(&mut self, sector: usize) -> &mut [u8; SECTOR_BYTES] {
        if self.table[sector] == ZEROS {
            self.table[sector] = self.free.pop().unwrap_or_else(|| {
                self.slots.push([0; SECTOR_BYTES]);
                self.slots.len() as u32
            });
            self.slots[self.table[sector] as usize - 1].fill(0);
        }
        &mut self.slots[self.table[sector] as usize - 1]
    }
}

/// Looks at all bytes, without a branch for each: several at a time.
fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// Calls `visit(sector, first byte in it, range of the caller's bytes)` for each sector of a range.
fn for_each_sector(at_bytes: u64, len: usize, mut visit: impl FnMut(usize, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = at_bytes + done as u64;
        let start = (at % SECTOR_BYTES as u64) as usize;
        let part = (SECTOR_BYTES - start).min(len - done);
        visit((at / SECTOR_BYTES as u64) as usize, start, done..done + part);
        done += part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_sim::seeded;
    use rand::RngExt;

    #[test]
    fn random_writes_and_zeroings_agree_with_a_plain_vector_and_zeros_take_no_slot() {
        const SIZE: usize = 64 << 10;
        let mut image = SparseImage::new(SIZE as u64);
        image.write(5000, &[3; 10_000]);
        let mut plain = vec![0u8; SIZE];
        plain[5000..15_000].fill(3);
        let (mut sectors, mut random) = (Sectors::of(&image), seeded(1, "sectors"));
        for _ in 0..2000 {
            let at = random.random_range(0..SIZE);
            let len = random.random_range(0..3000).min(SIZE - at);
            match random.random_range(0..4) {
                0 => {
                    sectors.zero(at as u64, len as u64);
                    plain[at..at + len].fill(0);
                }
                n => {
                    sectors.write(at as u64, &vec![n - 1; len]);
                    plain[at..at + len].fill(n - 1);
                }
            }
            let mut part = vec![9; len];
            sectors.read(at as u64, &mut part);
            assert!(part == plain[at..at + len]);
        }
        let mut all = vec![1; SIZE];
        sectors.read(0, &mut all);
        assert!(all == plain);
        sectors.write(0, &vec![0; SIZE]);
        assert!(sectors.table.iter().all(|slot| *slot == ZEROS));
        assert_eq!(sectors.free.len(), sectors.slots.len());
    }
}
