//! The campaign: runs workers as separate processes and watches them.
//!
//! A finding is an input on which a worker ends early, uses more than [`CPU_MAX`], or does not return within [`WALL_MAX`].
//! The campaign rebuilds the input from its number and keeps it.

use crate::targets::Target;
use crate::{corpus, mutate};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Processor time that one input may take; clock time would also count the work of other processes.
const CPU_MAX: Duration = Duration::from_secs(10);
/// Clock time that one input may take, for inputs that wait for ever.
const WALL_MAX: Duration = Duration::from_secs(240);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The unit in which the kernel counts other processes' processor time: USER_HZ.
const TICKS_PER_S: u64 = 100;

/// How to run a campaign.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `firn-fuzz`.
    pub program: PathBuf,
    /// The corpus.
    pub home: PathBuf,
    /// Time for each target.
    pub time: Duration,
    /// Seed of all inputs.
    pub seed: u64,
    /// Directory for the workers' progress files.
    pub scratch: PathBuf,
}

/// A finding of a fuzzer.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The target.
    pub target: &'static str,
    /// `seed:number` of the input.
    pub token: String,
    /// What happened, as text, with the worker's last message.
    pub what: String,
    /// The input.
    pub input: Vec<u8>,
}

/// The outcome of a target's run.
#[derive(Debug)]
pub enum Outcome {
    /// This many inputs, no finding.
    Clean(u64),
    /// There was a finding.
    Found(Box<Finding>),
}

/// Runs one target for its time.
///
/// # Errors
/// The worker cannot be started, or its progress cannot be read.
pub fn fuzz(plan: &Plan, target: &'static Target) -> io::Result<Outcome> {
    let progress = plan.scratch.join(format!("{}.progress", target.name));
    let messages = plan.scratch.join(format!("{}.messages", target.name));
    std::fs::write(&progress, 0u64.to_le_bytes())?;
    let mut worker = Command::new(&plan.program)
        .arg("worker")
        .arg(target.name)
        .args(["--seed", &plan.seed.to_string()])
        .args(["--milliseconds", &plan.time.as_millis().to_string()])
        .arg("--home")
        .arg(&plan.home)
        .arg("--progress")
        .arg(&progress)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&messages)?)
        .spawn()?;
    let ended = watch(&mut worker, &progress)?;
    let number = read_progress(&progress)?;
    let what = match ended {
        Ended::Itself(status) if status.success() => return Ok(Outcome::Clean(number + 1)),
        Ended::Itself(status) => format!("{}: {}", describe(status), last_words(&messages)),
        Ended::Stopped(why) => why,
    };
    let corpus = corpus::load(&plan.home, target)?;
    let input = mutate::input(&corpus, plan.seed, number);
    let token = format!("{}:{number}", plan.seed);
    Ok(Outcome::Found(Box::new(Finding { target: target.name, token, what, input })))
}

enum Ended {
    Itself(ExitStatus),
    Stopped(String),
}

/// Waits for the worker; stops it if an input takes too long.
fn watch(worker: &mut Child, progress: &Path) -> io::Result<Ended> {
    let mut at = (u64::MAX, Duration::ZERO, Instant::now());
    loop {
        if let Some(status) = worker.try_wait()? {
            return Ok(Ended::Itself(status));
        }
        let (number, used) = (read_progress(progress)?, cpu_time(worker.id()));
        if number != at.0 {
            at = (number, used, Instant::now());
        }
        let (cpu, wall) = (used.saturating_sub(at.1), at.2.elapsed());
        if cpu > CPU_MAX || wall > WALL_MAX {
            worker.kill()?;
            worker.wait()?;
            let why =
                format!("no end after {} s on the processor, {} s in all", cpu.as_secs(), wall.as_secs());
            return Ok(Ended::Stopped(why));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn read_progress(file: &Path) -> io::Result<u64> {
    let bytes = std::fs::read(file)?;
    Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
}

/// Processor time of a process; zero once it is gone.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may contain anything, so fields are counted after it. utime and stime are the 14th and 15th.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS_PER_S)
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (_, Some(signal)) => format!("ended by signal {signal}"),
        (code, None) => format!("ended with exit status {}", code.unwrap_or(-1)),
    }
}

/// The first lines of the worker's messages: for a panic, its place and its message.
fn last_words(messages: &Path) -> String {
    let text = std::fs::read_to_string(messages).unwrap_or_default();
    text.lines().filter(|line| !line.trim().is_empty()).take(3).collect::<Vec<_>>().join(" | ")
}
