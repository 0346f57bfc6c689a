//! Compares trees that share files by hard links: the comparison sees that as two states that share files.

use super::*;
use std::fs;

const QUICK: How<'static> = How { modes: (Modes::Shown, Modes::Shown), is_exact: false };

/// Two empty trees of one file system.
fn trees() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    fs::create_dir(&old).unwrap();
    fs::create_dir(&new).unwrap();
    (directory, old, new)
}

/// The same file in both trees.
fn share(old: &Path, new: &Path, (from, to): (&str, &str)) {
    for path in [old.join(from), new.join(to)] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
    }
    fs::write(old.join(from), from).unwrap();
    fs::hard_link(old.join(from), new.join(to)).unwrap();
}

fn told(old: &Path, new: &Path) -> Vec<String> {
    let found = compare(old, new, None, QUICK).unwrap();
    let line = |change: &Change| {
        let old = change.old_path.as_ref().map(|path| format!("{} -> ", path.display())).unwrap_or_default();
        format!("{:?} {old}{}", change.what, change.path.display())
    };
    found.changes.iter().map(line).collect()
}

#[test]
fn names_are_added_and_removed_with_everything_below_them() {
    let (_directory, old, new) = trees();
    fs::create_dir_all(old.join("gone/deep")).unwrap();
    fs::write(old.join("gone/deep/f"), "1").unwrap();
    fs::write(new.join("fresh"), "2").unwrap();
    assert_eq!(told(&old, &new), ["Added fresh", "Removed gone", "Removed gone/deep", "Removed gone/deep/f"]);
    assert_eq!(told(&old, &old), [""; 0]);
}

#[test]
fn a_file_with_another_name_was_renamed_also_out_of_a_directory_that_is_gone() {
    let (_directory, old, new) = trees();
    share(&old, &new, ("a", "b"));
    share(&old, &new, ("gone/c", "kept"));
    assert_eq!(told(&old, &new), ["Renamed a -> b", "Removed gone", "Renamed gone/c -> kept"]);
}

#[test]
fn a_file_that_took_the_name_of_a_renamed_one_is_new() {
    let (_directory, old, new) = trees();
    share(&old, &new, ("log", "log.1"));
    fs::write(new.join("log"), "fresh").unwrap();
    assert_eq!(told(&old, &new), ["Added log", "Renamed log -> log.1"]);
}

#[test]
fn another_file_of_the_same_name_is_a_change_and_another_type_is_not() {
    let (_directory, old, new) = trees();
    fs::write(old.join("f"), "1").unwrap();
    fs::write(new.join("f"), "22").unwrap();
    fs::write(old.join("x"), "1").unwrap();
    fs::create_dir(new.join("x")).unwrap();
    assert_eq!(told(&old, &new), ["Changed f", "Added x", "Removed x"]);
    assert_eq!(told(&old.join("f"), &new.join("f")), ["Changed "]);
}

#[test]
fn links_are_compared_and_not_followed() {
    let (_directory, old, new) = trees();
    std::os::unix::fs::symlink("/", old.join("l")).unwrap();
    std::os::unix::fs::symlink("/etc", new.join("l")).unwrap();
    assert_eq!(told(&old, &new), ["Changed l"]);
}

/// Sets the modification time.
fn date(path: PathBuf, seconds: u64) {
    let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn content_is_changed_only_if_its_bytes_are() {
    let (_directory, old, new) = trees();
    let long = "x".repeat(3_000_000);
    for (root, other, end) in [(&old, "1", "x"), (&new, "2", "y")] {
        fs::write(root.join("again"), "1").unwrap();
        fs::write(root.join("other"), other).unwrap();
        fs::write(root.join("end"), long.clone() + end).unwrap();
    }
    fs::write(old.join("hole"), vec![0; 100_000]).unwrap();
    fs::File::create(new.join("hole")).unwrap().set_len(100_000).unwrap();
    for name in ["again", "other", "end", "hole"] {
        date(old.join(name), 1);
        date(new.join(name), 2);
    }
    assert_eq!(told(&old, &new), ["Attributes again", "Changed end", "Attributes hole", "Changed other"]);
}

#[test]
fn an_exact_comparison_reads_what_equal_times_hide_and_tells_which_names_are_of_one_file() {
    let (_directory, old, new) = trees();
    let exact = || {
        let found = compare(&old, &new, None, How { is_exact: true, ..QUICK }).unwrap();
        found.changes.iter().map(|change| format!("{:?} {}", change.what, change.path.display())).collect()
    };
    let link = |root: &Path, from: &str, to: &str| fs::hard_link(root.join(from), root.join(to)).unwrap();
    for (root, content) in [(&old, "1"), (&new, "2")] {
        for (name, content) in [("set-back", content), ("a", "1"), ("c", "1"), ("x", "1")] {
            fs::write(root.join(name), content).unwrap();
            date(root.join(name), 1);
        }
        // The clock of file systems has ticks of some milliseconds.
        std::thread::sleep(Duration::from_millis(20));
    }
    // The same two names of one file in both trees, and two files that are one in the other tree.
    [&old, &new].iter().for_each(|root| link(root, "a", "b"));
    link(&old, "c", "d");
    link(&new, "x", "y");
    for alone in [new.join("d"), old.join("y")] {
        fs::write(&alone, "1").unwrap();
        date(alone, 1);
    }
    let changes: Vec<String> = exact();
    assert_eq!(changes, ["Changed c", "Changed d", "Changed set-back", "Changed x", "Changed y"]);
    assert_eq!(told(&old, &new), [""; 0]);
}

#[test]
fn a_tree_that_is_not_there_is_named() {
    let (_directory, old, _) = trees();
    let failure = compare(&old, &old.join("nothing"), None, QUICK).unwrap_err();
    assert!(failure.to_string().contains("nothing is not there"), "{failure}");
}
