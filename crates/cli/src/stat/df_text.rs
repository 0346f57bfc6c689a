//! `firn df` as text for people.

use super::cleaning::{RoomView, WithheldView};
use super::text::{beneath, cut_to, percent, term};
use super::view::StatView;
use super::{Source, Volume};
use crate::output::{write_fitting, write_sum, write_words};
use crate::sizes::{Bytes, Count, Unit};
use std::io::{self, Write};

/// What the kernel passes on of a call of write(2) at once.
const WRITE_MAX_BYTES: u64 = 1 << 20;

/// Two lines for each volume, which add up to it: one as df(1) prints it, and what is withheld beside it. In full: where all bytes
/// are. `columns` are those of the terminal, if there is one.
///
/// # Errors
/// As writing reports.
pub fn df(out: &mut dyn Write, volumes: &[Volume], in_full: bool, columns: Option<usize>) -> io::Result<()> {
    writeln!(out, "{:>10} {:>10} {:>10} {:>5} {:>12}  volume", "size", "used", "free", "use%", "inodes")?;
    volumes.iter().try_for_each(|volume| df_lines(out, volume, in_full, columns))
}

fn df_lines(out: &mut dyn Write, volume: &Volume, in_full: bool, columns: Option<usize>) -> io::Result<()> {
    let StatView { space, log, .. } = &volume.stat;
    let used_bytes = space.total_bytes.saturating_sub(space.free_bytes);
    let row = format!(
        "{:>10} {:>10} {:>10} {:>4}% {:>12}  ",
        Bytes(space.total_bytes),
        Bytes(used_bytes),
        Bytes(space.free_bytes),
        percent(used_bytes, space.total_bytes),
        Count(space.used_inodes)
    );
    let left = columns.map_or(usize::MAX, |columns| columns.saturating_sub(row.len()));
    let (place, is_whole) = place_within(&volume.source, left);
    writeln!(out, "{row}{place}")?;
    if in_full && !is_whole {
        writeln!(out, "{:>10}   {}", "", place_within(&volume.source, usize::MAX).0)?;
    }
    if let Some(room) = log.as_ref().and_then(|log| log.room.as_ref()) {
        if in_full {
            room_line(out, room)?;
        }
        withheld_line(out, room, in_full)?;
        if in_full {
            history_line(out, room)?;
        }
        // In the last hundredth, or if less is free than a program may write at once, the next write may get ENOSPC.
        if space.free_bytes < (space.total_bytes / 100).max(WRITE_MAX_BYTES) {
            full_line(out, &volume.source, room)?;
        }
    }
    beneath(out, volume)
}

/// Where a volume is, in that many columns, and whether that is all: the image and the mountpoint; if both are too long, the
/// mountpoint alone; if that is, too, its end.
fn place_within(source: &Source, columns: usize) -> (String, bool) {
    let image = source.image.display();
    let whole = match &source.mountpoint {
        Some(mountpoint) => format!("{image} on {}", mountpoint.display()),
        None => image.to_string(),
    };
    if whole.chars().count() <= columns {
        return (whole, true);
    }
    let place = source.mountpoint.as_ref().unwrap_or(&source.image).display().to_string();
    let place = cut_to(&place, columns);
    (place, false)
}

/// What to do about a volume that is full.
fn full_line(out: &mut dyn Write, source: &Source, room: &RoomView) -> io::Result<()> {
    let place = source.mountpoint.as_ref().unwrap_or(&source.image).display();
    let snapshots = match room.named_states {
        0 => String::new(),
        _ => format!(" or snapshots ('firn log {place}' says what each would free)"),
    };
    let advice = format!(
        "delete files{snapshots}, or 'firn resize {place} +SIZE' makes it larger; cleaning gains no more for files"
    );
    write_words(out, &format!("{:>10} ", "full:"), &advice)
}

/// What the past holds, and whether users can have it.
fn history_line(out: &mut dyn Write, room: &RoomView) -> io::Result<()> {
    if room.history_bytes == 0 {
        return Ok(());
    }
    let states = Count(room.retained_states).of("state", "states");
    let whose = match room.named_states {
        0 => "counted as free: it gives way to files".to_owned(),
        named if named == room.retained_states => {
            "kept until they are deleted (firn snapshot --delete)".to_owned()
        }
        named => format!("{} of them kept until deleted (firn snapshot --delete)", Count(named)),
    };
    let text = format!("{} held by {states}, {whose}", Bytes(room.history_bytes));
    write_words(out, &format!("{:>10} ", "history:"), &text)
}

/// Why the size is smaller than the volume; together they are the volume. Not in full: in one line, with the unit of the sum if
/// each term with its own is too long.
fn withheld_line(out: &mut dyn Write, room: &RoomView, in_full: bool) -> io::Result<()> {
    let Some(WithheldView { reserve_bytes, cleaning_bytes, summary_bytes, metadata_bytes }) = room.withheld
    else {
        return Ok(());
    };
    let terms = [
        (cleaning_bytes, "cleaning"),
        (summary_bytes + metadata_bytes, "metadata"),
        (reserve_bytes, "reserve"),
        (room.fixed_bytes, "fixed"),
    ];
    let all_bytes = terms.iter().map(|(bytes, _)| bytes).sum();
    if in_full {
        return write_sum(out, &format!("{:>10} withheld =", Bytes(all_bytes)), &terms.map(term));
    }
    let unit = Unit::of_column([all_bytes].into_iter());
    let in_brief = terms.map(|(bytes, word)| format!("{} {word}", unit.show_brief(bytes)));
    let name = format!("{:>11} withheld =", format!("+ {}", Bytes(all_bytes)));
    write_fitting(out, &name, &[terms.map(term).join(" + "), in_brief.join(" + ")])
}

