//! The background: `firn mount` starts itself again as a daemon, waits until the mount works, and reports the daemon's
//! failure as its own.
//!
//! The daemon reports the outcome on its standard output, as one line of JSON, and then detaches from the terminal. It
//! does not fork: a process with threads cannot be forked safely.

use crate::failure::{Done, Exit, Failure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once no process waits for a report any more.
static DETACHED: AtomicBool = AtomicBool::new(false);

/// What the daemon reports.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Report {
    /// The mount works.
    Ready,
    /// The mount failed.
    Failed { message: String, advice: Option<String>, exit: u8 },
}

/// Starts this command line again as a daemon; returns once the mount works.
///
/// # Errors
/// The daemon's own failure, or that it died without a report.
pub fn start() -> Done {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| "firn".into());
    let program = std::env::current_exe()
        .map_err(|e| Failure::io("cannot find the program", Path::new("/proc/self/exe"), &e))?;
    let mut child = Command::new(&program)
        .arg0(name)
        .args(words)
        .arg("--daemon")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Failure::io("cannot start the daemon from", &program, &e))?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        // An error is treated like a missing report, which is reported below.
        let _silence = BufReader::new(stdout).read_line(&mut line);
    }
    match serde_json::from_str(&line) {
        Ok(Report::Ready) => Ok(()),
        Ok(Report::Failed { message, advice, exit }) => {
            let _exit_status = child.wait();
            Err(Failure { message, advice, exit: exit_of(exit) })
        }
        Err(_) => {
            let status = child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
            Err(Failure::failed(format!("the daemon ended before the mount served ({status})"))
                .advise("run it again with --foreground to see its messages"))
        }
    }
}

/// In the daemon, once the mount works: from here on messages go to `log`, or to the kernel's log (root), or nowhere.
///
/// # Errors
/// The log or `/dev/null` cannot be opened.
pub fn direct_messages(log: Option<&Path>) -> Done {
    let messages = match log {
        Some(path) => {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            file.map_err(|e| Failure::io("cannot open", path, &e))?
        }
        // Each message is one write, as the kernel requires.
        None => match std::fs::OpenOptions::new().write(true).open("/dev/kmsg") {
            Ok(kernel_log) => kernel_log,
            Err(_) => null()?,
        },
    };
    rustix::stdio::dup2_stderr(&messages).map_err(not_detached)
}

/// In the daemon, after [`direct_messages`]: tells the waiting process, and detaches from the terminal, and from its session unless
/// `stays_in_session`.
///
/// Not before the mount works: an automount that waits for it lets nobody through but processes of the group of the one that it has asked.
///
/// # Errors
/// `/dev/null` cannot be opened.
pub fn detach(stays_in_session: bool) -> Done {
    let null = null()?;
    // Neither keys nor the end of the terminal's session shall end the daemon: both signal the group in the foreground. The first fails only
    // for a process that leads its session already, the second for one that leads its group, which is as good.
    let _leader_already = match stays_in_session {
        true => rustix::process::setpgid(None, None),
        false => rustix::process::setsid().map(drop),
    };
    report(&Report::Ready);
    DETACHED.store(true, Ordering::SeqCst);
    let redirected = rustix::stdio::dup2_stdin(&null).and_then(|()| rustix::stdio::dup2_stdout(&null));
    redirected.map_err(not_detached)
}

fn null() -> Done<std::fs::File> {
    let path = Path::new("/dev/null");
    let null = std::fs::OpenOptions::new().read(true).write(true).open(path);
    null.map_err(|e| Failure::io("cannot open", path, &e))
}

fn not_detached(errno: rustix::io::Errno) -> Failure {
    Failure::failed(format!("cannot detach from the terminal: {errno}"))
}

/// In the daemon, when it fails: reports to the waiting process, or to the log if that process has gone.
pub fn report_failure(failure: &Failure) {
    if DETACHED.load(Ordering::SeqCst) {
        tracing::error!("{failure}");
        return;
    }
    report(&Report::Failed {
        message: failure.message.clone(),
        advice: failure.advice.clone(),
        exit: failure.exit as u8,
    });
}

fn report(report: &Report) {
    let mut line = serde_json::to_string(report).unwrap_or_default();
    line.push('\n');
    let mut stdout = std::io::stdout();
    // The process that started the daemon may have ended; the mount goes on without it.
    let _nobody_listens = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
}

fn exit_of(code: u8) -> Exit {
    [Exit::Usage, Exit::NotAVolume, Exit::Refused]
        .into_iter()
        .find(|exit| *exit as u8 == code)
        .unwrap_or(Exit::Failed)
}
