//! A record: one operation on a file system, as its caller saw it.

use std::fmt;

/// Names a file for the length of a workload: an inode number, or a hash of what the origin calls it. 0 is no file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FileId(pub u64);

impl FileId {
    /// No file, or not known which.
    pub const NONE: Self = Self(0);

    /// A file that its origin names with bytes (an NFS file handle, a path). The same bytes are always the same file.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        use std::hash::Hasher;
        let mut hasher = siphasher::sip::SipHasher13::new_with_keys(0, 0);
        hasher.write(bytes);
        Self(hasher.finish().max(1))
    }

    /// Whether it names a file.
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What was asked. docs/internals/workload.md says for each one which fields of the record it uses.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Op {
            $($(#[$doc])* $name = $code,)*
        }

        impl Op {
            /// All operations, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The operation with that code in the file.
            #[must_use]
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its name in texts.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

operations! {
    /// Finds a name in a directory.
    Lookup = 1, "lookup";
    /// Reads attributes.
    Getattr = 2, "getattr";
    /// Changes attributes other than the size.
    Setattr = 3, "setattr";
    /// Changes the size.
    Truncate = 4, "truncate";
    /// Reads the target of a symbolic link.
    Readlink = 5, "readlink";
    /// Makes a symbolic link; `to_name` is the target.
    Symlink = 6, "symlink";
    /// Makes a device, a fifo, a socket, or a regular file without opening it.
    Mknod = 7, "mknod";
    /// Makes a directory.
    Mkdir = 8, "mkdir";
    /// Removes a name.
    Unlink = 9, "unlink";
    /// Removes a directory.
    Rmdir = 10, "rmdir";
    /// Moves a name.
    Rename = 11, "rename";
    /// Adds a name to a file.
    Link = 12, "link";
    /// Opens an existing file or directory.
    Open = 13, "open";
    /// Makes and opens a regular file; the origin may also use it for opening one that exists with O_CREAT.
    Create = 14, "create";
    /// Makes and opens a file without a name.
    Tmpfile = 15, "tmpfile";
    /// Closes.
    Close = 16, "close";
    /// Reads content.
    Read = 17, "read";
    /// Writes content.
    Write = 18, "write";
    /// Makes a file or directory durable.
    Fsync = 19, "fsync";
    /// Makes everything durable.
    Sync = 20, "sync";
    /// Lists a directory.
    Readdir = 21, "readdir";
    /// Asks for the space of the file system.
    Statfs = 22, "statfs";
    /// Asks for permissions.
    Access = 23, "access";
    /// Reads an extended attribute.
    Getxattr = 24, "getxattr";
    /// Sets an extended attribute.
    Setxattr = 25, "setxattr";
    /// Lists extended attributes.
    Listxattr = 26, "listxattr";
    /// Removes an extended attribute.
    Removexattr = 27, "removexattr";
    /// Allocates space, or frees it.
    Fallocate = 28, "fallocate";
    /// Finds data or holes.
    Seek = 29, "seek";
    /// Copies content between files.
    Copy = 30, "copy";
}

impl Op {
    /// The operation of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Outcome {
    /// The origin does not say.
    #[default]
    Unknown,
    /// It was done. The number counts bytes where the operation moves bytes, and is 0 otherwise (Seek: the place found).
    Done(u64),
    /// It failed with this errno (Linux).
    Failed(u32),
}

/// One operation. `N` is what holds a name: `Vec<u8>` from readers, `&[u8]` from recorders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record<N = Vec<u8>> {
    /// When it began, in nanoseconds since the workload's start.
    pub time_ns: u64,
    /// How long it took, in nanoseconds, if the origin says.
    pub duration_ns: Option<u64>,
    /// The client, if known: a thread, a process, or a machine. 0 is unknown.
    pub client: u32,
    /// What was asked.
    pub op: Op,
    /// The file or directory that it is about.
    pub file: FileId,
    /// A name in that directory, or of an attribute; a path if `file` is not a directory that the origin knows. Empty: none.
    pub name: N,
    /// The second file or directory (Rename, Link, Copy).
    pub to_file: FileId,
    /// The second name (Rename, Link), or the target (Symlink). Empty: none.
    pub to_name: N,
    /// The file that was found or made.
    pub made: FileId,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// Where in the second file, in bytes (Copy).
    pub to_offset: Option<u64>,
    /// How many bytes were asked for; the new size (Truncate).
    pub length: Option<u64>,
    /// The mode of a new file, the flags of the call: see the operation.
    pub argument: Option<u32>,
    /// How it ended.
    pub outcome: Outcome,
}

impl<N: Default> Record<N> {
    /// An operation with nothing but a time and a file.
    #[must_use]
    pub fn new(time_ns: u64, op: Op, file: FileId) -> Self {
        Self {
            time_ns,
            duration_ns: None,
            client: 0,
            op,
            file,
            name: N::default(),
            to_file: FileId::NONE,
            to_name: N::default(),
            made: FileId::NONE,
            offset: None,
            to_offset: None,
            length: None,
            argument: None,
            outcome: Outcome::Unknown,
        }
    }
}

impl<N> Record<N> {
    /// When it ended, as far as known, in nanoseconds since the workload's start.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.time_ns.saturating_add(self.duration_ns.unwrap_or(0))
    }
}

/// One line for people.
impl<N: AsRef<[u8]>> fmt::Display for Record<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>14.6} {:<11}", self.time_ns as f64 / 1e9, self.op.name())?;
        if self.client != 0 {
            write!(f, " client={}", self.client)?;
        }
        for (label, file) in [("file", self.file), ("to_file", self.to_file), ("made", self.made)] {
            if file.is_some() {
                write!(f, " {label}={}", file.0)?;
            }
        }
        for (label, name) in [("name", self.name.as_ref()), ("to_name", self.to_name.as_ref())] {
            if !name.is_empty() {
                write!(f, " {label}=\"{}\"", name.escape_ascii())?;
            }
        }
        for (label, number) in
            [("offset", self.offset), ("to_offset", self.to_offset), ("length", self.length)]
        {
            if let Some(number) = number {
                write!(f, " {label}={number}")?;
            }
        }
        if let Some(argument) = self.argument {
            write!(f, " argument=0{argument:o}")?;
        }
        match self.outcome {
            Outcome::Unknown => f.write_str(" -> ?")?,
            Outcome::Done(count) => write!(f, " -> {count}")?,
            Outcome::Failed(errno) => write!(f, " -> error {errno}")?,
        }
        match self.duration_ns {
            Some(ns) => write!(f, " in {:.1} us", ns as f64 / 1e3),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_of_operations_lead_back_to_them() {
        for (at, op) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, at + 1);
            assert_eq!(Op::from_code(*op as u8), Some(*op));
            assert_eq!(Op::from_name(op.name()), Some(*op));
        }
        assert_eq!(Op::from_code(0), None);
        assert_eq!(Op::from_code(Op::ALL.len() as u8 + 1), None);
    }

    #[test]
    fn a_line_shows_only_what_the_record_has() {
        let mut record: Record<&[u8]> = Record::new(1_500_000_000, Op::Create, FileId(1));
        record.name = b"a \n";
        record.argument = Some(0o644);
        record.outcome = Outcome::Done(0);
        assert_eq!(record.to_string(), "      1.500000 create      file=1 name=\"a \\n\" argument=0644 -> 0");
    }
}
