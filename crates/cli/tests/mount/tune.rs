//! `firn tune` and `firn mount -o remount`: settings of a mount that is being served.

use crate::common::{
    Kind, Mount, can_mount, complaint, eventually, firn, firn_json, firn_ok, is_root, pattern,
};
use std::fs;

fn setting(mount: &Mount, name: &str) -> String {
    let view = firn_json(&["tune", mount.mnt.to_str().unwrap(), "--json"]);
    let found = view["settings"].as_array().unwrap().iter().find(|s| s["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {view}"))["value"].as_str().unwrap().to_owned()
}

/// The exit code and the line on standard error.
fn refused(words: &[&str]) -> (i32, String) {
    let output = firn(words);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn remount(mount: &Mount, options: &str) -> (i32, String) {
    let (image, mnt) = (mount.image.to_str().unwrap(), mount.mnt.to_str().unwrap());
    refused(&["mount", image, mnt, "-o", &format!("remount,{options}")])
}

#[test]
fn a_setting_changes_while_the_volume_is_mounted_and_takes_effect() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["--commit-interval", "3600"]);
    let mnt = mount.mnt.to_str().unwrap();
    let log_bytes = || mount.control(r#"{"op":"segwait","timeout_ms":0}"#)["log_bytes"].as_u64().unwrap();
    mount.sync();
    fs::write(mount.path("file"), pattern(1, 100_000)).unwrap();
    let before = log_bytes();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(log_bytes(), before, "nothing is due for an hour");
    let told = firn_ok(&[
        "tune",
        mnt,
        "commit=0.1",
        "cache=64M",
        "coalesce=off",
        "idle_after=0.5",
        "cleaning_policy=greedy",
    ]);
    assert!(told.contains("commit: 3600 -> 0.1") && told.contains("cache: 256M -> 64M"), "{told}");
    eventually("the change is committed", || log_bytes() >= before + 100_000);
    for (name, value) in [
        ("commit", "0.1"),
        ("cache", "64M"),
        ("coalesce", "off"),
        ("idle_after", "0.5"),
        ("cleaning_policy", "greedy"),
    ] {
        assert_eq!(setting(&mount, name), value, "{name}");
    }
    let told = firn_ok(&["tune", mnt, "placement=one", "discard=yes"]);
    assert!(told.contains("placement: default -> one") && told.contains("discard: no -> yes"), "{told}");
    firn_ok(&["tune", mnt, "nodiscard", "placement=default"]);
    assert_eq!((setting(&mount, "placement"), setting(&mount, "discard")), ("default".into(), "no".into()));
    let list = firn_ok(&["tune", mnt, "--list"]);
    assert!(list.lines().all(|line| line.len() <= 80), "{list}");
    assert!(list.contains("label") && list.contains("in the volume"), "{list}");
    let told = firn_ok(&["tune", mnt, "label=a new one", "idle_rate=20M"]);
    assert!(told.contains("-> a new one, stored in the volume"), "{told}");
    assert!(told.contains("idle_rate: off -> 20M, until the unmount"), "{told}");
    assert_eq!(setting(&mount, "label"), "a new one");
    // Until the unmount, and no longer: only the label is in the volume.
    mount.remount_image();
    assert_eq!((setting(&mount, "label"), setting(&mount, "idle_rate")), ("a new one".into(), "off".into()));
    assert_eq!((setting(&mount, "commit"), setting(&mount, "coalesce")), ("5".to_owned(), "60".to_owned()));
}

