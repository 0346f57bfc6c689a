//! Images that were made to harm, and images with a flipped byte: nothing panics, nothing runs for ever, what is damaged gives
//! an error with its place, and the rest goes on.
//!
//! A hostile image has right checksums everywhere ([`doctor`] sees to that), so only what the bytes say can be refused.

mod accounts;
mod bounds;
mod confined;
mod doctor;
mod lost;
mod pointers;
mod support;
