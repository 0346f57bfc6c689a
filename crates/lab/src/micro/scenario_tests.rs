//! Every scenario on a real directory, small.

use super::super::report::Roles;
use super::super::scale::Scale;
use super::super::{Plan, run};
use super::*;

/// A directory of the machine's own file system; cold reads need no rights here.
struct Here {
    home: tempfile::TempDir,
    colds: u32,
}

impl Target for Here {
    fn name(&self) -> &'static str {
        "here"
    }
    fn directory(&self) -> &Path {
        self.home.path()
    }
    fn sync(&self) -> Result<(), LabError> {
        Ok(())
    }
    fn make_cold(&mut self) -> Result<(), LabError> {
        self.colds += 1;
        Ok(())
    }
}

fn small_workload() -> Workload {
    Workload {
        small_files: 30,
        small_bytes: 1024,
        fsync_files: 5,
        large_bytes: 1 << 20,
        unit_bytes: 8192,
        tree_files: 40,
        kernel_files: 60,
        repository_files: 20,
        crates: 2,
        transactions: 3,
        sequential_bytes: 1 << 20,
    }
}

fn here() -> Here {
    Here { home: tempfile::tempdir().unwrap(), colds: 0 }
}

#[test]
fn every_task_is_timed_once_a_round_and_the_directory_is_left_empty() {
    let target = here();
    let directory = target.home.path().to_owned();
    let mut plan = Plan {
        targets: vec![Box::new(target)],
        roles: Roles { subject: None, variants: Vec::new(), null: None, against: vec!["here".to_owned()] },
        workload: small_workload(),
        rounds: 2,
        scenarios: Scenario::ALL.to_vec(),
        library: None,
        bandwidth: None,
        scale: None,
        fsck: None,
        recovery: None,
        stop: Stop::default(),
    };
    let mut steps = 0;
    let report = run(&mut plan, &mut |_| steps += 1).unwrap();
    assert_eq!(steps, 2 * (Scenario::ALL.len() - report.left_out.len()) + 1);
    for row in &report.rows {
        let of_row = report.samples.iter().filter(|s| (s.task, s.durability) == (row.task, row.durability));
        let taken: Vec<_> = of_row.map(|s| s.taken).collect();
        assert_eq!(taken.len(), 2, "{}", row.title);
        assert!(taken.iter().all(|t| t.client_ns > 0 && t.daemon_ns.is_none()), "{taken:?}");
    }
    let cold = u64::from(super::super::target::may_drop_caches());
    let program = |name: &str, rows: u64| rows * u64::from(super::super::programs::is_there(name));
    let programs = program("git", 2) + program("cargo", 2) + program("sqlite3", 1);
    let clients = 2 * 8;
    assert_eq!(report.rows.len() as u64, 16 + clients + 5 * cold + programs);
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
}

#[test]
fn a_file_system_that_returns_other_bytes_fails_the_run() {
    let home = tempfile::tempdir().unwrap();
    let (w, stop) = (small_workload(), Stop::default());
    create_files(home.path(), 0..u64::from(w.small_files), w.small_bytes, &stop).unwrap();
    read_small(home.path(), &w, &stop).unwrap();
    let victim = small_path(home.path(), 7);
    let file = OpenOptions::new().write(true).open(&victim).unwrap();
    file.write_all_at(b"!", 1000).unwrap();
    let error = read_small(home.path(), &w, &stop).unwrap_err();
    assert!(matches!(&error, LabError::WrongData { path, at_bytes: 1000 } if path == &victim), "{error}");
}

#[test]
fn a_stale_unit_of_the_large_file_is_noticed() {
    let mut target = here();
    let (w, stop) = (Workload { large_bytes: 64 << 10, ..small_workload() }, Stop::default());
    let prepared = Prepared::new(&w, &[Scenario::Large], &stop).unwrap();
    let directory = target.home.path().to_owned();
    let path = directory.join("large");
    let mut samples = Vec::new();
    let mut run =
        Run { prepared: &prepared, target: &mut target, directory, round: 0, samples: &mut samples };
    let file = create_file(&path, &[]).unwrap();
    run.write_units(Task::WriteSequential, &file, &path, 0).unwrap();
    read_large(&path, &w, 0, &stop).unwrap();
    read_units(&path, &w, &prepared.overwrite_order, &stop).unwrap();
    assert!(matches!(read_large(&path, &w, 1, &stop), Err(LabError::WrongData { at_bytes: 0, .. })));
    run.write_units(Task::OverwriteRandom, &file, &path, 1).unwrap();
    read_large(&path, &w, 1, &stop).unwrap();
    let order = &prepared.overwrite_order;
    assert!(matches!(read_units(&path, &w, order, &stop), Err(LabError::WrongData { .. })));
}

#[test]
fn units_are_overwritten_in_random_order_and_each_once() {
    let (w, stop) = (small_workload(), Stop::default());
    let prepared = Prepared::new(&w, &[], &stop).unwrap();
    let mut sorted = prepared.overwrite_order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..128).collect::<Vec<_>>());
    assert_ne!(prepared.overwrite_order, sorted);
}

#[test]
fn a_directory_that_grows_is_timed_at_both_sizes_and_gone_afterwards() {
    let mut target = here();
    let scale = Scale { few: 30, many: 90, window: 7, windows: 3, file_bytes: 100 };
    let figures = scale.measure(&mut target, &Stop::default()).unwrap();
    let lookups = usize::from(super::super::target::may_drop_caches());
    assert_eq!(figures.len(), 3 + lookups);
    assert!(figures.iter().all(|figure| figure.value.min > 0.0 && figure.limit.is_some()), "{figures:?}");
    assert_eq!(std::fs::read_dir(target.directory()).unwrap().count(), 0);

    // It does not mistake another user's directory for its own.
    std::fs::create_dir(target.directory().join("firn-bench-scale")).unwrap();
    assert!(scale.measure(&mut target, &Stop::default()).is_err());
}
