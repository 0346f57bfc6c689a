//! `Order`: which of the waiting commands a disk is given next.
//!
//! Callers: `timed`, whose queue it orders.

use crate::disk::Lbn;

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// As they arrived.
    Arrival,
    /// Upwards from where the last command ended, then again from the lowest: 4.4BSD's disksort, C-LOOK.
    Elevator,
}

impl Order {
    /// The index of the next command among those that wait, given by their first sectors in order of arrival; `from` is where the
    /// last command ended. `None` if nothing waits.
    #[must_use]
    pub fn next(self, waiting: impl Iterator<Item = Lbn>, from: Lbn) -> Option<usize> {
        match self {
            Self::Arrival => waiting.take(1).count().checked_sub(1),
            Self::Elevator => {
                let key = |(index, lbn): (usize, Lbn)| (lbn < from, lbn, index);
                waiting.enumerate().map(key).min().map(|(_, _, index)| index)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(order: Order, mut lbns: Vec<u64>, from: u64) -> Vec<u64> {
        let mut from = Lbn(from);
        let mut served = Vec::new();
        while let Some(next) = order.next(lbns.iter().copied().map(Lbn), from) {
            let lbn = lbns.remove(next);
            from = Lbn(lbn + 1);
            served.push(lbn);
        }
        served
    }

    #[test]
    fn the_elevator_goes_up_and_starts_again() {
        assert_eq!(served(Order::Elevator, vec![5, 90, 20, 70, 3], 50), [70, 90, 3, 5, 20]);
        assert_eq!(served(Order::Arrival, vec![5, 90, 20], 50), [5, 90, 20]);
        assert_eq!(served(Order::Elevator, vec![], 50), Vec::<u64>::new());
    }
}
