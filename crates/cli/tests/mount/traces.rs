//! Programs on a real mount over a disk that records its requests. The power is then cut at every point of that record: the
//! volume mounts, its accounting is exact, and the programs find everything durable and nothing wrong.
//!
//! `FIRNFS_TRACE_STATES` sets how many states of each trace are judged.

use crate::common::{can_mount, shell};
use crate::in_process::{Served, VOLUME_BYTES, volume_image};
use firnfs::lfs::Options;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Device, MemDevice, SparseImage, SystemClock};
use firnfs_sim::{CrashDisk, History};
use firnfs_torture::audit::audit;
use firnfs_torture::crash::trace::explore_trace;
use firnfs_torture::crash::{Plan, Window};
use firnfs_torture::export::export;
use std::path::Path;
use std::sync::Arc;

/// States of each trace to judge, by default.
const STATES: u64 = 250;

/// Such low thresholds that commits, checkpoints and segment changes are frequent.
fn options() -> Options {
    Options {
        write_threshold_bytes: 128 << 10,
        checkpoint_bytes: 512 << 10,
        commit_interval_ms: 100,
        checkpoint_interval_ms: 1_000,
        discard: true,
        ..Options::default()
    }
}

/// Runs the steps, shell scripts, one after the other in the root of a mount; the trace has a mark before and after each.
fn record(steps: &[String]) -> History {
    let disk = Arc::new(CrashDisk::new(volume_image(), 4096));
    let served = Served::start(disk.clone(), options());
    for (step, script) in steps.iter().enumerate() {
        disk.mark(2 * step as u64);
        shell(&served.mnt, script);
        disk.mark(2 * step as u64 + 1);
    }
    served.end().unwrap();
    disk.history()
}

/// Judges a copy of the tree, given the number of steps that had ended.
type Verdict<'v> = &'v dyn Fn(&Path, usize) -> Result<(), String>;

/// Cuts the power at every point.
fn assert_survives(name: &str, history: &History, verdict: Verdict<'_>) {
    let judged = cut_everywhere(name, history, verdict).unwrap_or_else(|why| panic!("{name}: {why}"));
    println!("{name}: {} events, {judged} states", history.events().len());
    assert!(judged >= STATES / 4, "{name}: only {judged} states");
}

/// Returns how many states were judged, or the error of one state, which is kept.
fn cut_everywhere(name: &str, history: &History, verdict: Verdict<'_>) -> Result<u64, String> {
    let states =
        std::env::var("FIRNFS_TRACE_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(STATES);
    let judge = |image: &SparseImage, window: Window| {
        let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image.clone()));
        let volume = firnfs_manage::open(device, options(), AtimeMode::Noatime, Arc::new(SystemClock));
        let volume = volume.map_err(|e| format!("does not mount: {e}"))?;
        let wrong = audit(&volume).map_err(|e| format!("the audit: {e}"))?;
        if !wrong.is_empty() {
            return Err(format!("the accounting is wrong: {wrong:?}"));
        }
        let copy = tempfile::tempdir().map_err(|e| e.to_string())?;
        export(&volume, copy.path()).map_err(|e| e.to_string())?;
        verdict(copy.path(), window.ended)
    };
    explore_trace(history, &Plan::default(), states, judge).map_err(|failure| {
        let mut bytes = vec![0; VOLUME_BYTES as usize];
        failure.image.read(0, &mut bytes);
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.img"));
        std::fs::write(&kept, bytes).unwrap();
        let Window { ended, begun } = failure.window;
        let (reason, state, kept) = (failure.reason, failure.state, kept.display());
        format!("{ended} steps had ended, {begun} begun: {reason}\n{state}\nkept as {kept}")
    })
}

/// Runs a script in a copy; any output is an error.
fn silent(copy: &Path, script: &str) -> Result<(), String> {
    let output = std::process::Command::new("sh").arg("-uc").arg(script).current_dir(copy).output();
    let output = output.map_err(|e| e.to_string())?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() && said.is_empty() { Ok(()) } else { Err(format!("{script}\n{said}")) }
}

const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
                          GIT_COMMITTER_EMAIL=a@b;";

