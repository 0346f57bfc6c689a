//! The JSON of commands that need a mount is as docs/json-schema.json says.

use crate::common::{Kind, Mount, can_mount, firn_json, pattern, write_synced};

#[test]
fn what_commands_say_of_mounts_is_as_documented() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "256M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    let recorded = tempfile::tempdir().unwrap();
    let recorded = recorded.path().join("day.fwl");
    crate::common::firn_ok(&["record", mnt, "start", recorded.to_str().unwrap()]);
    write_synced(&mount.path("file"), &pattern(1, 4 << 20));
    let file = mount.path("file");
    let (file, at_one) = (file.to_str().unwrap(), &*format!("{mnt}@one"));
    let stream = recorded.with_file_name("stream");
    let (stream, clone) = (stream.to_str().unwrap(), recorded.with_file_name("work"));
    let clone = clone.to_str().unwrap();
    for (words, command) in [
        (&["stat", mnt][..], "stat"),
        (&["stat", mnt, "--requests"], "stat"),
        (&["stat", mnt, "--cleaning"], "stat"),
        (&["df", mnt], "df"),
        (&["df"], "df"),
        (&["record", mnt, "status"], "record status"),
        (&["record", mnt, "stop"], "record stop"),
        (&["record", mnt, "status"], "record status"),
        (&["quota", mnt, "--on"], "quota"),
        (&["quota", mnt, "--set", "blocks=1G:2G,inodes=5:10", "--user", "1000"], "quota"),
        (&["quota", mnt], "quota"),
        (&["quota", mnt, "--check"], "quota"),
        (&["tune", mnt], "tune"),
        (&["tune", mnt, "commit=2"], "tune"),
        (&["retain", mnt], "retain"),
        (&["retain", mnt, "--keep", "all:1h daily:2w", "--at-most", "20%"], "retain"),
        (&["trim", mnt], "trim"),
        (&["resize", mnt, "+64M"], "resize"),
        (&["resize", mnt, "-64M"], "resize"),
        (&["snapshot", mnt, "one"], "snapshot"),
        (&["snapshot", mnt, "--list"], "snapshot"),
        (&["log", mnt], "log"),
        (&["log", file], "log"),
        (&["restore", file, "--force"], "restore"),
        (&["undelete", mnt], "undelete"),
        (&["diff", at_one], "diff"),
        (&["send", at_one, "--output", stream], "send"),
        (&["clone", mnt, "one", clone], "clone"),
        (&["clone", mnt, "--list"], "clone"),
        (&["clone", mnt, "--delete", clone], "clone"),
        (&["snapshot", mnt, "two"], "snapshot"),
        (&["snapshot", mnt, "--delete", "two"], "snapshot"),
        (&["freeze", mnt], "freeze"),
        (&["thaw", mnt], "thaw"),
        (&["scrub", mnt], "scrub"),
        (&["clean", mnt, "--once"], "clean"),
        (&["clean", mnt, "--coalesce"], "clean"),
    ] {
        let said = firn_json(&[words, &["--json"]].concat());
        assert_eq!(said["command"], command);
        if words.contains(&"--requests") {
            let writes =
                said["by_request"].as_array().unwrap().iter().find(|line| line["request"] == "write");
            let writes = writes.unwrap();
            assert!(writes["requests"].as_u64() >= Some(4), "{said:#}");
            let [busy, p50, p99] = ["busy_ms", "p50_ms", "p99_ms"].map(|name| writes[name].as_f64().unwrap());
            assert!(0.0 < p50 && p50 <= p99, "{said:#}");
            // The longest is at least the mean; the 99th in 100 of a few writes is the longest.
            assert!(p99 >= busy / writes["requests"].as_f64().unwrap(), "{said:#}");
        }
    }
    let workload = firn_json(&["workload", "info", recorded.to_str().unwrap(), "--json"]);
    assert_eq!(workload["workloads"][0]["whole"], true);
}
