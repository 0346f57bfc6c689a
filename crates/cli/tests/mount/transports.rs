//! Both ways to the kernel, `/dev/fuse` and io_uring: the same results, and an end for everybody who waits.

use crate::common::{
    Kind, Mount, can_mount, complaint, eventually, firn, firn_json, firn_ok, is_root, pattern, shell,
    write_synced,
};
use firnfs_fuse::preference::may_be_preferred;
use rustix::process::{Pid, Signal, getpgid, getpriority_process, kill_process};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Held by tests that need all processors; the one that takes a processor offline waits for them, and they for it.
static PROCESSORS: RwLock<()> = RwLock::new(());

/// All processors stay online as long as the guard lives.
fn all_online() -> RwLockReadGuard<'static, ()> {
    PROCESSORS.read().unwrap_or_else(PoisonError::into_inner)
}

/// True if mounts can use io_uring here; switches it on if it can. Prints a message if not.
fn has_uring() -> bool {
    if !can_mount() || !is_root() {
        return false;
    }
    let is_on = firn(&["mount", "--enable-uring"]).status.success();
    if !is_on {
        eprintln!(
            "SKIPPED: NOT TESTED: this kernel has no FUSE over io_uring, or does not let it be switched on"
        );
    }
    is_on
}

/// The transports that mounts can use here.
pub fn transports() -> &'static [&'static str] {
    if has_uring() { &["uring", "dev"] } else { &["dev"] }
}

fn mount(kind: Kind, transport: &str) -> Mount {
    Mount::with(kind, "512M", &["--transport", transport])
}

/// Programs of all kinds at a time: creates, writes, reads, renames, deletes, syncs.
const WORK: &str = "
    d=w$1; mkdir $d; i=0
    while [ $i -lt 60 ]; do
        head -c 20000 /dev/urandom >$d/f$i; cp $d/f$i $d/g$i; cmp $d/f$i $d/g$i
        mv $d/g$i $d/h$i; [ $((i % 3)) -ne 0 ] || rm $d/f$i; [ $((i % 10)) -ne 0 ] || sync $d/h$i
        i=$((i + 1))
    done
    dd if=/dev/zero of=$d/large bs=64k count=100 conv=fsync status=none
    test $(ls $d | wc -l) -eq 101";

