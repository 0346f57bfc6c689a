//! Snapshots of file systems, whole ones and differences.

use super::framed::{Form, corrected};
use firnfs_lab::age::layout::Layout;
use firnfs_lab::age::snapshot::{
    Entry, Extent, Generations, Groups, Meta, REGULAR, Snapshot, read_files, read_meta, write,
};

/// The header, whose checksum covers its text alone, and a frame.
const HEADER: Form = Form { head_bytes: 20, crc_at: 16, len_at: 12, covered_from: 20 };
const FRAME: Form = Form { head_bytes: 24, crc_at: 4, len_at: 16, covered_from: 0 };

/// A file as it is, and with its checksums corrected: otherwise every input would be rejected at the first one. That of the whole state
/// rejects most of what is left, so the bytes are also taken for files themselves, which claim anything. What is read has a layout,
/// and is read again as it was written.
pub fn files(bytes: &[u8]) {
    check(bytes);
    check(&corrected(bytes, HEADER, FRAME));
    let claimed = claimed(bytes);
    let _scores = Layout::of(&claimed);
    let mut file = Vec::new();
    write(&mut file, &claimed, None).expect("a vector takes all");
    check(&file);
}

/// Files out of numbers: four for each, and three for each of up to three extents.
fn claimed(bytes: &[u8]) -> Snapshot {
    let mut numbers = bytes.chunks(8).map(|bytes| {
        let mut number = [0; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(number)
    });
    let mut files = Vec::new();
    while let (Some(ino), Some(size_bytes)) = (numbers.next(), numbers.next()) {
        let mut next = || numbers.next().unwrap_or(0);
        let (ctime_ns, extents) = (next().cast_signed(), next() % 4);
        let mut extent = |_| Extent { file_at_bytes: next(), disk_at_bytes: next(), len_bytes: next() };
        let extents = (0..extents).map(&mut extent).collect();
        files.push((ino, Entry { kind: REGULAR, size_bytes, ctime_ns, extents, ..Entry::default() }));
    }
    let mut snapshot = of(files.into_iter());
    snapshot.meta.segment_bytes = u32::from(bytes.first().copied().unwrap_or(0)) << 9;
    snapshot
}

fn check(mut bytes: &[u8]) {
    let input = &mut bytes;
    let Ok((meta, header_bytes)) = read_meta(input) else { return };
    // A difference is one to the first seed.
    let base = meta.base.is_some().then(first);
    let read = match read_files(input, (meta, header_bytes), base) {
        Ok(snapshot) => snapshot,
        Err(error) => return assert!(!error.to_string().contains('\n'), "an error is one line"),
    };
    let whole = Snapshot { meta: Meta { base: None, ..read.meta }, files: read.files };
    let _scores = Layout::of(&whole);
    let mut again = Vec::new();
    write(&mut again, &whole, None).expect("a vector takes all");
    let mut again = &again[..];
    let head = read_meta(&mut again).expect("what was written has a header");
    assert_eq!(read_files(&mut again, head, None).expect("what was written can be read"), whole);
}

fn of(files: impl Iterator<Item = (u64, Entry)>) -> Snapshot {
    let groups = Groups { inodes: 100, first_inode: 1, bytes: 1 << 20, first_byte: 4096 };
    let meta = Meta {
        taken_ns: 1_700_000_000_000_000_000,
        fs_type: "ext4".to_owned(),
        size_bytes: 1 << 30,
        block_bytes: 4096,
        segment_bytes: 0,
        groups: Some(groups),
        generations: Generations::Stored,
        unmapped_files: 1,
        free: None,
        base: None,
    };
    Snapshot { meta, files: files.collect() }
}

fn entry(n: u64) -> Entry {
    let extent = |part: u64| Extent {
        file_at_bytes: part * 8192,
        disk_at_bytes: (n * 7 + part * 13) % 1000 * 4096,
        len_bytes: 8192,
    };
    Entry {
        generation: n,
        kind: REGULAR,
        dir: n % 5,
        size_bytes: n % 4 * 8192,
        ctime_ns: n as i64 * 1_000_000_000 - 7,
        extents: (0..n % 4).map(extent).collect(),
    }
}

/// What differences are made to.
fn first() -> Snapshot {
    of((1..40).map(|n| (n * 3, entry(n))))
}

/// Whole ones of no, some and many files, and a difference.
pub fn seeds() -> Vec<Vec<u8>> {
    let file = |snapshot: &Snapshot, base: Option<(&str, &Snapshot)>| {
        let mut bytes = Vec::new();
        write(&mut bytes, snapshot, base).expect("a vector takes all");
        bytes
    };
    let first = first();
    let next = of((1..40).map(|n| (n * 3 + u64::from(n > 30), entry(n + u64::from(n % 9 == 0)))));
    vec![
        file(&of(std::iter::empty()), None),
        file(&first, None),
        file(&of((1..4000).map(|n| (n * n, entry(n)))), None),
        file(&next, Some(("first.snap", &first))),
    ]
}
