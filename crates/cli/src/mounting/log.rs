//! Messages of a daemon: to standard error, which `daemon` points at the log file once the mount serves.

use tracing::level_filters::LevelFilter;

/// Starts logging: warnings and errors, with `verbose` also what the daemon does. Later calls have no effect.
pub fn start(verbose: bool) {
    let level = if verbose { LevelFilter::INFO } else { LevelFilter::WARN };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .finish();
    let _already_started = tracing::subscriber::set_global_default(subscriber);
}
