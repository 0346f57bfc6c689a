//! Phase 1: records, pointers, blocks, attributes.

use crate::fsck::fixture::{BLOCK, Fixture, mount, pattern};
use firnfs::inode::{Kind, Xattrs};
use firnfs::store::{Fork, Intent, Owner, Scope, Store};
use firnfs_format::InodeNo;

/// Offset of the first block pointer in a record.
const POINTERS_AT: usize = 168;

#[test]
fn a_damaged_block_of_a_file_turns_into_zeros_and_nothing_else_does() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("dir/blocks", Fork::Data, 0, 3));
    let tree = fixture.is_repaired(&["block-damaged"], &["dir/blocks"]);
    let mut expected = pattern(1, 8 * BLOCK);
    expected[3 * BLOCK..4 * BLOCK].fill(0);
    assert!(tree["dir/blocks"].content == expected);
}

#[test]
fn a_damaged_indirect_block_costs_the_blocks_below_it() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("dir/sub/large", Fork::Data, 1, 1));
    let tree = fixture.is_repaired(&["block-damaged"], &["dir/sub/large"]);
    let mut expected = pattern(2, 400 * BLOCK + 77);
    expected[268 * BLOCK..].fill(0);
    assert!(tree["dir/sub/large"].content == expected);
}

#[test]
fn a_pointer_of_an_unknown_kind_turns_into_a_hole() {
    let fixture = Fixture::new();
    fixture.edit_record("dir/blocks", |bytes| bytes[POINTERS_AT + 16 + 7] = 7);
    let tree = fixture.is_repaired(&["block-pointer"], &["dir/blocks"]);
    let mut expected = pattern(1, 8 * BLOCK);
    expected[BLOCK..2 * BLOCK].fill(0);
    assert!(tree["dir/blocks"].content == expected);
}

#[test]
fn a_record_with_a_pointer_beyond_the_volume_is_refused_as_a_mount_refuses_it() {
    let fixture = Fixture::new();
    fixture.edit_record("dir/blocks", |bytes| bytes[POINTERS_AT + 5] = 0xee);
    fixture.is_repaired(&["inode-record", "entry-dangling"], &["dir/blocks"]);
}

#[test]
fn a_block_that_two_pointers_lead_to_is_given_a_place_of_its_own() {
    let fixture = Fixture::new();
    fixture.edit_record("dir/blocks", |bytes| {
        bytes.copy_within(POINTERS_AT..POINTERS_AT + 16, POINTERS_AT + 16)
    });
    let tree = fixture.is_repaired(&["block-shared"], &["dir/blocks"]);
    let mut expected = pattern(1, 8 * BLOCK);
    expected.copy_within(..BLOCK, BLOCK);
    assert!(tree["dir/blocks"].content == expected);
    let (a, b) =
        (fixture.block("dir/blocks", Fork::Data, 0, 0), fixture.block("dir/blocks", Fork::Data, 0, 1));
    assert_ne!(a.addr, b.addr);
}

#[test]
fn an_indirect_block_that_leads_to_itself_does_not_keep_the_check_from_ending() {
    let fixture = Fixture::new();
    // Make the first pointer of the double indirect block's child lead to that child's own place.
    let ptr = fixture.block("dir/sub/large", Fork::Data, 1, 0);
    fixture.edit_record("dir/sub/large", |bytes| {
        let double = POINTERS_AT + 13 * 16;
        bytes[double..double + 16].copy_from_slice(&ptr.encode());
    });
    let codes = fixture.codes();
    assert!(codes.contains("block-shared"), "{codes:?}");
    let repaired = fixture.repair();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
}

#[test]
fn a_block_beyond_the_end_of_its_file_is_dropped() {
    let fixture = Fixture::new();
    fixture.edit_inode("dir/blocks", |inode| inode.size_bytes = 5 * BLOCK as u64);
    let tree = fixture.is_repaired(&["block-beyond-end"], &["dir/blocks"]);
    assert!(tree["dir/blocks"].content == pattern(1, 5 * BLOCK));
}

#[test]
fn a_damaged_record_costs_its_file_alone() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.record_ptr(fixture.ino("dir/blocks")));
    let tree = fixture.is_repaired(&["inode-record", "entry-dangling"], &["dir/blocks"]);
    assert!(!tree.contains_key("dir/blocks"));
}

#[test]
fn a_record_of_another_inode_counts_as_damaged() {
    let fixture = Fixture::new();
    fixture.edit_record("small", |bytes| bytes[8] ^= 1);
    fixture.is_repaired(&["inode-record", "entry-dangling"], &["small"]);
}

#[test]
fn the_files_of_a_directory_with_a_damaged_record_go_to_lost_and_found() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.record_ptr(fixture.ino("dir/sub")));
    let (large, deep) = (fixture.ino("dir/sub/large"), fixture.ino("dir/sub/deep"));
    let tree = fixture.is_repaired(
        &["inode-record", "entry-dangling", "lost-tree", "lost-file", "link-count"],
        &["dir/sub", "dir/shared"],
    );
    assert!(tree[&format!("lost+found/#{large}")].content == pattern(2, 400 * BLOCK + 77));
    assert!(tree[&format!("lost+found/#{deep}/deep file")].content == pattern(3, 3 * BLOCK + 5));
    assert_eq!(tree["dir/shared"].nlink, 1);
}

