//! Counts since mkfs, kept in the checkpoint.

use firnfs_format::checkpoint::COUNTERS;

macro_rules! counters {
    ($($(#[$doc:meta])* $slot:literal $name:ident,)*) => {
        /// Counts since mkfs. Their places in the checkpoint never change.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// As the checkpoint stores them.
            #[must_use]
            pub fn encode(&self) -> [u64; COUNTERS] {
                let mut out = [0; COUNTERS];
                $(out[$slot] = self.$name;)*
                out
            }

            /// From the checkpoint. Counts that no volume can have reached are taken for what can still be added to.
            #[must_use]
            pub fn decode(stored: &[u64; COUNTERS]) -> Self {
                Self { $($name: stored[$slot].min(u64::MAX / 2),)* }
            }

            /// Names and values, for people and machines.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Bytes of partial segments written, padding included.
    0 log_bytes,
    /// Checkpoints made durable.
    1 checkpoints,
    /// Segments cleaned.
    2 segments_cleaned,
    /// Of those, found empty.
    3 segments_cleaned_empty,
    /// Live bytes that the cleaner moved.
    4 cleaner_moved_bytes,
    /// Bytes that the cleaner read.
    5 cleaner_read_bytes,
    /// Bytes that users wrote.
    6 user_bytes,
}
