//! The command line as people see it: help that is laid out for the terminal. `usage` has what is wrong with a command line.
//!
//! The texts after the options are written in lines, as they stand in the code. Here the lines of a paragraph are joined, so
//! that clap breaks them where the terminal ends; examples and lists keep their lines, and their second column if one is too long.

use crate::args::Cli;
use clap::builder::StyledStr;
use clap::{ColorChoice, Command, CommandFactory};

/// Columns in which examples and lists of help have to fit.
const WIDTH: usize = 80;
/// Help uses no more of a wide terminal: longer lines are hard to read.
const WIDTH_MAX: usize = 120;
/// The same in man pages, which indent them.
const MAN_WIDTH: usize = WIDTH - 7;
/// The second column of a list begins here at the latest; else it goes to the next line.
const SECOND_COLUMN_MAX: usize = 41;
/// Where the second column goes in a line of its own.
const NEXT_LINE_COLUMN: usize = 10;

/// The definition of the command line with its help laid out.
#[must_use]
pub fn command() -> Command {
    laid_out(Cli::command(), WIDTH)
}

/// The same, laid out for a terminal of that many columns, if there is one, and in colours as it says.
#[must_use]
pub fn command_for(columns: Option<usize>, color: ColorChoice) -> Command {
    let width = columns.map_or(WIDTH, |columns| columns.clamp(WIDTH, WIDTH_MAX));
    let command = laid_out(Cli::command(), width).color(color);
    match columns {
        Some(columns) => command.term_width(columns.min(WIDTH_MAX)),
        None => command,
    }
}

/// The same for man pages.
#[must_use]
pub fn command_for_man() -> Command {
    laid_out(Cli::command(), MAN_WIDTH)
}

fn laid_out(command: Command, width: usize) -> Command {
    let text = command.get_after_help().map(|text| StyledStr::from(lay_out(&text.to_string(), width)));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_subcommands(|inner| laid_out(inner, width))
}

/// Joins the lines of paragraphs, and breaks long lines of lists.
fn lay_out(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut in_paragraph = false;
    for line in with_whole_entries(text) {
        let is_entry = line.split_once(":  ").is_some_and(|(word, _)| !word.contains(' '));
        let is_prose = !line.starts_with(' ') && !line.is_empty() && !is_entry;
        if !out.is_empty() {
            out.push(if is_prose && in_paragraph { ' ' } else { '\n' });
        }
        match line.chars().count() > width && !is_prose {
            true => break_line(&mut out, &line, width),
            false => out.push_str(&line),
        }
        in_paragraph = is_prose;
    }
    out
}

/// The lines of a text; where the second column of a list goes on in further lines, these are joined to the first one.
fn with_whole_entries(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut second_column = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        match lines.last_mut() {
            Some(entry) if second_column == Some(indent) => {
                entry.push(' ');
                entry.push_str(&line[indent..]);
            }
            _ => {
                second_column = second_column_of(line);
                lines.push(line.to_owned());
            }
        }
    }
    lines
}

/// Where the second column of a line of a list begins, if it has one.
fn second_column_of(line: &str) -> Option<usize> {
    let indent = line.len() - line.trim_start().len();
    let gap = indent + line[indent..].find("  ")?;
    (indent > 0).then(|| line.len() - line[gap..].trim_start().len())
}

