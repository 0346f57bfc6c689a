//! Reading parameter files: TOML in which each value may name its source, and every value is checked.
//!
//! A value is written `key = { value = 4002, source = "data sheet" }`, or bare, `key = 4002`. Unknown keys are errors, so that
//! a misspelt one does not leave a default in force. Callers: `disk::params`, `machine::params`.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use toml::{Table, Value};

/// Why a parameter file was refused: the file, the key, and what is allowed there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}: {}{reason}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct ParamError {
    /// Path or name of the file.
    pub file: String,
    /// The key with its sections, `rotation.rpm`; empty if it is the whole file.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

/// A value and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sourced {
    /// The key with its sections.
    pub key: String,
    /// The value as the file has it.
    pub value: String,
    /// Paper and table, data sheet, or the reason for an assumption; empty if the file does not say.
    pub source: String,
}

/// A parameter file, or one of its sections, being read.
pub(crate) struct Section<'a> {
    file: &'a str,
    path: String,
    table: &'a Table,
    seen: RefCell<Vec<String>>,
    sources: &'a RefCell<Vec<Sourced>>,
}

/// Parses the text of a file.
pub(crate) fn parse(file: &str, text: &str) -> Result<Table, ParamError> {
    text.parse::<Table>().map_err(|error| {
        let reason = error.message().to_owned();
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let reason = line.map_or(reason.clone(), |line| format!("line {line}: {reason}"));
        ParamError { file: file.to_owned(), key: String::new(), reason }
    })
}

impl<'a> Section<'a> {
    /// The whole file; every value that is read is noted in `sources`.
    pub fn root(file: &'a str, table: &'a Table, sources: &'a RefCell<Vec<Sourced>>) -> Self {
        Self { file, path: String::new(), table, seen: RefCell::default(), sources }
    }

    /// A section of this one.
    pub fn section(&self, key: &str) -> Result<Section<'a>, ParamError> {
        self.seen.borrow_mut().push(key.to_owned());
        match self.table.get(key) {
            Some(Value::Table(table)) => Ok(Section {
                file: self.file,
                path: self.full(key),
                table,
                seen: RefCell::default(),
                sources: self.sources,
            }),
            Some(_) => Err(self.error(key, "must be a section")),
            None => Err(self.error(key, "the section is missing")),
        }
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// An error at a key of this section.
    pub fn error(&self, key: &str, reason: impl Into<String>) -> ParamError {
        ParamError { file: self.file.to_owned(), key: self.full(key), reason: reason.into() }
    }

