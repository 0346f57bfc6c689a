//! What commands show on a terminal of 80 columns, where paths are long: no line is longer, and so none is broken anywhere.

use crate::common::{Kind, Mount, can_mount, firn_ok, pattern};
use std::fs;
use std::process::{Command, Stdio};

const COLUMNS: usize = 80;

/// What a command writes to a terminal, in its lines, without colours and movements.
fn on_terminal(words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let firn = env!("CARGO_BIN_EXE_firn");
    let line = format!("stty cols {COLUMNS} rows 24; {firn} {}; true", quoted.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
    let shown = script.output().unwrap().stdout;
    let mut text = String::from_utf8(shown).unwrap();
    while let Some(at) = text.find('\u{1b}') {
        let length = text[at + 2..].find(|c: char| c.is_ascii_alphabetic()).unwrap();
        text.replace_range(at..=at + 2 + length, "");
    }
    text.split(['\n', '\r']).map(str::to_owned).collect()
}

fn assert_fits(words: &[&str], marks: &[&str]) {
    let lines = on_terminal(words);
    // A path that is longer than the terminal cannot be helped.
    let is_long = |line: &&String| line.chars().count() > COLUMNS && line.trim().contains(' ');
    assert_eq!(lines.iter().find(is_long), None, "{words:?}: {lines:#?}");
    let whole = lines.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ");
    assert!(marks.iter().all(|mark| whole.contains(mark)), "{words:?}: {lines:#?}");
}

/// A mount at a long path, with files and a snapshot; `None` if there can be no terminal or no mount.
fn mount_at_long_path() -> Option<Mount> {
    if !can_mount() {
        return None;
    }
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: NOT TESTED: script(1) is missing");
        return None;
    }
    let mut mount = Mount::with(Kind::Image, "128M", &[]);
    mount.umount();
    mount.mnt = mount.mnt.with_file_name("a-directory").join("whose-name/is-rather/long-indeed");
    fs::create_dir_all(&mount.mnt).unwrap();
    mount.mount_image(&[]);
    for n in 0..9 {
        fs::write(mount.path(&format!("file{n}")), pattern(n, 1 << 20)).unwrap();
    }
    firn_ok(&["snapshot", mount.mnt.to_str().unwrap(), "before-upgrade"]);
    fs::remove_file(mount.path("file3")).unwrap();
    Some(mount)
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let Some(mount) = mount_at_long_path() else { return };
    let (image, mnt) = (mount.image.to_str().unwrap(), mount.mnt.to_str().unwrap());
    let path = |name: &str| mount.path(name).to_str().unwrap().to_owned();
    let beside = |name: &str| mount.mnt.with_file_name(name).to_str().unwrap().to_owned();
    let then = format!("{mnt}@before-upgrade");
    for (words, marks) in [
        (&["stat", mnt][..], &["mounted on", "health"][..]),
        (&["stat", mnt, "--cleaning"], &["write cost"]),
        (&["stat", mnt, "--requests"], &["p99 ms"]),
        (&["stat", mnt, "--counters"], &["checkpoints"]),
        (&["df", "-v", mnt], &["history:", "reclaimable", mnt]),
        (&["tune", mnt], &["clean_low"]),
        (&["tune", mnt, "metrics=80"], &["cannot change"]),
        (&["retain", mnt], &["at most 30%"]),
        (&["retain", mnt, "--keep", "seldom"], &["is no rule"]),
        (&["log", mnt], &["before-upgrade"]),
        (&["diff", &then], &["file3"]),
        (&["undelete", mnt], &["file3"]),
        (&["restore", &path("file1"), "--at", "before-upgrade", "--to", &path("other")], &["is back"]),
        (&["clone", mnt, "before-upgrade", &path("work")], &["the tree itself is"]),
        (&["clone", mnt, "--list"], &["work"]),
        (&["clone", mnt, "--delete", "work"], &["deleted"]),
        (&["send", &then, "--output", &beside("stream")], &["differ"]),
        (&["scrub", mnt], &["sound"]),
        (&["clean", mnt, "--once"], &["segments are clean"]),
        (&["resize", mnt, "-1M"], &["has snapshots"]),
        (&["resize", mnt, "+16M"], &["16 MiB more"]),
        (&["freeze", mnt], &["thaws by itself"]),
        (&["thaw", mnt], &["thawed after"]),
        (&["trim", mnt], &["discarded"]),
        (&["age", "layout", mnt], &["layout score"]),
        (&["record", mnt, "status"], &["record"]),
        (&["rollback", mnt, "before-upgrade"], &["undoes it"]),
        (&["mount", mnt, image], &["swapped?"]),
    ] {
        assert_fits(words, marks);
    }
    mount.umount();
    for (words, marks) in [
        (&["fsck", image][..], &["clean: checkpoint"][..]),
        (&["dump", image], &["checkpoint slot 1"]),
        (&["mkfs", &beside("new.img"), "--size", "64M"], &["segments of"]),
    ] {
        assert_fits(words, marks);
    }
}

#[test]
fn stat_takes_ten_lines_at_most_whatever_its_values_are() {
    let Some(mount) = mount_at_long_path() else { return };
    let (image, mnt) = (mount.image.to_str().unwrap(), mount.mnt.to_str().unwrap());
    mount.umount();
    // An image that the disk beneath it cannot take, and the longest label.
    firn_ok(&["mkfs", image, "--force", "--size", "7T", "--label", &"label ".repeat(11)[..64]]);
    mount.mount_image(&[]);
    for n in 0..3 {
        fs::write(mount.path(&format!("file{n}")), pattern(n, 1 << 20)).unwrap();
    }
    firn_ok(&["snapshot", mnt, "before-upgrade"]);
    fs::remove_file(mount.path("file1")).unwrap();
    firn_ok(&["clone", mnt, "before-upgrade", mount.path("work").to_str().unwrap()]);
    let lines: Vec<String> =
        on_terminal(&["stat", mnt]).into_iter().filter(|line| !line.is_empty()).collect();
    assert!(lines.len() <= 10 && lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:#?}");
    for (line, mark) in
        lines.iter().zip(["mounted on", "health", "disk", "durable", "label", "made", "space"])
    {
        assert!(line.contains(mark), "{mark}: {lines:#?}");
    }
    for mark in ["no damage met", "left, the image may grow", "uuid", "%), ", "inodes", "live, ", "stalls"] {
        assert!(lines.iter().any(|line| line.contains(mark)), "{mark}: {lines:#?}");
    }
}

#[test]
fn df_shows_two_lines_that_add_up_to_the_volume() {
    let Some(mount) = mount_at_long_path() else { return };
    let lines = on_terminal(&["df", mount.mnt.to_str().unwrap()]);
    let rows: Vec<&String> = lines.iter().skip(1).filter(|line| !line.is_empty()).collect();
    // One as df(1) has it, with the end of the path, and what is withheld beside it.
    assert!(rows.len() == 2 && rows[0].ends_with("long-indeed") && rows[0].contains('…'), "{rows:#?}");
    assert!(rows[1].starts_with(" + ") && rows[1].contains(" withheld = "), "{rows:#?}");
}
