//! `firn watch`: a mounted volume in use, on the terminal, as lines, in a file, on a page. `firnfs_watch` has the displays; this
//! connects them with a daemon or a recording.
//!
//! `service` is the daemon's side; `look` makes its ticks, `live` asks for them. `recorded` writes recordings and shows them,
//! `view` is the JSON, `owners` finds the files in a segment.

mod live;
pub mod look;
pub mod owners;
mod recorded;
pub mod service;
mod view;

use crate::color;
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::target::{self, Target};
use crate::tell::tell;
use clap::Args;
use firnfs::clean::Policy;
use firnfs::clean::names::split_parameter;
use firnfs_fuse::control::ClientError;
use firnfs_fuse::mount::table::{self, Mount};
use firnfs_watch::feed::{Feed, Step};
use firnfs_watch::line;
use firnfs_watch::screen::Screen;
use firnfs_watch::screen::keys::POLICIES;
use firnfs_watch::screen::theme::Theme;
use firnfs_watch::state::State;
use firnfs_watch::terminal::{self, Ended};
use firnfs_watch::web::Server;
use live::Live;
use recorded::Recorded;
use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use view::WatchView;

/// A signal is noticed after this long at the latest.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Arguments of `firn watch`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  firn watch /mnt                        a display; ? explains its keys
  firn watch /mnt --interval 5 | cat     a line every 5 s
  firn watch /mnt --json --count 60      one JSON object a line, for a minute
  firn watch /mnt --json --policy greedy also what greedy would take now
  firn watch /mnt --record day.fww       also keep it in a file
  firn watch day.fww                     show it again: pause, seek, speed
  firn watch day.fww --html day.html     one page with all of it, to be mailed
  firn watch /mnt --web                  a page for a browser: its address

The display needs 80 by 24. Each cell of the map is a segment, or as many as fit: its shade is the share
of live bytes, its hue the age (key a: as a digit), a digit is the log that writes there, X a segment
that the cleaner just took, w one that the compared policy would take (key g).

Lines begin with the totals: fullness, time until the volume is full if it goes on to fill as in the last
minute, clean segments that may be written. MB/s are 10^6 bytes a second: content that users wrote, live
bytes that the cleaner moved, and the part of the log that is no content of files. Write amplification is
log bytes for each byte that users wrote, over the last ten lines. The first line has no rates yet.

Only root and the owner of the mount may ask. The page is served on this machine alone unless an address
is given; the token in its address is all that protects it, and it is not encrypted. A recording ends at
1 GiB. Ctrl-C ends the command with exit code 130; a recording is whole then.")]
pub struct WatchArgs {
    /// Any path on a mount, or a recording
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// End after N looks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print one JSON object a line, for programs
    #[arg(long)]
    pub json: bool,
    /// Ask what this policy would take now; several with commas
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = policy, add = values::policies())]
    pub policy: Vec<Policy>,
    /// Also write a recording, to a file that does not exist yet
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Serve a page, on this port or address [default: any free port of this machine alone]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "0", value_parser = address, conflicts_with = "json")]
    pub web: Option<SocketAddr>,
    /// Make a page of a recording, in a file that does not exist yet
    #[arg(long, value_name = "OUT", conflicts_with_all = ["web", "record", "json"])]
    pub html: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "give seconds, from 0.1 to 86400".to_owned())
}

/// What is wrong with an unknown name is which names there are.
fn policy(text: &str) -> Result<Policy, String> {
    let (name, _) = split_parameter(text);
    let names = values::policy_names();
    if names.iter().any(|known| known == name) {
        return text.parse();
    }
    Err(format!("'{name}' is not one of {}", names.join(", ")))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "give a port, or an address such as 127.0.0.1:8080".to_owned())
}

/// Runs the command.
///
/// # Errors
/// Neither a mount of a volume with a log nor a recording; the daemon does not answer; a file exists already; a signal ended
/// it.
pub fn run(args: &WatchArgs, output: &mut Output) -> Done {
    if recorded::is_recording(&args.path) {
        return recorded::run(args, output);
    }
    let mount = mount_of(&args.path)?;
    if args.html.is_some() {
        return Err(
            Failure::usage("--html makes a page of a recording").advise("record first: --record FILE")
        );
    }
    let failed = |error: ClientError| Failure::failed(error.to_string());
    let mut live = Live::new(mount.clone(), args.interval).map_err(failed)?;
    if !live.has_log().map_err(failed)? {
        let message = format!("{} has no log to watch", mount.mountpoint.display());
        return Err(Failure::new(Exit::Refused, message).advise(
            "only log-structured volumes on a device have one; if this is one, mount it with this version of firn",
        ));
    }
    let file = args.record.as_deref().map(|path| new_file(path, Some(&mount))).transpose()?;
    show_recorded(live, file, args, output)
}

