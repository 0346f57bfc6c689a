//! The past of a volume on real mounts: snapshots, what everybody may read of them, versions of files, and getting files back.

use crate::common::{
    Kind, Mount, can_mount, complaint, eventually, firn, firn_json, firn_ok, is_root, shell,
};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `firn` as an ordinary user.
fn firn_as_user(words: &[&str]) -> Output {
    let user = ["--reuid=1", "--regid=1", "--clear-groups", env!("CARGO_BIN_EXE_firn")];
    Command::new("setpriv").args(user).args(words).output().unwrap()
}

fn names(view: &serde_json::Value) -> Vec<&str> {
    view["states"].as_array().unwrap().iter().map(|state| state["name"].as_str().unwrap()).collect()
}

/// A salvage gives back the newest files, and says which states of the past are left in the damaged image, and how to get them.
#[test]
fn a_salvage_names_the_states_that_the_damaged_image_still_has() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    mount.state("printf one >f", "one");
    fs::write(mount.path("f"), "two").unwrap();
    mount.umount();
    let image = mount.image.to_str().unwrap();
    let salvaged = |name: &str| {
        let out = mount.image.with_file_name(name);
        let output = firn(&["fsck", image, "--salvage", out.to_str().unwrap(), "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    let states = salvaged("whole.img")["past"]["states"].clone();
    let states: Vec<&str> = states.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(states.contains(&"one"), "{states:?}");
    let told = firn(&["fsck", image, "--salvage", mount.image.with_file_name("told.img").to_str().unwrap()]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("of the past:") && told.contains("one"), "{told}");
    assert!(told.contains("firn send"), "{told}");
    // Without superblocks nothing tells of states.
    let mut bytes = fs::read(&mount.image).unwrap();
    bytes[..2 << 20].fill(0);
    let end = bytes.len();
    bytes[end - 4096..].fill(0);
    fs::write(&mount.image, &bytes).unwrap();
    assert!(salvaged("blind.img")["past"].is_null());
}

#[test]
fn a_snapshot_reads_as_the_volume_was_also_after_the_daemon_was_killed() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(&mount.mnt, "mkdir d; echo old > d/f; ln -s f d/l; echo gone > d/gone");
    firn_ok(&["snapshot", mnt, "one"]);
    shell(&mount.mnt, "echo newer > d/f; rm d/gone; echo new > d/new");
    firn_ok(&["snapshot", mnt, "two"]);
    shell(&mount.mnt, "rm -r d");
    let as_it_was = |mount: &Mount| {
        let past = mount.path(".firn/history");
        let said = shell(&past, "cat one/d/f one/d/l one/d/gone two/d/f two/d/new; ls -A one/d two/d one");
        assert_eq!(said, "old\nold\ngone\nnewer\nnew\none:\nd\n\none/d:\nf\ngone\nl\n\ntwo/d:\nf\nl\nnew\n");
        assert!(
            fs::write(past.join("one/d/f"), "x").is_err() && fs::remove_file(past.join("one/d/f")).is_err()
        );
        assert!(!shell(&mount.mnt, "ls -A").contains(".firn"));
    };
    as_it_was(&mount);
    rustix::process::kill_process(mount.daemon_pid(), rustix::process::Signal::KILL).unwrap();
    mount.mount_image(&[]);
    as_it_was(&mount);
    assert_eq!(names(&firn_json(&["log", mnt, "--json"])), ["two", "one"]);
    mount.remount_image();
    as_it_was(&mount);
    firn_ok(&["snapshot", mnt, "--delete", "one"]);
    assert!(!mount.path(".firn/history/one").exists());
    rustix::process::kill_process(mount.daemon_pid(), rustix::process::Signal::KILL).unwrap();
    mount.mount_image(&[]);
    assert_eq!(names(&firn_json(&["log", mnt, "--json"])), ["two"], "a deletion is durable");
    assert_eq!(fs::read_to_string(mount.path(".firn/history/two/d/f")).unwrap(), "newer\n");
    mount.umount();
    let image = mount.image.to_str().unwrap();
    firn_ok(&["snapshot", image, "offline"]);
    assert_eq!(names(&firn_json(&["snapshot", image, "--list", "--json"])), ["offline", "two"]);
    firn_ok(&["fsck", image]);
}

#[test]
fn a_name_that_is_taken_or_cannot_be_is_refused_with_its_exit_code() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    firn_ok(&["snapshot", mnt, "one"]);
    for (words, code, said) in [
        (&["snapshot", mnt, "one"][..], 4, "there is a snapshot one already"),
        (&["snapshot", mnt, "two words"], 2, "one word"),
        (&["snapshot", mnt, "yesterday"], 2, "time"),
        (&["snapshot", mnt, "--delete", "two"], 2, "firn log"),
        (&["snapshot", mnt, "--hold", "one", "two"], 4, "one is a snapshot"),
        (&["log", mnt, "--all"], 2, "for files"),
    ] {
        assert!(complaint(words).contains(said), "{words:?}: {}", complaint(words));
        assert_eq!(firn(words).status.code(), Some(code), "{words:?}");
    }
    for kind in [Kind::Memory, Kind::Fast] {
        let other = Mount::with(kind, "64M", &[]);
        let line = complaint(&["snapshot", other.mnt.to_str().unwrap(), "one"]);
        assert!(line.contains("keeps no history"), "{line}");
    }
}

