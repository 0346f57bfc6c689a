//! What the daemon's operations on the control socket share: the volume, the request, the answer; and for those that pass on more than fits
//! into lines of JSON, a connection that the daemon makes to the command.
//!
//! Callers: the `service` modules, `port`, `stat`; `history::send`, `mounting::past`.

use crate::failure::{Done, Failure};
use firnfs_fuse::control::{Client, ClientError, ErrorKind, OpError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// The volume that an operation holds weakly, because it must close after the unmount.
///
/// # Errors
/// It is being closed.
pub fn open<V>(volume: &Weak<V>) -> Result<Arc<V>, OpError> {
    volume.upgrade().ok_or_else(closing)
}

/// The refusal of a request to a volume that is being closed.
pub fn closing() -> OpError {
    OpError::new(ErrorKind::Closing, "the volume is being closed")
}

/// The arguments in a request.
///
/// # Errors
/// One is missing or of another type.
pub fn arguments<T: DeserializeOwned>(request: &Value) -> Result<T, OpError> {
    T::deserialize(request).map_err(|e| OpError::new(ErrorKind::InvalidArgument, e.to_string()))
}

/// An answer as JSON.
///
/// # Errors
/// It cannot be JSON.
pub fn answer(view: &impl Serialize) -> Result<Value, OpError> {
    serde_json::to_value(view).map_err(|e| OpError::new(ErrorKind::Failed, e.to_string()))
}

/// The daemon has called, or has refused to.
pub struct Called {
    /// Leads to the daemon, or to nobody.
    pub stream: UnixStream,
    /// What it answers in the end.
    pub answer: Later,
}

/// An answer that is still to come.
pub struct Later(JoinHandle<Result<Value, ClientError>>);

impl Later {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The daemon refused, or the connection broke because it ended.
    pub fn wait<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        let lost = |_| Err(ClientError::NotUnderstood("the question was lost".to_owned()));
        let answer = self.0.join().unwrap_or_else(lost)?;
        serde_json::from_value(answer).map_err(|e| ClientError::NotUnderstood(e.to_string()))
    }
}

/// Asks the daemon for an operation that connects to a socket of this command, in a directory that only its user may enter.
///
/// # Errors
/// The socket cannot be made.
pub fn be_called<R: Serialize>(
    mut client: Client,
    op: &'static str,
    request: impl FnOnce(PathBuf) -> R,
) -> Done<Called> {
    let cannot = |e: std::io::Error| Failure::system("cannot be called by the daemon", &e);
    let directory = tempfile::Builder::new().prefix("firn-").tempdir().map_err(cannot)?;
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).map_err(cannot)?;
    let request =
        serde_json::to_value(request(socket.clone())).map_err(|e| Failure::failed(e.to_string()))?;
    let asking = std::thread::spawn(move || {
        let answer = client.call(op, request);
        // Wakes the other side if the daemon did not connect.
        let _late = UnixStream::connect(&socket);
        answer
    });
    let (stream, _) = listener.accept().map_err(cannot)?;
    Ok(Called { stream, answer: Later(asking) })
}
