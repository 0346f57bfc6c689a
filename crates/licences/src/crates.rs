//! The crates of a build, as `cargo metadata` describes them.

use crate::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate from a registry that is in the program.
#[derive(Clone, Debug)]
pub struct Crate {
    /// Name and version.
    pub name: String,
    /// What it is offered under.
    pub expression: String,
    /// The holders of the copyright, a line each; never empty.
    pub copyright: Vec<String>,
}

/// Beginnings of the names of files that say who has the copyright.
const NOTICES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The packages of a build for a target, with these compiler flags.
///
/// # Panics
/// `cargo metadata` fails.
#[must_use]
pub fn packages(target: &str, rustflags: &str) -> Vec<Value> {
    list(&metadata(target, rustflags)["packages"]).to_vec()
}

/// The crates from elsewhere that a program of the workspace is linked from, by name. Those that only make code at compile time are
/// not in it.
///
/// # Panics
/// `cargo metadata` fails, or the workspace has no such package.
#[must_use]
pub fn linked(package: &str, target: &str) -> Vec<Crate> {
    let metadata = metadata(target, "");
    let (packages, nodes) = (list(&metadata["packages"]), list(&metadata["resolve"]["nodes"]));
    let by_id =
        |among: &'_ [Value], id: &str| -> Option<Value> { among.iter().find(|one| one["id"] == id).cloned() };
    let first = packages.iter().find(|one| one["name"] == package).expect("the package is in the workspace");
    let mut open = vec![text(&first["id"])];
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(id) = open.pop() {
        let package = by_id(packages, &id).expect("every node is a package");
        if is_macro(&package) || !seen.insert(id.clone()) {
            continue;
        }
        let node = by_id(nodes, &id).expect("every package is resolved");
        let linked = list(&node["deps"]).iter().filter(|one| is_normal(one));
        open.extend(linked.map(|one| text(&one["pkg"])));
        if !package["source"].is_null() {
            found.push(described(&package));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn metadata(target: &str, rustflags: &str) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .env("RUSTFLAGS", rustflags)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

fn is_macro(package: &Value) -> bool {
    let kinds = list(&package["targets"]).iter().flat_map(|target| list(&target["kind"]));
    kinds.into_iter().any(|kind| kind == "proc-macro")
}

fn is_normal(dependency: &Value) -> bool {
    list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
}

fn described(package: &Value) -> Crate {
    let name = format!("{}-{}", text(&package["name"]), text(&package["version"]));
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let folder = manifest.parent().expect("a manifest is in a folder");
    let mut copyright: Vec<String> = notices(folder).iter().flat_map(|text| holders(text)).collect();
    if copyright.is_empty() {
        copyright = list(&package["authors"]).iter().map(text).collect();
    }
    if copyright.is_empty() {
        copyright.push(format!("the authors of {}", text(&package["name"])));
    }
    Crate { name, expression: text(&package["license"]), copyright }
}

/// The notices of a crate, and of what it brings along in a folder, such as a library in C.
fn notices(folder: &Path) -> Vec<String> {
    let inner = files(folder).into_iter().filter(|path| path.is_dir()).flat_map(|folder| files(&folder));
    let all = files(folder).into_iter().chain(inner).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && NOTICES.iter().any(|known| name.starts_with(known))
    });
    all.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// The lines that say who has the copyright, not those of a licence's text or of its appendix on how to use it.
fn holders(notice: &str) -> Vec<String> {
    let lines = notice.lines().map(|line| line.trim().trim_matches(['#', '/', '*']).trim());
    let is_holder = |line: &&str| {
        line.starts_with("Copyright")
            && (line.contains(|c: char| c.is_ascii_digit()) || line.contains("(c)") || line.contains('©'))
            && !line.contains(['[', '{'])
            && !line.contains("<year>")
    };
    lines.filter(is_holder).map(str::to_owned).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::holders;

    #[test]
    fn holders_are_told_from_the_text_around_them() {
        let notice = "Copyright (c) 2015 Andrew Gallant\n\nThe above copyright notice\n// Copyright 2019 The Authors.\n\
            Copyright [yyyy] [name of copyright owner]\nCopyright (c) {{YEAR}} X\nCopyright License. Subject to\n";
        assert_eq!(holders(notice), ["Copyright (c) 2015 Andrew Gallant", "Copyright 2019 The Authors."]);
    }
}