#[test]
fn an_ordinary_user_reads_what_permissions_of_then_and_of_now_allow() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(
        &mount.mnt,
        "mkdir open shut; echo a > open/f; echo b > shut/f; echo c > open/secret; chmod 600 open/secret",
    );
    firn_ok(&["snapshot", mnt, "one"]);
    shell(&mount.mnt, "chmod 700 shut; chmod 644 open/secret; rm open/f");
    let read = |path: &str| {
        let user = ["--reuid=1", "--regid=1", "--clear-groups", "cat"];
        let path = mount.path(".firn/history/one").join(path);
        Command::new("setpriv").args(user).arg(path).output().unwrap().status.success()
    };
    assert!(read("open/f"));
    assert!(!read("shut/f"), "chmod 700 now hides the past");
    assert!(!read("open/secret"), "it was secret then");
    let said = firn_as_user(&["log", mount.path("open/f").to_str().unwrap(), "--json"]);
    let view = crate::schema::parse(&String::from_utf8(said.stdout).unwrap());
    assert_eq!(view["versions"][0]["last_state"], "one");
    let said = firn_as_user(&["log", mount.path("shut/f").to_str().unwrap()]);
    let line = String::from_utf8(said.stderr).unwrap();
    assert!(!said.status.success() && line.contains("not open to you"), "{line}");
    let states =
        crate::schema::parse(&String::from_utf8(firn_as_user(&["log", mnt, "--json"]).stdout).unwrap());
    assert_eq!(names(&states), ["one"]);
    assert!(!firn_as_user(&["snapshot", mnt, "mine"]).status.success());
}

#[test]
fn the_versions_of_a_file_are_found_under_all_its_names() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let state = |script: &str, name: &str| mount.state(script, name);
    state("mkdir -p far/away; echo 1 > f", "s1");
    state("true", "s2");
    state("echo 22 > f", "s3");
    state("mv f far/away/g", "s4");
    state("echo 333 > far/away/g; echo other > f", "s5");
    shell(&mount.mnt, "rm far/away/g");
    let spans = |words: &[&str]| -> Vec<(String, String, u64)> {
        let view = firn_json(&[&["log"], words, &["--json"]].concat());
        let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
        let rows = view["versions"].as_array().unwrap().iter();
        rows.map(|row| {
            let span = format!("{}..{}", text(row, "first_state"), text(row, "last_state"));
            (text(row, "name"), span, row["size_bytes"].as_u64().unwrap())
        })
        .collect()
    };
    let version = |name: &str, span: &str, size| (name.to_owned(), span.to_owned(), size);
    let (f, g) = (mount.path("f"), mount.path("far/away/g"));
    let (f, g) = (f.to_str().unwrap(), g.to_str().unwrap());
    let old = [version("f", "s3..s3", 3), version("f", "s1..s2", 2)];
    assert_eq!(spans(&[f]), [&[version("f", "s5..now", 6)], &old[..]].concat());
    let moved = [version("far/away/g", "s5..s5", 4), version("far/away/g", "s4..s4", 3)];
    assert_eq!(spans(&[g]), moved);
    assert_eq!(spans(&[g, "--all"]), [&moved[..1], &moved[1..], &old].concat());
    let paths = firn_ok(&["log", g, "--all", "--null"]);
    let contents: Vec<String> =
        paths.split_terminator('\0').map(|path| fs::read_to_string(Path::new(path)).unwrap()).collect();
    assert_eq!(contents, ["333\n", "22\n", "22\n", "1\n"]);
    let text = firn_ok(&["log", f]);
    assert!(text.contains("another file") && text.lines().all(|line| line.len() <= 80), "{text}");
}

