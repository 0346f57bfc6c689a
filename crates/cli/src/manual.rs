//! Man pages and shell completions, generated from the one command-line definition so that they cannot drift from it.

use crate::completion;
use crate::failure::{Done, Failure};
use crate::man_page;
use crate::output::Output;
use crate::recover_page;
use crate::sizes::Count;
use clap::Args;
use clap_complete::Shell;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `firn completions`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn completions bash > /etc/bash_completion.d/firn
  firn completions zsh  > ~/.zfunc/_firn
  firn completions fish > ~/.config/fish/completions/firn.fish

The script asks firn what can follow: commands, options, policies, placements, settings, mounts and files.")]
pub struct CompletionsArgs {
    /// Shell to write completions for
    pub shell: Shell,
}

/// Arguments of `firn man`.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  firn man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Directory to write firn.1, firn-mkfs.1, ... and firn-recover.7 to; made if it does not exist
    pub directory: PathBuf,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// What `firn man` did.
#[derive(Serialize)]
struct Written {
    /// The directory.
    directory: PathBuf,
    /// Number of pages.
    pages: usize,
}

/// Writes the completions of a shell to standard output.
///
/// # Errors
/// Writing fails, or there is no script for the shell.
pub fn completions(args: &CompletionsArgs, output: &mut Output) -> Done {
    let script = completion::script(args.shell)?;
    output.text(|out| out.write_all(&script))
}

/// Writes one page for `firn`, one for each of its commands, and one about getting files back.
///
/// # Errors
/// A file cannot be written.
pub fn man(args: &ManArgs, output: &mut Output) -> Done {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).map_err(|e| Failure::io("cannot create", directory, &e))?;
    // The subcommand `help` has no page.
    let mut command = crate::help::command_for_man().disable_help_subcommand(true);
    command.build();
    let common = man_page::common_exit_codes(&command);
    let count = write_pages(&command, "firn", &common, directory)? + write_recover(directory)?;
    let written = Written { directory: directory.clone(), pages: count };
    output.show(args.json, &written, |out| {
        let pages = Count(written.pages as u64).of("man page", "man pages");
        writeln!(out, "{pages} written to {}", written.directory.display())
    })
}

fn write_pages(command: &clap::Command, name: &str, common: &str, directory: &Path) -> Done<usize> {
    let mut page = Vec::new();
    let path = directory.join(format!("{name}.1"));
    man_page::render(command, name, common, &mut page)
        .and_then(|()| std::fs::write(&path, &page))
        .map_err(|e| Failure::io("cannot write", &path, &e))?;
    let mut inner =
        command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
    inner.try_fold(1, |count, inner| {
        Ok(count + write_pages(inner, &format!("{name}-{}", inner.get_name()), common, directory)?)
    })
}

fn write_recover(directory: &Path) -> Done<usize> {
    let path = directory.join("firn-recover.7");
    let mut page = Vec::new();
    recover_page::render(&mut page)
        .and_then(|()| std::fs::write(&path, &page))
        .map_err(|e| Failure::io("cannot write", &path, &e))?;
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_names_it_and_its_options() {
        let directory = tempfile::tempdir().unwrap();
        let args = ManArgs { directory: directory.path().to_owned(), json: false };
        man(&args, &mut Output::to(Box::new(std::io::sink()))).unwrap();
        let mut command = crate::help::command();
        command.build();
        for inner in command.get_subcommands().filter(|c| c.get_name() != "help" && !c.is_hide_set()) {
            let path = directory.path().join(format!("firn-{}.1", inner.get_name()));
            let page = std::fs::read_to_string(&path).unwrap();
            let shown = inner.get_arguments().filter(|argument| !argument.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long) {
                let escaped = option.replace('-', "\\-");
                assert!(page.contains(&escaped), "{} lacks --{option}", path.display());
            }
        }
    }

    #[test]
    fn every_page_has_files_examples_exit_codes_and_pages_that_exist_to_see_next() {
        let directory = tempfile::tempdir().unwrap();
        let args = ManArgs { directory: directory.path().to_owned(), json: false };
        man(&args, &mut Output::to(Box::new(std::io::sink()))).unwrap();
        let pages = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        for path in pages.filter(|path| path.extension().is_some_and(|section| section == "1")) {
            let page = std::fs::read_to_string(&path).unwrap().replace("\\-", "-").replace("\\*(Aq", "'");
            for section in [".SH \"EXIT STATUS\"", ".SH \"SEE ALSO\"", ".SH EXAMPLES", ".SH FILES\n.TP"] {
                assert!(page.contains(section), "{} {section}", path.display());
            }
            assert!(!page.contains(".SH EXTRA"), "{}", path.display());
            // man(1) indents lines as they are by 7 columns.
            let is_kept = |line: &&str| line.starts_with(' ') && line.chars().count() > 73;
            // A backslash is two there, and one on the screen.
            assert_eq!(page.replace(r"\\", r"\").lines().find(is_kept), None, "{}", path.display());
            let has_own_codes = path.ends_with("firn-fsck.1") || path.ends_with("firn-scrub.1");
            assert_eq!(page.contains("143  ended by SIGTERM"), !has_own_codes, "{}", path.display());
            assert!(!page.contains("firn-help"), "{}", path.display());
            let related = page.split(".SH \"SEE ALSO\"").nth(1).unwrap().lines().nth(1).unwrap();
            // A page that leads only to its own parts, and to the page above it, leads nowhere.
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_command = name.starts_with("firn-") && name.matches('-').count() == 1;
            let leads_on = |page: &str| page != "firn(1)" && !page.starts_with(&format!("{name}-"));
            assert!(!is_command || related.split(", ").any(leads_on), "{name}: {related}");
            // They find the mount, and ask its daemon.
            let wants_mount =
                ["Any path on a mount", "Any path on the mount"].iter().any(|words| page.contains(words));
            assert!(!wants_mount || page.contains("/run/firnfs"), "{name}");
            for ours in related.split(", ").filter_map(|page| page.strip_suffix("(1)")) {
                let is_ours = ours == "firn" || ours.starts_with("firn-");
                assert!(
                    !is_ours || directory.path().join(format!("{ours}.1")).exists(),
                    "{}: {ours}",
                    path.display()
                );
            }
        }
        let recover = std::fs::read_to_string(directory.path().join("firn-recover.7")).unwrap();
        assert!(recover.contains(".SH FILES") && recover.contains(".SH EXAMPLES"), "{recover}");
        let fsck = std::fs::read_to_string(directory.path().join("firn-fsck.1")).unwrap();
        assert!(fsck.contains("lost+found") && fsck.contains(".SH FILES"), "{fsck}");
        for asks_a_daemon in ["watch", "tune", "record-start"] {
            let page =
                std::fs::read_to_string(directory.path().join(format!("firn-{asks_a_daemon}.1"))).unwrap();
            assert!(page.contains("/run/firnfs"), "{asks_a_daemon}");
        }
    }

    #[test]
    fn every_shell_gets_a_script_that_asks_firn() {
        use clap::ValueEnum;
        for shell in Shell::value_variants() {
            let script = String::from_utf8(completion::script(*shell).unwrap()).unwrap();
            assert!(script.contains("FIRN_COMPLETE"), "{shell}: {script}");
        }
    }
}