#[test]
fn each_transport_serves_many_programs_at_a_time_and_says_which_one_it_is() {
    if !has_uring() {
        return;
    }
    for (transport, name) in [("uring", "io_uring"), ("dev", "/dev/fuse"), ("auto", "io_uring")] {
        let mount = mount(Kind::Image, transport);
        std::thread::scope(|scope| {
            for n in 0..6 {
                let mnt = &mount.mnt;
                scope.spawn(move || shell(mnt, &WORK.replace("$1", &n.to_string())));
            }
        });
        let mnt = mount.mnt.to_str().unwrap();
        assert_eq!(firn_json(&["stat", mnt, "--json"])["transport"], name);
        assert!(firn_ok(&["stat", mnt]).contains(&format!("served through {name}")));
        let lock = firn_json(&["stat", mnt, "--requests", "--json"])["lock"].clone();
        assert!(lock["turns"].as_u64().unwrap() > 1000 && lock["held_ms"].as_f64().unwrap() > 0.0, "{lock}");
        assert!(lock["busy_percent"].as_f64().unwrap() < 200.0, "{lock}");
        mount.remount_image();
        assert_eq!(fs::read_dir(mount.path("w3")).unwrap().count(), 101);
        let large = fs::read(mount.path("w3/large")).unwrap();
        assert!(large.len() == 6_553_600 && large.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn the_fast_file_system_whose_operations_end_with_a_wait_is_served_through_dev_fuse_unless_told_otherwise() {
    if !has_uring() {
        return;
    }
    for (transport, name) in [("auto", "/dev/fuse"), ("uring", "io_uring")] {
        let mount = mount(Kind::Fast, transport);
        shell(&mount.mnt, &WORK.replace("$1", "0"));
        assert_eq!(mount.control(r#"{"op":"info"}"#)["transport"], name);
        mount.remount_image();
        assert_eq!(fs::read_dir(mount.path("w0")).unwrap().count(), 101);
    }
}

/// Clients on each processor whose requests wait at a time: fewer than a queue has slots on the largest machine.
const WAITING: usize = 30;

/// `count` clients, each on one of `processors`, that write to a file of their own while the volume is frozen; calls `meanwhile`
/// once all of them wait, and thaws.
fn while_clients_wait<T>(mount: &Mount, count: usize, processors: usize, meanwhile: impl FnOnce() -> T) -> T {
    let mnt = mount.mnt.to_str().unwrap();
    // Made before: while a create waits, the kernel itself lets nobody look names up in its directory.
    let files: Vec<File> = (0..count).map(|n| File::create(mount.path(&format!("f{n}"))).unwrap()).collect();
    firn_ok(&["freeze", mnt, "--timeout", "60"]);
    let found = std::thread::scope(|scope| {
        let waiting: Vec<_> = (files.iter().enumerate())
            .map(|(n, file)| {
                scope.spawn(move || {
                    let mut set = rustix::thread::CpuSet::new();
                    set.set(n % processors);
                    rustix::thread::sched_setaffinity(None, &set).unwrap();
                    file.write_all_at(&pattern(3, 100_000), 0).unwrap();
                    file.sync_all().unwrap();
                })
            })
            .collect();
        // Nothing tells that a request waits.
        std::thread::sleep(Duration::from_millis(500));
        let found = meanwhile();
        assert!(waiting.iter().all(|thread| !thread.is_finished()), "somebody did not wait");
        firn_ok(&["thaw", mnt]);
        found
    });
    (0..count).for_each(|n| assert_eq!(fs::metadata(mount.path(&format!("f{n}"))).unwrap().len(), 100_000));
    found
}

#[test]
fn requests_that_wait_hold_up_nobody_else_on_their_processor() {
    if !can_mount() || !is_root() {
        return;
    }
    let _all_online = all_online();
    let processors = std::thread::available_parallelism().unwrap().get().min(4);
    for transport in transports() {
        let mount = mount(Kind::Image, transport);
        fs::write(mount.path("known"), "here").unwrap();
        // The last processor has no waiting client if there are several.
        for busy in [1, processors] {
            let answers = while_clients_wait(&mount, WAITING * busy, busy, || {
                let ask = |processor| {
                    let ask = format!(
                        "timeout -s KILL 10 taskset -c {processor} sh -c 'stat -f . >&2; cat known; ! ls absent{busy}{processor} 2>/dev/null'"
                    );
                    Command::new("sh").arg("-euc").arg(ask).current_dir(&mount.mnt).output().unwrap()
                };
                (0..processors).map(ask).collect::<Vec<_>>()
            });
            for (processor, answer) in answers.iter().enumerate() {
                let is_answered = answer.status.success() && answer.stdout == b"here";
                assert!(is_answered, "{transport}, {busy} busy, processor {processor}: {answer:?}");
            }
        }
    }
}

#[test]
fn the_kernel_reads_two_requests_ahead_and_lets_a_quarter_of_the_changed_pages_be_ours() {
    if !can_mount() || !is_root() {
        return;
    }
    for transport in transports() {
        let mount = mount(Kind::Image, transport);
        let device = fs::metadata(&mount.mnt).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let setting = |name| fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/{name}")).unwrap();
        assert_eq!(
            (setting("read_ahead_kb").trim(), setting("max_ratio").trim()),
            ("2048", "25"),
            "{transport}"
        );
        mount.umount();
    }
}

/// Clients that write and read until they meet an error.
fn work_until_it_fails(mnt: &Path, n: usize, over: &AtomicBool) {
    let path = mnt.join(format!("busy{n}"));
    let once = || -> std::io::Result<()> {
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        file.write_all(&pattern(n as u64, 50_000))?;
        if n.is_multiple_of(2) {
            file.sync_all()?;
        }
        let mut bytes = Vec::new();
        File::open(&path)?.read_to_end(&mut bytes)?;
        fs::remove_file(&path)
    };
    while once().is_ok() {
        assert!(!over.load(Ordering::SeqCst), "the connection is gone, and a client goes on");
    }
}

#[test]
fn clients_of_a_daemon_that_dies_or_is_aborted_fail_at_once_and_the_mount_can_be_replaced() {
    if !has_uring() {
        return;
    }
    for transport in ["uring", "dev"] {
        for is_killed in [true, false] {
            let mount = mount(Kind::Image, transport);
            fs::write(mount.path("kept"), pattern(7, 300_000)).unwrap();
            File::open(&mount.mnt).unwrap().sync_all().unwrap();
            let number = rustix::fs::minor(fs::metadata(&mount.mnt).unwrap().dev());
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let (mnt, over) = (&mount.mnt, &over);
                let clients: Vec<_> =
                    (0..8).map(|n| scope.spawn(move || work_until_it_fails(mnt, n, over))).collect();
                std::thread::sleep(Duration::from_millis(200));
                let daemon = mount.daemon_pid();
                if is_killed {
                    kill_process(daemon, Signal::KILL).unwrap();
                } else if fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1").is_err() {
                    // No fusectl here.
                    rustix::mount::unmount(mnt, rustix::mount::UnmountFlags::FORCE).ok();
                }
                eventually("all clients have failed", || clients.iter().all(|client| client.is_finished()));
                over.store(true, Ordering::SeqCst);
                eventually("the daemon ends", || rustix::process::test_kill_process(daemon).is_err());
            });
            // The dead mount is cleared, the log rolled forward.
            mount.mount_image(&["--transport", transport]);
            assert!(fs::read(mount.path("kept")).unwrap() == pattern(7, 300_000));
            mount.remount_image();
        }
    }
}

#[test]
fn an_unmount_under_load_leaves_nobody_waiting_and_loses_nothing_that_was_synced() {
    if !has_uring() {
        return;
    }
    for round in 0..4 {
        let mount = mount(Kind::Image, "uring");
        fs::write(mount.path("kept"), pattern(round, 100_000)).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (mnt, over) = (&mount.mnt, &over);
            let clients: Vec<_> = (0..6).map(|n| scope.spawn(move || work_in_rounds(mnt, n, over))).collect();
            std::thread::sleep(Duration::from_millis(100));
            // Busy: it is detached, and served until the last client is done.
            kill_process(mount.daemon_pid(), Signal::TERM).unwrap();
            eventually("it is unmounted", || !mount.is_mounted());
            over.store(true, Ordering::SeqCst);
            eventually("all clients are done", || clients.iter().all(|client| client.is_finished()));
        });
        mount.mount_image(&["--transport", "uring"]);
        assert!(fs::read(mount.path("kept")).unwrap() == pattern(round, 100_000));
        mount.remount_image();
    }
}

