//! Metrics of real mounts: the text keeps to the grammar of OpenMetrics, its numbers are those of `firn stat --json`, counters never
//! fall, and the dashboard and the alerts ask for nothing that does not exist.

use crate::common::{Kind, Mount, can_mount, eventually, firn, firn_ok, pattern};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// A page of metrics that has passed the grammar.
#[derive(Debug)]
struct Page {
    /// Name and type of each family.
    families: BTreeMap<String, String>,
    /// Samples by name with labels.
    samples: BTreeMap<String, f64>,
}

fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Splits a sample into name, labels (as written) and value; checks each part.
fn sample(line: &str) -> (String, String, f64) {
    let name_end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(name_end);
    assert!(is_name(name), "{line}");
    let labels_begin = rest;
    let mut names = BTreeSet::new();
    if let Some(labels) = rest.strip_prefix('{') {
        rest = labels;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(label) && names.insert(label), "{line}");
            let mut escaped = false;
            let end = after.find(|c| {
                let ends = c == '"' && !escaped;
                assert!(!escaped || matches!(c, '\\' | '"' | 'n'), "{line}");
                escaped = c == '\\' && !escaped;
                ends
            });
            rest = &after[end.unwrap_or_else(|| panic!("{line}")) + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap_or_else(|| panic!("{line}"));
    }
    let labels = &labels_begin[..labels_begin.len() - rest.len()];
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    let number: f64 = value.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
    assert!(
        number.is_finite() && value.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)),
        "{line}"
    );
    (name.to_owned(), labels.to_owned(), number)
}

