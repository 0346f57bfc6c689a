//! Foreign traces: a small real-looking sample of each, and what malformed lines do.

use firnfs_workload::{Error, FileId, Op, Outcome, Record, csv, nfsdump, strace};

fn all(records: impl Iterator<Item = Result<Record, Error>>) -> Vec<Record> {
    records.map(Result::unwrap).collect()
}

fn file(name: &str) -> FileId {
    FileId::of_bytes(name.as_bytes())
}

/// The error of a text, and how many records came before it. Nothing comes after it.
fn error_of(mut records: impl Iterator<Item = Result<Record, Error>>) -> (usize, String) {
    let mut before = 0;
    loop {
        match records.next() {
            Some(Ok(_)) => before += 1,
            Some(Err(error)) => {
                assert!(records.next().is_none(), "an error is the end");
                return (before, error.to_string());
            }
            None => panic!("no error after {before} records"),
        }
    }
}

#[test]
fn nfsdump_calls_and_replies_become_records_in_the_order_of_calls() {
    let text = include_bytes!("samples/nfsdump.txt");
    let mut reader = nfsdump::Reader::new(&text[..]);
    let records = all(&mut reader);
    assert_eq!(reader.start_ns(), 1_034_114_399_991_238_000);
    assert_eq!(reader.read_bytes(), text.len() as u64);
    let ops: Vec<Op> = records.iter().map(|record| record.op).collect();
    let wanted = [Op::Lookup, Op::Read, Op::Write, Op::Create, Op::Rename, Op::Truncate, Op::Link];
    assert_eq!(ops, wanted, "a call sent again counts once, fsinfo not, and a reply without a call not");
    let lookup = &records[0];
    assert_eq!((lookup.time_ns, lookup.duration_ns, lookup.client), (0, Some(186_000), 0x30));
    assert_eq!(
        (lookup.file, &lookup.name[..], lookup.made),
        (file("61890100575701002"), &b"inbox"[..], file("7a020000b1c1"))
    );
    let read = &records[1];
    assert_eq!((read.offset, read.length, read.outcome), (Some(0x2000), Some(0x2000), Outcome::Done(0x1f4)));
    assert_eq!(read.duration_ns, Some(900_000), "the reply comes after that of the write");
    assert_eq!((records[2].outcome, records[2].duration_ns), (Outcome::Done(0x1000), Some(400_000)));
    let create = &records[3];
    assert_eq!((&create.name[..], create.argument, create.made), (&b"a b"[..], Some(0o644), file("99aa")));
    let rename = &records[4];
    assert_eq!((rename.file, rename.to_file, &rename.to_name[..]), (file("6189"), file("618a"), &b"c"[..]));
    assert_eq!(rename.outcome, Outcome::Failed(39), "ENOTEMPTY has another number in NFS");
    assert_eq!((records[5].length, records[5].outcome), (Some(0), Outcome::Unknown), "there is no reply");
    let link = &records[6];
    assert_eq!(
        (link.file, link.to_file, &link.to_name[..], &link.name[..]),
        (file("99aa"), file("6189"), &b"hard"[..], &b""[..])
    );
}

#[test]
fn nfsdump_calls_without_replies_hold_no_more_than_a_bounded_number_back() {
    let mut text = String::new();
    for n in 0..nfsdump::PENDING_MAX + 10 {
        text += &format!("1034114399.000000 30.0801 31.03fe U C3 {n:x} 1 getattr fh 61 con = 1 len = 1\n");
    }
    text += "not a line\n";
    let (before, error) = error_of(nfsdump::Reader::new(text.as_bytes()));
    assert_eq!(before, 10, "{error}");
}

#[test]
fn malformed_lines_of_nfsdump_are_one_error_with_their_number() {
    let good = "1034114399.5 30.0801 31.03fe U C3 1 1 getattr fh 61 con = 1 len = 1\n";
    for (bad, says) in [
        ("1034114399.x 30.0801 31.03fe U C3 2 1 getattr fh 61", "is not a time"),
        ("1034114399.5 30 31.03fe U C3 2 1 getattr fh 61", "is not an address"),
        ("1034114399.5 30.0801 31.03fe X C3 2 1 getattr fh 61", "transport"),
        ("1034114399.5 30.0801 31.03fe U C4 2 1 getattr fh 61", "none of C2"),
        ("1034114399.5 30.0801 31.03fe U C3 zz 1 getattr fh 61", "hexadecimal"),
        ("1034114399.5 30.0801 31.03fe U C3 2 1 frobnicate fh 61", "no function"),
        ("1034114399.5 30.0801 31.03fe U C3 2 1 getattr fh", "has no value"),
        ("1034114399.5 30.0801 31.03fe U C3 2 6 read fh 61 off many", "hexadecimal"),
        ("1034114399.5 30.0801 31.03fe U C3 2", "ends before its function"),
        ("1034114399.5 31.03fe 30.0801 U R3 1 1 getattr MAYBE", "hexadecimal"),
        ("1034114399.5 30.0801", "ends before"),
        ("\0\0\0\0", "is not a time"),
    ] {
        let text = format!("{good}{bad}\n{good}");
        let (_, error) = error_of(nfsdump::Reader::new(text.as_bytes()));
        assert!(error.starts_with("line 2: ") && error.contains(says), "{bad}: {error}");
    }
}

