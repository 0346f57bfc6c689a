//! The JSON of `firn`: docs/json-schema.json keeps the rules of docs/json.md, and real outputs are as it says. All other tests that
//! read JSON check it too.

mod schema;

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn firn(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_firn")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    schema::parse(&String::from_utf8(output.stdout).unwrap())
}

/// Calls `judge` with the name of a definition, the name of a member and its rule.
fn each_member(judge: &mut dyn FnMut(&str, &str, &Value)) {
    fn walk(definition: &str, rule: &Value, judge: &mut dyn FnMut(&str, &str, &Value)) {
        match rule {
            Value::Object(object) => {
                // A member may have the name `properties`, too; its rule has a description.
                let members = object.get("properties").and_then(Value::as_object);
                members.into_iter().flatten().for_each(|(name, rule)| judge(definition, name, rule));
                object.values().for_each(|inner| walk(definition, inner, judge));
            }
            Value::Array(list) => list.iter().for_each(|inner| walk(definition, inner, judge)),
            _ => {}
        }
    }
    for (definition, rule) in schema::SCHEMA["$defs"].as_object().unwrap() {
        walk(definition, rule, judge);
    }
}

/// The JSON types of a rule, without null.
fn types(rule: &Value) -> BTreeSet<String> {
    if let Some(reference) = rule["$ref"].as_str() {
        return types(schema::SCHEMA.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let named = match (&rule["const"], &rule["type"], &rule["anyOf"]) {
        (Value::String(_), ..) => return ["string".to_owned()].into(),
        (Value::Number(_), ..) => return ["integer".to_owned()].into(),
        (_, Value::String(name), _) => vec![name.clone()],
        (_, Value::Array(list), _) => list.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
        (_, _, Value::Array(choices)) => choices.iter().flat_map(types).collect(),
        _ => panic!("{rule} has no type"),
    };
    named.into_iter().filter(|name| name != "null").collect()
}

#[test]
fn every_member_is_described_and_has_its_unit_in_its_name() {
    each_member(&mut |definition, name, rule| {
        assert!(rule["description"].as_str().is_some_and(|text| text.len() > 3), "{definition}.{name}");
        let bare = ["bytes", "ms", "us", "ns", "size", "time_left", "duration", "seconds"].contains(&name);
        let is_number = types(rule).iter().any(|name| name == "integer" || name == "number");
        assert!(!bare || !is_number, "{definition}.{name} says no quantity");
        // As recorded or as measured, to the nanosecond; grace times are stored in seconds.
        let is_exact = ["record", "sample"].contains(&definition);
        assert!(!name.ends_with("_us") && (is_exact || !name.ends_with("_ns")), "{definition}.{name}");
        let is_seconds = name.ends_with("_s") && !name.ends_with("_per_s");
        assert!(!is_seconds || name.contains("grace"), "{definition}.{name}");
    });
}

#[test]
fn a_word_means_one_kind_of_value_in_all_commands_about_volumes() {
    // The lab's tables name quantities of their own.
    let lab =
        ["bench_", "sim_", "part", "environment", "workload", "cleaning_row", "crosscheck_row", "reading"];
    let lab =
        [&lab[..], &["ratio", "expected", "micro_", "comparison_judged", "judged", "parameter"]].concat();
    let mut known: BTreeMap<String, (BTreeSet<String>, String)> = BTreeMap::new();
    each_member(&mut |definition, name, rule| {
        if lab.iter().any(|prefix| definition.starts_with(prefix)) && !definition.starts_with("workload_") {
            return;
        }
        let (types, first) =
            known.entry(name.to_owned()).or_insert_with(|| (types(rule), definition.to_owned()));
        assert_eq!(*types, self::types(rule), "{name} in {definition} and in {first}");
    });
    assert!(known.len() > 150, "{}", known.len());
}

#[test]
fn a_member_that_is_undeclared_missing_or_of_another_type_is_found() {
    let good = json!({
        "schema": "firnfs", "version": 1, "command": "trim", "path": "/mnt", "discarded_bytes": 4096
    });
    assert_eq!(schema::check(&good), Ok(()));
    let with = |name: &str, value: Value| {
        let mut changed = good.clone();
        changed[name] = value;
        schema::check(&changed).unwrap_err()
    };
    assert_eq!(with("new", json!(1)), ".new: not declared");
    assert!(with("discarded_bytes", json!(-1)).contains("minimum"));
    assert!(with("discarded_bytes", json!("4 KiB")).contains("integer"));
    assert!(with("version", json!(2)).contains("const"));
    assert!(with("command", json!("none")).contains("no definition"));
    let mut short = good.clone();
    short.as_object_mut().unwrap().remove("path");
    assert_eq!(schema::check(&short).unwrap_err(), ": path is missing");
}

#[test]
fn the_page_names_every_definition_of_a_command() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    for definition in schema::SCHEMA["anyOf"].as_array().unwrap() {
        let name = definition["$ref"].as_str().unwrap().trim_start_matches("#/$defs/");
        assert!(page.contains(&format!("`{name}`")), "docs/json.md does not name {name}");
    }
}

#[test]
fn what_commands_say_of_images_is_as_documented() {
    let directory = tempfile::tempdir().unwrap();
    let name = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (log, ffs, tree) = (name("log.img"), name("ffs.img"), name("tree"));
    std::fs::create_dir_all(Path::new(&tree).join("sub")).unwrap();
    std::fs::write(Path::new(&tree).join("sub/large"), vec![7; 300_000]).unwrap();
    std::fs::write(Path::new(&tree).join("small"), "small").unwrap();
    let made = firn(&["mkfs", &log, "--size", "64M", "--from-dir", &tree, "--json"]);
    assert_eq!((&made["type"], &made["copied"]["content_bytes"]), (&json!("log"), &json!(300_005)));
    assert_eq!(firn(&["mkfs", &ffs, "--size", "64M", "--type", "ffs", "--json"])["type"], "ffs");
    for words in [
        &["stat", &log][..],
        &["stat", &ffs],
        &["stat", &log, "--cleaning"],
        &["df", &log, &ffs],
        &["dump", &log],
        &["dump", &log, "--checkpoint"],
        &["dump", &log, "--ifile"],
        &["dump", &log, "--segments"],
        &["dump", &log, "--segment", "1"],
        &["dump", &log, "--inode", "/sub/large"],
        &["dump", &log, "--inode", "1"],
        &["dump", &ffs],
        &["dump", &ffs, "--inode", "1"],
        &["fsck", &log],
        &["fsck", &log, "--all-checkpoints"],
        &["fsck", &log, "--all-points"],
        &["fsck", &ffs],
        &["fsck", &log, "--salvage", &name("salvaged.img")],
        &["trim", &log],
        &["resize", &log, "+64M"],
        &["resize", &log, "-64M"],
        &["snapshot", &log, "one"],
        &["snapshot", &log, "--list"],
        &["log", &log],
        &["send", &format!("{log}@one"), "--output", &name("stream")],
        &["snapshot", &log, "--delete", "one"],
        &["man", &name("man")],
    ] {
        let said = firn_any(&[words, &["--json"]].concat());
        assert_eq!(said["command"], words[0]);
    }
}

#[test]
fn what_benchmarks_and_figures_say_is_as_documented() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let amounts = ["--shrink", "500", "--rounds", "1", "--workloads", "small-files", "--json"];
    let (one, two) = (format!("one={}", path("one")), format!("two={}", path("two")));
    let said = firn(&[&["bench", &one, &two], &amounts[..]].concat());
    assert_eq!(said["targets"].as_array().unwrap().len(), 2);
    assert!(firn(&["paper", "--list", "--json"])["figures"].as_array().unwrap().len() > 10);
    let made = firn(&["paper", "001/fig1", "--out", &path("figures"), "--json"]);
    assert_eq!(made["figures"][0]["claims"][0]["holds"], true);
}

/// A salvage exits with a code of its own.
fn firn_any(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_firn")).args(args).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    schema::parse(&said)
}
