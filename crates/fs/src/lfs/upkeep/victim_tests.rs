use super::*;
use crate::lfs::base::segment_map::{DeviceNo, Place, SegmentMap};
use firnfs_device::AlignedBuf;
use firnfs_format::summary::{EntryKind, summary_sectors};
use firnfs_format::{BlockPtr, Epoch, Incarnation, InodeNo, PtrKind, Serial, TimeNs};
use std::sync::{Arc, LazyLock};

const UUID: [u8; 16] = [9; 16];
const SEGMENT: SegmentId = SegmentId(3);
/// Segments of 1 MiB.
static GEO: LazyLock<Geometry> = LazyLock::new(|| {
    Geometry::with(
        4096,
        1 << 20,
        4096,
        SegmentMap::new(1 << 20).with_stretch(10, Place { device: DeviceNo::FIRST, at_bytes: 2 << 20 }),
    )
});

/// A segment of partial segments with that many blocks each, and their entries.
fn segment(partials: &[usize]) -> (Vec<u8>, Vec<Entry>) {
    let mut bytes = vec![0xee; GEO.segment_bytes as usize];
    let mut all = Vec::new();
    let mut sector = 0;
    for (serial, &blocks) in (1..).zip(partials) {
        let summary = summary_sectors(blocks).next_multiple_of(8);
        let entry = |n: usize| Entry {
            ino: InodeNo(20),
            version: 0,
            kind: EntryKind::Block { fork: 0, level: 0, index: n as u64 },
            ptr: BlockPtr {
                addr: GEO.addr(SEGMENT, sector + summary + 8 * n as u32),
                len_sectors: 8,
                kind: PtrKind::Plain,
                crc: 0,
                birth: Epoch(1),
            },
        };
        let entries: Vec<Entry> = (0..blocks).map(entry).collect();
        let mut header = Summary {
            crc: 0,
            uuid: UUID,
            serial: Serial(serial),
            prev_crc: 0,
            incarnation: Incarnation(1),
            durable_through: Serial(0),
            epoch: Epoch(1),
            flags: 0,
            time: TimeNs(0),
            segment: SEGMENT,
            next_segment: SegmentId(4),
            start_sector: sector,
            len_sectors: summary + 8 * blocks as u32,
            entries: 0,
            log: 0,
        };
        header.encode_into(&entries, &mut bytes[(sector * SECTOR_BYTES) as usize..]);
        sector += header.len_sectors;
        all.extend(entries);
    }
    (bytes, all)
}

fn victim(live_bytes: u32) -> Victim {
    let (written, youngest) = (TimeNs(0), TimeNs(0));
    Victim::new(Candidate { segment: SEGMENT, live_bytes, written, youngest, log: 0 })
}

/// Reads a victim until all is there; returns what was read, in the order of the reads.
fn read(victim: &mut Victim, medium: Medium, bytes: &[u8], live: &[Entry]) -> Vec<Run> {
    let mut reads = Vec::new();
    loop {
        victim.go_on(&medium, &UUID, &GEO);
        if victim.wants_choice() {
            victim.choose(&medium, &GEO, live.iter());
        }
        let asked = victim.asked().to_vec();
        if asked.is_empty() {
            break;
        }
        // In any order.
        for run in asked.iter().rev() {
            let from = (run.from * SECTOR_BYTES) as usize;
            victim.supply(*run, &Fetched::from(&bytes[from..from + run.bytes() as usize])).unwrap();
        }
        reads.extend(asked);
    }
    for entry in live {
        let from = (GEO.sector_of(entry.ptr.addr) * SECTOR_BYTES) as usize;
        assert_eq!(victim.stored(&GEO, entry), Some(&bytes[from..from + 4096]), "{entry:?}");
    }
    reads
}

fn total_bytes(reads: &[Run]) -> u64 {
    reads.iter().map(Run::bytes).sum()
}

#[test]
fn a_sparse_victim_is_read_as_its_summary_and_live_runs() {
    let (bytes, entries) = segment(&[250]);
    let live = [entries[3], entries[4], entries[100], entries[104], entries[240]];
    let mut sparse = victim(5 * 4096);
    let reads = read(&mut sparse, Medium::HEADLESS, &bytes, &live);
    assert_eq!(sparse.entries().copied().collect::<Vec<_>>(), entries);
    // The first read has block 0 and a part of the next; 101 to 103 lie in a gap that is read.
    assert_eq!(reads.len(), 4 + 1, "{reads:?}");
    assert!(total_bytes(&reads) < 80 << 10, "{reads:?}");
    assert!(!sparse.is_whole(&GEO));
}

