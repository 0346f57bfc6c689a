//! `Bar`: the progress bar of every command, on standard error, shown only on a terminal.
//!
//! Invariants: dropping it removes it from the screen, whatever happened to the work, so that results and errors stand alone. A
//! bar that moves all the time appears after one second, since shorter work needs none. A bar that moves in large steps appears
//! at once, since the first step may take long.

use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::time::Duration;

const BYTES: &str =
    "{bar:12} {binary_bytes}/{binary_total_bytes}, {binary_bytes_per_sec}, {eta} left {wide_msg}";
const SHARE: &str = "{bar:12} {percent}%, {eta} left, of {wide_msg}";
const BYTES_WITHOUT_END: &str = "{spinner} {binary_bytes}, {binary_bytes_per_sec} {wide_msg}";
const STEPS: &str = "{bar:12} {pos}/{len}, {eta} left {wide_msg}";
const ENTRIES: &str = "{bar:12} {human_pos}/{human_len}, {per_sec}, {eta} left {wide_msg}";
const ENDLESS: &str = "{spinner} {wide_msg}";

/// See the module's head.
pub struct Bar {
    bar: ProgressBar,
    hidden_for: Duration,
}

impl Bar {
    /// A bar that counts bytes.
    pub fn of_bytes() -> Self {
        Self::new(ProgressBar::new(0), BYTES, Duration::from_secs(1))
    }

    /// A bar that counts bytes when nobody knows how many there are.
    pub fn of_bytes_without_end() -> Self {
        Self::new(ProgressBar::new_spinner(), BYTES_WITHOUT_END, Duration::from_secs(1))
    }

    /// A bar that counts parts of the thing in the message, and shows percents.
    pub fn of_share() -> Self {
        Self::new(ProgressBar::new(0), SHARE, Duration::from_secs(1))
    }

    /// A bar that counts steps, each of which may take long.
    pub fn of_steps() -> Self {
        Self::new(ProgressBar::new(0), STEPS, Duration::ZERO)
    }

    /// A bar that counts files, each of which is soon done.
    pub fn of_entries() -> Self {
        Self::new(ProgressBar::new(0), ENTRIES, Duration::from_secs(1))
    }

    /// A bar with only a message, for work of unknown length.
    pub fn endless() -> Self {
        Self::new(ProgressBar::new_spinner(), ENDLESS, Duration::ZERO)
    }

    fn new(bar: ProgressBar, template: &'static str, hidden_for: Duration) -> Self {
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bar: bar.with_style(style), hidden_for }
    }

    /// Shows how much of the total is done.
    pub fn show(&self, done: u64, total: u64, message: impl Display) {
        if self.bar.elapsed() >= self.hidden_for {
            self.bar.set_length(total);
            self.bar.set_position(done);
            self.bar.set_message(message.to_string());
        }
    }

    /// Shows a message during work of unknown length.
    pub fn tell(&self, message: impl Display) {
        self.bar.set_message(message.to_string());
        self.bar.tick();
    }

    /// Hides the bar while a question is asked.
    pub fn suspend<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.bar.suspend(ask)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_one() {
        for template in [BYTES, BYTES_WITHOUT_END, SHARE, STEPS, ENTRIES, ENDLESS] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_bar_has_its_rate_and_the_time_that_is_left_in_one_line_of_80_columns() {
        let terminal = indicatif::InMemoryTerm::new(4, 80);
        let mut bar = Bar::of_bytes();
        let target = indicatif::ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        bar.bar = bar.bar.clone().with_elapsed(Duration::from_secs(100));
        bar.bar.set_draw_target(target);
        bar.show(
            1_234 << 30,
            12_345 << 30,
            "123,456,789 of 1,234,567,890 files, and a text that does not fit",
        );
        bar.bar.tick();
        let shown = terminal.contents();
        assert_eq!(shown.lines().count(), 1, "{shown}");
        assert!(
            shown.contains("/12.06 TiB, ") && shown.contains("/s, ") && shown.contains(" left 123,"),
            "{shown}"
        );
    }

    #[test]
    fn what_moves_all_the_time_does_not_show_in_the_first_second() {
        // The second bar began a second ago.
        let [young, old] = [0, 1].map(|ago_s| {
            let mut bar = Bar::of_bytes();
            bar.bar = bar.bar.clone().with_elapsed(Duration::from_secs(ago_s));
            bar
        });
        let steps = Bar::of_steps();
        for bar in [&young, &old, &steps] {
            bar.show(3, 10, format_args!("phase {}", 1));
        }
        assert_eq!((young.bar.position(), young.bar.message()), (0, String::new()));
        assert_eq!((old.bar.position(), old.bar.message()), (3, "phase 1".to_owned()));
        assert_eq!((steps.bar.position(), steps.bar.length()), (3, Some(10)));
        assert_eq!(steps.bar.message(), "phase 1");
    }

    #[test]
    fn a_bar_is_gone_once_dropped_also_where_an_error_ends_the_work() {
        let seen = std::cell::OnceCell::new();
        let work = || -> Result<(), String> {
            let bar = Bar::of_steps();
            seen.set(bar.bar.clone()).unwrap();
            bar.show(1, 2, "");
            Err("failed".to_owned())?;
            bar.show(2, 2, "");
            Ok(())
        };
        work().unwrap_err();
        assert!(seen.get().unwrap().is_finished());
    }
}
