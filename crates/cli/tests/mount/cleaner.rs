//! Cleaners outside the daemon: `firn clean`, the example, and the port as any program can use it.

use crate::common::{Kind, Mount, can_mount, eventually, firn, firn_json, firn_ok, pattern};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FILES: u64 = 600;
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cleaner.py");

fn content(n: u64) -> Vec<u8> {
    pattern(n, 60_000 + n as usize)
}

/// A volume with half-dead segments: every second of the files, written one after the other, is deleted.
fn half_dead() -> Mount {
    let mount = Mount::with(Kind::Image, "128M", &[]);
    mount.keep_no_history();
    (0..FILES).for_each(|n| fs::write(mount.path(&format!("f{n}")), content(n)).unwrap());
    mount.sync();
    (1..FILES).step_by(2).for_each(|n| fs::remove_file(mount.path(&format!("f{n}"))).unwrap());
    mount.sync();
    // Deleted files are freed in the background.
    eventually("the blocks of deleted files are dead", || {
        let live_bytes = segments(&mount).iter().map(|s| s["live_bytes"].as_u64().unwrap()).sum::<u64>();
        live_bytes < FILES / 2 * 70_000
    });
    mount
}

fn segments(mount: &Mount) -> Vec<Value> {
    mount.control(r#"{"op":"segments"}"#)["list"].as_array().unwrap().clone()
}

fn clean_segments(mount: &Mount) -> u64 {
    segments(mount).iter().filter(|s| s["in_use"] == false).count() as u64
}

fn assert_intact(mount: &Mount) {
    for n in (0..FILES).step_by(2) {
        assert!(fs::read(mount.path(&format!("f{n}"))).unwrap() == content(n), "f{n}");
    }
}

/// The content as a new mount finds it is right, and the check finds no damage.
fn assert_sound(mount: &Mount) {
    assert_intact(mount);
    mount.remount_image();
    assert_intact(mount);
    mount.umount();
    firn_ok(&["fsck", mount.image.to_str().unwrap()]);
}

fn start(mount: &Mount, words: &[&str]) -> std::process::Child {
    let command = ["clean", mount.mnt.to_str().unwrap()];
    Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(command)
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn firn_clean_reaches_its_goals_or_says_that_it_cannot() {
    if !can_mount() {
        return;
    }
    let mount = half_dead();
    let mnt = mount.mnt.to_str().unwrap();
    let before = clean_segments(&mount);
    let told: Value = firn_json(&["clean", mnt, "--segments", "6", "--policy", "fifo", "--json"]);
    assert_eq!((&told["segments_cleaned"], &told["policy"]), (&json!(6), &json!("fifo")), "{told}");
    assert!(told["moved_bytes"].as_u64().unwrap() > 1 << 20, "{told}");
    assert!(clean_segments(&mount) > before, "{told}");
    let goal = clean_segments(&mount) + 8;
    firn_ok(&["clean", mnt, "--until", &goal.to_string(), "--policy", "greedy"]);
    assert!(clean_segments(&mount) >= goal);
    firn_ok(&["clean", mnt, "--once"]);
    let beyond = firn(&["clean", mnt, "--until", "1000000"]);
    assert_eq!(beyond.status.code(), Some(1));
    let line = String::from_utf8(beyond.stderr).unwrap();
    assert!(
        line.contains("segments can be clean, but not that many") && line.contains("ask for fewer"),
        "{line}"
    );
    firn_ok(&["clean", mnt, "--once", "--policy", "age-threshold:1"]);
    assert_eq!(firn(&["clean", mnt, "--policy", "age-threshold:soon"]).status.code(), Some(2));
    assert_sound(&mount);
}

#[test]
fn a_cleaner_that_ctrl_c_ends_says_what_it_did() {
    if !can_mount() {
        return;
    }
    let mount = half_dead();
    let stopped = |cleaner: std::process::Child| {
        let pid = rustix::process::Pid::from_child(&cleaner);
        let status = format!("/proc/{}/status", pid.as_raw_pid());
        eventually("it watches for Ctrl-C", || {
            let status = fs::read_to_string(&status).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::INT.as_raw() - 1) != 0
        });
        // Waiting for the daemon, most likely.
        std::thread::sleep(Duration::from_millis(300));
        kill_process(pid, Signal::INT).unwrap();
        let began = Instant::now();
        let output = cleaner.wait_with_output().unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        (output.status.code(), crate::schema::parse(std::str::from_utf8(&output.stdout).unwrap()))
    };
    // It waits for writes, for which it would wait as long as nobody writes.
    let (code, told) = stopped(start(&mount, &["--stay", "--json"]));
    assert_eq!((code, &told["stopped"]), (Some(130), &json!(true)), "{told}");
    assert!(told["passes"].is_u64() && told["room"]["segments_clean"].as_u64().unwrap() > 0, "{told}");
    // So does one that puts files in order.
    for n in 0..2000 {
        fs::write(mount.path(&format!("small{n}")), pattern(n, 3000)).unwrap();
    }
    mount.sync();
    let (code, told) = stopped(start(&mount, &["--coalesce", "--json"]));
    assert_eq!(code, Some(if told["stopped"] == true { 130 } else { 0 }), "{told}");
    assert_sound(&mount);
}

/// Cleaning that gains no segments would rewrite the log for ever.
#[test]
fn on_a_nearly_full_volume_no_goal_rewrites_the_log_without_end() {
    if !can_mount() {
        return;
    }
    // A cleaner outside moves what the present has; states of the past would stay in its victims.
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let mut files = 0;
    while fs::write(mount.path(&format!("f{files}")), content(files)).is_ok() {
        files += 1;
    }
    (0..files).step_by(17).for_each(|n| fs::remove_file(mount.path(&format!("f{n}"))).unwrap());
    mount.sync();
    let mnt = mount.mnt.to_str().unwrap();
    let log_bytes = || mount.control(r#"{"op":"segwait","timeout_ms":0}"#)["log_bytes"].as_u64().unwrap();
    let before = log_bytes();
    let refused = firn(&["clean", mnt, "--until", "110"]);
    let line = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{line}");
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "least").unwrap();
    let reachable: u64 = words[at + 1].parse().unwrap();
    assert!(log_bytes() - before < 4 << 20, "a refused goal writes nothing");
    assert!(clean_segments(&mount) <= reachable && reachable < 40, "{line}");
    // Cleaning reaches the number offered. A larger one ends where passes gain nothing more.
    firn_ok(&["clean", mnt, "--until", &reachable.to_string(), "--policy", "greedy"]);
    assert!(clean_segments(&mount) >= reachable, "{} of {reachable}", clean_segments(&mount));
    let short = firn(&["clean", mnt, "--segments", "100000", "--policy", "greedy"]);
    let line = String::from_utf8_lossy(&short.stderr).into_owned();
    assert_eq!(short.status.code(), Some(1), "{line}");
    assert!(line.contains("cleaned, and further passes gain nothing"), "{line}");
    // Segments that this cleaner emptied did not die by themselves: otherwise more than a segment would be live in each.
    let counted = firn_json(&["stat", mnt, "--cleaning", "--json"])["since_mount"].clone();
    assert!(counted["utilisation"].as_f64().unwrap() <= 1.0, "{counted}");
    assert_victims_are_told(mnt);
    let parts = ["segments_empty", "segments_background", "segments_on_demand"];
    let sum: u64 = parts.iter().map(|part| counted[part].as_u64().unwrap()).sum();
    assert_eq!(counted["segments_cleaned"], sum, "{counted}");
    let cost = counted["cost_per_user_byte"].as_f64().unwrap();
    assert!(cost > counted["measured_cost"].as_f64().unwrap(), "metadata is cost: {counted}");
    let log_bytes = log_bytes() - before;
    assert!(log_bytes < 8 * (128 << 20), "{log_bytes}");
}

/// Overwritten files make more metadata dirty than deleted ones, and states of the past hold some of what passes empty.
#[test]
fn the_number_that_a_refusal_offers_is_reached_also_right_after_writes() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    let write = |n: u64, seed: u64| fs::write(mount.path(&format!("f{n}")), content(n + seed)).unwrap();
    (0..FILES).for_each(|n| write(n, 0));
    (0..FILES).step_by(3).for_each(|n| write(n, 1000));
    (1..FILES).step_by(3).for_each(|n| fs::remove_file(mount.path(&format!("f{n}"))).unwrap());
    let refused = firn(&["clean", mnt, "--until", "100000"]);
    let line = String::from_utf8(refused.stderr).unwrap();
    let offered = line.split("at least ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(offered.parse::<u64>().unwrap() > clean_segments(&mount), "{line}");
    firn_ok(&["clean", mnt, "--until", offered]);
}

#[test]
fn what_cannot_be_cleaned_is_refused() {
    if !can_mount() {
        return;
    }
    assert_eq!(firn(&["clean", "/proc"]).status.code(), Some(3));
    let memory = Mount::with(Kind::Memory, "32M", &[]);
    let refused = firn(&["clean", memory.mnt.to_str().unwrap(), "--once"]);
    assert_eq!(refused.status.code(), Some(4), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn cleaners_of_different_policies_at_once_one_of_them_killed_lose_nothing() {
    if !can_mount() {
        return;
    }
    let mount = half_dead();
    let others = ["greedy", "fifo"].map(|policy| start(&mount, &["--segments", "15", "--policy", policy]));
    let mut killed = start(&mount, &["--segments", "1000000", "--policy", "d-choices"]);
    for n in 0..20 {
        fs::write(mount.path(&format!("new{n}")), content(n)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(30));
    killed.kill().unwrap();
    killed.wait().unwrap();
    for other in others {
        let output = other.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for n in 0..20 {
        assert!(fs::read(mount.path(&format!("new{n}"))).unwrap() == content(n));
    }
    assert_sound(&mount);
}

#[test]
fn the_example_with_a_policy_of_its_own_cleans() {
    if !can_mount() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: NOT TESTED: python3 is missing");
        return;
    }
    let mount = half_dead();
    let before = clean_segments(&mount);
    let output = Command::new("python3").arg(EXAMPLE).arg(&mount.mnt).arg("12").output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stdout, "12 segments cleaned\n", "{stderr}");
    assert!(clean_segments(&mount) > before + 3);
    assert_sound(&mount);
}

#[test]
fn a_waiting_cleaner_wakes_for_writes_and_ends_with_the_mount() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let room = mount.control(r#"{"op":"segwait","timeout_ms":0}"#);
    let since = room["log_bytes"].as_u64().unwrap();
    let begin = Instant::now();
    let request = format!(r#"{{"op":"segwait","log_bytes":{since},"timeout_ms":50000}}"#);
    let woken = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| mount.control(&request));
        fs::write(mount.path("large"), pattern(1, 4 << 20)).unwrap();
        mount.sync();
        waiting.join().unwrap()
    });
    assert!(begin.elapsed() < Duration::from_secs(40));
    assert!(woken["log_bytes"].as_u64().unwrap() >= since + (1 << 20), "{woken}");
    let cleaner = start(&mount, &["--stay"]);
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    mount.umount();
    assert!(begin.elapsed() < Duration::from_secs(30), "the unmount waited for the cleaner");
    let output = cleaner.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The name of the daemon's socket has the device number in it.
#[test]
fn a_cleaner_does_not_take_another_mount_with_its_device_number_for_its_own() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let device = fs::metadata(&mount.mnt).unwrap().dev();
    let cleaner = start(&mount, &["--stay"]);
    std::thread::sleep(Duration::from_millis(300));
    let pid = Pid::from_raw(cleaner.id() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // By then it has the answer to its last request, so that the daemon cannot tell it of the unmount.
    std::thread::sleep(Duration::from_millis(600));
    mount.umount();
    // The kernel gives the lowest free number; other tests may take it first.
    let mut others = Vec::new();
    while others.len() < 8
        && others.last().is_none_or(|other: &Mount| fs::metadata(&other.mnt).unwrap().dev() != device)
    {
        others.push(Mount::new(Kind::Memory));
    }
    kill_process(pid, Signal::CONT).unwrap();
    let output = cleaner.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn without_a_goal_it_ends_when_passes_gain_nothing_more() {
    if !can_mount() {
        return;
    }
    let mount = half_dead();
    let mnt = mount.mnt.to_str().unwrap();
    let before = clean_segments(&mount);
    let told: Value = firn_json(&["clean", mnt, "--json"]);
    assert!(told["segments_cleaned"].as_u64().unwrap() > 10 && clean_segments(&mount) > before + 5, "{told}");
    // Nothing is left to gain, so that it ends at once.
    let log_bytes = || mount.control(r#"{"op":"segwait","timeout_ms":0}"#)["log_bytes"].as_u64().unwrap();
    let before = log_bytes();
    firn_ok(&["clean", mnt]);
    assert!(log_bytes() - before < 64 << 20, "{} bytes for nothing", log_bytes() - before);
    assert_sound(&mount);
}

#[test]
fn the_port_refuses_invalid_requests_and_returns_the_ifile_in_pages() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    fs::write(mount.path("file"), pattern(1, 100_000)).unwrap();
    mount.sync();
    let refused =
        |request: &str| -> String { mount.control_error(request)["kind"].as_str().unwrap().to_owned() };
    for nonsense in [
        r#"{"op":"segment_read"}"#,
        r#"{"op":"segment_read","segment":-1}"#,
        r#"{"op":"segment_read","segment":18446744073709551615}"#,
        r#"{"op":"bmapv","blocks":[{"ino":5,"version":1,"part":"data","level":9,"addr":1}]}"#,
        r#"{"op":"bmapv","blocks":[{"ino":5,"version":1,"part":"heart","addr":1}]}"#,
        r#"{"op":"markv","blocks":7}"#,
        r#"{"op":"segclean","segments":["one"]}"#,
        r#"{"op":"segwait","timeout_ms":-1}"#,
    ] {
        assert_eq!(refused(nonsense), "invalid_argument", "{nonsense}");
    }
    let far = mount.control(r#"{"op":"segments","from":18446744073709551615,"count":18446744073709551615}"#);
    assert_eq!((&far["list"], &far["next"]), (&json!([]), &Value::Null));
    let page = mount.control(r#"{"op":"segments","from":3,"count":2}"#);
    let numbers: Vec<_> = page["list"].as_array().unwrap().iter().map(|s| s["segment"].clone()).collect();
    assert_eq!((numbers, &page["next"]), (vec![json!(3), json!(4)], &json!(5)));
    let ino = std::os::unix::fs::MetadataExt::ino(&fs::metadata(mount.path("file")).unwrap());
    let inodes = mount.control(&format!(r#"{{"op":"inodes","from":{ino},"count":1}}"#));
    assert_eq!(inodes["list"][0]["ino"], json!(ino));
    assert!(Path::new(EXAMPLE).exists());
}

#[test]
fn firn_clean_puts_scattered_files_in_order() {
    if !can_mount() {
        return;
    }
    const PIECE: usize = 8192;
    let mount = Mount::with(Kind::Image, "256M", &[]);
    fs::create_dir(mount.path("dir")).unwrap();
    let mut large = pattern(1, 4 << 20);
    fs::write(mount.path("dir/large"), &large).unwrap();
    mount.sync();
    let file = fs::OpenOptions::new().write(true).open(mount.path("dir/large")).unwrap();
    for n in 0..large.len() / PIECE {
        // 211 and the number of pieces are coprime: this visits each piece once, far from the previous one.
        let at = n * 211 % (large.len() / PIECE) * PIECE;
        large[at..at + PIECE].copy_from_slice(&pattern(n as u64, PIECE));
        std::os::unix::fs::FileExt::write_all_at(&file, &large[at..at + PIECE], at as u64).unwrap();
        if n % 16 == 15 {
            file.sync_all().unwrap();
        }
    }
    drop(file);
    (0..50).for_each(|n| fs::write(mount.path(&format!("dir/small{n}")), b"").unwrap());
    for n in 0..50 {
        fs::write(mount.path(&format!("dir/small{}", n * 7 % 50)), pattern(n, 5000)).unwrap();
        mount.sync();
    }
    let dir = mount.path("dir");
    let modified = fs::metadata(mount.path("dir/large")).unwrap().modified().unwrap();
    let ask =
        |path: &Path| -> Value { firn_json(&["clean", path.to_str().unwrap(), "--coalesce", "--json"]) };
    let told = ask(&dir);
    assert_eq!(
        (&told["files"], &told["directories"], &told["short"]),
        (&json!(51), &json!(1), &json!(0)),
        "{told}"
    );
    assert!(told["seams_before"].as_u64().unwrap() > 300, "{told}");
    assert!(told["seams_after"].as_u64().unwrap() <= 5, "{told}");
    assert!(told["moved_bytes"].as_u64().unwrap() > 4 << 20, "{told}");
    // Afterwards nothing is left to do, in the whole volume.
    let again = ask(&mount.mnt);
    assert_eq!((&again["moved_bytes"], &again["directories"]), (&json!(0), &json!(2)), "{again}");
    let stat: Value = firn_json(&["stat", mount.mnt.to_str().unwrap(), "--cleaning", "--json"]);
    let counted = &stat["since_mount"];
    assert_eq!(counted["coalesced_bytes"], told["moved_bytes"], "{counted}");
    assert!(counted["coalesced_files"].as_u64().unwrap() > 1, "{counted}");
    mount.remount_image();
    assert!(fs::read(mount.path("dir/large")).unwrap() == large);
    assert_eq!(fs::metadata(mount.path("dir/large")).unwrap().modified().unwrap(), modified);
    for n in 0..50 {
        assert!(fs::read(mount.path(&format!("dir/small{}", n * 7 % 50))).unwrap() == pattern(n, 5000));
    }
    mount.umount();
    firn_ok(&["fsck", mount.image.to_str().unwrap()]);
    let refused = firn(&["clean", "/proc", "--coalesce"]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && words.contains("not on a firnfs mount"), "{words}");
}

/// The victims by reason are those that were cleaned, nearly all of them because this test asked for it; and the last minute has
/// everything since the mount, if the mount is younger than that.
fn assert_victims_are_told(mnt: &str) {
    let told: Value = firn_json(&["stat", mnt, "--cleaning", "--json"]);
    let (mount, reasons) = (&told["since_mount"], told["victims_by_reason"].as_array().unwrap());
    let sum = |word: &str| reasons.iter().map(|reason| reason[word].as_u64().unwrap()).sum::<u64>();
    let number = |word: &str| mount[word].as_u64().unwrap();
    assert_eq!(sum("segments"), number("segments_background") + number("segments_on_demand"), "{told}");
    let (live_bytes, moved_bytes) = (sum("live_bytes"), number("moved_bytes"));
    assert!(moved_bytes > 0 && live_bytes >= moved_bytes, "victims lose blocks while they wait: {told}");
    let asked = reasons.iter().find(|reason| reason["reason"] == "asked").unwrap();
    assert!(asked["segments"].as_u64().unwrap() > 0, "{told}");
    let recent = &told["recent"];
    if recent["window_ms"].as_u64().unwrap() < 60_000 {
        assert_eq!(recent["cleaned"]["segments_cleaned"], mount["segments_cleaned"], "{told}");
    }
    // The counters say the same number, with the same parts.
    let stat: Value = firn_json(&["stat", mnt, "--json"]);
    let counters = stat["log"]["counters"].as_array().unwrap();
    let counter = |name: &str| counters.iter().find(|pair| pair[0] == name).unwrap()[1].as_u64().unwrap();
    let parts = ["empty", "background", "on_demand"].map(|part| counter(&format!("segments_cleaned_{part}")));
    assert_eq!(counter("segments_cleaned"), parts.iter().sum::<u64>(), "{stat}");
    assert_eq!(
        stat["log"]["cleaning"]["since_mkfs"]["segments_cleaned"],
        counter("segments_cleaned"),
        "{stat}"
    );
    let text = String::from_utf8(firn(&["stat", mnt, "--cleaning"]).stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // How many columns a title takes depends on how long the mount is there.
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["victims since mount", "asked for from outside", "since mkfs since mount last "] {
        assert!(in_one_line.contains(words), "{words}: {text}");
    }
}
