//! The page: a server for one volume on this machine, and a page with a whole recording in it (`page`). `frame`: what the page
//! gets for each tick.
//!
//! The address has a token; whoever does not know it gets the same 404 for everything. The server only answers GET, changes
//! nothing, and knows only what was published ([`crate::http`] serves it). Invariants: at most [`CALLERS_MAX`] callers at a time; at most
//! [`KEPT_FRAMES`] frames and [`KEPT_BYTES`] bytes of them are kept.

mod frame;
mod page;

use crate::http::{self, Answer, Listener, Request};
use crate::state::State;
use frame::Frames;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames that a page which was asleep can still get.
const KEPT_FRAMES: usize = 600;
/// Bytes of them.
const KEPT_BYTES: usize = 32 << 20;
/// Frames in one answer.
const ANSWER_FRAMES: usize = 120;
/// What protects the page and the token in its address: nothing is stored, framed, sniffed, or told to other sites.
const HEADERS: &str = "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n";
/// The policy for what is no page.
const NOTHING: &str = "default-src 'none'";
/// Callers at a time.
const CALLERS_MAX: usize = 16;
/// Frames of a page that one can mail at most: two hours of ticks a second.
pub const MAILED_FRAMES: usize = 7200;

/// What the server knows.
#[derive(Default)]
struct Shared {
    frames: Frames,
    kept: VecDeque<(u64, String)>,
    kept_bytes: usize,
    state: State,
}

/// See the module's head.
pub struct Server {
    /// `None` once it is served.
    listener: Option<Listener>,
    address: SocketAddr,
    token: String,
    shared: Arc<Mutex<Shared>>,
}

impl Server {
    /// Takes an address; port 0 takes any free port.
    ///
    /// # Errors
    /// The address cannot be used, or the system has no random numbers.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = Listener::bind(address)?;
        let address = listener.address()?;
        Ok(Self { listener: Some(listener), address, token: secret()?, shared: Arc::default() })
    }

    /// The address for a browser, with the token.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Lets pages see the newest tick.
    pub fn publish(&self, state: &State) {
        let mut shared = lock(&self.shared);
        let Some(frame) = shared.frames.next(state) else { return };
        let serial = shared.frames.serial();
        shared.state = state.clone();
        shared.kept_bytes += frame.len();
        shared.kept.push_back((serial, frame));
        while shared.kept.len() > KEPT_FRAMES || shared.kept_bytes > KEPT_BYTES {
            let Some((_, oldest)) = shared.kept.pop_front() else { break };
            shared.kept_bytes -= oldest.len();
        }
    }

    /// Answers callers on threads of its own, until the process ends.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(&mut self) -> io::Result<()> {
        let (token, shared) = (self.token.clone(), Arc::clone(&self.shared));
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let reply = move |request: &Request| {
            answer(request, &token, &shared).unwrap_or_else(|_| refusal("500 Internal Server Error"))
        };
        // It is served as long as the process runs.
        listener.serve("web", CALLERS_MAX, reply).map(drop)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer under the headers of all answers and a content security policy.
fn guarded(kind: &'static str, policy: &str, body: &str) -> Answer {
    let head = format!("Content-Security-Policy: {policy}\r\n{HEADERS}");
    Answer { kind, head, ..Answer::plain("200 OK", body) }
}

fn refusal(status: &'static str) -> Answer {
    Answer { status, ..guarded(http::PLAIN, NOTHING, &format!("{status}\n")) }
}

fn answer(request: &Request, token: &str, shared: &Mutex<Shared>) -> io::Result<Answer> {
    let inner = request.target.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    let Some((_, path)) = inner.filter(|(given, _)| is_same(given.as_bytes(), token.as_bytes())) else {
        return Ok(refusal("404 Not Found"));
    };
    if request.method != "GET" {
        return Ok(refusal("405 Method Not Allowed"));
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Ok(match path {
        "" => {
            let nonce = secret()?;
            guarded("text/html; charset=utf-8", &page::policy(&nonce, true), &page::page(&nonce, None))
        }
        "frames" => {
            let since = query.strip_prefix("since=").and_then(|number| number.parse().ok()).unwrap_or(0);
            guarded("application/json", NOTHING, &frames_since(&lock(shared), since))
        }
        _ => refusal("404 Not Found"),
    })
}

/// The frames after a number; the last one with its whole map if some of them are forgotten, or the page has none.
fn frames_since(shared: &Shared, since: u64) -> String {
    let first = shared.kept.front().map_or(0, |(serial, _)| *serial);
    let is_known = since > 0 && since <= shared.frames.serial() && since + 1 >= first;
    if !is_known {
        return format!("[{}]", shared.frames.whole(&shared.state).unwrap_or_default());
    }
    let later = shared.kept.iter().filter(|(serial, _)| *serial > since).take(ANSWER_FRAMES);
    format!("[{}]", later.map(|(_, frame)| frame.as_str()).collect::<Vec<_>>().join(","))
}

/// Takes the same time wherever the two differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// 128 random bits of the system's, in hexadecimal.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Collects the frames of a page that one can mail.
#[derive(Default)]
pub struct Mailed {
    maker: Frames,
    frames: Vec<String>,
}

impl Mailed {
    /// Adds the newest tick; false if the page has as many as it may.
    pub fn add(&mut self, state: &State) -> bool {
        if self.frames.len() < MAILED_FRAMES {
            self.frames.extend(self.maker.next(state));
        }
        self.frames.len() < MAILED_FRAMES
    }

    /// How many it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True if it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The page.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn page(&self) -> io::Result<String> {
        Ok(page::page(&secret()?, Some(&self.frames)))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
