//! Parameter files of machines, checked. Those that come with the program are in `crates/sim/params/machines`; `paths.toml`
//! there has the values common to all machines.

use crate::machine::cpu::{CpuModel, Paths};
use crate::params::{ParamError, Section, parse};
use std::cell::RefCell;

pub use crate::params::Sourced;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../params/machines/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] =
    files!["sun4-260", "hp9000-380", "sparcstation1", "sparcstation2", "pentium-pro"];
const PATHS: &str = include_str!("../../params/machines/paths.toml");

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

pub(super) fn text_of(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

pub(super) fn read(file: &str, text: &str) -> Result<CpuModel, ParamError> {
    let sources = RefCell::default();
    let table = parse(file, text)?;
    let root = Section::root(file, &table, &sources);
    let title = root.text("title")?.to_owned();
    let cpu = root.section("cpu")?;
    let mips = cpu.number("mips", 0.01..=1e6)?;
    let copy_mb_per_s = cpu.number("copy_mb_per_s", 0.01..=1e6)?;
    let system_call_us = cpu.optional_number("system_call_us", 0.0..=1e5)?;
    cpu.finish()?;
    root.finish()?;
    let paths = paths(&sources)?;
    let system_call_ns = system_call_us.map(|us| (us * 1000.0) as i64);
    Ok(CpuModel { title, mips, copy_mb_per_s, paths, system_call_ns, sources: sources.take() })
}

fn paths(sources: &RefCell<Vec<Sourced>>) -> Result<Paths, ParamError> {
    let table = parse("paths.toml", PATHS)?;
    let root = Section::root("paths.toml", &table, sources);
    let instructions = root.section("instructions")?;
    let count = |key| instructions.number(key, 0.0..=1e9);
    let paths = Paths {
        system_call: count("system_call")?,
        block: count("block")?,
        entry: count("entry")?,
        command: count("command")?,
        checksum_word: count("checksum_word")?,
    };
    instructions.finish()?;
    Ok(paths)
}
