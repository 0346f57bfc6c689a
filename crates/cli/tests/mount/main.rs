//! End-to-end tests: the real program, real mounts. One program, so that the helpers have one home.

mod bench;
mod cleaner;
mod common;
mod failing;
mod idle;
mod in_process;
mod lifecycle;
mod live;
mod memory;
mod partial;
mod posix;
mod programs;
mod scrub;
mod traces;