/// A client that may meet the unmount: then its files are not there, but no call waits for ever.
fn work_in_rounds(mnt: &Path, n: usize, over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        let path = mnt.join(format!("round{n}"));
        match fs::write(&path, pattern(n as u64, 30_000)).and_then(|()| fs::remove_file(&path)) {
            Ok(()) => {}
            // The directory beneath the mount, or the end of the connection.
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotConnected)
                        || error.raw_os_error() == Some(rustix::io::Errno::CONNABORTED.raw_os_error()),
                    "{error}"
                );
            }
        }
    }
}

/// A processor that can be taken offline. It is online again at the end, however the test ends.
struct Processor(String);

impl Processor {
    fn switch(&self, is_online: &str) -> std::io::Result<()> {
        fs::write(&self.0, is_online)
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        if let Err(error) = self.switch("1") {
            eprintln!("{} cannot be switched on again: {error}", self.0);
        }
    }
}

#[test]
fn a_processor_that_goes_offline_or_comes_back_is_served() {
    if !has_uring() {
        return;
    }
    let _alone = PROCESSORS.write().unwrap_or_else(PoisonError::into_inner);
    let last = std::thread::available_parallelism().unwrap().get() - 1;
    let processor = Processor(format!("/sys/devices/system/cpu/cpu{last}/online"));
    if last == 0 || processor.switch("1").is_err() {
        eprintln!("SKIPPED: NOT TESTED: no processor can be taken offline");
        return std::mem::forget(processor);
    }
    let before = mount(Kind::Image, "uring");
    processor.switch("0").unwrap();
    // Made while its processor is offline.
    let after = mount(Kind::Image, "uring");
    for (n, is_online) in ["0", "1"].into_iter().enumerate() {
        processor.switch(is_online).unwrap();
        for mount in [&before, &after] {
            shell(&mount.mnt, &WORK.replace("$1", &n.to_string()));
        }
    }
    for mount in [&before, &after] {
        shell(&mount.mnt, &format!("timeout -s KILL 10 taskset -c {last} touch from-there"));
        mount.remount_image();
    }
}

