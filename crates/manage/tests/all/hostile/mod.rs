//! Hostile images, and images with a flipped byte: nothing panics or runs for ever, damage gives an error that names its
//! place, and the rest keeps working.
//!
//! A hostile image has right checksums everywhere ([`doctor`] updates them), so only the values themselves can be rejected.

mod accounts;
mod bounds;
mod confined;
mod doctor;
mod lost;
mod pointers;
mod support;
