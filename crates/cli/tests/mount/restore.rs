//! Getting files back: `firn restore`, `firn undelete`, `firn diff`, mounts of one state.

use crate::common::{
    Kind, Mount, can_mount, complaint, eventually, firn, firn_json, firn_ok, is_root, pattern, shell,
};
use rustix::fs::XattrFlags;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything that a copy has to keep, as text, by path. Files with several names have a number that tells them apart.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let mut linked: BTreeMap<u64, usize> = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let mut text =
            format!("{:o} {}:{} {} {}", meta.mode(), meta.uid(), meta.gid(), meta.mtime(), meta.mtime_nsec());
        let file_type = meta.file_type();
        if meta.is_dir() {
            let mut names: Vec<PathBuf> =
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
            names.sort();
            pending.extend(names.into_iter().rev());
        } else if file_type.is_symlink() {
            text += &format!(" -> {:?}", fs::read_link(&path).unwrap());
        } else if meta.is_file() {
            let is_sparse = meta.blocks() * 512 < meta.len() / 2;
            text += &format!(" {} {is_sparse} {:08x}", meta.len(), sum(&fs::read(&path).unwrap()));
        } else if file_type.is_char_device() || file_type.is_block_device() {
            text += &format!(" device {}", meta.rdev());
        }
        if !meta.is_dir() && meta.nlink() > 1 {
            let next = linked.len();
            text += &format!(" link {}", linked.entry(meta.ino()).or_insert(next));
        }
        text += &xattrs(&path);
        out.insert(path.strip_prefix(root).unwrap().to_owned(), text);
    }
    out
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte))
}

fn xattrs(path: &Path) -> String {
    let mut names = [0; 1000];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let mut all: Vec<String> = Vec::new();
    for name in names[..len].split(|&b| b == 0).filter(|name| !name.is_empty()) {
        let mut value = [0; 1000];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        all.push(format!(" {}={:?}", String::from_utf8_lossy(name), &value[..len]));
    }
    all.sort();
    all.concat()
}

/// An ACL that gives user 5 everything.
const ACL: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 7, 0, 5, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16,
    0, 7, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];

/// Ten thousand files, and one of everything that is hard to copy.
pub fn make_tree(root: &Path) {
    for directory in 0..100 {
        let directory = root.join(format!("d{directory}"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..100 {
            fs::write(directory.join(format!("f{file}")), format!("{directory:?} {file}")).unwrap();
        }
    }
    fs::write(root.join("large"), pattern(1, 3_000_000)).unwrap();
    shell(
        root,
        "truncate -s 30M sparse; echo x | dd of=sparse bs=1 seek=15M conv=notrunc status=none
         truncate -s 20M hole; ln d1/f3 d3/hard; ln d1/f3 also; ln -s nowhere l; mkfifo fifo; touch -d 2001-01-01 d5 d5/f1
         chmod 4755 d1/f1; chmod 2770 d6; chmod 500 d7; chmod 000 d8/f1",
    );
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::lsetxattr(root.join(path), name, value, XattrFlags::empty()).unwrap();
    };
    set("d4/f4", "user.note", b"a value");
    set("d4", "user.note", b"of a directory");
    set("d9", "system.posix_acl_default", &ACL);
    set("d9/f9", "system.posix_acl_access", &ACL);
    if rustix::process::geteuid().is_root() {
        shell(root, "mknod null c 1 3; chown 5:6 d1/f2 d2; chown -h 7:8 l; chown 5 d1/f1; chmod 6755 d1/f1");
    }
}

#[test]
fn a_deleted_tree_of_ten_thousand_files_comes_back_as_it_was() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "512M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    let root = mount.path("tree");
    make_tree(&root);
    let before = tree(&root);
    assert!(before.len() > 10_100);
    firn_ok(&["snapshot", mnt, "one"]);
    shell(&mount.mnt, "rm -r tree");
    let path = root.to_str().unwrap();
    let view = firn_json(&["restore", path, "--json"]);
    assert_eq!((view["directories"].as_u64(), view["hard_links"].as_u64()), (Some(101), Some(2)));
    assert_same(&before, &tree(&root));
    let left = shell(&mount.mnt, "ls -A");
    assert_eq!(left, "tree\n");
    // Nothing is overwritten, and what is replaced is replaced as a whole.
    shell(&root, "rm -r d1; echo new > new; echo changed > d2/f2");
    assert!(complaint(&["restore", path, "--at", "one"]).contains("--force"));
    assert_eq!(firn(&["restore", path, "--at", "one"]).status.code(), Some(4));
    assert!(root.join("new").exists());
    firn_ok(&["restore", path, "--at", "one", "--force"]);
    assert_same(&before, &tree(&root));
    // To another file system, and below another name.
    let elsewhere = tempfile::tempdir().unwrap();
    let there = elsewhere.path().join("copy");
    // The newest state could be one from the time when the tree was gone.
    firn_ok(&["snapshot", mnt, "two"]);
    firn_ok(&["restore", root.join("d3").to_str().unwrap(), "--at", "now", "--to", there.to_str().unwrap()]);
    assert_eq!(fs::read_dir(&there).unwrap().count(), 101);
    firn_ok(&["fsck", &{
        mount.umount();
        mount.image.to_str().unwrap().to_owned()
    }]);
}

