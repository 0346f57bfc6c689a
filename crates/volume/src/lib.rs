//! The driver: runs the sans-I/O core of `fs` against a device, for callers that may block.
//!
//! One mutex around the core. An operation that stops is retried here after its blocks were read (`Need`) or after
//! background work advanced (`Room`). No thread of its own: whoever calls does the work; an adapter with threads calls
//! [`Volume::background`] from one of them, and promises so.

mod allocate;
mod check;
mod coalesce;
mod driven;
mod open;
mod port;
mod reader;
mod repair;
mod salvage;
mod scrub;
mod stalls;
mod sync;
mod trim;
mod volume;

pub use check::check;
pub use driven::Driven;
pub use open::{OpenError, format, format_with_logs, open};
pub use reader::Reader;
pub use repair::{Action, Outcome, Repaired, repair};
pub use salvage::{put_together, write_salvaged};
pub use scrub::{Scrub, Scrubbed};
pub use stalls::Stalls;
#[cfg(shuttle)]
pub use sync::lose_notifications;
pub use volume::{BackgroundPromise, Volume};

/// Keeps the code in the book's page true: `cargo test --doc` compiles and runs it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct EmbeddingPage;
