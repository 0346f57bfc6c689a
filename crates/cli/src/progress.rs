//! `Bar`: the progress bar of every command, on standard error, shown only on a terminal.
//!
//! Invariants: dropping it removes it from the screen, whatever happened to the work, so that results and errors stand alone. A
//! bar that moves all the time appears after one second, since shorter work needs none. A bar that moves in large steps appears
//! at once, since the first step may take long. The time that is left is "-" until something is known of it, and a bar of bytes whose
//! total is not known, or grows with the work, has neither a total nor that time.

use crate::sizes::{Bytes, Count};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use parking_lot::Mutex;
use std::fmt::{Display, Write};
use std::time::Duration;

const BYTES: &str =
    "{bar:12} {binary_bytes}/{binary_total_bytes}, {binary_bytes_per_sec}, {left} left {wide_msg}";
const SHARE: &str = "{bar:12} {percent}%, {left} left, of {wide_msg}";
const BYTES_WITHOUT_END: &str = "{spinner} {binary_bytes}, {binary_bytes_per_sec} {wide_msg}";
const STEPS: &str = "{bar:12} {pos}/{len}, {left} left {wide_msg}";
const ENTRIES: &str = "{bar:12} {human_pos}/{human_len}, {rate}/s, {left} left {wide_msg}";
const ENDLESS: &str = "{spinner} {wide_msg}";

/// See the module's head.
pub struct Bar {
    bar: ProgressBar,
    template: &'static str,
    /// The template in use.
    shown: Mutex<&'static str>,
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
        Self { bar: bar.with_style(style(template)), template, shown: Mutex::new(template), hidden_for }
    }

    /// Shows how much of the total is done.
    pub fn show(&self, done: u64, total: u64, message: impl Display) {
        if self.bar.elapsed() < self.hidden_for {
            return;
        }
        let template = match self.template {
            BYTES if done == 0 && total == 0 => ENDLESS,
            BYTES if total <= done => BYTES_WITHOUT_END,
            own => own,
        };
        if std::mem::replace(&mut *self.shown.lock(), template) != template {
            self.bar.set_style(style(template));
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(message.to_string());
    }

    /// How many bytes a second that many are, since the bar began.
    pub fn rate(&self, bytes: u64) -> impl Display + use<> {
        let seconds = self.bar.elapsed().as_secs_f64();
        format!("{}/s", Bytes((bytes as f64 / seconds.max(0.001)) as u64))
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

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // A message that cannot be written has nowhere to go.
    style
        .with_key("left", |state: &ProgressState, out: &mut dyn Write| _ = write!(out, "{}", left(state)))
        .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            _ = write!(out, "{}", rounded(state.per_sec()));
        })
}

/// The time that is left, or "-".
fn left(state: &ProgressState) -> String {
    let is_known = state.pos() > 0 && state.len() > Some(state.pos()) && state.per_sec() > 0.0;
    if is_known { format!("{:#}", HumanDuration(state.eta())) } else { "-".to_owned() }
}

/// With two significant digits at least.
fn rounded(rate: f64) -> String {
    match rate {
        10.0.. => Count(rate.round() as u64).to_string(),
        1.0.. => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
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

    fn shown(mut bar: Bar, show: impl FnOnce(&Bar)) -> String {
        let terminal = indicatif::InMemoryTerm::new(4, 80);
        let target = indicatif::ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        bar.bar = bar.bar.clone().with_elapsed(Duration::from_secs(100));
        bar.bar.set_draw_target(target);
        show(&bar);
        bar.bar.tick();
        terminal.contents()
    }

    #[test]
    fn what_is_not_known_is_not_shown_as_nothing_or_as_done() {
        let none = shown(Bar::of_bytes(), |bar| bar.show(0, 0, "phase 1 of 5"));
        assert!(none.ends_with(" phase 1 of 5") && !none.contains('0'), "{none}");
        let grows = shown(Bar::of_bytes(), |bar| bar.show(5 << 20, 5 << 20, "phase 2 of 5"));
        assert!(grows.contains("5.00 MiB, ") && !grows.contains("left"), "{grows}");
        let begun = shown(Bar::of_steps(), |bar| bar.show(0, 10, "steps"));
        assert!(begun.contains(" 0/10, - left steps"), "{begun}");
        let later = shown(Bar::of_bytes(), |bar| {
            bar.show(0, 0, "");
            bar.show(1 << 20, 5 << 20, "files");
        });
        assert!(later.contains("1.00 MiB/5.00 MiB") && later.contains(" left files"), "{later}");
    }

    #[test]
    fn rates_have_no_decimals_that_nobody_reads() {
        let rates = [202.9463, 12_345.6, 9.87, 0.1234].map(rounded);
        assert_eq!(rates, ["203", "12,346", "9.9", "0.12"]);
        let entries = shown(Bar::of_entries(), |bar| bar.show(3, 10, ""));
        assert!(entries.contains("/s, "), "{entries}");
        let bar = Bar::endless();
        assert!(bar.rate(0).to_string() == "0 B/s");
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
