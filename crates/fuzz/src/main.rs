//! `firn-fuzz`: the fuzzers from the command line. `firn-fuzz --help`

use clap::{Parser, Subcommand};
use firnfs_fuzz::campaign::{Outcome, Plan, fuzz};
use firnfs_fuzz::targets::{self, Target};
use firnfs_fuzz::worker::{Orders, work};
use firnfs_fuzz::{corpus, mutate};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

/// Feeds invalid bytes to all code that takes bytes from outside.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  firn-fuzz run                         every target, 30 s each, two at a time
  firn-fuzz run image --seconds 3600    an hour of damaged images
  firn-fuzz replay image 1:4711         a finding again, as it was printed
  firn-fuzz list                        what there is"
)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Targets with the size of their corpus.
    List,
    /// Runs targets; inputs with findings are kept in the corpus and printed.
    Run {
        /// Targets; none means all.
        targets: Vec<String>,
        /// Time for each, in seconds.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// Targets at a time.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Seed of all inputs: another seed makes other inputs.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Runs one input again, in this process.
    Replay {
        /// The target.
        target: String,
        /// `seed:number` as it was printed, or a file.
        input: String,
    },
    /// Rewrites the seeds of the corpus, after a change of the format.
    Seed,
    /// One worker of a run.
    #[command(hide = true)]
    Worker {
        target: String,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        milliseconds: u64,
        #[arg(long)]
        home: PathBuf,
        #[arg(long)]
        progress: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().what) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("firn-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: What) -> io::Result<ExitCode> {
    let home = corpus::home();
    match what {
        What::List => {
            for target in targets::ALL {
                println!(
                    "{:12} {:3} inputs  {}",
                    target.name,
                    corpus::load(&home, target)?.len(),
                    target.about
                );
            }
        }
        What::Run { targets, seconds, jobs, seed } => {
            return run_all(&chosen(&targets)?, seconds, jobs, seed);
        }
        What::Replay { target, input } => replay(find(&target)?, &input)?,
        What::Seed => {
            for target in targets::ALL {
                println!("{:12} {:3} seeds", target.name, corpus::seed(&home, target)?);
            }
        }
        What::Worker { target, seed, milliseconds, home, progress } => {
            let time = Duration::from_millis(milliseconds);
            work(find(&target)?, &Orders { home: &home, seed, from: 0, time, progress: &progress })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> io::Result<&'static Target> {
    targets::find(name).ok_or_else(|| {
        let message = format!("there is no target '{name}'; see 'firn-fuzz list'");
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

fn chosen(names: &[String]) -> io::Result<Vec<&'static Target>> {
    if names.is_empty() {
        Ok(targets::ALL.iter().collect())
    } else {
        names.iter().map(|name| find(name)).collect()
    }
}

fn run_all(targets: &[&'static Target], seconds: u64, jobs: usize, seed: u64) -> io::Result<ExitCode> {
    let scratch = std::env::temp_dir().join(format!("firn-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let plan = Plan {
        program: std::env::current_exe()?,
        home: corpus::home(),
        time: Duration::from_secs(seconds),
        seed,
        scratch: scratch.clone(),
    };
    let pending = Mutex::new(targets.iter().rev().copied().collect::<Vec<_>>());
    let next = || pending.lock().ok()?.pop();
    let found = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(target) = next() {
                    let is_clean = report(&plan, target);
                    *found.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += u32::from(!is_clean);
                }
            });
        }
    });
    let _leftover = std::fs::remove_dir_all(scratch);
    let found = found.into_inner().unwrap_or(u32::MAX);
    Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one target and prints the result; false if anything was found.
fn report(plan: &Plan, target: &'static Target) -> bool {
    match fuzz(plan, target) {
        Ok(Outcome::Clean(inputs)) => {
            println!("{:12} {inputs} inputs, nothing found", target.name);
            true
        }
        Ok(Outcome::Found(finding)) => {
            let kept = corpus::keep(&plan.home, target.name, &finding.token, &finding.input);
            let kept = kept.map_or_else(|error| error.to_string(), |file| file.display().to_string());
            println!("FOUND {:6} {}\n    input: {kept}", target.name, finding.what);
            println!("    again: firn-fuzz replay {} {kept}", target.name);
            false
        }
        Err(error) => {
            println!("FAILED {:5} {error}", target.name);
            false
        }
    }
}

fn replay(target: &'static Target, input: &str) -> io::Result<()> {
    let from_numbers =
        input.split_once(':').and_then(|(seed, number)| Some((seed.parse().ok()?, number.parse().ok()?)));
    let bytes = match from_numbers {
        Some((seed, number)) => mutate::input(&corpus::load(&corpus::home(), target)?, seed, number),
        None => std::fs::read(input)?,
    };
    println!("{} bytes", bytes.len());
    (target.run)(&bytes);
    println!("nothing found");
    Ok(())
}
