//! Deliberate flaws, one at a time: they prove that the crash explorer finds errors. Each removes one thing that recovery
//! depends on; the mutation suite requires that every one is caught.
//!
//! Without the feature `mutations` (tests of `torture` alone turn it on) none exists: [`is_on`] is constantly false.

macro_rules! mutations {
    (log { $($(#[$what:meta])* $name:ident,)* } ffs { $($(#[$ffs_what:meta])* $ffs_name:ident,)* }) => {
        /// The flaws.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutation {
            $($(#[$what])* $name,)*
            $($(#[$ffs_what])* $ffs_name,)*
        }

        /// Each of the log's.
        pub const ALL: &[Mutation] = &[$(Mutation::$name),*];

        /// Each of the Fast File System's.
        pub const ALL_OF_FFS: &[Mutation] = &[$(Mutation::$ffs_name),*];
    };
}

mutations! {
log {
    /// A checkpoint slot is written before the log that it refers to is durable.
    SlotBeforeLog,
    /// A flush does not wait for the writes of earlier serials.
    FlushBeforeWritten,
    /// The log is written before the mount's incarnation is durable.
    LogBeforeIncarnation,
    /// A mount's incarnation goes into one slot only.
    IncarnationInOneSlot,
    /// Both checkpoints go to the same slot.
    OneSlot,
    /// Roll-forward accepts any incarnation and any predecessor.
    AnyOrigin,
    /// Roll-forward accepts any incarnation.
    AnyIncarnation,
    /// Roll-forward accepts any predecessor.
    AnyPredecessor,
    /// Roll-forward does not check the blocks of a partial segment.
    UncheckedBlocks,
    /// Roll-forward applies batches without their end.
    AnyBatch,
    /// Segments are discarded as soon as they are empty.
    DiscardAtOnce,
    /// A segment that a checkpoint found empty is written again before the next checkpoint is durable.
    ReuseAtOnce,
    /// A volume that shrinks counts as shrunk before a checkpoint states its smaller size.
    LeaveAtOnce,
    /// Bytes read are not compared with the checksum in their pointer.
    UncheckedReads,
    /// Segments are written again while a read of them is under way.
    NoPins,
    /// Operations change inodes of a batch that is being laid out, before they are laid out.
    ThawedBatch,
    /// fsync leaves out earlier changes of names.
    FsyncWithoutNames,
    /// Limits of users and groups are not ordered with changes of names.
    LimitsApart,
    /// A mount assumes that no user owns anything yet, instead of counting.
    UncountedUsage,
    /// Usage leaves out what a store charges or credits between operations.
    ForgottenRecharges,
    /// A dead block counts as free at once, although a retained point has seen it.
    SeenDiesAtOnce,
    /// Moves of blocks that retained points have seen leave no remnants.
    MovesWithoutRemnants,
    /// A reader follows moves from before the state that it reads: they belong to an earlier visit of a block to the same place.
    RemnantsOfAnyTime,
    /// Two states are compared by where the blocks of the older one are now, and where those of the newer one were.
    NewerAsItWas,
    /// Roll-forward applies copies of the past to the present.
    PastRolledForward,
    /// Roll-forward applies the remnants of a checkpoint that was never durable.
    RemnantsRolledForward,
    /// The walk that drops a point also frees what an older point sees.
    OlderFreed,
    /// The walk that drops a point also frees what the next state sees.
    NewerFreed,
    /// A drop starts again with each mount.
    DropsBeginAnew,
    /// A dropped point leaves its row in the file of points.
    RowsStay,
    /// A point that a user asked for is in one slot only until the next checkpoint.
    PointInOneSlot,
    /// The deletion of a clone frees what it shares with its origin.
    SharedDies,
    /// Clones write down places to which blocks have moved since the last checkpoint.
    ClonesFollowAll,
    /// Inodes of a clone are freed before a checkpoint says that the clone is being deleted.
    ErasedAtOnce,
    /// Batches that are held back have END, and not HELD.
    NothingHeldBack,
    /// The newest automatic point has to give way first, not the oldest.
    NewestGoesFirst,
}
ffs {
    /// Writes do not wait for those that must be durable before them.
    UnorderedWrites,
    /// A name is written before its inode (rule R1).
    NamesFirst,
    /// An inode is cleared before its name is gone (rule R2).
    ClearedFirst,
    /// Blocks that a file drops are free at once (rule R3).
    FreeAtOnce,
    /// Inodes and indirect blocks do not wait for their new blocks (rule R4).
    PointersFirst,
    /// A rename removes the old name before the new one is there (rule R5).
    OldNameFirst,
    /// A directory's block is written as if it had one unit: a rename within it at once (rule R5).
    RenameAtOnce,
}
}

#[cfg(feature = "mutations")]
std::thread_local! {
    static CHOSEN: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Turns a flaw on in this thread, or all off.
#[cfg(feature = "mutations")]
pub fn choose(mutation: Option<Mutation>) {
    CHOSEN.set(mutation);
}

/// Whether that flaw is on in this thread.
#[cfg(feature = "mutations")]
#[must_use]
pub fn is_on(mutation: Mutation) -> bool {
    CHOSEN.get() == Some(mutation)
}

/// Whether that flaw is on: never, in this build.
#[cfg(not(feature = "mutations"))]
#[must_use]
#[inline(always)]
pub fn is_on(_: Mutation) -> bool {
    false
}
