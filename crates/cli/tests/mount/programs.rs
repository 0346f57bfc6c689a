//! Common programs on a real mount, over the memory store and over an image.

use crate::common::{ALL, Held, Kind, Mount, can_mount, shell};
use std::path::Path;

/// This project's own sources: a real tree that always exists.
fn sources() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap().display().to_string()
}

#[test]
fn git_clones_and_commits_and_its_fsck_reports_nothing() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let script = format!(
            "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
                    GIT_COMMITTER_EMAIL=a@b
             git init -q -b main one; cp -r {}/fs/src one/; cd one; git add -A; git commit -qm first
             for n in 1 2 3 4 5; do echo $n >> file; git add file; git commit -qm $n; done
             git branch side HEAD~2; git checkout -q side; echo s > other; git add other; git commit -qm side
             git checkout -q main; git merge -q -m merged side; git gc -q --prune=now
             cd ..; git clone -q one two; cd two; git fsck --strict 2>&1; git status --short; git log --oneline | wc -l",
            sources()
        );
        assert_eq!(shell(&mount.mnt, &script), "8\n", "{kind:?}");
        if kind.is_kept() {
            mount.remount_image();
            assert_eq!(
                shell(&mount.mnt, "cd two; git fsck --strict 2>&1; git diff --stat HEAD; git status --short"),
                ""
            );
        }
    }
}

#[test]
fn tar_and_rsync_copy_a_tree_unchanged() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let sources = sources();
        let script = format!(
            "mkdir tar rsync
             tar -C {sources} -cf - . | tar -C tar -xpf -
             rsync -aHAX {sources}/ rsync/
             rsync -aHAX --checksum --itemize-changes {sources}/ rsync/
             diff -r {sources} tar && diff -r {sources} rsync"
        );
        assert_eq!(shell(&mount.mnt, &script), "", "{kind:?}");
        if kind.is_kept() {
            mount.remount_image();
            assert_eq!(shell(&mount.mnt, &format!("diff -r {sources} tar; rm -rf tar rsync; ls -A")), "");
        }
    }
}

#[test]
fn sqlite_keeps_its_transactions_in_both_journal_modes() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        for mode in ["wal", "delete"] {
            let script = format!(
                "sqlite3 {mode}.db 'pragma journal_mode={mode}; create table t(a integer primary key, b blob);' >/dev/null
                 (for i in 1 2 3 4 5 6 7 8 9 10; do
                     sqlite3 -cmd '.timeout 20000' {mode}.db \"with recursive c(x) as (select 1 union all select x+1 from c where x<200)
                         insert into t(b) select randomblob(500) from c;\"
                  done) &
                 for i in 1 2 3 4 5 6 7 8 9 10; do
                     sqlite3 -cmd '.timeout 20000' {mode}.db 'begin immediate; insert into t(b) values(zeroblob(9000)); rollback;'
                     sqlite3 -cmd '.timeout 20000' {mode}.db 'select count(*) % 200 from t;'
                 done | sort -u
                 wait
                 sqlite3 {mode}.db 'delete from t where a % 3 = 0; vacuum; pragma integrity_check; select count(*) from t;'"
            );
            assert_eq!(shell(&mount.mnt, &script), "0\nok\n1334\n", "{kind:?} {mode}");
        }
    }
}

#[test]
fn a_compiler_builds_a_program_that_runs_from_the_mount() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let script = "i=0; while [ $i -lt 40 ]; do
                printf 'int f%d(int x) { return x + %d; }\\n' $i $i > f$i.c; i=$((i + 1))
            done
            { i=0; while [ $i -lt 40 ]; do echo \"int f$i(int);\"; i=$((i + 1)); done
              echo 'int main(void) { int s = 0;'
              i=0; while [ $i -lt 40 ]; do echo \"s = f$i(s);\"; i=$((i + 1)); done
              echo 'return s == 780 ? 0 : 1; }'; } > main.c
            ls *.c | xargs -P 4 -n 5 gcc -O1 -c
            ar rcs libf.a f*.o; gcc -o program main.o -L. -lf; ./program && echo right";
        assert_eq!(shell(&mount.mnt, script), "right\n", "{kind:?}");
    }
}

#[test]
fn shared_mappings_of_two_processes_and_writes_agree() {
    if !can_mount() {
        return;
    }
    let helper = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mount/mapped.c");
    for kind in ALL {
        let mount = Mount::new(kind);
        // The program itself runs from the mount, through a private mapping.
        let script = format!("gcc -O1 -o mapped {helper}; ./mapped data; stat -c %s data");
        assert_eq!(shell(&mount.mnt, &script), "ok\n4194304\n", "{kind:?}");
        if kind.is_kept() {
            let sum = shell(&mount.mnt, "sha256sum data");
            mount.remount_image();
            assert_eq!(shell(&mount.mnt, "sha256sum data"), sum);
        }
    }
}

#[test]
fn what_a_program_wrote_through_a_mapping_survives_a_killed_daemon_after_a_sync() {
    if !can_mount() {
        return;
    }
    let helper = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mount/mapped.c");
    let directory = tempfile::tempdir().unwrap();
    shell(directory.path(), &format!("gcc -O1 -o mapped {helper}"));
    let mount = Mount::new(Kind::Image);
    let held = Held::mapped(&directory.path().join("mapped"), &mount.path("held"));
    mount.sync();
    rustix::process::kill_process(mount.daemon_pid(), rustix::process::Signal::KILL).unwrap();
    drop(held);
    mount.mount_image(&[]);
    assert_eq!(std::fs::read(mount.path("held")).unwrap(), Held::content());
}

#[test]
fn with_the_writeback_cache_programs_agree_and_what_was_synced_survives_a_killed_daemon() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "512M", &["--writeback"]);
    assert_eq!(mount.control(r#"{"op":"info"}"#)["writeback_cache"], true);
    let sources = sources();
    let script = format!(
        "mkdir tree; cp -rp {sources}/fs tree/
         for n in $(seq 1 200); do echo line $n >> log; done
         sqlite3 base.db 'pragma journal_mode=wal; create table t(a); insert into t values(1),(2);' > /dev/null
         dd if=/dev/urandom of=random bs=8k count=400 conv=fsync 2> /dev/null
         dd if=random of=random bs=4k count=10 seek=100 conv=notrunc,fsync 2> /dev/null
         touch -d '2001-02-03 04:05:06' log; truncate -s 1000 tree/fs/Cargo.toml
         sync; cksum random log tree/fs/Cargo.toml; stat -c '%s %Y' log"
    );
    let before = shell(&mount.mnt, &script);
    let held = Held::written(mount.path("held"));
    mount.sync();
    rustix::process::kill_process(mount.daemon_pid(), rustix::process::Signal::KILL).unwrap();
    drop(held);
    mount.mount_image(&["--writeback"]);
    let after = shell(&mount.mnt, "cksum random log tree/fs/Cargo.toml; stat -c '%s %Y' log");
    assert_eq!(after, before);
    assert_eq!(
        std::fs::read(mount.path("held")).unwrap(),
        Held::content(),
        "the kernel held it until the sync"
    );
    assert_eq!(
        shell(&mount.mnt, "sqlite3 base.db 'pragma integrity_check; select count(*) from t;'"),
        "ok\n2\n"
    );
    let differs = format!("diff -r {sources}/fs tree/fs -x Cargo.toml");
    assert_eq!(shell(&mount.mnt, &differs), "");
}
