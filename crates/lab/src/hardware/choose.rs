//! Disks and machines by name, or by the path of a parameter file.

use crate::error::LabError;
use firnfs_device::plain_reason;
use firnfs_sim::CpuModel;
use firnfs_sim::disk::{DiskParams, library};
use std::path::Path;

/// A disk and the name by which it was chosen.
#[derive(Clone, Debug)]
pub struct ChosenDisk {
    /// Name or path.
    pub name: String,
    /// The disk.
    pub params: DiskParams,
}

impl std::str::FromStr for ChosenDisk {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        find_disk(text)
    }
}

/// The names of the disks that come with the program, with commas between them.
#[must_use]
pub fn disk_names() -> String {
    library::names().collect::<Vec<_>>().join(", ")
}

/// The same of machines.
#[must_use]
pub fn machine_names() -> String {
    CpuModel::names().collect::<Vec<_>>().join(", ")
}

/// The disk of a name, or of a parameter file.
///
/// # Errors
/// There is no such name or file, or the file has a bad value.
pub fn find_disk(text: &str) -> Result<ChosenDisk, LabError> {
    let params = match library::find(text) {
        Some(found) => found,
        None => DiskParams::read(text, &file(text, "disk", &disk_names())?),
    };
    let params = params.map_err(|error| LabError::Setup(error.to_string()))?;
    Ok(ChosenDisk { name: text.to_owned(), params })
}

/// The machine of a name, or of a parameter file.
///
/// # Errors
/// There is no such name or file, or the file has a bad value.
pub fn find_machine(text: &str) -> Result<CpuModel, LabError> {
    let read = match CpuModel::find(text) {
        Some(found) => found,
        None => CpuModel::read(text, &file(text, "machine", &machine_names())?),
    };
    read.map_err(|error| LabError::Setup(error.to_string()))
}

/// The text of a file that was given instead of a name.
fn file(text: &str, what: &str, names: &str) -> Result<String, LabError> {
    let path = Path::new(text);
    std::fs::read_to_string(path).map_err(|error| {
        let why = plain_reason(&error);
        let reason = format!("there is no {what} {text}: neither a name ({names}) nor a file ({why})");
        LabError::Setup(reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_found_by_name_or_file_and_else_the_names_are_listed() {
        assert_eq!(find_disk("hp97560").unwrap().params.title, "HP 97560");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        let mine = library::text_of("ssd").unwrap().replace("generic", "my");
        std::fs::write(&path, mine).unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(find_disk(path).unwrap().params.title, "my solid-state disk");
        std::fs::write(path, "title = 4").unwrap();
        assert_eq!(find_disk(path).unwrap_err().to_string(), format!("{path}: title: is 4; allowed: a text"));
        let error = find_disk("floppy").unwrap_err().to_string();
        assert!(error.contains("hp97560, wren4, dsp3105, dsp3501, m2694, hdd, ssd"), "{error}");
        assert!(find_machine("sun4-260").is_ok() && find_machine("abacus").is_err());
    }
}
