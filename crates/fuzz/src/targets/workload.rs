//! Workload files, and the traces of others that are turned into them.

use super::framed::{Form, corrected};
use firnfs_workload::{End, Error, FileId, Header, Op, Origin, Outcome, Reader, Record, Writer};
use firnfs_workload::{csv, nfsdump, strace};

/// The header, and a frame.
const HEADER: Form = Form { head_bytes: 64, crc_at: 60, len_at: 44, covered_from: 0 };
const FRAME: Form = Form { head_bytes: 48, crc_at: 4, len_at: 44, covered_from: 0 };

/// A file as it is, and with its checksums corrected: otherwise nearly every input would be rejected at the first one. What is
/// read is written again, and read again it is the same.
pub fn files(bytes: &[u8]) {
    check(bytes);
    check(&corrected(bytes, HEADER, FRAME));
}

fn check(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let (records, _why) = drain(&mut reader);
    assert!(reader.read_bytes() <= bytes.len() as u64);
    let mut writer = Writer::new(Vec::new(), reader.header()).expect("a vector takes all");
    for record in &records {
        writer.push(record).expect("what was read can be written");
    }
    let (again, _) = writer.finish(End::Last).expect("a vector takes all");
    let again = Reader::new(&again[..]).and_then(Iterator::collect::<Result<Vec<Record>, Error>>);
    assert_eq!(again.expect("what was written can be read"), records);
}

/// The records, and the error after them; the iterator has to end there.
fn drain(records: &mut impl Iterator<Item = Result<Record, Error>>) -> (Vec<Record>, Option<Error>) {
    let mut whole = Vec::new();
    let failed = records.by_ref().find_map(|next| match next {
        Ok(record) => {
            whole.push(record);
            None
        }
        Err(error) => Some(error),
    });
    if let Some(error) = &failed {
        assert!(records.next().is_none(), "an error is the end");
        assert!(!error.to_string().contains('\n'), "an error is one line");
    }
    (whole, failed)
}

/// Files of several blocks, compressed and not, and of every field.
pub fn file_seeds() -> Vec<Vec<u8>> {
    let file = |count: u64, name: &dyn Fn(u64) -> Vec<u8>| {
        let header = Header { options: vec![("threads".into(), "3".into())], ..Header::new(Origin::Mount) };
        let mut writer = Writer::new(Vec::new(), &header).expect("a vector takes all");
        for n in 0..count {
            let mut record: Record = Record::new(n * 1000, Op::ALL[(n % 30) as usize], FileId(n + 1));
            record.name = name(n);
            record.made = FileId(n << 40);
            if n % 2 == 0 {
                (record.duration_ns, record.client, record.argument) = (Some(n), n as u32, Some(0o644));
                (record.offset, record.to_offset, record.length) = (Some(n), Some(n * n), Some(4096));
                (record.to_file, record.to_name) = (FileId(n), b"to".to_vec());
            }
            record.outcome = [Outcome::Unknown, Outcome::Done(n), Outcome::Failed(2)][(n % 3) as usize];
            writer.push(&record).expect("names are short");
        }
        writer.lose(count).expect("a vector takes all");
        writer.finish(End::Continued).expect("a vector takes all").0
    };
    // Names that do not compress: a block that is stored as it is.
    let noise =
        |n: u64| (0..8).flat_map(|i| (n * 8 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    vec![
        file(0, &|_| Vec::new()),
        file(3, &|_| b"name".to_vec()),
        file(90, &|n| n.to_le_bytes().to_vec()),
        file(40, &noise),
    ]
}

/// A text; its first byte says of which kind. What is read can be written.
pub fn traces(bytes: &[u8]) {
    let Some((kind, text)) = bytes.split_first() else { return };
    let (records, _why) = match kind % 3 {
        0 => drain(&mut nfsdump::Reader::new(text)),
        1 => drain(&mut strace::Reader::new(text)),
        _ => match csv::Reader::new(text) {
            Ok(mut reader) => drain(&mut reader),
            Err(_) => return,
        },
    };
    assert!(records.len() <= text.len(), "a record takes more than a byte of text");
    let mut writer = Writer::new(Vec::new(), &Header::new(Origin::Csv)).expect("a vector takes all");
    for record in &records {
        writer.push(record).expect("what was read can be written");
    }
}

/// The samples of the readers' tests, and tables.
pub fn trace_seeds() -> Vec<Vec<u8>> {
    let nfsdump = include_bytes!("../../../workload/tests/samples/nfsdump.txt");
    let strace = include_bytes!("../../../workload/tests/samples/strace.txt");
    let table = b"time,op,file,name,offset,length,result,error\n1.5,write,7,\"a,b\",0,4096,4096,\n2,unlink,1,\\x00,,,,2\n";
    let of_unix = b"op,unix_time,file,to_file\nrename,1700000000.25,/a,/b\n";
    let short = b"7 12:00:00.1 open(\"a\\303\", O_RDWR|O_TRUNC) = 3\n7 23:59:59 dup2(3, 4) = 4\n7 0:0:0 read(4, \"\", 9) = 1\n";
    let kinds: [(u8, &[u8]); 5] = [(0, nfsdump), (1, strace), (1, short), (2, table), (2, of_unix)];
    kinds.into_iter().map(|(kind, text)| [&[kind], text].concat()).collect()
}
