//! Phases 2 to 4: directories, the tree, link counts.

use crate::fsck::fixture::{BLOCK, Fixture};
use firnfs::dirent;
use firnfs::inode::{Body, Kind};
use firnfs::store::Fork;
use firnfs_format::InodeNo;

/// Offset of a name's record in the content of a directory.
fn record_of(content: &[u8], name: &str) -> usize {
    let records = dirent::records(content).map(Result::unwrap);
    let found = records.into_iter().find(|record| record.name == name.as_bytes());
    found.unwrap_or_else(|| panic!("no {name}")).at
}

fn edit_inline(fixture: &Fixture, path: &str, edit: impl FnOnce(&mut Vec<u8>)) {
    fixture.edit_inode(path, |inode| {
        let Body::Inline(content) = &mut inode.body else { panic!("{path} is inline") };
        edit(content);
        inode.size_bytes = content.len() as u64;
    });
}

#[test]
fn an_impossible_name_is_removed() {
    let fixture = Fixture::new();
    edit_inline(&fixture, "dir", |content| {
        let at = record_of(content, "pipe");
        content[at + dirent::HEAD_BYTES + 1] = b'/';
    });
    // Without its name the pipe is lost.
    let tree = fixture.is_repaired(&["entry-name"], &["dir/pipe"]);
    assert_eq!(tree[&format!("lost+found/#{}", fixture.ino("dir/pipe"))].kind, Kind::Fifo);
}

#[test]
fn of_two_entries_with_one_name_one_is_removed() {
    let fixture = Fixture::new();
    edit_inline(&fixture, "dir/sub", |content| {
        let at = record_of(content, "shared too");
        content[at + dirent::HEAD_BYTES..][..10].copy_from_slice(b"large\0\0\0\0\0");
        content[at + 10] = 5;
    });
    // The place decides which of the two stays; the other loses a name.
    let codes = ["entry-twice", "link-count"];
    let tree = fixture.is_repaired(&codes, &["dir/sub/shared too", "dir/shared"]);
    assert_eq!(tree["dir/shared"].nlink, 1);
}

#[test]
fn an_entry_without_an_inode_is_removed() {
    let fixture = Fixture::new();
    edit_inline(&fixture, "dir", |content| {
        let at = record_of(content, "shared");
        content[at..at + 8].copy_from_slice(&12_345u64.to_le_bytes());
    });
    let tree = fixture.is_repaired(&["entry-dangling", "link-count"], &["dir/shared", "dir/sub/shared too"]);
    assert_eq!(tree["dir/sub/shared too"].nlink, 1);
}

#[test]
fn an_entry_in_a_block_of_an_indexed_directory_is_removed_and_the_index_is_rebuilt() {
    let fixture = Fixture::new();
    fixture.edit_block("wide", Fork::Data, 7, |block| {
        let record = dirent::records(block).nth(5).unwrap().unwrap();
        let at = record.at;
        block[at..at + 8].copy_from_slice(&12_345u64.to_le_bytes());
    });
    let before = fixture.check();
    let at = before.findings.iter().find_map(|finding| match &finding.problem {
        firnfs::check::Problem::EntryDangling { at, .. } => Some(at.at_bytes),
        _ => None,
    });
    assert_eq!(at.map(|at| at / BLOCK as u64), Some(7));
    let names: Vec<String> = fixture.tree.keys().filter(|path| path.starts_with("wide/")).cloned().collect();
    assert_eq!(names.len(), 3000);
    let repaired = fixture.repair();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
    let tree = fixture.with_volume(crate::fsck::fixture::walk);
    assert_eq!(names.iter().filter(|name| tree.contains_key(*name)).count(), 2999);
    assert!(
        fixture.blocks("wide").iter().any(|block| block.key.fork == Fork::Index),
        "it has an index again"
    );
}

#[test]
fn an_entry_of_another_type_than_its_file_is_set_right() {
    let fixture = Fixture::new();
    edit_inline(&fixture, "dir", |content| {
        let at = record_of(content, "pipe");
        content[at + 11] = Kind::Socket as u8;
    });
    fixture.is_repaired(&["entry-type"], &[]);
}

#[test]
fn a_second_name_of_a_directory_is_removed() {
    let fixture = Fixture::new();
    let deep = fixture.ino("dir/sub/deep");
    edit_inline(&fixture, "dir", |content| {
        let at = record_of(content, "shared");
        dirent::set_target(content, at, deep, Kind::Directory);
    });
    let codes = fixture.codes();
    assert!(codes.contains("entry-second"), "{codes:?}");
    let repaired = fixture.repair();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
}

#[test]
fn a_wrong_parent_is_set_right() {
    let fixture = Fixture::new();
    fixture.edit_inode("dir/sub/deep", |inode| inode.parent = InodeNo(12_345));
    fixture.is_repaired(&["directory-parent"], &[]);
}

#[test]
fn wrong_counts_of_a_directory_are_recounted() {
    let fixture = Fixture::new();
    fixture.edit_inode("medium", |inode| inode.entries += 2);
    fixture.is_repaired(&["directory-counts"], &[]);
}