#[test]
fn the_root_record_can_be_cleared_and_everything_is_found_again() {
    let fixture = Fixture::new();
    let ptr = fixture.record_ptr(InodeNo::ROOT);
    let at_bytes = fixture.geometry().device_bytes(ptr.addr);
    fixture.write(at_bytes, &vec![0; ptr.stored_bytes() as usize]);
    let codes = ["inode-record", "root-directory", "lost-tree", "lost-file", "link-count"];
    let told = fixture.codes();
    assert!(told.contains("root-directory") && told.iter().all(|code| codes.contains(code)), "{told:?}");
    let repaired = fixture.repair();
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
    let tree = fixture.with_volume(crate::fsck::fixture::walk);
    for (path, seen) in &fixture.tree {
        let (first, rest) = path.split_once('/').map_or((path.as_str(), None), |(f, r)| (f, Some(r)));
        let home = format!("lost+found/#{}", fixture.ino(first));
        let path = rest.map_or(home.clone(), |rest| format!("{home}/{rest}"));
        // The lost directory holds one name of the file with many names.
        if first == "many names" {
            continue;
        }
        let found = tree.get(&path).unwrap_or_else(|| panic!("{path} is gone"));
        assert!((found.ino, &found.content) == (seen.ino, &seen.content), "{path}");
    }
}

#[test]
fn a_wrong_version_or_orphan_bit_in_the_inode_map_is_set_right() {
    let fixture = Fixture::new();
    fixture.edit_imap(fixture.ino("dir/blocks"), |entry| entry.version += 1);
    fixture.is_repaired(&["inode-version"], &[]);
    let fixture = Fixture::new();
    fixture.edit_imap(fixture.ino("small"), |entry| entry.orphan = true);
    fixture.edit_checkpoint(|slot| slot.imap.special += 1);
    fixture.is_repaired(&["inode-orphan"], &[]);
}

#[test]
fn a_file_with_a_hash_index_and_a_directory_of_half_a_block_are_set_right() {
    let fixture = Fixture::new();
    fixture.edit_inode("small", |inode| inode.index_blocks = 3);
    fixture.is_repaired(&["inode-form"], &[]);
    let fixture = Fixture::new();
    fixture.edit_inode("medium", |inode| inode.size_bytes -= 100);
    fixture.is_repaired(&["inode-form"], &[]);
}

#[test]
fn damaged_attributes_go_and_sound_ones_stay() {
    let fixture = Fixture::new();
    fixture.edit_inode("dir/shared", |inode| {
        let Xattrs::Inline(set) = &mut inode.xattrs else { panic!("inline") };
        set.extend_from_slice(&[200, 0, 0, 0, 0, b'x']);
    });
    fixture.is_repaired(&["attributes"], &[]);
    let fixture = Fixture::new();
    fixture.edit_block("attributed", Fork::Xattr, 1, |bytes| bytes[1000] ^= 0xff);
    assert_eq!(fixture.codes(), Default::default(), "a value may be anything");
    fixture.edit_block("attributed", Fork::Xattr, 0, |bytes| bytes[0] = 0);
    let tree = fixture.is_repaired(&["attributes"], &["attributed"]);
    assert_eq!(tree["attributed"].content, b"with attributes in blocks");
}

#[test]
fn a_damaged_block_of_attributes_costs_the_attributes_after_it() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("attributed", Fork::Xattr, 0, 2));
    let tree = fixture.is_repaired(&["block-damaged"], &["attributed"]);
    assert_eq!(tree["attributed"].content, b"with attributes in blocks");
}

#[test]
fn bytes_charged_to_an_inode_are_recounted() {
    let fixture = Fixture::new();
    fixture.edit_record("dir/blocks", |bytes| bytes[140] = bytes[140].wrapping_add(64));
    fixture.is_repaired(&["inode-charge"], &[]);
}

#[test]
fn damage_in_blocks_that_the_log_has_replaced_does_not_prevent_the_repair_of_a_crashed_volume() {
    let mut fixture = Fixture::new();
    let old = fixture.block("dir/sub/large", Fork::Data, 1, 0);
    let ino = fixture.ino("dir/sub/large");
    let volume = mount(&fixture.device);
    volume.write(ino, 20 * BLOCK as u64, &pattern(9, BLOCK), false).unwrap();
    volume.sync(Scope::File(ino)).unwrap();
    // The program ends without an unmount.
    drop(volume);
    fixture.damage(&old);
    let mut expected = pattern(2, 400 * BLOCK + 77);
    expected[20 * BLOCK..21 * BLOCK].copy_from_slice(&pattern(9, BLOCK));
    fixture.tree.get_mut("dir/sub/large").unwrap().content = expected;
    fixture.is_repaired(&["roll-forward"], &[]);
}

#[test]
fn a_lost_file_gets_a_name_again() {
    let fixture = Fixture::new();
    let owner = Owner { uid: 0, gid: 0 };
    let intents = [Intent::Create { parent: InodeNo::ROOT, kind: Kind::Regular, owner, bytes: 0 }];
    fixture.operate(&intents, |store, op| {
        let mut inode = firnfs::inode::Inode::new(Kind::Regular, op.now);
        inode.nlink = 1;
        store.inode_alloc(op, inode);
    });
    let tree = fixture.is_repaired(&["lost-file"], &[]);
    assert_eq!(tree.keys().filter(|path| path.starts_with("lost+found/")).count(), 1);
}