#[test]
fn git_finds_its_commits_and_no_fault_after_any_power_cut() {
    if !can_mount() {
        return;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stat");
    // An fsync after the last rename of a commit makes the commit durable; each is tagged with the number in its message.
    let commit = |n: usize| {
        let gc = if n % 5 == 4 { "git gc -q --prune=now;" } else { "" };
        format!(
            "{GIT} cd r; cp {source}/*.rs .; echo {n} >> log; seq {n}00 > list; git add -A; git commit -qm 'step {n}'; {gc}
             git log -1 --format=%s > /dev/null; sync .git"
        )
    };
    let mut steps = vec!["git init -q -b main r; git -C r config core.fsync all; sync r/.git".to_owned()];
    steps.extend((1..12).map(commit));
    let history = record(&steps);
    assert_survives("git", &history, &|copy, ended| {
        if ended == 0 {
            return Ok(());
        }
        let last = ended - 1;
        silent(
            copy,
            &format!(
                "cd r && git fsck --strict --no-dangling --no-progress 2>&1 | grep -v '^notice: '
                 [ {last} = 0 ] || git log --format=%s main | grep -qx 'step {last}' || echo step {last} is lost"
            ),
        )
    });
}

#[test]
fn sqlite_finds_its_transactions_and_sound_files_after_any_power_cut() {
    if !can_mount() {
        return;
    }
    // With a rollback journal the commit is the journal's removal: EXTRA makes it durable.
    let modes = [("wal", "full"), ("delete", "extra"), ("truncate", "full")];
    let in_each = |sql: &dyn Fn(&str, &str) -> String| {
        modes.map(|(mode, sync)| format!("sqlite3 {mode}.db \"{}\" > /dev/null", sql(mode, sync))).join("\n")
    };
    let mut steps = vec![in_each(&|mode, sync| {
        format!(
            "pragma journal_mode={mode}; pragma synchronous={sync}; create table t(a integer primary key, b);"
        )
    })];
    steps.extend((1..20).map(|n| {
        in_each(&|mode, sync| {
            format!(
                "pragma journal_mode={mode}; pragma synchronous={sync}; begin; insert into t values({n}, randomblob(5000));
                 update t set b = randomblob(3000) where a % 3 = {n} % 3; commit;"
            )
        })
    }));
    let history = record(&steps);
    assert_survives("sqlite", &history, &|copy, ended| {
        if ended == 0 {
            return Ok(());
        }
        modes.iter().try_for_each(|(mode, _)| {
            let last = ended - 1;
            let sql = format!("pragma integrity_check; select count(*) from t where a <= {last};");
            silent(copy, &format!("sqlite3 {mode}.db '{sql}' | tr '\\n' ' ' | grep -vx 'ok {last} ' || true"))
        })
    });
}

#[test]
fn trees_unpacked_by_tar_and_synced_are_whole_after_any_power_cut() {
    if !can_mount() {
        return;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let steps: Vec<String> = (0..6)
        .map(|n| {
            format!(
                "mkdir t{n}; tar -C {source} -cf - . | tar -C t{n} -xf -; find t{n} -type f -exec sync {{}} +
                 [ {n} -lt 2 ] || rm -r t$(({n} - 2)); sync t{n}"
            )
        })
        .collect();
    let history = record(&steps);
    assert_survives("tar", &history, &|copy, ended| {
        // The newest tree; the previous one is being removed.
        ended.checked_sub(1).map_or(Ok(()), |newest| silent(copy, &format!("diff -r {source} t{newest}")))
    });
}

#[test]
fn data_whose_sync_has_not_ended_is_found_missing_in_some_state() {
    if !can_mount() {
        return;
    }
    let history =
        record(&["seq 1000 > first; sync first".to_owned(), "seq 2000 > second; sync second".to_owned()]);
    let first = cut_everywhere("promised", &history, &|copy, ended| {
        if ended < 1 { Ok(()) } else { silent(copy, "seq 1000 | cmp - first") }
    });
    assert!(first.is_ok_and(|judged| judged > 0));
    // Durable before its step has ended: not in every state.
    let second = cut_everywhere("not promised", &history, &|copy, ended| {
        if ended < 1 { Ok(()) } else { silent(copy, "seq 2000 | cmp - second") }
    });
    assert!(second.is_err_and(|why| why.contains("1 steps had ended")));
}
