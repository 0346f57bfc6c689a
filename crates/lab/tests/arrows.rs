//! The layers of the project may depend on each other in one direction only. This test enforces that.
//!
//! Arrows between crates come from Cargo's own metadata; those between storage managers (modules of one crate) come
//! from the paths in their source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Workspace crates that each crate may depend on, not counting dev-dependencies.
const ALLOWED: &[(&str, &[&str])] = &[
    ("firnfs-format", &[]),
    ("firnfs-device", &[]),
    ("firnfs", &["firnfs-device", "firnfs-format"]),
    ("firnfs-volume", &["firnfs", "firnfs-device", "firnfs-format"]),
    ("firnfs-manage", &["firnfs", "firnfs-device", "firnfs-format", "firnfs-volume"]),
    ("firnfs-files", &["firnfs", "firnfs-device", "firnfs-format", "firnfs-manage", "firnfs-volume"]),
    ("firnfs-sim", &["firnfs-device"]),
    (
        "firnfs-torture",
        &["firnfs", "firnfs-device", "firnfs-format", "firnfs-manage", "firnfs-sim", "firnfs-volume"],
    ),
    // What programs asked of a file system: it knows none.
    ("firnfs-workload", &[]),
    // What licences say of crates: about the build, not in it.
    ("firnfs-licences", &[]),
    // Shows what it is sent: it knows no file system either.
    ("firnfs-watch", &[]),
    ("firnfs-fuse", &["firnfs", "firnfs-device", "firnfs-format", "firnfs-volume", "firnfs-workload"]),
    (
        "firnfs-lab",
        &[
            "firnfs",
            "firnfs-device",
            "firnfs-format",
            "firnfs-manage",
            "firnfs-sim",
            "firnfs-volume",
            "firnfs-workload",
        ],
    ),
    (
        "firnfs-fuzz",
        &[
            "firnfs",
            "firnfs-device",
            "firnfs-format",
            "firnfs-fuse",
            "firnfs-lab",
            "firnfs-manage",
            "firnfs-sim",
            "firnfs-torture",
            "firnfs-volume",
            "firnfs-watch",
            "firnfs-workload",
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
            "firnfs-manage",
            "firnfs-torture",
            "firnfs-volume",
            "firnfs-watch",
            "firnfs-workload",
        ],
    ),
];

/// Storage managers: modules of `crates/fs/src` that must not refer to each other.
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

/// Modules of `crates/fs/src`, each with those that it may use: only modules listed before it.
const INSIDE_FS: &[(&str, &[&str])] = &[
    ("mutation", &[]),
    ("bmap", &[]),
    ("digest", &[]),
    ("fetch", &[]),
    ("error", &["fetch"]),
    ("inode", &[]),
    ("dirent", &["error", "inode"]),
    ("lookahead", &["fetch"]),
    ("device_reader", &["error"]),
    ("store", &["digest", "error", "fetch", "inode"]),
    ("engine", &["error", "fetch", "store"]),
    ("cache", &["digest", "store"]),
    ("clean", &["mutation"]),
    ("states", &[]),
    ("ufs", &["digest", "dirent", "error", "inode", "states", "store"]),
    ("vfs", &["dirent", "error", "inode", "mutation", "states", "store", "ufs"]),
    (
        "lfs",
        &[
            "bmap",
            "cache",
            "clean",
            "device_reader",
            "digest",
            "dirent",
            "engine",
            "error",
            "fetch",
            "inode",
            "lookahead",
            "mutation",
            "states",
            "store",
        ],
    ),
    (
        "ffs",
        &[
            "bmap",
            "cache",
            "device_reader",
            "digest",
            "dirent",
            "engine",
            "error",
            "fetch",
            "inode",
            "mutation",
            "store",
        ],
    ),
    ("mem", &["digest", "engine", "error", "inode", "store"]),
    (
        "check",
        &[
            "bmap",
            "device_reader",
            "dirent",
            "engine",
            "error",
            "ffs",
            "inode",
            "lfs",
            "states",
            "store",
            "ufs",
            "vfs",
        ],
    ),
];

/// Folders of `crates/fs/src/lfs`, from the bottom up: each may use those before it, and `Lfs`, which contains them
/// all.
const INSIDE_LFS: &[&str] = &["base", "map", "tables", "past", "write", "room", "upkeep", "recover"];

