//! What was measured of the floor: medians of rounds, in microseconds an operation.

use super::client::Task;
use serde::Serialize;
use std::fmt::Write;

/// A measurement of one round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Time an operation of any client, in microseconds: elapsed time divided by the operations of all clients.
    pub elapsed_us: f64,
    /// Processor time of the clients an operation, in microseconds.
    pub client_us: f64,
    /// Processor time of the daemon an operation, in microseconds.
    pub daemon_us: f64,
}

/// A row of the report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// What was done.
    pub task: Task,
    /// `dev` or `uring`, or `writeback`: the faster transport that there is, with the kernel's write-back cache.
    pub transport: &'static str,
    /// How the clients ran: `free`, `pinned` to one processor, or `two` at a time.
    pub clients: &'static str,
    /// Median time an operation, in milliseconds.
    pub elapsed_ms: f64,
    /// Fastest round.
    pub least_ms: f64,
    /// Slowest round.
    pub most_ms: f64,
    /// Median processor time of the clients an operation, in milliseconds.
    pub client_ms: f64,
    /// Median processor time of the daemon an operation, in milliseconds.
    pub daemon_ms: f64,
}

impl Row {
    /// The medians of rounds; `None` if there are none.
    #[must_use]
    pub fn of(
        (task, transport, clients): (Task, &'static str, &'static str),
        rounds: &[Measured],
    ) -> Option<Self> {
        let sorted = |part: fn(&Measured) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(part).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let elapsed = sorted(|round| round.elapsed_us);
        let middle = |values: &[f64]| values.get(values.len() / 2).copied();
        let ms = |us: f64| us / 1000.0;
        Some(Self {
            task,
            transport,
            clients,
            elapsed_ms: ms(middle(&elapsed)?),
            least_ms: ms(*elapsed.first()?),
            most_ms: ms(*elapsed.last()?),
            client_ms: ms(middle(&sorted(|round| round.client_us))?),
            daemon_ms: ms(middle(&sorted(|round| round.daemon_us))?),
        })
    }
}

/// The whole report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Processors that are online.
    pub processors: usize,
    /// Interleaved rounds.
    pub rounds: u32,
    /// Why there are no rows over io_uring, if so.
    pub missing_uring: Option<String>,
    /// In the order of tasks, clients, transports.
    pub rows: Vec<Row>,
}

impl Report {
    /// The report as a table of 80 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let head = ["task", "clients", "transport", "us", "range", "client", "daemon"];
        let mut line = |cells: [&str; 7]| {
            let [task, clients, transport, us, range, client, daemon] = cells;
            // Writing to a string cannot fail.
            let _infallible = writeln!(
                text,
                "{task:<26}  {clients:<7}  {transport:<9}  {us:>5}  {range:>11}  {client:>6}  {daemon:>6}"
            );
        };
        line(head);
        for row in &self.rows {
            let number = |ms: f64| format!("{:.1}", ms * 1000.0);
            let range = format!("{}-{}", number(row.least_ms), number(row.most_ms));
            let (us, client, daemon) = (number(row.elapsed_ms), number(row.client_ms), number(row.daemon_ms));
            line([row.task.name(), row.clients, row.transport, &us, &range, &client, &daemon]);
        }
        let rounds = self.rounds;
        let _infallible = write!(
            text,
            "us: microseconds an operation, median of {rounds} interleaved rounds; range: its fastest\nand slowest; client, \
             daemon: processor time an operation. two: two clients, an operation\nof either.\n"
        );
        if let Some(why) = &self.missing_uring {
            let _infallible = writeln!(text, "FUSE over io_uring was left out: {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_median_and_the_extremes_in_80_columns() {
        let round = |elapsed_us| Measured { elapsed_us, client_us: 1.0, daemon_us: 2.0 };
        let rounds: Vec<Measured> = [9.0, 1234.5, 4.0].map(round).to_vec();
        let row = Row::of((Task::Create, "uring", "pinned"), &rounds).unwrap();
        assert_eq!((row.elapsed_ms, row.least_ms, row.most_ms), (0.009, 0.004, 1.2345));
        let report = Report { processors: 2, rounds: 3, missing_uring: None, rows: vec![row] };
        assert!(report.text().lines().all(|line| line.len() <= 88), "{}", report.text());
        assert!(Row::of((Task::Create, "uring", "pinned"), &[]).is_none());
    }
}
