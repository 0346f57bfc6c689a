//! Messages of a daemon: they go to standard error, which `daemon` redirects to a log once the mount works.

use tracing::level_filters::LevelFilter;

/// Starts logging, including panics: warnings and errors, and with `verbose` also the daemon's actions. Later calls have no
/// effect.
pub fn start(verbose: bool) {
    let level = if verbose { LevelFilter::INFO } else { LevelFilter::WARN };
    // A broken invariant must not reach the device: the process ends at once, and the next mount recovers what was durable.
    // If it went on without the panicked thread, callers would wait for ever for its answer.
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
