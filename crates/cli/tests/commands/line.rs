//! The command line: failures, help, suggestions.

use crate::common::{Fixture, firn, ok, refused, text};
use std::process::{Command, Stdio};

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
    std::fs::write(at("long"), vec![b'x'; 4 << 20]).unwrap();
    let line = refused(&["log", &at("long")], 3);
    assert!(line.contains("long: not a firnfs volume; make one"), "no dump of bytes: {line}");
    assert!(refused(&["stat", home.path().to_str().unwrap()], 3).contains("not on a firnfs mount"));
    assert!(refused(&["mkfs", &at("text")], 4).contains("--force"));
    assert!(refused(&["mkfs", &at("new")], 2).contains("--size"));
    assert!(refused(&["mkfs", &at("no/such/place"), "--size", "1G"], 1).contains("no/such/place"));
    for words in [
        &["mkfs", &at("x"), "--size", "lots"][..],
        &["no-such-command"],
        &["stat", "--no-such-option"],
        &["mkfs"],
        &["--color", "blue", "df"],
    ] {
        refused(words, 2);
    }
    // As fsck(8).
    refused(&["fsck", "--no-such-option"], 16);
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
fn what_a_full_standard_output_does_not_take_is_a_failure_with_a_plain_reason() {
    let fixture = Fixture::new(&[]);
    for words in [&["--help"][..], &["--version"], &["mkfs", "--help"], &["stat", &fixture.image()]] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_firn")).args(words).stdout(full).output().unwrap();
        let line = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {line}");
        assert_eq!(line, "firn: cannot write the result: No space left on device\n", "{words:?}");
    }
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
fn a_command_that_does_not_exist_is_not_taken_for_one_that_does_something_else() {
    let said = |word: &str| {
        let output = firn(&[word, "/mnt"]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(said("unmount").contains("'firn umount'") && !said("unmount").contains("'firn mount'"));
    assert!(said("grow").contains("'firn resize'"));
    assert!(!said("lfs").contains("mkfs"));
}
