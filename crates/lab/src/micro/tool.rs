//! Runs other programs and turns their failure into one line.

use crate::LabError;
use rustix::process::Signal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

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
    let mut output = command.output().map_err(|e| failed(e.to_string()))?;
    if output.status.signal().is_some_and(|signal| INTERRUPTS.contains(&signal)) {
        output = command.output().map_err(|e| failed(e.to_string()))?;
    }
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rfind(|line| !line.trim().is_empty());
    Err(failed(last.map_or_else(|| output.status.to_string(), str::to_owned)))
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