/// Modules of the crate that a source file names, with the lines.
fn named_modules(text: &str, from: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // Links in documentation do not count.
        let code = line.split("//").next().unwrap_or_default();
        for (at, _) in code.match_indices(from) {
            let path = &code[at + from.len()..];
            let grouped = path.strip_prefix('{').map(|group| group.trim_end_matches(['}', ';']));
            let names = grouped.map_or_else(|| vec![path], |group| group.split(',').collect());
            let name_of = |name: &str| {
                let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                name.trim().split(end).next().unwrap_or_default().to_owned()
            };
            found.extend(names.into_iter().map(|name| (name_of(name), number + 1)));
        }
    }
    found
}

/// Tests may use any module.
fn product_code(file: &Path) -> Option<String> {
    let is_test = file.to_str()?.ends_with("tests.rs");
    let text = std::fs::read_to_string(file).unwrap();
    let end = text.find("#[cfg(test)]\nmod").unwrap_or(text.len());
    (!is_test).then(|| text[..end].to_owned())
}

#[test]
fn the_modules_of_the_library_use_only_modules_below_them() {
    let fs = root().join("crates/fs/src");
    let known: BTreeSet<&str> = INSIDE_FS.iter().map(|(name, _)| *name).collect();
    for (module, allowed) in INSIDE_FS {
        let files = sources_of(&fs, module);
        assert!(!files.is_empty(), "there is no module {module}");
        for file in files {
            let Some(text) = product_code(&file) else { continue };
            for (name, line) in named_modules(&text, "crate::") {
                let is_module = known.contains(name.as_str()) && name != *module;
                let is_allowed = allowed.contains(&name.as_str());
                assert!(!is_module || is_allowed, "{}:{line}: {module} uses {name}", file.display());
            }
        }
    }
    let listed = std::fs::read_to_string(fs.join("lib.rs")).unwrap();
    for module in listed.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")) {
        assert!(known.contains(module.trim_end_matches(';')), "{module} has no rule in this test");
    }
}

#[test]
fn the_folders_of_the_log_use_only_those_below_them() {
    let lfs = root().join("crates/fs/src/lfs");
    for (rank, folder) in INSIDE_LFS.iter().enumerate() {
        for file in sources_of(&lfs, folder) {
            let Some(text) = product_code(&file) else { continue };
            for (name, line) in named_modules(&text, "crate::lfs::") {
                let above = INSIDE_LFS[rank + 1..].contains(&name.as_str());
                let is_face = ["store", "engine", "view"].contains(&name.as_str());
                assert!(!above && !is_face, "{}:{line}: {folder} uses {name}", file.display());
            }
        }
    }
}

#[test]
fn the_driver_names_no_storage_manager_and_adapters_do_not_reach_through_to_one() {
    let crates = root().join("crates");
    for (name, forbidden) in [
        ("volume", &["firnfs::lfs", "firnfs::ffs", "firnfs::mem", "lfs::"][..]),
        ("fuse", &["firnfs::lfs", "firnfs::ffs", "firnfs::mem", ".store()", ".store_mut()"]),
    ] {
        for file in sources_of(&crates.join(name), "src") {
            let Some(text) = product_code(&file) else { continue };
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                let met = forbidden.iter().find(|word| code.contains(**word));
                assert_eq!(met, None, "{}:{}", file.display(), number + 1);
            }
        }
    }
}

/// A device that wraps another one hands the question on; nobody else asks it.
#[test]
fn the_driver_asks_for_the_fence_at_one_place() {
    let mut callers = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        for file in sources_of(&entry.unwrap().path(), "src") {
            let Some(text) = product_code(&file) else { continue };
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
            let calls = code.filter(|line| line.contains(".fence()"));
            let asks = calls.filter(|line| !["self.inner.fence()", "(**self).fence()"].contains(line));
            callers.extend(asks.map(|_| file.file_name().unwrap().to_owned()));
        }
    }
    assert_eq!(callers, ["direct.rs"]);
}

#[test]
fn every_way_to_name_a_module_is_an_arrow() {
    let names = |code: &str| -> Vec<String> {
        named_modules(code, "crate::").into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names("use crate::lfs::X;"), ["lfs"]);
    assert_eq!(names("use crate::{ufs, vfs::Y};"), ["ufs", "vfs"]);
    assert_eq!(names("    let x = crate::mem::f(crate::store::Y);"), ["mem", "store"]);
    assert!(names("// crate::lfs").is_empty());
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
