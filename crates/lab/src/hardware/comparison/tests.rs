//! The comparison with the Fast File System: every row is as recorded, and every row can fail.

use super::results::{Bandwidth, Indirect, Micro, Results, Sized};
use super::*;

/// The measurements with each group of values multiplied by another power of a factor.
fn distorted(results: &Results, factor: f64) -> Results {
    let mut all = results.clone();
    let Results { sprite_log, sun, bsd_log, m1r2, m8r2, half, four, sizes, indirect, .. } = &mut all;
    for (micro, power) in [(sprite_log, 1), (sun, 2), (bsd_log, 3), (m1r2, 5), (m8r2, 7)] {
        let by = factor.powi(power);
        let Micro { small, faster, large } = micro;
        *faster *= by * factor;
        for rate in [&mut small.create, &mut small.read, &mut small.delete] {
            rate.files_per_s *= by;
            rate.cpu_share *= by;
            rate.disk_share *= by;
        }
        for speed in [&mut large.write, &mut large.read, &mut large.write_random] {
            speed.kb_per_s *= by;
        }
        for speed in [&mut large.read_random, &mut large.reread] {
            speed.kb_per_s *= by;
        }
    }
    for Bandwidth { log, ffs, efs } in [half, four] {
        for (point, power) in [(log, 1), (ffs, 2), (efs, 3)] {
            let by = factor.powi(power);
            point.lfs_write_mb_per_s *= by;
            point.lfs_write_ms *= by;
            point.lfs_fsync_ms *= by;
            point.lfs_read_mb_per_s *= by * by;
        }
    }
    let scaled = |rates: &mut Rates, power: i32| {
        for rate in [&mut rates.create, &mut rates.read, &mut rates.overwrite, &mut rates.delete] {
            *rate *= factor.powi(power);
        }
    };
    for Sized { log, m8r2, m8r0, .. } in sizes {
        scaled(log, 1);
        scaled(m8r2, 2);
        scaled(m8r0, 3);
    }
    let Indirect { direct, baseline, no_switch } = indirect;
    scaled(direct, 1);
    scaled(baseline, 2);
    scaled(no_switch, 3);
    all.tpcb_log *= factor;
    all.tpcb_fast *= factor * factor;
    all
}

/// Every row holds for some measurements and fails for others.
fn assert_rows_can_fail(results: &Results) {
    let judged: Vec<Vec<Row>> =
        (-1000..1000).map(|step| published::rows(&distorted(results, 1.003f64.powi(step)))).collect();
    for number in 0..judged[0].len() {
        let verdicts: Vec<bool> = judged.iter().map(|rows| rows[number].claim.holds()).collect();
        let claim = &judged[0][number].claim;
        assert!(verdicts.contains(&true), "nothing satisfies {claim:?}");
        assert!(verdicts.contains(&false), "everything satisfies {claim:?}");
    }
}

#[test]
fn the_rows_of_the_papers_come_out_as_recorded() {
    let mut done = 0.0;
    let results = Results::measure(&Scale::SHORT, &mut |steps| done = steps).unwrap();
    assert_rows_can_fail(&results);
    let rows = rows(&Scale::SHORT, &results);
    assert_eq!(done, step_count() as f64);
    println!("{}", markdown(&rows));
    let others: Vec<&Row> = rows.iter().filter(|row| !row.claim.is_as_recorded()).collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
#[ignore = "minutes: at the papers' sizes, as `firn sim comparison`"]
fn the_rows_come_out_as_recorded_at_the_papers_sizes() {
    let rows = run(&Scale::PAPER, &mut |_| ()).unwrap();
    println!("{}", markdown(&rows));
    let others: Vec<&Row> = rows.iter().filter(|row| !row.claim.is_as_recorded()).collect();
    assert!(others.is_empty(), "{others:#?}");
}
