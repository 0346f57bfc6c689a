//! The project's goals: the longest time of each row relative to the first file system that firnfs is compared with.
//!
//! They apply to the subject, and to the variants with the kernel's write-back cache, some of whose goals are lower.

use super::Durability;
use super::task::Task;

/// The goal of a row, if the project has set one.
#[must_use]
pub fn of(task: Task, durability: Durability, writeback: bool) -> Option<f64> {
    use Durability::{Cold, Durable, Warm};
    match (task, durability) {
        (Task::WriteSequential, Durable) => Some(if writeback { 0.9 } else { 1.3 }),
        (Task::OverwriteRandom, Durable) => Some(if writeback { 0.8 } else { 1.2 }),
        (Task::CreateTwo, Durable) => Some(0.8),
        (Task::CreateSmall, Durable) | (Task::ReadSequential, Cold) => Some(1.0),
        (Task::ReadSmall, Cold) | (Task::CreateFsync, Durable) => Some(0.35),
        (Task::DeleteSmall | Task::Unpack, Durable)
        | (Task::Find, Warm | Cold)
        | (Task::ReadRandom, Cold) => Some(1.3),
        (Task::Reread, Cold) => Some(1.5),
        // Of the rows of other programs, those that fsync or the processor rules have a goal; the others are measured.
        (Task::RemoveTree | Task::Build | Task::Transactions, Durable) => Some(1.2),
        _ => None,
    }
}