#[test]
fn a_daemon_that_is_confined_to_one_processor_stays_there_and_serves_callers_on_all() {
    if !can_mount() || !is_root() {
        return;
    }
    let _all_online = all_online();
    let processors = std::thread::available_parallelism().unwrap().get();
    for transport in transports() {
        let mount = mount(Kind::Image, transport);
        mount.umount();
        let (image, mnt) = (mount.image.to_str().unwrap(), mount.mnt.to_str().unwrap());
        let words = ["-c", "0", env!("CARGO_BIN_EXE_firn"), "mount", image, mnt, "--transport", transport];
        assert!(Command::new("taskset").args(words).status().unwrap().success());
        std::thread::scope(|scope| {
            for n in 0..processors * 2 {
                let mnt = &mount.mnt;
                scope.spawn(move || shell(mnt, &WORK.replace("$1", &n.to_string())));
            }
        });
        for processor in 0..processors {
            shell(&mount.mnt, &format!("timeout -s KILL 10 taskset -c {processor} touch from{processor}"));
        }
        let tasks = format!("/proc/{}/task", mount.daemon_pid());
        for task in fs::read_dir(tasks).unwrap() {
            // Threads come and go.
            let Ok(status) = fs::read_to_string(task.unwrap().path().join("status")) else { continue };
            assert!(status.contains("Cpus_allowed_list:\t0\n"), "{transport}: {status}");
        }
        mount.remount_image();
    }
}

/// What the end of the terminal's session signals, and Ctrl-C, is the group in the foreground.
#[test]
fn the_daemon_outlives_the_terminal_on_which_it_was_started() {
    if !can_mount() {
        return;
    }
    for transport in transports() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mnt");
        let path = path.to_str().unwrap();
        let program = env!("CARGO_BIN_EXE_firn");
        let start =
            format!("mkdir mnt; script -qec '{program} mount --memory 64M mnt --transport {transport}' log");
        shell(directory.path(), &start);
        // A signal would unmount it, which takes a moment.
        std::thread::sleep(Duration::from_millis(300));
        shell(directory.path(), "echo text > mnt/file; grep -q text mnt/file");
        let served = firn_json(&["stat", path, "--json"])["transport"].as_str().map(str::to_owned);
        firn_ok(&["umount", path]);
        let name = if *transport == "uring" { "io_uring" } else { "/dev/fuse" };
        assert_eq!(served.as_deref(), Some(name));
    }
}

/// The session's number, as text: 0 where its leader is outside of our namespace of processes, which rustix' `getsid` takes for a bug.
fn session_of(process: Pid) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // After the name: state, parent, group, session.
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned()
}

#[test]
fn threads_of_queues_are_preferred_and_only_then_the_daemon_stays_in_the_session() {
    if !can_mount() {
        return;
    }
    for transport in transports() {
        let mount = mount(Kind::Image, transport);
        // Over io_uring another thread waits for the device.
        write_synced(&mount.path("file"), b"text");
        let daemon = mount.daemon_pid();
        // `None` if it has ended.
        let processors = |thread: &Path| {
            let status = fs::read_to_string(thread.join("status")).ok()?;
            Some(status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned())
        };
        let all = processors(&Path::new("/proc").join(daemon.as_raw_nonzero().to_string())).unwrap();
        let is_preferred = *transport == "uring" && may_be_preferred();
        let is_in_our_session = session_of(daemon) == session_of(rustix::process::getpid());
        assert_eq!(is_in_our_session, is_preferred, "{transport}");
        assert_eq!(getpgid(Some(daemon)).unwrap(), daemon, "not in a group with the program that mounts");
        let (mut queues, mut waiting) = (0, 0);
        for entry in fs::read_dir(format!("/proc/{}/task", daemon.as_raw_nonzero())).unwrap() {
            let thread = entry.unwrap().path();
            let id = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
            // A thread may have ended since.
            let Ok(name) = fs::read_to_string(thread.join("comm")) else { continue };
            let Ok(nice) = getpriority_process(Pid::from_raw(id)) else { continue };
            let Some(may_run_on) = processors(&thread) else { continue };
            let (is_queue, waits) = (name.starts_with("firn-fuse/"), name.starts_with("firn-fuse-wait"));
            let expected = if (is_queue || waits) && is_preferred { -10 } else { 0 };
            assert_eq!(nice, expected, "{transport}: {name}");
            assert!(is_queue || may_run_on == all, "{transport}: {name} is pinned");
            queues += usize::from(is_queue);
            waiting += usize::from(waits);
        }
        assert_eq!((queues > 0, waiting > 0), (*transport == "uring", *transport == "uring"), "{transport}");
    }
}

