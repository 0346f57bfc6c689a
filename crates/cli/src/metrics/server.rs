//! The metrics over HTTP: one page for GET and HEAD, for clients that nobody trusts.
//!
//! Bounds, whatever clients send: [`CONNECTIONS_MAX`] connections at a time, further ones are refused at once; a connection ends
//! after [`CONNECTION_TIME`] and one request of [`REQUEST_MAX_BYTES`]; the state is looked at once in [`KEPT_FOR`], so that asking
//! more often costs the volume nothing. No thread of the mount waits for a client. Caller: `metrics::serve`.

use crate::failure::{Done, Failure};
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const CONNECTIONS_MAX: usize = 4;
const CONNECTION_TIME: Duration = Duration::from_secs(5);
const REQUEST_MAX_BYTES: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
const KEPT_FOR: Duration = Duration::from_secs(1);
/// Bytes handed to the kernel at a time, so that a slow reader meets the deadline.
const WRITTEN_AT_ONCE_BYTES: usize = 16 << 10;
/// Pause after a failed accept: probably too few descriptors.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(100);

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// An address for `-o metrics=`: a port of this machine (`9100`), or a numeric address with port.
///
/// # Errors
/// Neither of them.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.parse().map_err(|_| {
            format!("'{text}' is neither a port (9100) nor an address with port (127.0.0.1:9100)")
        }),
    }
}

/// A bound address that nobody serves yet.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

/// A running server.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

type Render = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

struct Shared {
    render: Render,
    kept: Mutex<Option<(Instant, Arc<str>)>>,
    is_ending: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

struct Connection {
    stream: TcpStream,
    thread: JoinHandle<()>,
}

impl Listener {
    /// Binds the address; port 0 takes any.
    ///
    /// # Errors
    /// The address is in use, or not of this machine.
    pub fn bind(address: SocketAddr) -> Done<Self> {
        let failed = |e: std::io::Error| Failure::failed(format!("cannot serve metrics on {address}: {e}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves what `render` returns, from threads of its own.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn serve(self, render: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Done<Server> {
        let failed = |e: std::io::Error| Failure::failed(format!("cannot serve metrics: {e}"));
        let shared = Arc::new(Shared {
            render: Box::new(render),
            kept: Mutex::new(None),
            is_ending: AtomicBool::new(false),
            connections: Mutex::new(Vec::new()),
        });
        let (for_thread, listener) = (Arc::clone(&shared), self.listener.try_clone().map_err(failed)?);
        let acceptor = std::thread::Builder::new()
            .name("firn-metrics".into())
            .spawn(move || accept_all(&listener, &for_thread))
            .map_err(failed)?;
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
        let connections = std::mem::take(&mut *self.shared.connections.lock());
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
        if let Err(error) = stream.and_then(|stream| serve_in_thread(stream, shared)) {
            tracing::warn!("metrics: {error}");
            std::thread::sleep(AFTER_FAILED_ACCEPT);
        }
    }
}

fn serve_in_thread(stream: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    let mut connections = shared.connections.lock();
    connections.retain(|connection| !connection.thread.is_finished());
    if connections.len() >= CONNECTIONS_MAX {
        return Ok(());
    }
    let deadline = Instant::now() + CONNECTION_TIME;
    let for_end = stream.try_clone()?;
    let for_thread = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("firn-metrics-io".into()).spawn(move || {
        // A client that goes away, or is too slow, gets no answer.
        let _unfinished = converse(&stream, &for_thread, deadline);
        // The list of connections has the socket open, too.
        let _closed_by_peer = stream.shutdown(Shutdown::Both);
    })?;
    connections.push(Connection { stream: for_end, thread });
    Ok(())
}

/// Reads one request and answers it.
fn converse(stream: &TcpStream, shared: &Shared, deadline: Instant) -> std::io::Result<()> {
    let answer =
        read_request(stream, deadline)?.map_or_else(|refusal| refusal, |request| answer(&request, shared));
    for part in answer.bytes().chunks(WRITTEN_AT_ONCE_BYTES) {
        let mut rest = part;
        while !rest.is_empty() {
            stream.set_write_timeout(Some(left_until(deadline)?))?;
            let written = (&mut &*stream).write(rest)?;
            rest = &rest[written..];
        }
    }
    Ok(())
}

/// The time that is left; never zero, which would mean forever.
fn left_until(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A request, as far as it matters.
#[derive(PartialEq, Eq, Debug)]
struct Request {
    method: String,
    path: String,
}

/// Reads until the headers are complete; an answer that refuses the request if they never will be.
fn read_request(stream: &TcpStream, deadline: Instant) -> std::io::Result<Result<Request, Answer>> {
    let mut bytes = [0; REQUEST_MAX_BYTES];
    let mut len = 0;
    loop {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        match (&mut &*stream).read(&mut bytes[len..])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
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
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(_)) => {
            let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
            Ok(Some(Request { method: text(request.method), path: text(request.path) }))
        }
        Err(_) => Err(Answer::refusal("400 Bad Request")),
    }
}

struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: Arc<str>,
    /// HEAD.
    is_without_body: bool,
}

impl Answer {
    fn refusal(status: &'static str) -> Self {
        Self::plain(status, &format!("{status}\n"))
    }

