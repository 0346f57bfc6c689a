//! What the paper on heuristic cleaning (002) did not ask: other thresholds than 2 s, one that is learned, fuller and emptier disks, today's
//! cleaner, and a solid-state disk. On synthetic traces of three servers, both models, several seeds.

use super::figure::{Figure, Table, number};
use super::runs::{Job, Runs};
use super::size::Size;
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::plot::{Curve, Drawing, Plot, Scale, Style};
use crate::trace::{Cleaner, Model, Replayed, SERVERS};
use std::fmt;

pub(super) const UNITS: [Unit; 1] =
    [Unit { id: "beyond/idle", title: "When to begin cleaning", jobs, make: figure }];

/// What a replay is asked with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Asked {
    pub cleaner: Cleaner,
    pub disk: &'static str,
    pub idle: Idle,
    /// How full the disk is.
    pub percent: u32,
}

/// After which idle time the cleaner begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Idle {
    /// Always the same, in milliseconds.
    Fixed(u32),
    /// Learned from the intervals so far.
    Learned,
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(ms) => write!(f, "{} s", f64::from(*ms) / 1e3),
            Self::Learned => write!(f, "learned"),
        }
    }
}

const OF_PAPER: Idle = Idle::Fixed(2000);
const OTHERS: [Idle; 7] = [
    Idle::Fixed(250),
    Idle::Fixed(500),
    Idle::Fixed(1000),
    Idle::Fixed(4000),
    Idle::Fixed(8000),
    Idle::Fixed(16_000),
    Idle::Learned,
];
const CLEANERS: [Cleaner; 2] = [Cleaner::Of1995, Cleaner::Today];
const FULL: [u32; 5] = [70, 80, 90, 95, 98];
/// Only this server's disk is so large that it can be fuller than 90%.
const LARGE: &str = "maytag";
const SAME: &str = "from 0.5 s to 16 s differences are smaller than their intervals: most idle time comes in long intervals, and there is more of it than \
                    cleaning needs";
const MORE_REQUESTS: &str = "today's cleaner has eight requests in the queue at a time, and reads live parts one by one where that takes the disk less time";
const LONGER: &str = "longest, s";

fn asked(cleaner: Cleaner, idle: Idle) -> Asked {
    Asked { cleaner, disk: "dsp3501", idle, percent: 90 }
}

/// All replays of what is asked, in a fixed order.
fn replays(asked: Asked, size: &Size) -> impl Iterator<Item = Job> {
    let seeds = if size.is_paper() { 1..=3 } else { 1..=1 };
    let of_seed = move |seed| {
        let servers = SERVERS.iter().filter(move |server| asked.percent == 90 || server.name == LARGE);
        servers.flat_map(move |server| Model::ALL.map(|model| Job::Beyond(server.name, model, asked, seed)))
    };
    seeds.flat_map(of_seed)
}

fn all_asked() -> Vec<Asked> {
    let thresholds = CLEANERS.into_iter().flat_map(|cleaner| {
        let idle = std::iter::once(OF_PAPER).chain(OTHERS);
        idle.map(move |idle| asked(cleaner, idle))
    });
    let ssd = CLEANERS.map(|cleaner| Asked { disk: "ssd", ..asked(cleaner, OF_PAPER) });
    thresholds.chain(full()).chain(ssd).collect()
}

fn full() -> impl Iterator<Item = Asked> {
    let of = |percent| CLEANERS.map(|cleaner| Asked { percent, ..asked(cleaner, OF_PAPER) });
    FULL.into_iter().filter(|percent| *percent != 90).flat_map(of)
}

fn jobs(size: &Size) -> Vec<Job> {
    all_asked().into_iter().flat_map(|asked| replays(asked, size)).collect()
}

/// The parts of the paper's days and of its files that are replayed, with each seed. On fewer files segments would be so few that most are
/// cleaned on demand.
pub(super) fn parts(size: &Size) -> (f64, f64) {
    if size.is_paper() { (0.03, 0.1) } else { (0.005, 0.02) }
}

/// Replays that differ in nothing but what was asked.
struct Measured<'a>(Vec<&'a Replayed>);

impl<'a> Measured<'a> {
    fn of(runs: &'a Runs, asked: Asked, size: &Size) -> Result<Self, LabError> {
        replays(asked, size).map(|job| runs.beyond(job)).collect::<Result<_, _>>().map(Self)
    }

    /// The mean of a value over the replays.
    fn mean(&self, value: impl Fn(&Replayed) -> f64) -> f64 {
        self.0.iter().map(|replayed| value(replayed)).sum::<f64>() / self.0.len() as f64
    }

