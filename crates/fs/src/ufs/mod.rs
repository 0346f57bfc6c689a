//! UFS: what all storage managers share - directories, names, file content, attributes, the block map.
//!
//! Layers: [`crate::vfs`] calls down into this module; this module calls [`crate::store::Store`] and nothing else.

pub mod bmap;
