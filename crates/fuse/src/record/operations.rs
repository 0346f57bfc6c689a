//! The control socket's side of recording: `record_start`, `record_stop`, `record_status`; and the start with the mount.

use super::{RecordError, RecordPlan, RecordStatus};
use crate::adapter::Adapter;
use crate::control::{ErrorKind, OpError, Registry};
use crate::session::SessionConfig;
use firnfs::engine::Engine;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Starts a recording.
const START_OP: &str = "record_start";
/// Stops it.
const STOP_OP: &str = "record_stop";
/// What it has done.
const STATUS_OP: &str = "record_status";

#[derive(Deserialize)]
struct Start {
    path: PathBuf,
    part_bytes: Option<u64>,
    #[serde(default)]
    hash_names: bool,
}

/// Starts the recording of a mount that is about to be made.
pub fn start_before_mount<S: Engine>(
    adapter: &Adapter<S>,
    plan: &RecordPlan,
    config: SessionConfig,
    mountpoint: &Path,
) -> Result<(), RecordError> {
    let parent = plan.path.parent().and_then(|parent| parent.canonicalize().ok());
    if parent.is_some_and(|parent| parent.starts_with(mountpoint)) {
        return Err(RecordError::OnItself(plan.path.clone()));
    }
    adapter.recorder().start(plan, describe(adapter, config), None)
}

/// Registers the operations. The adapter is held weakly: the volume must close after the unmount.
pub fn register<S: Engine + 'static>(
    registry: &mut Registry,
    adapter: Weak<Adapter<S>>,
    config: SessionConfig,
    mountpoint: &Path,
) {
    let closing = || OpError::new(ErrorKind::Closing, "the volume is being closed");
    let open = move || -> Result<Arc<Adapter<S>>, OpError> { adapter.upgrade().ok_or_else(closing) };
    let (to_start, to_stop, mountpoint) = (open.clone(), open.clone(), mountpoint.to_owned());
    let help = "records all operations into the file path (absolute), in parts of part_bytes (268435456); hash_names (false)";
    registry.register(START_OP, help, move |request| {
        let start = Start::deserialize(request)
            .map_err(|error| OpError::new(ErrorKind::InvalidArgument, error.to_string()))?;
        if !start.path.is_absolute() {
            return Err(OpError::new(ErrorKind::InvalidArgument, "the path has to be absolute"));
        }
        let plan = RecordPlan {
            path: start.path,
            part_bytes: start.part_bytes.unwrap_or(RecordPlan::DEFAULT_PART_BYTES),
            hash_names: start.hash_names,
        };
        let adapter = to_start()?;
        // Served by the workers, of which this thread is none.
        let device = rustix::fs::stat(&mountpoint).ok().map(|stat| stat.st_dev);
        let started = adapter.recorder().start(&plan, describe(&adapter, config), device);
        started.map(|()| Value::Null).map_err(|error| refusal(&error))
    });
    registry.register(STOP_OP, "stops the recording; what it has done, as record_status", move |_| {
        let stopped = to_stop()?.recorder().stop();
        stopped.map(|status| view(Some(status))).map_err(|error| refusal(&error))
    });
    let help =
        "path, records, lost, file_bytes, parts, age_ms and trouble of the recording; null if there is none";
    registry.register(STATUS_OP, help, move |_| Ok(view(open()?.recorder().status())));
}

fn refusal(error: &RecordError) -> OpError {
    let kind = match error {
        RecordError::Ended => ErrorKind::Closing,
        RecordError::Io { .. } => ErrorKind::Failed,
        _ => ErrorKind::InvalidArgument,
    };
    OpError::new(kind, error.to_string())
}

fn view(status: Option<RecordStatus>) -> Value {
    status.map_or(Value::Null, |status| {
        json!({
            "path": status.path,
            "records": status.records,
            "lost": status.lost,
            "file_bytes": status.file_bytes,
            "parts": status.parts,
            "age_ms": u64::try_from(status.age.as_millis()).unwrap_or(u64::MAX),
            "trouble": status.trouble,
        })
    })
}

/// What the header of the file says of the mount.
fn describe<S: Engine>(adapter: &Adapter<S>, config: SessionConfig) -> Vec<(String, String)> {
    let space = adapter.volume().run_quietly(|vfs, _| Ok((vfs.statfs(), vfs.facts().block_bytes)));
    let mut options = vec![
        ("firnfs", env!("CARGO_PKG_VERSION").to_owned()),
        ("threads", config.threads.to_string()),
        ("writeback_cache", config.settings.writeback_cache.to_string()),
    ];
    if let Ok((space, block_bytes)) = space {
        options.push(("block_bytes", block_bytes.to_string()));
        options.push(("total_bytes", space.total_bytes.to_string()));
        options.push(("free_bytes_at_start", space.free_bytes.to_string()));
        options.push(("inodes_at_start", space.inodes_used.to_string()));
    }
    options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
