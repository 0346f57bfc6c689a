//! `firn sim disk`: shows the properties of a simulated disk, and the time of requests on it.

use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::output::Output;
use clap::Args;
use firnfs_lab::LabError;
use firnfs_lab::hardware::disk_view::{self, Asked, Cost, DiskView};
use firnfs_lab::hardware::{self, find_disk};
use firnfs_lab::micro::table::markdown;
use std::path::PathBuf;

/// Width that the text keeps to.
const COLUMNS: usize = 80;

/// Arguments of `firn sim disk`.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Disks: {disks}, or a parameter file

Examples:
  firn sim disk hp97560                         curve, bandwidths, parameters
  firn sim disk hp97560 --sources               also where each parameter comes from
  firn sim disk m2694 --request r:0:64K,r:64K:64K,w:500M:4K,f
  firn sim disk wren4 --svg curve.svg           the seek curve as a plot
  firn sim disk my-disk.toml --json

The format of parameter files: docs/internals/simulated-hardware.md.", disks = hardware::disk_names()))]
pub struct DiskArgs {
    /// The disk, by name or parameter file
    #[arg(value_name = "NAME|FILE", add = values::listed(hardware::disk_names))]
    disk: String,
    /// Show the time of requests, each sent right after the one before: r:OFFSET:LENGTH, w:OFFSET:LENGTH or f; several with commas
    #[arg(long, value_name = "REQUEST", value_delimiter = ',')]
    request: Vec<Asked>,
    /// Print where each parameter comes from
    #[arg(long)]
    sources: bool,
    /// Write the seek curve as SVG, and its numbers beside it as CSV
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The disk cannot be read, a request is not on it, or a file cannot be written.
pub(super) fn run(args: &DiskArgs, output: &mut Output) -> Done {
    let failed = |error: LabError| Failure::failed(error.to_string());
    let refused = |error: LabError| Failure::usage(error.to_string());
    let disk = find_disk(&args.disk).map_err(refused)?;
    let view = disk_view::look(&disk, &args.request).map_err(refused)?;
    if let Some(path) = &args.svg {
        let (svg, csv) = disk_view::curve(&disk).map_err(failed)?;
        for (path, text) in [(path.clone(), svg), (path.with_extension("csv"), csv)] {
            std::fs::write(&path, text).map_err(|e| Failure::io("cannot write", &path, &e))?;
        }
    }
    output.show(args.json, &view, |out| out.write_all(text(&view, args.sources).as_bytes()))
}

fn text(view: &DiskView, with_sources: bool) -> String {
    let size = view.size_bytes.map_or("any size".to_owned(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6));
    let mut text = format!("{} ({}), {}, {size}\n", view.title, view.name, view.kind);
    if let Some(seeks) = &view.seeks {
        let (distances, times): (Vec<_>, Vec<_>) =
            seeks.curve.iter().map(|(d, ms)| (d.to_string(), format!("{ms:.1}"))).unzip();
        text +=
            &format!("\nSeeks, {:.2} ms on average over {} cylinders\n\n", seeks.mean_ms, seeks.cylinders);
        text += &columns("cylinders", &distances, "ms", &times);
    }
    text += "\nBandwidths, each request right after the one before\n\n";
    let header = ["", "pattern", "where", "request", "MB/s", "ms each"];
    let rows = view.bandwidths.iter().map(|b| {
        let kib = format!("{} KiB", b.request_bytes >> 10);
        let cells = [b.work, b.pattern, b.place].map(str::to_owned).into_iter();
        cells.chain([kib, format!("{:.2}", b.mb_per_s), format!("{:.3}", b.request_ms)]).collect()
    });
    text += &markdown(&header, &rows.collect::<Vec<_>>());
    text += &costs_text(&view.costs);
    text += "\nParameters\n\n";
    for parameter in &view.parameters {
        text += &wrapped(&format!("{} = {}", parameter.key, parameter.value), "  ");
        if with_sources {
            text += &wrapped(&parameter.source, "      ");
        }
    }
    text
}

/// Two rows, one above the other, whose columns have the same width.
fn columns(first: &str, tops: &[String], second: &str, bottoms: &[String]) -> String {
    let row = |name: &str, cells: &[String], others: &[String]| {
        let cells = cells.iter().zip(others);
        let padded =
            cells.map(|(cell, other)| format!("{cell:>width$}", width = cell.len().max(other.len())));
        format!("{name:<9} {}\n", padded.collect::<Vec<_>>().join(" "))
    };
    row(first, tops, bottoms) + &row(second, bottoms, tops)
}

fn costs_text(costs: &[Cost]) -> String {
    if costs.is_empty() {
        return String::new();
    }
    let header = ["ms", "at KiB", "KiB", "contr", "wait", "seek", "turn", "media", "bus", "all"];
    let row = |cost: &Cost| {
        let Cost { controller_ms, wait_ms, seek_ms, rotation_ms, media_ms, bus_ms, total_ms, .. } = *cost;
        let parts = [controller_ms, wait_ms, seek_ms, rotation_ms, media_ms, bus_ms, total_ms];
        let kib = |bytes: u64| format!("{}", bytes as f64 / 1024.0);
        let hit = if cost.is_hit { "*" } else { "" };
        let mut cells = vec![format!("{}{hit}", cost.work), kib(cost.at_bytes), kib(cost.len_bytes)];
        cells.extend(parts.map(|ms| format!("{ms:.2}")));
        cells
    };
    let rows: Vec<Vec<String>> = costs.iter().map(row).collect();
    let total_ms: f64 = costs.iter().map(|cost| cost.total_ms).sum();
    format!("\nRequests, {total_ms:.2} ms in all (* by the buffer)\n\n{}", markdown(&header, &rows))
}

/// Words in lines that are indented and no longer than the terminal; a longer word has a line of its own.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = indent.to_owned();
    for word in text.split(' ') {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines += &format!("{line}\n");
            line = format!("{indent}  ");
        }
        if !line.ends_with(' ') {
            line.push(' ');
        }
        line += word;
    }
    format!("{lines}{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_every_disk_fits_eighty_columns() {
        let asked: Vec<Asked> = ["r:0:64K", "w:100M:64K", "f"].map(|text| text.parse().unwrap()).to_vec();
        for name in hardware::disk_names().split(", ") {
            let view = disk_view::look(&find_disk(name).unwrap(), &asked).unwrap();
            let text = text(&view, true);
            let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(longest.chars().count() <= COLUMNS, "{name}: {longest}");
            assert!(text.contains("Requests") && text.contains("Bandwidths"));
        }
    }
}
