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
    let said = refused(&["age", "workload", "--git", "/nonexist", "-o", &scratch.name("d.fwl")], 1);
    assert!(said.contains("/nonexist") && said.contains("No such file or directory"), "{said}");
    assert!(!scratch.path("d.fwl").exists());
}

#[test]
fn a_workload_is_replayed_on_a_directory_and_on_images_of_both_kinds() {
    let scratch = Scratch::new();
    let workload = scratch.name("a.fwl");
    ok(&["age", "workload", "--random", "16M", "--full", "50", "--operations", "150", "-o", &workload]);
    std::fs::create_dir(scratch.path("out")).unwrap();
    let mut targets = vec![scratch.name("out")];
    for kind in ["log", "ffs"] {
        let image = scratch.name(kind);
        ok(&["mkfs", &image, "--size", "96M", "--type", kind]);
        targets.push(image);
    }
    let replays: Vec<Value> =
        targets.iter().map(|target| json(&["age", "replay", &workload, target, "--json"])).collect();
    for (replay, target) in replays.iter().zip(&targets) {
        assert_eq!((&replay["mismatches"], &replay["stopped"]), (&0.into(), &false.into()));
        assert_eq!(replay["file_operations"], 150);
        let layout = json(&["age", "layout", target, "--json"])["layouts"][0].clone();
        assert_eq!(layout["files"], replay["files"], "{target}");
        assert!(refused(&["age", "replay", &workload, target], 1).contains("not empty"));
    }
    assert!(replays.windows(2).all(|pair| pair[0]["files"] == pair[1]["files"]));
    for image in &targets[1..] {
        ok(&["fsck", image]);
    }
    assert!(refused(&["age", "replay", &workload, &targets[1], "--by", "group"], 1).contains("--by"));
    assert!(refused(&["age", "replay", &targets[1], &targets[0]], 1).contains("not a workload"));
}

#[test]
fn split_files_are_counted_by_their_distance() {
    let scratch = Scratch::new();
    let (workload, image) = (scratch.name("a.fwl"), scratch.name("ffs"));
    ok(&["age", "workload", "--random", "88M", "--full", "98", "--operations", "1500", "-o", &workload]);
    ok(&["mkfs", &image, "--size", "96M", "--type", "ffs"]);
    ok(&["age", "replay", &workload, &image]);
    let splits = &json(&["age", "layout", &image, "--json"])["layouts"][0]["splits"];
    let by_distance = splits["by_distance"].as_array().unwrap();
    let files = |row: &Value| row["split_files"].as_u64().unwrap();
    assert!(splits["split_files"].as_u64() > Some(0), "{splits}");
    assert_eq!(by_distance.iter().map(files).sum::<u64>(), files(splits));
    let distances: Vec<u64> = by_distance.iter().map(|row| row["groups"].as_u64().unwrap()).collect();
    assert!(distances[0] > 0 && distances.is_sorted_by(|near, far| near < far), "{splits}");
}

#[test]
fn a_replay_that_is_watched_leaves_the_same_volume_as_one_that_is_not() {
    let scratch = Scratch::new();
    let workload = scratch.name("a.fwl");
    ok(&["age", "workload", "--random", "32M", "--full", "70", "--operations", "3000", "-o", &workload]);
    let [watched, alone] = ["watched", "alone"].map(|name| {
        let image = scratch.name(name);
        ok(&["mkfs", &image, "--size", "64M"]);
        image
    });
    let recording = scratch.name("a.fww");
    let lines = ok(&["age", "replay", &workload, &watched, "--watch", "--json", "--record", &recording]);
    let ticks: Vec<Value> = lines.lines().map(schema::parse).collect();
    assert!((40..=70).contains(&ticks.len()), "{} lines", ticks.len());
    assert_eq!(ok(&["watch", &recording, "--json"]).lines().count(), ticks.len());
    let last = ticks.last().unwrap();
    assert!(last["user_bytes"].as_u64().unwrap() > 64 << 20, "{last}");
    assert!(last["victims_taken"].as_u64().unwrap() > 0 && last["image"] == watched.as_str(), "{last}");
    let replayed = json(&["age", "replay", &workload, &alone, "--json"]);
    assert_eq!(replayed["file_operations"], 3000);
    let counted = |image: &str| json(&["stat", image, "--json"])["log"]["counters"].clone();
    assert_eq!(counted(&watched), counted(&alone));
    assert!(refused(&["age", "replay", &workload, &scratch.name(""), "--watch"], 2).contains("firn watch"));
    let fast = scratch.name("fast");
    ok(&["mkfs", &fast, "--size", "64M", "--type", "ffs"]);
    assert!(refused(&["age", "replay", &workload, &fast, "--watch"], 2).contains("Fast File System"));
}

