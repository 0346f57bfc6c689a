//! The event loop of the terminal display.
//!
//! Invariant: however the loop ends - a key, a signal, an error, a panic - the terminal is as it was before.

use crate::feed::{Feed, Step};
use crate::screen::Screen;
use crate::screen::keys::Action;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A signal is noticed after this long at the latest.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How the display ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By a key.
    Quit,
    /// By Ctrl-C or a signal.
    Interrupted,
    /// The feed has no more.
    Over(String),
    /// The feed failed.
    Failed(String),
}

/// The terminal while it shows the display; dropping it puts it back as it was.
struct Guard(DefaultTerminal);

impl Guard {
    fn new() -> io::Result<Self> {
        // It also restores the terminal before a panic prints its message.
        ratatui::try_init().map(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // There is nothing to be done if the terminal is gone.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Shows a feed until it ends or somebody ends it; `count` is the number of ticks to show, 0 for no end.
///
/// # Errors
/// The terminal cannot be used.
pub fn show(
    feed: &mut dyn Feed,
    mut screen: Screen,
    count: u64,
    interrupted: &AtomicBool,
) -> io::Result<Ended> {
    let mut guard = Guard::new()?;
    let mut shown = 0;
    loop {
        if interrupted.load(Ordering::SeqCst) {
            return Ok(Ended::Interrupted);
        }
        let policies: Vec<&str> = screen.policy().into_iter().collect();
        let wait = match feed.step(&policies) {
            Ok(Step::Changed) => {
                shown += 1;
                Duration::ZERO
            }
            Ok(Step::Wait(wait)) => wait,
            Ok(Step::End(why)) => return Ok(Ended::Over(why)),
            Err(why) => return Ok(Ended::Failed(why)),
        };
        draw(&mut guard, &mut screen, feed)?;
        if count > 0 && shown >= count {
            return Ok(Ended::Quit);
        }
        if event::poll(wait.min(LOOK_AGAIN))?
            && let Some(ended) = handle(&mut guard, &mut screen, feed)?
        {
            return Ok(ended);
        }
    }
}

fn draw(guard: &mut Guard, screen: &mut Screen, feed: &dyn Feed) -> io::Result<()> {
    let label = feed.label();
    screen.unanswered = feed.unanswered();
    guard.0.draw(|frame| screen.draw(feed.state(), &label, frame.buffer_mut())).map(drop)
}

fn handle(guard: &mut Guard, screen: &mut Screen, feed: &mut dyn Feed) -> io::Result<Option<Ended>> {
    let Event::Key(key) = event::read()? else { return Ok(None) };
    if key.kind == KeyEventKind::Release {
        return Ok(None);
    }
    match screen.key(key, feed.state().map.cells().len() as u64) {
        Action::Draw => {}
        Action::Quit => return Ok(Some(Ended::Quit)),
        Action::Interrupt => return Ok(Some(Ended::Interrupted)),
        Action::Open(segment) => {
            draw(guard, screen, feed)?;
            screen.opened = Some((segment, feed.owners(segment)));
        }
        action @ (Action::Pause | Action::Seek(_) | Action::Speed(_) | Action::Step) => feed.act(action),
    }
    Ok(None)
}
