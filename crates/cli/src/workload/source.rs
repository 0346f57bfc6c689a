//! Any input of `firn workload`, opened: an iterator of records with a header.

use super::failure_of;
use crate::failure::{Done, Failure};
use firnfs_workload::layout::MAGIC;
use firnfs_workload::{End, Error, Header, Origin, Reader, Record};
use firnfs_workload::{csv, nfsdump, strace};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Size of the buffer before an input, in bytes.
const BUFFER_BYTES: usize = 128 << 10;

/// What an input is.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A workload file
    Firn,
    /// Text of nfsdump
    Nfsdump,
    /// Output of strace -f -y -ttt -T
    Strace,
    /// A table with a line of column names
    Csv,
}

type Input = BufReader<Box<dyn Read>>;

enum Records {
    Firn(Box<Reader<Input>>),
    Nfsdump(Box<nfsdump::Reader<Input>>),
    Strace(Box<strace::Reader<Input>>),
    Csv(Box<csv::Reader<Input>>),
}

/// See the module's head.
pub struct Source {
    records: Records,
    header: Header,
    total_bytes: u64,
}

impl Source {
    /// Opens an input; `-` is standard input. Without a form it has to be a workload file.
    ///
    /// # Errors
    /// It cannot be opened, or its beginning is not what it should be.
    pub fn open(path: &Path, form: Option<Form>) -> Done<Self> {
        let (input, total_bytes): (Box<dyn Read>, u64) = if path == Path::new("-") {
            (Box::new(std::io::stdin()), 0)
        } else {
            let failed = |e: std::io::Error| Failure::io("cannot open", path, &e);
            let file = std::fs::File::open(path).map_err(failed)?;
            let len = file.metadata().map_err(failed)?.len();
            (Box::new(file), len)
        };
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        let (records, header) = begin(input, form).map_err(|error| failure_of(path, &error))?;
        Ok(Self { records, header, total_bytes })
    }

    /// The header; for texts, what one would say. Their start is known once the first record was read.
    pub fn header(&self) -> Header {
        let start_ns = match &self.records {
            Records::Firn(_) => self.header.start_ns,
            Records::Nfsdump(reader) => reader.start_ns(),
            Records::Strace(reader) => reader.start_ns(),
            Records::Csv(reader) => reader.start_ns(),
        };
        Header { start_ns, ..self.header.clone() }
    }

    /// Records that the recorder lost so far.
    pub fn lost(&self) -> u64 {
        if let Records::Firn(reader) = &self.records { reader.lost() } else { 0 }
    }

    /// How a workload file ends; `None` before its end, and for texts.
    pub fn end(&self) -> Option<End> {
        if let Records::Firn(reader) = &self.records { reader.end() } else { None }
    }

    /// Bytes of the input, if known; else 0.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes of the input that were read.
    pub fn read_bytes(&self) -> u64 {
        match &self.records {
            Records::Firn(reader) => reader.read_bytes(),
            Records::Nfsdump(reader) => reader.read_bytes(),
            Records::Strace(reader) => reader.read_bytes(),
            Records::Csv(reader) => reader.read_bytes(),
        }
    }
}

fn begin(mut input: Input, form: Option<Form>) -> Result<(Records, Header), Error> {
    let is_workload = input.fill_buf()?.starts_with(&MAGIC);
    let text = |origin| Header::new(origin);
    Ok(match form {
        _ if is_workload => firn(input)?,
        None | Some(Form::Firn) => firn(input)?,
        Some(Form::Nfsdump) => {
            (Records::Nfsdump(Box::new(nfsdump::Reader::new(input))), text(Origin::Nfsdump))
        }
        Some(Form::Strace) => (Records::Strace(Box::new(strace::Reader::new(input))), text(Origin::Strace)),
        Some(Form::Csv) => (Records::Csv(Box::new(csv::Reader::new(input)?)), text(Origin::Csv)),
    })
}

fn firn(input: Input) -> Result<(Records, Header), Error> {
    let reader = Reader::new(input)?;
    let header = reader.header().clone();
    Ok((Records::Firn(Box::new(reader)), header))
}

impl Iterator for Source {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.records {
            Records::Firn(reader) => reader.next(),
            Records::Nfsdump(reader) => reader.next(),
            Records::Strace(reader) => reader.next(),
            Records::Csv(reader) => reader.next(),
        }
    }
}