pub fn assert_same(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) {
    for (path, text) in before {
        assert_eq!(after.get(path), Some(text), "{}", path.display());
    }
    assert_eq!(before.len(), after.len());
}

#[test]
fn a_directory_that_gives_its_entries_a_group_and_an_acl_does_not_change_what_comes_back() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    shell(&mount.mnt, "mkdir -p d/tree; echo 1 > d/tree/f; echo 2 > d/file; umask 077; echo 3 > d/secret");
    let before = tree(&mount.path("d"));
    firn_ok(&["snapshot", mount.mnt.to_str().unwrap(), "one"]);
    shell(&mount.mnt, "rm -r d/*; chgrp 9 d; chmod 2777 d");
    rustix::fs::setxattr(mount.path("d"), "system.posix_acl_default", &ACL, XattrFlags::empty()).unwrap();
    firn_ok(&["undelete", mount.path("d").to_str().unwrap(), "--all"]);
    let mut after = tree(&mount.path("d"));
    after.insert(PathBuf::new(), before[Path::new("")].clone());
    assert_same(&before, &after);
}

#[test]
fn what_was_deleted_is_listed_and_comes_back_under_any_of_its_names() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    let state = |script: &str, name: &str| mount.state(script, name);
    state(
        "mkdir -p d/sub e; echo 1 > d/a; echo 2 > d/moved; echo 3 > d/kept; echo 4 > d/sub/x; echo 5 > d/b.odt",
        "s1",
    );
    state("mv d/a d/a2; mv d/moved e; echo longer > d/a2", "s2");
    shell(&mount.mnt, "rm -r d/a2 d/sub d/b.odt; ln -s x d/link; rm d/link");
    let d = mount.path("d");
    let d = d.to_str().unwrap();
    let view = firn_json(&["undelete", d, "--json"]);
    let rows = view["deleted_files"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a2", "b.odt", "sub"], "{view:#}");
    assert_eq!((&rows[0]["old_names"][0], &rows[0]["size_bytes"]), (&"a".into(), &7.into()));
    assert_eq!((&rows[2]["kind"], &rows[2]["files"]), (&"directory".into(), &1.into()));
    let text = firn_ok(&["undelete", d]);
    assert!(text.contains("before: a") && text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(complaint(&["undelete", d, "kept"]).contains("was not deleted"));
    assert!(complaint(&["undelete", d, "nothing"]).contains("no state has"));
    firn_ok(&["undelete", d, "a"]);
    assert_eq!(fs::read_to_string(mount.path("d/a")).unwrap(), "longer\n");
    firn_ok(&["restore", mnt, "--deleted", "*.o?t"]);
    assert_eq!(fs::read_to_string(mount.path("d/b.odt")).unwrap(), "5\n");
    firn_ok(&["undelete", d, "--all"]);
    assert_eq!(shell(&mount.path("d"), "cat sub/x a2 kept; ls"), "4\nlonger\n3\na\na2\nb.odt\nkept\nsub\n");
    // Also in a directory that is gone.
    shell(&mount.mnt, "chmod 751 d; rm -r d");
    let view = firn_json(&["undelete", d, "--json"]);
    assert_eq!(view["deleted_files"].as_array().unwrap().len(), 4, "{view:#}");
    firn_ok(&["undelete", mount.path("d/sub").to_str().unwrap(), "x"]);
    assert_eq!(shell(&mount.mnt, "cat d/sub/x; stat -c %a d d/sub"), "4\n755\n755\n");
}

#[test]
fn what_was_deleted_in_a_directory_is_found_after_it_was_renamed_and_moved() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let state = |script: &str, name: &str| mount.state(script, name);
    state("mkdir old other", "s0");
    state("echo 1 > old/one; echo kept > old/kept; mkdir new; echo before > new/before", "s1");
    state("rm old/one; rm -r new; mv old new; echo 2 > new/two", "s2");
    state("rm new/two; mv new other/newest; mkdir old; echo stranger > old/stranger", "s3");
    shell(&mount.mnt, "rm old/stranger");
    let names = |path: &str| -> Vec<String> {
        let view = firn_json(&["undelete", mount.path(path).to_str().unwrap(), "--json"]);
        let rows = view["deleted_files"].as_array().unwrap().iter();
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("other/newest"), ["two", "one"], "by their paths then");
    let newest = mount.path("other/newest");
    let text = firn_ok(&["undelete", newest.to_str().unwrap()]);
    assert!(text.contains("one (then in old)") && text.contains("two (then in new)"), "{text}");
    firn_ok(&["undelete", newest.to_str().unwrap(), "one", "two"]);
    assert_eq!(shell(&newest, "cat one two kept; ls"), "1\n2\nkept\nkept\none\ntwo\n");
    // A path leads to each directory that it led to. What only moved is not deleted.
    assert_eq!(names("old"), ["one", "stranger"]);
    shell(&mount.mnt, "rm -r other/newest");
    assert_eq!(names("old"), ["kept", "one", "stranger"]);
    assert_eq!(names("new"), ["before", "kept", "two", "one"], "a directory that is gone is followed, too");
}

#[test]
fn an_ordinary_user_gets_back_what_he_may_read_where_he_may_write() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(
        &mount.mnt,
        "mkdir mine roots; echo 1 > mine/f; echo 2 > mine/roots; echo 3 > mine/secret; echo 4 > roots/f",
    );
    shell(&mount.mnt, "chown -R 1:1 mine; chown 0:0 mine/roots mine/secret; chmod 600 mine/secret");
    firn_ok(&["snapshot", mnt, "one"]);
    shell(&mount.mnt, "rm mine/* roots/*");
    let as_user = |words: &[&str]| {
        let user = ["--reuid=1", "--regid=1", "--clear-groups", env!("CARGO_BIN_EXE_firn")];
        let output = Command::new("setpriv").args(user).args(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = as_user(&["undelete", mount.path("mine").to_str().unwrap(), "--all"]);
    // Root's files come back as the user's own, and that is told; what he cannot read does not.
    assert!(code == Some(1) && said.contains("owner could not be kept") && said.contains("secret"), "{said}");
    assert_eq!(shell(&mount.mnt, "stat -c '%n %u %a' mine/*"), "mine/f 1 644\nmine/roots 1 644\n");
    let (code, said) = as_user(&["undelete", mount.path("roots").to_str().unwrap(), "--all"]);
    assert!(code == Some(1) && said.contains("Permission denied"), "{said}");
    assert_eq!(shell(&mount.mnt, "ls -A roots"), "");
}

#[test]
fn ctrl_c_leaves_nothing_half() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "512M", &[]);
    for n in 0..3_000 {
        let directory = mount.path(&format!("tree/d{}", n / 100));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{n}")), pattern(n, 20_000)).unwrap();
    }
    firn_ok(&["snapshot", mount.mnt.to_str().unwrap(), "one"]);
    shell(&mount.mnt, "rm -r tree");
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_firn")).arg("restore").arg(mount.path("tree")).spawn().unwrap();
    eventually("it begins", || fs::read_dir(&mount.mnt).unwrap().count() > 0);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let code = child.wait().unwrap().code();
    let left: Vec<_> = fs::read_dir(&mount.mnt).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // It may have been done before the signal.
    match code {
        Some(130) => assert!(left.is_empty(), "{left:?}"),
        _ => {
            assert!(code == Some(0) && left.len() == 1 && left[0].as_bytes() == b"tree", "{code:?} {left:?}")
        }
    }
}

