//! Layout declarations: one macro generates the struct, its size check, and the table in FORMAT.md.
//!
//! [`LAYOUTS`] lists them all; a test compares them with FORMAT.md.

use crate::checkpoint::{BranchRaw, CheckpointRaw, PointRaw, SpanRaw, TailRaw};
use crate::inode::InodeRaw;
use crate::stream::{FrameRaw, StreamRaw};
use crate::summary::{EntryRaw, SummaryRaw};
use crate::superblock::SuperblockRaw;
use crate::table::{ImapRaw, NodeRaw, UsageRaw};

/// One field of an on-disk structure.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name in the source.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Type in the source: `u8`, `U16` to `U64` and `I64` (little endian), or an array of those.
    pub ty: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

/// An on-disk structure.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name in the source.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Meaning.
    pub doc: &'static str,
    /// Fields in order.
    pub fields: &'static [Field],
}

/// Declares a little-endian, unaligned on-disk struct of a fixed size.
macro_rules! layout {
    ($(#[doc = $sdoc:literal])* $name:ident = $size:literal { $($(#[doc = $fdoc:literal])* $field:ident : $ty:ty,)* }) => {
        $(#[doc = $sdoc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable, zerocopy::Unaligned)]
        #[repr(C)]
        pub struct $name { $($(#[doc = $fdoc])* pub $field: $ty,)* }
        const _: () = assert!(std::mem::size_of::<$name>() == $size);
        impl $name {
            /// For FORMAT.md and `firn dump`.
            pub const LAYOUT: $crate::layout::Layout = $crate::layout::Layout {
                name: stringify!($name),
                size: $size,
                doc: concat!($($sdoc),*),
                fields: &[$($crate::layout::Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                    size: std::mem::size_of::<$ty>(),
                    ty: stringify!($ty),
                    doc: concat!($($fdoc),*),
                },)*],
            };
        }
    };
}
pub(crate) use layout;

/// All fixed structures of the format, in the order in which FORMAT.md shows them.
pub const LAYOUTS: &[Layout] = &[
    SuperblockRaw::LAYOUT,
    CheckpointRaw::LAYOUT,
    TailRaw::LAYOUT,
    SpanRaw::LAYOUT,
    PointRaw::LAYOUT,
    BranchRaw::LAYOUT,
    SummaryRaw::LAYOUT,
    EntryRaw::LAYOUT,
    InodeRaw::LAYOUT,
    ImapRaw::LAYOUT,
    UsageRaw::LAYOUT,
    NodeRaw::LAYOUT,
    StreamRaw::LAYOUT,
    FrameRaw::LAYOUT,
];
