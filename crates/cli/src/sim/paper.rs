//! `firn sim paper`: benchmarks of the papers, by the file system itself on simulated machines of their time.

use super::with_bar;
use crate::failure::{Done, Failure};
use crate::names::shell_word;
use crate::output::Output;
use crate::sizes::parse_size;
use clap::{Args, ValueEnum};
use firnfs_lab::LabError;
use firnfs_lab::hardware::bandwidth;
use firnfs_lab::hardware::claims::Claim;
use firnfs_lab::hardware::{self, Profile, Setup, StoreKind, large_file, small_files};
use firnfs_lab::micro::table::markdown;
use firnfs_lab::plot;
use serde::Serialize;
use std::path::PathBuf;

/// The benchmarks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Figure {
    /// BSD-LFS, figures 9, 10 and 12: a file written and read, by its size
    Bandwidth,
    /// Sprite LFS, figure 8: 10,000 small files
    SmallFiles,
    /// USENIX'95, figure 1: the same by BSD-LFS
    SmallFilesBsd,
    /// Sprite LFS, figure 9: a file of 100 MB in order and at random
    LargeFile,
}

/// The writer of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogWriter {
    Thread,
    Program,
}

impl LogWriter {
    fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Program => "program",
        }
    }
}

/// Arguments of `firn sim paper`.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Disks:    {disks}, or a parameter file
Machines: {machines}, or a parameter file

Examples:
  firn sim paper bandwidth                    BSD-LFS's figures on its machine and disk
  firn sim paper small-files --profile modern,1993
  firn sim paper small-files --store lfs,m1r2,m8r0
  firn sim paper large-file --disk ssd --machine pentium-pro --json

Runs the file system itself, in memory and in virtual time: the figures are the same on every machine. Prints
the paper's values beside its own. A claim in capitals differs from the recorded outcome, and the command then
fails, unless another disk, machine or size was chosen. See docs/internals/simulated-hardware.md.",
    disks = hardware::disk_names(), machines = hardware::machine_names()))]
pub struct PaperArgs {
    /// Which benchmark
    #[arg(value_enum)]
    figure: Figure,
    /// The disk, by name or parameter file [default: the paper's]
    #[arg(long, value_name = "NAME|FILE")]
    disk: Option<String>,
    /// The machine, by name or parameter file [default: the paper's]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Writer of the log: a thread of its own, or the program that reaches the threshold [default: as in the paper]
    #[arg(long, value_enum, value_name = "WHO")]
    log_writer: Option<LogWriter>,
    /// How the file system is set up: 1993 (as in the paper) or modern (the defaults of firnfs); several with commas
    #[arg(long, value_delimiter = ',', default_value = "1993,modern")]
    profile: Vec<Profile>,
    /// Which file system: lfs, or a variant of the Fast File System (m1r2, efs, m8r2, m8r0); several with commas
    #[arg(long, value_delimiter = ',', default_value = "lfs", value_parser = str::parse::<StoreKind>)]
    store: Vec<StoreKind>,
    /// Repetitions of each size (bandwidth)
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Number of files (small-files)
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    files: u64,
    /// Size of the file (large-file) [default: 100 MB]
    #[arg(long, value_parser = size)]
    size: Option<u64>,
    /// Seed of the random numbers (large-file)
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the curves as SVG files into a directory (bandwidth): figure-9.svg and figure-12.svg, of the first profile
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|e| e.to_string())?;
    let fits = (1 << 20..=1 << 30).contains(&bytes);
    if fits { Ok(bytes) } else { Err("from 1M to 1G".to_owned()) }
}

/// The results of a benchmark under one profile.
#[derive(Serialize)]
struct Part {
    store: &'static str,
    profile: Profile,
    has_log_thread: bool,
    #[serde(flatten)]
    result: Outcome,
    claims: Vec<Judged>,
    differences: &'static [&'static str],
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Bandwidth(Vec<bandwidth::Point>),
    SmallFiles(small_files::Figure),
    LargeFile(large_file::Figure),
}

#[derive(Serialize)]
struct Judged {
    #[serde(flatten)]
    claim: Claim,
    holds: bool,
}

