//! The `firn` binary from the view of a user or a script.

mod schema;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn firn(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firn")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command that must succeed; returns its standard output.
fn ok(args: &[&str]) -> String {
    let output = firn(args);
    assert!(output.status.success(), "firn {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(args: &[&str]) -> Value {
    schema::parse(&ok(args))
}

/// Runs a command that must fail with that exit code and exactly one line on standard error; returns the
/// line.
fn refused(args: &[&str], exit: i32) -> String {
    let output = firn(args);
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "firn {args:?}: {line}");
    assert_eq!(line.lines().count(), 1, "firn {args:?}: {line}");
    assert!(line.starts_with("firn: "), "{line}");
    line
}

/// A temporary directory with a volume in it.
struct Fixture {
    home: tempfile::TempDir,
}

impl Fixture {
    fn new(more: &[&str]) -> Self {
        let fixture = Self { home: tempfile::tempdir().unwrap() };
        ok(&[&["mkfs", fixture.image().as_str(), "--size", "128M"], more].concat());
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn image(&self) -> String {
        self.path("disk.img").to_str().unwrap().to_owned()
    }
}

fn make_tree(at: &Path) {
    std::fs::create_dir_all(at.join("sub/deeper")).unwrap();
    std::fs::write(at.join("small"), "a few bytes").unwrap();
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(at.join("sub/large"), large).unwrap();
    std::os::unix::fs::symlink("../small", at.join("sub/link")).unwrap();
}

#[test]
fn a_volume_made_from_a_tree_shows_it_in_stat_and_dump() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--label", "test", "--from-dir", tree.path().to_str().unwrap()]);
    let image = fixture.image();

    let stat = json(&["stat", &image, "--json"]);
    assert_eq!(stat["log"]["label"], "test");
    assert_eq!(stat["log"]["recovery"]["cleanly_unmounted"], true);
    let inodes = stat["space"]["used_inodes"].as_u64().unwrap();
    assert_eq!(inodes, 6, "root, sub, deeper, small, large, link");
    let sum = |list: &Value, field: fn(&Value) -> Option<u64>| -> u64 {
        list.as_array().unwrap().iter().map(|item| field(item).unwrap()).sum()
    };
    let in_buckets = sum(&stat["log"]["utilisation_histogram"], Value::as_u64);
    assert_eq!(Some(in_buckets), stat["log"]["segments_in_use"].as_u64());

    let cleaning = json(&["stat", &image, "--cleaning", "--json"]);
    let live_of_kinds = sum(&cleaning["kinds"], |row| row["live_bytes"].as_u64());
    assert_eq!(Some(live_of_kinds), stat["log"]["live_bytes"].as_u64());
    assert!(cleaning["kinds"][0]["live_bytes"].as_u64() >= Some(3_000_000), "{cleaning}");
    assert_eq!((&cleaning["since_mount"], &cleaning["stalls"]), (&Value::Null, &Value::Null));
    let shown = ok(&["stat", &image, "--cleaning"]);
    assert!(shown.contains("write cost") && shown.contains("usage table"), "{shown}");
    let df = ok(&["df", &image]);
    assert!(df.contains(" reclaimable + ") && df.contains(" withheld = "), "{df}");
    let name_columns = image.chars().count();
    assert!(df.lines().all(|line| line.chars().count() <= 80.max(13 + name_columns)), "{df}");
    // The parts explain the whole difference between the volume and what df calls its size.
    let room = &stat["log"]["room"];
    let number = |value: &Value| value.as_u64().unwrap();
    let withheld: u64 = room["withheld"].as_object().unwrap().values().map(number).sum();
    let missing = number(&room["size_bytes"]) - number(&stat["space"]["total_bytes"]);
    assert_eq!(withheld + number(&room["fixed_bytes"]), missing, "{room}");

    let ifile = json(&["dump", &image, "--ifile", "--json"]);
    let untouched = ok(&["dump", &image, "--ifile"]);
    assert!(!untouched.contains("1970"), "{untouched}");
    let last = (number(&stat["log"]["segments"]) - 1).to_string();
    let last = ok(&["dump", &image, "--segment", &last]);
    assert!(last.contains("never written"), "{last}");
    let listed = ifile["inode_entries"].as_array().unwrap();
    assert_eq!(listed.len() as u64, inodes);
    let live = sum(&ifile["segment_entries"], |segment| segment["live_bytes"].as_u64());
    assert_eq!(Some(live), stat["log"]["live_bytes"].as_u64());

    let large = listed
        .iter()
        .map(|entry| json(&["dump", &image, "--inode", &entry["inode"].to_string(), "--json"]))
        .find(|inode| inode["size_bytes"] == 3_000_000)
        .unwrap();
    let blocks = large["block_map"].as_array().unwrap();
    let number_that =
        |fits: fn(i64) -> bool| blocks.iter().filter(|block| fits(block["block"].as_i64().unwrap())).count();
    assert_eq!(number_that(|block| block >= 0), 3_000_000usize.div_ceil(4096));
    // 12 direct pointers, then 256 in each indirect block: one single, one double, two below the double.
    assert_eq!(number_that(|block| block < 0), 4);
}

#[test]
fn every_inode_record_is_found_in_the_segment_that_its_pointer_names() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let image = fixture.image();
    let ifile = json(&["dump", &image, "--ifile", "--json"]);
    let mut checked = 0;
    for entry in ifile["inode_entries"].as_array().unwrap() {
        let inode = json(&["dump", &image, "--inode", &entry["inode"].to_string(), "--json"]);
        let segment = json(&["dump", &image, "--segment", &inode["record"]["segment"].to_string(), "--json"]);
        let partials = segment["partials"].as_array().unwrap();
        let record = partials
            .iter()
            .flat_map(|partial| partial["summary_entries"].as_array().unwrap())
            .find(|e| e["what"] == "inode" && e["inode"] == inode["inode"] && e["ptr"] == inode["record"]);
        assert_eq!(record.unwrap()["good"], true);
        checked += 1;
    }
    assert!(checked >= 6);
}

