//! Process death: the daemon is killed again and again while programs work, and no acknowledged data is lost.
//!
//! The programs are writers that record outside the volume which fsyncs were acknowledged, git, and SQLite in both journal
//! modes. After each kill the volume is mounted again, everything recorded is verified, and git and SQLite check themselves.
//! `FIRNFS_LIVE_SECONDS` sets the duration (15 by default; an hour: `FIRNFS_LIVE_SECONDS=3600 cargo test -p firnfs-cli --test
//! mount live`).

use crate::common::{Kind, Mount, can_mount, eventually, pattern, shell};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Length of a record that the appending writer writes, in bytes: crosses blocks.
const RECORD_BYTES: usize = 3000;
const SQLITE_MODES: [(&str, &str); 2] = [("wal", "full"), ("delete", "extra")];

/// Acknowledged data, recorded where the death of a daemon cannot affect it.
#[derive(Default)]
struct Acknowledged {
    /// Records of the file `appended`.
    records: u64,
    /// Files by number, with the length of their content.
    files: Vec<(u64, usize)>,
}

/// Writes for ever, below the first argument, and records in the second.
type Writer = fn(&Path, &Mutex<Acknowledged>) -> io::Result<()>;

/// The workers of a round; they end by themselves once the daemon is dead.
struct Workers {
    threads: Vec<JoinHandle<()>>,
    programs: Vec<Child>,
}

impl Workers {
    fn start(mount: &Mount, outside: &Path, acknowledged: &Arc<Mutex<Acknowledged>>) -> Self {
        let writers: [Writer; 2] = [append, replace];
        let threads = writers.map(|writer| {
            let (mnt, acknowledged) = (mount.mnt.clone(), Arc::clone(acknowledged));
            std::thread::spawn(move || {
                // It ends with the error that the death of the daemon causes.
                let _killed = writer(&mnt, &acknowledged);
            })
        });
        let mut programs = vec![commit_for_ever(mount, outside)];
        programs.extend(
            SQLITE_MODES.map(|(mode, synchronous)| insert_for_ever(mount, outside, mode, synchronous)),
        );
        Self { threads: threads.into(), programs }
    }

    fn wait(self) {
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        for mut program in self.programs {
            program.wait().unwrap();
        }
    }
}

/// Appends records to one file, each with its own fsync.
fn append(mnt: &Path, acknowledged: &Mutex<Acknowledged>) -> io::Result<()> {
    let mut number = acknowledged.lock().unwrap().records;
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(mnt.join("appended"))?;
    loop {
        file.write_all_at(&pattern(number, RECORD_BYTES), number * RECORD_BYTES as u64)?;
        if number.is_multiple_of(3) {
            file.sync_data()?
        } else {
            file.sync_all()?
        }
        number += 1;
        acknowledged.lock().unwrap().records = number;
    }
}

/// Makes files as careful programs do: write, sync, rename, sync the directory.
fn replace(mnt: &Path, acknowledged: &Mutex<Acknowledged>) -> io::Result<()> {
    let mut number = acknowledged.lock().unwrap().files.last().map_or(0, |last| last.0 + 1);
    fs::create_dir_all(mnt.join("files"))?;
    let directory = File::open(mnt.join("files"))?;
    loop {
        let len = (number * 7919 % 40_000) as usize;
        let temporary = mnt.join("files/temporary");
        let mut file = File::create(&temporary)?;
        file.write_all(&pattern(number, len))?;
        file.sync_all()?;
        fs::rename(&temporary, mnt.join(format!("files/{number}")))?;
        directory.sync_all()?;
        acknowledged.lock().unwrap().files.push((number, len));
        number += 1;
    }
}