    /// A value, with its source noted.
    pub fn value(&self, key: &str) -> Result<&'a Value, ParamError> {
        self.optional(key)?.ok_or_else(|| self.error(key, "is missing"))
    }

    /// The same, for a key that may be absent.
    pub fn optional(&self, key: &str) -> Result<Option<&'a Value>, ParamError> {
        self.seen.borrow_mut().push(key.to_owned());
        let Some(found) = self.table.get(key) else { return Ok(None) };
        let (value, source) = match found {
            Value::Table(pair) => {
                let known = |name: &String| name == "value" || name == "source";
                if let Some(other) = pair.keys().find(|name| !known(name)) {
                    return Err(self.error(key, format!("{other} is unknown; allowed: value and source")));
                }
                let value = pair.get("value").ok_or_else(|| self.error(key, "has no value"))?;
                (value, pair.get("source").and_then(Value::as_str).unwrap_or_default())
            }
            bare => (bare, ""),
        };
        let noted = Sourced { key: self.full(key), value: value.to_string(), source: source.to_owned() };
        self.sources.borrow_mut().push(noted);
        Ok(Some(value))
    }

    /// A number within a range.
    pub fn number(&self, key: &str, allowed: RangeInclusive<f64>) -> Result<f64, ParamError> {
        self.checked_number(key, self.value(key)?, allowed)
    }

    /// The same, for a key that may be absent.
    pub fn optional_number(
        &self,
        key: &str,
        allowed: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ParamError> {
        self.optional(key)?.map(|value| self.checked_number(key, value, allowed)).transpose()
    }

    fn checked_number(
        &self,
        key: &str,
        value: &Value,
        allowed: RangeInclusive<f64>,
    ) -> Result<f64, ParamError> {
        let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
        number.filter(|number| allowed.contains(number)).ok_or_else(|| {
            let range = format!("{} to {}", allowed.start(), allowed.end());
            self.error(key, format!("is {value}; allowed: a number from {range}"))
        })
    }

    /// A whole number within a range.
    pub fn integer(&self, key: &str, allowed: RangeInclusive<u32>) -> Result<u32, ParamError> {
        self.whole(key, self.value(key)?, allowed)
    }

    /// Checks a value that is to be a whole number.
    pub fn whole(&self, key: &str, value: &Value, allowed: RangeInclusive<u32>) -> Result<u32, ParamError> {
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| allowed.contains(number)).ok_or_else(|| {
            let range = format!("{} to {}", allowed.start(), allowed.end());
            self.error(key, format!("is {value}; allowed: a whole number from {range}"))
        })
    }

    /// True or false.
    pub fn flag(&self, key: &str) -> Result<bool, ParamError> {
        let value = self.value(key)?;
        value.as_bool().ok_or_else(|| self.error(key, format!("is {value}; allowed: true or false")))
    }

    /// One of some words.
    pub fn word(&self, key: &str, allowed: &[&str]) -> Result<&'a str, ParamError> {
        let value = self.value(key)?;
        let found = value.as_str().filter(|word| allowed.contains(word));
        found.ok_or_else(|| self.error(key, format!("is {value}; allowed: {}", allowed.join(", "))))
    }

    /// Any text.
    pub fn text(&self, key: &str) -> Result<&'a str, ParamError> {
        let value = self.value(key)?;
        value.as_str().ok_or_else(|| self.error(key, format!("is {value}; allowed: a text")))
    }

    /// A list.
    pub fn list(&self, key: &str) -> Result<&'a [Value], ParamError> {
        let value = self.value(key)?;
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.error(key, "allowed: a list"))
    }

    /// Fails if the section has a key that was not asked for.
    pub fn finish(&self) -> Result<(), ParamError> {
        let seen = self.seen.borrow();
        match self.table.keys().find(|key| !seen.contains(key)) {
            Some(unknown) => Err(self.error(unknown, format!("is unknown; allowed: {}", seen.join(", ")))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T>(text: &str, read: impl FnOnce(&Section<'_>) -> Result<T, ParamError>) -> Result<T, String> {
        let sources = RefCell::default();
        let table = parse("disk.toml", text).map_err(|e| e.to_string())?;
        read(&Section::root("disk.toml", &table, &sources)).map_err(|e| e.to_string())
    }

    #[test]
    fn errors_name_the_file_the_key_and_what_is_allowed() {
        let rpm =
            |text: &str| read(text, |file| file.section("rotation")?.number("rpm", 60.0..=1e5)).unwrap_err();
        assert_eq!(
            rpm("[rotation]\nrpm = 0"),
            "disk.toml: rotation.rpm: is 0; allowed: a number from 60 to 100000"
        );
        assert_eq!(rpm("[rotation]\n"), "disk.toml: rotation.rpm: is missing");
        assert_eq!(rpm(""), "disk.toml: rotation: the section is missing");
        assert!(rpm("[rotation]\nrpm = nan").starts_with("disk.toml: rotation.rpm: is nan; allowed"));
        assert_eq!(
            rpm("[rotation]\nrpm = { value = 7200, sauce = \"x\" }"),
            "disk.toml: rotation.rpm: sauce is unknown; allowed: value and source"
        );
        let heads = read("heads = 2.5", |file| file.integer("heads", 1..=64)).unwrap_err();
        assert_eq!(heads, "disk.toml: heads: is 2.5; allowed: a whole number from 1 to 64");
        assert!(read("a = [", |_| Ok(())).unwrap_err().starts_with("disk.toml: line 1: "));
        let unknown = read("a = 1\nb = 2", |file| file.integer("a", 0..=9).and_then(|_| file.finish()));
        assert_eq!(unknown.unwrap_err(), "disk.toml: b: is unknown; allowed: a");
    }

    #[test]
    fn sources_are_kept_with_the_values() {
        let sources = RefCell::default();
        let table = parse("d", "[r]\nrpm = { value = 4002, source = \"a paper\" }\nx = true").unwrap();
        let file = Section::root("d", &table, &sources);
        let section = file.section("r").unwrap();
        assert_eq!(section.number("rpm", 1.0..=1e4), Ok(4002.0));
        assert_eq!(section.flag("x"), Ok(true));
        let found: Vec<(String, String)> =
            sources.take().into_iter().map(|s: Sourced| (s.key, s.source)).collect();
        assert_eq!(found, [("r.rpm".into(), "a paper".into()), ("r.x".into(), String::new())]);
    }
}