#[derive(Serialize)]
struct View {
    machine: String,
    disk: String,
    cache_bytes: u64,
    write_threshold_bytes: u64,
    parts: Vec<Part>,
    /// The paper's machine, disk and sizes: the claims are expected to hold.
    as_published: bool,
}

impl PaperArgs {
    fn setup(&self, profile: Profile) -> Result<Setup, LabError> {
        let mut setup = match self.figure {
            Figure::Bandwidth => Setup::bsd_lfs(profile)?,
            Figure::SmallFiles | Figure::LargeFile => Setup::sprite_lfs(profile)?,
            Figure::SmallFilesBsd => Setup::usenix_95(profile)?,
        };
        if let Some(machine) = &self.machine {
            setup.cpu = hardware::find_machine(machine)?;
        }
        if let Some(disk) = &self.disk {
            setup.disk = hardware::find_disk(disk)?;
        }
        if let Some(writer) = self.log_writer {
            setup.has_log_thread = writer == LogWriter::Thread;
        }
        Ok(setup)
    }

    /// The log in each profile, and each variant of the Fast File System, which the profiles do not concern, once.
    fn setups(&self) -> Result<Vec<Setup>, LabError> {
        let mut setups = Vec::new();
        for &store in &self.store {
            let profiles = if store == StoreKind::Log { &self.profile[..] } else { &[Profile::Of1993] };
            for &profile in profiles {
                setups.push(Setup { store, ..self.setup(profile)? });
            }
        }
        Ok(setups)
    }

    fn is_as_published(&self) -> bool {
        let sizes = self.size.is_none() && self.files == 10_000 && self.runs == 50;
        let hardware = self.disk.is_none() && self.machine.is_none();
        hardware && sizes && self.seed == 1 && self.log_writer.is_none()
    }

    /// How many steps its progress has.
    fn steps(&self) -> usize {
        match self.figure {
            Figure::Bandwidth => bandwidth::SIZES.len(),
            Figure::SmallFiles | Figure::SmallFilesBsd => 3,
            Figure::LargeFile => 5,
        }
    }

    fn part(&self, setup: &Setup, progress: &mut dyn FnMut(f64)) -> Result<Part, LabError> {
        let (result, claims) = match self.figure {
            Figure::Bandwidth => {
                let points = bandwidth::run(setup, self.runs, progress)?;
                let claims = bandwidth::claims(setup, &points);
                (Outcome::Bandwidth(points), claims)
            }
            Figure::SmallFiles => {
                let figure = small_files::run(setup, self.files, progress)?;
                let claims = small_files::claims(&figure);
                (Outcome::SmallFiles(figure), claims)
            }
            Figure::SmallFilesBsd => {
                let figure = small_files::run(setup, self.files, progress)?;
                let claims = small_files::bsd_claims(&figure);
                (Outcome::SmallFiles(figure), claims)
            }
            Figure::LargeFile => {
                let bytes = self.size.unwrap_or(100_000_000);
                let figure = large_file::run(setup, bytes, self.seed, progress)?;
                (Outcome::LargeFile(figure), large_file::claims(&figure))
            }
        };
        let Setup { store, profile, has_log_thread, .. } = *setup;
        let is_log = store == StoreKind::Log;
        // The claims speak of the log.
        let claims = claims.into_iter().filter(|_| is_log);
        let claims = claims.map(|claim| Judged { holds: claim.holds(), claim }).collect();
        let differences = store.differences().unwrap_or_else(|| profile.differences());
        Ok(Part {
            store: store.name(),
            profile,
            has_log_thread: has_log_thread || !is_log,
            result,
            claims,
            differences,
        })
    }
}