    /// Segments cleaned on demand, as a share of all that were cleaned.
    fn on_demand(&self) -> f64 {
        let sum = |count: fn(&Replayed) -> u64| self.0.iter().map(|replayed| count(replayed)).sum::<u64>();
        sum(|replayed| replayed.cleaned_on_demand) as f64
            / sum(|replayed| replayed.segments_cleaned).max(1) as f64
    }

    /// How long users' requests are delayed over the same replays asked otherwise: the geometric mean of the ratios of the mean delays, and half of its
    /// interval of 95%.
    fn delay_over(&self, other: &Self) -> (f64, f64) {
        let pairs = self.0.iter().zip(&other.0);
        let logs: Vec<f64> = pairs
            .map(|(ours, theirs)| (ours.disk.delay_ms.mean() / theirs.disk.delay_ms.mean()).ln())
            .collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        (mean.exp(), mean.exp() * 2.0 * (variance / count).sqrt())
    }

    fn row(&self, name: [String; 2], over: &Self) -> Vec<String> {
        let (ratio, half_width) = self.delay_over(over);
        let cells = [
            number(self.on_demand() * 100.0),
            number(self.mean(Replayed::interference)),
            format!("{ratio:.2} ± {half_width:.2}"),
            number(self.mean(|replayed| replayed.disk.delay_ms.max()) / 1e3),
            number(self.mean(|replayed| replayed.write_amplification)),
        ];
        name.into_iter().chain(cells).collect()
    }
}

const COLUMNS: [&str; 5] = ["on demand %", "interference", "delay, ratio", LONGER, "log bytes a byte"];

fn table(title: &str, first: [&str; 2]) -> Table {
    Table::new(title, &[&first[..], &COLUMNS[..]].concat())
}

fn figure(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let measured = |asked| Measured::of(runs, asked, size);
    let (mut curves, mut claims) = (Vec::new(), Vec::new());
    let mut thresholds = table(
        "Idle time before cleaning: all servers, models and seeds; delays of users' requests over those with 2 s",
        ["cleaner", "begins after"],
    );
    for (cleaner, style) in CLEANERS.into_iter().zip([Style(7), Style(10)]) {
        let of_paper = measured(asked(cleaner, OF_PAPER))?;
        let (mut points, mut ratios) = (vec![(2.0, 1.0, 0.0)], Vec::new());
        for idle in std::iter::once(OF_PAPER).chain(OTHERS) {
            let other = measured(asked(cleaner, idle))?;
            thresholds.rows.push(other.row([cleaner.name().to_owned(), idle.to_string()], &of_paper));
            let (ratio, half_width) = other.delay_over(&of_paper);
            if let Idle::Fixed(ms) = idle
                && idle != OF_PAPER
            {
                points.push((f64::from(ms) / 1e3, ratio, half_width));
            }
            ratios.push((idle, ratio + half_width));
        }
        claims.extend(claims_of(cleaner, &ratios));
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let half_widths = points.iter().map(|point| point.2).collect();
        let points = points.iter().map(|point| (point.0, point.1)).collect();
        let label = format!("cleaner of {}", cleaner.name()).replace("of today", "of today's firnfs");
        curves.push(Curve::new(label, style, points).with_half_widths(half_widths));
    }
    let [old, today] = [measured(asked(CLEANERS[0], OF_PAPER))?, measured(asked(CLEANERS[1], OF_PAPER))?];
    claims.extend(claims_of_today(&old, &today));
    let tables = vec![thresholds, by_fullness(runs, size)?, by_disk(runs, size)?];
    Ok(Figure {
        id: "beyond/idle",
        title: "When to begin cleaning",
        condition: format!(
            "synthetic traces of Attic, Cellar and Maytag, {}% of the days, {}% of the files, both models, {} seeds; virtual time; DSP 3501, 90% \
             full unless said otherwise",
            parts(size).0 * 100.0,
            parts(size).1 * 100.0,
            if size.is_paper() { 3 } else { 1 }
        ),
        inputs: "gaps between bursts and their lengths are assumed; what thresholds do depends on them",
        differences: vec![
            "a threshold is learned as the least of 0.25, 0.5, ... 16 s after which 95% of the intervals go on for two more seconds",
            "traces that need less than 400 MiB fill a disk to 90% at most; so other degrees are Maytag's",
        ],
        notes: vec![
            "Goals are ours: another rule would be worth it if users waited less with 95% confidence."
                .to_owned(),
        ],
        drawings: vec![drawing(curves)],
        tables,
        claims: if size.is_paper() { claims } else { Vec::new() },
    })
}

