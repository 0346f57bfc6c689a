//! The phases of the Andrew benchmark with a real compiler: directories, a copy, the status of every file, every byte, and `cc`.
//!
//! The sources are written here, so that they are the same everywhere: small C files with functions that call each other. They
//! lie in the program's temporary directory; the tree that is made, examined and compiled lies in the directory that is measured.

use super::{Measured, Place, expect};
use crate::error::LabError;
use crate::micro::tool;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORIES: u64 = 20;

fn source(number: u64) -> String {
    let mut text = format!("#include <stdio.h>\n#include <string.h>\n/* unit {number} */\n");
    for function in 0..12 {
        text += &format!(
            "int unit{number}_f{function}(const char *text, int n) {{\n    char copy[64];\n    \
             snprintf(copy, sizeof copy, \"%s-%d\", text, n + {function});\n    \
             return (int)strlen(copy) * {number} + n;\n}}\n"
        );
    }
    text
}

struct Tree {
    directories: Vec<PathBuf>,
    files: Vec<(PathBuf, String)>,
}

/// 70 files in 20 directories.
fn tree(place: &Place<'_>) -> Tree {
    let directories: Vec<PathBuf> = (0..DIRECTORIES).map(|n| place.path(format!("dir{n:02}"))).collect();
    let file = |n: u64| (directories[(n % DIRECTORIES) as usize].join(format!("unit{n}.c")), source(n));
    let files = (0..place.amount(70, 7)).map(file).collect();
    Tree { directories, files }
}

fn read(path: &Path, written: &str) -> Result<(), LabError> {
    let found = std::fs::read(path).map_err(LabError::io("read", path))?;
    expect(path, &found, written.as_bytes())
}

/// Runs the five phases.
pub(super) fn run(place: &Place<'_>) -> Result<Vec<Measured>, LabError> {
    let Tree { directories, files } = tree(place);
    let count = files.len() as u64;
    let make = || {
        for path in &directories {
            std::fs::create_dir(path).map_err(LabError::io("create", path))?;
        }
        Ok(DIRECTORIES)
    };
    let copy = || {
        for (path, text) in &files {
            std::fs::write(path, text).map_err(LabError::io("write", path))?;
        }
        Ok(count)
    };
    let examine = || {
        let mut seen = 0;
        for directory in &directories {
            for entry in std::fs::read_dir(directory).map_err(LabError::io("list", directory))? {
                let entry = entry.map_err(LabError::io("list", directory))?;
                entry.metadata().map_err(LabError::io("examine", directory))?;
                seen += 1;
            }
        }
        Ok(seen)
    };
    let read_all = || {
        files.iter().try_for_each(|(path, text)| read(path, text))?;
        Ok(count)
    };
    let compile = || {
        for (path, _) in &files {
            tool::run(Command::new("cc").args(["-O1", "-c", "-o"]).arg(path.with_extension("o")).arg(path))?;
            place.stop.check()?;
        }
        Ok(count)
    };
    Ok(vec![
        place.time_durable("1 make directories", make)?,
        place.time_durable("2 copy", copy)?,
        place.time("3 examine", examine)?,
        place.time("4 read", read_all)?,
        place.time_durable("5 compile", compile)?,
    ])
}