/// Runs the command.
///
/// # Errors
/// A disk, machine or profile cannot be used; a claim is not as recorded.
pub(super) fn run(args: &PaperArgs, output: &mut Output) -> Done {
    let failed = |error: LabError| Failure::failed(error.to_string());
    if args.out.is_some() && args.figure != Figure::Bandwidth {
        return Err(Failure::usage("--out works only with `firn sim paper bandwidth`"));
    }
    let setups = args.setups().map_err(|error| Failure::usage(error.to_string()))?;
    let steps = args.steps();
    let parts = with_bar(setups.len() * steps, |done| {
        let numbered = setups.iter().enumerate();
        let part =
            |(n, setup): (usize, &Setup)| args.part(setup, &mut |step| done((n * steps) as f64 + step));
        numbered.map(part).collect::<Result<Vec<Part>, _>>()
    });
    let parts = parts.map_err(failed)?;
    if let (Some(directory), Some((setup, part))) = (&args.out, setups.iter().zip(&parts).next())
        && let Outcome::Bandwidth(points) = &part.result
    {
        let origin = plot::Origin::of(command(args));
        plot::write_all(directory, &bandwidth::plots(setup, points), &origin).map_err(failed)?;
    }
    let view = view(args, &setups, parts);
    output.show(args.json, &view, |out| out.write_all(text(&view).as_bytes()))?;
    let all = view.parts.iter().filter(|part| part.profile == Profile::Of1993).flat_map(|part| &part.claims);
    let others = all.filter(|judged| !judged.claim.is_as_recorded()).count();
    if view.as_published && others > 0 {
        return Err(Failure::failed(format!("{others} claims differ from what is recorded")));
    }
    Ok(())
}

/// The command line that draws the same again, wherever it writes.
fn command(args: &PaperArgs) -> String {
    let word = |name: &str, value: &str| format!("--{name} {}", shell_word(value));
    let mut words = vec!["firn sim paper bandwidth".to_owned()];
    words.extend(args.disk.as_deref().map(|disk| word("disk", disk)));
    words.extend(args.machine.as_deref().map(|machine| word("machine", machine)));
    words.extend(args.log_writer.map(|writer| word("log-writer", writer.name())));
    let profiles: Vec<&str> = args.profile.iter().map(|profile| profile.name()).collect();
    let stores: Vec<&str> = args.store.iter().map(|store| store.name()).collect();
    words.push(word("profile", &profiles.join(",")));
    words.push(word("store", &stores.join(",")));
    words.push(format!("--runs {} --out DIR", args.runs));
    words.join(" ")
}

fn view(args: &PaperArgs, setups: &[Setup], parts: Vec<Part>) -> View {
    let first = setups.first();
    View {
        machine: first.map_or(String::new(), |setup| setup.cpu.title.clone()),
        disk: first.map_or(String::new(), |setup| setup.disk.params.title.clone()),
        cache_bytes: first.map_or(0, |setup| setup.cache_bytes),
        write_threshold_bytes: first.map_or(0, |setup| setup.write_threshold_bytes),
        parts,
        as_published: args.is_as_published(),
    }
}

fn text(view: &View) -> String {
    let kib = |bytes: u64| bytes >> 10;
    let mut text = format!(
        "{} with {}, {} KiB of cache; profile 1993 writes at {} KiB.\n",
        view.machine,
        view.disk,
        kib(view.cache_bytes),
        kib(view.write_threshold_bytes)
    );
    for part in &view.parts {
        let writer = if part.has_log_thread { "a thread of its own" } else { "the program itself" };
        text += &match part.store {
            "lfs" => format!("\nProfile {}; {writer} writes the log\n\n", part.profile.name()),
            variant => format!("\nThe Fast File System, variant {variant}\n\n"),
        };
        text += &match &part.result {
            Outcome::Bandwidth(points) => bandwidth_text(points),
            Outcome::SmallFiles(figure) => small_files_text(figure),
            Outcome::LargeFile(figure) => large_file_text(figure),
        };
        // Only the results of the papers' profile must be as recorded.
        text += &claims_text(part, view.as_published && part.profile == Profile::Of1993);
    }
    text
}

