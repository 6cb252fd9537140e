//! Crashing a world, bringing it up again, and finding the moment that it fell back to.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use rand::Rng;
use storage::log_store::GroupId;

use crate::model::{GroupModel, Groups};
use crate::world::World;

impl World {
    /// The machine goes down now (if it is not down yet), and comes up again, perhaps only at a
    /// further attempt. What the store holds then is what it held after some operation, and not
    /// before the last that was reported durable.
    pub fn crash_and_recover(&mut self) {
        self.store = None;
        if !self.disk.is_down() && self.rng.random_bool(0.3) {
            self.disk.kill();
        } else {
            self.disk.restart();
        }
        self.recover();
    }

    /// Comes up again behind a crash of the disk.
    pub fn recover(&mut self) {
        self.store = None;
        self.crash_index();
        for attempt in 0.. {
            self.disk.clear_faults();
            if attempt < 3 && self.rng.random_bool(0.3) {
                let operation = self.disk.operations() + self.rng.random_range(1..8);
                self.disk.crash_at(operation);
            }
            if self.open().is_ok() {
                break;
            }
            self.disk.restart();
            self.crash_index();
        }
        self.disk.clear_faults();
        self.fall_back();
    }

    /// The index is flushed at any moment, or lost whole.
    fn crash_index(&mut self) {
        match self.rng.random_range(0..5) {
            0 => self.kv.lose(),
            1 => self.kv.crash_keeping(usize::MAX),
            2 => self.kv.crash(),
            _ => {
                let kept = self.rng.random_range(0..=self.kv.unflushed_writes());
                self.kv.crash_keeping(kept);
            }
        }
    }

    /// Finds the moment that the store is at, and goes on from there.
    fn fall_back(&mut self) {
        let durable = self.durable.load(Ordering::Relaxed);
        let mut checked = HashMap::new();
        let mut reasons = Vec::new();
        let found = (durable..self.moments.len()).find(|number| {
            match self.is_at(&self.moments[*number], &mut checked) {
                Ok(()) => true,
                Err(reason) => {
                    reasons.push(format!("  {number}: {reason}"));
                    false
                }
            }
        });
        let Some(number) = found else {
            panic!(
                "seed {}: the store holds what it held at no moment from {durable} on:\n{}\n\
                 operations of this life:\n{}",
                self.seed,
                reasons.join("\n"),
                self.told.join("\n"),
            );
        };
        self.moments = vec![self.moments[number].clone()];
        self.told.clear();
        self.begin_term();
        self.durable = std::sync::Arc::default();
    }

    fn is_at(
        &self,
        groups: &Groups,
        checked: &mut HashMap<*const GroupModel, Result<(), String>>,
    ) -> Result<(), String> {
        let alive = groups.iter().filter(|(_, model)| model.exists).map(|(id, _)| GroupId(*id));
        let (alive, listed) = (alive.collect::<Vec<_>>(), self.store().group_ids());
        if alive != listed {
            return Err(format!("groups {listed:?} instead of {alive:?}"));
        }
        for (id, model) in groups.iter().filter(|(_, model)| model.exists) {
            let check = || model.check(&self.store().group(GroupId(*id)));
            let result = checked.entry(Rc::as_ptr(model)).or_insert_with(check);
            result.clone().map_err(|reason| format!("group {id}: {reason}"))?;
        }
        Ok(())
    }

    /// The store holds exactly what it should hold now, without any crash.
    pub fn check(&self) {
        if let Err(reason) = self.is_at(self.now(), &mut HashMap::new()) {
            panic!(
                "seed {}: {reason}\noperations of this life:\n{}",
                self.seed,
                self.told.join("\n")
            );
        }
    }
}
