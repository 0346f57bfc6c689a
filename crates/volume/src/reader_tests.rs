//! `Reader`: what becomes one read, what is read ahead, and what lands in the caller's memory.

use crate::never_waiting::{Landed, Missing, attempt};
use crate::reader::Reader;
use firnfs::FsError;
use firnfs::engine::{Unverified, Verify};
use firnfs::fetch::{Ahead, Fetch, Fetched, Soon, Token};
use firnfs::store::{Buf, Piece, ReadPlan};
use firnfs_device::{AlignedBuf, Completion, CountingDevice, Device, Geometry, MemDevice, Request, Tag};
use std::sync::Arc;

#[test]
fn fetches_that_lie_together_share_the_buffer_into_which_they_were_read() {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(1 << 20));
    let reader = Reader::new(Some(device), Arc::new(Unverified), Arc::default());
    let fetch = |at_bytes| Fetch { token: Token::of([0; 5]), at_bytes, len_bytes: 4096, ahead: Ahead::NONE };
    let answers = reader.fetch_all(&[fetch(8192), fetch(4096), fetch(65536)]);
    let [second, first, other] = &answers[..] else { panic!("{answers:?}") };
    let (second, first) = (second.as_ref().unwrap(), first.as_ref().unwrap());
    assert_eq!(first.as_ptr_range().end, second.as_ptr(), "no copies");
    assert!(!first.is_all() && other.as_ref().unwrap().is_all());
}

#[test]
fn blocks_of_a_read_that_are_adjacent_on_the_device_are_one_read_in_whatever_order_they_are_in_the_file() {
    const BLOCK: u64 = 4096;
    let device = Arc::new(CountingDevice::new(MemDevice::new(1 << 20)));
    let content = |block: u64| vec![block as u8; BLOCK as usize];
    (0..256).for_each(|block| {
        device.write(block * BLOCK, Arc::new(AlignedBuf::copy_of(&content(block)))).unwrap();
    });
    let shared: Arc<dyn Device> = device.clone();
    let reader = Reader::new(Some(shared), Arc::new(Unverified), Arc::default());
    // Two batches of overwrites, each in the order of the file, have every other block.
    let places: Vec<u64> = (0..16).flat_map(|n| [100 + n, 20 + n]).collect();
    let stored = |block: &u64| Piece::Stored {
        token: Token::of([0; 5]),
        at_bytes: block * BLOCK,
        stored_bytes: BLOCK as u32,
        start: 0,
        len_bytes: BLOCK as usize,
    };
    let plan = ReadPlan { pieces: places.iter().map(stored).collect(), ..ReadPlan::default() };
    let before = device.counts();
    let read = reader.carry_out(&plan, &mut []).unwrap();
    let counts = device.counts().since(&before);
    assert_eq!((counts.reads, counts.read_bytes), (2, 32 * BLOCK));
    let mut out = vec![0; read.len_bytes()];
    read.copy_to(&mut out);
    assert!(out == places.iter().flat_map(|&block| content(block)).collect::<Vec<u8>>());
}

/// Bytes are right if each is the first word of the token.
struct FirstWord;

impl Verify for FirstWord {
    fn verify(&self, token: &Token, bytes: &[u8]) -> Result<(), FsError> {
        match bytes.iter().all(|&byte| u64::from(byte) == token.words()[0]) {
            true => Ok(()),
            false => Err(FsError::Io("other bytes".to_owned())),
        }
    }
    fn notices_stale(&self, _token: &Token) -> bool {
        true
    }
}

