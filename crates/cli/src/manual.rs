//! Man pages and shell completions, generated from the one command-line definition so that they cannot drift from it.

use crate::failure::{Done, Failure};
use crate::output::Output;
use clap::Args;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// Arguments of `firn completions`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn completions bash > /etc/bash_completion.d/firn
  firn completions zsh  > ~/.zfunc/_firn
  firn completions fish > ~/.config/fish/completions/firn.fish")]
pub struct CompletionsArgs {
    /// Shell to write completions for
    pub shell: Shell,
}

/// Arguments of `firn man`.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  firn man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Directory to write firn.1, firn-mkfs.1, ... to; made if it does not exist
    pub directory: PathBuf,
}

/// Writes the completions of a shell to standard output.
///
/// # Errors
/// Writing fails.
pub fn completions(args: &CompletionsArgs, output: &mut Output) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::help::command(), "firn", &mut script);
    output.text(|out| out.write_all(&script))
}

/// Writes one page for `firn` and one for each of its commands.
///
/// # Errors
/// A file cannot be written.
pub fn man(args: &ManArgs, output: &mut Output) -> Done {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).map_err(|e| Failure::io("cannot create", directory, &e))?;
    let mut command = crate::help::command();
    command.build();
    let count = write_pages(&command, "firn", directory)?;
    output.text(|out| writeln!(out, "{count} man pages written to {}", directory.display()))
}

fn write_pages(command: &clap::Command, name: &str, directory: &Path) -> Done<usize> {
    let mut page = Vec::new();
    let path = directory.join(format!("{name}.1"));
    clap_mangen::Man::new(command.clone())
        .render(&mut page)
        .and_then(|()| std::fs::write(&path, &page))
        .map_err(|e| Failure::io("cannot write", &path, &e))?;
    let mut inner =
        command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
    inner.try_fold(1, |count, inner| {
        Ok(count + write_pages(inner, &format!("{name}-{}", inner.get_name()), directory)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_names_it_and_its_options() {
        let directory = tempfile::tempdir().unwrap();
        let args = ManArgs { directory: directory.path().to_owned() };
        man(&args, &mut Output::to(Box::new(std::io::sink()))).unwrap();
        let mut command = crate::help::command();
        command.build();
        for inner in command.get_subcommands().filter(|c| c.get_name() != "help" && !c.is_hide_set()) {
            let path = directory.path().join(format!("firn-{}.1", inner.get_name()));
            let page = std::fs::read_to_string(&path).unwrap();
            for option in inner.get_arguments().filter_map(clap::Arg::get_long) {
                let escaped = option.replace('-', "\\-");
                assert!(page.contains(&escaped), "{} lacks --{option}", path.display());
            }
        }
    }

    #[test]
    fn every_shell_gets_completions_with_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::help::command(), "firn", &mut script);
            let script = String::from_utf8(script).unwrap();
            for inner in crate::help::command().get_subcommands().filter(|c| !c.is_hide_set()) {
                assert!(script.contains(inner.get_name()), "{shell}: {}", inner.get_name());
            }
        }
    }
}
