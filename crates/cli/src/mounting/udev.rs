//! `firn udev-id DEVICE`: what a block device holds, as properties for udev. The rule in `contrib/udev` makes the links in `/dev/disk/by-label` and
//! `by-uuid` from them, where mount(8) and systemd look for `LABEL=` and `UUID=`.
//!
//! Its words are those of udev's own `blkid`. Nothing is printed for a device without a volume: that is no error, udev asks for every device.

use super::tags::names_of;
use crate::dump::views::uuid_text;
use crate::failure::{Done, Failure};
use clap::Args;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// Arguments of `firn udev-id`.
#[derive(Args, Debug)]
pub struct UdevArgs {
    /// A block device or an image file
    pub device: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// It cannot be printed.
pub fn udev_id(args: &UdevArgs) -> Done {
    let Some((label, uuid)) = names_of(&args.device) else { return Ok(()) };
    let text = properties(&label, &uuid_text(&uuid));
    let printed = std::io::stdout().write_all(text.as_bytes());
    printed.map_err(|e| Failure::system("cannot print the properties", &e))
}

fn properties(label: &str, uuid: &str) -> String {
    let mut text =
        format!("ID_FS_TYPE=firnfs\nID_FS_USAGE=filesystem\nID_FS_UUID={uuid}\nID_FS_UUID_ENC={uuid}\n");
    if !label.is_empty() {
        let encoded = encoded(label);
        // Writing to a string cannot fail.
        let _ = write!(text, "ID_FS_LABEL={encoded}\nID_FS_LABEL_ENC={encoded}\n");
    }
    text
}

/// A label as the name of a link, as libblkid writes it and mount(8) looks for it: other bytes than letters, digits, `#+-.:=@_` and
/// those of UTF-8 beyond ASCII are `\xNN`.
fn encoded(label: &str) -> String {
    let mut text = String::new();
    for letter in label.chars() {
        if letter.is_ascii_alphanumeric() || "#+-.:=@_".contains(letter) || !letter.is_ascii() {
            text.push(letter);
        } else {
            let _ = write!(text, "\\x{:02x}", u32::from(letter));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_encoded_as_a_name_of_one_link() {
        assert_eq!(encoded("my disk/\n2\\é"), "my\\x20disk\\x2f\\x0a2\\x5cé");
        assert_eq!(encoded("plain-1.0_a"), "plain-1.0_a");
    }

    #[test]
    fn a_volume_without_a_label_has_no_property_of_one() {
        let text = properties("", "0123");
        assert_eq!(text, "ID_FS_TYPE=firnfs\nID_FS_USAGE=filesystem\nID_FS_UUID=0123\nID_FS_UUID_ENC=0123\n");
        assert!(properties("a b", "0").ends_with("ID_FS_LABEL=a\\x20b\nID_FS_LABEL_ENC=a\\x20b\n"));
    }
}