/// There root has the capability, and still no right to a negative nice value.
#[test]
fn a_daemon_in_a_namespace_of_users_is_not_preferred_and_has_a_session_of_its_own() {
    if !has_uring() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    shell(directory.path(), "mkdir mnt");
    let firn = env!("CARGO_BIN_EXE_firn");
    let script = format!(
        "{firn} mount --memory 64M mnt --transport uring
         for p in /proc/[0-9]*; do
             [ \"$(readlink $p/ns/user)\" != \"$(readlink /proc/self/ns/user)\" ] ||
                 [ \"$(readlink $p/exe)\" != {firn} ] || daemon=${{p#/proc/}}
         done
         cut -d' ' -f5,6 /proc/$daemon/stat; echo $daemon
         for t in /proc/$daemon/task/*; do cut -d' ' -f19 $t/stat; done | sort -u
         {firn} umount mnt"
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-ec", &script])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = shown.lines().collect();
    let [group_and_session, daemon, nice] = lines[..] else { panic!("one daemon, one nice value: {shown}") };
    assert_eq!(group_and_session, format!("{daemon} {daemon}"));
    assert_eq!(nice, "0");
}

#[test]
fn what_cannot_be_had_is_refused_by_name() {
    if !can_mount() {
        return;
    }
    let line = complaint(&["mount", "--memory", "64M", "/mnt", "--transport", "pigeon"]);
    assert!(line.contains("pigeon") && line.contains("auto, uring or dev"), "{line}");
    if fs::read_to_string(PARAMETER).is_ok_and(|value| value.trim() == "Y") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let line = complaint(&["mount", "--memory", "64M", path, "-o", "transport=uring"]);
    assert!(line.contains("io_uring"), "{line}");
    assert!(!line.contains('\n'), "{line}");
}

/// What the daemon uses of the memory for which it has asked for huge pages, whether it got them or not, in KiB.
fn used_of_huge_kib(mount: &Mount) -> u64 {
    let maps = format!("/proc/{}/smaps", mount.daemon_pid().as_raw_nonzero());
    let (mut used, mut of_mapping) = (0, 0);
    for line in fs::read_to_string(maps).unwrap().lines() {
        if let Some(kib) = line.strip_prefix("Rss:") {
            of_mapping = kib.trim().trim_end_matches(" kB").parse().unwrap();
        } else if line.starts_with("VmFlags:") && line.split_whitespace().any(|flag| flag == "hg") {
            used += of_mapping;
        }
    }
    used
}

#[test]
fn a_large_file_is_read_into_huge_pages() {
    if !can_mount() || !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return;
    }
    for transport in transports() {
        let mount = mount(Kind::Image, transport);
        let content = pattern(3, 16 << 20);
        write_synced(&mount.path("large"), &content);
        mount.umount();
        mount.mount_image(&["--transport", transport]);
        // What recovery has read lies in such pages, too.
        let before_kib = used_of_huge_kib(&mount);
        assert!(fs::read(mount.path("large")).unwrap() == content);
        // Over io_uring few slots have such pages; the kernel has to take those.
        let used_kib = used_of_huge_kib(&mount).saturating_sub(before_kib);
        assert!(used_kib >= 1024, "{transport}: {used_kib} KiB");
    }
}
