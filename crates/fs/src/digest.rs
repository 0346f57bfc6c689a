//! `Digest`: a filter that tells, with one memory access, which hashes a block certainly does not hold.
//!
//! In a directory of a million names, the block where a search ends is in none of the processor's caches. Most names looked
//! for before a create do not exist, and the digest says so without touching the block. It is kept in memory beside the block,
//! and is never stored. Callers: the directory index, the block cache.

/// Bits: eight for each pair of a full index node of 4 KiB; about one absent hash in ten passes the filter.
const BITS: usize = 4096;

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest(Box<[u64; BITS / 64]>);

/// Size in memory.
pub const DIGEST_BYTES: usize = BITS / 8;

impl Digest {
    /// The digest of a block that holds these hashes and no others.
    pub fn of(hashes: impl Iterator<Item = u32>) -> Self {
        let mut digest = Self(Box::new([0; BITS / 64]));
        for hash in hashes {
            let (word, bit) = place(hash);
            digest.0[word] |= bit;
        }
        digest
    }

    /// True if the block certainly does not hold the hash.
    #[must_use]
    pub fn lacks(&self, hash: u32) -> bool {
        let (word, bit) = place(hash);
        self.0[word] & bit == 0
    }
}

/// Word and bit of a hash, from its low bits: the hashes of one block share their high bits.
fn place(hash: u32) -> (usize, u64) {
    let bit = hash as usize % BITS;
    (bit / 64, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_hash_is_never_absent_and_most_others_are() {
        let hash = |n: u32| n.wrapping_mul(0x9e37_79b9).rotate_left(11);
        let digest = Digest::of((0..400).map(hash));
        assert!((0..400).all(|n| !digest.lacks(hash(n))));
        let absent = (400..10_400).filter(|&n| digest.lacks(hash(n))).count();
        assert!(absent > 8_800, "{absent} of 10,000");
    }
}
