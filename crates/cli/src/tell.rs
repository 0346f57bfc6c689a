//! What `firn` tells people beside the result: lines on standard error that begin with `firn:`.
//!
//! Each is one line for scripts and logs. A terminal gets it broken between words, since it would break it anywhere.

use crate::color::{Meaning, paint_error};
use crate::failure::Failure;
use crate::output::{terminal_columns, write_words_within};
use rustix::stdio::stderr;
use std::fmt::Display;

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
