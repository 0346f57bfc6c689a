//! What sending and receiving read.

use super::*;

/// A send between two states of a volume that was unmounted, and the bytes that it reads. The mount that sends has read nothing before,
/// and reads no more ahead than `ahead_max_bytes`: windows around metadata (a quarter of a MiB each) would be most of what is read in small tests.
fn send_counted(image: SparseImage, first: Epoch, second: Epoch, ahead_max_bytes: u32) -> (Sent, u64) {
    let counted = Arc::new(CountingDevice::new(MemDevice::from_image(image)));
    let counting: Arc<dyn Device> = counted.clone();
    let volume = mount(&counting);
    volume.limit_read_ahead(ahead_max_bytes);
    let before_bytes = counted.counts().read_bytes;
    let sent = send(&volume, Some(first), second, 0, &mut std::io::sink(), &mut |_| true).unwrap();
    (sent, counted.counts().read_bytes - before_bytes)
}

/// One file of a hundred is written anew.
#[test]
fn a_send_reads_little_more_than_what_has_changed() {
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let device: Arc<dyn Device> = memory.clone();
    format(&*device, &options(1)).unwrap();
    let volume = mount(&device);
    let make = |number: usize| make_file(&volume, InodeNo::ROOT, format!("file {number}").as_bytes());
    let files: Vec<InodeNo> = (0..200).map(make).collect();
    let mut rng = Pcg64::seed_from_u64(3);
    let mut bytes = vec![0; 200_000];
    for file in &files {
        rng.fill_bytes(&mut bytes);
        volume.write_all(*file, 0, &bytes, false).unwrap();
    }
    let first = volume.make_point("first").unwrap().epoch;
    for file in [files[33], files[150]] {
        rng.fill_bytes(&mut bytes);
        volume.write_all(file, 0, &bytes, false).unwrap();
    }
    let second = volume.make_point("second").unwrap().epoch;
    volume.close().unwrap();
    let (sent, read_bytes) = send_counted(memory.image(), first, second, 0);
    assert_eq!(sent.content_bytes, 400_000);
    assert!(read_bytes * 10 <= sent.content_bytes * 12, "{read_bytes} bytes read");
}

/// One file in each directory is emptied and written anew, as a shell does it: each needs a block of both inode maps, both records and its
/// content.
#[test]
fn a_send_of_files_that_were_written_anew_reads_little_more_than_they_have() {
    // Without look-ahead.
    let (changed_bytes, read_bytes) = send_of_files_written_anew(4, 64 << 10, 0);
    assert!(read_bytes * 100 <= changed_bytes * 116, "{read_bytes} bytes read");
    // With it, as a mount sends. What it reads around the first metadata does not grow with the changes.
    let (changed_bytes, read_bytes) = send_of_files_written_anew(80, 0, u32::MAX);
    assert!(read_bytes * 10 <= changed_bytes * 12 + (15 << 20), "{read_bytes} bytes read");
}

/// One of 130 files in each directory is written anew with 64 KiB; the others have `other_bytes`. Returns the bytes that have changed,
/// and those that a send reads.
fn send_of_files_written_anew(directories: usize, other_bytes: usize, ahead_max_bytes: u32) -> (u64, u64) {
    const CHANGED: usize = 70;
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let device: Arc<dyn Device> = memory.clone();
    format(&*device, &options(1)).unwrap();
    let volume = mount(&device);
    let mut rng = Pcg64::seed_from_u64(5);
    let mut bytes = vec![0; 64 << 10];
    let mut changed = Vec::new();
    for directory in 0..directories {
        let node = NewNode { kind: Kind::Directory, mode: 0o755, rdev: 0, target: &[] };
        let name = format!("d{directory}");
        let made = volume.run(|vfs, now| vfs.make(now, ROOT, InodeNo::ROOT, name.as_bytes(), node, false));
        let dir = made.unwrap().ino;
        for number in 0..130 {
            let file = make_file(&volume, dir, format!("f{number}").as_bytes());
            rng.fill_bytes(&mut bytes);
            let len = if number == CHANGED { bytes.len() } else { other_bytes };
            volume.write_all(file, 0, &bytes[..len], false).unwrap();
            changed.extend((number == CHANGED).then_some(file));
        }
    }
    let first = volume.make_point("first").unwrap().epoch;
    for file in changed {
        rng.fill_bytes(&mut bytes);
        let empty = SetAttr { size_bytes: Some(0), ..SetAttr::default() };
        volume.run(|vfs, now| vfs.setattr(now, file, empty)).unwrap();
        volume.write_all(file, 0, &bytes, false).unwrap();
    }
    let second = volume.make_point("second").unwrap().epoch;
    volume.close().unwrap();
    let (sent, read_bytes) = send_counted(memory.image(), first, second, ahead_max_bytes);
    assert_eq!(sent.content_bytes, directories as u64 * (64 << 10));
    println!("{read_bytes} bytes read, {} changed", sent.content_bytes);
    (sent.content_bytes, read_bytes)
}

#[test]
fn a_mount_after_a_stream_that_was_cut_reads_nothing_of_it() {
    let source = mount(&new_device(1));
    let file = make_file(&source, InodeNo::ROOT, b"large");
    let mut bytes = vec![0; 24 << 20];
    Pcg64::seed_from_u64(4).fill_bytes(&mut bytes);
    source.write_all(file, 0, &bytes, false).unwrap();
    let epoch = source.make_point("one").unwrap().epoch;
    let mut stream = Vec::new();
    send(&source, None, epoch, 0, &mut stream, &mut |_| true).unwrap();
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let replica: Arc<dyn Device> = memory.clone();
    format(&*replica, &options(2)).unwrap();
    let cut = &stream[..stream.len() - 1_000];
    assert!(matches!(receive_into(&replica, cut, "one"), Err(ReceiveError::Cut { .. })));
    let counted = Arc::new(CountingDevice::new(MemDevice::from_image(memory.image())));
    let counting: Arc<dyn Device> = counted.clone();
    mount(&counting).close().unwrap();
    let read_bytes = counted.counts().read_bytes;
    assert!(read_bytes < 4 << 20, "{read_bytes} bytes read");
    receive_into(&replica, &stream, "one").unwrap();
}
