//! Pure: the deadlines of one shard, the earliest of which its task sleeps for.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::coordinator::shard::Steady;

/// Deadlines by timer. Those that are due at the same moment fire in the order they were set.
#[derive(Debug)]
pub(super) struct Timers<T> {
    by_deadline: BTreeMap<(Steady, u64), T>,
    places: HashMap<T, (Steady, u64)>,
    set_count: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { by_deadline: BTreeMap::new(), places: HashMap::new(), set_count: 0 }
    }
}

impl<T: Clone + Eq + Hash> Timers<T> {
    /// Sets a timer, instead of whenever it was set for before.
    pub(super) fn set(&mut self, timer: T, deadline: Steady) {
        self.cancel(&timer);
        self.set_count += 1;
        let place = (deadline, self.set_count);
        self.by_deadline.insert(place, timer.clone());
        self.places.insert(timer, place);
    }

    /// Forgets a timer.
    pub(super) fn cancel(&mut self, timer: &T) {
        if let Some(place) = self.places.remove(timer) {
            self.by_deadline.remove(&place);
        }
    }

    /// When the next one is due.
    pub(super) fn earliest(&self) -> Option<Steady> {
        self.by_deadline.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Takes the next timer that is due.
    pub(super) fn pop_due(&mut self, now: Steady) -> Option<T> {
        if self.earliest()? > now {
            return None;
        }
        let (_, timer) = self.by_deadline.pop_first()?;
        self.places.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_the_order_of_their_deadlines_and_once() {
        let mut timers = Timers::default();
        timers.set("late", Steady(30));
        timers.set("early", Steady(10));
        timers.set("also early", Steady(10));
        assert_eq!(timers.earliest(), Some(Steady(10)));
        assert_eq!(timers.pop_due(Steady(9)), None);
        assert_eq!(timers.pop_due(Steady(10)), Some("early"));
        assert_eq!(timers.pop_due(Steady(10)), Some("also early"));
        assert_eq!(timers.pop_due(Steady(10)), None);
        assert_eq!(timers.pop_due(Steady(31)), Some("late"));
        assert_eq!(timers.earliest(), None);
    }

    #[test]
    fn a_timer_that_is_set_anew_fires_at_the_new_moment_alone() {
        let mut timers = Timers::default();
        timers.set("session", Steady(10));
        timers.set("session", Steady(20));
        assert_eq!(timers.pop_due(Steady(15)), None);
        assert_eq!(timers.pop_due(Steady(20)), Some("session"));
        timers.set("session", Steady(40));
        timers.cancel(&"session");
        assert_eq!(timers.pop_due(Steady(50)), None);
    }
}