#[test]
fn strace_calls_become_records_with_paths_and_places() {
    let mut reader = strace::Reader::new(&include_bytes!("samples/strace.txt")[..]);
    let records = all(&mut reader);
    assert_eq!(reader.start_ns(), 1_700_000_000_000_000_000);
    let a = file("/home/ann/d/a");
    let ops: Vec<Op> = records.iter().map(|record| record.op).collect();
    let wanted = [
        Op::Getattr,
        Op::Mkdir,
        Op::Create,
        Op::Truncate,
        Op::Write,
        Op::Write,
        Op::Read,
        Op::Write,
        Op::Close,
        Op::Rename,
        Op::Unlink,
        Op::Rmdir,
    ];
    assert_eq!(ops, wanted, "the pipe, the signal and wait4 are no records");
    assert_eq!((&records[0].name[..], records[0].outcome), (&b"/home/ann/d"[..], Outcome::Failed(2)));
    // mkdir(2) has no directory; where the process is has become known before.
    assert_eq!(
        (&records[1].name[..], records[1].argument, records[1].client),
        (&b"/home/ann/d"[..], Some(0o777), 100)
    );
    let create = &records[2];
    assert_eq!((&create.name[..], create.made, create.argument), (&b"/home/ann/d/a"[..], a, Some(0o666)));
    assert_eq!((records[3].file, records[3].length), (a, Some(0)), "O_TRUNC");
    let places: Vec<_> =
        records.iter().filter(|r| r.op == Op::Write).map(|r| (r.offset, r.length, r.client)).collect();
    // The child writes behind its parent, and the parent behind the child.
    let wanted = [(Some(0), Some(3), 100), (Some(3), Some(4096), 101), (Some(4099), Some(3), 100)];
    assert_eq!(places, wanted);
    let child = &records[5];
    assert_eq!(
        (child.time_ns, child.duration_ns),
        (6_000_000, Some(1_000_000)),
        "began where it was unfinished"
    );
    let read = &records[6];
    assert_eq!((read.offset, read.length, read.outcome), (Some(1024), Some(512), Outcome::Failed(9)));
    let rename = &records[9];
    assert_eq!((&rename.name[..], &rename.to_name[..]), (&b"/home/ann/d/a"[..], &b"/home/ann/d/b c"[..]));
    assert_eq!(rename.argument, Some(1), "RENAME_NOREPLACE");
    assert_eq!(&records[10].name[..], b"/home/ann/d/b c");
}

#[test]
fn strace_without_paths_follows_descriptors() {
    let text = r#"7 12:00:00.000000 chdir("/w") = 0
7 12:00:00.000001 open("x", O_RDWR) = 3
7 12:00:00.000002 dup2(3, 9) = 9
7 12:00:00.000003 close(3) = 0
7 12:00:00.000004 write(9, "abc", 3) = 3
7 12:00:00.000005 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES}, 88) = 8
8 12:00:00.000006 lseek(9, 100, SEEK_SET) = 100
7 12:00:00.000007 read(9, ""..., 10) = 0
7 12:00:00.000008 openat(9, "y", O_RDONLY|O_APPEND) = 4
7 12:00:00.000009 write(4, "z", 1) = 1
7 12:00:00.000010 copy_file_range(9, NULL, 4, [20], 50, 0) = 50
7 12:00:00.000011 read(5, "", 1) = 0
7 12:00:00.000012 ftruncate(9, -1) = -1 EINVAL (Invalid argument)
"#;
    let mut reader = strace::Reader::new(text.as_bytes());
    let records = all(&mut reader);
    assert_eq!(reader.start_ns(), 0, "times of the day have no date");
    let x = file("/w/x");
    let seen: Vec<_> = records.iter().map(|r| (r.op, r.file, r.offset)).collect();
    let wanted = [
        (Op::Open, FileId::NONE, None),
        (Op::Close, x, None),
        (Op::Write, x, Some(0)),
        (Op::Read, x, Some(100)),
        (Op::Open, FileId::NONE, None),
        (Op::Write, file("/w/x/y"), None),
        (Op::Copy, x, Some(100)),
        (Op::Truncate, x, None),
    ];
    assert_eq!(seen, wanted, "descriptor 5 was never seen to be opened");
    assert_eq!(records[6].to_offset, Some(20));
}