#[test]
fn each_kind_of_failure_is_one_line_with_its_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let missing = refused(&["stat", &at("nothing")], 1);
    assert!(missing.contains("No such file or directory") && missing.contains("check the path"), "{missing}");

    std::fs::write(at("text"), "hello").unwrap();
    for command in ["stat", "dump"] {
        let line = refused(&[command, &at("text")], 3);
        assert!(line.contains("not a firnfs volume"), "{line}");
    }
    assert!(refused(&["stat", home.path().to_str().unwrap()], 3).contains("not on a firnfs mount"));
    assert!(refused(&["mkfs", &at("text")], 4).contains("--force"));
    assert!(refused(&["mkfs", &at("new")], 2).contains("--size"));
    assert!(refused(&["mkfs", &at("no/such/place"), "--size", "1G"], 1).contains("no/such/place"));
    assert_eq!(firn(&["mkfs", &at("x"), "--size", "lots"]).status.code(), Some(2));
    assert_eq!(firn(&["no-such-command"]).status.code(), Some(2));
}

#[test]
fn an_image_too_large_for_its_file_system_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("disk.img");
    // A limit of the process stands in for one of the file system: ftruncate(2) fails in the same way for
    // both.
    let script =
        format!("trap '' XFSZ; ulimit -f 1024; exec {} mkfs \"$0\" --size 16T", env!("CARGO_BIN_EXE_firn"));
    let output = Command::new("bash").args(["-c", &script]).arg(&image).output().unwrap();
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains("does not support a file of 16 TiB; choose a smaller --size"), "{line}");
    assert!(!image.exists());
}