/// Writes a line of two columns so that its second one is broken and stays a column.
fn break_line(out: &mut String, line: &str, width: usize) {
    let indent = line.len() - line.trim_start().len();
    let gap = match line[indent..].find("  ") {
        Some(at) => indent + at,
        // The second column alone.
        None if indent >= NEXT_LINE_COLUMN => 0,
        None => return break_command(out, line, width),
    };
    let words = line[gap..].trim_start();
    let second = line.len() - words.len();
    let (mut column, at_column) = if second <= SECOND_COLUMN_MAX {
        out.push_str(&line[..second]);
        (second, second)
    } else if gap == 0 {
        out.push_str(&line[..NEXT_LINE_COLUMN]);
        (NEXT_LINE_COLUMN, NEXT_LINE_COLUMN)
    } else {
        break_command(out, &line[..gap], width);
        (width, NEXT_LINE_COLUMN)
    };
    for (n, word) in words.split_whitespace().enumerate() {
        if column + 1 + word.len() > width {
            out.push('\n');
            out.push_str(&" ".repeat(at_column));
            column = at_column;
        } else if n > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
}

/// Breaks a long command as people do for a shell.
fn break_command(out: &mut String, line: &str, width: usize) {
    let words = line.trim_start();
    let mut column = line.len() - words.len();
    out.push_str(&line[..column]);
    for (n, word) in words.split(' ').enumerate() {
        // A blank and a backslash have to fit after it.
        if n > 0 && column + 1 + word.len() + 2 > width {
            out.push_str(" \\\n     ");
            column = 5;
        }
        if n > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(command: &Command, path: &str, judge: &mut dyn FnMut(&Command, &str)) {
        judge(command, path);
        command
            .get_subcommands()
            .for_each(|inner| each(inner, &format!("{path} {}", inner.get_name()), judge));
    }

    #[test]
    fn no_help_is_wider_than_the_terminal_and_no_example_is_broken() {
        let mut wide = Vec::new();
        for width in [80, 60] {
            let mut whole = command().term_width(width);
            whole.build();
            each(&whole, "firn", &mut |command, path| {
                let text = command.clone().render_long_help().to_string();
                let long = text.lines().filter(|line| line.chars().count() > width);
                wide.extend(long.map(|line| format!("{path} at {width}: {line}")));
                let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                let broken: Vec<&str> =
                    after.lines().filter(|l| l.starts_with(' ') && l.chars().count() > WIDTH).collect();
                assert!(broken.is_empty(), "{path}: {broken:#?}");
            });
        }
        assert!(wide.is_empty(), "{wide:#?}");
    }

    #[test]
    fn paragraphs_are_joined_and_lists_keep_their_columns() {
        let text = "Examples:\n  firn a    b\n\nOne two\nthree.\n\nCodes:\n  1  one\n";
        assert_eq!(lay_out(text, WIDTH), "Examples:\n  firn a    b\n\nOne two three.\n\nCodes:\n  1  one");
        assert_eq!(lay_out("One:  a\nTwo:  b", WIDTH), "One:  a\nTwo:  b");
        assert_eq!(
            lay_out(&format!("{}these:\none", "word ".repeat(20)), WIDTH),
            "word ".repeat(20) + "these: one"
        );
        let words = "word ".repeat(20);
        let list = lay_out(&format!("  1    {words}"), WIDTH);
        assert!(
            list.lines().count() == 2
                && list
                    .lines()
                    .all(|line| line.starts_with("       word") || line.starts_with("  1    word")),
            "{list}"
        );
        let example = lay_out(&format!("  firn {} --json  {words}", "x".repeat(45)), WIDTH);
        let lines: Vec<&str> = example.lines().collect();
        assert!(lines[0].ends_with(" --json") && lines[1].starts_with("          word"), "{example}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH));
        let command = format!("  firn clean{}", " --policy greedy".repeat(6));
        let broken = lay_out(&command, WIDTH);
        let joined = broken.replace(" \\\n      ", " ");
        assert!(joined == command && broken.lines().count() == 2, "{broken}");
        assert!(broken.lines().all(|line| line.len() <= WIDTH), "{broken}");
    }

    #[test]
    fn the_further_lines_of_a_second_column_move_with_it() {
        let command = format!("  firn {}", "x".repeat(45));
        let gap = " ".repeat(command.len() + 2);
        let text = format!("{command}  begin below 60 clean segments,\n{gap}end at 120");
        assert_eq!(
            lay_out(&text, WIDTH),
            format!("{command}\n          begin below 60 clean segments, end at 120")
        );
        assert_eq!(lay_out(&text, 120), format!("{command}  begin below 60 clean segments, end at 120"));
        let alone = format!("{gap}{}", "word ".repeat(9));
        assert!(lay_out(&alone, WIDTH).starts_with("          word word"), "{}", lay_out(&alone, WIDTH));
        let near = lay_out(&format!("{}{}", " ".repeat(41), "word ".repeat(9)), WIDTH);
        assert!(near.lines().count() == 2 && near.lines().all(|line| line.find('w') == Some(41)), "{near}");
        assert_eq!(lay_out("  a  one\n     two\n  b  three", WIDTH), "  a  one two\n  b  three");
    }

    #[test]
    fn a_wide_terminal_gets_long_lines_of_help_and_a_narrow_one_none() {
        let longest = |columns: usize| {
            let mut whole = command_for(Some(columns), ColorChoice::Never);
            whole.build();
            let tune = whole.find_subcommand("tune").unwrap().clone().render_long_help().to_string();
            tune.lines().map(|line| line.chars().count()).max().unwrap()
        };
        assert!((101..=120).contains(&longest(120)), "{}", longest(120));
        assert!((70..=80).contains(&longest(80)), "{}", longest(80));
    }
}
