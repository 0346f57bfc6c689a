//! Bitmaps as bytes: bit 0 is the lowest bit of the first byte. A bit outside the slice reads as 0.

use std::ops::Range;

/// Whether a bit is set.
#[must_use]
pub fn get(map: &[u8], bit: u32) -> bool {
    map.get(bit as usize / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0)
}

/// Sets or clears a bit.
pub fn put(map: &mut [u8], bit: u32, value: bool) {
    if let Some(byte) = map.get_mut(bit as usize / 8) {
        let mask = 1 << (bit % 8);
        if value { *byte |= mask } else { *byte &= !mask }
    }
}

/// The first set bit of a range.
#[must_use]
pub fn first_set(map: &[u8], range: Range<u32>) -> Option<u32> {
    let mut bit = range.start;
    while bit < range.end {
        let byte = *map.get(bit as usize / 8)?;
        let rest = byte >> (bit % 8);
        if rest != 0 {
            let found = bit + rest.trailing_zeros();
            return (found < range.end).then_some(found);
        }
        bit = (bit / 8 + 1) * 8;
    }
    None
}

/// The first clear bit of a range.
#[must_use]
pub fn first_clear(map: &[u8], range: Range<u32>) -> Option<u32> {
    let mut bit = range.start;
    while bit < range.end {
        let byte = map.get(bit as usize / 8).copied().unwrap_or(0);
        let rest = !byte >> (bit % 8);
        if rest != 0 {
            let found = bit + rest.trailing_zeros();
            return (found < range.end).then_some(found);
        }
        bit = (bit / 8 + 1) * 8;
    }
    None
}

/// The lowest bits of a map, of one block: `count` of them, at most 8, from a multiple of `count`.
#[must_use]
pub fn field(map: &[u8], first: u32, count: u32) -> u8 {
    let byte = map.get(first as usize / 8).copied().unwrap_or(0);
    let mask = ((1u16 << count) - 1) as u8;
    byte >> (first % 8) & mask
}

/// Number of set bits.
#[must_use]
pub fn count(map: &[u8]) -> u32 {
    map.iter().map(|byte| byte.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_where_they_were_put() {
        let mut map = [0u8; 4];
        assert_eq!(first_set(&map, 0..32), None);
        put(&mut map, 9, true);
        put(&mut map, 31, true);
        assert!(get(&map, 9) && !get(&map, 8) && !get(&map, 32));
        assert_eq!((first_set(&map, 0..32), first_set(&map, 10..32)), (Some(9), Some(31)));
        assert_eq!((first_set(&map, 10..31), first_set(&map, 0..9)), (None, None));
        assert_eq!((first_clear(&map, 9..32), count(&map)), (Some(10), 2));
        put(&mut map, 9, false);
        assert!(!get(&map, 9));
        assert_eq!(first_clear(&[0xff, 0xff], 3..16), None);
        assert_eq!(field(&[0, 0b1011_0000], 12, 4), 0b1011);
        assert_eq!(field(&[0x5a], 0, 8), 0x5a);
    }
}
