//! `FaultyDisk`: a disk that fails in the ways disks fail, on a seeded schedule.