/// A state is made by itself, is where people look for it, stays once it has a name, and `diff` of it costs no look at what is the same.
#[test]
fn a_volume_keeps_its_past_by_itself() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["-o", "checkpoint=1"]);
    let mnt = mount.mnt.to_str().unwrap();
    let kept = firn_json(&["retain", mnt, "--json"]);
    assert_eq!(
        (&kept["keep"], &kept["at_most_percent"]),
        (&"all:1h hourly:2d daily:30d weekly:1y".into(), &30.into())
    );
    shell(&mount.mnt, "mkdir d; echo old > d/f; echo same > d/same; echo gone > d/gone");
    mount.sync();
    let has = |mount: &Mount, path: &str| {
        let states = fs::read_dir(mount.path(".firn/history")).unwrap();
        states.map(|state| state.unwrap().path()).find(|state| state.join(path).exists())
    };
    eventually("a state has the file", || has(&mount, "d/gone").is_some());
    let state = has(&mount, "d/gone").unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    shell(&mount.mnt, "rm d/gone; echo newer > d/f; echo new > d/new");
    assert_eq!(firn_ok(&["diff", &format!("{mnt}@{state}")]), "M d/f\n- d/gone\n+ d/new\n");
    firn_ok(&["snapshot", mnt, "--hold", &state, "kept"]);
    firn_ok(&["retain", mnt, "--off"]);
    eventually("only the named state is left", || {
        let said = firn_json(&["log", mnt, "--json"]);
        names(&said) == ["kept"] && said["states"][0]["frees_bytes"].as_u64() == said["past_bytes"].as_u64()
    });
    mount.remount_image();
    assert_eq!(fs::read_to_string(mount.path(".firn/history/kept/d/gone")).unwrap(), "gone\n");
    assert!(firn_ok(&["df", "-v", mnt]).contains("kept until they are deleted"));
    firn_ok(&["snapshot", mnt, "--delete", "kept"]);
    let held = || firn_json(&["retain", mnt, "--json"])["held_bytes"].as_u64();
    eventually("what it held is free", || held() == Some(0));
}

#[test]
fn a_user_who_is_not_told_which_states_are_snapshots_sees_no_star_and_no_automatic_state_in_their_list() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["-o", "checkpoint=1"]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(&mount.mnt, "echo a > f");
    mount.sync();
    let kept_as = || firn_json(&["log", mnt, "--json"])["states"][0]["kept_as"].clone();
    eventually("a state is kept", || kept_as() == "automatic");
    firn_ok(&["snapshot", mnt, "one"]);
    assert!(firn_ok(&["log", mnt]).contains(" *one\n"), "root is told");
    let said = |words: &[&str]| {
        let output = firn_as_user(words);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let untold = "only the owner of the mount and root are told which states are snapshots";
    let log = said(&["log", mnt]);
    assert!(!log.contains('*') && log.contains(" one\n") && log.contains(untold), "{log}");
    let list = said(&["snapshot", mnt, "--list"]);
    assert!(list.contains(" one\n") && list.lines().count() == 3 && list.contains(untold), "{list}");
    assert_eq!(names(&crate::schema::parse(&said(&["snapshot", mnt, "--list", "--json"]))), ["one"]);
    assert_eq!(said(&["snapshot", mnt, "--list", "--null"]), "one\0");
}

#[test]
fn a_volume_that_keeps_no_states_says_so_and_how_they_come_to_be() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    let line = complaint(&["log", mount.path("gone").to_str().unwrap()]);
    assert!(line.contains(&format!("gone is not there now, and {mnt} keeps no states; ")), "{line}");
    assert!(line.contains("'firn retain"), "{line}");
    let told = firn_ok(&["undelete", mnt]);
    assert_eq!(told, "the volume keeps no states, so it knows of nothing that was deleted\n");
}
