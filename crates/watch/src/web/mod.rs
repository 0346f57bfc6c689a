//! The page: a server for one volume on this machine, and a page with a whole recording in it.
//!
//! The address has a token; whoever does not know it gets the same 404 for everything. The server only answers GET, changes
//! nothing, and knows only what was published. Invariants: at most [`CALLERS_MAX`] callers at a time; at most
//! [`KEPT_FRAMES`] frames and [`KEPT_BYTES`] bytes of them are kept.

mod frame;
mod http;
mod page;

use crate::state::State;
use frame::Frames;
use http::{Answer, Request};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames that a page which was asleep can still get.
const KEPT_FRAMES: usize = 600;
/// Bytes of them.
const KEPT_BYTES: usize = 32 << 20;
/// Frames in one answer.
const ANSWER_FRAMES: usize = 120;
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
    listener: TcpListener,
    token: String,
    shared: Arc<Mutex<Shared>>,
}

impl Server {
    /// Takes an address; port 0 takes any free port.
    ///
    /// # Errors
    /// The address cannot be used, or the system has no random numbers.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Ok(Self { listener, token: secret()?, shared: Arc::default() })
    }

    /// The address for a browser, with the token.
    ///
    /// # Errors
    /// The system does not tell the port.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}/{}/", self.listener.local_addr()?, self.token))
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
    pub fn start(&self) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        let (token, shared) = (self.token.clone(), Arc::clone(&self.shared));
        let callers = Arc::new(AtomicUsize::new(0));
        std::thread::Builder::new().name("web".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if callers.fetch_add(1, Ordering::SeqCst) >= CALLERS_MAX {
                    callers.fetch_sub(1, Ordering::SeqCst);
                    continue;
                }
                let (token, shared, callers) = (token.clone(), Arc::clone(&shared), Arc::clone(&callers));
                std::thread::spawn(move || {
                    // A caller that went away needs no answer.
                    let _gone = serve(stream, &token, &shared);
                    callers.fetch_sub(1, Ordering::SeqCst);
                });
            }
        })?;
        Ok(())
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: TcpStream, token: &str, shared: &Mutex<Shared>) -> io::Result<()> {
    stream.set_read_timeout(Some(http::PATIENCE))?;
    stream.set_write_timeout(Some(http::PATIENCE))?;
    let answer = match http::read_request(&mut stream)? {
        Some(request) => answer(&request, token, shared)?,
        None => Answer::plain("400 Bad Request"),
    };
    answer.send(&mut stream)
}

fn answer(request: &Request, token: &str, shared: &Mutex<Shared>) -> io::Result<Answer> {
    let inner = request.target.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    let Some((_, path)) = inner.filter(|(given, _)| is_same(given.as_bytes(), token.as_bytes())) else {
        return Ok(Answer::plain("404 Not Found"));
    };
    if request.method != "GET" {
        return Ok(Answer::plain("405 Method Not Allowed"));
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Ok(match path {
        "" => {
            let nonce = secret()?;
            let body = page::page(&nonce, None).into_bytes();
            Answer {
                status: "200 OK",
                kind: "text/html; charset=utf-8",
                policy: page::policy(&nonce, true),
                body,
            }
        }
        "frames" => {
            let since = query.strip_prefix("since=").and_then(|number| number.parse().ok()).unwrap_or(0);
            let body = frames_since(&lock(shared), since).into_bytes();
            Answer { kind: "application/json", body, ..Answer::plain("200 OK") }
        }
        _ => Answer::plain("404 Not Found"),
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
