//! Handles: sharing between threads, files without names, callers, and the end of the last handle.

use firnfs_device::{Device, MemDevice};
use firnfs_files::{
    AlignedBuf, Background, Caller, DirEntry, File, Fs, FsOptions, NewVolume, OpenOptions, Options, ReadDir,
    Walk,
};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

fn device() -> Arc<dyn Device> {
    Arc::new(MemDevice::new(32 << 20))
}

fn format(device: &Arc<dyn Device>) -> Fs {
    Fs::format(device.clone(), &NewVolume::default(), FsOptions::default()).unwrap()
}

#[test]
fn every_type_may_be_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<(Fs, File, ReadDir, DirEntry, Walk, Background<firnfs::lfs::Lfs>)>();
}

#[test]
fn handles_can_be_shown() {
    let fs = format(&device());
    fs.write("file", "text").unwrap();
    let mut entries = fs.read_dir("/").unwrap();
    assert_eq!(
        format!("{entries:?} {:?}", entries.next().unwrap().unwrap()),
        "ReadDir(\"/\") DirEntry(\"/file\")"
    );
    assert!(format!("{fs:?}").starts_with("Fs { caller: Caller { uid: 0,"));
    assert!(format!("{:?}", File::open(&fs, "file").unwrap()).starts_with("File { ino: "));
    assert!(
        format!("{:?} {:?}", fs.walk("/").unwrap(), fs.start_background().unwrap()).starts_with("Walk { ")
    );
    // Without it, this does not compile.
    let error = Fs::open(device(), FsOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn a_device_that_is_too_small_is_refused_with_the_least_size() {
    let format = |bytes| {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(bytes));
        Fs::format(device, &NewVolume::default(), FsOptions::default())
    };
    let error = format(1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let text = error.to_string();
    let least = text.strip_prefix("the device has 1048576 bytes: a volume needs ").unwrap().parse().unwrap();
    format(least).unwrap().write("file", "text").unwrap();
    assert_eq!(format(least - 4096).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn several_threads_append_whole_records() {
    let fs = format(&device());
    let background = fs.start_background().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let fs = &fs;
            scope.spawn(move || {
                let mut log = OpenOptions::append().create().open(fs, "log").unwrap();
                for _ in 0..100 {
                    log.write_all(&[writer; 700]).unwrap();
                }
            });
        }
    });
    drop(background);
    let log = fs.read("log").unwrap();
    assert_eq!(log.len(), 4 * 100 * 700);
    assert!(log.chunks(700).all(|record| record.iter().all(|byte| *byte == record[0])));
}

#[test]
fn an_open_file_outlives_its_name_and_is_freed_when_it_is_closed() {
    let fs = format(&device());
    fs.write("file", vec![7; 1 << 20]).unwrap();
    fs.sync().unwrap();
    let used = || fs.space().unwrap().inodes_used;
    let before = used();
    let mut file = File::open(&fs, "file").unwrap();
    fs.remove_file("file").unwrap();
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    assert_eq!((content.len(), file.metadata().unwrap().links(), used()), (1 << 20, 0, before));
    file.close().unwrap();
    assert_eq!(used(), before - 1);
}

#[test]
fn a_buffer_is_held_until_it_is_durable_unless_the_volume_keeps_what_it_has_written() {
    let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let buf = Arc::new(AlignedBuf::copy_of(&content));
    for keeps in [false, true] {
        let device = device();
        let log = Options { cache_file_data: keeps, ..Options::default() };
        let options = || FsOptions { log, ..FsOptions::default() };
        let fs = Fs::format(device.clone(), &NewVolume::default(), options()).unwrap();
        let file = File::create(&fs, "file").unwrap();
        // From within a block of the file on.
        file.write_at(b"abc", 0).unwrap();
        assert_eq!(file.write_lent_at(&buf, 3).unwrap(), content.len());
        assert_eq!(Arc::strong_count(&buf) > 1, !keeps, "the whole blocks are lent, not copied");
        // A lent block that is changed becomes a copy.
        file.write_at(b"x", 100_003).unwrap();
        assert_eq!(buf[100_000], content[100_000]);
        file.sync_all().unwrap();
        assert_eq!(Arc::strong_count(&buf), 1, "nothing holds what is durable");
        // At the end of a file that is open for appending.
        let append = OpenOptions::append().open(&fs, "file").unwrap();
        assert_eq!(append.write_lent_at(&buf, 0).unwrap(), content.len());
        assert!(File::open(&fs, "file").unwrap().write_lent_at(&buf, 0).is_err(), "open for reading");
        let ann = fs.with_caller(Caller { uid: 1000, gid: 100, umask: 0 });
        fs.set_mode("file", 0o4755).unwrap();
        OpenOptions::write().open(&ann, "file").unwrap().write_lent_at(&buf, 0).unwrap();
        assert_eq!(fs.metadata("file").unwrap().mode(), 0o755, "set-id bits go, as with any write");
        file.write_at(b"abc", 0).unwrap();
        OpenOptions::write().open(&fs, "file").unwrap().write_lent_at(&buf, 3).unwrap();
        file.close().unwrap();
        append.close().unwrap();
        fs.close().unwrap();
        let fs = Fs::open(device, options()).unwrap();
        assert_eq!(fs.read("file").unwrap(), [b"abc", &content[..], &content].concat());
    }
}

#[test]
fn callers_own_what_they_make_and_their_writes_clear_set_id_bits() {
    let fs = format(&device());
    let ann = fs.with_caller(Caller { uid: 1000, gid: 100, umask: 0o027 });
    ann.create_dir("letters").unwrap();
    ann.write("letters/first", "dear Bob").unwrap();
    let found = fs.metadata("letters/first").unwrap();
    assert_eq!((found.owner(), found.mode()), ((1000, 100), 0o640));
    fs.set_mode("letters/first", 0o4755).unwrap();
    fs.write("letters/first", "dear Bob,").unwrap();
    assert_eq!(fs.metadata("letters/first").unwrap().mode(), 0o4755);
    ann.write("letters/first", "dear Bob!").unwrap();
    assert_eq!(fs.metadata("letters/first").unwrap().mode(), 0o755);
}

#[test]
fn the_last_handle_closes_the_volume_and_what_is_left_after_a_close_reads_only() {
    let device = device();
    let fs = format(&device);
    fs.write("dropped", "not synced").unwrap();
    let file = File::open(&fs, "dropped").unwrap();
    drop(fs);
    drop(file);
    let fs = Fs::open(device, FsOptions::default()).unwrap();
    assert_eq!(fs.read("dropped").unwrap(), b"not synced");
    assert!(fs.volume().run(|vfs, _| Ok(vfs.store().recovered().was_clean)).unwrap());
    let left = fs.clone();
    fs.close().unwrap();
    assert_eq!(left.read("dropped").unwrap(), b"not synced");
    let refused = left.write("dropped", "too late").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn a_device_without_a_volume_is_invalid_data() {
    let refused = Fs::open(device(), FsOptions::default()).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidData, "{refused}");
}

#[test]
fn a_large_directory_is_listed_once_each_and_removed_whole() {
    let fs = format(&device());
    fs.create_dir("many").unwrap();
    let names: Vec<String> = (0..1000).map(|number| format!("file {number}")).collect();
    for name in &names {
        fs.write(format!("many/{name}"), "").unwrap();
    }
    let found: Vec<String> = fs
        .read_dir("many")
        .unwrap()
        .map(|entry| String::from_utf8(entry.unwrap().name().to_vec()).unwrap())
        .collect();
    assert_eq!(found, names, "in the order in which they were made");
    fs.create_dir_all("many/more/below").unwrap();
    fs.symlink("..", "many/more/up").unwrap();
    fs.remove_dir_all("many").unwrap();
    assert_eq!(fs.walk("/").unwrap().count(), 0);
}