fn bandwidth_text(points: &[bandwidth::Point]) -> String {
    let header = ["KB", "write", "clustered", "raw", "write ms", "fsync ms", "read", "raw"];
    let row = |point: &bandwidth::Point| {
        let mb = |mb_per_s: f64| format!("{mb_per_s:.2}");
        vec![
            format!("{}", point.bytes >> 10),
            mb(point.lfs_write_mb_per_s),
            mb(point.clustered_write_mb_per_s),
            mb(point.raw_write_mb_per_s),
            format!("{:.0}", point.lfs_write_ms),
            format!("{:.0}", point.lfs_fsync_ms),
            mb(point.lfs_read_mb_per_s),
            mb(point.raw_read_mb_per_s),
        ]
    };
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    format!(
        "MB/s unless noted. Clustered: through the cache, posted 64 KB at a time, no\nmetadata (for EFS).\n\n{}",
        markdown(&header, &rows)
    )
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn small_files_text(figure: &small_files::Figure) -> String {
    let header = ["phase", "files/s", "CPU", "disk", "read each", "written each"];
    let row = |name: &str, rate: &small_files::Rate| {
        vec![
            name.to_owned(),
            format!("{:.0}", rate.files_per_s),
            percent(rate.cpu_share),
            percent(rate.disk_share),
            format!("{:.0} B", rate.read_bytes_per_file),
            format!("{:.0} B", rate.written_bytes_per_file),
        ]
    };
    let rates = &figure.rates;
    let rows = [row("create", &rates.create), row("read", &rates.read), row("delete", &rates.delete)];
    let mut text = markdown(&header, &rows);
    text += "\nFiles created a second on faster processors:";
    for (times, rate) in &figure.faster {
        text += &format!("  x{times} {rate:.0}");
    }
    text + "\n"
}

fn large_file_text(figure: &large_file::Figure) -> String {
    let header = ["phase", "KB/s", "CPU", "disk", "bytes moved for each"];
    let row = |name: &str, speed: &large_file::Speed| {
        vec![
            name.to_owned(),
            format!("{:.0}", speed.kb_per_s),
            percent(speed.cpu_share),
            percent(speed.disk_share),
            format!("{:.2}", speed.moved),
        ]
    };
    let rows = [
        row("write sequential", &figure.write),
        row("read sequential", &figure.read),
        row("write random", &figure.write_random),
        row("read random", &figure.read_random),
        row("reread sequential", &figure.reread),
    ];
    format!(
        "{}\nSegments cleaned while writing at random: {}\n",
        markdown(&header, &rows),
        figure.segments_cleaned
    )
}

fn claims_text(part: &Part, is_recorded: bool) -> String {
    let header = ["place", "paper", "ours", "unit", "kind", "holds"];
    let mut text = String::new();
    let mut rows = Vec::new();
    if part.claims.is_empty() {
        return differences_text(part);
    }
    for (n, Judged { claim, .. }) in (1..).zip(&part.claims) {
        let plain = if claim.holds() { "yes" } else { "no" };
        let verdict = if is_recorded { claim.verdict() } else { plain };
        rows.push(vec![
            format!("({n}) {}", claim.place),
            claim.expected_words(),
            format!("{:.2}", claim.ours),
            claim.unit.to_owned(),
            claim.kind.to_owned(),
            verdict.to_owned(),
        ]);
    }
    text += &format!("\n{}", markdown(&header, &rows));
    for (n, Judged { claim, .. }) in (1..).zip(&part.claims) {
        text += &format!("({n}) {}\n", claim.what);
        if let Some(why) = claim.known_miss.filter(|_| is_recorded) {
            text += &format!("    known: {why}\n");
        }
    }
    text + &differences_text(part)
}

fn differences_text(part: &Part) -> String {
    let head =
        if part.differences.is_empty() { "" } else { "\nStill different from the paper's file system:\n" };
    part.differences.iter().fold(head.to_owned(), |text, difference| text + &format!("- {difference}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PaperArgs,
    }

    fn command_of(line: &str) -> String {
        // The name of the program stands for `firn sim paper`.
        let words = line.strip_prefix("firn sim ").unwrap().split(' ');
        command(&Line::try_parse_from(words).unwrap().args)
    }

    #[test]
    fn the_command_that_a_plot_names_draws_the_same_again() {
        let named =
            command_of("firn sim paper bandwidth --runs 3 --profile modern --disk ssd --log-writer thread");
        assert_eq!(
            named,
            "firn sim paper bandwidth --disk ssd --log-writer thread --profile modern --store lfs --runs 3 --out DIR"
        );
        assert_eq!(command_of(&named), named);
        let named = command_of("firn sim paper bandwidth --store efs,lfs --machine pentium-pro");
        assert_eq!(command_of(&named), named);
        assert!(
            named.contains("--machine pentium-pro --profile 1993,modern --store efs,lfs --runs 50"),
            "{named}"
        );
    }
}
