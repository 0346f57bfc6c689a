//! `firn bench floor`: mounts a file system that answers everything at once over each transport, and has clients drive it. The clients
//! are processes of their own, as users' programs are: this program again, with a hidden command ([`client`]).

use super::{failed, this_program};
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use clap::Args;
use firnfs_fuse::floor::Floor;
use firnfs_fuse::{SessionError, TransportChoice, default_threads};
use firnfs_lab::LabError;
use firnfs_lab::floor::client::{Taken, processor_ns};
use firnfs_lab::floor::{Client, Measured, Report, Row, Task};
use firnfs_lab::micro::stop::Stop;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How clients run: what the report calls it, how many, and the processor that they stay on.
const CLIENTS: [(&str, u32, Option<usize>); 3] =
    [("free", 1, None), ("pinned", 1, Some(0)), ("two", 2, None)];

/// What the report calls the floor with the kernel's write-back cache. Only writes differ there.
const WRITEBACK: &str = "writeback";

/// Arguments of `firn bench floor`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn bench floor                     every task over every transport, five rounds
  firn bench floor --rounds 15 --json
  firn bench micro --against /mnt/e    then compare: what is above the floor is firnfs

Nothing is stored: names that the clients look up exist, writes are forgotten, reads are zeros. The kernel sends the
same requests as to a firnfs mount. FUSE over io_uring needs Linux 6.14 and `firn mount --enable-uring` once (root).")]
pub struct FloorArgs {
    /// Interleaved rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Operations of each client in a round
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// Arguments of a client: what to do, in JSON.
#[derive(Args, Debug)]
pub struct ClientArgs {
    what: String,
}

/// Runs the command.
///
/// # Errors
/// The floor cannot be mounted, or a client failed.
pub fn run(args: &FloorArgs, output: &mut Output) -> Done {
    let stop = Stop::default();
    interrupt::sets(&stop.flag())?;
    let report = measure(args, &stop)?;
    output.show(args.json, &report, |to| to.write_all(report.text().as_bytes()))
}

/// Runs as a client: says when it is ready, begins when told to, and prints what it took.
///
/// # Errors
/// A system call failed.
pub fn client(args: &ClientArgs) -> Done {
    let client: Client =
        serde_json::from_str(&args.what).map_err(|e| Failure::usage(format!("not a client: {e}")))?;
    let here = Path::new("standard output");
    let begin = || {
        println!("ready");
        std::io::stdin().read_line(&mut String::new()).map(drop).map_err(LabError::io("read", here))
    };
    let taken = client.run(begin).map_err(failed)?;
    println!("{}", serde_json::json!(taken));
    Ok(())
}

fn measure(args: &FloorArgs, stop: &Stop) -> Done<Report> {
    let directory = tempfile::tempdir().map_err(|e| Failure::io("cannot create", Path::new("/tmp"), &e))?;
    let (floors, missing_uring) = mount_all(directory.path())?;
    let is_for = |task, floor: &usize| task == Task::Write || floors[*floor].0 != WRITEBACK;
    let rows: Vec<_> = (Task::ALL.into_iter())
        .flat_map(|task| CLIENTS.map(|clients| (task, clients)))
        .flat_map(|(task, clients)| {
            let floors = (0..floors.len()).filter(move |floor| is_for(task, floor));
            floors.map(move |floor| (task, clients, floor))
        })
        .collect();
    let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); rows.len()];
    let bar = Bar::of_steps();
    let total = rows.len() as u64 * u64::from(args.rounds);
    for round in 0..args.rounds {
        for (at, (task, clients, floor)) in rows.iter().enumerate() {
            stop.check().map_err(failed)?;
            let step = u64::from(round) * rows.len() as u64 + at as u64;
            bar.show(step, total, task.name());
            let run = step as u32 * 2;
            let measured = one(&floors[*floor].1, (*task, args.count, run), *clients)?;
            rounds[at].push(measured);
        }
    }
    drop(bar);
    let row = |((task, clients, floor), rounds): (&(Task, (&'static str, _, _), usize), &Vec<Measured>)| {
        Row::of((*task, floors[*floor].0, clients.0), rounds)
    };
    Ok(Report {
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        rounds: args.rounds,
        missing_uring,
        rows: rows.iter().zip(&rounds).filter_map(row).collect(),
    })
}

/// A floor, and what the report calls its transport.
type Named = (&'static str, Floor);

/// The floors, and why there is none over io_uring, if so.
fn mount_all(directory: &Path) -> Done<(Vec<Named>, Option<String>)> {
    let mut missing_uring = None;
    let mut floors: Vec<Named> = Vec::new();
    let kinds = [
        ("dev", TransportChoice::Dev, false),
        ("uring", TransportChoice::Uring, false),
        (WRITEBACK, TransportChoice::Auto, true),
    ];
    for (name, choice, writeback_cache) in kinds {
        let mountpoint = directory.join(name);
        std::fs::create_dir(&mountpoint).map_err(|e| Failure::io("cannot create", &mountpoint, &e))?;
        match Floor::mount(&mountpoint, choice, writeback_cache, default_threads()) {
            Ok(floor) => floors.push((name, floor)),
            Err(SessionError::Transport(why)) if choice == TransportChoice::Uring => {
                missing_uring = Some(why.to_string());
            }
            Err(error) => return Err(Failure::failed(error.to_string())),
        }
    }
    Ok((floors, missing_uring))
}

/// A client that was started.
struct Started {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// One task with its clients, which begin together.
fn one(
    floor: &Floor,
    (task, count, run): (Task, u32, u32),
    (_, clients, processor): (&str, u32, Option<usize>),
) -> Done<Measured> {
    let start = |nth: u32| {
        let directory = floor.mountpoint().to_owned();
        Started::new(&Client { directory, task, count, run: run + nth, processor })
    };
    let mut started = (0..clients).map(start).collect::<Done<Vec<_>>>()?;
    started.iter_mut().try_for_each(|client| client.line().map(drop))?;
    let daemon_before = processor_ns();
    for client in &mut started {
        writeln!(client.to).map_err(|e| Failure::io("cannot write to", Path::new("a client"), &e))?;
    }
    let taken = started.into_iter().map(Started::taken).collect::<Done<Vec<_>>>()?;
    let daemon_ns = processor_ns() - daemon_before;
    let operations = f64::from(count) * taken.len() as f64;
    let elapsed_ns = taken.iter().map(|taken| taken.elapsed_ns).max().unwrap_or(0);
    let client_ns: u64 = taken.iter().map(|taken| taken.processor_ns).sum();
    let us_each = |ns: u64| ns as f64 / 1000.0 / operations;
    Ok(Measured {
        elapsed_us: us_each(elapsed_ns),
        client_us: us_each(client_ns),
        daemon_us: us_each(daemon_ns),
    })
}

impl Started {
    fn new(client: &Client) -> Done<Self> {
        let mut command = Command::new(this_program().map_err(failed)?);
        command.args(["bench", "floor-client"]).arg(serde_json::json!(client).to_string());
        let failed = |e: &std::io::Error| Failure::io("cannot start", Path::new("a client"), e);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| failed(&e))?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = (to, from) else {
            return Err(Failure::failed("a client has no standard input or output"));
        };
        Ok(Self { child, to, from: BufReader::new(from) })
    }

    fn line(&mut self) -> Done<String> {
        let mut line = String::new();
        let read = self.from.read_line(&mut line);
        read.map_err(|e| Failure::io("cannot read from", Path::new("a client"), &e))?;
        Ok(line)
    }

    fn taken(mut self) -> Done<Taken> {
        let line = self.line()?;
        let _status = self.child.wait();
        serde_json::from_str(&line).map_err(|_| Failure::failed("a client failed"))
    }
}