#[test]
fn an_index_with_wrong_places_is_rebuilt() {
    let fixture = Fixture::new();
    fixture.edit_block("wide", Fork::Index, 2, |node| node[8 + 4] ^= 1);
    fixture.is_repaired(&["directory-index"], &[]);
    let fixture = Fixture::new();
    fixture.edit_inode("wide", |inode| inode.index_blocks -= 1);
    fixture.is_repaired(&["directory-index"], &[]);
}

#[test]
fn an_index_that_its_inode_does_not_count_is_dropped_and_rebuilt() {
    let fixture = Fixture::new();
    fixture.edit_inode("wide", |inode| inode.index_blocks = 0);
    fixture.is_repaired(&["directory-index"], &[]);
}

#[test]
fn an_index_with_a_damaged_node_is_rebuilt_without_loss() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("wide", Fork::Index, 0, 3));
    fixture.is_repaired(&["block-damaged"], &[]);
}

#[test]
fn a_damaged_block_of_a_directory_costs_its_entries_alone() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("medium", Fork::Data, 0, 0));
    // All lost names are of one file, which has others.
    let tree = fixture.is_repaired(&["block-damaged", "link-count"], &["medium", "wide", "many names"]);
    let left = tree.keys().filter(|path| path.starts_with("medium/")).count();
    assert!((1..150).contains(&left), "{left}");
    assert_eq!(tree["many names"].nlink as usize, 1 + left + 3000);
}

#[test]
fn records_after_an_invalid_one_are_given_up() {
    let fixture = Fixture::new();
    fixture.edit_block("medium", Fork::Data, 0, |block| {
        let record = dirent::records(block).nth(20).unwrap().unwrap();
        let at = record.at;
        block[at + 8] = 0;
        block[at + 9] = 0;
    });
    let tree = fixture.is_repaired(&["directory-block", "link-count"], &["medium", "wide", "many names"]);
    assert!(tree.keys().filter(|path| path.starts_with("medium/")).count() >= 20);
}

#[test]
fn invalid_inline_content_keeps_the_entries_before_the_error() {
    let fixture = Fixture::new();
    edit_inline(&fixture, "dir/sub/deep", |content| {
        let at = record_of(content, "link");
        content[at + 8] = 77;
    });
    let tree = fixture.is_repaired(&["directory-block", "lost-file"], &["dir/sub/deep/link"]);
    assert_eq!(tree[&format!("lost+found/#{}", fixture.ino("dir/sub/deep/link"))].content, b"../f");
}

#[test]
fn a_wrong_link_count_is_set_to_the_number_of_names() {
    for (path, nlink) in [("dir/shared", 7), ("small", 0), ("dir", 9)] {
        let fixture = Fixture::new();
        fixture.edit_inode(path, |inode| inode.nlink = nlink);
        let before = fixture.tree[path].nlink;
        if nlink == 0 {
            // Unlike a mount, the check frees no orphans: that would free the file.
            let codes = fixture.codes();
            assert!(
                codes.is_empty() || codes.contains("link-count") || codes.contains("entry-dangling"),
                "{codes:?}"
            );
            continue;
        }
        let tree = fixture.is_repaired(&["link-count"], &[]);
        assert_eq!(tree[path].nlink, before);
    }
}

#[test]
fn a_tree_without_a_name_goes_to_lost_and_found_whole() {
    let fixture = Fixture::new();
    let sub = fixture.ino("dir/sub");
    edit_inline(&fixture, "dir", |content| {
        let at = record_of(content, "sub");
        dirent::remove_inline(content, at).unwrap();
    });
    let codes = ["lost-tree", "directory-counts", "link-count"];
    let tree = fixture.is_repaired(&codes, &["dir/sub"]);
    let home = format!("lost+found/#{sub}");
    for (path, seen) in fixture.tree.iter().filter(|(path, _)| path.starts_with("dir/sub/")) {
        assert_eq!(&tree[&path.replace("dir/sub", &home)], seen);
    }
}

#[test]
fn a_circle_of_directories_is_opened() {
    let fixture = Fixture::new();
    let (sub, deep) = (fixture.ino("dir/sub"), fixture.ino("dir/sub/deep"));
    // `dir` loses `sub`; `deep`, which is below `sub`, gets it.
    edit_inline(&fixture, "dir", |content| {
        let at = record_of(content, "sub");
        dirent::remove_inline(content, at).unwrap();
    });
    edit_inline(&fixture, "dir/sub/deep", |content| {
        let at = record_of(content, "link");
        dirent::set_target(content, at, sub, Kind::Directory);
    });
    let codes = fixture.codes();
    assert!(codes.contains("lost-tree"), "{codes:?}");
    let repaired = fixture.repair();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
    let tree = fixture.with_volume(crate::fsck::fixture::walk);
    let lost: Vec<&String> = tree.keys().filter(|path| path.starts_with("lost+found/")).collect();
    assert!(
        tree.values().any(|seen| seen.ino == deep) && tree.values().any(|seen| seen.ino == sub),
        "{lost:?}"
    );
}
