//! A directory of any mounted file system as a target.

use super::{Fault, Spot, Target};
use crate::error::LabError;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of one write(2).
const WRITE_BYTES: usize = 64 << 10;

/// See the module's head.
pub struct Posix {
    root: PathBuf,
    /// The file that is open: workloads write a file before they turn to the next.
    open: Option<(Spot, File)>,
    content: Vec<u8>,
}

impl Posix {
    /// A directory, which exists.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), open: None, content: content(2 * WRITE_BYTES) }
    }

    /// Closes what is open, so that the file system can be unmounted.
    pub fn let_go(&mut self) {
        self.open = None;
    }

    fn path(&self, spot: &Spot) -> PathBuf {
        self.root.join(spot.to_string())
    }

    fn opened(&mut self, spot: &Spot) -> Result<&File, Fault> {
        if self.open.as_ref().is_none_or(|(opened, _)| opened != spot) {
            let path = self.path(spot);
            let file = File::options().write(true).open(&path).map_err(fault("open", &path))?;
            self.open = Some((*spot, file));
        }
        let (_, file) = self.open.as_ref().expect("opened above");
        Ok(file)
    }
}

/// Bytes that no file system compresses or leaves out.
pub(super) fn content(len_bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len_bytes.div_ceil(8)).flat_map(|_| next()).collect()
}

fn fault(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Fault {
    let path = path.to_owned();
    move |source| match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Fault::NoRoom,
        _ => Fault::Failed(LabError::Io { action, path, source }),
    }
}

impl Target for Posix {
    fn at(&mut self, _time_ns: i64) -> Result<(), LabError> {
        Ok(())
    }

    fn mkdir(&mut self, dir: &str) -> Result<(), Fault> {
        let path = self.root.join(dir);
        fs::create_dir(&path).map_err(fault("make", &path))
    }

    fn rmdir(&mut self, dir: &str) -> Result<(), Fault> {
        let path = self.root.join(dir);
        fs::remove_dir(&path).map_err(fault("remove", &path))
    }

    fn create(&mut self, spot: &Spot) -> Result<(), Fault> {
        let path = self.path(spot);
        let file = File::create_new(&path).map_err(fault("make", &path))?;
        self.open = Some((*spot, file));
        Ok(())
    }

    fn write(&mut self, spot: &Spot, at_bytes: u64, len_bytes: u64) -> Result<(), Fault> {
        let content = std::mem::take(&mut self.content);
        let path = self.path(spot);
        let written = self.opened(spot).and_then(|file| {
            let end_bytes = at_bytes.saturating_add(len_bytes);
            for at in (at_bytes..end_bytes).step_by(WRITE_BYTES) {
                let len = (end_bytes - at).min(WRITE_BYTES as u64) as usize;
                // Files differ, so that no file system shares their blocks.
                let from = (at / 8).wrapping_add(len_bytes) as usize % WRITE_BYTES;
                file.write_all_at(&content[from..from + len], at).map_err(fault("write", &path))?;
            }
            Ok(())
        });
        self.content = content;
        written
    }

    fn truncate(&mut self, spot: &Spot, size_bytes: u64) -> Result<(), Fault> {
        let path = self.path(spot);
        self.opened(spot)?.set_len(size_bytes).map_err(fault("truncate", &path))
    }

    fn chmod(&mut self, spot: &Spot, mode: u32) -> Result<(), Fault> {
        let path = self.path(spot);
        let mode = fs::Permissions::from_mode(mode & 0o777);
        fs::set_permissions(&path, mode).map_err(fault("change the mode of", &path))
    }

    fn rename(&mut self, from: &Spot, to: &Spot) -> Result<(), Fault> {
        self.open = None;
        let path = self.path(from);
        fs::rename(&path, self.path(to)).map_err(fault("move", &path))
    }

    fn unlink(&mut self, spot: &Spot) -> Result<(), Fault> {
        self.open = None;
        let path = self.path(spot);
        fs::remove_file(&path).map_err(fault("delete", &path))
    }

    fn close(&mut self, _spot: &Spot) -> Result<(), Fault> {
        self.open = None;
        Ok(())
    }

    fn list(&mut self) -> Result<BTreeMap<String, Option<u64>>, LabError> {
        let mut found = BTreeMap::new();
        let mut todo = vec![(self.root.clone(), String::new())];
        while let Some((path, prefix)) = todo.pop() {
            let mut is_empty = true;
            for entry in fs::read_dir(&path).map_err(LabError::io("list", &path))? {
                let entry = entry.map_err(LabError::io("list", &path))?;
                is_empty = false;
                let about = entry.metadata().map_err(LabError::io("examine", &entry.path()))?;
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                match about.is_dir() {
                    true if !super::is_not_ours(&name) => todo.push((entry.path(), name + "/")),
                    _ => {
                        found.insert(name, Some(about.len()));
                    }
                }
            }
            if let (true, Some(dir)) = (is_empty, prefix.strip_suffix('/')) {
                found.insert(dir.to_owned(), None);
            }
        }
        Ok(found)
    }

    fn load(&mut self, name: &str) -> Result<Option<Vec<u8>>, LabError> {
        let path = self.root.join(name);
        match fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LabError::io("read", &path)(error)),
        }
    }

    fn save(&mut self, name: &str, content: Option<&[u8]>) -> Result<(), LabError> {
        let path = self.root.join(name);
        match content {
            Some(content) => fs::write(&path, content).map_err(LabError::io("write", &path))?,
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(LabError::io("delete", &path)(error));
                }
                _ => {}
            },
        }
        let root = File::open(&self.root).map_err(LabError::io("open", &self.root))?;
        rustix::fs::syncfs(&root).map_err(|e| LabError::io("sync", &self.root)(e.into()))?;
        // syncfs(2) does not reach through FUSE, fsync(2) of the root does.
        root.sync_all().map_err(LabError::io("sync", &self.root))
    }
}