#[test]
fn ctrl_c_stops_a_replay_that_then_continues() {
    let scratch = Scratch::new();
    let (workload, target) = (scratch.name("a.fwl"), scratch.name("out"));
    let random =
        ["age", "workload", "--random", "32M", "--full", "50", "--operations", "1500", "-o", &workload];
    let made = json(&[&random[..], &["--json"]].concat());
    std::fs::create_dir(&target).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["age", "replay", &workload, &target, "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun, and more than a thousand files are left.
    while std::fs::read_dir(&target).unwrap().next().is_none() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let stopped = schema::parse(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((&stopped["stopped"], &stopped["mismatches"]), (&true.into(), &0.into()));
    assert!(stopped["file_operations"].as_u64().unwrap() < 1500);
    assert!(refused(&["age", "replay", &workload, &target], 1).contains("--continue"));
    let end = json(&["age", "replay", &workload, &target, "--continue", "--json"]);
    assert_eq!((&end["stopped"], &end["mismatches"]), (&false.into(), &0.into()));
    assert_eq!((&end["file_operations"], &end["files"]), (&1500.into(), &made["left_files"]));
}

#[test]
fn the_benchmarks_measure_a_directory_and_leave_it_as_it_was() {
    let scratch = Scratch::new();
    let (tree, workload, aged) = (scratch.tree(), scratch.name("a.fwl"), scratch.name("aged"));
    let words = ["age", "bench", &tree, "--sizes", "104K,4M", "--runs", "2"];
    let bench = json(&[&words[..], &["--json"]].concat());
    let files: Vec<_> =
        bench["sequential"].as_array().unwrap().iter().map(|row| row["files"].clone()).collect();
    assert_eq!(files, [315, 8]);
    assert_eq!((&bench["hot"]["files"], &bench["hot"]["bytes_per_run"]), (&2.into(), &100_010.into()));
    assert_eq!(std::fs::read(scratch.path("tree/d/large")).unwrap(), vec![1; 100_000]);
    assert_eq!(std::fs::read_dir(&tree).unwrap().count(), 2);
    let text = ok(&[&words[..], &["--between", "true"]].concat());
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
    assert!(refused(&[&words[..], &["--between", "false"]].concat(), 1).contains("false"));

    std::fs::create_dir(&aged).unwrap();
    ok(&["age", "workload", "--random", "1M", "--operations", "20", "-o", &workload]);
    let left = json(&["age", "replay", &workload, &aged, "--json"])["files"].clone();
    let words = ["age", "bench", &aged, "--sizes", "32M", "--runs", "1", "--workload", &workload, "--json"];
    assert_eq!(json(&words)["hot"]["files"], left, "the workload lasts 20 seconds");
    for size in ["0", "1", "1023"] {
        assert!(refused(&["age", "bench", &tree, "--sizes", size], 2).contains("smallest file has 1 KiB"));
    }
    std::fs::create_dir(scratch.path("tree/firn-age-bench")).unwrap();
    let taken = refused(&["age", "bench", &tree, "--sizes", "32M"], 1);
    assert!(taken.contains("File exists; a benchmark that was killed leaves it: delete it"), "{taken}");
}
