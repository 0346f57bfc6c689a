//! End-to-end tests: the real program, real mounts. They are one program, so that they can share their
//! helpers.

mod age;
mod bench;
mod boot;
mod cleaner;
mod clones;
mod common;
mod compare;
mod completion;
mod failing;
mod freeze;
mod full_disk;
mod history;
mod idle;
mod in_process;
mod json;
mod lifecycle;
mod live;
mod memory;
mod metrics;
mod partial;
mod posix;
mod programs;
mod quotas;
mod record;
mod remount;
mod resize;
mod restore;
#[path = "../schema/mod.rs"]
mod schema;
mod scrub;
mod send;
mod traces;
mod transports;
mod tune;
mod watch;
