//! The command line's side of the control channel.

use super::{Answer, MAX_LINE_BYTES, OpError};
use crate::mount::table::{Mount, mount_of};
use crate::sockets::socket_path;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A connection to the daemon of one mount.
pub struct Client {
    reader: BufReader<UnixStream>,
    path: PathBuf,
}

/// Why the client could not ask the daemon, or what the daemon refused. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The path is not on a firnfs mount.
    #[error("{} is not on a firnfs mount; mount the volume first", .0.display())]
    NotMounted(PathBuf),
    /// The mount exists, but its daemon has died.
    #[error("the daemon of {} is dead; mount the volume again to clear the mount", .0.display())]
    DeadDaemon(PathBuf),
    /// The mount belongs to another user.
    #[error("no permission to talk to the daemon of {}; only its owner and root may", .0.display())]
    Permission(PathBuf),
    /// The socket is missing or broken.
    #[error("cannot talk to the daemon through {}: {reason}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The daemon refused.
    #[error("{0}")]
    Refused(OpError),
    /// The daemon is of another version.
    #[error("the daemon's answer cannot be understood ({0}); mount the volume with this version of firn")]
    NotUnderstood(String),
}

impl Client {
    /// Connects to the daemon that serves `path` (any path on the mount).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn for_path(path: &Path) -> Result<(Self, Mount), ClientError> {
        let mount = mount_of(path)
            .map_err(|e| ClientError::Socket { path: path.to_owned(), reason: e.to_string() })?
            .ok_or_else(|| ClientError::NotMounted(path.to_owned()))?;
        Ok((Self::for_mount(&mount)?, mount))
    }

    /// Connects to the daemon of a mount.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn for_mount(mount: &Mount) -> Result<Self, ClientError> {
        let socket = socket_path(mount.owner_uid, mount.device);
        Self::open(&socket).map_err(|error| match error.kind() {
            std::io::ErrorKind::ConnectionRefused => ClientError::DeadDaemon(mount.mountpoint.clone()),
            std::io::ErrorKind::NotFound if crate::mount::is_dead(&mount.mountpoint) => {
                ClientError::DeadDaemon(mount.mountpoint.clone())
            }
            std::io::ErrorKind::PermissionDenied => ClientError::Permission(mount.mountpoint.clone()),
            _ => ClientError::Socket { path: socket, reason: error.to_string() },
        })
    }

    pub(super) fn open(socket: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        Ok(Self { reader: BufReader::new(stream), path: socket.to_owned() })
    }

    /// Asks for one operation and waits for the answer. `arguments` is an object; `op` is added to it.
    ///
    /// # Errors
    /// The daemon refused, or the connection broke because the daemon ended.
    pub fn call(&mut self, op: &str, arguments: Value) -> Result<Value, ClientError> {
        self.send(op, arguments)?;
        self.receive()
    }

    /// [`Self::call`] for an answer of a certain form.
    ///
    /// # Errors
    /// As [`Self::call`]; [`ClientError::NotUnderstood`].
    pub fn ask<T: DeserializeOwned>(&mut self, op: &str, arguments: Value) -> Result<T, ClientError> {
        let answer = self.call(op, arguments)?;
        serde_json::from_value(answer).map_err(|e| ClientError::NotUnderstood(e.to_string()))
    }

    /// The first half of [`Client::call`].
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, op: &str, mut arguments: Value) -> Result<(), ClientError> {
        arguments["op"] = Value::from(op);
        let mut line = arguments.to_string().into_bytes();
        line.push(b'\n');
        self.reader.get_mut().write_all(&line).map_err(|e| self.broken(e.to_string()))
    }

    /// The second half of [`Client::call`].
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn receive(&mut self) -> Result<Value, ClientError> {
        let mut answer = Vec::new();
        let read = (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut answer);
        read.map_err(|e| self.broken(e.to_string()))?;
        if answer.is_empty() {
            return Err(self.broken("the daemon closed the connection".into()));
        }
        match serde_json::from_slice(&answer) {
            Ok(Answer::Ok(value)) => Ok(value),
            Ok(Answer::Error(error)) => Err(ClientError::Refused(error)),
            Err(error) => Err(ClientError::NotUnderstood(error.to_string())),
        }
    }

    fn broken(&self, reason: String) -> ClientError {
        ClientError::Socket { path: self.path.clone(), reason }
    }
}
