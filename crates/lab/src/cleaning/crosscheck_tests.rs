//! The guarantees of the cross-check, on small volumes. The full size: `firn sim crosscheck`, in release.

use super::*;

fn setup(workload: &str, placement: PlacementName, utilisation: f64) -> Setup {
    Setup {
        workload: workload.parse().unwrap(),
        policy: Policy::default(),
        placement,
        utilisation,
        segments: 320,
        segment_bytes: 256 << 10,
        warm_up_volumes: 3.0,
        measured_volumes: 3.0,
        scattered: true,
        seed: 1,
    }
}

#[test]
fn the_file_system_moves_as_much_data_as_the_simulator_says() {
    for (workload, placement, utilisation) in [
        ("uniform", PlacementName::Split, 0.85),
        ("uniform", PlacementName::LeapingDac(3), 0.75),
        ("hot-cold", PlacementName::Split, 0.75),
        ("hot-cold", PlacementName::LeapingDac(3), 0.85),
    ] {
        let setup = setup(workload, placement, utilisation);
        let comparison = compare(&setup, &mut |_| ()).unwrap();
        println!("{workload} {utilisation} {placement}: {comparison:?}");
        assert!(
            (comparison.ratio - 1.0).abs() <= 0.05,
            "{workload} {utilisation} {placement}: {comparison:?}"
        );
        assert!(comparison.file_system > 1.1, "the cleaner had nothing to do: {comparison:?}");
        // Blocks of one file, each with an indirect block for 256: much metadata, but bounded.
        let metadata: f64 = comparison.measured.metadata.values().sum();
        assert!((0.1..3.0).contains(&metadata), "{comparison:?}");
    }
}

/// A threshold of a volume's writes, which are seconds in the file system.
#[test]
fn an_age_threshold_works_in_volumes_as_in_the_simulator() {
    let setup = setup("hot-cold", PlacementName::Split, 0.75);
    let by_age = Setup { policy: "age-threshold:15000".parse().unwrap(), ..setup };
    let comparison = compare(&by_age, &mut |_| ()).unwrap();
    // Single seconds decide which segments are old, so the result is less certain than for other policies.
    assert!((comparison.ratio - 1.0).abs() <= 0.1, "{comparison:?}");
    assert!(comparison.file_system > 1.1, "the cleaner had nothing to do: {comparison:?}");
}

/// The comparison detects a difference: conditions do not make everything agree.
#[test]
fn another_placement_or_policy_is_distinguished_from_the_file_system() {
    let setup = setup("hot-cold", PlacementName::LeapingDac(3), 0.85);
    let (measured, writes) = measure(&setup, &mut |_| ()).unwrap();
    let with = |setup: &Setup, measured: &Measured| {
        simulate_as_measured(setup, measured, &writes, &mut |_| ()).unwrap().0.amplification
    };
    let same = with(&setup, &measured);
    assert!((measured.amplification / same - 1.0).abs() <= 0.05, "{same} and {measured:?}");
    let one = Measured { placement: PlacementName::One, ..measured.clone() };
    let greedy = Setup { policy: Policy::Greedy, ..setup.clone() };
    for other in [with(&setup, &one), with(&greedy, &measured)] {
        assert!((measured.amplification / other - 1.0).abs() > 0.08, "{other} and {measured:?}");
    }
}

#[test]
fn setups_that_cannot_be_compared_are_refused() {
    let files = setup("files", PlacementName::Split, 0.75);
    assert!(compare(&files, &mut |_| ()).is_err());
}
