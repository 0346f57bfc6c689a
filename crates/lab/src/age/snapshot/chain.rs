//! `Chain`: opens snapshot files one after the other; a difference needs the snapshots before it, back to a whole one.
//!
//! The last state stays in memory, so that a series of nightly differences is read once.

use super::format::{read_files, read_meta};
use super::{Snapshot, SnapshotError};
use crate::error::LabError;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Most differences in a row.
const LINKS_MAX: usize = 4096;

/// See the module's head.
#[derive(Default)]
pub struct Chain {
    last: Option<(PathBuf, Snapshot)>,
}

impl Chain {
    /// Opens a snapshot.
    ///
    /// # Errors
    /// It, or one that it is based on, cannot be read, is no snapshot, or is damaged.
    pub fn open(&mut self, path: &Path) -> Result<Snapshot, LabError> {
        let mut links = vec![path.to_owned()];
        let mut state = None;
        // Back to a whole snapshot, or to the one that was opened last.
        loop {
            let link = &links[links.len() - 1];
            if let Some((_, last)) = self.last.as_ref().filter(|(opened, _)| opened == link) {
                state = Some(last.clone());
                links.pop();
                break;
            }
            let (meta, _) = read_meta(&mut BufReader::new(file(link)?)).map_err(|why| failed(link, &why))?;
            let Some(base) = meta.base else { break };
            if links.len() >= LINKS_MAX {
                return Err(failed(link, &SnapshotError::Base(base.file)));
            }
            let next = link.with_file_name(base.file);
            links.push(next);
        }
        while let Some(link) = links.pop() {
            let mut input = BufReader::new(file(&link)?);
            let read = read_meta(&mut input).and_then(|head| read_files(&mut input, head, state.take()));
            state = Some(read.map_err(|why| failed(&link, &why))?);
        }
        let state = state.expect("at least one snapshot was read");
        self.last = Some((path.to_owned(), state.clone()));
        Ok(state)
    }
}

fn file(path: &Path) -> Result<File, LabError> {
    File::open(path).map_err(LabError::io("open", path))
}

fn failed(path: &Path, why: &SnapshotError) -> LabError {
    LabError::Setup(format!("{}: {why}", path.display()))
}
