use super::*;
use crate::hardware::find_disk;

fn played(scene: Scene, seed: u64) -> Row {
    run(scene, seed, &find_disk("constant-hdd").unwrap().params).unwrap()
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
    assert_is_mended(&played(SCENES[0], 1));
}

#[test]
fn a_directory_of_files_rewritten_at_random_reads_as_at_first_after_idle_time() {
    assert_is_mended(&played(SCENES[2], 1));
    assert_is_mended(&played(SCENES[3], 1));
}

/// A few seeks are left whatever is read; if there is little to read, they take more than a tenth of the time.
#[test]
fn a_small_directory_is_left_with_a_few_seeks() {
    for scene in [SCENES[5], SCENES[6]] {
        let row = played(scene, 1);
        println!("{row:?}");
        assert!(row.scattered.seeks > 20 * row.first.seeks, "{row:?}");
        assert!(row.coalesced.seeks <= row.first.seeks + 10, "{row:?}");
        assert!(row.moved_bytes > 0 && row.moved_again_bytes == 0, "{row:?}");
    }
}

#[test]
fn files_that_grew_in_turn_read_as_if_written_one_after_the_other() {
    assert_is_mended(&played(SCENES[4], 1));
}

#[test]
fn a_few_overwrites_cost_a_rewrite_of_the_windows_that_have_them() {
    let row = played(SCENES[1], 1);
    assert_is_mended(&row);
    assert!(row.moved_bytes <= 64 << 20, "{row:?}");
}

#[test]
fn a_scene_gives_the_same_figures_again() {
    let scene = Scene::Directory { files: 200, bytes: 5000 };
    assert_eq!(played(scene, 7), played(scene, 7));
}
