//! `firn workload` as users run it.

mod schema;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn firn(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firn")).args(words).output().unwrap()
}

fn ok(words: &[&str]) -> String {
    let output = firn(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(words: &[&str], code: i32) -> String {
    let output = firn(words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

fn json(words: &[&str]) -> Value {
    schema::parse(&ok(words))
}

fn sample(name: &str) -> String {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/tests/samples");
    samples.join(name).to_str().unwrap().to_owned()
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn a_trace_is_converted_shown_and_exported_without_a_difference() {
    let scratch = Scratch::new();
    let (workload, table, again) = (scratch.name("a.fwl"), scratch.name("a.csv"), scratch.name("b.fwl"));
    ok(&["workload", "convert", &sample("strace.txt"), &workload, "--from", "strace"]);
    let info = &json(&["workload", "info", &workload, "--json"])["workloads"][0];
    assert_eq!(
        (&info["origin"], &info["whole"], &info["records"]),
        (&"strace".into(), &true.into(), &12.into())
    );
    assert_eq!(info["start"], "2023-11-14T22:13:20Z");
    let writes =
        info["by_operation"].as_array().unwrap().iter().find(|line| line["operation"] == "write").unwrap();
    assert_eq!((&writes["operations"], &writes["transferred_bytes"]), (&3.into(), &4102.into()));
    assert!(ok(&["workload", "info", &workload]).lines().all(|line| line.len() <= 80));

    let records = json(&["workload", "head", &workload, "-n", "100", "--json"]);
    assert_eq!(records["first_records"].as_array().unwrap().len(), 12);
    assert_eq!(records["first_records"][0]["errno"], 2);
    assert_eq!(ok(&["workload", "head", &workload, "-n", "2"]).lines().count(), 2);

    ok(&["workload", "convert", &workload, &table, "--to", "csv"]);
    ok(&["workload", "convert", &table, &again, "--from", "csv"]);
    assert_eq!(json(&["workload", "head", &again, "-n", "100", "--json"]), records);
    let piped = ok(&["workload", "convert", &workload, "-", "--to", "csv"]);
    assert_eq!(piped, std::fs::read_to_string(&table).unwrap());
}

#[test]
fn hashed_names_hide_the_names_and_a_key_makes_them_the_same_again() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("key"), "0123456789abcdef").unwrap();
    let convert = |name: &str, more: &[&str]| {
        let target = scratch.name(name);
        let trace = sample("strace.txt");
        let mut words = vec!["workload", "convert", &trace, &target, "--from", "strace", "--hash-names"];
        words.extend(more);
        ok(&words);
        let shown = ok(&["workload", "head", &target, "-n", "100"]);
        assert!(!shown.contains("home") && !shown.contains("ann"), "{shown}");
        assert_eq!(json(&["workload", "info", &target, "--json"])["workloads"][0]["naming"], "hashed");
        shown
    };
    let key = scratch.name("key");
    let with_key = ["--key", key.as_str()];
    assert_eq!(convert("a", &with_key), convert("b", &with_key));
    assert_ne!(convert("c", &[]), convert("d", &[]));
}

#[test]
fn what_is_wrong_is_one_line_and_leaves_no_output() {
    let scratch = Scratch::new();
    let (workload, cut, out) = (scratch.name("a.fwl"), scratch.name("cut.fwl"), scratch.name("out.fwl"));
    let trace = sample("nfsdump.txt");
    ok(&["workload", "convert", &trace, &workload, "--from", "nfsdump"]);
    let bytes = std::fs::read(&workload).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 48]).unwrap();

    assert!(refused(&["workload", "convert", &trace, &workload, "--from", "nfsdump"], 4).contains("exists"));
    assert!(refused(&["workload", "info", &trace], 2).contains("--from"));
    assert!(refused(&["workload", "info", &cut], 1).contains("record 8 (byte "));
    let said = String::from_utf8(firn(&["workload", "info", &cut, "--json"]).stdout).unwrap();
    let info = &schema::parse(&said)["workloads"][0];
    assert_eq!((&info["whole"], &info["records"]), (&false.into(), &7.into()));
    assert!(refused(&["workload", "convert", &cut, &out], 1).contains("--partial"));
    assert!(!Path::new(&out).exists());
    assert!(ok(&["workload", "convert", &cut, &out, "--partial"]).contains("7 records; the rest is damaged"));
    assert_eq!(json(&["workload", "info", &out, "--json"])["workloads"][0]["whole"], true);
    assert!(
        refused(&["workload", "convert", &trace, &scratch.name("x"), "--from", "strace"], 1)
            .contains("line 1:")
    );
    assert!(!scratch.path("x").exists());
}

#[test]
fn a_trace_that_strace_writes_here_and_now_is_read_to_its_end() {
    let scratch = Scratch::new();
    let trace = scratch.name("trace");
    let strace = Command::new("strace")
        .args(["-f", "-y", "-ttt", "-T", "-e", "trace=file,desc,process", "-o", &trace])
        .args(["sh", "-c", "cd \"$0\" && mkdir d && echo hello > d/a && cat d/a && mv d/a d/b && rm -r d"])
        .arg(scratch.0.path())
        .output();
    if !strace.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no strace, or it may not trace here");
        return;
    }
    let workload = scratch.name("a.fwl");
    ok(&["workload", "convert", &trace, &workload, "--from", "strace"]);
    let records = json(&["workload", "head", &workload, "-n", "100000", "--json"])["first_records"].clone();
    let directory = scratch
        .path("d")
        .canonicalize()
        .unwrap_or_else(|_| scratch.0.path().canonicalize().unwrap().join("d"));
    let of_directory: Vec<String> = records
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["errno"].is_null())
        .filter(|record| record["name"].as_str().is_some_and(|name| Path::new(name).starts_with(&directory)))
        .map(|record| record["operation"].as_str().unwrap().to_owned())
        .collect();
    for (op, times) in [("mkdir", 1), ("create", 1), ("rename", 1), ("unlink", 1), ("rmdir", 1)] {
        let found = of_directory.iter().filter(|found| *found == op).count();
        assert_eq!(found, times, "{op} in {of_directory:?}");
    }
}
