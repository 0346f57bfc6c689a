//! Runs other programs and turns their failure into one line.

use crate::LabError;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Runs a command to its end with no input and its output thrown away. Signals that a terminal sends do not reach it (see
/// [`Stop`](super::stop::Stop)).
///
/// # Errors
/// It does not start, or ends with anything but 0; the reason is the last line it wrote to standard error.
pub fn run(command: &mut Command) -> Result<(), LabError> {
    let shown = describe(command);
    let failed = |reason: String| LabError::Tool { command: shown.clone(), reason };
    let output = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|e| failed(e.to_string()))?;
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
    fn a_failing_tool_is_named_with_its_last_complaint() {
        let error = run(Command::new("sh").args(["-c", "echo one >&2; echo two >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("failed: two"), "{error}");
    }

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        let error = run(&mut Command::new("/no/such/tool")).unwrap_err();
        assert!(error.to_string().contains("/no/such/tool"), "{error}");
        assert!(run(&mut Command::new("true")).is_ok());
    }
}
