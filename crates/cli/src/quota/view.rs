//! What the daemon answers to `firn quota`, as JSON.

use super::names::Names;
use firnfs::ufs::quota::table::Limit;
use firnfs::ufs::quota::{Class, Difference};
use firnfs::vfs::QuotaReport;
use serde::{Deserialize, Serialize};

/// Users or groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassView {
    /// Users.
    User,
    /// Groups.
    Group,
}

impl ClassView {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
        }
    }
}

impl From<Class> for ClassView {
    fn from(class: Class) -> Self {
        match class {
            Class::User => Self::User,
            Class::Group => Self::Group,
        }
    }
}

impl From<ClassView> for Class {
    fn from(class: ClassView) -> Self {
        match class {
            ClassView::User => Self::User,
            ClassView::Group => Self::Group,
        }
    }
}

/// Usage and limits of space in bytes, or of inodes. A limit of 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AmountView {
    /// What there is.
    pub used: u64,
    /// May be exceeded for the grace time.
    pub soft: u64,
    /// Never exceeded.
    pub hard: u64,
    /// Seconds of grace left, 0 if it is over; null while the usage is not above the soft limit.
    pub grace_left_s: Option<u64>,
}

/// One user or group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LineView {
    /// User or group.
    pub class: ClassView,
    /// Its number.
    pub id: u32,
    /// Its name, if it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// Space: used.
    pub used_bytes: u64,
    /// Space that may be exceeded for the grace time; 0 is no limit.
    pub soft_bytes: u64,
    /// Space that is never exceeded; 0 is no limit.
    pub hard_bytes: u64,
    /// Seconds of grace left for space, 0 if it is over; null while the usage is not above the soft limit.
    pub bytes_grace_left_s: Option<u64>,
    /// Inodes: used.
    pub used_inodes: u64,
    /// Inodes that may be exceeded for the grace time; 0 is no limit.
    pub soft_inodes: u64,
    /// Inodes that are never exceeded; 0 is no limit.
    pub hard_inodes: u64,
    /// Seconds of grace left for inodes, 0 if it is over; null while the usage is not above the soft limit.
    pub inodes_grace_left_s: Option<u64>,
}

impl LineView {
    /// Usage and limits of space.
    pub fn bytes(&self) -> AmountView {
        let (used, soft, hard) = (self.used_bytes, self.soft_bytes, self.hard_bytes);
        AmountView { used, soft, hard, grace_left_s: self.bytes_grace_left_s }
    }

    /// Usage and limits of inodes.
    pub fn inodes(&self) -> AmountView {
        let (used, soft, hard) = (self.used_inodes, self.soft_inodes, self.hard_inodes);
        AmountView { used, soft, hard, grace_left_s: self.inodes_grace_left_s }
    }
}

/// The answer to a request for a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReportView {
    /// Quotas are on.
    pub on: bool,
    /// All inodes have been counted; until then nothing is refused.
    pub counted: bool,
    /// Grace time of users for space, in seconds.
    pub user_bytes_grace_s: u32,
    /// Grace time of users for inodes, in seconds.
    pub user_inodes_grace_s: u32,
    /// Grace time of groups for space, in seconds.
    pub group_bytes_grace_s: u32,
    /// Grace time of groups for inodes, in seconds.
    pub group_inodes_grace_s: u32,
    /// Users, then groups.
    pub lines: Vec<LineView>,
}

/// A difference that a check has found and put right.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DifferenceView {
    /// User or group.
    pub class: ClassView,
    /// Its number.
    pub id: u32,
    /// Bytes as they were kept.
    pub kept_bytes: u64,
    /// Bytes as they are.
    pub counted_bytes: u64,
    /// Inodes as they were kept.
    pub kept_inodes: u64,
    /// Inodes as they are.
    pub counted_inodes: u64,
}

/// The answer to a check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckView {
    /// What was kept wrongly, and is right now.
    pub differences: Vec<DifferenceView>,
}

impl ReportView {
    /// From the volume; `now_ns` is the time there.
    pub fn of(report: &QuotaReport, now_ns: i64) -> Self {
        let grace_left_s = |limit: &Limit| {
            limit.deadline.map(|end| u64::try_from((end.0 - now_ns) / 1_000_000_000).unwrap_or(0))
        };
        let lines = report.lines.iter().map(|line| LineView {
            class: line.class.into(),
            id: line.id,
            name: None,
            used_bytes: line.usage.bytes,
            soft_bytes: line.limits.bytes.soft,
            hard_bytes: line.limits.bytes.hard,
            bytes_grace_left_s: grace_left_s(&line.limits.bytes),
            used_inodes: line.usage.inodes,
            soft_inodes: line.limits.inodes.soft,
            hard_inodes: line.limits.inodes.hard,
            inodes_grace_left_s: grace_left_s(&line.limits.inodes),
        });
        let [user_grace_s, group_grace_s] = report.grace_s;
        Self {
            on: report.is_on,
            counted: report.is_counted,
            user_bytes_grace_s: user_grace_s[0],
            user_inodes_grace_s: user_grace_s[1],
            group_bytes_grace_s: group_grace_s[0],
            group_inodes_grace_s: group_grace_s[1],
            lines: lines.collect(),
        }
    }

    /// Fills in the names, as this machine knows them.
    pub fn name_lines(&mut self) {
        let (users, groups) = (Names::of(ClassView::User), Names::of(ClassView::Group));
        for line in &mut self.lines {
            let names = if line.class == ClassView::User { &users } else { &groups };
            line.name = names.name(line.id);
        }
    }
}

impl From<Vec<Difference>> for CheckView {
    fn from(differences: Vec<Difference>) -> Self {
        let view = |difference: Difference| {
            let Difference { class, id, kept, counted } = difference;
            DifferenceView {
                class: class.into(),
                id,
                kept_bytes: kept.bytes,
                counted_bytes: counted.bytes,
                kept_inodes: kept.inodes,
                counted_inodes: counted.inodes,
            }
        };
        Self { differences: differences.into_iter().map(view).collect() }
    }
}
