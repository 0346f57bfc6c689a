//! Every fuzzer for a short while, and the proof that a campaign detects what it must.
//!
//! `FIRNFS_FUZZ_SECONDS` sets the time for each target (2 by default); `scripts/fuzz.sh` runs them for longer.

use firnfs_fuzz::campaign::{Outcome, Plan, fuzz};
use firnfs_fuzz::corpus;
use firnfs_fuzz::targets::{self, Target};
use std::path::PathBuf;
use std::time::Duration;

fn plan(scratch: &tempfile::TempDir, time: Duration) -> Plan {
    Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_firn-fuzz")),
        home: corpus::home(),
        time,
        seed: 1,
        scratch: scratch.path().to_owned(),
    }
}

fn assert_clean(targets: impl Iterator<Item = &'static Target>) {
    let seconds = std::env::var("FIRNFS_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let scratch = tempfile::tempdir().unwrap();
    for target in targets {
        let inputs = corpus::load(&corpus::home(), target).unwrap().len();
        assert!(inputs > 0, "{}: no corpus", target.name);
        match fuzz(&plan(&scratch, Duration::from_secs(seconds)), target).unwrap() {
            Outcome::Clean(count) => assert!(count >= inputs as u64, "{}: {count} inputs", target.name),
            Outcome::Found(found) => panic!(
                "{}: {}\nagain: firn-fuzz replay {} {}\ninput: {:02x?}",
                target.name, found.what, target.name, found.token, found.input
            ),
        }
    }
}

#[test]
fn no_decoder_panics_or_grows_without_bound() {
    assert_clean(targets::ALL.iter().filter(|target| !is_image(target)));
}

#[test]
fn no_image_panics_hangs_or_grows_without_bound() {
    assert_clean(targets::ALL.iter().filter(|target| is_image(target)));
}

fn is_image(target: &Target) -> bool {
    matches!(target.name, "directory" | "image" | "ffs-image")
}

#[test]
fn flaws_of_every_kind_are_found() {
    let scratch = tempfile::tempdir().unwrap();
    for canary in targets::CANARIES {
        let home = scratch.path().join("corpus");
        corpus::seed(&home, canary).unwrap();
        let plan = Plan { home, ..plan(&scratch, Duration::from_secs(60)) };
        let Outcome::Found(found) = fuzz(&plan, canary).unwrap() else {
            panic!("{} was not found", canary.name)
        };
        let sign = match canary.name {
            "canary-panic" => "range start index",
            "canary-memory" => "memory allocation of",
            "canary-loop" => "no end after",
            _ => "overflowed its stack",
        };
        assert!(found.what.contains(sign), "{}: {}", canary.name, found.what);
        // The input alone causes the finding: the same input again has the same effect.
        let (seed, number) = found.token.split_once(':').unwrap();
        let corpus = corpus::load(&plan.home, canary).unwrap();
        let again = firnfs_fuzz::mutate::input(&corpus, seed.parse().unwrap(), number.parse().unwrap());
        assert_eq!(again, found.input);
    }
}