#[test]
fn what_is_ahead_of_a_stream_is_started_even_if_the_read_is_left_to_another_thread() {
    let device = Arc::new(CountingDevice::new(MemDevice::new(1 << 20)));
    let shared: Arc<dyn Device> = device.clone();
    let reader = Reader::new(Some(shared), Arc::new(FirstWord), Arc::default());
    let stored = |at_bytes| Piece::Stored {
        token: Token::of([0; 5]),
        at_bytes,
        stored_bytes: 4096,
        start: 0,
        len_bytes: 4096,
    };
    let soon = vec![Soon { at_bytes: 4096, len_bytes: 64 << 10, token: None }];
    let first = ReadPlan { pieces: vec![stored(0)], soon, ..ReadPlan::default() };
    let refused = crate::never_waiting(|| reader.carry_out(&first, &mut [])).err();
    assert_eq!(refused, Some(FsError::WouldWait));
    // The store, asked again, names it no more.
    let again = ReadPlan { pieces: vec![stored(0)], ..ReadPlan::default() };
    reader.carry_out(&again, &mut []).unwrap();
    for n in 1..=16 {
        reader
            .carry_out(&ReadPlan { pieces: vec![stored(n * 4096)], ..ReadPlan::default() }, &mut [])
            .unwrap();
    }
    assert_eq!(device.counts().reads, 2, "the read and what is ahead of it");
}

#[test]
fn a_long_read_lands_in_the_callers_memory_with_what_lies_elsewhere_beside_it() {
    const BLOCK: usize = 4096;
    let device = Arc::new(CountingDevice::new(MemDevice::new(1 << 20)));
    let write = |block: usize, byte: u8| {
        let bytes = Arc::new(AlignedBuf::copy_of(&[byte; BLOCK]));
        device.write((block * BLOCK) as u64, bytes).unwrap();
    };
    (0..256).for_each(|block| write(block, 1 + (block / 100) as u8));
    let shared: Arc<dyn Device> = device.clone();
    let reader = Reader::new(Some(shared), Arc::new(FirstWord), Arc::default());
    let stored = |block: usize| Piece::Stored {
        token: Token::of([1 + (block / 100) as u64, 0, 0, 0, 0]),
        at_bytes: (block * BLOCK) as u64,
        stored_bytes: BLOCK as u32,
        start: 0,
        len_bytes: BLOCK,
    };
    let memory = Piece::Memory { buf: Buf::from([9; BLOCK]), start: 0, len_bytes: BLOCK };
    // 20 blocks, one in memory, and two that lie elsewhere.
    let pieces = (0..20).map(stored).chain([memory, stored(120), stored(220)]).collect();
    let plan = ReadPlan { pieces, ..ReadPlan::default() };
    let expected: Vec<u8> =
        [[1; BLOCK]; 20].concat().into_iter().chain([[9; BLOCK], [2; BLOCK], [3; BLOCK]].concat()).collect();
    let mut room = AlignedBuf::zeroed(expected.len());
    let refused = crate::never_waiting(|| reader.carry_out(&plan, &mut room)).err();
    assert_eq!(refused, Some(FsError::WouldWait));
    let before = device.counts();
    let read = reader.carry_out(&plan, &mut room).unwrap();
    assert_eq!(device.counts().since(&before).reads, 3, "the run, and two blocks");
    assert!(room[..20 * BLOCK] == expected[..20 * BLOCK], "there before anything is copied");
    assert!(read.slices(&room).collect::<Vec<_>>().concat() == expected);
    read.copy_to(&mut room);
    assert!(room[..] == expected[..]);
    // A room that is too short is not used, and what a window has is not read again.
    let read = reader.carry_out(&plan, &mut room[..BLOCK]).unwrap();
    assert!(read.slices(&[]).collect::<Vec<_>>().concat() == expected);
    let ahead = Ahead { before_bytes: 0, behind_bytes: BLOCK as u32 };
    let fetch = Fetch { token: Token::of([1, 0, 0, 0, 0]), at_bytes: 4096, len_bytes: 4096, ahead };
    reader.fetch_all(&[fetch])[0].as_ref().unwrap();
    let read = reader.carry_out(&plan, &mut room).unwrap();
    assert!(read.slices(&[]).collect::<Vec<_>>().concat() == expected, "nothing is in place");
    // Damage anywhere in the run is found.
    write(19, 7);
    reader.carry_out(&plan, &mut room).unwrap_err();
}

