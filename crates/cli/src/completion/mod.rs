//! Completion of the command line by a shell: the shell's script asks `firn` itself what can follow, so that values that only
//! this machine knows (mounts) and values with parameters (policies) are completed too.
//!
//! clap's engine knows commands, options and files; [`values`] knows the rest. Its script for bash lacks one thing: bash takes
//! `cleaning_policy=greedy` for three words. So bash has a script of ours, which joins them.

pub mod values;

use crate::failure::{Done, Failure};
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

/// The variable in which a script names its shell.
const VARIABLE: &str = "FIRN_COMPLETE";
const BASH: &str = include_str!("firn.bash");

/// Answers a shell and ends, if it is a shell that runs this program.
pub fn answer_shell() {
    CompleteEnv::with_factory(crate::help::command).var(VARIABLE).complete();
}

/// The script that has a shell ask `firn`.
///
/// # Errors
/// clap knows no script for the shell.
pub fn script(shell: Shell) -> Done<Vec<u8>> {
    if shell == Shell::Bash {
        return Ok(BASH.as_bytes().to_vec());
    }
    let name = shell.to_string();
    let cannot = || Failure::usage(format!("there are no completions for {name}"));
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).ok_or_else(cannot)?;
    completer.write_registration(VARIABLE, "firn", "firn", "firn", &mut script).map_err(|_| cannot())?;
    Ok(script)
}
