//! Columns of `firn bench micro` that firnfs serves: their names and options, and how a daemon says that it serves.

use firnfs_fuse::control::Client;
use firnfs_fuse::mount::table;
use firnfs_lab::LabError;
use firnfs_lab::micro::target::Served;
use serde::Deserialize;
use std::path::Path;
use std::str::FromStr;

/// A column with mount options of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// What follows `-o`; may be empty.
    options: String,
}

impl Variant {
    /// The options as `firn mount` takes them.
    pub fn mount_arguments(&self) -> Vec<String> {
        if self.options.is_empty() { Vec::new() } else { vec!["-o".to_owned(), self.options.clone()] }
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, options) = text.split_once('=').ok_or("it is not NAME=OPTIONS")?;
        Ok(Self { name: name(word)?, options: options.to_owned() })
    }
}

/// The name of a column, which is also part of the name of a directory.
///
/// # Errors
/// It is empty or has other characters than letters, digits and dashes.
pub fn name(word: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if word.is_empty() || !word.chars().all(is_plain) {
        return Err(format!("'{word}' is no name: letters, digits and dashes"));
    }
    Ok(word.to_owned())
}

/// What `info` on the control socket says; `firn stat` asks the same.
#[derive(Deserialize)]
struct Info {
    transport: String,
    writeback_cache: bool,
    pid: u32,
}

/// Asks the daemon of a mount how it serves.
///
/// # Errors
/// There is no such mount, or its daemon does not answer.
pub fn inspect(mountpoint: &Path) -> Result<Served, LabError> {
    let failed = |why: String| LabError::Setup(format!("{}: {why}", mountpoint.display()));
    let mount = table::mount_of(mountpoint).map_err(LabError::io("find", mountpoint))?;
    let mount = mount.ok_or_else(|| failed("no firnfs is mounted there".to_owned()))?;
    let answer = Client::for_mount(&mount).and_then(|mut client| client.ask("info", serde_json::json!({})));
    let info: Info = answer.map_err(|e| failed(e.to_string()))?;
    Ok(Served { transport: info.transport, writeback: info.writeback_cache, pid: info.pid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_a_plain_name_and_options_that_may_contain_equals_signs() {
        let variant: Variant = "dev=transport=dev,writeback".parse().unwrap();
        assert_eq!(variant.name, "dev");
        assert_eq!(variant.mount_arguments(), ["-o", "transport=dev,writeback"]);
        assert_eq!("plain=".parse::<Variant>().unwrap().mount_arguments(), [""; 0]);
        for wrong in ["dev", "=transport=dev", "a/b=writeback", "a b=writeback"] {
            assert!(wrong.parse::<Variant>().is_err(), "{wrong}");
        }
    }
}
