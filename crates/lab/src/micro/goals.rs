//! The project's goals: the longest time of each row relative to the first file system that firnfs is compared with, and of some rows
//! relative to the store in memory behind the same transport.
//!
//! They apply to the subject. Variants with the kernel's write-back cache have goals in the rows that the cache is for; the other
//! variants are there for comparison.

use super::Durability;
use super::task::Task;

/// The goal of a row with the kernel's write-back cache, if it differs.
#[must_use]
pub fn with_writeback(task: Task, durability: Durability) -> Option<f64> {
    match (task, durability) {
        (Task::WriteSequential, Durability::Durable) => Some(0.9),
        (Task::OverwriteRandom, Durability::Durable) => Some(0.8),
        _ => None,
    }
}

/// The goal of a row relative to the store in memory: what the log itself may add.
#[must_use]
pub fn of_null(task: Task, durability: Durability) -> Option<f64> {
    match (task, durability) {
        (Task::WriteSequential | Task::OverwriteRandom, Durability::Buffered) => Some(1.15),
        _ => None,
    }
}

/// The goal of a row, if the project has set one.
#[must_use]
pub fn of(task: Task, durability: Durability) -> Option<f64> {
    use Durability::{Cold, Durable, Warm};
    match (task, durability) {
        (Task::CreateTwo, Durable) => Some(0.8),
        (Task::CreateSmall, Durable) | (Task::ReadSequential, Cold) => Some(1.0),
        (Task::ReadSmall, Cold) | (Task::CreateFsync, Durable) => Some(0.35),
        (Task::WriteSequential | Task::DeleteSmall | Task::Unpack, Durable)
        | (Task::Find, Warm | Cold)
        | (Task::ReadRandom, Cold) => Some(1.3),
        (Task::Reread, Cold) => Some(1.5),
        // Of the rows of other programs, those that fsync or the processor rules have a goal; the others are measured.
        (Task::OverwriteRandom | Task::RemoveTree | Task::Build | Task::Transactions, Durable) => Some(1.2),
        _ => None,
    }
}
