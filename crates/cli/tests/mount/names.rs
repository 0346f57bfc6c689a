//! `--null` of the commands of the past: every name and path comes out as its bytes, whatever they are, and goes back through
//! `xargs -0`.

use crate::common::{Kind, Mount, can_mount, complaint, firn, firn_json, firn_ok, shell};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In the order of bytes. No text can have them all: some are no UTF-8, some look like options, lines or blanks.
const NAMES: [&[u8]; 5] = [b" blank ", b"--all", b"caf\xe9", b"two\nlines", b"\xff\xfe"];

/// What `firn` prints with `--null`, apart at each NUL.
fn listed(words: &[&OsStr]) -> Vec<Vec<u8>> {
    let output = Command::new(env!("CARGO_BIN_EXE_firn")).args(words).arg("--null").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<Vec<u8>> = output.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    assert_eq!(names.pop().as_deref(), Some(&b""[..]), "the last one is ended, too");
    names
}

fn listed_as_text(words: &[&str]) -> Vec<String> {
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    listed(&words).into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
}

fn below(directory: &Path, names: &[&[u8]]) -> Vec<Vec<u8>> {
    names
        .iter()
        .map(|name| directory.join(OsStr::from_bytes(name)).into_os_string().into_encoded_bytes())
        .collect()
}

/// A directory with files of all names, each with its name as content; and a snapshot of it.
fn with_names(mount: &Mount) -> PathBuf {
    let directory = mount.path("d");
    fs::create_dir(&directory).unwrap();
    for name in NAMES {
        fs::write(directory.join(OsStr::from_bytes(name)), name).unwrap();
    }
    firn_ok(&["snapshot", mount.mnt.to_str().unwrap(), "one"]);
    directory
}

fn assert_has_all(directory: &Path) {
    for name in NAMES {
        assert_eq!(fs::read(directory.join(OsStr::from_bytes(name))).unwrap(), name);
    }
    assert_eq!(fs::read_dir(directory).unwrap().count(), NAMES.len());
}

#[test]
fn files_of_any_name_are_listed_and_come_back_through_xargs() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let d = with_names(&mount);
    let then = mount.path(".firn/history/one/d");
    for name in NAMES {
        let file = d.join(OsStr::from_bytes(name));
        assert_eq!(listed(&["log".as_ref(), file.as_ref()]), below(&d, &[name]), "the present has it");
    }
    shell(&mount.mnt, "rm -r d; mkdir d");
    assert_eq!(listed(&["undelete".as_ref(), d.as_ref()]), below(&then, &NAMES));
    let file = d.join(OsStr::from_bytes(NAMES[3]));
    assert_eq!(listed(&["log".as_ref(), file.as_ref()]), below(&then, &NAMES[3..4]));

    let text = firn_ok(&["undelete", d.to_str().unwrap()]);
    assert!(
        text.lines().count() == NAMES.len() + 2 && text.contains("two\\nlines"),
        "a name, a line: {text}"
    );
    let view = firn_json(&["undelete", d.to_str().unwrap(), "--json"]);
    assert_eq!(view["deleted_files"][3]["name"], "two\nlines");

    let firn = env!("CARGO_BIN_EXE_firn");
    let back = format!(
        "{firn} undelete d --null | xargs -0 basename -az | xargs -0 {firn} undelete d --null -- | xargs -0 -n1 cat"
    );
    // The names are the contents; a shell's output is text, so that it is written to a file.
    shell(&mount.mnt, &format!("({back}) > contents"));
    assert_eq!(fs::read(mount.path("contents")).unwrap(), NAMES.concat());
    assert_has_all(&d);

    shell(&mount.mnt, "rm -r d");
    let words = ["restore", mount.mnt.to_str().unwrap(), "--deleted", "*"].map(OsStr::new);
    assert_eq!(listed(&words), below(&d, &NAMES));
    assert_has_all(&d);
}

#[test]
fn a_name_in_a_list_comes_back_if_it_is_copied_into_a_shell() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let d = with_names(&mount);
    shell(&mount.mnt, "rm -r d");
    let list = firn_ok(&["undelete", d.to_str().unwrap()]);
    let lines: Vec<&str> = list.lines().collect();
    for line in &lines[1..lines.len() - 1] {
        let script = format!("{} undelete d -- {}", env!("CARGO_BIN_EXE_firn"), &line[31..]);
        let back = Command::new("bash").args(["-c", &script]).current_dir(&mount.mnt).output().unwrap();
        assert!(back.status.success(), "{script}: {}", String::from_utf8_lossy(&back.stderr));
    }
    assert_has_all(&d);
    let gone = format!("{}/no\n\u{1b}[2J", mount.mnt.display());
    assert!(complaint(&["log", &gone]).contains(r"/no\n\033[2J'"));
}

