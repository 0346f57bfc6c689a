//! As much of HTTP/1.1 as a page for one person needs: one GET a connection, a bounded head, no body.
//!
//! `httparse` reads the head. Invariants: at most [`HEAD_MAX`] bytes are read; a caller that is slower than [`PATIENCE`] is cut
//! off; every answer carries the headers of [`HEADERS`].

use std::io::{self, Read, Write};
use std::time::Duration;

/// Bytes of a request's head at most.
pub const HEAD_MAX: usize = 8 << 10;
/// Time for a request's head, and for the answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
const FIELDS_MAX: usize = 64;

/// What protects the page and the token in its address: nothing is stored, framed, sniffed, or told to other sites.
const HEADERS: &str = "Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n\
Cross-Origin-Opener-Policy: same-origin\r\n";

/// A request that can be answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its method, as it came.
    pub method: String,
    /// Path and query, as they came.
    pub target: String,
}

/// Reads the head of a request; `None` if it is none, or too long.
///
/// # Errors
/// The connection broke, or its other end is too slow.
pub fn read_request(input: &mut impl Read) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        let len = input.read(&mut part)?;
        head.extend_from_slice(&part[..len]);
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) => {
                let (Some(method), Some(target)) = (request.method, request.path) else { return Ok(None) };
                return Ok(Some(Request { method: method.to_owned(), target: target.to_owned() }));
            }
            Ok(httparse::Status::Partial) if len > 0 && head.len() < HEAD_MAX => {}
            _ => return Ok(None),
        }
    }
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Code and word.
    pub status: &'static str,
    /// `Content-Type`.
    pub kind: &'static str,
    /// `Content-Security-Policy`.
    pub policy: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer without content of its own.
    #[must_use]
    pub fn plain(status: &'static str) -> Self {
        let policy = "default-src 'none'".to_owned();
        Self { status, kind: "text/plain; charset=utf-8", policy, body: format!("{status}\n").into_bytes() }
    }

    /// Sends it.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { status, kind, policy, body } = self;
        write!(
            out,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nContent-Security-Policy: {policy}\r\n{HEADERS}\r\n",
            body.len()
        )?;
        out.write_all(body)?;
        out.flush()
    }
}
