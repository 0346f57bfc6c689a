//! The disks that come with the program, by name. Their files are in `crates/sim/params/disks`.

use crate::disk::params::{DiskParams, ParamError};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../params/disks/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] =
    files!["hp97560", "wren4", "dsp3105", "dsp3501", "m2694", "hdd", "ssd", "constant-hdd", "constant-ssd"];

/// The names, in the order of the list that help texts show.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The file of a name; `None` if there is none.
#[must_use]
pub fn text_of(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The disk of a name; `None` if there is none.
///
/// # Errors
/// None for the files as they are: a test reads all of them.
#[must_use]
pub fn find(name: &str) -> Option<Result<DiskParams, ParamError>> {
    text_of(name).map(|text| DiskParams::read(name, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disk_is_read_and_says_where_its_values_come_from() {
        for name in names() {
            let disk = find(name).unwrap().unwrap();
            for value in disk.sources.iter().filter(|value| value.key.contains('.')) {
                assert!(!value.source.is_empty(), "{name}: {} has no source", value.key);
            }
        }
        assert!(find("nothing").is_none());
    }
}
