//! The operations of the control socket that every mount has. [`Session::register_operations`] lists them; programs that mount add
//! theirs with [`Session::registry_mut`].

use super::{Release, Session};
use crate::adapter::Adapter;
use crate::control::{ErrorKind, OpError};
use crate::record;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::store::Scope;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long `await_release` waits by default, in milliseconds.
const RELEASE_WAIT_MS: u64 = 60_000;

impl<S: Engine + 'static> Session<S> {
    /// Registers them all. Each holds the volume weakly: it must close after the unmount.
    pub(super) fn register_operations(&mut self) {
        let started = Instant::now();
        let info = self.info(started);
        self.register("info", "who serves what, and how", info);
        self.register("sync", "makes everything durable that has reached the daemon", |adapter| {
            adapter.volume().sync(Scope::All).map(|()| Value::Null)
        });
        self.register("statfs", "space, as df shows it, and whether the volume is read-only", statfs);
        self.register("requests", "counts and times of FUSE requests since the mount", |adapter| {
            Ok(json!(adapter.counters().list()))
        });
        let help = "how long the one lock of the volume was held and waited for";
        self.register("lock", help, move |adapter| Ok(lock(adapter, started)));
        let release = Arc::clone(&self.release);
        let help = "waits until the volume is closed after an unmount, at most timeout_ms (60000); tells whether it is";
        self.registry.register("await_release", help, move |request| await_release(&release, request));
        self.beside.register(&mut self.registry, Arc::downgrade(&self.adapter));
        record::operations::register(
            &mut self.registry,
            Arc::downgrade(&self.adapter),
            self.config,
            &self.request.mountpoint,
        );
    }

    /// Registers one that has no arguments.
    fn register(
        &mut self,
        name: &'static str,
        help: &'static str,
        operation: impl Fn(&Adapter<S>) -> Result<Value, FsError> + Send + Sync + 'static,
    ) {
        let adapter = Arc::downgrade(&self.adapter);
        self.registry.register(name, help, move |_| {
            let closing = || OpError::new(ErrorKind::Closing, "the volume is being closed");
            let adapter = adapter.upgrade().ok_or_else(closing)?;
            operation(&adapter).map_err(|e| OpError::from(&e))
        });
    }

    fn info(
        &self,
        started: Instant,
    ) -> impl Fn(&Adapter<S>) -> Result<Value, FsError> + Send + Sync + use<S> {
        let (source, mountpoint) = (self.request.source.clone(), self.request.mountpoint.clone());
        let config = self.config;
        move |adapter| {
            Ok(json!({
                "version": env!("CARGO_PKG_VERSION"),
                "pid": std::process::id(),
                "source": source,
                "mountpoint": mountpoint,
                "threads": config.threads,
                "transport": if adapter.is_over_uring() { "io_uring" } else { "/dev/fuse" },
                "writeback_cache": config.settings.writeback_cache,
                "fuse_minor": adapter.agreed().map(|a| a.kernel_minor),
                "fuse_flags": adapter.agreed().map(|a| a.flags),
                "io_errors": adapter.counters().io_errors(),
                "uptime_ms": ms_since(started),
            }))
        }
    }
}

fn statfs<S: Engine>(adapter: &Adapter<S>) -> Result<Value, FsError> {
    adapter.volume().run_quietly(|vfs, _| {
        let space = vfs.statfs();
        Ok(json!({
            "total_bytes": space.total_bytes,
            "free_bytes": space.free_bytes,
            "inodes_used": space.inodes_used,
            "inodes_free": space.inodes_free,
            "read_only": vfs.read_only(),
        }))
    })
}

fn lock<S: Engine>(adapter: &Adapter<S>, started: Instant) -> Value {
    let times = adapter.volume().lock_times();
    json!({
        "turns": times.turns,
        "measured": times.measured,
        "waited_ns": times.waited_ns,
        "held_ns": times.held_ns,
        "steps": times.steps,
        "steps_held_ns": times.steps_held_ns,
        "held_in_all_ns": times.held_in_all_ns(),
        "io_errors": adapter.counters().io_errors(),
        "uptime_ms": ms_since(started),
    })
}

fn await_release(release: &Release, request: &Value) -> Result<Value, OpError> {
    let timeout_ms = request.get("timeout_ms").and_then(Value::as_u64).unwrap_or(RELEASE_WAIT_MS);
    match release.wait(Duration::from_millis(timeout_ms)) {
        None => Ok(json!(false)),
        Some(Ok(())) => Ok(json!(true)),
        Some(Err(error)) => Err(OpError::from(&error)),
    }
}

fn ms_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
