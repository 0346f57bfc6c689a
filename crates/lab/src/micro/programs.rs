//! The rows of other programs: a clone with git, a build with cargo, transactions with sqlite3. What they work on is made here: a
//! repository and a script in memory, and a project on the target itself, outside the timed part.

use super::stop::Stop;
use super::task::{Scenario, Workload};
use super::{tool, tree};
use crate::LabError;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions in the source of each crate.
const FUNCTIONS_A_CRATE: u32 = 60;

/// What the programs work on; it is removed at the end.
pub struct Programs {
    home: tempfile::TempDir,
}

impl Programs {
    /// Makes what `scenarios` need.
    ///
    /// # Errors
    /// Errors of writing it, or of git(1); `Interrupted`.
    pub fn prepare(w: &Workload, scenarios: &[Scenario], stop: &Stop) -> Result<Self, LabError> {
        let programs = Self { home: tree::in_memory()? };
        if scenarios.contains(&Scenario::Git) {
            programs.make_repository(w.repository_files, stop)?;
        }
        if scenarios.contains(&Scenario::Database) {
            write(&programs.script(), &transactions(w.transactions))?;
        }
        Ok(programs)
    }

    fn repository(&self) -> PathBuf {
        self.home.path().join("repository")
    }

    fn script(&self) -> PathBuf {
        self.home.path().join("transactions.sql")
    }

    /// Two commits in one pack, as in a repository that was cloned itself.
    fn make_repository(&self, files: u32, stop: &Stop) -> Result<(), LabError> {
        let repository = self.repository();
        tool::run(git().args(["init", "-q"]).arg(&repository))?;
        tree::write_tree(&repository, files, stop)?;
        let commit = |message: &str| {
            tool::run(git().current_dir(&repository).args(["add", "--all"]))?;
            tool::run(git().current_dir(&repository).args(["commit", "-q", "-m", message]))
        };
        commit("first")?;
        write(&repository.join("README"), "A second commit.\n")?;
        commit("second")?;
        tool::run(git().current_dir(&repository).args(["repack", "-adq"]))
    }

    /// Clones the repository to `to`, which must not exist.
    ///
    /// # Errors
    /// Those of git(1).
    pub fn clone_repository(&self, to: &Path) -> Result<(), LabError> {
        tool::run(git().args(["clone", "-q", "--no-hardlinks"]).arg(self.repository()).arg(to))
    }

    /// Runs the transactions on a database that does not exist yet.
    ///
    /// # Errors
    /// Those of sqlite3(1).
    pub fn transact(&self, database: &Path) -> Result<(), LabError> {
        let read = format!(".read {}", self.script().display());
        tool::run(Command::new("sqlite3").arg("-bail").arg(database).arg(read))
    }
}

/// True if this machine has the program.
#[must_use]
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// git without the user's settings, which could change what it does.
fn git() -> Command {
    let mut git = Command::new("git");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env_remove("GIT_DIR");
    git.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]);
    git
}

/// One table, and one insertion a transaction.
fn transactions(count: u32) -> String {
    let mut script = "CREATE TABLE entries (number INTEGER PRIMARY KEY, value TEXT);\n".to_owned();
    for number in 1..=count {
        // Writing to a string cannot fail.
        let _ = writeln!(script, "INSERT INTO entries VALUES ({number}, 'value of entry {number}');");
    }
    script
}

/// Checks that the table has this many rows.
///
/// # Errors
/// It has another number, or sqlite3(1) failed.
pub(super) fn count_rows(database: &Path, expected: u32) -> Result<(), LabError> {
    // The command's output is not read: a wrong count is made an error of SQL.
    let count = format!(
        "CREATE TEMP TABLE counted (n INTEGER CHECK (n = {expected})); INSERT INTO counted SELECT count(*) FROM entries;"
    );
    tool::run(Command::new("sqlite3").arg("-bail").arg(database).arg(count))
}

