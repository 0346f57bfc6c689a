//! The daemon's side of the control channel: accepts connections and answers one line after another on each.
//!
//! Each connection has a thread, so that an operation may block (a sync, waiting for the release of the volume). The
//! server outlives the file system by a moment: clients that wait for the release get their answer before the process
//! ends.

use super::{Answer, MAX_LINE_BYTES, Registry};
use crate::sockets::{make_socket_directory, socket_directory, socket_path};
use parking_lot::Mutex;
use rustix::net::sockopt::socket_peercred;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Connections served at a time; the server closes further ones at once.
const MAX_CONNECTIONS: usize = 64;

/// A listening control socket. Dropping it without [`Server::finish`] leaves its threads to the end of the process.
pub struct Server {
    path: PathBuf,
    /// Device and inode of the socket's name.
    identity: Option<(u64, u64, i64, i64)>,
    listener: UnixListener,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    registry: Registry,
    owner_uid: u32,
    stopping: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

struct Connection {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl Server {
    /// Listens for the mount with that device number.
    ///
    /// # Errors
    /// The directory or the socket cannot be made.
    pub fn start(device: (u32, u32), registry: Registry) -> std::io::Result<Self> {
        let owner_uid = rustix::process::geteuid().as_raw();
        make_socket_directory(&socket_directory(owner_uid), owner_uid)?;
        Self::listen(socket_path(owner_uid, device), owner_uid, registry)
    }

    fn listen(path: PathBuf, owner_uid: u32, registry: Registry) -> std::io::Result<Self> {
        // Device numbers of live mounts are unique: a socket of that name belongs to a daemon that died.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let shared = Arc::new(Shared {
            registry,
            owner_uid,
            stopping: AtomicBool::new(false),
            connections: Mutex::new(Vec::new()),
        });
        let for_acceptor = Arc::clone(&shared);
        let for_stop = listener.try_clone()?;
        let acceptor = std::thread::Builder::new()
            .name("firn-control".into())
            .spawn(move || accept_all(&listener, &for_acceptor))?;
        Ok(Self { identity: identity_of(&path), path, listener: for_stop, shared, acceptor: Some(acceptor) })
    }

    /// The path at which it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts no more connections and removes the socket. If another mount has the same device number by now, its
    /// daemon's socket is not removed.
    pub fn stop_listening(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor. Connecting to the path would not do: another daemon may be listening there by now.
        if rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both).is_ok() {
            let _panicked = acceptor.join();
        }
        let still_ours = self.identity.is_some() && identity_of(&self.path) == self.identity;
        if still_ours {
            let _already_gone = std::fs::remove_file(&self.path);
        }
    }

    /// Stops listening and waits until every operation under way has been answered.
    pub fn finish(mut self) {
        self.stop_listening();
        let connections = std::mem::take(&mut *self.shared.connections.lock());
        for Connection { stream, thread } in connections {
            // Read no more requests; the answer to the one under way still goes out.
            let _closed_by_peer = stream.shutdown(Shutdown::Read);
            let _panicked = thread.join();
        }
    }
}

/// The system reuses inode numbers at once; the time distinguishes two sockets of one name.
fn identity_of(path: &Path) -> Option<(u64, u64, i64, i64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

fn accept_all(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match stream.and_then(|stream| serve_in_thread(stream, shared)) {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!("control socket: {error}");
                // Probably out of descriptors or threads: do not spin.
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    }
}

fn serve_in_thread(stream: UnixStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    let peer = socket_peercred(&stream)?.uid.as_raw();
    let mut connections = shared.connections.lock();
    connections.retain(|connection| !connection.thread.is_finished());
    if (peer != 0 && peer != shared.owner_uid) || connections.len() >= MAX_CONNECTIONS {
        tracing::warn!("control socket: a connection of user {peer} was refused");
        return Ok(());
    }
    let for_shutdown = stream.try_clone()?;
    let for_thread = Arc::clone(shared);
    let thread = std::thread::Builder::new()
        .name("firn-control-io".into())
        .spawn(move || serve(&stream, &for_thread.registry))?;
    connections.push(Connection { stream: for_shutdown, thread });
    Ok(())
}

/// Answers until the peer closes the connection or breaks the protocol.
fn serve(stream: &UnixStream, registry: &Registry) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if line.last() != Some(&b'\n') => return,
            Ok(_) => {}
        }
        if write_line(stream, &registry.answer(&line)).is_err() {
            return;
        }
    }
}

fn write_line(mut stream: &UnixStream, answer: &Answer) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Client, ClientError, ErrorKind};
    use serde_json::json;
    use std::sync::mpsc;

    fn started(registry: Registry) -> (tempfile::TempDir, Server) {
        let directory = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let server = Server::listen(directory.path().join("c.sock"), uid, registry).unwrap();
        (directory, server)
    }

    #[test]
    fn an_operation_under_way_is_answered_before_the_server_ends() {
        let (release, wait) = mpsc::channel::<()>();
        let (started_send, started_receive) = mpsc::channel::<()>();
        let wait = Mutex::new((started_send, wait));
        let mut registry = Registry::default();
        registry.register("wait", "", move |_| {
            let (started, wait) = &*wait.lock();
            started.send(()).unwrap();
            wait.recv().unwrap();
            Ok(json!("released"))
        });
        let (_directory, server) = started(registry);
        let mut waiting = Client::open(server.path()).unwrap();
        let idle = Client::open(server.path()).unwrap();
        let client = std::thread::spawn(move || waiting.call("wait", json!({})));
        let path = server.path().to_owned();
        started_receive.recv().unwrap();
        let finishing = std::thread::spawn(move || server.finish());
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!finishing.is_finished());
        release.send(()).unwrap();
        assert_eq!(client.join().unwrap().unwrap(), json!("released"));
        finishing.join().unwrap();
        assert!(!path.exists());
        drop(idle);
    }

    #[test]
    fn a_socket_that_another_daemon_put_in_its_place_is_not_removed() {
        let (directory, server) = started(Registry::default());
        let uid = rustix::process::geteuid().as_raw();
        let newer = Server::listen(directory.path().join("c.sock"), uid, Registry::default()).unwrap();
        server.finish();
        let mut client = Client::open(newer.path()).unwrap();
        assert_eq!(client.call("help", json!({})).unwrap(), json!({}));
        newer.finish();
    }

    #[test]
    fn one_connection_carries_many_requests_and_errors_do_not_end_it() {
        let mut registry = Registry::default();
        registry.register("echo", "", |request| Ok(request["text"].clone()));
        let (_directory, server) = started(registry);
        let mut client = Client::open(server.path()).unwrap();
        for n in 0..100 {
            assert_eq!(client.call("echo", json!({ "text": n })).unwrap(), json!(n));
            let error = client.call("nonsense", json!({})).unwrap_err();
            assert!(matches!(error, ClientError::Refused(e) if e.kind == ErrorKind::UnknownOp));
        }
        drop(client);
        server.finish();
    }
}
