//! What `stat`, `df` and `dump` show of volumes.

use crate::common::{Fixture, json, make_tree, ok, refused, text};
use crate::fsck::fsck;
use serde_json::Value;
use std::path::Path;

#[test]
fn a_volume_made_from_a_tree_shows_it_in_stat_and_dump() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--label", "test", "--from-dir", tree.path().to_str().unwrap()]);
    let image = fixture.image();

    let stat = json(&["stat", &image, "--json"]);
    assert_eq!(stat["log"]["label"], "test");
    assert_eq!(stat["log"]["recovery"]["cleanly_unmounted"], true);
    let inodes = stat["space"]["used_inodes"].as_u64().unwrap();
    assert_eq!(inodes, 6, "root, sub, deeper, small, large, link");
    let sum = |list: &Value, field: fn(&Value) -> Option<u64>| -> u64 {
        list.as_array().unwrap().iter().map(|item| field(item).unwrap()).sum()
    };
    let in_buckets = sum(&stat["log"]["utilisation_histogram"], Value::as_u64);
    assert_eq!(Some(in_buckets), stat["log"]["segments_in_use"].as_u64());

    let brief = ok(&["stat", &image]);
    assert!(
        brief.lines().count() <= 11 && brief.lines().skip(1).all(|line| line.chars().count() <= 80),
        "{brief}"
    );
    assert!(brief.contains("health      no damage met") && !brief.contains("checkpoints"), "{brief}");
    let counters = ok(&["stat", &image, "--counters"]);
    assert!(counters.starts_with(&brief) && counters.contains("checkpoints"), "{counters}");

    let cleaning = json(&["stat", &image, "--cleaning", "--json"]);
    let live_of_kinds = sum(&cleaning["kinds"], |row| row["live_bytes"].as_u64());
    assert_eq!(Some(live_of_kinds), stat["log"]["live_bytes"].as_u64());
    assert!(cleaning["kinds"][0]["live_bytes"].as_u64() >= Some(3_000_000), "{cleaning}");
    assert_eq!((&cleaning["since_mount"], &cleaning["stalls"]), (&Value::Null, &Value::Null));
    let shown = ok(&["stat", &image, "--cleaning"]);
    assert!(shown.contains("write cost") && shown.contains("usage table"), "{shown}");
    let df = ok(&["df", &image]);
    assert!(!df.contains("reclaimable") && df.contains(" withheld = "), "{df}");
    assert!(df.lines().count() == 3 && df.contains(&image), "a heading and two lines: {df}");
    let df = ok(&["df", "-v", &image]);
    assert!(df.contains(" reclaimable + ") && df.contains(" withheld = "), "{df}");
    // A program gets the whole path.
    let name_columns = image.chars().count();
    assert!(df.lines().all(|line| line.chars().count() <= 80.max(53 + name_columns)), "{df}");
    // The parts explain the whole difference between the volume and what df calls its size.
    let room = &stat["log"]["room"];
    let number = |value: &Value| value.as_u64().unwrap();
    let withheld: u64 = room["withheld"].as_object().unwrap().values().map(number).sum();
    let missing = number(&room["size_bytes"]) - number(&stat["space"]["total_bytes"]);
    assert_eq!(withheld + number(&room["fixed_bytes"]), missing, "{room}");

    let ifile = json(&["dump", &image, "--ifile", "--json"]);
    let untouched = ok(&["dump", &image, "--ifile"]);
    assert!(!untouched.contains("1970"), "{untouched}");
    let last = (number(&stat["log"]["segments"]) - 1).to_string();
    let last = ok(&["dump", &image, "--segment", &last]);
    assert!(last.contains("never written"), "{last}");
    // Details fit a terminal of 80 columns, too.
    let segment = ok(&["dump", &image, "--segment", "0"]);
    assert!(segment.contains(": in use, ") && segment.contains("crc      birth"), "{segment}");
    for shown in [untouched, segment, ok(&["dump", &image, "-v"]), ok(&["dump", &image, "--segments"])] {
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    }
    let listed = ifile["inode_entries"].as_array().unwrap();
    assert_eq!(listed.len() as u64, inodes);
    let live = sum(&ifile["segment_entries"], |segment| segment["live_bytes"].as_u64());
    assert_eq!(Some(live), stat["log"]["live_bytes"].as_u64());

    let large = listed
        .iter()
        .map(|entry| json(&["dump", &image, "--inode", &entry["inode"].to_string(), "--json"]))
        .find(|inode| inode["size_bytes"] == 3_000_000)
        .unwrap();
    let blocks = large["block_map"].as_array().unwrap();
    let number_that =
        |fits: fn(i64) -> bool| blocks.iter().filter(|block| fits(block["block"].as_i64().unwrap())).count();
    assert_eq!(number_that(|block| block >= 0), 3_000_000usize.div_ceil(4096));
    // 12 direct pointers, then 256 in each indirect block: one single, one double, two below the double.
    assert_eq!(number_that(|block| block < 0), 4);
}

