//! The `firn` binary from the view of a user or a script. The tests are one program, so that they can share their helpers.

mod common;
mod fsck;
mod line;
mod mkfs;
#[path = "../schema/mod.rs"]
mod schema;
mod show;
mod sim;
