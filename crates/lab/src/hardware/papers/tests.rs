//! The figures of the papers: made twice they are the same bytes, and every one has something to show.

use super::load::{self, Load};
use super::scheme::{Host, Scheme};
use super::*;
use std::collections::BTreeMap;
use std::ffi::OsString;

fn files(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
}

fn made(names: &[&str], threads: usize) -> (Vec<Figure>, BTreeMap<OsString, Vec<u8>>) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let plan = Plan::of(&names, Size::SHORT).unwrap();
    let mut done = 0.0;
    let figures = plan.make(threads, &mut |runs| done = runs).unwrap();
    assert_eq!(done, plan.run_count() as f64);
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &figures, "firn paper --short").unwrap();
    (figures, files(directory.path()))
}

#[test]
fn two_runs_write_the_same_bytes_on_one_thread_or_two() {
    let names = ["004/fig10", "004/fig11"];
    let (figures, once) = made(&names, 1);
    let (_, again) = made(&names, 2);
    assert_eq!(once, again);
    assert_eq!(figures.len(), 2);
    for name in ["index.html", "004.html", "claims.html", "claims.csv", "004-fig10.svg", "004-fig10.csv"] {
        assert!(once.contains_key(&OsString::from(name)), "{name} is not among {:?}", once.keys());
    }
    let page = String::from_utf8(once[&OsString::from("004.html")].clone()).unwrap();
    assert!(page.contains("<svg") && page.contains("Figure 10"));
    for outside in ["http:", "https:", "<script", "<link", "@import"] {
        let foreign = page.replace("http://www.w3.org/2000/svg", "").contains(outside);
        assert!(!foreign, "{outside} in the page");
    }
}

#[test]
fn names_are_different_and_a_paper_means_all_its_figures() {
    let names: Vec<&str> = list().iter().map(|(id, _)| *id).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len());
    let of_one = Plan::of(&["004".to_owned()], Size::SHORT).unwrap();
    assert!(of_one.units.len() > 2 && of_one.units.iter().all(|unit| unit.id.starts_with("004/")));
    let error = Plan::of(&["001/fig99".to_owned()], Size::SHORT).unwrap_err().to_string();
    assert_eq!(error, "there is no figure 001/fig99");
}

#[test]
fn a_file_system_under_made_up_users_is_shown_as_synthetic_and_the_same_again() {
    let names = ["001/table4", "001/fig10"];
    let (figures, once) = made(&names, 1);
    let (_, again) = made(&names, 2);
    assert_eq!(once, again);
    for figure in &figures {
        let titles = figure.drawings.iter().map(plot::Drawing::title).chain([figure.title]);
        assert!(titles.into_iter().all(|title| title.contains("synthetic")), "{}", figure.id);
        assert!(figure.condition.contains("synthetic") && figure.inputs.contains("MB written in an hour"));
    }
    let csv = String::from_utf8(once[&OsString::from("001-table4.csv")].clone()).unwrap();
    assert!(csv.contains("inode map"), "{csv}");
    // Each point stands for as many numbers of live blocks, of 64 in a segment.
    let csv = String::from_utf8(once[&OsString::from("001-fig10.csv")].clone()).unwrap();
    let middles = csv.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse::<f64>().unwrap());
    assert!(middles.clone().count() > 30 && middles.into_iter().all(|x| (x * 64.0).fract() == 0.0), "{csv}");
}

#[test]
fn the_fullest_disks_have_room_at_the_small_size() {
    let (figures, _) = made(&["004/table6"], 2);
    assert_eq!(figures.len(), 1);
    for scheme in [Scheme::Lfs, Scheme::Modern] {
        let setup = scheme.setup(Host::Hp).unwrap();
        let served = load::run(&setup, &Load { transactions: 1, ..Size::SHORT.load(85) }).unwrap();
        assert!(served.per_s > 1.0, "{served:?}");
    }
}
