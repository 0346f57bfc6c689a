//! Takes the snapshot of what a command line names: a directory of any file system, a volume in an image or device, or a snapshot file.
//!
//! A mounted volume is asked over its control socket, since FIEMAP does not reach through FUSE.

use super::failed;
use super::service::Answer;
use crate::failure::{Done, Exit, Failure};
use crate::progress::Bar;
use crate::sizes::Count;
use crate::target::{self, Target};
use crate::volume::{AnyVolume, open_any_read_only};
use firnfs_fuse::control::{Client, ClientError};
use firnfs_fuse::mount::table::Mount;
use firnfs_lab::LabError;
use firnfs_lab::age::snapshot::{Chain, Snapshot};
use firnfs_lab::age::take::{self, Facts, Located, Mapper};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What snapshot files begin with.
const MAGIC: &[u8; 8] = b"firnsnap";

/// The snapshot of a path; snapshot files are read through `chain`.
///
/// # Errors
/// It cannot be read, is damaged, or is nothing of which there are snapshots.
pub fn snapshot(path: &Path, chain: &mut Chain) -> Done<Snapshot> {
    let about = std::fs::metadata(path).map_err(|e| Failure::io("cannot open", path, &e))?;
    let bar = Bar::endless();
    let mut progress = |files: u64| {
        if files.is_multiple_of(256) {
            bar.tell(Count(files).of("file", "files"));
        }
        Ok(())
    };
    if about.is_dir() {
        return of_directory(path, &mut progress);
    }
    if about.is_file() && is_snapshot(path) {
        return chain.open(path).map_err(failed);
    }
    match target::resolve(path)? {
        Target::Mounted(mount) => of_directory(&mount.mountpoint, &mut progress),
        Target::Image(image) => match open_any_read_only(&image)? {
            AnyVolume::Log(volume) => take::image(&volume, &mut progress),
            AnyVolume::Ffs(volume) => take::image(&volume, &mut progress),
        }
        .map_err(failed),
    }
}

fn is_snapshot(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *MAGIC
}

fn of_directory(path: &Path, progress: &mut dyn FnMut(u64) -> Result<(), LabError>) -> Done<Snapshot> {
    let Ok(Target::Mounted(mount)) = target::resolve(path) else {
        return take::directory(path, None, progress).map_err(failed);
    };
    let mut daemon = Daemon::of(&mount)?;
    // So that everything has its place.
    target::write_back(&mount)?;
    daemon.client.call("sync", json!({})).map_err(|e| refused(&e))?;
    take::directory(path, Some(&mut daemon), progress).map_err(failed)
}

/// The daemon of a mount.
struct Daemon {
    client: Client,
}

impl Daemon {
    fn of(mount: &Mount) -> Done<Self> {
        Client::for_mount(mount).map(|client| Self { client }).map_err(|e| refused(&e))
    }
}

impl Mapper for Daemon {
    fn locate(&mut self, inodes: &[u64]) -> Result<(Facts, Vec<Located>), LabError> {
        let answer = self.client.ask("locate", json!({ "inodes": inodes }));
        let answer: Answer = answer.map_err(|e| LabError::Setup(refused(&e).to_string()))?;
        Ok((answer.facts, answer.located))
    }
}

fn refused(error: &ClientError) -> Failure {
    let failure = Failure::new(Exit::Failed, error.to_string());
    match error {
        ClientError::Refused(why) if why.kind == firnfs_fuse::control::ErrorKind::UnknownOp => {
            failure.advise("a volume in memory has no layout; any other: mount it with this version of firn")
        }
        _ => failure,
    }
}
