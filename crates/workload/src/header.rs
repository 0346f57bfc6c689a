//! The header of a workload file: where it comes from, and with which options it was made.

use crate::error::Error;
use crate::layout::{HeaderRaw, MAGIC, TEXT_MAX_BYTES, VERSION, crc32c_of};
use crate::names::Naming;
use std::io::Read;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Where a workload comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Origin {
    /// A mount of firnfs recorded it.
    Mount = 1,
    /// A trace of NFS calls by nfsdump.
    Nfsdump = 2,
    /// A trace of system calls by strace.
    Strace = 3,
    /// A table of comma-separated values.
    Csv = 4,
    /// A program made it up: from snapshots, a repository, or a generator. The options say how.
    Made = 5,
}

impl Origin {
    const ALL: [Self; 5] = [Self::Mount, Self::Nfsdump, Self::Strace, Self::Csv, Self::Made];

    /// Its name in texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Nfsdump => "nfsdump",
            Self::Strace => "strace",
            Self::Csv => "csv",
            Self::Made => "made",
        }
    }
}

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Where the records come from.
    pub origin: Origin,
    /// What stands for names.
    pub naming: Naming,
    /// Nanoseconds since 1970 at which the records' time is zero; 0 is unknown.
    pub start_ns: u64,
    /// Random; the same in all parts of one recording. All zeros: the file stands alone.
    pub recording: [u8; 16],
    /// Number of this file among the parts of the recording, from 0.
    pub part: u32,
    /// Options with which the workload was made, as names and values. No name has `=`, and neither has a newline.
    pub options: Vec<(String, String)>,
}

impl Header {
    /// A header without a start and without options.
    #[must_use]
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            naming: Naming::AsGiven,
            start_ns: 0,
            recording: [0; 16],
            part: 0,
            options: Vec::new(),
        }
    }

    /// The header as bytes. Options that do not fit into [`TEXT_MAX_BYTES`] are left out; a newline in an option becomes a space.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = String::new();
        for (name, value) in &self.options {
            let line = format!("{}={}\n", name.replace(['=', '\n'], " "), value.replace('\n', " "));
            if text.len() + line.len() <= TEXT_MAX_BYTES {
                text.push_str(&line);
            }
        }
        let mut raw = HeaderRaw {
            magic: MAGIC,
            version: VERSION.into(),
            origin: (self.origin as u16).into(),
            naming: (self.naming as u16).into(),
            start_ns: self.start_ns.into(),
            recording: self.recording,
            part: self.part.into(),
            text_bytes: (text.len() as u32).into(),
            ..HeaderRaw::new_zeroed()
        };
        raw.crc = crc_of(raw, text.as_bytes()).into();
        [raw.as_bytes(), text.as_bytes()].concat()
    }

    /// Reads a header and its text; returns how many bytes they take too.
    ///
    /// # Errors
    /// Not a workload, a newer version, cut short, or damaged.
    pub fn read(input: &mut impl Read) -> Result<(Self, u64), Error> {
        let mut bytes = [0; size_of::<HeaderRaw>()];
        let filled = fill(input, &mut bytes)?;
        if !bytes[..filled].starts_with(&MAGIC) {
            return Err(Error::NotAWorkload);
        }
        let cut = || Error::Header("the file ends within it".into());
        if filled < bytes.len() {
            return Err(cut());
        }
        let raw = HeaderRaw::read_from_bytes(&bytes).map_err(|_| cut())?;
        // Before the checksum: a later version may have its checksum elsewhere.
        if raw.version.get() > VERSION {
            return Err(Error::Version(raw.version.get()));
        }
        let text_bytes = raw.text_bytes.get() as usize;
        if text_bytes > TEXT_MAX_BYTES {
            return Err(Error::Header(format!(
                "it claims {text_bytes} bytes of text, more than {TEXT_MAX_BYTES}"
            )));
        }
        let mut text = vec![0; text_bytes];
        if fill(input, &mut text)? < text_bytes {
            return Err(cut());
        }
        let (expected, found) = (raw.crc.get(), crc_of(raw, &text));
        if expected != found {
            return Err(Error::Header(format!(
                "its checksum is {found:08x}, not {expected:08x} as it states"
            )));
        }
        Ok((Self::of(&raw, &text)?, (bytes.len() + text.len()) as u64))
    }

    fn of(raw: &HeaderRaw, text: &[u8]) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Header(what.to_owned());
        let origin = Origin::ALL.into_iter().find(|origin| *origin as u16 == raw.origin.get());
        let text = str::from_utf8(text).map_err(|_| wrong("its text is not UTF-8"))?;
        let options = text
            .lines()
            .map(|line| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
        if raw.version.get() != VERSION || raw.zero.get() != 0 || raw.reserved != [0; 12] {
            return Err(wrong("a field that has to be zero is not, or the version is 0"));
        }
        Ok(Self {
            origin: origin.ok_or_else(|| wrong("it has an unknown origin"))?,
            naming: Naming::from_code(raw.naming.get()).ok_or_else(|| wrong("it has an unknown naming"))?,
            start_ns: raw.start_ns.get(),
            recording: raw.recording,
            part: raw.part.get(),
            options: options.collect::<Option<_>>().ok_or_else(|| wrong("an option has no value"))?,
        })
    }
}

fn crc_of(mut raw: HeaderRaw, text: &[u8]) -> u32 {
    raw.crc = 0.into();
    crc32c_of(raw.as_bytes(), text)
}

/// Reads until the buffer is full or the input ends; returns how many bytes there were.
pub(crate) fn fill(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
