//! What `firn` tells people beside the result: lines on standard error that begin with `firn:`.
//!
//! Each is one line for scripts and logs. A terminal gets it broken between words, since it would break it anywhere.

use crate::color::{self, Meaning, paint_error};
use crate::failure::Failure;
use crate::fold::Folded;
use crate::output::{terminal_columns, write_words_within};
use rustix::stdio::stderr;
use std::fmt::Display;
use std::io::Write;

const HEAD: &str = "firn:";

/// Tells something.
pub fn tell(text: impl Display) {
    eprint!("{}", laid_out(HEAD, &text.to_string(), terminal_columns(stderr())));
}

/// Tells why a command failed.
pub fn tell_failure(failure: &Failure) {
    let text = laid_out(HEAD, &failure.to_string(), terminal_columns(stderr()));
    let rest = text.strip_prefix(HEAD).unwrap_or(&text);
    eprint!("{}{rest}", paint_error(Meaning::Bad, HEAD));
}

/// Tells what is wrong with a command line; or shows the help that it asks for, which is laid out already.
pub fn tell_usage(error: &clap::Error) {
    let told = if error.use_stderr() {
        let text = error.render();
        let text = if color::is_used_for_errors() { text.ansi().to_string() } else { text.to_string() };
        let mut out = Folded::new(std::io::stderr(), terminal_columns(stderr()));
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    } else {
        error.print()
    };
    // If this cannot be printed either, there is no way to report it.
    let _ = told;
}

fn laid_out(head: &str, text: &str, columns: Option<usize>) -> String {
    let mut out = Vec::new();
    match write_words_within(&mut out, head, text, columns.unwrap_or(usize::MAX)) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        // Memory takes everything.
        Err(_) => format!("{head} {text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_between_words_for_a_terminal_and_whole_for_a_program() {
        let text = "--until 420: about 329 of the 1,018 segments can be clean; 165 are now; ask for fewer";
        assert_eq!(laid_out(HEAD, text, None), format!("firn: {text}\n"));
        assert_eq!(
            laid_out(HEAD, text, Some(80)),
            "firn: --until 420: about 329 of the 1,018 segments can be clean; 165 are now;\n      ask for fewer\n"
        );
    }
}
