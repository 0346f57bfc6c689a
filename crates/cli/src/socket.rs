//! What the daemon's operations on the control socket share: the volume, the request, the answer.
//!
//! Callers: the `service` modules, `port`, `stat`.

use firnfs_fuse::control::{ErrorKind, OpError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::{Arc, Weak};

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
