//! What is written is read back, and every damaged file is one clear error: where it is, no panic, bounded memory.

use firnfs_workload::layout::{BLOCK_MAX_BYTES, NAME_MAX_BYTES};
use firnfs_workload::{
    End, Error, FileId, Header, Naming, Op, Origin, Outcome, Reader, Record, TooLong, Writer, csv,
};
use proptest::prelude::*;

fn any_header() -> impl Strategy<Value = Header> {
    let option = ("[a-z_]{1,9}", "[ -~äß]{0,20}");
    (any::<u64>(), any::<[u8; 16]>(), any::<u32>(), any::<bool>(), proptest::collection::vec(option, 0..5))
        .prop_map(|(start_ns, recording, part, is_hashed, options)| Header {
            naming: if is_hashed { Naming::Hashed } else { Naming::AsGiven },
            start_ns,
            recording,
            part,
            options,
            ..Header::new(Origin::Mount)
        })
}

fn any_record() -> impl Strategy<Value = Record> {
    let number = || prop_oneof![Just(None), any::<u64>().prop_map(Some), (0..9000u64).prop_map(Some)];
    let file = || prop_oneof![Just(0), 1..50u64, any::<u64>()].prop_map(FileId);
    let name = || {
        prop_oneof![
            3 => Just(Vec::new()),
            3 => "[a-z,\"\\\\#ä ]{1,20}".prop_map(String::into_bytes),
            1 => proptest::collection::vec(any::<u8>(), 1..300),
        ]
    };
    let outcome = prop_oneof![
        Just(Outcome::Unknown),
        prop_oneof![Just(0), any::<u64>()].prop_map(Outcome::Done),
        any::<u32>().prop_map(Outcome::Failed)
    ];
    let times = (prop_oneof![any::<u64>(), 0..1_000_000_000u64], number(), any::<u32>());
    let files = (file(), name(), file(), name(), file());
    let places = (number(), number(), number(), proptest::option::of(any::<u32>()));
    (times, proptest::sample::select(Op::ALL), files, places, outcome).prop_map(
        |(times, op, files, places, outcome)| Record {
            time_ns: times.0,
            duration_ns: times.1,
            client: times.2,
            op,
            file: files.0,
            name: files.1,
            to_file: files.2,
            to_name: files.3,
            made: files.4,
            offset: places.0,
            to_offset: places.1,
            length: places.2,
            argument: places.3,
            outcome,
        },
    )
}

fn write(header: &Header, records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    records.iter().for_each(|record| writer.push(record).unwrap());
    let (bytes, count) = writer.finish(End::Last).unwrap();
    assert_eq!(count, records.len() as u64);
    bytes
}

/// The records before the error, and the error. An iterator that does not end with it never returns.
fn read(bytes: &[u8]) -> (Vec<Record>, Option<Error>) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    while let Some(next) = reader.next() {
        match next {
            Ok(record) => records.push(record),
            Err(error) => {
                assert!(reader.next().is_none(), "an error is the end");
                return (records, Some(error));
            }
        }
    }
    assert_eq!(reader.end(), Some(End::Last));
    assert_eq!(reader.read_bytes(), bytes.len() as u64);
    (records, None)
}

/// Some blocks of real-looking records.
fn sample(count: u64) -> Vec<Record> {
    (0..count)
        .map(|n| {
            let mut record: Record = Record::new(n * 12_345, Op::ALL[(n % 30) as usize], FileId(n % 70 + 1));
            record.duration_ns = Some(n * 7 % 40_000);
            record.name = format!("file-{:05}", n * 7919 % 10_007).into_bytes();
            record.offset = Some(n * 4096);
            record.length = Some(4096);
            record.outcome = Outcome::Done(4096);
            record
        })
        .collect()
}

proptest! {
    #[test]
    fn every_record_and_header_comes_back(header in any_header(), records in proptest::collection::vec(any_record(), 0..200)) {
        let bytes = write(&header, &records);
        let (found, error) = read(&bytes);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(&found, &records);
        let reader = Reader::new(&bytes[..]).unwrap();
        prop_assert_eq!(reader.header(), &header);
    }

    #[test]
    fn a_table_of_values_holds_all_that_a_record_has(records in proptest::collection::vec(any_record(), 0..50)) {
        let mut table = Vec::new();
        csv::write_head(&mut table).unwrap();
        records.iter().for_each(|record| csv::write_record(&mut table, record).unwrap());
        let read: Result<Vec<Record>, Error> = csv::Reader::new(&table[..]).unwrap().collect();
        prop_assert_eq!(read.unwrap(), records);
    }

    #[test]
    fn bytes_of_any_kind_are_an_error_or_records(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut file = write(&Header::new(Origin::Csv), &[]);
        file.truncate(64);
        file.extend(bytes);
        prop_assert!(read(&file).1.is_some());
    }
}

#[test]
fn blocks_are_bounded_compressed_and_read_one_by_one() {
    let records = sample(20_000);
    let bytes = write(&Header::new(Origin::Mount), &records);
    let (found, error) = read(&bytes);
    assert!(error.is_none() && found == records);
    assert!(bytes.len() < 20_000 * 16, "{} bytes", bytes.len());
    let heads: Vec<usize> =
        bytes.windows(4).enumerate().filter(|(_, w)| *w == b"WFRM").map(|(at, _)| at).collect();
    assert!(heads.len() > 5 && heads.windows(2).all(|pair| pair[1] - pair[0] <= BLOCK_MAX_BYTES + 48));
}

