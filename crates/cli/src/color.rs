//! Colours in text for people: one place decides whether there are any, and what each one means.
//!
//! Invariant: a colour is never alone in its meaning; without colours the text is the same. JSON has none. Callers: the commands,
//! with [`paint`], where no width is computed from the text; `main`, which decides once.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    Auto,
    /// In any case.
    Always,
    /// Not.
    Never,
}

impl From<When> for clap::ColorChoice {
    fn from(when: When) -> Self {
        match when {
            When::Auto => Self::Auto,
            When::Always => Self::Always,
            When::Never => Self::Never,
        }
    }
}

/// What a command line asks for with `--color`, which may be wrong elsewhere.
pub fn asked_for(words: &[OsString]) -> When {
    let texts = words.iter().skip(1).map(|word| word.to_str().unwrap_or("")).take_while(|word| *word != "--");
    let mut values = Vec::new();
    let mut is_value = false;
    for text in texts {
        values.extend(if is_value { Some(text) } else { text.strip_prefix("--color=") });
        is_value = text == "--color";
    }
    values.last().and_then(|value| When::from_str(value, false).ok()).unwrap_or(When::Auto)
}

/// What a colour says again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// All is well.
    Good,
    /// Something to look at.
    Warning,
    /// Damaged, failed or refused.
    Bad,
    /// Less important than the rest.
    Aside,
    /// What to look for among much.
    Mark,
}

/// The choice, and whether standard output and standard error have colours.
static DECIDED: OnceLock<(When, bool, bool)> = OnceLock::new();

/// Decides, before anything is written. Later calls change nothing.
pub fn decide(when: When) {
    let _first_decision_stays = DECIDED.set((
        when,
        is_used(when, std::io::stdout().is_terminal()),
        is_used(when, std::io::stderr().is_terminal()),
    ));
}

/// Whether a display that has the terminal for itself uses colours.
pub fn is_used_on_terminal() -> bool {
    is_used(DECIDED.get().map_or(When::Auto, |decided| decided.0), true)
}

fn is_used(when: When, is_terminal: bool) -> bool {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            is_terminal
                && variable("NO_COLOR").is_none()
                && variable("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

/// The text for standard output, with its colour if there are any.
pub fn paint(meaning: Meaning, text: impl Display) -> String {
    painted(DECIDED.get().is_some_and(|decided| decided.1), meaning, text)
}

/// The same for standard error.
pub fn paint_error(meaning: Meaning, text: impl Display) -> String {
    painted(DECIDED.get().is_some_and(|decided| decided.2), meaning, text)
}

fn painted(is_used: bool, meaning: Meaning, text: impl Display) -> String {
    let style = match meaning {
        Meaning::Good => AnsiColor::Green.on_default(),
        Meaning::Warning => AnsiColor::Yellow.on_default(),
        Meaning::Bad => AnsiColor::Red.on_default().bold(),
        Meaning::Aside => Style::new().dimmed(),
        Meaning::Mark => AnsiColor::Cyan.on_default().bold(),
    };
    if is_used { format!("{style}{text}{style:#}") } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_between_its_colour_and_the_end_of_it_or_is_as_it_was() {
        assert_eq!(painted(true, Meaning::Good, "well"), "\u{1b}[32mwell\u{1b}[0m");
        assert_eq!(painted(false, Meaning::Good, "well"), "well");
    }

    #[test]
    fn a_command_line_says_which_colours_even_if_the_rest_of_it_is_wrong() {
        let asked = |line: &str| asked_for(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(asked("firn --color never stat --help"), When::Never);
        assert_eq!(asked("firn stat --nonsense --color=never"), When::Never);
        assert_eq!(asked("firn --color never --color always"), When::Always);
        for line in ["firn stat", "firn --color", "firn --color maybe", "firn stat -- --color=never"] {
            assert_eq!(asked(line), When::Auto, "{line}");
        }
    }

    #[test]
    fn only_terminals_have_colours_unless_they_are_demanded() {
        assert!(is_used(When::Always, false) && !is_used(When::Never, true) && !is_used(When::Auto, false));
    }
}