#[test]
fn a_truncated_image_and_one_of_another_version_are_told_apart() {
    let fixture = Fixture::new(&[]);
    let image = fixture.image();
    let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(64 << 20).unwrap();
    for command in ["stat", "dump"] {
        let line = refused(&[command, &image], 3);
        assert!(line.contains("truncated") || line.contains("cut short"), "{line}");
    }
    let newer = Fixture::new(&[]);
    let image = newer.image();
    let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    for at_bytes in firnfs_format::superblock::Superblock::places(128 << 20) {
        std::os::unix::fs::FileExt::write_all_at(&file, &99u32.to_le_bytes(), at_bytes + 8).unwrap();
    }
    for command in ["stat", "dump"] {
        assert!(refused(&[command, &image], 3).contains("version 99"), "{command}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let fixture = Fixture::new(&[]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["dump", &fixture.image(), "--ifile", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn help_man_pages_and_completions_come_out() {
    assert!(ok(&["--help"]).contains("Exit codes:"));
    assert!(ok(&["mkfs", "--help"]).contains("--from-dir"));
    assert!(ok(&["completions", "bash"]).contains("_firn"));
    let home = tempfile::tempdir().unwrap();
    ok(&["man", home.path().to_str().unwrap()]);
    assert!(home.path().join("firn-mkfs.1").exists());
}

#[test]
fn stat_and_df_of_a_mount_say_what_stat_of_the_image_said() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: /dev/fuse is missing, nothing was mounted");
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let (image, mnt) = (fixture.image(), fixture.path("mnt"));
    std::fs::create_dir(&mnt).unwrap();
    let mnt = mnt.to_str().unwrap();
    let before = json(&["stat", &image, "--json"]);
    ok(&["mount", &image, mnt]);
    let mounted = json(&["stat", &format!("{mnt}/sub/large"), "--json"]);
    let by_image = json(&["stat", &image, "--json"]);
    let df = json(&["df", mnt, "--json"]);
    let same = std::fs::read(format!("{mnt}/sub/large")).unwrap()
        == std::fs::read(tree.path().join("sub/large")).unwrap();
    let busy = refused(&["mkfs", &image, "--force"], 4);
    ok(&["umount", mnt]);

    assert!(same);
    assert!(busy.contains("is mounted on"), "{busy}");
    assert_eq!(mounted["log"]["uuid"], before["log"]["uuid"]);
    assert_eq!(mounted["space"]["used_inodes"], before["space"]["used_inodes"]);
    assert_eq!(mounted["mountpoint"], mnt);
    assert_eq!((&mounted["image"], &mounted["mountpoint"]), (&by_image["image"], &by_image["mountpoint"]));
    assert_eq!(df["volumes"][0]["log"]["uuid"], before["log"]["uuid"]);
    assert_eq!(json(&["stat", &image, "--json"])["log"]["recovery"]["cleanly_unmounted"], true);
}

/// Runs `firn fsck`; returns its exit code, its JSON output and its messages about failures.
fn fsck(args: &[&str]) -> (i32, Value, String) {
    let output = firn(&[&["fsck", "--json"], args].concat());
    let said = text(&output.stdout);
    let view = if said.is_empty() { Value::Null } else { schema::parse(&said) };
    (output.status.code().unwrap(), view, text(&output.stderr))
}

#[test]
fn fsck_finds_a_volume_clean_and_changes_no_byte() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let before = std::fs::read(fixture.image()).unwrap();
    let (exit, view, said) = fsck(&[&fixture.image()]);
    assert_eq!((exit, said.as_str()), (0, ""));
    assert_eq!(view["checks"][0]["sound"], true);
    assert_eq!(view["checks"][0]["findings"].as_array().unwrap().len(), 0);
    assert_eq!(view["checks"][0]["totals"]["inodes"], 6);
    assert_eq!(view["checks"][0]["totals"]["entries"], 5);
    let (exit, view, _) = fsck(&[&fixture.image(), "--all-checkpoints"]);
    assert_eq!((exit, view["checks"].as_array().unwrap().len()), (0, 2));
    assert!(std::fs::read(fixture.image()).unwrap() == before);
    assert!(ok(&["fsck", &fixture.image()]).contains("6 inodes (3 directories, 5 entries)"));
}

#[test]
fn fsck_names_the_file_whose_block_is_damaged_and_exits_with_4() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let mut bytes = std::fs::read(fixture.image()).unwrap();
    let large = std::fs::read(tree.path().join("sub/large")).unwrap();
    // A block in the middle of the large file, whose content is unique.
    let block = &large[100 * 4096..101 * 4096];
    let at = bytes.chunks_exact(512).position(|sector| *sector == block[..512]).unwrap() * 512;
    bytes[at + 77] ^= 1;
    std::fs::write(fixture.image(), &bytes).unwrap();
    let (exit, view, _) = fsck(&[&fixture.image()]);
    let findings = view["checks"][0]["findings"].as_array().unwrap();
    assert_eq!((exit, findings.len()), (4, 1), "{view:#}");
    assert_eq!(findings[0]["code"], "block-damaged");
    assert_eq!(findings[0]["path"], "/sub/large");
    assert!(findings[0]["place"].as_str().unwrap().contains("block "), "{view:#}");
}