    fn plain(status: &'static str, body: &str) -> Self {
        Self { status, content_type: PLAIN, body: body.into(), is_without_body: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let allow = if self.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut text = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        if !self.is_without_body {
            text.push_str(&self.body);
        }
        text.into_bytes()
    }
}

fn answer(request: &Request, shared: &Shared) -> Answer {
    let is_without_body = request.method == "HEAD";
    let path = request.path.split('?').next().unwrap_or_default();
    let answer = match (request.method.as_str(), path) {
        ("GET" | "HEAD", "/metrics") => match metrics(shared) {
            Ok(body) => Answer { status: "200 OK", content_type: OPENMETRICS, body, is_without_body },
            Err(why) => Answer::plain("503 Service Unavailable", &format!("{why}\n")),
        },
        ("GET" | "HEAD", _) => Answer::plain("404 Not Found", "the metrics are at /metrics\n"),
        _ => Answer::refusal("405 Method Not Allowed"),
    };
    Answer { is_without_body, ..answer }
}

/// One connection looks while the others wait for what it finds.
fn metrics(shared: &Shared) -> Result<Arc<str>, String> {
    let mut kept = shared.kept.lock();
    if let Some((since, text)) = &*kept
        && since.elapsed() < KEPT_FOR
    {
        return Ok(Arc::clone(text));
    }
    let text: Arc<str> = (shared.render)()?.into();
    *kept = Some((Instant::now(), Arc::clone(&text)));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn started() -> (SocketAddr, Server, Arc<AtomicUsize>) {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let listener = Listener::bind(parse_address("0").unwrap()).unwrap();
        let address = listener.address();
        let server = listener.serve(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok("# EOF\n".to_owned())
        });
        (address, server.unwrap(), looks)
    }

    /// What the server answers, up to the end of the connection.
    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        // A refused connection may be reset.
        let _reset = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn each_request_gets_the_answer_that_it_deserves() {
        let (address, server, looks) = started();
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK", "# EOF\n"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK", "# EOF\n"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", ""),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found", "the metrics are at /metrics\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "405 Method Not Allowed\n"),
            ("nonsense\r\n\r\n", "400 Bad Request", "400 Bad Request\n"),
        ] {
            let answer = ask(address, request.as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
            assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, body, "{request}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(REQUEST_MAX_BYTES));
        assert!(ask(address, &long.as_bytes()[..REQUEST_MAX_BYTES]).starts_with("HTTP/1.1 431"));
        assert_eq!(looks.load(Ordering::SeqCst), 1, "asking often does not look often");
        server.end();
    }

    #[test]
    fn clients_that_say_nothing_are_few_and_end_and_do_not_delay_the_end_of_the_server() {
        let (address, server, _) = started();
        let silent: Vec<TcpStream> =
            (0..CONNECTIONS_MAX + 3).map(|_| TcpStream::connect(address).unwrap()).collect();
        let closed = |mut stream: &TcpStream| {
            stream.set_read_timeout(Some(CONNECTION_TIME * 3)).unwrap();
            stream.read(&mut [0; 1]).map_or_else(
                |e| e.kind(),
                |len| match len {
                    0 => std::io::ErrorKind::UnexpectedEof,
                    _ => panic!("an answer to nothing"),
                },
            )
        };
        let began = Instant::now();
        for stream in &silent[CONNECTIONS_MAX..] {
            assert_ne!(closed(stream), std::io::ErrorKind::WouldBlock);
        }
        assert!(began.elapsed() < CONNECTION_TIME / 2, "surplus connections are refused at once");
        for stream in &silent[..CONNECTIONS_MAX] {
            assert_ne!(closed(stream), std::io::ErrorKind::WouldBlock, "the deadline ends them");
        }
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"), "served again afterwards");
        let _silent = TcpStream::connect(address).unwrap();
        let began = Instant::now();
        server.end();
        assert!(began.elapsed() < CONNECTION_TIME / 2);
    }

    #[test]
    fn addresses_are_local_unless_they_say_otherwise() {
        assert_eq!(parse_address("9100").unwrap().to_string(), "127.0.0.1:9100");
        assert_eq!(parse_address("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert!(parse_address("localhost").unwrap_err().contains("9100"));
    }
}
