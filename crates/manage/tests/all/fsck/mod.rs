//! The file system check detects and repairs every kind of finding: for each there is an image, damaged so that it
//! shows exactly that finding; after its repair it is clean, and all other files are unchanged.

mod blocks;
mod clones;
mod crash;
mod depth;
mod doctor;
mod fixture;
mod lost;
mod names;
mod noise;
mod points;
mod salvage;
mod states;
mod tables;
