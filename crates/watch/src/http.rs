//! As much of HTTP/1.1 as small servers need, for clients that nobody trusts: one request without a body on a connection.
//! `httparse` reads the head.
//!
//! Bounds, whatever clients send: as many connections at a time as the server asks for, further ones are refused at once; a
//! connection ends after [`CONNECTION_TIME`] and one request of [`HEAD_MAX_BYTES`]. Callers: the page of `firn watch` ([`crate::web`]),
//! the metrics of a mount.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a request's head at most.
pub const HEAD_MAX_BYTES: usize = 8 << 10;
/// Time of a connection.
pub const CONNECTION_TIME: Duration = Duration::from_secs(5);
const FIELDS_MAX: usize = 64;
/// Bytes handed to the kernel at a time, so that a slow reader meets the deadline.
const WRITTEN_AT_ONCE_BYTES: usize = 16 << 10;
/// Pause after a failed accept: probably too few descriptors.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(100);

/// Text for people.
pub const PLAIN: &str = "text/plain; charset=utf-8";

/// A request, as far as it matters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its method, as it came.
    pub method: String,
    /// Path and query, as they came.
    pub target: String,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Code and words.
    pub status: &'static str,
    /// `Content-Type`.
    pub kind: &'static str,
    /// Further lines of the head, each with its end.
    pub head: String,
    /// The body.
    pub body: Arc<[u8]>,
}

impl Answer {
    /// An answer in words.
    #[must_use]
    pub fn plain(status: &'static str, body: &str) -> Self {
        Self { status, kind: PLAIN, head: String::new(), body: body.as_bytes().into() }
    }

    /// An answer that only has its status.
    #[must_use]
    pub fn refusal(status: &'static str) -> Self {
        Self::plain(status, &format!("{status}\n"))
    }

    fn head(&self) -> String {
        let Self { status, kind, head, body } = self;
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n{head}\r\n",
            body.len()
        )
    }
}

/// A bound address that nobody serves yet.
pub struct Listener {
    listener: TcpListener,
}

/// A running server.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

type Reply = Box<dyn Fn(&Request) -> Answer + Send + Sync>;

struct Shared {
    reply: Reply,
    connections_max: usize,
    is_ending: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

struct Connection {
    stream: TcpStream,
    thread: JoinHandle<()>,
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Binds the address; port 0 takes any.
    ///
    /// # Errors
    /// The address is in use, or not of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(|listener| Self { listener })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests from threads of its own, at most so many at a time. A request of `HEAD` gets what `GET` would, without the
    /// body.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn serve(
        self,
        name: &str,
        connections_max: usize,
        reply: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let shared = Arc::new(Shared {
            reply: Box::new(reply),
            connections_max,
            is_ending: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let (for_thread, listener) = (Arc::clone(&shared), self.listener.try_clone()?);
        let acceptor = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || accept_all(&listener, &for_thread))?;
        Ok(Server { listener: self.listener, shared, acceptor })
    }
}

impl Server {
    /// Cuts all connections, and returns when no thread of the server is left.
    pub fn end(self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        if rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both).is_ok() {
            let _panicked = self.acceptor.join();
        }
        let connections = std::mem::take(&mut *self.shared.connections());
        for Connection { stream, thread } in connections {
            let _closed_by_peer = stream.shutdown(Shutdown::Both);
            let _panicked = thread.join();
        }
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_ending.load(Ordering::SeqCst) {
            return;
        }
        if stream.and_then(|stream| serve_in_thread(stream, shared)).is_err() {
            std::thread::sleep(AFTER_FAILED_ACCEPT);
        }
    }
}

fn serve_in_thread(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut connections = shared.connections();
    connections.retain(|connection| !connection.thread.is_finished());
    if connections.len() >= shared.connections_max {
        return Ok(());
    }
    let deadline = Instant::now() + CONNECTION_TIME;
    let (for_end, for_thread) = (stream.try_clone()?, Arc::clone(shared));
    let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
        // A client that goes away, or is too slow, gets no answer.
        let _unfinished = converse(&stream, &for_thread, deadline);
        // The list of connections has the socket open, too.
        let _closed_by_peer = stream.shutdown(Shutdown::Both);
    })?;
    connections.push(Connection { stream: for_end, thread });
    Ok(())
}

/// Reads one request and answers it.
fn converse(stream: &TcpStream, shared: &Shared, deadline: Instant) -> io::Result<()> {
    let (answer, has_body) = match read_request(stream, deadline)? {
        Ok(request) => ((shared.reply)(&request), request.method != "HEAD"),
        Err(refusal) => (refusal, true),
    };
    write_until(stream, answer.head().as_bytes(), deadline)?;
    if has_body { write_until(stream, &answer.body, deadline) } else { Ok(()) }
}

fn write_until(mut stream: &TcpStream, bytes: &[u8], deadline: Instant) -> io::Result<()> {
    for part in bytes.chunks(WRITTEN_AT_ONCE_BYTES) {
        let mut rest = part;
        while !rest.is_empty() {
            stream.set_write_timeout(Some(left_until(deadline)?))?;
            let written = stream.write(rest)?;
            rest = &rest[written..];
        }
    }
    Ok(())
}

/// The time that is left; never zero, which would mean forever.
fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads until the head is complete; an answer that refuses the request if it never will be.
fn read_request(mut stream: &TcpStream, deadline: Instant) -> io::Result<Result<Request, Answer>> {
    let mut bytes = [0; HEAD_MAX_BYTES];
    let mut len = 0;
    loop {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        match stream.read(&mut bytes[len..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => len += more,
        }
        match parse(&bytes[..len]) {
            Ok(Some(request)) => return Ok(Ok(request)),
            Ok(None) if len < bytes.len() => {}
            Ok(None) => return Ok(Err(Answer::refusal("431 Request Header Fields Too Large"))),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
}

/// `None` if the request is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<Request>, Answer> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(_)) => {
            let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
            Ok(Some(Request { method: text(request.method), target: text(request.path) }))
        }
        Err(_) => Err(Answer::refusal("400 Bad Request")),
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