#[test]
fn full_victims_and_those_on_a_device_with_a_head_are_read_in_one_request() {
    let (bytes, entries) = segment(&[250]);
    let whole = [Run { from: 0, len: 2048 }];
    assert_eq!(read(&mut victim(5 * 4096), Medium::HEAD, &bytes, &entries[..5]), whole);
    assert_eq!(read(&mut victim(245 * 4096), Medium::HEADLESS, &bytes, &entries[..245]), whole);
}

#[test]
fn where_partial_segments_are_short_the_rest_is_read_whole() {
    let (bytes, entries) = segment(&[2; 80]);
    let mut sparse = victim(4096);
    let reads = read(&mut sparse, Medium::HEADLESS, &bytes, &entries[70..71]);
    assert_eq!(reads, [Run { from: 0, len: 32 }, Run { from: 32, len: 2016 }]);
    assert!(sparse.is_whole(&GEO));
    assert_eq!(sparse.entries().count(), 160);
}

#[test]
fn dead_partial_segments_are_skipped() {
    let (bytes, entries) = segment(&[60, 60, 60]);
    let mut sparse = victim(2 * 4096);
    let reads = read(&mut sparse, Medium::HEADLESS, &bytes, &entries[150..152]);
    // Three summaries, the end of the walk, and one run.
    assert_eq!(reads.len(), 5, "{reads:?}");
    assert_eq!(total_bytes(&reads), 4 * 16384 + 2 * 4096);
}

#[test]
fn a_summary_longer_than_the_first_read_is_read_on() {
    const HALVES: Medium = Medium { request_ns: 1, byte_ps: 1000 };
    let (mut bytes, mut entries) = segment(&[]);
    // 1500 records of one sector have a summary of 118 sectors.
    for n in 0..1500u64 {
        entries.push(Entry {
            ino: InodeNo(100 + n),
            version: 0,
            kind: EntryKind::Inode { orphan: false },
            ptr: BlockPtr {
                addr: GEO.addr(SEGMENT, 120 + n as u32),
                len_sectors: 1,
                kind: PtrKind::Plain,
                crc: 0,
                birth: Epoch(1),
            },
        });
    }
    let (donor, _) = segment(&[1]);
    let (mut header, _) = Summary::decode(&donor).unwrap();
    header.len_sectors = 1624;
    header.encode_into(&entries, &mut bytes);
    let mut sparse = victim(512);
    sparse.go_on(&HALVES, &UUID, &GEO);
    let first = sparse.asked()[0];
    sparse.supply(first, &Fetched::from(&bytes[..first.bytes() as usize])).unwrap();
    sparse.go_on(&HALVES, &UUID, &GEO);
    assert_eq!(sparse.asked(), [Run::between(32, 118)]);
    sparse.supply(Run::between(32, 118), &Fetched::from(&bytes[32 * 512..118 * 512])).unwrap();
    sparse.go_on(&HALVES, &UUID, &GEO);
    assert_eq!(sparse.entries().count(), 1500);
    // The walk continues after it.
    assert_eq!(sparse.asked(), [Run { from: 1624, len: 32 }]);
}

/// Copies of victims took a third of the cleaner's processor time.
#[test]
fn a_victim_that_was_read_whole_stays_in_the_buffer_into_which_it_was_read() {
    let (bytes, entries) = segment(&[250]);
    let mut full = victim(240 * 4096);
    full.go_on(&Medium::HEADLESS, &UUID, &GEO);
    let read = Fetched::from(&*bytes);
    full.supply(full.asked()[0], &read).unwrap();
    full.go_on(&Medium::HEADLESS, &UUID, &GEO);
    let stored = full.stored(&GEO, &entries[7]).unwrap();
    assert!(read.as_ptr_range().contains(&stored.as_ptr()));
    let twice = Fetched::part(&Arc::new(AlignedBuf::zeroed(8192)), 0..4096).unwrap();
    assert!(matches!(Piece::of(&twice), Piece::Joined(_)), "a part keeps no more memory than it needs");
}

#[test]
fn a_damaged_summary_ends_the_walk_and_sectors_that_were_not_requested_are_ignored() {
    let (mut bytes, entries) = segment(&[60, 60, 60]);
    let second = (GEO.sector_of(entries[60].ptr.addr) / 8 * 8 - 8) * SECTOR_BYTES;
    bytes[second as usize + 200] ^= 1;
    let mut sparse = victim(3 * 4096);
    sparse.supply(Run { from: 0, len: 8 }, &Fetched::from(&bytes[..4096])).unwrap();
    read(&mut sparse, Medium::HEADLESS, &bytes, &entries[5..6]);
    assert_eq!(sparse.entries().count(), 60);
    assert!(sparse.stored(&GEO, &entries[170]).is_none());
    let mut short = victim(4096);
    short.go_on(&Medium::HEADLESS, &UUID, &GEO);
    assert!(short.supply(short.asked()[0], &Fetched::from(&bytes[..512])).is_err());
}
