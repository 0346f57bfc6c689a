//! Colours. Each meaning also has a character or a word of its own, so a screen without colours says the same.

use ratatui::style::{Color, Modifier, Style};

/// Upper bounds of the classes of age, in seconds, and their names; the last class has no bound.
pub const AGES: [(i64, &str); 5] = [(10, "10s"), (60, "1min"), (600, "10min"), (3600, "1h"), (86_400, "1d")];

const HUES: [Color; 6] = [
    Color::LightRed,
    Color::LightYellow,
    Color::LightGreen,
    Color::LightCyan,
    Color::LightBlue,
    Color::Magenta,
];

/// With colours or without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Theme {
    /// Colours are wanted.
    pub has_colour: bool,
}

impl Theme {
    fn coloured(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Headings.
    #[must_use]
    pub fn title(self) -> Style {
        self.coloured(Color::LightCyan).add_modifier(Modifier::BOLD)
    }

    /// Names of values, axes.
    #[must_use]
    pub fn faint(self) -> Style {
        self.coloured(Color::Gray)
    }

    /// What somebody should do something about.
    #[must_use]
    pub fn bad(self) -> Style {
        self.coloured(Color::LightRed).add_modifier(Modifier::BOLD)
    }

    /// Bars and sparklines.
    #[must_use]
    pub fn bar(self) -> Style {
        self.coloured(Color::LightGreen)
    }

    /// A segment by its class of age.
    #[must_use]
    pub fn age(self, class: usize) -> Style {
        self.coloured(HUES[class.min(HUES.len() - 1)])
    }

    /// A victim that was just taken.
    #[must_use]
    pub fn victim(self) -> Style {
        self.bad().add_modifier(Modifier::REVERSED)
    }

    /// Where a log writes.
    #[must_use]
    pub fn head(self) -> Style {
        self.coloured(Color::White).add_modifier(Modifier::BOLD)
    }

    /// The cursor.
    #[must_use]
    pub fn cursor(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// The class of an age, 0 to 5.
#[must_use]
pub fn age_class(age_s: i64) -> usize {
    AGES.iter().position(|(bound, _)| age_s < *bound).unwrap_or(AGES.len())
}
