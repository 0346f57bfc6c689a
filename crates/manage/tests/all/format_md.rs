//! FORMAT.md and FORMAT-FFS.md agree with the code: their generated blocks are compared with the code's own declarations.
//!
//! A block is between `<!-- generated: NAME -->` and `<!-- end -->`. Setting `FIRNFS_REGENERATE=1` rewrites the blocks
//! instead of comparing them; the rest of the file is not changed.

use firnfs::lfs::{Counters, LIVE_SLOT, LogKind};
use firnfs::ufs::{index, xattr};
use firnfs::{bmap, dirent};
use firnfs_format::checkpoint::{COUNTERS, MAX_LOGS, MAX_SPANS};
use firnfs_format::ffs;
use firnfs_format::inode::{DIRECT_POINTERS, FORKS, INDIRECT_POINTERS};
use firnfs_format::layout::{Field, LAYOUTS, Layout};
use firnfs_format::pointer::POINTER_BYTES;
use firnfs_format::superblock::{
    CHECKPOINT_SLOT_BYTES, CHECKPOINT_SLOTS_AT, FORMAT_VERSION, LOG_START_BYTES, SEGMENT_BYTES_RANGE,
    SUPERBLOCK_BYTES, SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_SECOND_AT, Superblock,
};
use firnfs_format::table::TABLE_ENTRY_BYTES;
use firnfs_format::{BlockPtr, Epoch, InodeNo, PtrKind, SECTOR_BYTES, SectorAddr, inode, summary};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const REGENERATE: &str = "FIRNFS_REGENERATE";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The expected blocks of FORMAT.md, by name.
fn blocks() -> Vec<(String, String)> {
    let mut blocks: Vec<_> =
        LAYOUTS.iter().map(|layout| (layout.name.to_owned(), structure(layout))).collect();
    blocks.push(("places".to_owned(), places()));
    blocks.push(("limits".to_owned(), limits()));
    blocks.push(("flags".to_owned(), flags()));
    blocks.push(("internal inodes".to_owned(), internal_inodes()));
    blocks.push(("counters".to_owned(), counters()));
    blocks.push(("pointer example".to_owned(), pointer_example()));
    blocks.push(("directory example".to_owned(), directory_example()));
    blocks.push(("attribute example".to_owned(), attribute_example()));
    blocks
}

/// The expected blocks of FORMAT-FFS.md, by name.
fn ffs_blocks() -> Vec<(String, String)> {
    let mut blocks: Vec<_> =
        ffs::LAYOUTS.iter().map(|layout| (layout.name.to_owned(), structure(layout))).collect();
    blocks.push(("limits".to_owned(), ffs_limits()));
    blocks.push(("directory example".to_owned(), ffs_directory_example()));
    blocks
}

fn ffs_limits() -> String {
    let map = bmap::Geometry::new(4096, 4);
    let row = |what: &str, value: String| (what.to_owned(), value);
    let blocks = |levels: usize| {
        let indirect: u64 = (1..=levels as u8).map(|level| map.span(level)).sum();
        (ffs::inode::DIRECT as u64 + indirect).to_string()
    };
    let [data, index, xattr] = ffs::inode::LEVELS;
    table(
        ["limit", "value"],
        &[
            row("format version", ffs::superblock::VERSION.to_string()),
            row("block", {
                let range = ffs::BLOCK_BYTES_RANGE;
                format!("{} to {} bytes, a power of two, chosen by mkfs", range.start(), range.end())
            }),
            row(
                "fragment",
                format!(
                    "block / 1 to block / {}, at least {} bytes",
                    ffs::FRAGS_PER_BLOCK_MAX,
                    ffs::FRAG_BYTES_MIN
                ),
            ),
            row("volume", format!("below {} fragments", ffs::UNWRITTEN)),
            row("inode", format!("{} bytes", ffs::inode::DINODE_BYTES)),
            row("direct pointers of a fork", ffs::inode::DIRECT.to_string()),
            row("levels of indirect blocks", format!("{data} (data), {index} (index), {xattr} (attributes)")),
            row("file, blocks of 4096 bytes", format!("{} blocks", blocks(data))),
            row("directory index, blocks of 4096 bytes", format!("{} blocks", blocks(index))),
            row("attribute set, blocks of 4096 bytes", format!("{} blocks", blocks(xattr))),
            row("unit of a directory block", format!("{} bytes", dirent::DIR_UNIT_MIN_BYTES)),
        ],
    )
}

fn ffs_directory_example() -> String {
    use firnfs::inode::Kind;
    let mut block = vec![0; 1024];
    let unit_bytes = dirent::DIR_UNIT_MIN_BYTES;
    dirent::insert(&mut block, 0, (InodeNo(16), Kind::Directory), b"src", unit_bytes).unwrap();
    let text = "The first two units of a block whose only entry is `src` (inode 16, a directory); their zeros are left out:\n\n";
    format!("{text}{}{}", hex(&block[..32]), hex(&block[unit_bytes..unit_bytes + 16]))
}

