//! The file system check finds what it is there to find, and repairs it: for every kind of finding an image doctored so
//! that it shows exactly that, repaired, clean afterwards, with all other files as they were.

mod blocks;
mod crash;
mod doctor;
mod fixture;
mod names;
mod noise;
mod salvage;
mod tables;
