//! Pure: how long a partition took no records, by kind of fault.

use std::collections::BTreeMap;

use compat_tests::pauses::longest;

use crate::history::{History, Ms, Outcome, Partition};

/// The time that a fault is answered for: from its start until all is well again.
#[derive(Debug, Clone)]
pub struct Window {
    /// Its kind, as the table names it.
    pub name: String,
    /// When it began.
    pub from: Ms,
    /// When all was well again.
    pub to: Ms,
}

/// What a kind of fault has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// How often it came.
    pub count: usize,
    /// The longest time in which some partition acknowledged nothing.
    pub one_partition: Ms,
    /// The longest time in which no partition acknowledged anything.
    pub all_partitions: Ms,
}

/// The cost of each kind of fault that came.
pub fn costs(history: &History, windows: &[Window]) -> BTreeMap<String, Cost> {
    let mut by_partition: BTreeMap<Partition, Vec<Ms>> = BTreeMap::new();
    let mut all = Vec::new();
    for sent in &history.sent {
        if matches!(sent.outcome, Outcome::Acknowledged(_)) {
            by_partition.entry(sent.value.partition).or_default().push(sent.completed);
            all.push(sent.completed);
        }
    }
    all.sort_unstable();
    by_partition.values_mut().for_each(|times| times.sort_unstable());
    let mut costs: BTreeMap<String, Cost> = BTreeMap::new();
    for window in windows {
        let cost = costs.entry(window.name.clone()).or_default();
        cost.count += 1;
        cost.all_partitions = cost.all_partitions.max(longest(&all, window.from, window.to));
        for times in by_partition.values() {
            cost.one_partition = cost.one_partition.max(longest(times, window.from, window.to));
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Sent, Value};

    fn acknowledged(partition: Partition, completed: Ms) -> Sent {
        let value = Value { producer: 0, partition, sequence: completed };
        Sent { value, invoked: 0, completed, outcome: Outcome::Acknowledged(None) }
    }

    #[test]
    fn the_longest_pause_counts_from_before_the_fault_to_behind_it() {
        let times = [(0, 5), (0, 10), (0, 90), (0, 100), (1, 40), (1, 50), (1, 200)];
        let sent = times.map(|(partition, at)| acknowledged(partition, at)).to_vec();
        let history = History { sent, ..History::default() };
        let window = |name: &str, from, to| Window { name: name.to_owned(), from, to };
        let costs = costs(&history, &[window("a", 20, 60), window("a", 92, 99), window("b", 3, 6)]);
        assert_eq!(costs["a"], Cost { count: 2, one_partition: 150, all_partitions: 40 });
        assert_eq!(costs["b"], Cost { count: 1, one_partition: 37, all_partitions: 5 });
    }
}