#[test]
fn blocks_that_windows_have_in_an_older_version_are_read_again_and_the_others_come_from_there() {
    const BLOCK: u64 = 4096;
    let device = Arc::new(CountingDevice::new(MemDevice::new(1 << 20)));
    let write = |block: u64, byte: u8| {
        let bytes = AlignedBuf::copy_of(&vec![byte; BLOCK as usize]);
        device.write(block * BLOCK, Arc::new(bytes)).unwrap();
    };
    (0..16).for_each(|block| write(block, 1));
    let shared: Arc<dyn Device> = device.clone();
    let reader = Reader::new(Some(shared), Arc::new(FirstWord), Arc::default());
    let fetch = |block: u64, word: u64| Fetch {
        token: Token::of([word, 0, 0, 0, 0]),
        at_bytes: block * BLOCK,
        len_bytes: BLOCK as u32,
        ahead: Ahead { before_bytes: 0, behind_bytes: 7 * BLOCK as u32 },
    };
    assert!(reader.fetch_all(&[fetch(0, 1)])[0].is_ok());
    [2, 5].into_iter().for_each(|block| write(block, 2));
    let before = device.counts();
    let word = |block: u64| if [2, 5].contains(&block) { 2 } else { 1 };
    let answers = reader.fetch_all(&(0..8).map(|block| fetch(block, word(block))).collect::<Vec<_>>());
    assert!((0..).zip(answers).all(|(block, answer)| u64::from(answer.unwrap()[0]) == word(block)));
    let counts = device.counts().since(&before);
    assert_eq!((counts.reads, counts.read_bytes), (2, 2 * BLOCK));
    // What the device itself has wrong is an error.
    assert!(reader.fetch_all(&[fetch(3, 9)])[0].is_err());
}

/// A device of blocks full of ones, a reader that can judge them, and a fetch for a block that is to be full of `word`.
fn judged() -> (Arc<CountingDevice<MemDevice>>, Reader, impl Fn(u64, u64) -> Fetch) {
    let device = Arc::new(CountingDevice::new(MemDevice::new(1 << 20)));
    device.write(0, Arc::new(AlignedBuf::copy_of(&vec![1; 1 << 20]))).unwrap();
    let shared: Arc<dyn Device> = device.clone();
    let reader = Reader::new(Some(shared), Arc::new(FirstWord), Arc::default());
    let fetch = |block: u64, word: u64| Fetch {
        token: Token::of([word, 0, 0, 0, 0]),
        at_bytes: block * 4096,
        len_bytes: 4096,
        ahead: Ahead::NONE,
    };
    (device, reader, fetch)
}

fn would_wait(answer: &Result<Fetched, FsError>) -> bool {
    matches!(answer, Err(FsError::WouldWait))
}

/// Reads what an attempt missed, as its caller would.
fn read_missing(reader: &Reader, device: &dyn Device, missing: &[Missing]) -> Vec<Landed> {
    let land = |missing: &Missing| {
        let (at_bytes, len_bytes) = missing.range();
        reader.landed(missing, device.read(at_bytes, len_bytes).map(Some)).unwrap()
    };
    missing.iter().map(land).collect()
}

#[test]
fn an_attempt_says_what_it_would_have_read_and_the_next_one_goes_on_with_it() {
    let (device, reader, fetch) = judged();
    let fetches = [
        fetch(3, 1),
        fetch(4, 1),
        fetch(100, 1),
        Fetch { ahead: Ahead { before_bytes: 0, behind_bytes: 8192 }, ..fetch(200, 1) },
    ];
    let before = device.counts();
    let (answers, missing) = attempt(&[], || reader.fetch_all(&fetches));
    assert!(answers.iter().all(would_wait));
    assert_eq!(device.counts().since(&before).reads, 0);
    let ranges: Vec<_> = missing.iter().map(Missing::range).collect();
    assert_eq!(
        ranges,
        [(3 * 4096, 8192), (100 * 4096, 4096), (200 * 4096, 3 * 4096)],
        "one after the other is one"
    );
    let landed = read_missing(&reader, &*device, &missing);
    let before = device.counts();
    let (answers, missing) = attempt(&landed, || reader.fetch_all(&fetches));
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|bytes| bytes[..] == [1; 4096])));
    assert!(missing.is_empty());
    // What is beside a fetch is kept for all, the rest for this attempt alone.
    let alone = |block| attempt(&[], || reader.fetch_all(&[fetch(block, 1)])).0.remove(0);
    assert!(alone(201).is_ok() && would_wait(&alone(100)));
    assert_eq!(device.counts().since(&before).reads, 0);
    assert!(reader.landed(&Missing { at_bytes: 0, len_bytes: 512, has_ahead: false }, Ok(None)).is_none());
}

