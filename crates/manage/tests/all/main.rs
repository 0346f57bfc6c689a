//! The tests of volumes through the library: a module for each subject, whose head says what it promises.
//!
//! They are one program, because each test program is compiled with the file system's code once more, and because one that has a single long
//! test leaves the other processors idle. What is measured over a whole process (`memory`, `check_scale`) has a program of its own, as have
//! the `interleavings`, which are built for the model checker.

#[path = "../common/mod.rs"]
mod common;

// Promises of the README, and of FORMAT.md.
mod format_md;
mod golden;
mod past;
mod promises;
mod volume;

// The log: writing, room, cleaning, order.
mod bursts;
mod chunks;
mod cleaner_reads;
mod cleaning_steps;
mod coalescing;
mod counters;
mod endurance;
mod freeze;
mod idle;
mod jobs;
mod lookahead;
mod parts;
mod port;
mod pressure;
mod quiet;
mod random_writes;
mod read_ahead;
mod sorting;
mod stalls;
mod undeclared;

// States of the past, clones, streams; other sizes.
mod clones;
mod differences;
mod grow;
mod many_points;
mod points;
mod retention;
mod send;
mod shrink;

// Damage: crashes, checks, repair.
mod crashed_mounts;
mod fsck;
mod hostile;
mod scrub;

// The Fast File System.
mod ffs_fsck;
mod ffs_layout;
