use super::*;
use crate::hardware::find_disk;

fn disk(name: &str) -> DiskParams {
    find_disk(name).unwrap().params
}

fn on_hard_disk(scene: Scene) -> Row {
    run(scene, Conditions::of(&disk("constant-hdd")), 1).unwrap()
}

fn assert_is_mended(row: &Row) {
    println!("{row:?}");
    let slow = row.scattered.ms / row.first.ms;
    let after = row.coalesced.ms / row.first.ms;
    assert!(slow > 2.0, "scattering made it no slower: {row:?}");
    assert!(after <= 1.1, "{after:.3} times the first reading: {row:?}");
    assert!(row.moved_bytes > 0 && row.moved_again_bytes == 0, "{row:?}");
}

#[test]
fn a_file_of_random_overwrites_reads_as_at_first_after_idle_time() {
    assert_is_mended(&on_hard_disk(SCENES[0]));
}

#[test]
fn a_directory_of_files_rewritten_at_random_reads_as_at_first_after_idle_time() {
    assert_is_mended(&on_hard_disk(SCENES[2]));
    assert_is_mended(&on_hard_disk(SCENES[3]));
}

/// So little to read that a few more seeks or requests would be a tenth of it.
#[test]
fn a_small_directory_reads_within_a_tenth_of_a_fresh_one() {
    for scene in [SCENES[5], SCENES[6], Scene::Directory { files: 1000, bytes: 4096 }] {
        let row = on_hard_disk(scene);
        assert_is_mended(&row);
        let is_within = |first: u64, coalesced: u64| coalesced * 10 <= first * 11;
        assert!(row.scattered.seeks > 20 * row.first.seeks, "{row:?}");
        assert!(is_within(row.first.bytes, row.coalesced.bytes), "{row:?}");
        assert!(is_within(row.first.requests, row.coalesced.requests), "{row:?}");
    }
}

/// With so little memory that most blocks are missing when they are needed. (Without a limit everything was read 33 times.)
#[test]
fn coalescing_reads_at_most_four_times_the_bytes_that_it_moves() {
    for name in ["constant-ssd", "constant-hdd"] {
        let disk = disk(name);
        let conditions = Conditions { cache_bytes: 8 << 20, ..Conditions::of(&disk) };
        for scene in [SCENES[3], Scene::Directory { files: 5000, bytes: 5000 }, SCENES[0]] {
            let row = run(scene, conditions, 1).unwrap();
            let factor = row.idle_read_bytes as f64 / row.moved_bytes as f64;
            println!("{name}: {factor:.2} bytes read per byte moved, {row:?}");
            assert!(row.moved_bytes > 0, "{row:?}");
            assert!(row.idle_read_bytes <= 4 * row.moved_bytes + (1 << 20), "{factor}: {row:?}");
        }
    }
}

#[test]
fn files_that_grew_in_turn_read_as_if_written_one_after_the_other() {
    assert_is_mended(&on_hard_disk(SCENES[4]));
}

#[test]
fn a_few_overwrites_cost_a_rewrite_of_the_windows_that_have_them() {
    let row = on_hard_disk(SCENES[1]);
    assert_is_mended(&row);
    assert!(row.moved_bytes <= 64 << 20, "{row:?}");
}

#[test]
fn a_scene_gives_the_same_figures_again() {
    let scene = Scene::Directory { files: 200, bytes: 5000 };
    let again = || run(scene, Conditions::of(&disk("constant-hdd")), 7).unwrap();
    assert_eq!(again(), again());
}
