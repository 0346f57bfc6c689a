//! The control channel: a local socket for each mount, through which `firn` and cleaners outside the daemon talk to
//! the daemon.
//!
//! It carries one JSON object per line in each direction; docs/internals/control.md describes it for authors of other
//! clients. `server` answers with the operations of a [`Registry`]; `client` asks. Only the owner of the mount and
//! root may connect.

pub mod client;
pub mod server;

pub use client::{Client, ClientError};
pub use server::Server;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest request and reply, in bytes.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// The kind of error that an operation answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The line is not a JSON object with a string `op`.
    BadRequest,
    /// There is no operation of that name.
    UnknownOp,
    /// The arguments are invalid.
    InvalidArgument,
    /// The volume failed; `errno` names the error.
    Failed,
    /// The daemon is about to end.
    Closing,
}

/// An operation's refusal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct OpError {
    /// For programs.
    pub kind: ErrorKind,
    /// For people, one line.
    pub message: String,
    /// POSIX name of the error, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
}

impl OpError {
    /// Without an errno.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), errno: None }
    }
}

impl From<&firnfs::FsError> for OpError {
    fn from(error: &firnfs::FsError) -> Self {
        Self {
            kind: ErrorKind::Failed,
            message: error.to_string(),
            errno: Some(error.errno_name().to_owned()),
        }
    }
}

/// What the daemon sends back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done.
    Ok(Value),
    /// Refused.
    Error(OpError),
}

type Operation = Box<dyn Fn(&Value) -> Result<Value, OpError> + Send + Sync>;

/// The operations that a server knows, by name. An operation gets the whole request object and may block: each
/// connection has its own thread.
#[derive(Default)]
pub struct Registry {
    operations: BTreeMap<&'static str, (&'static str, Operation)>,
}

impl Registry {
    /// Adds an operation; `help` is one line for people. A later operation of the same name replaces it.
    pub fn register(
        &mut self,
        name: &'static str,
        help: &'static str,
        operation: impl Fn(&Value) -> Result<Value, OpError> + Send + Sync + 'static,
    ) {
        self.operations.insert(name, (help, Box::new(operation)));
    }

    /// Answers one line.
    #[must_use]
    pub fn answer(&self, line: &[u8]) -> Answer {
        match self.run(line) {
            Ok(value) => Answer::Ok(value),
            Err(error) => Answer::Error(error),
        }
    }

    fn run(&self, line: &[u8]) -> Result<Value, OpError> {
        let request: Value = serde_json::from_slice(line)
            .map_err(|e| OpError::new(ErrorKind::BadRequest, format!("the request is not JSON: {e}")))?;
        let name = request.get("op").and_then(Value::as_str).ok_or_else(|| {
            OpError::new(ErrorKind::BadRequest, "the request is not an object with a string 'op'")
        })?;
        if name == "help" {
            return Ok(self.operations.iter().map(|(name, (help, _))| (*name, *help)).collect());
        }
        let Some((_, operation)) = self.operations.get(name) else {
            let known: Vec<&str> = self.operations.keys().copied().collect();
            let message = format!("no operation '{name}'; there are help, {}", known.join(", "));
            return Err(OpError::new(ErrorKind::UnknownOp, message));
        };
        operation(&request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn registry() -> Registry {
        let mut registry = Registry::default();
        registry.register("double", "twice n", |request| {
            let n = request.get("n").and_then(Value::as_u64);
            n.map(|n| json!(n * 2)).ok_or_else(|| OpError::new(ErrorKind::InvalidArgument, "n is missing"))
        });
        registry
    }

    fn kind_of(answer: &Answer) -> Option<ErrorKind> {
        if let Answer::Error(error) = answer { Some(error.kind) } else { None }
    }

    #[test]
    fn each_way_to_be_wrong_has_its_own_kind() {
        let registry = registry();
        assert_eq!(registry.answer(br#"{"op":"double","n":21}"#), Answer::Ok(json!(42)));
        for (line, kind) in [
            (&br#"{"op":"double"}"#[..], ErrorKind::InvalidArgument),
            (br#"{"op":"triple"}"#, ErrorKind::UnknownOp),
            (br#"{"op":7}"#, ErrorKind::BadRequest),
            (br"[]", ErrorKind::BadRequest),
            (b"\xff\xfe", ErrorKind::BadRequest),
            (b"", ErrorKind::BadRequest),
        ] {
            assert_eq!(kind_of(&registry.answer(line)), Some(kind), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn help_lists_every_operation() {
        assert_eq!(registry().answer(br#"{"op":"help"}"#), Answer::Ok(json!({"double": "twice n"})));
    }

    #[test]
    fn answers_are_written_as_documented() {
        assert_eq!(serde_json::to_value(Answer::Ok(json!(1))).unwrap(), json!({"ok": 1}));
        let error = Answer::Error(OpError::from(&firnfs::FsError::NoSpace));
        assert_eq!(
            serde_json::to_value(error).unwrap(),
            json!({"error": {"kind": "failed", "message": "no space left on the volume", "errno": "ENOSPC"}})
        );
    }
}