fn drawing(curves: Vec<Curve>) -> Drawing {
    let tops = curves.iter().flat_map(|curve| curve.points.iter().zip(&curve.half_widths));
    let y_max = tops.map(|(point, half_width)| point.1 + half_width).fold(1.0, f64::max);
    Drawing::Curves(Plot {
        file: "beyond-idle".into(),
        title: "Delay of users' requests by when cleaning begins (synthetic)".into(),
        conditions:
            "means of three servers, both models, several seeds, over the same with 2 s; intervals of 95%"
                .into(),
        x: "seconds of idle time before cleaning",
        y: "delay over that with 2 s",
        x_scale: Scale::Log2,
        y_scale: Scale::Linear,
        x_max: 16.0,
        y_max: y_max * 1.05,
        curves,
    })
}

fn by_fullness(runs: &Runs, size: &Size) -> Result<Table, LabError> {
    let mut table = table(
        "Fullness: Maytag, both models and all seeds; delays over those of a disk that is 90% full",
        ["cleaner", "full"],
    );
    for cleaner in CLEANERS {
        let large = |asked| -> Result<Measured<'_>, LabError> {
            let jobs = replays(asked, size).filter(|job| matches!(job, Job::Beyond(LARGE, ..)));
            jobs.map(|job| runs.beyond(job)).collect::<Result<_, _>>().map(Measured)
        };
        let ninety = large(asked(cleaner, OF_PAPER))?;
        for percent in FULL {
            let measured = large(Asked { percent, ..asked(cleaner, OF_PAPER) })?;
            table.rows.push(measured.row([cleaner.name().to_owned(), format!("{percent}%")], &ninety));
        }
    }
    Ok(table)
}

fn by_disk(runs: &Runs, size: &Size) -> Result<Table, LabError> {
    let header = ["cleaner", "disk", "on demand %", "interference", "delay, ms", LONGER, "log bytes a byte"];
    let mut table = Table::new("Disks: all servers, models and seeds; 2 s", &header);
    for cleaner in CLEANERS {
        for disk in ["dsp3501", "ssd"] {
            let measured = Measured::of(runs, Asked { disk, ..asked(cleaner, OF_PAPER) }, size)?;
            let cells = [
                number(measured.on_demand() * 100.0),
                number(measured.mean(Replayed::interference)),
                number(measured.mean(|replayed| replayed.disk.delay_ms.mean())),
                number(measured.mean(|replayed| replayed.disk.delay_ms.max()) / 1e3),
                number(measured.mean(|replayed| replayed.write_amplification)),
            ];
            let name = [cleaner.name().to_owned(), disk.to_owned()];
            table.rows.push(name.into_iter().chain(cells).collect());
        }
    }
    Ok(table)
}

/// Whether any threshold beats 2 s: upper ends of the intervals of the ratios.
fn claims_of(cleaner: Cleaner, ratios: &[(Idle, f64)]) -> Vec<Claim> {
    let name = if cleaner == Cleaner::Of1995 { "cleaner of 1995" } else { "today's cleaner" };
    let value = |what: &str, ours| {
        let what = format!("{name}: delay with {what} over that with 2 s, upper end of the interval of 95%");
        Claim::new("beyond", &what, Expected::AtMost(1.0), ours, "ratio")
    };
    let fixed = ratios.iter().filter(|(idle, _)| !matches!(*idle, OF_PAPER | Idle::Learned));
    let best = fixed.map(|(_, ratio)| *ratio).fold(f64::INFINITY, f64::min);
    let learned =
        ratios.iter().find(|(idle, _)| *idle == Idle::Learned).map_or(f64::NAN, |(_, ratio)| *ratio);
    vec![
        value("the best fixed threshold", best).missed(SAME),
        value("a learned threshold", learned).missed(SAME),
    ]
}

fn claims_of_today(old: &Measured<'_>, today: &Measured<'_>) -> Vec<Claim> {
    let value = |what, expected, ours, unit| Claim::new("beyond", what, expected, ours, unit);
    let at_most = Expected::AtMost;
    vec![
        value("delay with today's cleaner over that of 1995", at_most(1.0), today.delay_over(old).0, "ratio")
            .missed(MORE_REQUESTS),
        value(
            "today's cleaner: interference (the paper's bound)",
            at_most(0.072),
            today.mean(Replayed::interference),
            "requests",
        )
        .missed(MORE_REQUESTS),
        value(
            "today's cleaner: cleaned on demand (the paper's most)",
            at_most(0.033),
            today.on_demand(),
            "share",
        ),
    ]
}