fn room_line(out: &mut dyn Write, room: &RoomView) -> io::Result<()> {
    let terms = [
        (room.live_bytes, "live"),
        (room.history_bytes, "history"),
        (room.reclaimable_bytes, "reclaimable"),
        (room.pinned_bytes, "pinned"),
        (room.clean_bytes, "clean"),
        (room.reserve_bytes, "reserve"),
        (room.fixed_bytes, "fixed"),
    ];
    // Volumes without a past say nothing of it.
    let terms = terms.into_iter().filter(|(bytes, word)| *bytes > 0 || *word != "history");
    write_sum(out, &format!("{:>10} =", Bytes(room.size_bytes)), &terms.map(term).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::WIDTH;

    #[test]
    fn the_sums_of_df_fit_80_columns_and_break_below_their_first_term() {
        let bytes = (1023 << 40) + (900 << 30);
        let withheld = WithheldView {
            reserve_bytes: bytes,
            cleaning_bytes: bytes,
            summary_bytes: bytes,
            metadata_bytes: bytes,
        };
        let room = RoomView {
            history_bytes: 0,
            retained_states: 0,
            named_states: 0,
            size_bytes: bytes,
            live_bytes: bytes,
            reclaimable_bytes: bytes,
            pinned_bytes: bytes,
            clean_bytes: bytes,
            reserve_bytes: bytes,
            fixed_bytes: bytes,
            withheld: Some(withheld),
        };
        let in_full = |out: &mut dyn Write, room: &RoomView| withheld_line(out, room, true);
        for show in [&room_line as &dyn Fn(&mut dyn Write, &RoomView) -> io::Result<()>, &in_full] {
            let mut out = Vec::new();
            show(&mut out, &room).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() <= WIDTH), "{text}");
            let first = text.find("= ").unwrap() + 2;
            for line in text.lines().skip(1) {
                assert_eq!(line.len() - line.trim_start().len(), first, "{text}");
            }
            assert!(text.ends_with("1023.9 TiB fixed\n"), "{text}");
        }
    }

    #[test]
    fn df_names_the_same_four_parts_of_what_is_withheld_with_and_without_v() {
        let shown = |scale: u64, in_full: bool| {
            let withheld = WithheldView {
                reserve_bytes: 20 * scale,
                cleaning_bytes: 52 * scale,
                summary_bytes: 445 * scale / 10,
                metadata_bytes: 106 * scale / 10,
            };
            let room = RoomView { fixed_bytes: 3 * scale, withheld: Some(withheld), ..RoomView::default() };
            let mut out = Vec::new();
            withheld_line(&mut out, &room, in_full).unwrap();
            String::from_utf8(out).unwrap()
        };
        let [brief, full] = [false, true].map(|in_full| shown(1 << 20, in_full));
        assert_eq!(brief, "+ 130.1 MiB withheld = 52 cleaning + 55.1 metadata + 20 reserve + 3 fixed\n");
        let full = full.split_whitespace().collect::<Vec<_>>().join(" ");
        let terms = "52 MiB cleaning + 55.1 MiB metadata + 20 MiB reserve + 3 MiB fixed";
        assert_eq!(full, format!("130.1 MiB withheld = {terms}"));
        let short = shown(1, false);
        let terms = "52 B cleaning + 54 B metadata + 20 B reserve + 3 B fixed";
        assert!(short.ends_with(&format!("+ 129 B withheld = {terms}\n")), "{short}");
        for scale in [1 << 23, (1 << 23) - 1, 7 << 30, 123 << 40] {
            let text = shown(scale, false);
            assert!(text.lines().count() == 1 && text.trim_end().len() <= WIDTH, "{text}");
        }
    }

    #[test]
    fn a_place_fits_the_columns_that_a_row_leaves_and_keeps_its_end() {
        let source = |image: &str, mountpoint: Option<&str>| Source {
            image: image.into(),
            mountpoint: mountpoint.map(Into::into),
        };
        let mounted = source("/var/lib/disk.img", Some("/mnt/größe"));
        let within = |source: &Source, columns| place_within(source, columns);
        assert_eq!(within(&mounted, 31), ("/var/lib/disk.img on /mnt/größe".to_owned(), true));
        assert_eq!(within(&mounted, 30), ("/mnt/größe".to_owned(), false));
        assert_eq!(within(&mounted, 10), ("/mnt/größe".to_owned(), false));
        assert_eq!(within(&mounted, 9), ("…nt/größe".to_owned(), false));
        assert_eq!(within(&mounted, 0), ("…".to_owned(), false));
        assert_eq!(within(&source("/var/lib/disk.img", None), 9), ("…disk.img".to_owned(), false));
    }
}
