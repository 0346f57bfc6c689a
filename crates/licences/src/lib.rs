//! Licences of the crates in a build: which are allowed, and what a package with the program has to say of them.
//!
//! `deny.toml` lists the licences that are allowed; `cargo metadata` says which crates there are and what they are offered under
//! (`crates`). `copyright` writes the copyright file of a Debian package. Callers: `tests/licences.rs`, and `scripts/package.sh`
//! through the program `firn-licences`.

mod copyright;
mod crates;

pub use copyright::copyright_file;
pub use crates::{Crate, linked, packages};

use spdx::{Expression, Licensee, ParseMode};
use std::path::{Path, PathBuf};

/// The folder of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The licences that `deny.toml` allows, in its order.
///
/// # Panics
/// `deny.toml` has no such list.
#[must_use]
pub fn allowed() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    let deny: toml::Table = text.parse().expect("deny.toml is TOML");
    let list = deny["licenses"]["allow"].as_array().expect("licenses.allow is a list");
    list.iter().map(|name| name.as_str().expect("names are strings").to_owned()).collect()
}

/// The licences of an expression that a user has to keep to, if the choice among several falls on those that `allowed` names
/// first. `None` if the expression cannot be met by them.
#[must_use]
pub fn chosen(expression: &str, allowed: &[String]) -> Option<Vec<String>> {
    let parsed = Expression::parse_mode(expression, ParseMode::LAX).ok()?;
    let licensees: Vec<Licensee> = allowed.iter().filter_map(|name| Licensee::parse(name).ok()).collect();
    let needed = parsed.minimized_requirements(&licensees).ok()?;
    Some(needed.iter().map(ToString::to_string).collect())
}
