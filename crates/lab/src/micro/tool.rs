//! Runs other programs, turns their failure into one line, and adds up their processor time.

use super::processor;
use crate::LabError;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// See [`programs_ns`].
static PROGRAMS_NS: AtomicU64 = AtomicU64::new(0);

/// Processor time of all programs that [`run`] has run, in nanoseconds.
#[must_use]
pub fn programs_ns() -> u64 {
    PROGRAMS_NS.load(Ordering::Relaxed)
}

/// The signals of a terminal or of kill(1) that end a program.
const INTERRUPTS: [i32; 2] = [Signal::INT.as_raw(), Signal::TERM.as_raw()];

/// Runs a command to its end without input, and discards its output. A terminal's signals do not reach it (see
/// [`Stop`](super::stop::Stop)). A signal just before the command had its own process group may end it before it did
/// anything; it is then started again.
///
/// # Errors
/// It does not start, or ends with a status other than 0; the reason is the last line that it wrote to standard error.
pub fn run(command: &mut Command) -> Result<(), LabError> {
    let shown = describe(command);
    let failed = |reason: String| LabError::Tool { command: shown.clone(), reason };
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut status, mut stderr) = to_its_end(command).map_err(|e| failed(e.to_string()))?;
    if status.signal().is_some_and(|signal| INTERRUPTS.contains(&signal)) {
        (status, stderr) = to_its_end(command).map_err(|e| failed(e.to_string()))?;
    }
    if status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&stderr);
    let last = complaint.lines().rfind(|line| !line.trim().is_empty());
    Err(failed(last.map_or_else(|| status.to_string(), str::to_owned)))
}

/// Runs a short command and returns what it prints.
///
/// # Errors
/// As [`run`].
pub fn answer(command: &mut Command) -> Result<String, LabError> {
    let shown = describe(command);
    let failed = |reason: String| LabError::Tool { command: shown.clone(), reason };
    let output = command.stdin(Stdio::null()).output().map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// Runs it once, notes its processor time, and returns what it wrote to standard error.
fn to_its_end(command: &mut Command) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let mut child = command.spawn()?;
    let mut stderr = Vec::new();
    if let Some(pipe) = &mut child.stderr {
        pipe.read_to_end(&mut stderr)?;
    }
    // Its times can be read until somebody waits for it.
    let stay = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(Pid::from_child(&child)), stay), Err(Errno::INTR)) {}
    PROGRAMS_NS.fetch_add(processor::of_ended(child.id()), Ordering::Relaxed);
    Ok((child.wait()?, stderr))
}

fn describe(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_tool_is_named_with_its_last_message() {
        let error = run(Command::new("sh").args(["-c", "echo one >&2; echo two >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("failed: two"), "{error}");
    }

    #[test]
    fn a_tool_ended_by_a_signal_that_was_not_meant_for_it_is_started_again_once() {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.current_dir(home.path()).args(["-c", "test -e been || { touch been; kill -INT $$; }"]);
        run(&mut command).unwrap();
        let error = run(Command::new("sh").args(["-c", "kill -TERM $$"])).unwrap_err();
        assert!(error.to_string().contains("signal: 15"), "{error}");
    }

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        let error = run(&mut Command::new("/no/such/tool")).unwrap_err();
        assert!(error.to_string().contains("/no/such/tool"), "{error}");
        assert!(run(&mut Command::new("true")).is_ok());
    }
}