#[test]
fn what_cannot_change_is_refused_by_name_and_changes_nothing() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["--threads", "3", "--transport", "auto"]);
    let mnt = mount.mnt.to_str().unwrap();
    for (word, named) in [
        ("threads=7", "threads cannot change from 3 to 7"),
        ("writeback", "writeback"),
        ("rotational=no", "rotational cannot change from auto to no"),
        ("transport=dev", "transport cannot change from auto to dev"),
        ("metrics=9999", "metrics cannot change from off to 127.0.0.1:9999"),
        ("rate=20M", "firn scrub --rate"),
        ("label=0123456789012345678901234567890123456789012345678901234567890123456789", "label"),
        ("cache=1k", "cache: 1K is not between 4M and 1P"),
        ("checkpoint_bytes=1", "checkpoint_bytes: 1 is not between 1M and 1T"),
        ("idle_rate=1K", "idle_rate: 1K is not between 64K and 1T"),
        ("idle_after=0", "idle_after: 0 s is not between 0.1 and 3600"),
        ("checkpoint=0", "checkpoint: 0 s is not between 1 and 86400"),
        ("coalesce=-1", "coalesce: -1 s is not between 0 and 31536000"),
        ("clean_low=5", "clean_low=5: checkpoints and the cleaner of this volume need"),
        ("clean_idle=120", "clean_idle=120: as full as this volume is,"),
        ("clean_high=1", "clean_high=1"),
        ("clean_low=many", "clean_low=many: not a number of clean segments, nor auto"),
        ("nosuch=1", "nosuch=1"),
        ("ro", "ro"),
        ("commit=soon", "commit=soon"),
    ] {
        let (code, line) = refused(&["tune", mnt, "cache=32M", word]);
        assert!(code == 2 && line.contains(named) && line.lines().count() == 1, "{word}: {code} {line}");
        assert_eq!(setting(&mount, "cache"), "256M", "{word}");
    }
    // The present value is no change: mount(8) repeats the options of fstab.
    firn_ok(&["tune", mnt, "cache=32M", "threads=3"]);
    assert_eq!(setting(&mount, "cache"), "32M");
    let memory = Mount::with(Kind::Memory, "32M", &[]);
    let (code, line) = refused(&["tune", memory.mnt.to_str().unwrap(), "cache=1G"]);
    assert!(code == 4 && line.contains("no settings that can change"), "{code} {line}");
}

/// A script that keeps what the list says can set it again, on this mount and on another one.
#[test]
fn each_setting_is_taken_back_as_the_list_has_it() {
    if !can_mount() {
        return;
    }
    let unusual = "cache=70000001,commit=0.125,clean_low=30,placement=one,coalesce=off,discard,idle_rate=1000001,metrics=0";
    for options in ["", unusual] {
        let mount = Mount::with(Kind::Image, "128M", &["-o", options]);
        let mnt = mount.mnt.to_str().unwrap();
        let listed = firn_json(&["tune", mnt, "--json"])["settings"].clone();
        let words: Vec<String> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|s| format!("{}={}", s["name"].as_str().unwrap(), s["value"].as_str().unwrap()))
            .collect();
        for word in &words {
            let told = firn_ok(&["tune", mnt, word]);
            assert!(told.contains("it is so already"), "{word}: {told}");
        }
        // All at once, in a remount: none is unknown to it.
        firn_ok(&["mount", "-o", &format!("remount,{}", words.join(",")), mnt]);
        let named: Vec<&str> = words.iter().map(|word| word.split_once('=').unwrap().0).collect();
        let list = firn_ok(&["tune", mnt, "--list"]);
        let lines = list.lines().skip(1).map(|line| line.split(' ').next().unwrap());
        assert!(lines.eq(named), "{list}");
    }
}

/// How many clean segments a mark of the cleaner stands for.
fn mark(mount: &Mount, name: &str) -> u64 {
    let view = firn_json(&["tune", mount.mnt.to_str().unwrap(), "--json"]);
    let found = view["settings"].as_array().unwrap().iter().find(|s| s["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {view}"))["segments"].as_u64().unwrap()
}

fn clean_segments(mount: &Mount) -> u64 {
    mount.control(r#"{"op":"segwait","timeout_ms":0}"#)["ready"].as_u64().unwrap()
}

#[test]
fn the_cleaner_starts_and_stops_where_it_is_told_to() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "160M", &["-o", "commit=1,idle_after=0.5,nocoalesce"]);
    let mnt = mount.mnt.to_str().unwrap();
    // Half of each segment dies: no clean segments, and much to gain.
    for n in 0..240 {
        fs::write(mount.path(&format!("file{n}")), pattern(n, 500_000)).unwrap();
    }
    mount.sync();
    for n in (0..240).step_by(2) {
        fs::remove_file(mount.path(&format!("file{n}"))).unwrap();
    }
    mount.sync();
    let usual = ["clean_low", "clean_high", "clean_idle"].map(|name| mark(&mount, name));
    eventually("cleaning ends at the usual mark", || clean_segments(&mount) >= usual[2]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let before = clean_segments(&mount);
    let more = before + 10;
    let told = firn_ok(&["tune", mnt, &format!("clean_idle={more}")]);
    assert!(told.contains(&format!("clean_idle: auto -> {more}, until the unmount")), "{told}");
    eventually("idle time makes more segments clean", || clean_segments(&mount) >= more);
    let more = more + 4;
    firn_ok(&[
        "tune",
        mnt,
        &format!("clean_low={}", more - 1),
        &format!("clean_high={more}"),
        "clean_idle=auto",
    ]);
    assert_eq!([mark(&mount, "clean_low"), mark(&mount, "clean_high")], [more - 1, more]);
    eventually("so does cleaning on demand", || clean_segments(&mount) >= more);
    // They contradict each other, or the mark below that holds now.
    let (code, line) = refused(&["tune", mnt, &format!("clean_high={}", more - 2)]);
    assert!(code == 2 && line.contains("is less than clean_low, which is"), "{code} {line}");
    let list = firn_ok(&["tune", mnt, "--list"]);
    assert!(list.contains("clean_idle       auto (") && list.contains(" now)"), "{list}");
    firn_ok(&["tune", mnt, "clean_low=auto", "clean_high=auto"]);
    assert_eq!([mark(&mount, "clean_low"), mark(&mount, "clean_high")], [usual[0], usual[1]]);
    mount.umount();
}