#[test]
fn a_state_of_an_image_is_mounted_beside_others_and_beside_a_writer() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    mount.state("printf one >f", "one");
    mount.state("printf two >f", "two");
    fs::write(mount.path("f"), "three").unwrap();
    let image = mount.image.to_str().unwrap();
    let [first, second] = ["p1", "p2"].map(|name| {
        let path = mount.image.with_file_name(name);
        fs::create_dir(&path).unwrap();
        path
    });
    let at = |state: &str| format!("{image}@{state}");
    let line = complaint(&["mount", &format!("{image}@nothing"), first.to_str().unwrap()]);
    assert!(line.contains("'nothing' is neither a state"), "no place that is not there: {line}");
    assert_mounted_beside(&mount, [&first, &second]);
    mount.umount();
    firn_ok(&["mount", &at("one"), first.to_str().unwrap()]);
    firn_ok(&["mount", &at("now"), second.to_str().unwrap()]);
    let read = |path: &Path| fs::read_to_string(path.join("f")).unwrap();
    // The unmount has made the newest state.
    assert_eq!((read(&first), read(&second)), ("one".to_owned(), "three".to_owned()));
    let refused = fs::write(first.join("f"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    for place in [&first, &second] {
        firn_ok(&["umount", place.to_str().unwrap()]);
    }
    assert!(complaint(&["mount", &at("three"), first.to_str().unwrap()]).contains("neither a state"));
    mount.mount_image(&[]);
    assert_eq!(read(&mount.mnt), "three");
}

/// States of a volume that is in use appear in other places too, read-only; unmounting one of them leaves the volume as it is.
fn assert_mounted_beside(mount: &Mount, places: [&Path; 2]) {
    let (mnt, image) = (mount.mnt.to_str().unwrap(), mount.image.to_str().unwrap());
    let [first, second] = places.map(|place| place.to_str().unwrap());
    firn_ok(&["mount", &format!("{image}@one"), first]);
    firn_ok(&["mount", &format!("{image}@two"), second]);
    let read = |path: &Path| fs::read_to_string(path.join("f")).unwrap();
    assert_eq!(places.map(read), ["one", "two"]);
    let refused = fs::write(places[0].join("f"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    fs::write(mount.path("f"), "three").unwrap();
    // Commands for the volume still find its own mount, and it is one volume.
    assert!(firn_ok(&["stat", mnt]).contains(mnt));
    let all = firn_json(&["df", "--json"])["volumes"].clone();
    let images = all.as_array().unwrap().iter().filter(|volume| volume["image"] == image);
    assert_eq!(images.count(), 1, "{all:#}");
    let line = complaint(&["umount", mnt]);
    assert!(line.contains(first) && line.contains("is also mounted on"), "{line}");
    for place in [first, second] {
        firn_ok(&["umount", place]);
    }
    assert_eq!(read(&mount.mnt), "three");
}

#[test]
fn a_diff_names_what_was_added_removed_changed_and_renamed() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(
        &mount.mnt,
        "mkdir -p a/b gone/x; echo 1 > a/f; echo 2 > a/b/g; echo 3 > gone/x/h; echo 4 > gone/k; echo 5 > m",
    );
    firn_ok(&["snapshot", mnt, "one"]);
    assert_eq!(firn_ok(&["diff", &format!("{mnt}@one")]), "");
    shell(
        &mount.mnt,
        "mv gone/k a/k2; rm -r gone; echo more >> a/f; chmod 600 m; mv a/b a/b2; echo n > a/new",
    );
    firn_ok(&["snapshot", mnt, "two"]);
    let (one, two) = (format!("{mnt}@one"), format!("{mnt}@two"));
    let whole = "R a/b/ -> a/b2/\nM a/f\nR gone/k -> a/k2\n+ a/new\n- gone/\n- gone/x/\n- gone/x/h\na m\n";
    assert_eq!(firn_ok(&["diff", &one]), whole);
    shell(&mount.mnt, "rm -r a");
    assert_eq!(firn_ok(&["diff", &one, &two]), whole);
    let back = firn_ok(&["diff", &two, &one]);
    assert!(back.contains("R a/k2 -> gone/k\n") && back.contains("+ gone/x/h\n"), "{back}");
    let part = firn_ok(&["diff", &format!("{mnt}/a@one"), &format!("{mnt}/a@two"), "--null"]);
    assert_eq!(part, "R\0b\0b2\0M\0f\0+\0k2\0+\0new\0");
    let view = firn_json(&["diff", &one, &two, "--stat", "--json"]);
    assert_eq!(view["differences"].as_array().unwrap().len(), 0);
    let text = firn_ok(&["diff", &one, &two, "--stat"]);
    assert!(text.lines().count() == 6 && text.lines().all(|line| line.len() <= 80), "{text}");
}

/// The daemon names what leads to a change; nothing else is listed.
#[test]
fn a_diff_finds_changes_far_below_directories_that_did_not_change() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(
        &mount.mnt,
        "for d in 1 2 3; do mkdir -p a/b$d/c/d e/b$d; for f in $(seq 300); do echo 1 > a/b$d/c/d/f$f; done; done
         echo 1 > \"$(printf 'a/b2/c/\\377')\"; ln a/b1/c/d/f1 e/link; mkdir -p moved/inner; echo 1 > moved/inner/f",
    );
    firn_ok(&["snapshot", mnt, "one"]);
    shell(
        &mount.mnt,
        "echo 2 >> a/b2/c/d/f7; chmod 600 a/b3/c/d/f9; echo 2 >> \"$(printf 'a/b2/c/\\377')\"; echo 2 >> e/link; chmod 700 a/b1/c
         mv moved e/moved; echo 2 >> e/moved/inner/f; echo 1 > a/b3/c/new",
    );
    let whole = "a a/b1/c/\nM a/b1/c/d/f1\nM a/b2/c/d/f7\nM $'a/b2/c/\\377'\na a/b3/c/d/f9\n+ a/b3/c/new\nM e/link\n\
                 R moved/ -> e/moved/\nM moved/inner/f -> e/moved/inner/f\n";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let one = format!("{mnt}@one");
    assert_eq!(sorted(&firn_ok(&["diff", &one])), sorted(whole), "with the present");
    firn_ok(&["snapshot", mnt, "two"]);
    assert_eq!(sorted(&firn_ok(&["diff", &one, &format!("{mnt}@two")])), sorted(whole));
    let below = firn_ok(&["diff", &format!("{mnt}/a/b3@one"), &format!("{mnt}/a/b3@two")]);
    assert_eq!(below, "a c/d/f9\n+ c/new\n");
    let moved = firn_ok(&["diff", &format!("{mnt}/a/b1@one"), &format!("{mnt}/a/b2@two")]);
    assert!(moved.contains("M c/d/f7\n"), "two directories: {moved}");
    // Directories that do not lead to a change are not listed.
    let listings = || {
        let view = firn_json(&["stat", mnt, "--requests", "--json"]);
        let rows = view["by_request"].as_array().unwrap().clone();
        let is_listing = |row: &&serde_json::Value| row["request"].as_str().unwrap().starts_with("readdir");
        rows.iter().filter(is_listing).map(|row| row["requests"].as_u64().unwrap()).sum::<u64>()
    };
    shell(&mount.mnt, "echo 3 >> a/b2/c/d/f8");
    firn_ok(&["snapshot", mnt, "three"]);
    let before = listings();
    let last = firn_ok(&["diff", &format!("{mnt}@two"), &format!("{mnt}@three")]);
    assert_eq!((last.as_str(), listings() - before), ("M a/b2/c/d/f8\n", 0));
}

#[test]
fn files_that_come_back_together_share_a_sync() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(&mount.mnt, "mkdir -p a b; for f in $(seq 100); do echo $f > a/f$f; echo $f > b/f$f; done");
    let before = tree(&mount.mnt);
    firn_ok(&["snapshot", mnt, "one"]);
    shell(&mount.mnt, "rm a/* b/*; touch -r . a b");
    firn_ok(&["restore", mnt, "--deleted", "f*"]);
    let view = firn_json(&["stat", mnt, "--requests", "--json"]);
    let syncs = view["by_request"].as_array().unwrap().iter().find(|row| row["request"] == "fsyncdir");
    assert_eq!(syncs.map_or(0, |row| row["requests"].as_u64().unwrap()), 2, "one for each directory");
    let content = |tree: BTreeMap<PathBuf, String>| -> Vec<(PathBuf, String)> {
        tree.into_iter().filter(|(path, _)| path.parent() != Some(Path::new(""))).collect()
    };
    assert_eq!(content(tree(&mount.mnt)), content(before));
}

