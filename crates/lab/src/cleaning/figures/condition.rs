//! The conditions of a simulation: the same value determines a run and its description in the report.

use crate::cleaning::engine::{Regime, Until, VictimOrder};
use crate::cleaning::scheme;
use crate::cleaning::simulate::Setup;
use crate::error::LabError;
use firnfs::clean::PlacementName;

/// Half width of the confidence interval at which a run stops, as a share of the cost.
const PRECISION: f64 = 0.007;
/// Seed of all simulations.
pub(super) const SEED: u64 = 1;
/// Volumes written at most.
const MAX_VOLUMES: f64 = 200.0;

/// How the live blocks of a batch are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Age sort.
    OldestFirst,
    /// As their victims are read.
    AsRead(VictimOrder),
}

/// See the module's head. Segments have 256 blocks, and there is one log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Condition {
    pub workload: &'static str,
    pub policy: &'static str,
    pub utilisation: f64,
    pub until: Until,
    pub at_a_time: u32,
    pub order: Order,
    pub segments: u32,
}

impl Condition {
    /// The paper's description of its simulator (section 3.5), with numbers that the paper does not give: it writes until
    /// no segment is clean, and then cleans until a certain number is.
    pub const PAPER: Self = Self {
        workload: "uniform",
        policy: "greedy",
        utilisation: 0.75,
        until: Until::Clean,
        at_a_time: 4,
        order: Order::AsRead(VictimOrder::Policy),
        segments: 2000,
    };
    /// The same with hot and cold files; live blocks are sorted by age, as in the paper's curves of them.
    pub const HOT_COLD: Self = Self { workload: "hot-cold", order: Order::OldestFirst, ..Self::PAPER };

    pub const fn at(self, utilisation: f64) -> Self {
        Self { utilisation, ..self }
    }

    pub const fn by(self, policy: &'static str) -> Self {
        Self { policy, ..self }
    }

    pub const fn of(self, workload: &'static str) -> Self {
        Self { workload, ..self }
    }

    pub const fn unsorted(self) -> Self {
        Self { order: Order::AsRead(VictimOrder::Policy), ..self }
    }

    pub const fn single_pass(self, at_a_time: u32) -> Self {
        Self { until: Until::SinglePass, at_a_time, ..self }
    }

    pub const fn until_clean(self, at_a_time: u32) -> Self {
        Self { until: Until::Clean, at_a_time, ..self }
    }

    /// The simulation.
    ///
    /// # Errors
    /// A name is wrong.
    pub fn setup(&self) -> Result<Setup, LabError> {
        let wrong = LabError::Setup;
        let age_sort = self.order == Order::OldestFirst;
        let regime = match self.until {
            Until::Clean => Regime::sprite(self.at_a_time, self.at_a_time, age_sort),
            Until::SinglePass => Regime::single_pass(self.at_a_time, age_sort),
        };
        let victim_order = match self.order {
            Order::OldestFirst => VictimOrder::Policy,
            Order::AsRead(order) => order,
        };
        Ok(Setup {
            workload: self.workload.parse::<scheme::NamedWorkload>().map_err(wrong)?,
            policy: self.policy.parse().map_err(wrong)?,
            placement: scheme::PlacementName::Real(PlacementName::One),
            utilisation: self.utilisation,
            segments: self.segments,
            segment_blocks: 256,
            regime: Regime { victim_order, ..regime },
            seed: SEED,
            precision: PRECISION,
            max_volumes: MAX_VOLUMES,
        })
    }

    fn workload_words(&self) -> String {
        match self.workload.split_once(':') {
            Some((_, shares)) => shares.to_owned(),
            None if self.workload == "hot-cold" => "10/90".to_owned(),
            None => self.workload.to_owned(),
        }
    }

    /// The policy, including the form of cost-benefit.
    fn policy_words(&self) -> String {
        match self.policy {
            "cost-benefit" => "cost-benefit, segment age",
            "cost-benefit-youngest" => "cost-benefit, youngest block",
            other => other,
        }
        .to_owned()
    }

    fn regime_words(&self) -> String {
        match self.until {
            Until::Clean => format!("{0} at a time until {0} are clean", self.at_a_time),
            Until::SinglePass => format!("{} at a time, single pass", self.at_a_time),
        }
    }

    fn order_words(&self) -> String {
        match self.order {
            Order::OldestFirst => "oldest first",
            Order::AsRead(VictimOrder::Policy) => "policy's",
            Order::AsRead(VictimOrder::Random) => "random",
            Order::AsRead(VictimOrder::Number) => "segment number",
        }
        .to_owned()
    }
}

/// The columns of [`words`].
pub(super) const COLUMNS: [&str; 6] =
    ["workload", "policy and form", "disk full", "cleaned", "written in order", "segments"];

/// The conditions of several runs, for [`COLUMNS`]; `between` separates the values that differ.
pub(super) fn words(conditions: &[Condition], between: &str) -> [String; COLUMNS.len()] {
    let of = |what: &dyn Fn(&Condition) -> String| {
        let mut all: Vec<String> = conditions.iter().map(what).collect();
        all.dedup();
        match all.as_slice() {
            [first, .., last] if all.len() > 3 => format!("{first} to {last}"),
            _ => all.join(between),
        }
    };
    [
        of(&Condition::workload_words),
        of(&Condition::policy_words),
        of(&|condition| format!("{:.0}%", condition.utilisation * 100.0)),
        of(&Condition::regime_words),
        of(&Condition::order_words),
        of(&|condition| condition.segments.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_runs_and_what_differs() {
        let hot = Condition::HOT_COLD.by("cost-benefit").at(0.8).single_pass(2);
        let said = words(&[hot], " over ");
        let expected =
            ["10/90", "cost-benefit, segment age", "80%", "2 at a time, single pass", "oldest first", "2000"];
        assert_eq!(said, expected);
        let setup = hot.setup().unwrap();
        assert_eq!(setup.regime.to_string(), "2 at a time, single pass, moved oldest first");
        let pair = words(&[Condition::HOT_COLD.of("hot-cold:5/95"), Condition::PAPER], " over ");
        assert_eq!(
            (pair[0].as_str(), pair[3].as_str()),
            ("5/95 over uniform", "4 at a time until 4 are clean")
        );
        assert_eq!(pair[4], "oldest first over policy's");
        let many: Vec<Condition> = [0.1, 0.2, 0.3, 0.4].map(|u| Condition::PAPER.at(u)).to_vec();
        assert_eq!(words(&many, " over ")[2], "10% to 40%");
    }
}