#[test]
fn a_mount_sets_marks_and_takes_what_the_volume_allows() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["-o", "clean_low=40,clean_high=50"]);
    assert_eq!([mark(&mount, "clean_low"), mark(&mount, "clean_high")], [40, 50]);
    mount.remount_image();
    assert_eq!(setting(&mount, "clean_low"), "auto", "marks last until the unmount");
    mount.umount();
    let (image, mnt) = (mount.image.to_str().unwrap(), mount.mnt.to_str().unwrap());
    let (code, line) = refused(&["mount", image, mnt, "-o", "clean_low=50,clean_high=40"]);
    assert!(code == 2 && line.contains("clean_high=40 is less than clean_low, which is 50"), "{code} {line}");
    // Files may have been added since fstab(5) was written: that is told, and refuses no mount.
    mount.mount_image(&["-o", "clean_idle=100000"]);
    assert!(mark(&mount, "clean_idle") < 128);
}

#[test]
fn a_remount_changes_what_it_names_and_nothing_else() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["--transport", "auto"]);
    fs::write(mount.path("file"), b"1").unwrap();
    assert_eq!(remount(&mount, "ro"), (0, String::new()));
    let why = fs::write(mount.path("file"), b"2").unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(remount(&mount, "cache=64M,commit=1"), (0, String::new()));
    assert_eq!((setting(&mount, "cache"), setting(&mount, "commit")), ("64M".to_owned(), "1".to_owned()));
    assert!(
        fs::write(mount.path("file"), b"2").is_err(),
        "a remount that does not say rw leaves it read-only"
    );
    assert_eq!(remount(&mount, "rw"), (0, String::new()));
    fs::write(mount.path("file"), b"2").unwrap();
    for (options, named) in [
        ("threads=99", "threads"),
        ("noatime", "access times"),
        ("ro,rotational=no", "rotational"),
        ("transport=uring", "transport cannot change from auto to uring"),
    ] {
        let (code, line) = remount(&mount, options);
        assert!(code != 0 && line.contains(named), "{options}: {code} {line}");
    }
    fs::write(mount.path("file"), b"3").unwrap();
    // A volume that was mounted read-only is open for reading only.
    mount.umount();
    mount.mount_image(&["-o", "ro"]);
    let (code, line) = remount(&mount, "rw");
    assert!(code == 4 && line.contains("mounted read-only") && line.contains("firn umount"), "{code} {line}");
    assert!(fs::write(mount.path("file"), b"4").is_err());
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"3");
}

#[test]
fn refusals_name_the_setting_as_it_was_given_and_a_remount_changes_the_label_too() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    let line = complaint(&["tune", mnt, "writeback=yes"]);
    assert!(line.contains("writeback cannot change from no to yes while the volume is mounted"), "{line}");
    for (word, wrong) in [("placement", "placement: the value is missing"), ("cache=1", "cache: ")] {
        let line = complaint(&["tune", mnt, word]);
        assert!(line.contains(wrong) && !line.contains("-o "), "{line}");
    }
    assert!(complaint(&["mount", "-o", "remount,cache", mnt]).contains("-o cache: the value is missing"));
    firn_ok(&["mount", "-o", "remount,label=backup", mnt]);
    let label = firn_json(&["stat", mnt, "--json"])["log"]["label"].clone();
    assert_eq!(label, "backup");
    let file = fs::File::create(mount.path("f")).unwrap();
    let line = complaint(&["mount", "-o", "remount,ro", mnt]);
    assert!(line.contains("has files open for writing") && !line.contains("--lazy"), "{line}");
    drop(file);
}