#[test]
fn a_volume_that_is_too_small_is_refused_with_the_smallest_size_which_is_enough() {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("x.img");
    let image = image.to_str().unwrap();
    for more in [
        &["--size", "1M"][..],
        &["--size", "20M", "--segment-size", "4M"],
        &["--size", "8K", "--type", "ffs"],
    ] {
        let line = refused(&[&["mkfs", image], more].concat(), 2);
        assert!(line.contains("is too small: ") && !Path::new(image).exists(), "{line}");
        let least = line.split("--size ").nth(1).unwrap().split([' ', ',']).next().unwrap().trim_end();
        let (least, unit) = least.split_at(least.len() - 1);
        let with = |number: u64| {
            let size = format!("{number}{unit}");
            let output = firn(&[&["mkfs", image, "--size", &size][..], &more[2..]].concat());
            let made = output.status.success();
            if made {
                ok(&["fsck", image]);
                std::fs::remove_file(image).unwrap();
            }
            made
        };
        let least: u64 = least.parse().unwrap();
        assert!(with(least), "{line}");
        assert!(!with(least - 1), "{line}");
    }
}

#[test]
fn a_mount_with_its_paths_swapped_or_one_missing_says_how_it_is_right() {
    let fixture = Fixture::new(&[]);
    let directory = fixture.path("mnt");
    std::fs::create_dir(&directory).unwrap();
    let (image, mnt) = (fixture.image(), directory.to_str().unwrap().to_owned());
    let line = refused(&["mount", &mnt, &image], 2);
    assert!(line.contains("swapped?") && line.contains(&format!("firn mount {image} {mnt}")), "{line}");
    assert!(refused(&["mount", &image], 2).contains(&format!("firn mount {image} DIRECTORY")));
    assert!(refused(&["mount", &mnt], 2).contains(&format!("firn mount IMAGE {mnt}")));
}

#[test]
fn dump_finds_an_inode_by_its_path() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    for kind in ["log", "ffs"] {
        let fixture = Fixture::new(&["--type", kind, "--from-dir", tree.path().to_str().unwrap()]);
        let image = fixture.image();
        let by = |inode: &str| json(&["dump", &image, "--inode", inode, "--json"]);
        let large = by("/sub/large");
        assert_eq!(large["size_bytes"], 3_000_000, "{large:#}");
        assert_eq!(by(&large["inode"].to_string()), large, "the number leads to the same");
        assert_eq!(by("sub/deeper/../large"), large);
        assert_eq!(by("/"), by("1"));
        for wrong in ["/sub/none", "small/below a file"] {
            assert!(refused(&["dump", &image, "--inode", wrong], 1).contains("has no file"), "{kind}");
        }
    }
}

