//! `firn paper`: the figures and tables of the papers, printed, drawn, and shown in pages of HTML.

use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::Count;
use clap::Args;
use firnfs_lab::hardware::papers::{self, Figure, Plan, Size};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `firn paper`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn paper --list                            the figures and tables
  firn paper 004/fig12 --out figures           one of them
  firn paper 001 000/fig7 --out figures        all of a paper, and another one
  firn paper --all --out figures               everything, in minutes: open figures/index.html

Runs the log and the Fast File System on models of the papers' machines and disks, in memory and in virtual time:
the values are the same on every machine, and two runs write the same bytes. Prints the paper's value, ours and the
deviation. Writes each figure as SVG with its numbers as CSV, a page for each paper, and claims.html with what was
reproduced, or not and why. Fails if a claim holds although it is recorded as not holding, or the reverse. The papers:
001 Sprite LFS, 004 BSD-LFS, 000 USENIX'95 (logging versus clustering), 002 USENIX'95 (heuristic cleaning; its traces
are synthetic here), 003 SIGMETRICS'97 (file system aging; its history is synthetic here). See docs/internals/papers.md.")]
pub struct PaperArgs {
    /// Figures or tables, such as 001/fig8; or papers, such as 001
    #[arg(value_name = "FIGURE|TABLE|PAPER", required_unless_present_any = ["list", "all"], conflicts_with = "all")]
    figures: Vec<String>,
    /// List the figures and tables
    #[arg(long, conflicts_with_all = ["figures", "all", "out", "short"])]
    list: bool,
    /// Make all of them
    #[arg(long)]
    all: bool,
    /// Directory for the pages, SVG and CSV files; made if it does not exist
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Fewer and smaller files; without the claims that depend on sizes
    #[arg(long)]
    short: bool,
    /// Benchmarks at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// A figure that can be made.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
}

#[derive(Serialize)]
struct List {
    figures: Vec<Listed>,
}

#[derive(Serialize)]
struct View<'a> {
    figures: Vec<FigureView<'a>>,
}

#[derive(Serialize)]
struct FigureView<'a> {
    name: &'static str,
    title: &'static str,
    condition: &'a str,
    inputs: &'static str,
    claims: Vec<ClaimView<'a>>,
    drawings: Vec<&'a str>,
}

#[derive(Serialize)]
struct ClaimView<'a> {
    #[serde(flatten)]
    claim: &'a firnfs_lab::hardware::claims::Claim,
    holds: bool,
}

/// Runs the command.
///
/// # Errors
/// There is no such figure, a file cannot be written, or the outcome of a claim differs from the recorded one.
pub fn run(args: &PaperArgs, output: &mut Output) -> Done {
    let Some(out) = args.out.as_ref().filter(|_| !args.list) else { return list(args.json, output) };
    let size = if args.short { Size::SHORT } else { Size::PAPER };
    let failed = |error: firnfs_lab::LabError| Failure::failed(error.to_string());
    let plan = if args.all { Ok(Plan::all(size)) } else { Plan::of(&args.figures, size) };
    let plan = plan.map_err(|error| {
        Failure::usage(error.to_string()).advise("`firn paper --list` lists the figures and tables")
    })?;
    // First, so that a directory that cannot be made does not waste minutes of work.
    std::fs::create_dir_all(out).map_err(|error| Failure::io("cannot create", out, &error))?;
    let bar = Bar::of_share();
    let runs = plan.run_count();
    let threads = args
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |n| n as usize);
    let figures = plan.make(threads, &mut |done| {
        bar.show((done * 1000.0) as u64, runs as u64 * 1000, Count(runs as u64).of("run", "runs"));
    });
    drop(bar);
    let figures = figures.map_err(failed)?;
    papers::write(out, &figures, &command(args)).map_err(failed)?;
    output.show(args.json, &view(&figures), |to| to.write_all(text(&figures).as_bytes()))?;
    let others =
        figures.iter().flat_map(|figure| &figure.claims).filter(|claim| !claim.is_as_recorded()).count();
    if others == 0 {
        return Ok(());
    }
    Err(Failure::failed(format!("{others} claims differ from what is recorded"))
        .advise("see the claims with NO or YES in capitals above"))
}

fn list(json: bool, output: &mut Output) -> Done {
    let all: Vec<Listed> = papers::list().into_iter().map(|(name, title)| Listed { name, title }).collect();
    let list = List { figures: all };
    output.show(json, &list, |out| {
        list.figures.iter().try_for_each(|Listed { name, title }| writeln!(out, "{name:<15} {title}"))
    })
}

/// The command line that makes the same again, wherever it writes.
fn command(args: &PaperArgs) -> String {
    let mut words = vec!["firn paper".to_owned()];
    words.extend(args.figures.iter().cloned());
    words.extend(args.all.then(|| "--all".to_owned()));
    words.extend(args.short.then(|| "--short".to_owned()));
    words.push("--out DIR".to_owned());
    words.join(" ")
}

fn view(figures: &[Figure]) -> View<'_> {
    View { figures: figures.iter().map(figure_view).collect() }
}

fn figure_view(figure: &Figure) -> FigureView<'_> {
    let claims = figure.claims.iter().map(|claim| ClaimView { claim, holds: claim.holds() });
    FigureView {
        name: figure.id,
        title: figure.title,
        condition: &figure.condition,
        inputs: figure.inputs,
        claims: claims.collect(),
        drawings: figure.drawings.iter().map(|drawing| drawing.file()).collect(),
    }
}

fn text(figures: &[Figure]) -> String {
    let parts: Vec<String> = figures.iter().map(Figure::text).collect();
    let claims = || figures.iter().flat_map(|figure| &figure.claims);
    let held = claims().filter(|claim| claim.holds()).count();
    format!("{}\n{held} of {} claims hold.\n", parts.join("\n"), claims().count())
}