/// Writes a workspace: libraries, and a program that uses them all.
pub(super) fn write_project(directory: &Path, crates: u32) -> Result<(), LabError> {
    let members = (0..crates).map(|n| format!("\"part{n}\"")).collect::<Vec<_>>().join(", ");
    write(
        &directory.join("Cargo.toml"),
        &format!("[workspace]\nresolver = \"2\"\nmembers = [\"app\", {members}]\n"),
    )?;
    let manifest = |name: &str, dependencies: &str| {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n{dependencies}"
        )
    };
    let mut dependencies = String::new();
    let mut uses = "fn main() {\n    let mut sum = 0u64;\n".to_owned();
    for n in 0..crates {
        let name = format!("part{n}");
        // Writing to a string cannot fail.
        let _ = writeln!(dependencies, "{name} = {{ path = \"../{name}\" }}");
        let _ = writeln!(uses, "    sum = sum.wrapping_add({name}::f0(sum));");
        write(&directory.join(&name).join("Cargo.toml"), &manifest(&name, ""))?;
        write(&directory.join(&name).join("src/lib.rs"), &library(n))?;
    }
    uses += "    println!(\"{sum}\");\n}\n";
    write(&directory.join("app/Cargo.toml"), &manifest("app", &dependencies))?;
    write(&directory.join("app/src/main.rs"), &uses)
}

fn library(number: u32) -> String {
    (0..FUNCTIONS_A_CRATE).fold(String::new(), |mut source, n| {
        let next = if n + 1 < FUNCTIONS_A_CRATE { format!("f{}(x)", n + 1) } else { "x".to_owned() };
        // Writing to a string cannot fail.
        let _ = writeln!(
            source,
            "pub fn f{n}(x: u64) -> u64 {{\n    let all: Vec<u64> = (0..{number} + {n}).map(|i| i * x).collect();\n    \
             all.iter().sum::<u64>() ^ {next}\n}}\n"
        );
        source
    })
}

/// Builds the project in `directory`, beside its sources.
pub(super) fn build(directory: &Path) -> Result<(), LabError> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--offline", "--quiet"]).current_dir(directory);
    for variable in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTFLAGS", "RUSTC_WRAPPER"] {
        cargo.env_remove(variable);
    }
    tool::run(&mut cargo)
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(LabError::io("create", parent))?;
    }
    std::fs::write(path, text).map_err(LabError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_another_number_of_rows_fails_the_run() {
        if !is_there("sqlite3") {
            return;
        }
        let w = Workload { transactions: 7, ..Workload::default() };
        let programs = Programs::prepare(&w, &[Scenario::Database], &Stop::default()).unwrap();
        let home = tempfile::tempdir().unwrap();
        let database = home.path().join("database");
        programs.transact(&database).unwrap();
        count_rows(&database, 7).unwrap();
        assert!(count_rows(&database, 8).is_err());
        // A second run meets the table of the first.
        assert!(programs.transact(&database).is_err());
    }

    #[test]
    fn a_clone_holds_every_file_and_the_second_commit() {
        if !is_there("git") {
            return;
        }
        let w = Workload { repository_files: 30, ..Workload::default() };
        let programs = Programs::prepare(&w, &[Scenario::Git], &Stop::default()).unwrap();
        let home = tempfile::tempdir().unwrap();
        let clone = home.path().join("clone");
        programs.clone_repository(&clone).unwrap();
        assert_eq!(std::fs::read_to_string(clone.join("README")).unwrap(), "A second commit.\n");
        let listed = git().current_dir(&clone).args(["ls-files"]).output().unwrap();
        assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), 31);
    }

    #[test]
    fn the_project_builds_and_runs() {
        if !is_there("cargo") {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        write_project(home.path(), 2).unwrap();
        build(home.path()).unwrap();
        let output = Command::new(home.path().join("target/debug/app")).output().unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().is_ok());
    }

    #[test]
    fn programs_are_looked_for_where_the_shell_looks() {
        assert!(is_there("sh") && !is_there("no-such-program-anywhere"));
    }
}
