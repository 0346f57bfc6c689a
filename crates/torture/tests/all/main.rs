//! Real volumes against models, crashes and faults: a module for each subject, whose head says what it promises.
//!
//! They are one program, because each test program is compiled with the file system's code once more.

// Models: every store and an independent model agree.
mod ffs;
mod full;
mod lfs;
mod memory;
mod nasty;
mod quotas;

// Power cuts, and proof that the explorer sees what goes wrong.
mod crash;
mod explorer;
mod ffs_crash;
mod mutations;

// Disks that fail or lie, and damage.
mod faults;
mod ffs_damage;
mod ffs_sectors;
mod flips;
mod past_flips;