#[test]
fn a_file_cut_anywhere_is_one_error_after_the_whole_blocks() {
    let records = sample(6_000);
    let bytes = write(&Header::new(Origin::Mount), &records);
    // Everywhere near frames and in the header, and at many places between.
    for len in (0..bytes.len()).filter(|len| len % 101 == 0 || *len < 200 || bytes.len() - len < 200) {
        let (found, error) = read(&bytes[..len]);
        assert_eq!(found, records[..found.len()], "cut at {len}");
        match error.unwrap_or_else(|| panic!("cut at {len}: no error")) {
            Error::NotAWorkload if len < 8 => {}
            Error::Header(_) if len < 64 => {}
            Error::Damaged { record, at_bytes, .. } => {
                assert_eq!(record, found.len() as u64 + 1, "cut at {len}");
                assert!(at_bytes <= len as u64);
            }
            other => panic!("cut at {len}: {other}"),
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_one_error_and_no_record_is_wrong() {
    let records = sample(3_000);
    let bytes =
        write(&Header { options: vec![("a".into(), "b".into())], ..Header::new(Origin::Mount) }, &records);
    for at in (0..bytes.len()).filter(|at| at % 37 == 0 || *at < 130 || bytes.len() - at < 60) {
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let (found, error) = read(&damaged);
            let error = error.unwrap_or_else(|| panic!("byte {at}, bit {bit}: no error"));
            assert_eq!(found, records[..found.len()], "byte {at}, bit {bit}");
            assert!(!error.to_string().contains('\n'));
            if let Error::Damaged { record, .. } = error {
                assert_eq!(record, found.len() as u64 + 1);
            } else {
                assert!(at < 68, "byte {at}: {error}");
            }
        }
    }
}

#[test]
fn a_file_without_its_end_or_with_more_says_so() {
    let records = sample(10);
    let whole = write(&Header::new(Origin::Mount), &records);
    let (found, error) = read(&whole[..whole.len() - 48]);
    assert_eq!(found.len(), 10);
    let error = error.unwrap().to_string();
    assert!(error.starts_with("record 11 (byte ") && error.contains("cut short"), "{error}");
    let longer = [&whole[..], b"x"].concat();
    assert!(read(&longer).1.unwrap().to_string().contains("bytes follow the end"));
    let mut newer = whole;
    newer[8] = 2;
    assert!(matches!(read(&newer).1, Some(Error::Version(2))));
    assert!(matches!(read(b"time,op\n").1, Some(Error::NotAWorkload)));
}

#[test]
fn losses_are_counted_where_they_happened() {
    let mut writer = Writer::new(Vec::new(), &Header::new(Origin::Mount)).unwrap();
    let records = sample(4);
    writer.push(&records[0]).unwrap();
    writer.lose(5).unwrap();
    writer.push(&records[1]).unwrap();
    writer.lose(0).unwrap();
    writer.push(&records[2]).unwrap();
    writer.lose(2).unwrap();
    let (bytes, _) = writer.finish(End::Continued).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let mut lost = Vec::new();
    while let Some(record) = reader.next() {
        record.unwrap();
        lost.push(reader.lost());
    }
    assert_eq!((lost, reader.lost(), reader.end()), (vec![0, 5, 5], 7, Some(End::Continued)));
}

#[test]
fn a_name_that_is_too_long_is_refused_and_the_file_stays_whole() {
    let mut writer = Writer::new(Vec::new(), &Header::new(Origin::Csv)).unwrap();
    let mut record: Record = Record::new(1, Op::Lookup, FileId(1));
    record.name = vec![b'n'; NAME_MAX_BYTES];
    for _ in 0..40 {
        writer.push(&record).unwrap();
    }
    record.to_name = vec![b'n'; NAME_MAX_BYTES + 1];
    let refused = writer.push(&record);
    assert!(matches!(refused, Err(Error::Unwritable { record: 41, source: TooLong(4097) })), "{refused:?}");
    let (bytes, count) = writer.finish(End::Last).unwrap();
    assert_eq!((read(&bytes).0.len(), count), (40, 40));
}

/// The example in docs/internals/workload.md is a file as this crate writes and reads it.
#[test]
fn the_example_in_the_documentation_is_what_is_written() {
    let mut record: Record = Record::new(5, Op::Mkdir, FileId(1));
    record.name = b"a".to_vec();
    (record.argument, record.made, record.outcome) = (Some(0o755), FileId(2), Outcome::Done(0));
    let header = Header { options: vec![("k".into(), "v".into())], ..Header::new(Origin::Mount) };
    let bytes = write(&header, &[record]);
    let line = |(at, line): (usize, &[u8])| {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}\n", at * 16, bytes.join(" "))
    };
    let dump: String = bytes.chunks(16).enumerate().map(line).collect();
    let documented = include_str!("../../../docs/internals/workload.md");
    assert!(documented.contains(&dump), "the documentation should show:\n{dump}");
}
