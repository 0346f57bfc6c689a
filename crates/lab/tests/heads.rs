//! The head of a file that declares modules names each of them as code, so that `ls` and the head lead a stranger to any
//! mechanism in one step.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn each_head_names_its_modules() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut heads = 0;
    let mut faults = Vec::new();
    for file in sources_below(&crates) {
        let text = std::fs::read_to_string(&file).unwrap();
        heads += usize::from(!declared(&text).is_empty());
        let missing = unnamed(&text);
        if !missing.is_empty() {
            faults.push(format!("{}: {}", file.strip_prefix(&crates).unwrap().display(), missing.join(", ")));
        }
    }
    assert!(heads > 50, "only {heads} files below {} declare modules", crates.display());
    assert!(faults.is_empty(), "modules that the head of their file does not name:\n{}", faults.join("\n"));
}

/// All sources of the workspace's crates, in order of their names; tests are left out.
fn sources_below(crates: &Path) -> Vec<PathBuf> {
    let entries = |directory: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let mut files = Vec::new();
    let mut pending: Vec<PathBuf> = entries(crates).into_iter().map(|c| c.join("src")).collect();
    pending.retain(|source| source.is_dir());
    while let Some(directory) = pending.pop() {
        for path in entries(&directory) {
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The modules that a file declares and its head does not name.
fn unnamed(text: &str) -> Vec<&str> {
    let named = named(text);
    declared(text).into_iter().filter(|module| !named.contains(*module)).collect()
}

/// The modules that a file declares in files of their own, but for tests.
fn declared(text: &str) -> Vec<&str> {
    let mut modules = Vec::new();
    let mut is_for_tests = false;
    for line in text.lines() {
        if line.starts_with("#[") {
            is_for_tests |= line.starts_with("#[cfg(test)]");
        } else if !line.starts_with("//") {
            let module = declaration(line).filter(|module| !is_for_tests && !module.ends_with("tests"));
            modules.extend(module);
            is_for_tests = false;
        }
    }
    modules
}

/// `pub(in crate::lfs) mod log;` declares `log`.
fn declaration(line: &str) -> Option<&str> {
    let (visibility, module) = line.split_once("mod ")?;
    let is_item = visibility.is_empty() || (visibility.starts_with("pub") && visibility.ends_with(' '));
    let name = module.strip_suffix(';')?;
    (is_item && name.chars().all(is_part_of_name)).then_some(name)
}

/// The words between backquotes in the `//!` comment of a file; drawings and examples do not count.
fn named(text: &str) -> BTreeSet<String> {
    let mut prose = String::new();
    let mut is_fenced = false;
    for line in text.lines().map_while(|line| line.strip_prefix("//!")) {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let code = prose.split('`').skip(1).step_by(2);
    code.flat_map(|code| code.split(|c| !is_part_of_name(c)).map(str::to_owned)).collect()
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[test]
fn a_module_that_the_head_leaves_out_is_found() {
    let head =
        "//! The log (`log`), tables, [`mod@write`], [`space::Free`].\n//! ```text\n//! `room`\n//! ```\n\n";
    let missing = |declarations: &str| unnamed(&format!("{head}{declarations}")).join(" ");
    assert_eq!(missing("mod log;\npub mod write;\npub(in crate::lfs) mod space;\n"), "");
    assert_eq!(missing("mod logs;\nmod lo;\n"), "logs lo", "only whole words count");
    assert_eq!(missing("mod tables;\n"), "tables", "prose names no module");
    assert_eq!(missing("pub(crate) mod room;\n"), "room", "drawings do not count");
    assert_eq!(missing("#[cfg(shuttle)]\nmod modelled;\n"), "modelled");
    assert_eq!(missing("/// Says more.\nmod more;\n//! `more` too late\n"), "more");
}

#[test]
fn tests_and_modules_within_the_file_need_no_name() {
    let text = "#[cfg(test)]\n#[path = \"x_tests.rs\"]\nmod x;\nmod y_tests;\nmod inside {\n}\nfn f() {}\n// mod old;\n";
    assert!(unnamed(text).is_empty());
    assert_eq!(unnamed("#[cfg(test)]\nmod tests;\nmod after;\n"), ["after"]);
}
