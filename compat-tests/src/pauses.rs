//! Pure: the longest time in which nothing came of a stream of events.

/// Milliseconds since a run began.
pub type Ms = u32;

/// The longest time between two of `times`, sorted, of which at least a part is in the window from
/// `from` to `to`. Where there is none before it or behind it, its own ends count.
#[must_use]
pub fn longest(times: &[Ms], from: Ms, to: Ms) -> Ms {
    let first = times.partition_point(|time| *time <= from);
    let end = times.partition_point(|time| *time < to);
    let mut before = first.checked_sub(1).map_or(from, |last| times[last]);
    let mut longest = 0;
    for time in times[first..end.max(first)].iter().chain([times.get(end).unwrap_or(&to)]) {
        longest = longest.max(time - before);
        before = *time;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_from_before_the_window_to_behind_it() {
        assert_eq!(longest(&[5, 10, 90, 100], 20, 60), 80);
        assert_eq!(longest(&[40, 50, 200], 92, 99), 150);
        assert_eq!(longest(&[10, 20, 30, 40], 5, 45), 10);
    }

    #[test]
    fn a_window_without_an_event_is_a_pause_as_a_whole() {
        assert_eq!(longest(&[], 10, 30), 20);
    }
}
