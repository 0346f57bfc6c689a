//! Requests of the store to the driver: the meaning of its [`Token`]s.

use crate::fetch::Token;
use crate::store::{BlockKey, Fork};
use firnfs_format::{BlockIndex, InodeNo};

/// What fetched bytes have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Blocks of a file in a row, the first of which is named; `addr` is the first one's place.
    Blocks {
        /// The first block.
        key: BlockKey,
        /// Its place.
        addr: u32,
    },
    /// A block of the inode table, by its number over all groups.
    InodeBlock(u32),
    /// A group's descriptor.
    Group(u32),
    /// An indirect block of a tree that no file has any more.
    Detached(u32),
}

const BLOCKS: u64 = 0;
const INODE_BLOCK: u64 = 1;
const GROUP: u64 = 2;
const DETACHED: u64 = 3;

impl Wanted {
    /// The token that the driver carries; `stamp`: see `Writes::stamp`.
    pub fn token(&self, stamp: u64) -> Token {
        match *self {
            Self::Blocks { key, addr } => {
                let head = BLOCKS | (key.fork as u64) << 8 | u64::from(key.level) << 16;
                Token::of([head, key.ino.0, key.index.0, addr.into(), stamp])
            }
            Self::InodeBlock(number) => Token::of([INODE_BLOCK, number.into(), 0, 0, stamp]),
            Self::Group(number) => Token::of([GROUP, number.into(), 0, 0, stamp]),
            Self::Detached(addr) => Token::of([DETACHED, 0, 0, addr.into(), stamp]),
        }
    }

    /// Decodes a token of this store, and its stamp.
    pub fn of(token: &Token) -> (Self, u64) {
        let [head, first, second, addr, stamp] = token.words();
        let wanted = match head & 0xff {
            BLOCKS => {
                let fork = match (head >> 8) & 0xff {
                    0 => Fork::Data,
                    1 => Fork::Index,
                    _ => Fork::Xattr,
                };
                let level = ((head >> 16) & 0xff) as u8;
                let key = BlockKey { ino: InodeNo(first), fork, level, index: BlockIndex(second) };
                Self::Blocks { key, addr: addr as u32 }
            }
            INODE_BLOCK => Self::InodeBlock(first as u32),
            GROUP => Self::Group(first as u32),
            _ => Self::Detached(addr as u32),
        };
        (wanted, stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_was_put_into_it() {
        let key = |fork, level, index| BlockKey { ino: InodeNo(9), fork, level, index: BlockIndex(index) };
        for wanted in [
            Wanted::Blocks { key: key(Fork::Data, 0, u64::MAX >> 8), addr: u32::MAX },
            Wanted::Blocks { key: key(Fork::Index, 2, 7), addr: 1 },
            Wanted::Blocks { key: key(Fork::Xattr, 1, 0), addr: 0 },
            Wanted::InodeBlock(77),
            Wanted::Group(3),
            Wanted::Detached(12345),
        ] {
            assert_eq!(Wanted::of(&wanted.token(u64::MAX - 1)), (wanted, u64::MAX - 1));
        }
    }
}
