//! Names, as given or as keyed hashes.
//!
//! The owner of a workload may want to give it away without the names of the files. A hashed name is the SipHash-2-4 of the name
//! under a secret key of 128 bits, as 16 hexadecimal digits: the same name is the same hash throughout a workload, and without the
//! key names cannot be tried out. Each component of a path is hashed on its own, so that directories stay directories. `.`, `..`,
//! and the separators stay. The key is never stored.

use crate::header::Origin;
use crate::layout::NAME_MAX_BYTES;
use crate::record::{FileId, Record};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// What stands for names in a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Naming {
    /// The names themselves.
    AsGiven = 0,
    /// Keyed hashes.
    Hashed = 1,
}

impl Naming {
    /// The naming with that code in the header.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        [Self::AsGiven, Self::Hashed].into_iter().find(|naming| *naming as u16 == code)
    }

    /// Its name in texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AsGiven => "as given",
            Self::Hashed => "hashed",
        }
    }
}

/// A secret key for names.
#[derive(Clone)]
pub struct NameKey(SipHasher24);

impl std::fmt::Debug for NameKey {
    /// Does not show the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NameKey")
    }
}

impl NameKey {
    /// The key of these bytes, which must be random.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(key))
    }

    /// What stands for a name or path.
    #[must_use]
    pub fn hide(&self, name: &[u8]) -> Vec<u8> {
        let hide_one = |part: &[u8]| -> Vec<u8> {
            if matches!(part, b"" | b"." | b"..") {
                return part.to_vec();
            }
            let mut hasher = self.0;
            hasher.write(part);
            format!("{:016x}", hasher.finish()).into_bytes()
        };
        let hidden = name.split(|byte| *byte == b'/').map(hide_one).collect::<Vec<_>>().join(&b'/');
        // A path of very many short components would no longer be a name that a workload holds.
        if hidden.len() <= NAME_MAX_BYTES { hidden } else { hide_one(name) }
    }

    /// Replaces both names of a record. Its files, too, if the origin may have made their numbers from names, since whoever has a
    /// list of names could make the same numbers.
    pub fn hide_all(&self, origin: Origin, record: &mut Record) {
        for name in [&mut record.name, &mut record.to_name] {
            if !name.is_empty() {
                *name = self.hide(name);
            }
        }
        if matches!(origin, Origin::Strace | Origin::Csv) {
            for file in [&mut record.file, &mut record.to_file, &mut record.made] {
                if file.is_some() {
                    let mut hasher = self.0;
                    hasher.write_u64(file.0);
                    *file = FileId(hasher.finish().max(1));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_paths_keep_their_shape_and_depend_on_the_key() {
        let (one, two) = (NameKey::new(&[1; 16]), NameKey::new(&[2; 16]));
        let hidden = String::from_utf8(one.hide(b"/home/ann/../ann/x")).unwrap();
        let parts: Vec<&str> = hidden.split('/').collect();
        assert_eq!((parts.len(), parts[0], parts[3]), (6, "", ".."));
        assert_eq!(parts[2], parts[4], "the same name is the same hash");
        assert_eq!(parts[2].as_bytes(), one.hide(b"ann"));
        assert_ne!(one.hide(b"ann"), two.hide(b"ann"));
        assert_eq!(parts[5].len(), 16);
        assert!(!hidden.contains("ann") && format!("{one:?}") == "NameKey");
        assert_eq!(one.hide(&b"a/".repeat(2048)).len(), 16);
    }

    #[test]
    fn numbers_made_from_paths_are_hidden_and_inode_numbers_stay() {
        let key = NameKey::new(&[1; 16]);
        let plain: Record = Record::new(0, crate::Op::Open, FileId::of_bytes(b"/etc/passwd"));
        for (origin, is_hidden) in [(Origin::Strace, true), (Origin::Csv, true), (Origin::Mount, false)] {
            let mut record = plain.clone();
            key.hide_all(origin, &mut record);
            assert_eq!(record.file != plain.file, is_hidden, "{origin:?}");
            assert_eq!(record.made, FileId::NONE);
        }
    }
}