#[test]
fn malformed_lines_of_strace_are_one_error_with_their_number() {
    let good = "7 1700000000.5 open(\"/x\", O_RDONLY) = 3\n";
    for (bad, says) in [
        ("7 open(\"/x\", O_RDONLY) = 3", "no time"),
        ("7 1700000000.5 open(\"/x\", O_RDONLY", "not closed"),
        ("7 1700000000.5 open(\"/x\", O_RDONLY) = -1 EWHATEVER", "is no result"),
        ("7 1700000000.5 open(\"/x\")", "no result"),
        ("7 1700000000.5 open() = 3", "arguments"),
        ("7 1700000000.5 read(x, \"\", 1) = 0", "is no descriptor"),
        ("7 1700000000.5 read(3, \"\", many) = 0", "not a number"),
        ("7 1700000000.5 gibberish", "no call"),
        ("[pid x] 1700000000.5 sync() = 0", "'[pid'"),
    ] {
        let text = format!("{good}{bad}\n{good}");
        let (before, error) = error_of(strace::Reader::new(text.as_bytes()));
        assert_eq!(before, 1, "{bad}");
        assert!(error.starts_with("line 2: ") && error.contains(says), "{bad}: {error}");
    }
}

#[test]
fn a_table_needs_only_times_and_operations_in_any_order() {
    let text = "op,unix_time,file,name,result\r\n# comment\n\nwrite,1700000000.5,/tmp/x,,10\n\"read\",1700000001.75,17,\"a,\"\"b\\x0a\",\n";
    let mut reader = csv::Reader::new(text.as_bytes()).unwrap();
    let records = all(&mut reader);
    assert_eq!(reader.start_ns(), 1_700_000_000_500_000_000);
    assert_eq!((records[0].time_ns, records[1].time_ns), (0, 1_250_000_000));
    assert_eq!((records[0].file, records[0].outcome), (file("/tmp/x"), Outcome::Done(10)));
    assert_eq!((records[1].file, &records[1].name[..]), (FileId(17), &b"a,\"b\n"[..]));
    assert_eq!(records[1].outcome, Outcome::Unknown);
}

#[test]
fn malformed_tables_are_one_error_with_the_line() {
    for (head, says) in [
        ("", "the table is empty"),
        ("time,file", "have to be there"),
        ("time,op,colour", "no column 'colour'"),
        ("time,op,time", "two columns are 'time'"),
        ("\"time,op", "not closed"),
    ] {
        let error = csv::Reader::new(head.as_bytes()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{head}: {error}");
    }
    for (bad, says) in [
        ("1", "1 fields"),
        ("x,read,1,", "not a time"),
        ("1,reed,1,", "no operation 'reed'"),
        ("1,read,-1,", "not a number"),
        ("1,read,1,a\\q", "backslash"),
        ("1,read,1,\"a\"b", "follows a quoted field"),
        ("1,read,1,a\\x4", "backslash"),
    ] {
        let text = format!("time,op,offset,name\n1,read,1,a\n{bad}\n");
        let (before, error) = error_of(csv::Reader::new(text.as_bytes()).unwrap());
        assert_eq!(before, 1, "{bad}");
        assert!(error.starts_with("line 3: ") && error.contains(says), "{bad}: {error}");
    }
}

#[test]
fn names_that_no_workload_holds_are_refused_where_they_are_read() {
    let long = "n".repeat(5000);
    let line =
        format!("1034114399.5 30.0801 31.03fe U C3 1 3 lookup fh 61 name \"{long}\" con = 1 len = 1\n");
    assert!(error_of(nfsdump::Reader::new(line.as_bytes())).1.contains("5000 bytes"));
    let line = format!("7 1700000000.5 open(\"/{long}\", O_RDONLY) = -1 ENAMETOOLONG (File name too long)\n");
    assert!(error_of(strace::Reader::new(line.as_bytes())).1.contains("5001 bytes"));
    let table = format!("time,op,name\n1,lookup,{long}\n");
    assert!(error_of(csv::Reader::new(table.as_bytes()).unwrap()).1.contains("5000 bytes"));
}
