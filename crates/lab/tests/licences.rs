//! Every crate in a build of firnfs has a licence that `deny.toml` allows.
//!
//! `cargo deny check` reads the same file and checks more; this test needs no installed tool and runs with the others.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let deny: toml::Table = text.parse().unwrap();
    let list = deny["licenses"]["allow"].as_array().unwrap();
    list.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let Ok(parsed) = spdx::Expression::parse_mode(expression, spdx::ParseMode::LAX) else { return false };
    parsed.evaluate(|requirement| allowed.contains(&requirement.to_string()))
}

/// The packages of a build with these compiler flags.
fn packages(rustflags: &str) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .env("RUSTFLAGS", rustflags)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let has_checker = |packages: &[serde_json::Value]| packages.iter().any(|p| p["name"] == "shuttle");
    assert!(packages("").len() > 10 && !has_checker(&packages("")));
    let packages = packages("--cfg shuttle");
    assert!(has_checker(&packages), "the model checker of crates/volume");
    let allowed = allowed();
    let refused: Vec<String> = packages
        .iter()
        .filter(|p| !is_allowed(p["license"].as_str().unwrap_or("none"), &allowed))
        .map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]))
        .collect();
    assert!(refused.is_empty(), "licences not in deny.toml: {refused:#?}");
}

#[test]
fn expressions_are_judged_as_a_whole() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Apache-2.0".to_owned()]);
    for fine in ["MIT", "MIT OR GPL-3.0-only", "MIT/Apache-2.0", "(MIT OR AGPL-3.0) AND Apache-2.0"] {
        assert!(is_allowed(fine, &allowed), "{fine}");
    }
    for bad in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "none", "", "Apache-2.0 WITH LLVM-exception"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
