//! `firn sim coalescing`: runs the lab's scenes on a simulated disk, before and after idle time.

use super::with_bar;
use crate::failure::{Done, Failure};
use crate::output::Output;
use clap::Args;
use firnfs_lab::LabError;
use firnfs_lab::coalescing::{self, Conditions, Row, SCENES, Scene};
use firnfs_lab::hardware::{self, find_disk};
use firnfs_lab::micro::table::markdown;
use serde::Serialize;

/// Arguments of `firn sim coalescing`.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Disks: {disks}, or a parameter file

Examples:
  firn sim coalescing                 the table of docs/internals/coalescing.md
  firn sim coalescing --disk hp97560  the same on another disk
  firn sim coalescing --disk ssd      on one without a head

Runs the file system itself, in memory, on a simulated disk (constant-hdd: 10 ms to seek, 100 MB/s) in virtual
time: the figures are the same on every machine. Takes half a minute.", disks = hardware::disk_names()))]
pub struct CoalescingArgs {
    /// The disk, by name or parameter file
    #[arg(long, value_name = "NAME|FILE", default_value = "constant-hdd")]
    disk: String,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View {
    disk: String,
    seed: u64,
    rows: Vec<Row>,
}

/// Runs the command.
///
/// # Errors
/// The file system failed, which must not happen.
pub(super) fn run(args: &CoalescingArgs, output: &mut Output) -> Done {
    let failed = |error: LabError| Failure::failed(error.to_string());
    let disk = find_disk(&args.disk).map_err(|error| Failure::usage(error.to_string()))?.params;
    let rows = with_bar(SCENES.len(), |done| {
        let run =
            |(n, scene)| coalescing::run(scene, Conditions::of(&disk), args.seed).inspect(|_| done(n as f64));
        (1..).zip(SCENES).map(run).collect::<Result<Vec<Row>, _>>()
    });
    let view = View { disk: args.disk.clone(), seed: args.seed, rows: rows.map_err(failed)? };
    output.show(args.json, &view, |out| out.write_all(text(&view).as_bytes()))
}

fn text(view: &View) -> String {
    let header = [
        "read in order",
        "written in order",
        "scattered",
        "after idle time",
        "ratio to first",
        "seeks",
        "moved",
        "disk busy for it",
        "read",
        "written",
    ];
    let rows: Vec<Vec<String>> = view.rows.iter().map(cells).collect();
    markdown(&header, &rows)
}

fn cells(row: &Row) -> Vec<String> {
    let ms = |ms: f64| format!("{ms:.0} ms");
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    vec![
        name(row.scene),
        ms(row.first.ms),
        ms(row.scattered.ms),
        ms(row.coalesced.ms),
        format!("{:.2}", row.coalesced.ms / row.first.ms),
        format!("{} / {} / {}", row.first.seeks, row.scattered.seeks, row.coalesced.seeks),
        mib(row.moved_bytes),
        ms(row.idle_busy_ms),
        mib(row.idle_read_bytes),
        mib(row.idle_write_bytes),
    ]
}

fn name(scene: Scene) -> String {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    match scene {
        Scene::File { bytes, piece_bytes, share_percent } => {
            format!("{} MiB, {share_percent}% overwritten by {} KiB", bytes >> 20, kib(piece_bytes))
        }
        Scene::Directory { files, bytes } => format!("{files} files of {bytes} bytes, rewritten"),
        Scene::Logs { files, bytes, piece_bytes } => {
            format!("{files} logs of {} MiB, grown by {} KiB in turn", bytes >> 20, kib(piece_bytes))
        }
    }
}
