//! Makes inputs from inputs: stacks a few mutations that tend to break decoders.
//!
//! An input is a function of the corpus, a seed and its number, so these suffice to rebuild it.

use firnfs_torture::ops::Rng;

/// Longest input, in bytes.
pub const INPUT_MAX_BYTES: usize = 16 << 10;
/// Most mutations of one input.
const STACKED_MAX: u64 = 6;

/// Input number `number`: first the unchanged corpus, then mutations of it, sometimes noise.
#[must_use]
pub fn input(corpus: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    if let Some(as_it_is) = corpus.get(number as usize) {
        return as_it_is.clone();
    }
    let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
    if corpus.is_empty() || rng.percent(2) {
        let len = rng.below(600);
        return (0..len).map(|_| rng.bits() as u8).collect();
    }
    let mut bytes = corpus[rng.below(corpus.len() as u64) as usize].clone();
    for _ in 0..=rng.below(STACKED_MAX) {
        mutate(&mut bytes, corpus, &mut rng);
    }
    bytes.truncate(INPUT_MAX_BYTES);
    bytes
}

fn mutate(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) {
    let len = bytes.len() as u64;
    if len == 0 {
        bytes.push(rng.bits() as u8);
        return;
    }
    let at = rng.below(len) as usize;
    match rng.below(12) {
        0..2 => bytes[at] ^= 1 << rng.below(8),
        2 => bytes[at] = rng.bits() as u8,
        3..7 => put_number(bytes, at, rng),
        7 => bytes.truncate(at),
        8 => {
            let count = rng.below(64) as usize + 1;
            bytes.splice(at..at, (0..count).map(|_| rng.bits() as u8));
        }
        9 => {
            let count = (rng.below(64) as usize + 1).min(bytes.len() - at);
            bytes.drain(at..at + count);
        }
        10 => {
            let from = rng.below(len) as usize;
            let count = (rng.below(64) as usize + 1).min(bytes.len() - at.max(from));
            bytes.copy_within(from..from + count, at);
        }
        _ => {
            let other = &corpus[rng.below(corpus.len() as u64) as usize];
            bytes.truncate(at);
            bytes.extend_from_slice(other.get(at..).unwrap_or(&[]));
        }
    }
}

/// Writes a boundary value, little endian, mostly where a field could be.
fn put_number(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    let width = rng.pick(&[1usize, 2, 4, 8]);
    let at = if rng.percent(80) { at / width * width } else { at };
    let Some(field) = bytes.get_mut(at..at + width) else { return };
    let mut old = [0; 8];
    old[..width].copy_from_slice(field);
    let old = u64::from_le_bytes(old);
    let power = 1u64 << rng.below(64);
    let new = match rng.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => power,
        3 => power - 1,
        4 => old.wrapping_add(1),
        5 => old.wrapping_sub(1),
        6 => old.wrapping_add(rng.below(32)).wrapping_sub(16),
        _ => old ^ power,
    };
    field.copy_from_slice(&new.to_le_bytes()[..width]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_makes_the_same_input_and_others_make_others() {
        let corpus = vec![vec![1; 100], vec![2; 40]];
        assert_eq!(input(&corpus, 1, 0), corpus[0]);
        assert_eq!(input(&corpus, 1, 77), input(&corpus, 1, 77));
        let distinct: std::collections::BTreeSet<_> = (0..1000).map(|n| input(&corpus, 1, n)).collect();
        assert!(distinct.len() > 900, "{}", distinct.len());
    }

    #[test]
    fn inputs_of_an_empty_corpus_are_made_too() {
        assert!((0..50).any(|n| !input(&[], 3, n).is_empty()));
        assert!((0..50).all(|n| input(&[vec![]], 3, n).len() <= INPUT_MAX_BYTES));
    }
}