#[test]
fn a_path_of_which_no_states_are_kept_is_refused_by_name() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    with_names(&mount);
    let link = mount.mnt.with_file_name("work");
    firn_ok(&["clone", mnt, "one", link.to_str().unwrap()]);
    fs::write(mount.path(".firn/clones/work/d/new"), "").unwrap();
    for (place, command) in [("clones/work", "undelete"), ("clones/work", "log"), ("history/one", "restore")]
    {
        let path = mount.path(".firn").join(place).join("d");
        let line = complaint(&[command, path.to_str().unwrap()]);
        assert!(line.contains(" only of the volume itself") && line.contains(&format!("{mnt}/d")), "{line}");
    }
    let line = complaint(&["diff", &format!("{mnt}/no\nne@one")]);
    assert!(line.contains("the state one has no $'") && line.contains("firn log $'"), "{line}");
    let line = complaint(&["undelete", mount.path("no-such").to_str().unwrap()]);
    assert!(line.contains("neither the present nor a state has") && line.contains("--deleted"), "{line}");
    // How it differs from a state is another matter.
    let changes = firn_ok(&["diff", &format!("{mnt}@one"), link.to_str().unwrap()]);
    assert_eq!(changes, "+ d/new\n");
}

#[test]
fn lists_fit_a_terminal_also_with_long_names_of_states() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let (mnt, file) = (mount.mnt.to_str().unwrap(), mount.path("f"));
    fs::write(&file, "").unwrap();
    for name in ["before-the-upgrade-of-monday", "after-the-upgrade-of-monday"] {
        firn_ok(&["snapshot", mnt, name]);
        fs::remove_file(&file).unwrap();
        firn_ok(&["snapshot", mnt, &format!("gone-{name}")]);
        fs::write(&file, "").unwrap();
    }
    let list = firn_ok(&["log", mnt]) + &firn_ok(&["log", file.to_str().unwrap()]);
    assert!(list.lines().all(|line| line.len() <= 80) && list.contains("another file)"), "{list}");
}

#[test]
fn a_diff_has_names_of_any_bytes_after_their_signs() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let d = with_names(&mount);
    fs::rename(d.join(OsStr::from_bytes(NAMES[2])), d.join(OsStr::from_bytes(b"z\n\xff"))).unwrap();
    fs::write(d.join(OsStr::from_bytes(NAMES[3])), "longer than it was").unwrap();
    fs::remove_file(d.join(OsStr::from_bytes(NAMES[4]))).unwrap();
    let at_one = mount.path("d@one");
    let fields = listed(&["diff".as_ref(), at_one.as_ref()]);
    let expected: [&[u8]; 7] = [b"M", NAMES[3], b"R", NAMES[2], b"z\n\xff", b"-", NAMES[4]];
    assert_eq!(fields, expected);
    let text = firn_ok(&["diff", at_one.to_str().unwrap()]);
    assert!(text.lines().count() == 3 && text.contains(r"-> $'z\n\377'"), "{text}");
}

#[test]
fn names_of_states_and_clones_are_listed_and_deleted_through_xargs() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    assert_eq!(listed_as_text(&["log", mnt]), [""; 0]);
    for name in ["nightly-1", "größer", "nightly-2"] {
        firn_ok(&["snapshot", mnt, name]);
    }
    assert_eq!(listed_as_text(&["log", mnt]), ["nightly-2", "größer", "nightly-1"]);
    assert_eq!(listed_as_text(&["snapshot", mnt, "--list"]), ["nightly-2", "größer", "nightly-1"]);
    for name in ["a", "b"] {
        firn_ok(&["clone", mnt, "größer", mount.path(name).to_str().unwrap()]);
    }
    assert_eq!(listed_as_text(&["clone", mnt, "--list"]), ["a", "b"]);

    let firn_path = env!("CARGO_BIN_EXE_firn");
    shell(
        &mount.mnt,
        &format!(
            "{firn_path} snapshot . --list --null | grep -z ^nightly- | xargs -0 -rn1 {firn_path} snapshot . --delete
             {firn_path} clone . --list --null | xargs -0 -rn1 {firn_path} clone . --delete"
        ),
    );
    assert_eq!(listed_as_text(&["clone", mnt, "--list"]), [""; 0]);
    assert_eq!(listed_as_text(&["log", mnt]), ["größer"]);
    mount.umount();
    assert_eq!(listed_as_text(&["log", mount.image.to_str().unwrap()]), ["größer"]);
}

#[test]
fn null_with_another_form_or_without_a_list_is_refused() {
    for words in [
        &["log", "/mnt", "--null", "--json"][..],
        &["restore", "/mnt/f", "--null", "--json"],
        &["undelete", "/mnt", "--null", "--json"],
        &["diff", "/mnt@one", "--null", "--stat"],
        &["snapshot", "/mnt", "one", "--null"],
        &["clone", "/mnt", "one", "/work", "--null"],
    ] {
        let output = firn(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}