fn mount_of(path: &Path) -> Done<Mount> {
    match target::resolve(path)? {
        Target::Mounted(mount) => Ok(mount),
        Target::Image(_) => Err(Failure::usage(format!("{} is not mounted", path.display()))
            .advise("firn watch shows a mount or a recording; for an image there is firn stat")),
    }
}

/// A file that did not exist, and is not on the mount that is watched: it would show itself.
fn new_file(path: &Path, watched: Option<&Mount>) -> Done<std::fs::File> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let holder = table::mount_of(parent).ok().flatten();
    if let (Some(watched), Some(holder)) = (watched, holder)
        && holder.device == watched.device
    {
        return Err(Failure::usage(format!("{} is on the mount that is watched", path.display()))
            .advise("name a file on another file system"));
    }
    std::fs::File::create_new(path).map_err(|e| Failure::io("cannot make", path, &e))
}

/// True if a display will fill the terminal, not lines.
pub fn is_shown_on_terminal(json: bool) -> bool {
    !json && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// How a simulation is shown beside the terminal, for the commands with `--watch`.
#[derive(Args, Clone, Debug)]
pub struct SimulationArgs {
    /// With --watch: also write a recording, to a file that does not exist yet; firn watch FILE shows it again
    #[arg(long, value_name = "FILE", requires = "watch")]
    pub record: Option<PathBuf>,
    /// With --watch: serve a page, on this port or address [default: any free port of this machine alone]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "0", value_parser = address, requires = "watch", conflicts_with = "json")]
    pub web: Option<SocketAddr>,
}

/// A simulation that is about to be shown.
pub struct Simulation<'a> {
    args: &'a SimulationArgs,
    file: Option<std::fs::File>,
    json: bool,
}

impl<'a> Simulation<'a> {
    /// Makes the file of the recording: to prepare a simulation takes long.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn new(args: &'a SimulationArgs, json: bool) -> Done<Self> {
        let file = args.record.as_deref().map(|path| new_file(path, None)).transpose()?;
        Ok(Self { args, file, json })
    }

    /// True if lines are printed as fast as they can be, false if somebody looks on.
    pub fn is_hurried(&self) -> bool {
        self.args.web.is_none() && !is_shown_on_terminal(self.json)
    }

    /// Shows it.
    ///
    /// # Errors
    /// It failed, a signal ended it, or the recording cannot be written.
    pub fn show(self, feed: impl Feed, output: &mut Output) -> Done {
        let args = WatchArgs {
            path: PathBuf::new(),
            interval: Duration::from_secs(1),
            count: None,
            json: self.json,
            policy: Vec::new(),
            record: self.args.record.clone(),
            web: self.args.web,
            html: None,
        };
        show_recorded(feed, self.file, &args, output)
    }
}

/// Shows a feed, and records it in a file if there is one.
fn show_recorded(
    mut feed: impl Feed,
    file: Option<std::fs::File>,
    args: &WatchArgs,
    output: &mut Output,
) -> Done {
    let (Some(file), Some(path)) = (file, &args.record) else { return show(&mut feed, args, output) };
    let mut feed = Recorded::new(feed, file).map_err(|e| Failure::io("cannot write", path, &e))?;
    let shown = show(&mut feed, args, output);
    feed.finish().map_err(|e| Failure::io("cannot write", path, &e))?;
    shown
}

/// Shows a feed as the arguments say.
fn show(feed: &mut dyn Feed, args: &WatchArgs, output: &mut Output) -> Done {
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::sets(&interrupted)?;
    let ended = if let Some(address) = args.web {
        serve(feed, address, args, output, &interrupted)?
    } else if is_shown_on_terminal(args.json) {
        terminal::show(feed, screen(args), args.count.unwrap_or(0), &interrupted)
            .map_err(|e| Failure::system("cannot use the terminal", &e))?
    } else {
        lines(feed, args, output, &interrupted)?
    };
    match ended {
        Ended::Quit => Ok(()),
        Ended::Interrupted => Err(Failure::new(interrupt::exit(), "interrupted")),
        Ended::Over(why) => {
            tell(why);
            Ok(())
        }
        Ended::Failed(why) => Err(Failure::failed(why)),
    }
}