#[test]
fn a_command_that_does_not_exist_is_not_taken_for_one_that_does_something_else() {
    let said = |word: &str| {
        let output = firn(&[word, "/mnt"]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(said("unmount").contains("'umount'") && !said("unmount").contains("'mount'"));
    assert!(!said("lfs").contains("mkfs"));
}

#[test]
fn mkfs_refuses_a_tree_that_does_not_fit_before_it_writes_and_names_a_size_that_is_enough() {
    let (tree, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for n in 0..24 {
        std::fs::write(tree.path().join(format!("file {n}")), vec![n as u8; 1_000_000 + n * 1000]).unwrap();
    }
    let (new, old) = (home.path().join("new.img"), home.path().join("old.img"));
    let [new_path, old_path, from] = [new.as_path(), &old, tree.path()].map(|path| path.to_str().unwrap());
    let line = refused(&["mkfs", new_path, "--size", "32M", "--from-dir", from], 1);
    assert!(line.contains("does not fit: it needs 2"), "{line}");
    assert!(!new.exists());
    let fast = ["mkfs", new_path, "--size", "16M", "--from-dir", from, "--type", "ffs"];
    assert!(refused(&fast, 1).contains("does not fit"));
    assert!(!new.exists());

    // What an existing image holds is still there.
    ok(&["mkfs", old_path, "--size", "32M", "--label", "kept"]);
    refused(&["mkfs", old_path, "--force", "--from-dir", from], 1);
    assert_eq!(json(&["stat", old_path, "--json"])["log"]["label"], "kept");

    let size = line.split("--size ").nth(1).unwrap().split(' ').next().unwrap();
    let made = json(&["mkfs", new_path, "--size", size, "--from-dir", from, "--json"]);
    assert_eq!(made["copied"]["files"], 24);
    assert!(
        made["size_bytes"].as_u64().unwrap() < 64 << 20,
        "the size is not just any that is enough: {line}"
    );
}

#[test]
fn a_copy_that_fails_half_way_leaves_no_image() {
    let (tree, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Targets of symbolic links are not counted before.
    for n in 0..4000 {
        std::os::unix::fs::symlink("x".repeat(4000), tree.path().join(n.to_string())).unwrap();
    }
    let image = home.path().join("new.img");
    let args =
        ["mkfs", image.to_str().unwrap(), "--size", "32M", "--from-dir", tree.path().to_str().unwrap()];
    let line = refused(&args, 1);
    assert!(line.contains("no space left on the volume"), "{line}");
    assert!(!image.exists());
}

#[test]
fn a_signal_ends_the_copy_of_a_tree_and_the_new_image_is_gone() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::os::unix::fs::MetadataExt;
    let (tree, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(tree.path().join("large"), vec![1; 300 << 20]).unwrap();
    let image = home.path().join("new.img");
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args([
                "mkfs",
                image.to_str().unwrap(),
                "--size",
                "1G",
                "--from-dir",
                tree.path().to_str().unwrap(),
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !std::fs::metadata(&image).is_ok_and(|meta| meta.blocks() * 512 > 4 << 20) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it copied anything");
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let line = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{line}");
        assert!(line.contains("interrupted") && !image.exists(), "{line}");
    }
}

#[test]
fn fsck_of_a_file_that_is_no_volume_prints_one_line_and_exits_with_8() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("text"), "hello").unwrap();
    assert!(refused(&["fsck", &at("text")], 8).contains("not a firnfs volume"));
    assert!(refused(&["fsck", &at("nothing")], 8).contains("check the path"));
    let fixture = Fixture::new(&[]);
    std::fs::OpenOptions::new().write(true).open(fixture.image()).unwrap().set_len(64 << 20).unwrap();
    assert!(refused(&["fsck", &fixture.image()], 8).contains("cut short"));
    assert_eq!(firn(&["fsck"]).status.code(), Some(16));
    assert_eq!(firn(&["fsck", "--no-such-option", "x"]).status.code(), Some(16));
}

#[test]
fn fsck_repairs_what_it_finds_and_says_so_with_its_exit_code() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let image = fixture.image();
    let sound = std::fs::read(&image).unwrap();
    let (exit, view, said) = fsck(&[&image, "--repair", "-y"]);
    assert_eq!((exit, view["repairs"].as_array().map(Vec::len)), (0, Some(0)), "{said}");
    assert!(std::fs::read(&image).unwrap() == sound, "a sound volume is not changed");

    let mut bytes = sound;
    let large = std::fs::read(tree.path().join("sub/large")).unwrap();
    let block = &large[100 * 4096..101 * 4096];
    let at = bytes.chunks_exact(512).position(|sector| *sector == block[..512]).unwrap() * 512;
    bytes[at + 77] ^= 1;
    std::fs::write(&image, &bytes).unwrap();
    let unasked = refused(&["fsck", "--repair", &image], 16);
    assert!(unasked.contains("--yes"), "{unasked}");
    let (exit, view, said) = fsck(&[&image, "--repair", "--yes"]);
    assert_eq!((exit, said.as_str()), (4, ""), "{view:#}");
    assert_eq!(view["repairs"][0]["code"], "block-damaged");
    assert_eq!(view["repairs"][0]["done"], false);
    assert!(std::fs::read(&image).unwrap() == bytes, "lost data is not zeros: it stays an error");
    let lost = |state: &str| serde_json::json!([{ "inode": view["lost"][0]["inode"], "path": "/sub/large", "state": state, "lost_bytes": 4096, "at_most": false }]);
    assert_eq!(view["lost"], lost("unreadable"));

    assert!(
        firn(&["fsck", &image, "--zero-lost"]).status.code() == Some(16),
        "without a repair it means nothing"
    );
    let (exit, view, said) = fsck(&[&image, "--repair", "--zero-lost", "--yes"]);
    assert_eq!((exit, said.as_str()), (1, ""), "{view:#}");
    assert_eq!((&view["repairs"][0]["done"], &view["checks"][0]["sound"]), (&true.into(), &true.into()));
    assert_eq!(view["lost"], lost("zeros"));
    assert_eq!(fsck(&[&image]).0, 0);
}

#[test]
fn fsck_names_the_files_that_lost_data_in_lines_of_80_columns() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let large: Vec<u8> =
        (0..3_000_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[..1].to_vec()).collect();
    for name in ["sub/large", "other"] {
        std::fs::write(tree.path().join(name), &large).unwrap();
    }
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let mut bytes = std::fs::read(fixture.image()).unwrap();
    for n in [100, 101, 300] {
        let block = &large[n * 4096..n * 4096 + 512];
        let places: Vec<usize> =
            (0..bytes.len()).step_by(512).filter(|at| &bytes[*at..at + 512] == block).collect();
        assert_eq!(places.len(), 2, "one for each of the files");
        places[..if n == 300 { 1 } else { 2 }].iter().for_each(|at| bytes[at + 77] ^= 1);
    }
    // A relative path, as short as people type it.
    std::fs::write(fixture.path("d.img"), &bytes).unwrap();
    let run = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_firn")).args(args).current_dir(fixture.home.path()).output();
        let output = output.unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let names = "2 files lost data: /other 12 KiB, /sub/large 8 KiB\n";
    for (args, exit, line, other) in [
        (&["fsck", "d.img"][..], 4, names, "/sub/large: inode "),
        (&["fsck", "d.img", "--repair", "-y"], 4, names, "/sub/large: inode "),
        (
            &["fsck", "d.img", "--repair", "-y", "--zero-lost"],
            1,
            "2 files lost data, now zeros: /other 12 KiB, /sub/large 8 KiB\n",
            "repaired: /other: inode ",
        ),
    ] {
        let (code, said) = run(args);
        assert!(
            code == Some(exit) && said.contains(line) && said.contains(other),
            "{args:?}: {code:?} {said}"
        );
        let long: Vec<&str> = said.lines().filter(|line| line.len() > 80).collect();
        assert!(long.is_empty(), "{long:#?}");
        assert_eq!(said.contains("--zero-lost d.img"), exit == 4, "{said}");
    }
}

#[test]
fn a_fast_file_system_is_shown_by_its_groups_and_found_by_a_copy_of_its_superblock() {
    let fixture = Fixture::new(&["--type", "ffs", "--variant", "m8r2", "--smart-frag"]);
    let image = fixture.image();
    let (stat, dump) = (json(&["stat", &image, "--json"]), json(&["dump", &image, "--json"]));
    let fast = &stat["ffs"];
    assert!(stat["log"].is_null() && fast["maxcontig"] == 8 && fast["policies"][0] == "smart-frag", "{fast}");
    let groups = dump["descriptors"].as_array().unwrap();
    assert!(groups.len() >= 2 && fast["groups"] == groups.len());
    for (sum, of) in
        [("free_blocks", "free_blocks"), ("free_inodes", "free_inodes"), ("directories", "directories")]
    {
        let added: u64 = groups.iter().map(|group| group[of].as_u64().unwrap()).sum();
        assert_eq!(fast[sum], added, "{sum}");
    }
    assert_eq!(json(&["df", &image, "--json"])["volumes"][0]["space"], stat["space"]);
    let root = json(&["dump", &image, "--inode", "1", "--json"]);
    assert_eq!((root["kind"].as_str(), root["links"].as_u64()), (Some("directory"), Some(2)));
    assert!(
        ok(&["stat", &image]).contains("Fast File System") && ok(&["dump", &image]).contains("free blocks")
    );
    assert!(refused(&["dump", &image, "--segment", "0"], 2).contains("no segments"));
    assert!(refused(&["stat", &image, "--cleaning"], 1).contains("Fast File System"));

    // The first superblock is at 4096.
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 4096).unwrap();
    assert_eq!(json(&["stat", &image, "--json"])["ffs"], *fast);
    let damaged = json(&["dump", &image, "--json"]);
    assert!(
        damaged["cleanly_unmounted"].is_null() && damaged["damaged_copies"] == serde_json::json!([0]),
        "{damaged}"
    );
    let (exit, view, _) = fsck(&[&image]);
    assert!(
        exit == 4 && view["findings"][0]["text"].as_str().unwrap().contains("copy of the superblock"),
        "{view}"
    );
    let (exit, view, _) = fsck(&[&image, "--repair", "--yes"]);
    assert!(exit == 1 && view["sound"] == true, "{view}");
    assert_eq!(fsck(&[&image]).0, 0);
}