fn in_background(directory: &Path, script: &str) -> Child {
    let mut command = Command::new("sh");
    command.arg("-euc").arg(script).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Commits; it records a commit after an fsync that follows the commit's last rename.
fn commit_for_ever(mount: &Mount, outside: &Path) -> Child {
    // The user of a killed git has to remove its lock.
    let script = format!(
        "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
                GIT_COMMITTER_EMAIL=a@b
         cd {mnt}/repository; find .git -name '*.lock' -delete
         while true; do
             date +%s%N >> log; seq 1 $(($(wc -l < log) % 50)) > list
             git add -A; git commit -qm more; sync .git/refs/heads/main
             git rev-parse HEAD >> {outside}/commits
         done",
        mnt = mount.mnt.display(),
        outside = outside.display()
    );
    in_background(outside, &script)
}

/// Inserts rows, one transaction each.
fn insert_for_ever(mount: &Mount, outside: &Path, mode: &str, synchronous: &str) -> Child {
    let script = format!(
        "n=$(tail -n 1 {outside}/{mode} 2>/dev/null || true); n=${{n:-0}}
         while true; do
             n=$((n + 1))
             sqlite3 -cmd '.timeout 10000' {mnt}/{mode}.db \"pragma synchronous={synchronous};
                 insert or ignore into t values($n, randomblob(2000));
                 update t set b = randomblob(1000) where a = $n / 2;\"
             echo $n >> {outside}/{mode}
         done",
        mnt = mount.mnt.display(),
        outside = outside.display()
    );
    in_background(outside, &script)
}

fn prepare(mount: &Mount, outside: &Path) {
    shell(
        &mount.mnt,
        "git init -q -b main repository; cd repository; git config core.fsync all; touch log list",
    );
    for (mode, _) in SQLITE_MODES {
        let tables = format!(
            "sqlite3 {mode}.db 'pragma journal_mode={mode}; create table t(a integer primary key, b blob);' > /dev/null"
        );
        shell(&mount.mnt, &tables);
        fs::write(outside.join(mode), "").unwrap();
    }
    fs::write(outside.join("commits"), "").unwrap();
    mount.sync();
}

/// Verifies everything that was acknowledged, and lets git and SQLite check themselves.
fn verify(mount: &Mount, outside: &Path, acknowledged: &Acknowledged, round: u64) {
    let appended = fs::read(mount.path("appended")).unwrap_or_default();
    for number in 0..acknowledged.records {
        let start = number as usize * RECORD_BYTES;
        let record = appended.get(start..start + RECORD_BYTES);
        assert!(record == Some(&pattern(number, RECORD_BYTES)), "round {round}: record {number}");
    }
    for &(number, len) in &acknowledged.files {
        let file = fs::read(mount.path(&format!("files/{number}")));
        assert!(file.is_ok_and(|bytes| bytes == pattern(number, len)), "round {round}: file {number}");
    }
    for (mode, _) in SQLITE_MODES {
        let rows = fs::read_to_string(outside.join(mode)).unwrap();
        let last: u64 = rows.lines().last().map_or(0, |line| line.parse().unwrap());
        let script = format!(
            "sqlite3 {mode}.db 'pragma integrity_check; select count(*) from t where a between 1 and {last};'"
        );
        assert_eq!(shell(&mount.mnt, &script), format!("ok\n{last}\n"), "round {round}: {mode}");
    }
    let commits = outside.join("commits").display().to_string();
    let script = format!(
        "git fsck --strict --no-dangling --no-progress 2>&1 | grep -v '^notice: ' || true
         last=$(tail -n 1 {commits}); [ -z \"$last\" ] || git merge-base --is-ancestor $last main || echo $last is lost"
    );
    assert_eq!(shell(&mount.path("repository"), &script), "", "round {round}");
}

fn lines(file: PathBuf) -> usize {
    fs::read_to_string(file).unwrap().lines().count()
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_daemon_is_killed_again_and_again() {
    if !can_mount() {
        return;
    }
    let seconds = std::env::var("FIRNFS_LIVE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mount = Mount::with(Kind::Image, "2G", &[]);
    let outside = tempfile::tempdir().unwrap();
    prepare(&mount, outside.path());
    let acknowledged = Arc::new(Mutex::new(Acknowledged::default()));
    let mut round = 0;
    while round < 3 || Instant::now() < end {
        let workers = Workers::start(&mount, outside.path(), &acknowledged);
        // A different moment each time; the machine draws the rest.
        std::thread::sleep(Duration::from_millis(150 + round * 379 % 900));
        kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
        workers.wait();
        eventually("the mount is dead", || rustix::fs::statvfs(&mount.mnt).is_err());
        mount.mount_image(&[]);
        verify(&mount, outside.path(), &acknowledged.lock().unwrap(), round);
        round += 1;
    }
    let known = acknowledged.lock().unwrap();
    let (commits, rows) =
        (lines(outside.path().join("commits")), SQLITE_MODES.map(|m| lines(outside.path().join(m.0))));
    println!(
        "{round} kills; {} records, {} files, {commits} commits, {rows:?} transactions",
        known.records,
        known.files.len()
    );
    assert!(known.records > 20 && known.files.len() > 20 && commits > 2 && rows.iter().all(|&rows| rows > 2));
    mount.umount();
    mount.mount_image(&[]);
    verify(&mount, outside.path(), &known, round);
}
