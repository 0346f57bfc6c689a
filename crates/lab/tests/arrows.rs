//! The layers of the project may only lean on each other in one direction. This test is the fence.
//!
//! Between crates the arrows come from Cargo's own metadata, between the storage managers (modules of one crate) from
//! the paths in their source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Workspace crates that each crate may depend on, dev-dependencies aside.
const ALLOWED: &[(&str, &[&str])] = &[
    ("firnfs-format", &[]),
    ("firnfs-device", &[]),
    ("firnfs", &["firnfs-device", "firnfs-format"]),
    ("firnfs-volume", &["firnfs", "firnfs-device", "firnfs-format"]),
    ("firnfs-sim", &["firnfs-device"]),
    ("firnfs-torture", &["firnfs", "firnfs-device", "firnfs-format", "firnfs-sim", "firnfs-volume"]),
    ("firnfs-fuse", &["firnfs", "firnfs-device", "firnfs-format", "firnfs-volume"]),
    ("firnfs-lab", &["firnfs", "firnfs-device", "firnfs-format", "firnfs-sim", "firnfs-volume"]),
    (
        "firnfs-fuzz",
        &[
            "firnfs",
            "firnfs-device",
            "firnfs-format",
            "firnfs-fuse",
            "firnfs-sim",
            "firnfs-torture",
            "firnfs-volume",
        ],
    ),
    (
        "firnfs-cli",
        &[
            "firnfs",
            "firnfs-device",
            "firnfs-format",
            "firnfs-fuse",
            "firnfs-lab",
            "firnfs-torture",
            "firnfs-volume",
        ],
    ),
];

/// Storage managers: modules of `crates/fs/src` that must not know each other.
const STORES: [&str; 3] = ["lfs", "ffs", "mem"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn workspace_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let members: BTreeSet<String> = packages.iter().map(|p| text(&p["name"])).collect();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let inner = dependencies
                .filter(|d| d["kind"] != "dev")
                .map(|d| text(&d["name"]))
                .filter(|name| members.contains(name));
            (text(&package["name"]), inner.collect())
        })
        .collect()
}

#[test]
fn crates_depend_on_each_other_only_as_the_architecture_allows() {
    let found = workspace_dependencies();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for (name, dependencies) in &found {
        let rule = allowed.get(name.as_str()).unwrap_or_else(|| {
            panic!("{name} has no rule: say in this test what it may depend on, and why in docs/decisions")
        });
        for dependency in dependencies {
            assert!(rule.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
    let existing: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(existing, allowed.keys().copied().collect(), "rules for crates that do not exist");
}

#[test]
fn storage_managers_do_not_know_each_other() {
    let fs = root().join("crates/fs/src");
    let mut scanned = 0;
    for store in STORES {
        for file in sources_of(&fs, store) {
            let text = std::fs::read_to_string(&file).unwrap();
            for other in STORES.iter().filter(|other| **other != store) {
                if let Some(line) = mention(&text, other) {
                    panic!("{}:{line} uses `{other}` from `{store}`", file.display());
                }
            }
            scanned += 1;
        }
    }
    assert!(scanned > 0, "no storage manager found under {}", fs.display());
}

/// `mem.rs` and everything under `mem/`.
fn sources_of(fs: &Path, module: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        [fs.join(format!("{module}.rs"))].into_iter().filter(|file| file.exists()).collect();
    let mut pending = vec![fs.join(module)];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The first line of code that names a module of the crate: `crate::mem`, `super::mem::`, `crate::{lfs, mem}`.
fn mention(text: &str, module: &str) -> Option<usize> {
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    let lines: Vec<String> = text.lines().map(code).collect();
    lines
        .iter()
        .position(|line| {
            let grouped = line.split_once("crate::{").map(|(_, group)| group);
            let in_group = grouped.is_some_and(|group| {
                group.split([',', '{', '}', ';']).any(|item| is_path_of(item.trim(), module))
            });
            in_group
                || line.match_indices("::").any(|(at, _)| {
                    let before = line[..at].trim_end();
                    let from_root = before.ends_with("crate") || before.ends_with("super");
                    from_root && is_path_of(&line[at + 2..], module)
                })
        })
        .map(|index| index + 1)
}

fn is_path_of(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[test]
fn the_scan_sees_every_way_to_name_a_module_and_no_other() {
    for code in ["use crate::mem::X;", "    crate::mem::f();", "use super::mem;", "use crate::{lfs, mem::Y};"]
    {
        assert_eq!(mention(code, "mem"), Some(1), "{code}");
    }
    for code in [
        "use crate::memory;",
        "// crate::mem",
        "use std::mem;",
        "let x = core::mem::take(y);",
        "mem::swap(a, b)",
    ] {
        assert_eq!(mention(code, "mem"), None, "{code}");
    }
}
