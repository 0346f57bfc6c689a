//! `firn age` as users run it, on images and directories that are not mounted volumes of firnfs.

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

    /// A directory with a file of 100,000 bytes and one of 10.
    fn tree(&self) -> String {
        std::fs::create_dir_all(self.path("tree/d")).unwrap();
        std::fs::write(self.path("tree/d/large"), vec![1; 100_000]).unwrap();
        std::fs::write(self.path("tree/small"), "0123456789").unwrap();
        self.name("tree")
    }
}

#[test]
fn a_series_of_snapshots_is_whole_first_then_small_and_both_show_the_layout() {
    let scratch = Scratch::new();
    let (tree, monday, tuesday) = (scratch.tree(), scratch.name("mon.snap"), scratch.name("tue.snap"));
    let first = json(&["age", "snapshot", &tree, "-o", &monday, "--json"]);
    assert_eq!((&first["entries"], &first["changed_entries"]), (&4.into(), &Value::Null));
    std::fs::write(scratch.path("tree/new"), "new").unwrap();
    std::fs::remove_file(scratch.path("tree/small")).unwrap();
    let second = json(&["age", "snapshot", &tree, "-o", &tuesday, "--since", &monday, "--json"]);
    // The new file, the one that is gone, and the directory; unless the new one got the old one's number.
    assert!((2..=3).contains(&second["changed_entries"].as_u64().unwrap()), "{second}");
    assert_eq!(Path::new(&tuesday).metadata().unwrap().len(), second["file_bytes"].as_u64().unwrap());

    let layouts = json(&["age", "layout", &monday, &tuesday, &tree, "--json"])["layouts"].clone();
    assert_eq!(layouts[1]["by_size"], layouts[2]["by_size"], "the snapshot and the directory that it shows");
    assert_eq!(layouts[0]["files"], 2);
    let lines = ok(&["age", "layout", &monday, &tuesday]);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(ok(&["age", "layout", &tuesday]).contains("layout score"));
}

#[test]
fn volumes_on_images_show_what_only_their_kind_has() {
    let scratch = Scratch::new();
    let tree = scratch.tree();
    for (kind, name) in [("log", "a.img"), ("ffs", "b.img")] {
        let image = scratch.name(name);
        ok(&["mkfs", &image, "--size", "64M", "--type", kind, "--from-dir", &tree]);
        let layout = json(&["age", "layout", &image, "--json"])["layouts"][0].clone();
        assert_eq!((&layout["fs_type"], &layout["files"]), (&kind.into(), &2.into()));
        assert_eq!(layout["scored_blocks"], 24, "25 blocks of 4 KiB have 100,000 bytes");
        assert_eq!(layout["splits"].is_null(), kind == "log");
        assert_eq!(layout["seams_of_files"].is_null(), kind == "ffs");
        assert!(layout["free_space"]["by_length"][0]["free_bytes"].as_u64().unwrap() > 0);
        let text = ok(&["age", "layout", &image]);
        assert!(text.lines().all(|line| line.chars().count() <= 80 || line.contains(&image)), "{text}");
    }
}

#[test]
fn what_is_wrong_is_one_line_and_leaves_no_output() {
    let scratch = Scratch::new();
    let (tree, whole, cut) = (scratch.tree(), scratch.name("a.snap"), scratch.name("cut.snap"));
    ok(&["age", "snapshot", &tree, "-o", &whole]);
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 10]).unwrap();
    assert!(refused(&["age", "layout", &cut], 1).contains("record 5 (byte "));
    assert!(refused(&["age", "snapshot", &tree, "-o", &whole], 4).contains("exists"));
    let new = scratch.name("new.snap");
    assert!(refused(&["age", "snapshot", &tree, "-o", &new, "--since", &cut], 1).contains("record 5"));
    assert!(refused(&["age", "snapshot", &scratch.name("tree/small"), "-o", &new], 3).contains("firnfs"));
    assert!(refused(&["age", "layout", &scratch.name("none")], 1).contains("check the path"));
    let elsewhere = scratch.name("tree/other.snap");
    assert!(
        refused(&["age", "snapshot", &tree, "-o", &elsewhere, "--since", &whole], 2).contains("directory")
    );
    assert!(!Path::new(&new).exists() && !Path::new(&elsewhere).exists());
}

#[test]
fn a_workload_is_made_of_snapshots_or_at_random_and_is_an_ordinary_workload_file() {
    let scratch = Scratch::new();
    let tree = scratch.tree();
    let nights: Vec<String> = (0..3).map(|night| scratch.name(&format!("{night}.snap"))).collect();
    for (night, path) in nights.iter().enumerate() {
        std::fs::write(scratch.path(&format!("tree/d/{night}")), vec![1; 5000]).unwrap();
        ok(&["age", "snapshot", &tree, "-o", path]);
    }
    let out = scratch.name("a.fwl");
    let words = ["age", "workload", &nights[0], &nights[1], &nights[2], "-o", &out];
    let made = json(&[&words[..], &["--json", "--preset", "none"]].concat());
    assert_eq!((&made["creates"], &made["left_files"]), (&5.into(), &5.into()));
    assert_eq!(made["written_bytes"], 100_000 + 10 + 3 * 5000);
    let info = &json(&["workload", "info", &out, "--json"])["workloads"][0];
    assert_eq!((&info["origin"], &info["whole"]), (&"made".into(), &true.into()));
    assert!(refused(&words, 4).contains("exists"));

    let second = scratch.name("b.fwl");
    let random = ["age", "workload", "--random", "64M", "--operations", "500", "-o", &second, "--json"];
    assert_eq!(json(&random)["file_operations"], 500);
    let third = scratch.name("c.fwl");
    assert!(refused(&["age", "workload", &out, "-o", &third], 1).contains("not a snapshot"));
    let reversed = ["age", "workload", &nights[2], &nights[0], "-o", &third];
    assert!(refused(&reversed, 1).contains("order of time"));
    let recorded = [&["age", "workload"][..], &[&nights[0], "-o", &third, "--profiles", &second]].concat();
    ok(&recorded);
    assert!(refused(&["age", "workload", "--git", &tree, "-o", &scratch.name("d.fwl")], 1).contains("git"));
    assert!(!scratch.path("d.fwl").exists());
}
