//! `firn bench micro` stopped by a signal: none of its mounts and files remain. Its variants mount one image in their turns.
//! `firn bench floor` measures what it says.

use crate::common::{can_mount, eventually, firn, firn_json, is_root, kernel_caches_go};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running benchmark; dropping it removes everything that it has set up, also when the test fails.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::TERM);
            let _ = self.0.wait();
        }
    }
}

/// A directory in memory, so that the load of the disk does not matter.
pub fn home() -> tempfile::TempDir {
    let in_memory = Path::new("/dev/shm");
    if in_memory.is_dir() { tempfile::tempdir_in(in_memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Starts a long benchmark in a process group of its own, as a shell does.
fn start(home: &Path, more: &[&str]) -> Running {
    let against = format!("here={}", home.join("against").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    command.args(["bench", "micro", "--against", &against, "--image"]).arg(home.join("bench.img"));
    command.args(["--size", "1G", "--null-size", "256M", "--rounds", "1000"]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Running(command.process_group(0).spawn().unwrap())
}

/// Mount points and the files behind loop devices that lie in a directory.
pub fn left_behind(home: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let loops = fs::read_dir("/sys/block").unwrap();
    let loops =
        loops.filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("loop/backing_file")).ok());
    mounts.chain(loops.map(PathBuf::from)).filter(|path| path.starts_with(home)).collect()
}

pub fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Sends the signal once `when` holds, and asserts that the benchmark ends and leaves nothing behind.
fn stopped(signal: Signal, more: &[&str], when: impl Fn(&Path) -> bool) {
    let _dropped = kernel_caches_go();
    let home = home();
    fs::create_dir(home.path().join("against")).unwrap();
    let mut child = start(home.path(), more);
    eventually("the benchmark has reached the point where it is to be stopped", || when(home.path()));
    let since = Instant::now();
    kill_process_group(Pid::from_child(&child.0), signal).unwrap();
    let status = child.0.wait().unwrap();
    let mut complaint = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    let exit = if signal == Signal::TERM { 143 } else { 130 };
    assert_eq!(status.code(), Some(exit), "{status}: {complaint}");
    assert!(complaint.contains("firn: interrupted"), "{complaint}");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    eventually("mounts and loop devices are gone", || left_behind(home.path()).is_empty());
    assert_eq!(entries(home.path()), ["against"]);
    assert_eq!(entries(&home.path().join("against")), [""; 0]);
}

fn is_mounted(home: &Path, suffix: &str) -> bool {
    left_behind(home).contains(&home.join(format!("bench.img.{suffix}")))
}

#[test]
fn a_benchmark_stopped_in_its_scenarios_leaves_nothing_behind() {
    if !can_mount() || !is_root() {
        return;
    }
    let works_on = |place: &'static str| move |home: &Path| home.join(place).join("firn-bench").exists();
    // Without cold reads, which would empty the caches of the whole machine in every round.
    let fsync = ["--no-library", "--scenarios", "fsync"];
    stopped(Signal::TERM, &fsync, works_on("bench.img.mnt"));
    stopped(Signal::INT, &fsync, works_on("bench.img.mem"));
    stopped(Signal::INT, &["--no-library", "--scenarios", "small"], works_on("against"));
}

#[test]
fn a_benchmark_stopped_while_it_sets_up_leaves_nothing_behind() {
    if !can_mount() || !is_root() {
        return;
    }
    // The memory volume is being mounted, and all later steps are still to come.
    stopped(Signal::INT, &[], |home| is_mounted(home, "mnt"));
    stopped(Signal::TERM, &[], |home| home.join("firn-bench-bandwidth.img").exists());
}

#[test]
fn variants_mount_one_image_in_turn_and_are_described_as_their_daemons_say() {
    if !can_mount() || !is_root() {
        return;
    }
    // Other tests switch it on, too: `auto` must not change its mind between two rounds.
    let _is_on = firn(&["mount", "--enable-uring"]);
    let _dropped = kernel_caches_go();
    let home = home();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("against")).unwrap();
    let report = firn_json(&[
        "bench",
        "micro",
        "--against",
        &format!("here={}", path("against")),
        "--image",
        &path("bench.img"),
        "--size",
        "256M",
        "--null-size",
        "0",
        "--rounds",
        "2",
        "--shrink",
        "100",
        "--no-library",
        "--scenarios",
        "fsync,large",
        "--name",
        "dev",
        "--mount-option=--transport=dev",
        "--variant",
        "any=",
        "--variant",
        "collects=transport=dev,writeback",
        "--json",
    ]);
    let columns = report["columns"].as_array().unwrap();
    let of = |column: &serde_json::Value| (column["target"].clone(), column["writeback"].clone());
    let expected = [("here", false), ("dev", false), ("any", false), ("collects", true)];
    assert_eq!(columns.iter().map(of).collect::<Vec<_>>(), expected.map(|(n, w)| (n.into(), w.into())));
    assert!(columns[0]["transport"].is_null());
    assert_eq!(columns[1]["transport"], "/dev/fuse");
    assert_eq!(columns[3]["transport"], "/dev/fuse");
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["times"].as_array().unwrap().len(), 4, "{row}");
        assert_eq!(row["ratios"].as_array().unwrap().len(), 3, "{row}");
    }
    assert_eq!(left_behind(home.path()), [""; 0].map(PathBuf::from));
    assert_eq!(entries(home.path()), ["against"]);
}

#[test]
fn the_floor_is_measured_over_every_transport_that_there_is() {
    if !can_mount() || !is_root() {
        return;
    }
    let report = firn_json(&["bench", "floor", "--rounds", "1", "--count", "50", "--json"]);
    let rows = report["rows"].as_array().unwrap();
    let transports = if report["missing_uring"].is_null() { 2 } else { 1 };
    assert_eq!(rows.len(), 8 * 3 * transports + 3, "{report}");
    for row in rows {
        let ms = |name: &str| row[name].as_f64().unwrap();
        assert!(ms("least_ms") > 0.0 && ms("least_ms") <= ms("elapsed_ms"), "{row}");
        // A client that may wait for nobody else takes no more processor time than time.
        assert!(row["clients"] == "two" || ms("client_ms") <= ms("elapsed_ms"), "{row}");
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.lines().any(|line| line.contains(" floor ")), "{mounts}");
}
