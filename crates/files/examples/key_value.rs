//! A key-value store on a volume: a file for each value, replaced by rename, so that a crash leaves the old value or the new one.
//!
//! Run it with `cargo run -p firnfs-files --example key_value`; `cargo test` runs it too.

use firnfs_device::MemDevice;
use firnfs_files::{File, Fs, FsOptions, NewVolume};
use std::io::{ErrorKind, Result, Write};
use std::sync::Arc;

/// Keys are bytes without `/` and NUL, 1 to 200 of them.
struct Store {
    fs: Fs,
}

impl Store {
    fn path(key: &[u8]) -> Vec<u8> {
        [b"values/", key].concat()
    }

    /// Durable when it returns.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let new = [b"new/", key].concat();
        File::create(&self.fs, &new)?.write_all(value)?;
        self.fs.rename(&new, Self::path(key))?;
        // Syncing a file makes every earlier operation on names durable, too.
        File::open(&self.fs, Self::path(key))?.sync_all()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.fs.read(Self::path(key)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    fn keys(&self) -> Result<Vec<Vec<u8>>> {
        self.fs.read_dir("values")?.map(|entry| Ok(entry?.name().to_vec())).collect()
    }
}

fn main() -> Result<()> {
    let device = Arc::new(MemDevice::new(64 << 20));
    let fs = Fs::format(device.clone(), &NewVolume::default(), FsOptions::default())?;
    fs.create_dir("values")?;
    fs.create_dir("new")?;
    let store = Store { fs };
    store.put(b"snow", b"falls")?;
    store.put(b"firn", b"is last year's snow")?;
    store.put(b"snow", b"melts")?;
    std::mem::forget(store); // the program crashes: nothing is closed

    let store = Store { fs: Fs::open(device, FsOptions::default())? };
    assert_eq!(store.get(b"snow")?.as_deref(), Some(&b"melts"[..]));
    assert_eq!(store.get(b"ice")?, None);
    println!("{} keys survived", store.keys()?.len());
    store.fs.close()
}

#[test]
fn values_survive_a_crash() {
    main().unwrap();
}