fn screen(args: &WatchArgs) -> Screen {
    let name = args.policy.first().map(ToString::to_string);
    let compared = name.and_then(|name| POLICIES.iter().position(|policy| name.starts_with(policy)));
    Screen { compared, ..Screen::new(Theme { has_colour: color::is_used_on_terminal() }) }
}

fn lines(
    feed: &mut dyn Feed,
    args: &WatchArgs,
    output: &mut Output,
    interrupted: &AtomicBool,
) -> Done<Ended> {
    let mut shown = 0;
    each(feed, args, interrupted, &mut |state| {
        shown += 1;
        print(output, args.json, state, shown - 1)
    })
}

/// One line, after the heading if it is due; false if nobody reads it.
fn print(output: &mut Output, json: bool, state: &State, number: u64) -> Done<bool> {
    if json {
        return WatchView::of(state).map_or(Ok(true), |view| output.document_line(&view));
    }
    output.line(|out| {
        if number.is_multiple_of(line::HEADING_EVERY) {
            writeln!(out, "{}", line::HEADING)?;
        }
        writeln!(out, "{}", line::line(state))
    })
}

fn serve(
    feed: &mut dyn Feed,
    address: SocketAddr,
    args: &WatchArgs,
    output: &mut Output,
    interrupted: &AtomicBool,
) -> Done<Ended> {
    let failed = |e: std::io::Error| Failure::system(format_args!("cannot serve a page on {address}"), &e);
    let mut server = Server::bind(address).map_err(failed)?;
    server.start().map_err(failed)?;
    let url = server.url();
    if !address.ip().is_loopback() {
        tell("the page is not encrypted: whoever sees its address on the network can read it");
    }
    output.line(|out| writeln!(out, "{url}"))?;
    each(feed, args, interrupted, &mut |state| {
        server.publish(state);
        Ok(true)
    })
}

/// Calls a function for each tick until it returns false, a signal arrives, or there are enough.
fn each(
    feed: &mut dyn Feed,
    args: &WatchArgs,
    interrupted: &AtomicBool,
    use_it: &mut dyn FnMut(&State) -> Done<bool>,
) -> Done<Ended> {
    let names: Vec<String> = args.policy.iter().map(ToString::to_string).collect();
    let policies: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut used = 0;
    while !interrupted.load(Ordering::SeqCst) {
        match feed.step(&policies) {
            Ok(Step::Changed) => {}
            Ok(Step::Wait(wait)) => {
                std::thread::sleep(wait.min(LOOK_AGAIN));
                continue;
            }
            Ok(Step::End(why)) => return Ok(Ended::Over(why)),
            Err(why) => return Ok(Ended::Failed(why)),
        }
        used += 1;
        if !use_it(feed.state())? || args.count.is_some_and(|count| used >= count) {
            return Ok(Ended::Quit);
        }
    }
    Ok(Ended::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_of_this_machine_or_whole() {
        assert_eq!(address("8080").unwrap().to_string(), "127.0.0.1:8080");
        assert_eq!(address("0.0.0.0:80").unwrap().to_string(), "0.0.0.0:80");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert!(address("localhost").is_err() && address("99999").is_err());
    }

    #[test]
    fn an_unknown_policy_is_told_which_there_are() {
        assert_eq!(policy("windowed:0.3").unwrap().to_string(), "windowed:0.3");
        let why = policy("nonsense").unwrap_err();
        assert!(
            why.starts_with("'nonsense' is not one of greedy, fifo, ") && why.ends_with("age-threshold"),
            "{why}"
        );
        assert!(!why.contains(';') && !why.contains('('), "one part of a message: {why}");
        assert!(policy("windowed:9").unwrap_err().contains("from 0 to 1"));
    }

    #[test]
    fn a_count_of_no_looks_is_refused() {
        use clap::Parser;
        let parsed = |count| crate::args::Cli::try_parse_from(["firn", "watch", "/mnt", "--count", count]);
        assert!(parsed("1").is_ok() && parsed("0").is_err());
    }

    #[test]
    fn an_interval_is_neither_nothing_nor_endless() {
        assert_eq!(interval("0.5").unwrap(), Duration::from_millis(500));
        for bad in ["0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
