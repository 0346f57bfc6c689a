use super::format::read_files;
use super::*;
use crate::age::layout::FreeSpace;

pub(in crate::age) fn meta(block_bytes: u32) -> Meta {
    Meta {
        taken_ns: 1_000_000_000_000_000_000,
        fs_type: "ffs".to_owned(),
        size_bytes: 1 << 30,
        block_bytes,
        segment_bytes: 0,
        groups: None,
        generations: Generations::Stored,
        unmapped_files: 0,
        free: Some(FreeSpace::default()),
        base: None,
    }
}

fn file(size_bytes: u64, places: &[(u64, u64, u64)]) -> Entry {
    let extent =
        |&(file_at_bytes, disk_at_bytes, len_bytes)| Extent { file_at_bytes, disk_at_bytes, len_bytes };
    Entry {
        generation: 7,
        kind: REGULAR,
        dir: 2,
        size_bytes,
        ctime_ns: -5,
        extents: places.iter().map(extent).collect(),
    }
}

fn many() -> Snapshot {
    let files = (3..20_000).map(|ino| (ino * 3, file(ino * 100, &[(0, ino << 20, 8192), (8192, 4096, 100)])));
    Snapshot { meta: meta(8192), files: files.collect() }
}

fn stored(snapshot: &Snapshot, base: Option<&Snapshot>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len_bytes = write(&mut bytes, snapshot, base.map(|base| ("before", base))).unwrap();
    assert_eq!(len_bytes, bytes.len() as u64);
    bytes
}

fn read(mut bytes: &[u8], base: Option<&Snapshot>) -> Result<Snapshot, SnapshotError> {
    let head = read_meta(&mut bytes)?;
    read_files(&mut bytes, head, base.cloned())
}

#[test]
fn a_snapshot_reads_back_as_it_was_written() {
    let snapshot = many();
    assert_eq!(read(&stored(&snapshot, None), None).unwrap(), snapshot);
}

#[test]
fn a_difference_is_small_and_leads_to_the_same_state() {
    let old = many();
    let mut new = old.clone();
    new.files.remove(&9);
    new.files.insert(10, file(5, &[]));
    new.files.get_mut(&300).unwrap().ctime_ns = 99;
    let (whole, difference) = (stored(&new, None), stored(&new, Some(&old)));
    assert!(difference.len() < 600 && whole.len() > 100 * difference.len(), "{}", difference.len());
    let read_back = read(&difference, Some(&old)).unwrap();
    assert_eq!(read_back.files, new.files);
    assert!(matches!(read(&difference, Some(&new)), Err(SnapshotError::Base(_))), "not its base");
    assert!(matches!(read(&difference, None), Err(SnapshotError::Base(_))));
}

#[test]
fn every_cut_and_every_flipped_byte_is_one_error() {
    let files = (3..40).map(|ino| (ino, file(ino, &[(0, ino << 13, 8192)]))).collect();
    let whole = stored(&Snapshot { meta: meta(8192), files }, None);
    for len in 0..whole.len() {
        read(&whole[..len], None).unwrap_err();
    }
    for at in 0..whole.len() {
        let mut bad = whole.clone();
        bad[at] ^= 0x40;
        assert!(read(&bad, None).is_err(), "byte {at}");
    }
    let mut longer = whole;
    longer.push(0);
    assert!(read(&longer, None).unwrap_err().to_string().contains("bytes follow the end"));
}

#[test]
fn damage_names_the_record_and_a_claim_allocates_nothing() {
    let whole = stored(&many(), None);
    let mut bad = whole.clone();
    let at = whole.len() - 100;
    bad[at] ^= 1;
    let error = read(&bad, None).unwrap_err().to_string();
    assert!(error.starts_with("record 1") && error.contains("(byte "), "{error}");
    // The first block claims 4 GiB.
    let (_, head_bytes) = read_meta(&mut &whole[..]).unwrap();
    bad.clone_from(&whole);
    bad[head_bytes as usize + 16..][..4].fill(0xff);
    assert!(read(&bad, None).unwrap_err().to_string().contains("a block claims"));
}

#[test]
fn a_chain_follows_differences_to_the_whole_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let path = |n: u64| directory.path().join(format!("night{n}"));
    let mut states = vec![many()];
    for night in 1..4 {
        let mut next = states[states.len() - 1].clone();
        next.files.insert(night, file(night, &[]));
        states.push(next);
    }
    for (night, state) in (0..).zip(&states) {
        let name = format!("night{}", u64::max(night, 1) - 1);
        let base = (night > 0).then(|| (name.as_str(), &states[night as usize - 1]));
        write(&mut std::fs::File::create(path(night)).unwrap(), state, base).unwrap();
    }
    assert_eq!(Chain::default().open(&path(3)).unwrap().files, states[3].files);
    let mut chain = Chain::default();
    for (night, state) in (0..).zip(&states) {
        assert_eq!(chain.open(&path(night)).unwrap().files, state.files);
    }
    std::fs::remove_file(path(1)).unwrap();
    assert!(Chain::default().open(&path(3)).unwrap_err().to_string().contains("night1"));
}
