//! Every crate in a build of firnfs has a licence that `deny.toml` allows, and a package names those in the program.
//!
//! `cargo deny check` reads the same file and checks more; this test needs no installed tool and runs with the others.

use firnfs_licences::{allowed, chosen, copyright_file, linked, packages, root};
use serde_json::Value;
use std::collections::BTreeSet;

const TARGET: &str = "x86_64-unknown-linux-gnu";

#[test]
fn every_dependency_has_an_allowed_licence() {
    let has_checker = |packages: &[Value]| packages.iter().any(|p| p["name"] == "shuttle");
    let usual = packages(TARGET, "");
    assert!(usual.len() > 10 && !has_checker(&usual));
    let packages = packages(TARGET, "--cfg shuttle");
    assert!(has_checker(&packages), "the model checker of crates/volume");
    let allowed = allowed();
    let refused: Vec<String> = packages
        .iter()
        .filter(|p| chosen(p["license"].as_str().unwrap_or("none"), &allowed).is_none())
        .map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]))
        .collect();
    assert!(refused.is_empty(), "licences not in deny.toml: {refused:#?}");
}

#[test]
fn expressions_are_judged_as_a_whole() {
    let allowed = ["MIT", "Apache-2.0"].map(str::to_owned);
    for (fine, needed) in [
        ("MIT", &["MIT"][..]),
        ("MIT OR GPL-3.0-only", &["MIT"]),
        ("Apache-2.0/MIT", &["MIT"]),
        ("(MIT OR AGPL-3.0) AND Apache-2.0", &["MIT", "Apache-2.0"]),
    ] {
        let chosen = chosen(fine, &allowed).unwrap_or_else(|| panic!("{fine}"));
        assert_eq!(
            BTreeSet::from_iter(chosen.iter().map(String::as_str)),
            needed.iter().copied().collect(),
            "{fine}"
        );
    }
    for bad in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "none", "", "Apache-2.0 WITH LLVM-exception"] {
        assert!(chosen(bad, &allowed).is_none(), "{bad}");
    }
}

#[test]
fn the_copyright_file_of_a_package_covers_every_crate_in_the_program() {
    let head = std::fs::read_to_string(root().join("contrib/debian/copyright")).unwrap();
    let crates = linked("firnfs-cli", TARGET);
    assert!(crates.iter().any(|one| one.name.starts_with("zstd-sys-")), "{crates:?}");
    assert!(crates.iter().all(|one| !one.name.starts_with("proptest-")), "tests are in no package");
    let file = copyright_file(&head, &crates, &allowed()).unwrap();
    let fields = |paragraph: &str, field: &str| -> Option<String> {
        paragraph.lines().find_map(|line| line.strip_prefix(field)).map(str::to_owned)
    };
    let paragraphs: Vec<&str> = file.split("\n\n").collect();
    let texts: BTreeSet<String> = paragraphs
        .iter()
        .filter(|paragraph| paragraph.starts_with("License: ") && paragraph.lines().count() > 1)
        .filter_map(|paragraph| fields(paragraph, "License: "))
        .collect();
    for one in &crates {
        let about = format!("Files: crates/{}/*\n", one.name);
        let paragraph = paragraphs
            .iter()
            .find(|paragraph| paragraph.starts_with(&about))
            .unwrap_or_else(|| panic!("{about}"));
        assert!(fields(paragraph, "Copyright: ").is_some_and(|holders| !holders.is_empty()), "{paragraph}");
        for licence in fields(paragraph, "License: ").unwrap().split(" and ") {
            assert!(texts.contains(licence), "{licence} has no text: {texts:?}");
        }
    }
    assert!(file.lines().all(|line| line.chars().count() <= 80 || !line.starts_with(' ')), "{file}");
    let refused = copyright_file(&head, &crates, &["ISC".to_owned()]).unwrap_err();
    assert!(refused.ends_with("is not allowed"), "{refused}");
}
