//! The metrics over HTTP: one page for GET and HEAD.
//!
//! The state is looked at once in [`KEPT_FOR`], so that asking more often costs the volume nothing, and no thread of the mount waits
//! for a client; [`firnfs_watch::http`] bounds the rest. Caller: `metrics::serve`.

use crate::failure::{Done, Failure};
use firnfs_watch::http::{self, Answer, Request, Server};
use parking_lot::Mutex;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONNECTIONS_MAX: usize = 4;
const KEPT_FOR: Duration = Duration::from_secs(1);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
    listener: http::Listener,
    address: SocketAddr,
}

type Render = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

struct Shared {
    render: Render,
    kept: Mutex<Option<(Instant, Arc<[u8]>)>>,
}

impl Listener {
    /// Binds the address; port 0 takes any.
    ///
    /// # Errors
    /// The address is in use, or not of this machine.
    pub fn bind(address: SocketAddr) -> Done<Self> {
        let failed =
            |e: std::io::Error| Failure::system(format_args!("cannot serve metrics on {address}"), &e);
        let listener = http::Listener::bind(address).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
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
        let shared = Shared { render: Box::new(render), kept: Mutex::new(None) };
        let served =
            self.listener.serve("firn-metrics", CONNECTIONS_MAX, move |request| answer(request, &shared));
        served.map_err(|e| Failure::system("cannot serve metrics", &e))
    }
}

fn answer(request: &Request, shared: &Shared) -> Answer {
    let path = request.target.split('?').next().unwrap_or_default();
    match (request.method.as_str(), path) {
        ("GET" | "HEAD", "/metrics") => match metrics(shared) {
            Ok(body) => Answer { kind: OPENMETRICS, body, ..Answer::plain("200 OK", "") },
            Err(why) => Answer::plain("503 Service Unavailable", &format!("{why}\n")),
        },
        ("GET" | "HEAD", _) => Answer::plain("404 Not Found", "the metrics are at /metrics\n"),
        _ => {
            let head = "Allow: GET, HEAD\r\n".to_owned();
            Answer { head, ..Answer::refusal("405 Method Not Allowed") }
        }
    }
}

/// One connection looks while the others wait for what it finds.
fn metrics(shared: &Shared) -> Result<Arc<[u8]>, String> {
    let mut kept = shared.kept.lock();
    if let Some((since, text)) = &*kept
        && since.elapsed() < KEPT_FOR
    {
        return Ok(Arc::clone(text));
    }
    let text: Arc<[u8]> = (shared.render)()?.into_bytes().into();
    *kept = Some((Instant::now(), Arc::clone(&text)));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
        stream.read_to_string(&mut answer).unwrap();
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
        ] {
            let answer = ask(address, request.as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
            assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, body, "{request}");
        }
        assert_eq!(looks.load(Ordering::SeqCst), 1, "asking often does not look often");
        server.end();
    }

    #[test]
    fn addresses_are_local_unless_they_say_otherwise() {
        assert_eq!(parse_address("9100").unwrap().to_string(), "127.0.0.1:9100");
        assert_eq!(parse_address("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert!(parse_address("localhost").unwrap_err().contains("9100"));
    }
}
