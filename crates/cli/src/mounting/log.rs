//! Messages of a daemon: to standard error, which `daemon` points at a log once the mount serves.

use tracing::level_filters::LevelFilter;

/// Starts logging, of panics, too: warnings and errors, with `verbose` also what the daemon does. Later calls have no effect.
pub fn start(verbose: bool) {
    let level = if verbose { LevelFilter::INFO } else { LevelFilter::WARN };
    // A broken invariant must not reach the device: the process ends at once, and the next mount recovers what was
    // durable. An answer that never comes would hang whoever waits for it besides.
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("internal error, giving up: {panic}");
        std::process::abort();
    }));
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .finish();
    let _already_started = tracing::subscriber::set_global_default(subscriber);
}
