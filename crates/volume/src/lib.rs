//! The driver: runs the sans-I/O core of `fs` against a device, for callers that may block.
//!
//! One mutex around the core. An operation that stops is retried here after its blocks were read (`Need`) or after
//! background work advanced (`Room`). No thread of its own: the caller's thread does the work; an adapter with threads calls
//! [`Volume::background`] from one of them, and promises to.
//!
//! It drives any [`Engine`](firnfs::engine::Engine) and knows none by name. Making, opening, checking and repairing volumes of
//! each kind is the business of the crate `firnfs-manage`, built from the public methods of [`Volume`].

mod allocate;
mod reader;
mod stalls;
mod sync;
mod volume;

pub use reader::Reader;
pub use stalls::Stalls;
#[cfg(shuttle)]
pub use sync::lose_notifications;
pub use volume::{BackgroundPromise, Volume};
