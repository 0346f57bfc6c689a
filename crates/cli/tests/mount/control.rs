//! The page about the control socket names the operations that daemons have.

use crate::common::{Kind, Mount, can_mount};
use std::collections::BTreeSet;

/// What a daemon lists, and `help` itself, which it does not.
fn operations_of(kind: Kind) -> BTreeSet<String> {
    let mount = Mount::with(kind, "64M", &["-o", "metrics=0"]);
    let help = mount.control(r#"{"op":"help"}"#);
    help.as_object().unwrap().keys().cloned().chain(["help".to_owned()]).collect()
}

/// The words in backticks.
fn names(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_page_names_exactly_the_operations_of_each_kind_of_volume() {
    if !can_mount() {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/control.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Operations\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let of_log: BTreeSet<String> =
        rows.flat_map(|row| names(&format!("`{}", row.split(" | ").next().unwrap()))).collect();
    assert_eq!(of_log, operations_of(Kind::Image));

    let (_, sentence) = section.split_once("Volumes in memory have only ").unwrap();
    let (in_memory, further) = sentence.split_once(". Fast File Systems have ").unwrap();
    let in_memory = names(in_memory);
    assert_eq!(in_memory, operations_of(Kind::Memory));
    let further = names(further.split_once(". ").unwrap().0);
    assert_eq!(&in_memory | &further, operations_of(Kind::Fast));
}
