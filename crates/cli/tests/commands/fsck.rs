//! `fsck`: what it finds, repairs and salvages.

use crate::common::{Fixture, firn, make_tree, ok, refused, text};
use crate::schema;
use serde_json::Value;
use std::process::Command;

/// Runs `firn fsck`; returns its exit code, its JSON output and its messages about failures.
pub fn fsck(args: &[&str]) -> (i32, Value, String) {
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

/// Filling a block with zeros leaves the damaged one to the snapshots that see it.
#[test]
fn fsck_deletes_a_damaged_snapshot_only_if_it_is_told_to() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let image = fixture.image();
    ok(&["snapshot", &image, "upgrade"]);
    let mut bytes = std::fs::read(&image).unwrap();
    let large = std::fs::read(tree.path().join("sub/large")).unwrap();
    let block = &large[100 * 4096..100 * 4096 + 512];
    let at = bytes.chunks_exact(512).position(|sector| sector == block).unwrap() * 512;
    bytes[at + 77] ^= 1;
    std::fs::write(&image, &bytes).unwrap();
    let snapshots = || ok(&["snapshot", &image, "--list"]);
    assert!(snapshots().contains("upgrade"));
    let (exit, view, _) = fsck(&[&image, "--repair", "--yes", "--zero-lost"]);
    assert_eq!(exit, 5, "{view:#}");
    assert!(snapshots().contains("upgrade"));
    for words in [&["fsck", &image][..], &["fsck", &image, "--repair", "--yes"]] {
        let output = firn(words);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains(&format!("'firn fsck --repair --drop-states {image}' deletes it.")), "{said}");
        assert!(!said.contains("Nothing was changed"), "no repair without the option helps: {said}");
        assert!(snapshots().contains("upgrade"));
    }
    let (exit, view, _) = fsck(&[&image, "--repair", "--yes", "--drop-states"]);
    assert_eq!((exit, snapshots().contains("upgrade")), (1, false), "{view:#}");
}

#[test]
fn fsck_goes_through_the_states_of_the_past_if_it_is_told_to() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let image = fixture.image();
    ok(&["snapshot", &image, "one"]);
    ok(&["snapshot", &image, "two"]);
    let (exit, view, _) = fsck(&[&image]);
    assert_eq!((exit, &view["checks"][0]["totals"]["points"]), (0, &Value::from(0)));
    let (exit, view, said) = fsck(&[&image, "--all-points"]);
    let kept = schema::parse(&ok(&["log", &image, "--json"]))["states"].as_array().unwrap().len();
    assert_eq!((exit, said.as_str()), (0, ""));
    assert_eq!((kept >= 2, &view["checks"][0]["totals"]["points"]), (true, &Value::from(kept)));
    let text = ok(&["fsck", &image, "--all-points"]);
    assert!(text.contains("states of the past") && text.lines().all(|line| line.len() <= 80), "{text}");
    assert_eq!(firn(&["fsck", &image, "--all-points", "--repair"]).status.code(), Some(16));
    let fast = Fixture::new(&["--type", "ffs"]);
    assert!(refused(&["fsck", &fast.image(), "--all-points"], 16).contains("no states of the past"));
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
    // The volume made a state by itself, which has the block as well.
    let (exit, view, said) = fsck(&[&image, "--repair", "--zero-lost", "--drop-states", "--yes"]);
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
            &["fsck", "d.img", "--repair", "-y", "--zero-lost", "--drop-states"],
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
fn a_salvage_that_is_stopped_removes_what_it_has_made_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let name = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (image, out, tree) = (name("disk.img"), name("new.img"), name("tree"));
    std::fs::create_dir(&tree).unwrap();
    for n in 0..3000 {
        std::fs::write(format!("{tree}/{n}"), vec![n as u8; 20_000]).unwrap();
    }
    ok(&["mkfs", &image, "--size", "256M", "--from-dir", &tree]);
    let before = std::fs::read(&image).unwrap();
    let salvage = std::process::Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["fsck", &image, "--salvage", &out])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !std::path::Path::new(&out).exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let pid = rustix::process::Pid::from_child(&salvage);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = salvage.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(143), "{said}");
    assert!(said.contains("new.img is removed") && !std::path::Path::new(&out).exists(), "{said}");
    assert!(std::fs::read(&image).unwrap() == before);
    // What is there already is not touched, whatever happens.
    std::fs::write(&out, "mine").unwrap();
    assert!(refused(&["fsck", &image, "--salvage", &out], 16).contains("exists"));
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
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