#[test]
fn every_inode_record_is_found_in_the_segment_that_its_pointer_names() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let image = fixture.image();
    let ifile = json(&["dump", &image, "--ifile", "--json"]);
    let mut checked = 0;
    for entry in ifile["inode_entries"].as_array().unwrap() {
        let inode = json(&["dump", &image, "--inode", &entry["inode"].to_string(), "--json"]);
        let segment = json(&["dump", &image, "--segment", &inode["record"]["segment"].to_string(), "--json"]);
        let partials = segment["partials"].as_array().unwrap();
        let record = partials
            .iter()
            .flat_map(|partial| partial["summary_entries"].as_array().unwrap())
            .find(|e| e["what"] == "inode" && e["inode"] == inode["inode"] && e["ptr"] == inode["record"]);
        assert_eq!(record.unwrap()["good"], true);
        checked += 1;
    }
    assert!(checked >= 6);
}

#[test]
fn stat_and_df_of_a_mount_say_what_stat_of_the_image_said() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: /dev/fuse is missing, nothing was mounted");
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let (image, mnt) = (fixture.image(), fixture.path("mnt"));
    std::fs::create_dir(&mnt).unwrap();
    let mnt = mnt.to_str().unwrap();
    let before = json(&["stat", &image, "--json"]);
    ok(&["mount", &image, mnt]);
    let mounted = json(&["stat", &format!("{mnt}/sub/large"), "--json"]);
    let by_image = json(&["stat", &image, "--json"]);
    let df = json(&["df", mnt, "--json"]);
    let same = std::fs::read(format!("{mnt}/sub/large")).unwrap()
        == std::fs::read(tree.path().join("sub/large")).unwrap();
    let busy = refused(&["mkfs", &image, "--force"], 4);
    ok(&["umount", mnt]);

    assert!(same);
    assert!(busy.contains("is mounted on"), "{busy}");
    assert_eq!(mounted["log"]["uuid"], before["log"]["uuid"]);
    assert_eq!(mounted["space"]["used_inodes"], before["space"]["used_inodes"]);
    assert_eq!(mounted["mountpoint"], mnt);
    assert_eq!((&mounted["image"], &mounted["mountpoint"]), (&by_image["image"], &by_image["mountpoint"]));
    assert_eq!(df["volumes"][0]["log"]["uuid"], before["log"]["uuid"]);
    assert_eq!(json(&["stat", &image, "--json"])["log"]["recovery"]["cleanly_unmounted"], true);
}

