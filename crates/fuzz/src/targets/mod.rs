//! Targets: functions that are fed with bytes. Each takes any bytes and returns; each documents its further
//! assertions.
//!
//! - `decoders`: the format, directories, attributes. `image`, `fast`: whole images, of the log and of the Fast File System.
//! - `stream`, `wire`: send streams; requests of the kernel and lines of the control socket.
//! - `workload`, `watch`, `snapshot`: files of these kinds; `framed` corrects the checksums in them.
//! - `canary`: flaws that a working fuzzer must find.

mod canary;
mod decoders;
mod fast;
mod framed;
mod image;
mod snapshot;
mod stream;
mod watch;
mod wire;
mod workload;

/// A function that takes bytes from outside.
#[derive(Debug)]
pub struct Target {
    /// Its name on the command line, which is also the name of its corpus.
    pub name: &'static str,
    /// A description, in one line.
    pub about: &'static str,
    /// Runs it on an input.
    pub run: fn(&[u8]),
    /// Initial inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Address space that the process may use, in bytes, including code and stacks.
    pub memory_max_bytes: u64,
}

/// Enough for a decoder: its inputs are at most some pages long.
const SMALL_BYTES: u64 = 256 << 20;
/// Enough for a volume with the smallest cache, which may use 80 MiB more while it cleans.
const VOLUME_BYTES: u64 = 768 << 20;

const fn decoder(
    name: &'static str,
    about: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, about, run, seeds, memory_max_bytes: SMALL_BYTES }
}

/// All targets that should have no findings.
pub static ALL: &[Target] = &[
    decoder("superblock", "a copy of the superblock", decoders::superblock, decoders::superblock_seeds),
    decoder("checkpoint", "a checkpoint slot", decoders::checkpoint, decoders::checkpoint_seeds),
    decoder("summary", "summaries, and whole segments of them", decoders::summary, decoders::summary_seeds),
    decoder("record", "inode records with all that is inline", decoders::record, decoders::record_seeds),
    decoder("table", "blocks of tables, indirect blocks", decoders::table, decoders::table_seeds),
    decoder("dirent", "blocks of directories", decoders::dirent, decoders::dirent_seeds),
    decoder("xattr", "sets of extended attributes", decoders::xattr, decoders::xattr_seeds),
    decoder("acl", "access control lists", decoders::acl, decoders::acl_seeds),
    decoder("control", "lines of the control socket", wire::control, wire::control_seeds),
    decoder(
        "ffs-superblock",
        "a superblock of the Fast File System",
        fast::superblock,
        fast::superblock_seeds,
    ),
    decoder("ffs-tables", "descriptors and inodes of the Fast File System", fast::tables, fast::tables_seeds),
    decoder(
        "workload",
        "workload files, mostly under right checksums",
        workload::files,
        workload::file_seeds,
    ),
    decoder("traces", "texts of nfsdump and strace, tables", workload::traces, workload::trace_seeds),
    decoder(
        "recording",
        "recordings of firn watch, mostly under right checksums",
        watch::recordings,
        watch::recording_seeds,
    ),
    decoder(
        "snapshot",
        "snapshots of file systems, mostly under right checksums, and their layout",
        snapshot::files,
        snapshot::seeds,
    ),
    decoder("watch-map", "changes of a map of segments", watch::maps, watch::map_seeds),
    Target {
        name: "wire",
        about: "requests of the kernel, decoded and served",
        run: wire::requests,
        seeds: wire::request_seeds,
        memory_max_bytes: SMALL_BYTES,
    },
    Target {
        name: "directory",
        about: "images with damaged directories and indexes under right checksums",
        run: image::directories,
        seeds: image::seeds,
        memory_max_bytes: VOLUME_BYTES,
    },
    Target {
        name: "image",
        about: "images with any structures damaged, mostly under right checksums: mounted, read, written, closed",
        run: image::any,
        seeds: image::seeds,
        memory_max_bytes: VOLUME_BYTES,
    },
    Target {
        name: "stream",
        about: "send streams under right checksums, received by a replica: all of one counts, or nothing",
        run: stream::received,
        seeds: stream::seeds,
        memory_max_bytes: VOLUME_BYTES,
    },
    Target {
        name: "ffs-image",
        about: "images of the Fast File System, damaged anywhere: checked, repaired, mounted, read, written, closed",
        run: fast::images,
        seeds: fast::seeds,
        memory_max_bytes: VOLUME_BYTES,
    },
];

/// Targets with one flaw each, which a campaign must find.
pub static CANARIES: &[Target] = &[
    decoder("canary-panic", "trusts a length", canary::panics, canary::seeds),
    decoder("canary-memory", "trusts a count", canary::allocates, canary::seeds),
    decoder("canary-loop", "trusts a link", canary::loops, canary::seeds),
    decoder("canary-stack", "trusts a depth", canary::recurses, canary::seeds),
];

/// A target or canary by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().chain(CANARIES).find(|target| target.name == name)
}
