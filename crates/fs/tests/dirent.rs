//! A directory block against a list: whatever is inserted, removed and retargeted, the block and the list agree, and the
//! records keep the grammar. proptest minimises and prints failures.

use firnfs::dirent;
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use proptest::collection::vec;
use proptest::prelude::*;

const BLOCK_BYTES: usize = 4096;

/// A change of a block. A number selects an entry, modulo the number of entries.
#[derive(Clone, Debug)]
enum Change {
    Insert { name: Vec<u8>, ino: u64 },
    Remove(usize),
    Retarget { entry: usize, ino: u64 },
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_map(|byte| if byte == 0 || byte == b'/' { b'x' } else { byte });
    // Mostly short names of few letters, so that some come twice; and some of any length.
    prop_oneof![4 => vec(b'a'..=b'c', 1..4), 2 => vec(byte.clone(), 1..40), 1 => vec(byte, 200..256)]
}

fn change() -> impl Strategy<Value = Change> {
    let ino = 1..u64::MAX;
    prop_oneof![
        4 => (name(), ino.clone()).prop_map(|(name, ino)| Change::Insert { name, ino }),
        2 => any::<usize>().prop_map(Change::Remove),
        1 => (any::<usize>(), ino).prop_map(|(entry, ino)| Change::Retarget { entry, ino }),
    ]
}

/// An entry of the model: where it must stay, its name and its target.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    at: usize,
    name: Vec<u8>,
    ino: u64,
    kind: Kind,
}

fn kind_of(ino: u64) -> Kind {
    if ino.is_multiple_of(2) { Kind::Directory } else { Kind::Regular }
}

/// The live entries of a block, with the grammar checked: records tile the units, and only the first of a unit may be free.
fn entries(block: &[u8], unit_bytes: usize) -> Vec<Entry> {
    let mut next = 0;
    let mut found = Vec::new();
    for record in dirent::records(block) {
        let record = record.unwrap();
        assert_eq!(record.at, next);
        next = record.end();
        assert_eq!(record.at / unit_bytes, (next - 1) / unit_bytes, "a record crosses a unit");
        if record.is_free() {
            assert!(record.at.is_multiple_of(unit_bytes));
            continue;
        }
        let (name, kind) = (record.name.to_vec(), record.kind().unwrap());
        found.push(Entry { at: record.at, name, ino: record.ino.0, kind });
    }
    assert!(next == block.len() || found.is_empty() && dirent::is_zero(block));
    found
}

fn apply(block: &mut [u8], unit_bytes: usize, model: &mut Vec<Entry>, change: &Change) {
    match change {
        Change::Insert { name, ino } if !model.iter().any(|entry| entry.name == *name) => {
            let Some(host) = dirent::room(block, name.len()).unwrap() else {
                let used: usize = model.iter().map(|entry| dirent::record_bytes(entry.name.len())).sum();
                // The slack is divided among the records: all of it together may suffice although no single part does.
                let parts = model.len() + block.len() / unit_bytes;
                assert!(block.len() - used < parts * dirent::record_bytes(name.len()));
                return;
            };
            let kind = kind_of(*ino);
            let at = dirent::insert(block, host, (InodeNo(*ino), kind), name, unit_bytes).unwrap();
            model.push(Entry { at, name: name.clone(), ino: *ino, kind });
        }
        Change::Insert { .. } => {}
        Change::Remove(entry) if !model.is_empty() => {
            let entry = model.swap_remove(entry % model.len());
            dirent::remove(block, entry.at, unit_bytes).unwrap();
        }
        Change::Retarget { entry, ino } if !model.is_empty() => {
            let at = entry % model.len();
            let entry = &mut model[at];
            (entry.ino, entry.kind) = (*ino, kind_of(*ino));
            dirent::set_target(block, entry.at, InodeNo(*ino), entry.kind);
        }
        Change::Remove(_) | Change::Retarget { .. } => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_directory_block_holds_the_entries_inserted_and_not_removed(
        changes in vec(change(), 1..200),
        in_sectors in any::<bool>(),
    ) {
        let unit_bytes = if in_sectors { dirent::DIR_UNIT_MIN_BYTES } else { BLOCK_BYTES };
        let mut block = vec![0; BLOCK_BYTES];
        let mut model = Vec::new();
        for change in &changes {
            apply(&mut block, unit_bytes, &mut model, change);
            model.sort_by_key(|entry| entry.at);
            prop_assert_eq!(&entries(&block, unit_bytes), &model);
            prop_assert_eq!(dirent::is_empty(&block).unwrap(), model.is_empty());
        }
        for entry in &model {
            let found = dirent::find(&block, &entry.name).unwrap().expect("an entry that is there");
            prop_assert_eq!((found.at, found.ino.0), (entry.at, entry.ino));
        }
        prop_assert!(dirent::find(&block, b"never put in").unwrap().is_none());
    }

    #[test]
    fn inline_entries_come_back_and_fill_a_block_as_they_are(
        names in vec(name(), 1..12),
        removals in vec(any::<usize>(), 0..12),
    ) {
        let (mut content, mut model) = (Vec::new(), Vec::<Entry>::new());
        for (n, name) in names.into_iter().enumerate() {
            let ino = n as u64 + 1;
            let at = dirent::append_inline(&mut content, InodeNo(ino), kind_of(ino), &name);
            model.push(Entry { at, name, ino, kind: kind_of(ino) });
        }
        for removal in removals {
            if model.is_empty() {
                break;
            }
            let entry = model.remove(removal % model.len());
            dirent::remove_inline(&mut content, entry.at).unwrap();
            prop_assert_eq!(&entries(&content, usize::MAX), &model);
        }
        let mut block = vec![0; BLOCK_BYTES];
        dirent::fill_block(&mut block, &content).unwrap();
        prop_assert_eq!(&entries(&block, BLOCK_BYTES), &model);
    }

    #[test]
    fn foreign_bytes_give_records_within_the_block_or_an_error(mut block in vec(any::<u8>(), 0..512)) {
        // Plausible lengths, so that reading gets past the first record.
        for at in (0..block.len().saturating_sub(10)).step_by(32) {
            block[at + 8..at + 10].copy_from_slice(&[4, 0]);
        }
        let mut next = 0;
        for record in dirent::records(&block).map_while(Result::ok) {
            prop_assert!(record.at == next && record.end() <= block.len() && record.len_bytes > 0);
            next = record.end();
        }
        let _ = (dirent::find(&block, b"name"), dirent::room(&block, 9), dirent::is_empty(&block));
    }
}
