//! The copyright file of a Debian package (machine-readable, version 1.0): what is written by hand, then a paragraph for each crate
//! in the program, then the texts of licences that are not there yet.

use crate::chosen;
use crate::crates::Crate;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Licences whose texts every Debian system has.
const COMMON: [&str; 2] = ["Apache-2.0", "CC0-1.0"];

/// Width of the texts, without the space in front.
const COLUMNS: usize = 78;

/// The file. `head` is what is written by hand; `allowed` the licences to choose from, the preferred first.
///
/// # Errors
/// A crate that no allowed licence covers, or a licence without a text.
pub fn copyright_file(head: &str, crates: &[Crate], allowed: &[String]) -> Result<String, String> {
    let mut out = format!("{}\n", head.trim_end());
    let mut licences = BTreeSet::new();
    for one in crates {
        let needed = chosen(&one.expression, allowed)
            .ok_or_else(|| format!("{}: {} is not allowed", one.name, one.expression))?;
        out += &paragraph(one, &needed);
        licences.extend(needed);
    }
    for name in licences {
        if !head.lines().any(|line| line.strip_prefix("License: ") == Some(&name)) {
            out += &text_of(&name)?;
        }
    }
    Ok(out)
}

fn paragraph(one: &Crate, needed: &[String]) -> String {
    let holders: BTreeSet<&str> = one.copyright.iter().map(|line| bare(line)).collect();
    let holders = holders.into_iter().collect::<Vec<_>>().join("\n           ");
    let (name, needed) = (&one.name, needed.join(" and "));
    let mut out = format!("\nFiles: crates/{name}/*\nCopyright: {holders}\nLicense: {needed}\n");
    if one.expression != needed {
        writeln!(out, "Comment: offered under {}", one.expression).expect("memory takes everything");
    }
    out
}

/// `2015 Somebody` of `Copyright (c) 2015 Somebody`: the field says the rest.
fn bare(line: &str) -> &str {
    let line = line.strip_prefix("Copyright").unwrap_or(line).trim_start_matches([':', ' ']);
    let line = ["(c)", "(C)", "©"].iter().find_map(|sign| line.strip_prefix(sign)).unwrap_or(line);
    line.trim()
}

fn text_of(name: &str) -> Result<String, String> {
    if COMMON.contains(&name) {
        return Ok(format!(
            "\nLicense: {name}\n On Debian systems the text is in /usr/share/common-licenses/{name}.\n"
        ));
    }
    let known = spdx::text::LICENSE_TEXTS.iter().find(|(id, _)| *id == name);
    let (_, text) = known.ok_or_else(|| format!("{name}: no text is known"))?;
    let mut out = format!("\nLicense: {name}\n");
    // The paragraphs above name the holders of the copyright.
    let lines = text.trim().lines().map(str::trim_end).filter(|line| !line.starts_with("Copyright"));
    for line in lines.flat_map(broken) {
        writeln!(out, " {}", if line.is_empty() { "." } else { &line }).expect("memory takes everything");
    }
    Ok(out)
}

/// A line of a text, broken between words so that it fits a terminal.
fn broken(line: &str) -> Vec<String> {
    let words = line.split_whitespace();
    let margin = &line[..line.len() - line.trim_start().len()];
    let mut lines = vec![margin.to_owned()];
    for word in words {
        let last = lines.last_mut().expect("one at least");
        if last.len() > margin.len() && last.len() + 1 + word.len() > COLUMNS {
            lines.push(format!("{margin}{word}"));
        } else {
            let gap = if last.len() > margin.len() { " " } else { "" };
            *last += &format!("{gap}{word}");
        }
    }
    lines
}
