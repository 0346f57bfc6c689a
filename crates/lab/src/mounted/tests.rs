//! The workloads on two directories.

use super::*;
use crate::micro::target::PosixDirectory;

fn plan(directories: &[&tempfile::TempDir], workloads: Vec<Workload>) -> Plan {
    let target = |(n, directory): (usize, &&tempfile::TempDir)| -> Box<dyn Target> {
        Box::new(PosixDirectory::new(Some(format!("t{n}")), directory.path()).unwrap())
    };
    let targets = directories.iter().enumerate().map(target).collect();
    Plan { targets, workloads, rounds: 2, shrink: 100, stop: Stop::default() }
}

#[test]
fn every_workload_runs_on_every_directory_and_leaves_nothing() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let has_compiler = std::process::Command::new("cc").arg("--version").output().is_ok();
    let workloads =
        Workload::ALL.into_iter().filter(|workload| *workload != Workload::Andrew || has_compiler);
    let plan = plan(&[&one, &two], workloads.collect());
    let mut steps = Vec::new();
    let report = run(&plan, &mut |done, total, what| steps.push((done, total, what.to_owned()))).unwrap();
    let total = 2 * 2 * plan.workloads.len() as u64;
    assert_eq!(steps.len() as u64, total);
    assert_eq!(steps[1], (1, total, "round 1: small-files on t1".to_owned()));
    // The second round begins with the other directory.
    assert!(steps[steps.len() / 2].2.ends_with("small-files on t1"), "{steps:?}");
    assert_eq!(report.rows.iter().filter(|row| row.workload == Workload::LargeFile).count(), 5);
    for row in &report.rows {
        assert!(row.operations > 0 && row.values.len() == 2, "{row:?}");
        assert!(row.values.iter().all(|value| value.median_ms > 0.0 && value.all_ms.len() == 2), "{row:?}");
        assert_eq!(row.values[0].times_as_fast, 1.0);
    }
    for directory in [&one, &two] {
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
    let drawings = report.drawings();
    assert_eq!(drawings.len(), plan.workloads.len());
    for drawing in &drawings {
        let svg = drawing.svg(&crate::plot::Origin::of("firn bench")).unwrap();
        let about = svg.split("<desc>").nth(1).unwrap();
        assert!(about.contains("Medians of 2 rounds") && about.contains("Linux"), "{about}");
        assert!(svg.contains("from the smallest to the largest"), "{}", drawing.file());
    }
    assert!(Report { rounds: 1, ..report.clone() }.markdown().contains("One round"));
    assert!(report.markdown().contains("how many times as fast as t0"));
}

#[test]
fn a_run_that_is_stopped_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(&[&directory], vec![Workload::Varmail]);
    plan.stop.flag().store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(run(&plan, &mut |_, _, _| ()), Err(LabError::Interrupted)));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn content_that_changed_is_an_error_with_its_place() {
    let error = expect(Path::new("f"), b"abcd", b"abxd").unwrap_err().to_string();
    assert!(error.contains("first difference at byte 2"), "{error}");
}
