//! The state of a volume as OpenMetrics: for a textfile collector (`firn stat --openmetrics`), and over HTTP from the daemon
//! (`firn mount -o metrics=ADDRESS`). `families` says what is told, `text` writes it, `server` serves it; both ways use the same.

mod families;
mod server;
mod text;

pub use server::{Listener, parse_address};

use crate::failure::Done;
use crate::stat::view::{Inspect, StatView};
use firnfs_fuse::Session;
use firnfs_fuse::counters::RequestCount;
use firnfs_volume::Volume;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// Name of the control operation that says where the metrics are served.
const ADDRESS_OP: &str = "metrics";

/// What is known of a volume at one moment.
pub struct Snapshot {
    /// The image or device: the label that tells volumes apart.
    pub source: String,
    /// Its state.
    pub stat: StatView,
    /// Changes wait for a thaw.
    pub is_frozen: bool,
    /// Requests of the kernel since the mount; empty for a volume that is not mounted.
    pub requests: Vec<RequestCount>,
}

impl Snapshot {
    /// As OpenMetrics text, to its `# EOF`.
    pub fn render(&self) -> String {
        text::render(families::families(self))
    }
}

/// Serves the metrics of a session until its volume is about to be closed.
///
/// # Errors
/// The thread cannot be started.
pub fn serve<S: Inspect + 'static>(
    listener: Listener,
    volume: &Arc<Volume<S>>,
    session: &mut Session<S>,
    source: &Path,
) -> Done {
    let address = listener.address().to_string();
    let (volume, requests) = (Arc::downgrade(volume), session.request_counts());
    let source = source.display().to_string();
    let render = move || {
        let closing = || "the volume is being closed".to_owned();
        let volume = volume.upgrade().ok_or_else(closing)?;
        let stat = StatView::of(&volume).map_err(|e| e.to_string())?;
        let requests = requests().ok_or_else(closing)?;
        let is_frozen = volume.is_frozen();
        Ok(Snapshot { source: source.clone(), stat, is_frozen, requests }.render())
    };
    let server = listener.serve(render)?;
    session
        .registry_mut()
        .register(ADDRESS_OP, "where the metrics are served", move |_| Ok(json!({ "address": address })));
    session.before_close(move || server.end());
    Ok(())
}