/// More directories than are kept open for one sync, all of them gone, too.
#[test]
fn what_came_back_is_there_after_the_daemon_was_killed() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "256M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(
        &mount.mnt,
        "for d in $(seq 300); do mkdir -p t/d$d; echo $d > t/d$d/f; echo x$d > t/d$d/g; done; touch -d 2001-01-01 t/d*",
    );
    let before = tree(&mount.path("t"));
    firn_ok(&["snapshot", mnt, "one"]);
    shell(&mount.mnt, "rm -r t");
    mount.sync();
    firn_ok(&["restore", mnt, "--deleted", "?"]);
    rustix::process::kill_process(mount.daemon_pid(), rustix::process::Signal::KILL).unwrap();
    mount.mount_image(&[]);
    assert_same(&before, &tree(&mount.path("t")));
}

#[test]
fn a_rollback_makes_the_volume_as_it_was_and_another_one_undoes_it() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "256M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(
        &mount.mnt,
        "mkdir -p a/b/c swap1 swap2 gone/deep; echo 1 > a/f; echo 2 > a/b/g; echo 3 > a/b/c/h; echo 4 > swap1/x; echo 5 > swap2/y
         echo 6 > gone/deep/i; ln gone/deep/i a/link; echo 7 > hard; ln hard hard2; echo same > same; ln -s a l; mkfifo fifo
         echo 8 > changed; ln changed changed2; chown 5:6 a/b; chmod 750 a/b/c; touch -d 2001-01-01 a gone/deep
         echo 9 > was-file; mkdir was-dir; echo 10 > attributes; echo same > same2; mkdir shut",
    );
    let set = |value: &[u8]| {
        rustix::fs::setxattr(mount.path("attributes"), "user.note", value, XattrFlags::empty()).unwrap();
    };
    set(b"old");
    let before = tree(&mount.mnt);
    let same = fs::metadata(mount.path("same")).unwrap().ctime_nsec();
    firn_ok(&["snapshot", mnt, "one"]);
    shell(
        &mount.mnt,
        "mv a/b/c moved-up; mv a/b renamed; mv swap1 t; mv swap2 swap1; mv t swap2; rm -r gone; rm hard2; echo more >> changed
         rm l; ln -s elsewhere l; rm fifo; mkdir new new/er; echo n > new/er/f; echo n > a/new; rm was-file; mkdir was-file
         echo f > was-file/f; rmdir was-dir; echo f > was-dir; chown 1 a/f; mv a/f moved-up/f; chmod 600 same2; chmod 700 shut; mkdir a/b; echo x > a/b/g",
    );
    set(b"new");
    rustix::fs::setxattr(mount.path("attributes"), "user.other", b"1", XattrFlags::empty()).unwrap();
    let after = tree(&mount.mnt);
    let said = firn_ok(&["rollback", mnt, "one"]);
    assert!(said.contains("as in one again") && said.contains("undoes it"), "{said}");
    assert_same(&before, &tree(&mount.mnt));
    assert_eq!(fs::metadata(mount.path("same")).unwrap().ctime_nsec(), same, "untouched");
    let undo = said.split('\'').nth(1).unwrap().split(' ').next_back().unwrap();
    let view = firn_json(&["rollback", mnt, undo, "--json"]);
    assert_eq!(view["to_state"], undo);
    assert_same(&after, &tree(&mount.mnt));
    mount.umount();
    firn_ok(&["fsck", mount.image.to_str().unwrap()]);
}