#[test]
fn fsck_salvages_a_volume_that_has_lost_everything_but_its_log() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let (image, new) = (fixture.image(), fixture.path("new.img"));
    let new = new.to_str().unwrap();
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[..2 << 20].fill(0);
    let end = bytes.len();
    bytes[end - 4096..].fill(0);
    std::fs::write(&image, &bytes).unwrap();
    assert!(refused(&["fsck", &image], 8).contains("--salvage"));
    assert!(refused(&["fsck", &image, "--salvage", &image], 16).contains("exists"));
    let (exit, view, said) = fsck(&[&image, "--salvage", new]);
    assert_eq!((exit, said.as_str()), (1, ""), "{view:#}");
    assert_eq!(view["checks"][0]["totals"]["inodes"], 6);
    assert_eq!(fsck(&[new]).0, 0);
    assert!(std::fs::read(&image).unwrap() == bytes, "it was only read");
    let empty = fixture.path("empty.img");
    std::fs::File::create(&empty).unwrap().set_len(64 << 20).unwrap();
    let line = refused(&["fsck", empty.to_str().unwrap(), "--salvage", &format!("{new}2")], 8);
    assert!(line.contains("segment summaries"), "{line}");
}

#[test]
fn the_cleaning_simulator_shows_every_combination_alike_for_people_and_programs() {
    let args = "sim cleaning --workload uniform,shift:2 --policy greedy,cost-benefit --placement one,dac:3 \
                --utilisation 0.6,0.8 --segments 64 --segment-blocks 32 --max-volumes 25";
    let args: Vec<&str> = args.split_whitespace().collect();
    let json = json(&[args.as_slice(), &["--json", "--threads", "1"]].concat());
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16);
    let table = ok(&[args.as_slice(), &["--threads", "2"]].concat());
    for row in rows {
        let amplification = row["write_amplification"]["mean"].as_f64().unwrap();
        assert!((1.1..4.0).contains(&amplification), "{row}");
        assert!(table.contains(&format!("| {amplification:.3} ±")), "{amplification} is not in {table}");
    }
    assert!(table.contains("million block writes a second"));
    let oracle =
        ["--placement", "one,oracle", "--segments", "128", "--segment-blocks", "32", "--max-volumes", "25"];
    let table = ok(&[&["sim", "cleaning"], oracle.as_slice()].concat());
    let of_oracle = table.lines().find(|line| line.contains("oracle:16")).unwrap();
    assert!(of_oracle.contains("| 1.000 "), "{of_oracle}");
    refused(&["sim", "cleaning", "--utilisation", "0.999", "--segments", "16"], 2);
    refused(&["sim", "cleaning", "--sprite", "4", "--placement", "dac"], 2);
}