#[test]
fn an_attempt_that_needs_more_than_reads_names_none_of_them() {
    let (device, reader, fetch) = judged();
    // Bytes that became stale before the next attempt.
    let (_, missing) = attempt(&[], || reader.fetch_all(&[fetch(3, 1)]));
    let landed = read_missing(&reader, &*device, &missing);
    device.write(3 * 4096, Arc::new(AlignedBuf::copy_of(&[2; 4096]))).unwrap();
    let (answers, missing) = attempt(&landed, || reader.fetch_all(&[fetch(3, 2)]));
    assert!(would_wait(&answers[0]) && missing.is_empty());
    // It waits for something else as well.
    let (_, missing) = attempt(&[], || (reader.fetch_all(&[fetch(9, 1)]), crate::never_waiting::ask()));
    assert!(missing.is_empty());
    // Another thread has it under way, and would wait for it.
    let soon = vec![Soon { at_bytes: 20 * 4096, len_bytes: 8192, token: None }];
    reader.carry_out(&ReadPlan { soon, ..ReadPlan::default() }, &mut []).unwrap();
    let before = device.counts();
    let (answers, missing) = attempt(&[], || reader.fetch_all(&[fetch(20, 1)]));
    assert!(would_wait(&answers[0]) && missing.is_empty());
    assert_eq!(device.counts().since(&before).reads, 0);
    assert!(reader.fetch_all(&[fetch(20, 1)])[0].is_ok());
    // Nobody could tell whether the bytes are stale.
    let shared: Arc<dyn Device> = device.clone();
    let reader = Reader::new(Some(shared), Arc::new(Unverified), Arc::default());
    let (answers, missing) = attempt(&[], || reader.fetch_all(&[fetch(3, 1)]));
    assert!(would_wait(&answers[0]) && missing.is_empty());
}

/// A device of which one sector cannot be read.
struct Scratched(MemDevice, u64);

impl Device for Scratched {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let begins = request.at_bytes();
        let hits = begins <= self.1 && self.1 < begins + request.len_bytes();
        // Beyond the end, which the device refuses.
        let beyond = Request::Read { at_bytes: self.geometry().size_bytes, len_bytes: 512 };
        self.0.submit(if hits { beyond } else { request })
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.0.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.0.describe()
    }
}

#[test]
fn a_sector_that_cannot_be_read_between_the_blocks_of_a_long_read_harms_none_of_them() {
    let memory = MemDevice::new(1 << 20);
    memory.write(0, Arc::new(AlignedBuf::copy_of(&vec![1; 1 << 20]))).unwrap();
    let stored = |at_bytes| Piece::Stored {
        token: Token::of([1, 0, 0, 0, 0]),
        at_bytes,
        stored_bytes: 4096,
        start: 0,
        len_bytes: 4096,
    };
    let behind = 16 * 4096 + 1024;
    let pieces = (0..16).map(|n| stored(n * 4096)).chain((0..4).map(|n| stored(behind + n * 4096))).collect();
    let plan = ReadPlan { pieces, ..ReadPlan::default() };
    let mut room = AlignedBuf::zeroed(plan.len_bytes());
    let scratched = |memory, at_bytes| {
        Reader::new(Some(Arc::new(Scratched(memory, at_bytes))), Arc::new(FirstWord), Arc::default())
    };
    let read = scratched(memory, 16 * 4096 + 512).carry_out(&plan, &mut room).unwrap();
    assert!(read.slices(&room).all(|bytes| bytes.iter().all(|&byte| byte == 1)));
    assert_eq!(read.len_bytes(), plan.len_bytes());
    let memory = MemDevice::new(1 << 20);
    memory.write(0, Arc::new(AlignedBuf::copy_of(&vec![1; 1 << 20]))).unwrap();
    scratched(memory, 3 * 4096).carry_out(&plan, &mut room).unwrap_err();
}