/// A structure: its drawing, with 8 bytes per row, and its table.
fn structure(layout: &Layout) -> String {
    let mut out = format!("`{}`, {} bytes.{}\n\n```text\n", layout.name, layout.size, layout.doc);
    out.push_str(&drawing(layout));
    out.push_str("```\n\n| offset | size | type | field | meaning |\n|---:|---:|---|---|---|\n");
    for Field { name, offset, size, ty, doc } in layout.fields {
        let ty = ty.to_lowercase().replace(" ;", ";");
        let doc = doc.trim().replace('|', "\\|");
        writeln!(out, "| {offset} | {size} | {ty} | `{name}` | {doc} |").unwrap();
    }
    out
}

/// Columns that a byte takes in a drawing, including its right border.
const BYTE_COLUMNS: usize = 8;
/// Bytes of a row.
const ROW_BYTES: usize = 8;

fn drawing(layout: &Layout) -> String {
    let rule = |out: &mut String| {
        writeln!(out, "       +{}", ("-".repeat(BYTE_COLUMNS - 1) + "+").repeat(ROW_BYTES)).unwrap();
    };
    let mut out = String::from("     ");
    for byte in 0..ROW_BYTES {
        write!(out, "  {byte:^w$}", w = BYTE_COLUMNS - 2).unwrap();
    }
    out = format!("  {}\n", out.trim_end());
    rule(&mut out);
    let mut at = 0;
    while at < layout.size {
        let last = layout.fields.iter().find(|f| f.offset < at && at + ROW_BYTES < f.offset + f.size);
        if let Some(field) = last {
            // Rows in the middle of a long field are left out.
            at = (field.offset + field.size - 1) / ROW_BYTES * ROW_BYTES;
            writeln!(out, "       :{:^w$}:", "...", w = BYTE_COLUMNS * ROW_BYTES - 1).unwrap();
        }
        write!(out, "{at:>6} |").unwrap();
        let mut column = at;
        while column < (at + ROW_BYTES).min(layout.size) {
            let field =
                layout.fields.iter().find(|f| (f.offset..f.offset + f.size).contains(&column)).unwrap();
            let end = (field.offset + field.size).min(at + ROW_BYTES);
            let width = (end - column) * BYTE_COLUMNS - 1;
            let name = if field.doc.trim() == "Zero" { "0" } else { field.name };
            let name = if field.offset < at { "" } else { &name[..name.len().min(width)] };
            write!(out, "{name:^width$}|").unwrap();
            column = end;
        }
        out.push('\n');
        rule(&mut out);
        at += ROW_BYTES;
    }
    out
}

fn table(head: [&str; 2], rows: &[(String, String)]) -> String {
    let mut out = format!("| {} | {} |\n|---|---|\n", head[0], head[1]);
    for (left, right) in rows {
        writeln!(out, "| {left} | {right} |").unwrap();
    }
    out
}

fn places() -> String {
    let row = |at: u64, len: u64, what: &str| (format!("{at}"), format!("{what}, {len} bytes"));
    let copy = SUPERBLOCK_BYTES as u64;
    let slot = u64::from(CHECKPOINT_SLOT_BYTES);
    let last = Superblock::places(100 << 20)[2];
    assert_eq!(last, (100 << 20) - copy, "the third copy is the last block");
    table(
        ["byte on the device", "what"],
        &[
            row(0, SUPERBLOCK_PRIMARY_AT, "unused (left to boot code and partition labels)"),
            row(SUPERBLOCK_PRIMARY_AT, copy, "superblock, first copy"),
            row(CHECKPOINT_SLOTS_AT[0], slot, "checkpoint slot 0 (even epochs)"),
            row(SUPERBLOCK_SECOND_AT, copy, "superblock, second copy"),
            row(CHECKPOINT_SLOTS_AT[1], slot, "checkpoint slot 1 (odd epochs)"),
            (LOG_START_BYTES.to_string(), "segment 0, then the others without gaps".to_owned()),
            (
                format!("size / {copy} * {copy} - {copy}"),
                format!("superblock, third copy, {copy} bytes (`size`: the device's)"),
            ),
        ],
    )
}