/// Parses as strictly as OpenMetrics 1.0 is written, for the types that are used here.
fn parse(text: &str) -> Page {
    let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
    let mut page = Page { families: BTreeMap::new(), samples: BTreeMap::new() };
    let (mut family, mut said) = (String::new(), BTreeSet::new());
    for line in body.lines() {
        assert!(!line.is_empty() && line.trim() == line && !line.contains('\t'), "{line:?}");
        if let Some(words) = line.strip_prefix("# ") {
            let mut words = words.splitn(3, ' ');
            let (what, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            assert!(is_name(name) && name.starts_with("firnfs_") && !name.ends_with("_total"), "{line}");
            if name != family {
                assert!(!page.families.contains_key(name), "samples of a family stand together: {line}");
                (family, said) = (name.to_owned(), BTreeSet::new());
            }
            assert!(said.insert(what.to_owned()), "twice: {line}");
            match what {
                "HELP" => assert!(!rest.is_empty(), "{line}"),
                "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                "TYPE" => {
                    assert!(["counter", "gauge"].contains(&rest), "{line}");
                    page.families.insert(name.to_owned(), rest.to_owned());
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, labels, value) = sample(line);
        let kind = page.families.get(&family).unwrap_or_else(|| panic!("no type: {line}"));
        let expected = if kind == "counter" { format!("{family}_total") } else { family.clone() };
        assert_eq!(name, expected, "{line}");
        assert!(said.contains("HELP") && value >= 0.0, "{line}");
        let units = ["bytes", "seconds"].iter().any(|unit| family.ends_with(unit));
        assert_eq!(units, said.contains("UNIT"), "{line}");
        assert!(page.samples.insert(format!("{name}{labels}"), value).is_none(), "twice: {line}");
    }
    assert!(!page.samples.is_empty());
    page
}

impl Page {
    /// The value of a sample with only the label of the volume, and further labels as written.
    fn value(&self, source: &Path, name: &str, more: &str) -> f64 {
        let key = format!("{name}{{source=\"{}\"{more}}}", source.display());
        *self.samples.get(&key).unwrap_or_else(|| panic!("{key}: {self:#?}"))
    }
}

fn scrape(mount: &Mount) -> Page {
    let address = mount.control(r#"{"op":"metrics"}"#)["address"].as_str().unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    parse(body)
}

fn stat(mount: &Mount) -> Value {
    serde_json::from_str(&firn_ok(&["stat", mount.mnt.to_str().unwrap(), "--json"])).unwrap()
}

fn from_command(path: &Path) -> Page {
    parse(&firn_ok(&["stat", path.to_str().unwrap(), "--openmetrics"]))
}

#[test]
fn the_metrics_of_a_mount_are_the_numbers_of_stat_and_counters_never_fall() {
    if !can_mount() {
        return;
    }
    // Nothing becomes due while it is compared.
    let mount = Mount::with(Kind::Image, "128M", &["-o", "metrics=0,checkpoint=3600,nocoalesce"]);
    let before = scrape(&mount);
    for number in 0..50 {
        fs::write(mount.path(&format!("file {number}")), pattern(number, 100_000)).unwrap();
    }
    mount.sync();
    // The daemon looks again after a second.
    let mut page = before;
    let image = mount.image.clone();
    eventually("what was written shows", || {
        let now = scrape(&mount);
        for (name, was) in page.samples.iter().filter(|(name, _)| name.contains("_total{")) {
            assert!(now.samples[name] >= *was, "{name} fell from {was}");
        }
        page = now;
        page.value(&image, "firnfs_user_bytes_total", "") >= 5_000_000.0
            && page.value(&image, "firnfs_requests_total", ",request=\"write\"") >= 50.0
    });
    let stat = stat(&mount);
    let number = |pointer: &str| {
        stat.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {stat}"))
    };
    for (name, more, pointer) in [
        ("firnfs_size_bytes", "", "/space/total_bytes"),
        ("firnfs_free_bytes", "", "/space/free_bytes"),
        ("firnfs_inodes_used", "", "/space/used_inodes"),
        ("firnfs_segments", "", "/log/segments"),
        ("firnfs_segments_in_use", "", "/log/segments_in_use"),
        ("firnfs_room_bytes", ",place=\"live\"", "/log/room/live_bytes"),
        ("firnfs_room_bytes", ",place=\"clean\"", "/log/room/clean_bytes"),
        ("firnfs_segments_by_utilisation", ",below=\"1.0\"", "/log/utilisation_histogram/9"),
        ("firnfs_stalls_total", "", "/log/cleaning/stalls/count"),
    ] {
        assert_eq!(page.value(&image, name, more), number(pointer), "{name}{more}");
    }
    for counter in stat["log"]["counters"].as_array().unwrap() {
        let name = format!("firnfs_{}_total", counter[0].as_str().unwrap());
        assert_eq!(page.value(&image, &name, ""), counter[1].as_f64().unwrap(), "{name}");
    }
    let quantile = |name: &str| page.value(&image, name, ",request=\"write\"");
    let (p50, p99) = (quantile("firnfs_request_p50_seconds"), quantile("firnfs_request_p99_seconds"));
    assert!(0.0 < p50 && p50 <= p99 && p99 < 138.0, "{p50} {p99}");
    assert_eq!(page.value(&image, "firnfs_failed", ""), 0.0);
    let frozen = || scrape(&mount).value(&image, "firnfs_frozen", "");
    assert_eq!(frozen(), 0.0);
    firn_ok(&["freeze", mount.mnt.to_str().unwrap()]);
    eventually("the freeze shows", || frozen() == 1.0);
    firn_ok(&["thaw", mount.mnt.to_str().unwrap()]);
    eventually("the thaw shows", || frozen() == 0.0);
    // Both ways tell the same.
    assert_eq!(from_command(&mount.mnt).families, page.families);
    mount.umount();
    let unmounted = from_command(&image);
    assert_eq!(unmounted.value(&image, "firnfs_user_bytes_total", ""), 5_000_000.0);
    assert_eq!(unmounted.value(&image, "firnfs_failed", ""), 0.0, "opened read-only by the command");
}

#[test]
fn every_kind_of_volume_has_metrics_and_an_unmount_ends_their_server() {
    if !can_mount() {
        return;
    }
    for kind in [Kind::Memory, Kind::Fast] {
        let mount = Mount::with(kind, "64M", &["-o", "metrics=0"]);
        let address = mount.control(r#"{"op":"metrics"}"#)["address"].as_str().unwrap().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        let page = scrape(&mount);
        assert!(
            page.families.contains_key("firnfs_free_bytes") && !page.families.contains_key("firnfs_segments")
        );
        // A client that says nothing does not keep the volume open.
        let silent = TcpStream::connect(&address).unwrap();
        mount.umount();
        drop(silent);
        assert!(TcpStream::connect(&address).is_err());
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let directory = tempfile::tempdir().unwrap();
    let refused = firn(&[
        "mount",
        "--memory",
        "16M",
        directory.path().to_str().unwrap(),
        "-o",
        &format!("metrics={port}"),
    ]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && told.contains(&port.to_string()), "{told}");
}

#[test]
fn the_dashboard_the_alerts_and_the_documentation_name_metrics_that_exist() {
    if !can_mount() {
        return;
    }
    let mut known = BTreeSet::new();
    for kind in [Kind::Image, Kind::Fast] {
        let mount = Mount::with(kind, "64M", &["-o", "metrics=0"]);
        fs::write(mount.path("file"), "x").unwrap();
        for (name, kind) in scrape(&mount).families {
            known.insert(if kind == "counter" { format!("{name}_total") } else { name });
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in [
        "examples/monitoring/grafana-dashboard.json",
        "examples/monitoring/firnfs.rules.yml",
        "docs/monitoring.md",
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        if file.ends_with("json") {
            let dashboard: Value = serde_json::from_str(&text).unwrap();
            assert!(dashboard["panels"].as_array().unwrap().len() > 5);
        }
        let starts = text.match_indices("firnfs_").map(|(at, _)| &text[at..]);
        let names =
            starts.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap());
        let names: BTreeSet<&str> = names.collect();
        assert!(names.len() > 5, "{file}");
        for name in names {
            assert!(known.contains(name), "{file} asks for {name}; there are {known:?}");
        }
    }
}