#[test]
fn dump_begins_with_a_map_and_lists_segments_in_the_order_asked_for() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    let fixture = Fixture::new(&["--from-dir", tree.path().to_str().unwrap()]);
    let image = fixture.image();
    let stat = json(&["stat", &image, "--json"]);
    let (brief, full) = (ok(&["dump", &image]), ok(&["dump", &image, "-v"]));
    assert!(brief.starts_with("segments ") && brief.contains("H head of a log"), "{brief}");
    assert!(brief.lines().count() < 35 && full.lines().count() > brief.lines().count() + 20, "{full}");
    // One cell is one segment here.
    let row = |line: &&str| line.starts_with("     ") && line.trim_start().starts_with(char::is_numeric);
    let cells: String = brief.lines().filter(row).filter_map(|line| line.split_whitespace().nth(1)).collect();
    let clean = cells.chars().filter(|cell| *cell == '.').count() as u64;
    let number = |name: &str| stat["log"][name].as_u64().unwrap();
    assert_eq!(cells.chars().count() as u64, number("segments"), "{brief}");
    // A log's head hides the state of its segment, which may be clean.
    let heads = cells.chars().filter(|cell| *cell == 'H').count() as u64;
    let really_clean = number("segments") - number("segments_in_use");
    assert!(heads > 0 && clean <= really_clean && clean + heads >= really_clean, "{brief}");

    let entries = |order: &[&str]| {
        let shown = json(&[&["dump", &image, "--segments", "--json"], order].concat());
        shown["segment_entries"].as_array().unwrap().clone()
    };
    let by = |order: &str| entries(&["--sort", order]);
    assert_eq!(entries(&[]).len() as u64, number("segments_in_use"));
    assert_eq!(entries(&[]), by("segment"));
    assert!(by("segment").is_sorted_by_key(|entry| entry["segment"].as_u64()));
    assert!(by("live").is_sorted_by_key(|entry| entry["live_bytes"].as_u64()) && by("live") != by("segment"));
    assert!(by("age").is_sorted_by_key(|entry| entry["written"].as_str().map(str::to_owned)));
    let text = ok(&["dump", &image, "--segments", "--sort", "live"]);
    assert_eq!(text.lines().count() as u64, 1 + number("segments_in_use"), "{text}");
}

#[test]
fn dump_finds_an_inode_by_its_path() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path());
    for kind in ["log", "ffs"] {
        let fixture = Fixture::new(&["--type", kind, "--from-dir", tree.path().to_str().unwrap()]);
        let image = fixture.image();
        let by = |inode: &str| json(&["dump", &image, "--inode", inode, "--json"]);
        let large = by("/sub/large");
        assert_eq!(large["size_bytes"], 3_000_000, "{large:#}");
        assert_eq!(by(&large["inode"].to_string()), large, "the number leads to the same");
        assert_eq!(by("sub/deeper/../large"), large);
        let lines = ok(&["dump", &image, "--inode", "/sub/large"]);
        assert!(lines.lines().count() < 40, "neighbouring blocks are one run: {lines}");
        assert_eq!(by("/"), by("1"));
        for wrong in ["/sub/none", "small/below a file"] {
            assert!(refused(&["dump", &image, "--inode", wrong], 1).contains("has no file"), "{kind}");
        }
    }
}

#[test]
fn a_fast_file_system_is_shown_by_its_groups_and_found_by_a_copy_of_its_superblock() {
    let fixture = Fixture::new(&["--type", "ffs", "--variant", "m8r2", "--smart-frag"]);
    let image = fixture.image();
    let (stat, dump) = (json(&["stat", &image, "--json"]), json(&["dump", &image, "--json"]));
    let fast = &stat["ffs"];
    assert!(stat["log"].is_null() && fast["maxcontig"] == 8 && fast["policies"][0] == "smart-frag", "{fast}");
    let groups = dump["descriptors"].as_array().unwrap();
    assert!(groups.len() >= 2 && fast["groups"] == groups.len());
    for (sum, of) in
        [("free_blocks", "free_blocks"), ("free_inodes", "free_inodes"), ("directories", "directories")]
    {
        let added: u64 = groups.iter().map(|group| group[of].as_u64().unwrap()).sum();
        assert_eq!(fast[sum], added, "{sum}");
    }
    assert_eq!(json(&["df", &image, "--json"])["volumes"][0]["space"], stat["space"]);
    let root = json(&["dump", &image, "--inode", "1", "--json"]);
    assert_eq!((root["kind"].as_str(), root["links"].as_u64()), (Some("directory"), Some(2)));
    assert!(
        ok(&["stat", &image]).contains("Fast File System") && ok(&["dump", &image]).contains("free blocks")
    );
    assert!(refused(&["dump", &image, "--segment", "0"], 2).contains("no segments"));
    assert!(refused(&["stat", &image, "--cleaning"], 4).contains("Fast File System"));

    // The first superblock is at 4096.
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 4096).unwrap();
    assert_eq!(json(&["stat", &image, "--json"])["ffs"], *fast);
    let damaged = json(&["dump", &image, "--json"]);
    assert!(
        damaged["cleanly_unmounted"].is_null() && damaged["damaged_copies"] == serde_json::json!([0]),
        "{damaged}"
    );
    let (exit, view, _) = fsck(&[&image]);
    assert!(
        exit == 4 && view["findings"][0]["text"].as_str().unwrap().contains("copy of the superblock"),
        "{view}"
    );
    let (exit, view, _) = fsck(&[&image, "--repair", "--yes"]);
    assert!(exit == 1 && view["sound"] == true, "{view}");
    assert_eq!(fsck(&[&image]).0, 0);
}

