//! Running `firn` and what it says, and volumes to run it on.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub fn firn(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firn")).args(args).stdin(Stdio::null()).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command that must succeed; returns its standard output.
pub fn ok(args: &[&str]) -> String {
    let output = firn(args);
    assert!(output.status.success(), "firn {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub fn json(args: &[&str]) -> Value {
    crate::schema::parse(&ok(args))
}

/// Runs a command that must fail with that exit code and exactly one line on standard error; returns the
/// line.
pub fn refused(args: &[&str], exit: i32) -> String {
    let output = firn(args);
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "firn {args:?}: {line}");
    assert_eq!(line.lines().count(), 1, "firn {args:?}: {line}");
    assert!(line.starts_with("firn: "), "{line}");
    line
}

/// A temporary directory with a volume in it.
pub struct Fixture {
    pub home: tempfile::TempDir,
}

impl Fixture {
    pub fn new(more: &[&str]) -> Self {
        let fixture = Self { home: tempfile::tempdir().unwrap() };
        ok(&[&["mkfs", fixture.image().as_str(), "--size", "128M"], more].concat());
        fixture
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn image(&self) -> String {
        self.path("disk.img").to_str().unwrap().to_owned()
    }
}

pub fn make_tree(at: &Path) {
    std::fs::create_dir_all(at.join("sub/deeper")).unwrap();
    std::fs::write(at.join("small"), "a few bytes").unwrap();
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(at.join("sub/large"), large).unwrap();
    std::os::unix::fs::symlink("../small", at.join("sub/link")).unwrap();
}
