//! Numbers of variable length: seven bits a byte, lowest first; the highest bit says that another byte follows.

/// Bytes of the longest number.
pub const MAX_BYTES: usize = 10;

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number from the front. `None` if the bytes end before it does, or if it has more than 64 bits.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for at in 0..MAX_BYTES {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if at == MAX_BYTES - 1 && part > 1 {
            return None;
        }
        value |= part << (7 * at);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Maps differences to numbers that are small if the difference is: 0, -1, 1, -2, ...
pub fn zigzag(difference: i64) -> u64 {
    (difference.wrapping_shl(1) ^ (difference >> 63)).cast_unsigned()
}

/// Reverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back_and_longer_ones_are_refused() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert!(bytes.len() <= MAX_BYTES);
            let mut rest = bytes.as_slice();
            assert_eq!((take(&mut rest), rest.len()), (Some(value), 0));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
            assert_eq!(unzigzag(zigzag(value.cast_signed())), value.cast_signed());
        }
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!(take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]), None);
    }
}