/// Runs `firn` on a terminal of its own, with more variables.
fn on_terminal(words: &str, variables: &[(&str, &str)]) -> String {
    let mut command = std::process::Command::new("script");
    command.args(["--quiet", "--return", "--command"]);
    command.arg(format!("{} {words}", env!("CARGO_BIN_EXE_firn"))).arg("/dev/null");
    command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{words}: {}", text(&output.stderr));
    text(&output.stdout).replace('\r', "")
}

#[test]
fn terminals_have_colours_which_change_no_word_and_nothing_else_has() {
    let fixture = Fixture::new(&[]);
    let image = fixture.image();
    for words in ["stat", "dump"] {
        let plain = ok(&[words, &image]);
        assert!(!plain.contains('\u{1b}'), "{plain}");
        let colourful = ok(&[words, &image, "--color", "always"]);
        assert!(colourful.contains("\u{1b}["), "{colourful}");
        let mut without = colourful;
        while let Some(at) = without.find('\u{1b}') {
            let end = at + without[at..].find('m').unwrap();
            without.replace_range(at..=end, "");
        }
        assert_eq!(without, plain);
    }
    let is_colourful = |words: &str, variables: &[(&str, &str)]| {
        on_terminal(&format!("{words} {image}"), variables).contains('\u{1b}')
    };
    assert!(is_colourful("stat", &[]));
    assert!(!is_colourful("stat", &[("NO_COLOR", "1")]));
    assert!(!is_colourful("stat", &[("TERM", "dumb")]));
    assert!(!is_colourful("--color never stat", &[]));
    assert!(is_colourful("stat --help", &[]) && !is_colourful("--color never stat --help", &[]));
    assert!(!is_colourful("--color always stat --json", &[]), "JSON is for programs");
}

#[test]
fn a_count_of_one_is_singular_and_no_line_of_stat_is_too_long() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("file"), "a few bytes").unwrap();
    let home = tempfile::tempdir().unwrap();
    for kind in ["log", "ffs"] {
        let image = home.path().join(kind).to_str().unwrap().to_owned();
        let from = tree.path().to_str().unwrap();
        let made = ok(&["mkfs", &image, "--type", kind, "--size", "128M", "--from-dir", from]);
        let checked = ok(&["fsck", &image]);
        let stat = ok(&["stat", &image]);
        let dumped = ok(&["dump", &image]);
        assert!(made.contains("copied 1 file with"), "{made}");
        assert!(checked.contains("2 inodes (1 directory, 1 entry)"), "{checked}");
        assert!(stat.lines().skip(1).all(|line| line.chars().count() <= 80), "{stat}");
        let many = ["files", "directories", "entries", "links", "segments", "blocks", "inodes", "mounts"];
        let all = [made, checked, stat, dumped].concat().replace(['(', '\n'], " ");
        let wrong = many.map(|noun| format!(" 1 {noun}")).into_iter().find(|wrong| all.contains(wrong));
        assert_eq!(wrong, None, "{all}");
    }
}
