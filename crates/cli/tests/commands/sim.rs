//! The simulations.

use crate::common::{json, ok, refused};
use serde_json::Value;

#[test]
fn the_cleaning_simulator_shows_every_combination_alike_for_people_and_programs() {
    let args = "sim cleaning --workload uniform,shift:2 --policy greedy,cost-benefit --placement one,dac:3 \
                --utilisation 0.6,0.8 --segments 64 --segment-blocks 32 --max-volumes 25";
    let args: Vec<&str> = args.split_whitespace().collect();
    let json = json(&[args.as_slice(), &["--json", "--threads", "1"]].concat());
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16);
    let table = ok(&[args.as_slice(), &["--threads", "2"]].concat());
    for row in rows {
        let amplification = row["write_amplification"]["mean"].as_f64().unwrap();
        assert!((1.1..4.0).contains(&amplification), "{row}");
        assert!(table.contains(&format!("| {amplification:.3} ±")), "{amplification} is not in {table}");
    }
    assert!(table.contains("million block writes a second"));
    let oracle =
        ["--placement", "one,oracle", "--segments", "128", "--segment-blocks", "32", "--max-volumes", "25"];
    let table = ok(&[&["sim", "cleaning"], oracle.as_slice()].concat());
    let of_oracle = table.lines().find(|line| line.contains("oracle:16")).unwrap();
    assert!(of_oracle.contains("| 1.000 "), "{of_oracle}");
    refused(&["sim", "cleaning", "--utilisation", "0.999", "--segments", "16"], 2);
    refused(&["sim", "cleaning", "--sprite", "4", "--placement", "dac"], 2);
}

#[test]
fn the_cost_of_the_past_is_shown_for_both_designs_beside_volumes_without_one() {
    let small = [
        "sim",
        "history",
        "--workload",
        "uniform",
        "--segments",
        "96",
        "--segment-blocks",
        "32",
        "--volumes",
        "3",
    ];
    let value = json(&[&small[..], &["--commit-blocks", "64", "--json"]].concat());
    let rows = value["rows"].as_array().unwrap();
    let designs: Vec<&str> = rows.iter().map(|row| row["design"].as_str().unwrap()).collect();
    assert_eq!(designs, ["none", "none", "remnants", "virtual-numbers"]);
    assert_eq!(rows[1]["ratio_to_live"], 1.0);
    let past = |n: usize| rows[n]["past"].as_f64().unwrap();
    assert!(past(0) == 0.0 && past(2) > 0.15 && past(3) > 0.15, "{value}");
    assert!(ok(&small).lines().any(|line| line.contains("remnants") && line.contains("at most")));
    let said = refused(&["sim", "history", "--live", "0.9"], 2);
    assert!(said.contains("together they must be less"), "{said}");
}

/// The whole run takes a minute, so this test covers only how it fails. The lab's tests cover the results.
#[test]
fn figures_need_a_directory_that_can_be_made() {
    let line = refused(&["sim", "figures", "--out", "/dev/null/figures", "--threads", "2"], 1);
    assert!(line.contains("cannot create /dev/null/figures"), "{line}");
}

/// All keys of objects in a JSON value.
fn keys(value: &Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.keys().cloned());
            object.values().for_each(|inner| keys(inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| keys(inner, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_json_of_simulated_hardware_is_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/simulated-hardware.md");
    let page = std::fs::read_to_string(page).unwrap();
    let documented = page.split("## JSON").nth(1).unwrap();
    for args in [
        &["sim", "disk", "hp97560", "--request", "r:0:64K,w:1M:4K,f", "--json"][..],
        &["sim", "paper", "bandwidth", "--runs", "1", "--json"],
        &["sim", "paper", "small-files", "--files", "200", "--json"],
        &["sim", "paper", "large-file", "--size", "1M", "--json"],
    ] {
        let value = json(args);
        let mut found = std::collections::BTreeSet::new();
        keys(&value, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for key in found.difference(&["schema", "version", "command"].map(str::to_owned).into()) {
            assert!(documented.contains(&format!("`{key}`")), "{args:?}: {key} is not documented");
        }
    }
}

#[test]
fn a_bad_disk_is_refused_with_its_file_key_and_range() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, "title = \"mine\"\nkind = \"flash\"\n[flash]\nsize_gb = 0\n").unwrap();
    let path = path.to_str().unwrap();
    for args in [&["sim", "disk", path][..], &["sim", "coalescing", "--disk", path]] {
        let said = refused(args, 2);
        assert!(
            said.contains(&format!("{path}: flash.size_gb: is 0; allowed: a number from 0.001")),
            "{said}"
        );
    }
    let said = refused(&["sim", "disk", "floppy"], 2);
    assert!(said.contains("neither a name (hp97560, wren4"), "{said}");
    assert!(said.ends_with("nor a file (No such file or directory)\n"), "{said}");
}

#[test]
fn a_seek_curve_has_its_numbers_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("curve.svg");
    ok(&["sim", "disk", "hp97560", "--svg", svg.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&svg).unwrap().contains("firn sim disk hp97560"));
    let csv = std::fs::read_to_string(directory.path().join("curve.csv")).unwrap();
    assert!(csv.starts_with("series,kind,cylinders,milliseconds"), "{csv:.200}");
}