fn limits() -> String {
    let map = bmap::Geometry::new(4096, POINTER_BYTES as u32);
    let row = |what: &str, value: String| (what.to_owned(), value);
    table(
        ["limit", "value"],
        &[
            row("format version", FORMAT_VERSION.to_string()),
            row("sector", format!("{SECTOR_BYTES} bytes, whatever the device's own block")),
            row("block", "4096 to 65536 bytes, a power of two, chosen by mkfs".to_owned()),
            row(
                "segment",
                format!(
                    "{} KiB to {} MiB, a power of two, at least 16 blocks, chosen by mkfs",
                    SEGMENT_BYTES_RANGE.start() >> 10,
                    SEGMENT_BYTES_RANGE.end() >> 20
                ),
            ),
            row("volume", "below 128 PiB (48 bits of sector address)".to_owned()),
            row(
                "block pointers of a fork in an inode",
                format!("{DIRECT_POINTERS} direct, {INDIRECT_POINTERS} indirect (single to quintuple)"),
            ),
            row("forks of an inode", format!("{FORKS}: data, directory index, extended attributes")),
            row("pointers in an indirect block of 4096 bytes", map.pointers_per_block().to_string()),
            row("file, blocks of 4096 bytes", format!("{} bytes", map.max_bytes(4096))),
            row("data kept in an inode", "0 to 2048 bytes, chosen by mkfs".to_owned()),
            row("name", format!("1 to {} bytes", dirent::NAME_MAX_BYTES)),
            row("directory content", "32 GiB (32 bits of 8-byte units)".to_owned()),
            row("levels of a directory index", index::DEPTH_MAX.to_string()),
            row("pairs in an index node of 4096 bytes", index::capacity(4096).to_string()),
            row("attribute name", format!("1 to {} bytes, namespace included", xattr::NAME_MAX_BYTES)),
            row("attribute value", format!("{} bytes", xattr::VALUE_MAX_BYTES)),
            row("attributes of a file together", format!("{} bytes", xattr::SET_MAX_BYTES)),
            row("links to a file", firnfs::vfs::LINK_MAX.to_string()),
            row("logs open at once", MAX_LOGS.to_string()),
            row("spans in a checkpoint", MAX_SPANS.to_string()),
            row("counters in a checkpoint", COUNTERS.to_string()),
            row("table entry or node", format!("{TABLE_ENTRY_BYTES} bytes")),
            row("times", "1677-09-21 to 2262-04-11, nanoseconds since 1970 in 64 bits".to_owned()),
        ],
    )
}

fn flags() -> String {
    let row = |name: &str, value: u32, what: &str| (format!("`{name}` = {value}"), what.to_owned());
    table(
        ["flag", "meaning"],
        &[
            row("END", summary::FLAG_END.into(), "last partial segment of its batch"),
            row(
                "CHECKPOINT",
                summary::FLAG_CHECKPOINT.into(),
                "holds only blocks of the inode map and the usage table; roll-forward skips its content",
            ),
            row(
                "CLEANER",
                summary::FLAG_CLEANER.into(),
                "upkeep caused it: blocks that moved, or the tables of a checkpoint that gains room",
            ),
            row(
                "PAST",
                summary::FLAG_PAST.into(),
                "copies of what only retained points see; roll-forward skips its content",
            ),
            row(
                "HELD",
                summary::FLAG_HELD.into(),
                "counts only with the checkpoint that follows; roll-forward ends before it",
            ),
            row("inode `body`: inline", inode::BODY_INLINE.into(), "the data is in the record"),
            row(
                "inode `body`: reaping",
                inode::BODY_REAPING.into(),
                "data blocks from `reap_from` on are still to be freed",
            ),
            row(
                "inode `body`: attributes",
                inode::BODY_XATTR_FORK.into(),
                "the attributes are in their fork",
            ),
        ],
    )
}

fn internal_inodes() -> String {
    let row = |ino: InodeNo, what: &str| (ino.to_string(), what.to_owned());
    table(
        ["inode number", "what"],
        &[
            row(InodeNo(0), "never a file"),
            row(InodeNo::ROOT, "the root directory"),
            row(InodeNo::INODE_MAP, "inode map: named in summaries only, has no record"),
            row(InodeNo::SEGMENT_USAGE, "segment usage table: named in summaries only, has no record"),
            row(
                InodeNo::REMNANTS,
                "remnants, a file: where blocks are that moved after a retained point saw them",
            ),
            row(InodeNo::POINTS, "retained points, a file: those that a checkpoint slot has no room for"),
            row(InodeNo::FIRST_USER, "first number given to files; those between are reserved"),
        ],
    )
}

