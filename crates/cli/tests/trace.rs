//! `firn workload generate` and `firn sim trace` as users run them.

mod schema;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn firn(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firn")).args(words).output().unwrap()
}

fn json(words: &[&str]) -> Value {
    let output = firn(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    schema::parse(&String::from_utf8(output.stdout).unwrap())
}

fn refused(words: &[&str], code: i32) -> String {
    let output = firn(words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    stderr
}

/// A twentieth of a day of Attic, with a hundredth of its files.
fn attic(directory: &tempfile::TempDir, name: &str) -> String {
    let path = directory.path().join(name).to_str().unwrap().to_owned();
    let words = ["workload", "generate", "attic", "-o", &path, "--days", "0.05", "--files", "0.01", "--json"];
    let made = json(&words);
    assert!(made["records"].as_u64().unwrap() > 10_000, "{made}");
    path
}

#[test]
fn a_generated_trace_says_that_it_is_synthetic_and_is_the_same_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (attic(&directory, "a.fwl"), attic(&directory, "b.fwl"));
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
    let info = &json(&["workload", "info", &first, "--json"])["workloads"][0];
    assert_eq!((&info["origin"], &info["whole"]), (&"made".into(), &true.into()));
    assert!(info["options"][0].to_string().contains("synthetic"), "{info}");
    refused(&["workload", "generate", "attic", "-o", &first], 1);
}

#[test]
fn a_trace_is_replayed_under_both_models_and_gives_the_same_results_again() {
    let directory = tempfile::tempdir().unwrap();
    let trace = attic(&directory, "a.fwl");
    let replayed = || {
        let mut said = json(&["sim", "trace", &trace, "--json"]);
        for replay in said["replays"].as_array_mut().unwrap() {
            for measured in ["records_per_s", "processor_records_per_s"] {
                assert!(replay[measured].take().as_f64().unwrap() > 0.0);
            }
        }
        said
    };
    let said = replayed();
    assert_eq!(said, replayed());
    let replays = said["replays"].as_array().unwrap();
    assert_eq!((&replays[0]["model"], &replays[1]["model"]), (&"async".into(), &"sync".into()));
    let number = |at: usize, name: &str| replays[at][name].as_f64().unwrap();
    assert!(number(1, "user_requests") > number(0, "user_requests"), "{said}");
    assert!((number(0, "utilisation_percent") - 90.0).abs() < 3.0, "{said}");
    let matched = number(0, "creates_matched") / number(0, "creates_without_file");
    assert!(matched > 0.9, "{said}");
    // The text of the same fits the terminal.
    let text = String::from_utf8(firn(&["sim", "trace", &trace, "--model", "async"]).stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_recorded_trace_fits_a_disk_as_full_as_asked() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces/git.fwl");
    for utilisation in ["0.1", "0.3", "0.5"] {
        let said = json(&["sim", "trace", path, "--model", "async", "--utilisation", utilisation, "--json"]);
        let wanted: f64 = utilisation.parse().unwrap();
        let found = said["replays"][0]["utilisation_percent"].as_f64().unwrap() / 100.0;
        assert!((found - wanted).abs() < 0.04, "{utilisation}: {said}");
    }
}

#[test]
fn a_replay_is_watched_as_a_mount_is() {
    let directory = tempfile::tempdir().unwrap();
    let trace = attic(&directory, "a.fwl");
    let said = refused(&["sim", "trace", &trace, "--model", "both", "--watch"], 2);
    assert!(said.contains("one replay") && said.contains("--model"), "{said}");
    let recording = directory.path().join("a.fww").to_str().unwrap().to_owned();
    let shown = |words: &[&str]| {
        let output = firn(words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = shown(&["sim", "trace", &trace, "--watch", "--json", "--record", &recording]);
    let again = shown(&["watch", &recording, "--json"]);
    assert_eq!(
        again.replace("\"command\":\"watch\"", "\"command\":\"sim trace\""),
        text,
        "the recording has the same"
    );
    assert!(refused(&["sim", "trace", &trace, "--record", &recording], 2).contains("--watch"));
    let ticks: Vec<Value> = text.lines().map(schema::parse).collect();
    assert!((55..=65).contains(&ticks.len()), "about sixty lines: {}", ticks.len());
    let (first, last) = (&ticks[0], &ticks[ticks.len() - 1]);
    let number = |tick: &Value, name: &str| tick[name].as_f64().unwrap();
    assert!(number(last, "log_bytes") > number(first, "log_bytes"), "{first} {last}");
    // What was watched is what a replay that is not watched finds.
    let replayed = &json(&["sim", "trace", &trace, "--model", "async", "--json"])["replays"][0];
    let cleaned = number(last, "segments_emptied") - number(first, "segments_emptied");
    assert!(cleaned > 0.0 && cleaned <= number(replayed, "segments_cleaned"), "{last} {replayed}");
    let span_ms = number(last, "clock_ms") - number(first, "clock_ms");
    assert!((span_ms / number(replayed, "span_ms") - 59.0 / 60.0).abs() < 0.02, "{span_ms}: {replayed}");
    assert!(number(last, "victims_taken") >= cleaned, "{last}");
}

#[test]
fn a_trace_that_cannot_be_read_twice_or_is_damaged_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    assert!(refused(&["sim", "trace", "-"], 2).contains("read twice"));
    let trace = attic(&directory, "a.fwl");
    let bytes = std::fs::read(&trace).unwrap();
    let cut: PathBuf = directory.path().join("cut.fwl");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let said = refused(&["sim", "trace", cut.to_str().unwrap()], 1);
    assert!(said.contains("cut.fwl: ") && said.contains("cut short"), "{said}");
    refused(&["sim", "trace", &trace, "--utilisation", "1.5"], 2);
    refused(&["sim", "trace", &trace, "--disk", "floppy"], 2);
    assert!(refused(&["sim", "trace", &trace, "--disk", "nothing"], 2).contains("dsp3501"));
}

#[test]
fn the_traces_that_ship_are_whole_and_are_replayed_as_recorded() {
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces");
    for (name, records) in [("build", 2061), ("mail", 18_320), ("git", 13_740)] {
        let path = format!("{traces}/{name}.fwl");
        let info = &json(&["workload", "info", &path, "--json"])["workloads"][0];
        assert_eq!(
            (&info["whole"], &info["records"], &info["lost_records"]),
            (&true.into(), &records.into(), &0.into())
        );
        assert_eq!(info["origin"], "mount");
        // On a disk that keeps up, and with room: a few seconds leave no time to clean.
        let words = ["sim", "trace", &path, "--disk", "ssd", "--utilisation", "0.2", "--json"];
        for replay in json(&words)["replays"].as_array().unwrap() {
            assert_eq!(replay["records"], records);
            let refused = replay["refused_records"].as_f64().unwrap();
            assert!(refused < 0.01 * f64::from(records), "{name}: {replay}");
            assert!(replay["user_written_bytes"].as_u64().unwrap() > 0, "{name}: {replay}");
        }
    }
}