/// The whole run takes a minute, so this test covers only how it fails. The lab's tests cover the results.
#[test]
fn figures_need_a_directory_that_can_be_made() {
    let line = refused(&["sim", "figures", "--out", "/dev/null/figures", "--threads", "2"], 1);
    assert!(line.contains("cannot create /dev/null/figures"), "{line}");
}

/// All keys of objects in a JSON value.
fn keys(value: &Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.keys().cloned());
            object.values().for_each(|inner| keys(inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| keys(inner, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_json_of_simulated_hardware_is_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/simulated-hardware.md");
    let page = std::fs::read_to_string(page).unwrap();
    let documented = page.split("## JSON").nth(1).unwrap();
    for args in [
        &["sim", "disk", "hp97560", "--request", "r:0:64K,w:1M:4K,f", "--json"][..],
        &["sim", "paper", "bandwidth", "--runs", "1", "--json"],
        &["sim", "paper", "small-files", "--files", "200", "--json"],
        &["sim", "paper", "large-file", "--size", "1M", "--json"],
    ] {
        let value = json(args);
        let mut found = std::collections::BTreeSet::new();
        keys(&value, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for key in found.difference(&["schema", "version", "command"].map(str::to_owned).into()) {
            assert!(documented.contains(&format!("`{key}`")), "{args:?}: {key} is not documented");
        }
    }
}

#[test]
fn a_bad_disk_is_refused_with_its_file_key_and_range() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, "title = \"mine\"\nkind = \"flash\"\n[flash]\nsize_gb = 0\n").unwrap();
    let path = path.to_str().unwrap();
    for args in [&["sim", "disk", path][..], &["sim", "coalescing", "--disk", path]] {
        let said = refused(args, 2);
        assert!(
            said.contains(&format!("{path}: flash.size_gb: is 0; allowed: a number from 0.001")),
            "{said}"
        );
    }
    let said = refused(&["sim", "disk", "floppy"], 2);
    assert!(said.contains("neither a name (hp97560, wren4"), "{said}");
}
