//! The papers' benchmarks: `firn sim paper` prints the recorded results.

use super::claims::Claim;
use super::*;

fn assert_as_recorded(claims: &[Claim]) {
    assert!(claims.len() >= 2);
    for claim in claims {
        println!("{}: {}: {} for {}", claim.place, claim.what, claim.ours, claim.expected_words());
    }
    let others: Vec<&Claim> = claims.iter().filter(|claim| !claim.is_as_recorded()).collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn a_file_is_written_and_read_as_bsd_lfs_says_but_for_what_is_known() {
    let setup = Setup::bsd_lfs(Profile::Of1993).unwrap();
    let mut done = 0.0;
    let points = bandwidth::run(&setup, 50, &mut |sizes| done = sizes).unwrap();
    assert_eq!(done, bandwidth::SIZES.len() as f64);
    assert_as_recorded(&bandwidth::claims(&setup, &points));
    // Nothing is faster than the bus, which is not counted at all where bytes come from memory.
    assert!(points.iter().all(|p| p.lfs_write_mb_per_s < 1.6 && p.lfs_read_mb_per_s < 1.6), "{points:?}");
}

#[test]
fn small_files_are_made_as_sprite_lfs_says_but_for_what_is_known() {
    let setup = Setup::sprite_lfs(Profile::Of1993).unwrap();
    let figure = small_files::run(&setup, 10_000, &mut |_| ()).unwrap();
    assert_as_recorded(&small_files::claims(&figure));
}

#[test]
fn small_files_take_the_processor_as_usenix_95_says() {
    let setup = Setup::usenix_95(Profile::Of1993).unwrap();
    let figure = small_files::run(&setup, 10_000, &mut |_| ()).unwrap();
    assert_as_recorded(&small_files::bsd_claims(&figure));
}

#[test]
fn a_large_file_is_written_and_read_as_sprite_lfs_says_but_for_what_is_known() {
    let setup = Setup::sprite_lfs(Profile::Of1993).unwrap();
    let figure = large_file::run(&setup, 100_000_000, 1, &mut |_| ()).unwrap();
    assert_eq!(figure.segments_cleaned, 0, "as in the paper");
    assert_as_recorded(&large_file::claims(&figure));
}

#[test]
fn fast_file_systems_run_on_the_same_machines_and_lose_where_the_papers_say() {
    let of = |store| Setup { store, ..Setup::sprite_lfs(Profile::Of1993).unwrap() };
    let (log, fast) = (of(StoreKind::Log), of("m1r2".parse().unwrap()));
    let small = |setup: &Setup| small_files::run(setup, 1000, &mut |_| ()).unwrap().rates;
    let (of_log, of_fast) = (small(&log), small(&fast));
    let times = |over: f64, under: f64| over / under;
    let create = times(of_log.create.files_per_s, of_fast.create.files_per_s);
    let delete = times(of_log.delete.files_per_s, of_fast.delete.files_per_s);
    println!("create {create:.1} times, delete {delete:.1} times, disk {:.2}", of_fast.create.disk_share);
    // Sprite LFS, figure 8: about ten times as many as SunOS, whose disk is busy 85% of the time (m).
    assert!(create > 4.0 && delete > 4.0 && of_fast.create.disk_share > 0.8);
    let large = |setup: &Setup| large_file::run(setup, 16 << 20, 1, &mut |_| ()).unwrap();
    let (of_log, of_fast) = (large(&log), large(&fast));
    println!("log {of_log:?}\nfast {of_fast:?}");
    // Figure 9: faster in both phases that write, slower only in the sequential reread.
    assert!(of_log.write.kb_per_s > of_fast.write.kb_per_s);
    assert!(of_log.write_random.kb_per_s > of_fast.write_random.kb_per_s);
    assert!(of_log.reread.kb_per_s < of_fast.reread.kb_per_s);
}

#[test]
fn a_benchmark_gives_the_same_figures_again_and_better_ones_on_better_hardware() {
    let old = Setup::sprite_lfs(Profile::Modern).unwrap();
    let new =
        Setup { disk: find_disk("ssd").unwrap(), cpu: find_machine("pentium-pro").unwrap(), ..old.clone() };
    let small = |setup: &Setup| small_files::run(setup, 500, &mut |_| ()).unwrap();
    let large = |setup: &Setup| large_file::run(setup, 4 << 20, 1, &mut |_| ()).unwrap();
    assert_eq!((small(&old), large(&old)), (small(&old), large(&old)));
    assert!(small(&new).rates.create.files_per_s > 10.0 * small(&old).rates.create.files_per_s);
    assert!(large(&new).reread.kb_per_s > 10.0 * large(&old).reread.kb_per_s);
}