/// The places of the counters, found by encoding one at a time.
fn counters() -> String {
    let mut rows = Vec::new();
    for slot in 0..COUNTERS {
        let mut stored = [0; COUNTERS];
        stored[slot] = 1;
        let named = Counters::decode(&stored);
        rows.extend(
            named.list().iter().filter(|c| c.1 == 1).map(|c| (slot.to_string(), format!("`{}`", c.0))),
        );
    }
    rows.extend(LogKind::ALL.into_iter().enumerate().map(|(n, kind)| {
        (
            (LIVE_SLOT + n).to_string(),
            format!("live bytes now, of kind `{}`; all zero: not kept", kind.name()),
        )
    }));
    rows.sort_by_key(|(slot, _)| slot.parse::<usize>().unwrap());
    table(["slot", "counter"], &rows)
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::from("```text\n");
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let digits: Vec<String> = chunk.iter().map(|b| format!("{b:02x}")).collect();
        let text: String =
            chunk.iter().map(|&b| if b.is_ascii_graphic() { char::from(b) } else { '.' }).collect();
        writeln!(out, "{:>6}  {:<47}  {text}", row * 16, digits.join(" ")).unwrap();
    }
    out + "```\n"
}

fn pointer_example() -> String {
    let ptr = BlockPtr {
        addr: SectorAddr(0x0102_0304_0506),
        len_sectors: 8,
        kind: PtrKind::Plain,
        crc: 0xaabb_ccdd,
        birth: Epoch(7),
    };
    let text = "Plain, sector address 0x010203040506, 8 sectors, CRC 0xaabbccdd, birth 7:\n\n";
    format!("{text}{}", hex(&ptr.encode()))
}

fn directory_example() -> String {
    use firnfs::inode::Kind;
    let mut content = Vec::new();
    dirent::append_inline(&mut content, InodeNo(16), Kind::Directory, b"src");
    dirent::append_inline(&mut content, InodeNo(17), Kind::Regular, b"README.md");
    let text = "Inline content with `src` (inode 16, a directory) and `README.md` (inode 17, a file):\n\n";
    format!("{text}{}", hex(&content))
}

fn attribute_example() -> String {
    let mut set = Vec::new();
    xattr::put(&mut set, b"user.b", b"two").unwrap();
    xattr::put(&mut set, b"user.a", b"1").unwrap();
    format!("`user.a` = `1` and `user.b` = `two`:\n\n{}", hex(&set))
}

/// `text` with the content of a generated block replaced.
fn with_block(text: &str, name: &str, content: &str) -> Option<String> {
    let (open, close) = (format!("<!-- generated: {name} -->\n"), "<!-- end -->");
    let (before, rest) = text.split_once(&open)?;
    let (_, after) = rest.split_once(close)?;
    Some(format!("{before}{open}{content}{close}{after}"))
}

#[test]
fn format_md_shows_what_the_code_declares() {
    compare("FORMAT.md", &blocks());
}

#[test]
fn format_ffs_md_shows_what_the_code_declares() {
    compare("FORMAT-FFS.md", &ffs_blocks());
}

fn compare(file: &str, blocks: &[(String, String)]) {
    let path = repository().join(file);
    let written = std::fs::read_to_string(&path).unwrap();
    let markers = written.matches("<!-- generated: ").count();
    assert_eq!(markers, blocks.len(), "{file} has a generated block for each of {} things", blocks.len());
    let mut expected = written.clone();
    for (name, content) in blocks {
        expected = with_block(&expected, name, content)
            .unwrap_or_else(|| panic!("{file} has no block `<!-- generated: {name} -->` ... `<!-- end -->`"));
    }
    if std::env::var_os(REGENERATE).is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    for (line, (written, expected)) in written.lines().zip(expected.lines()).enumerate() {
        assert_eq!(
            written,
            expected,
            "{file} line {} differs from the code. If the change of the format is meant (see its section on \
             versions), run: {REGENERATE}=1 cargo test -p firnfs-manage --test all format_md::",
            line + 1
        );
    }
    assert_eq!(written.len(), expected.len(), "{file} is cut short; regenerate it with {REGENERATE}=1");
}

#[test]
fn every_layout_declaration_is_listed() {
    let declared = |folder: &str| -> usize {
        let entries = std::fs::read_dir(repository().join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        files
            .map(|path| std::fs::read_to_string(path).unwrap())
            .map(|source| source.lines().filter(|line| *line == "layout! {").count())
            .sum()
    };
    let here = declared("crates/format/src");
    assert_eq!(here, LAYOUTS.len(), "firnfs_format::layout::LAYOUTS lists each `layout!`");
    let ffs_here = declared("crates/format/src/ffs");
    assert_eq!(ffs_here, ffs::LAYOUTS.len(), "firnfs_format::ffs::LAYOUTS lists each `layout!`");
}

#[test]
fn fields_of_each_layout_cover_it_without_gaps() {
    for layout in LAYOUTS.iter().chain(ffs::LAYOUTS) {
        let mut end = 0;
        for field in layout.fields {
            assert_eq!(field.offset, end, "{}.{}", layout.name, field.name);
            assert!(!field.doc.trim().is_empty(), "{}.{} says what it means", layout.name, field.name);
            end += field.size;
        }
        assert_eq!(end, layout.size, "{}", layout.name);
    }
}
