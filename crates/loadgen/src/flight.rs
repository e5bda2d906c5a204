//! The requests under way of one worker, by number.

use crate::run_clock::Nanos;

/// One request under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) intended: Nanos,
    pub(crate) sent: Nanos,
    pub(crate) connection: u32,
    /// The scenario iteration it belongs to, if there is one.
    pub(crate) session: u32,
    pub(crate) step: u32,
}

/// A slab of flights.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    pub(crate) fn insert(&mut self, flight: Flight) -> u32 {
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = Some(flight);
            return key;
        }
        self.slots.push(Some(flight));
        u32::try_from(self.slots.len() - 1).expect("the in-flight cap is far below u32::MAX")
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<Flight> {
        let flight = self.slots.get_mut(key as usize)?.take();
        if flight.is_some() {
            self.free.push(key);
        }
        flight
    }

    /// The keys of the flights for which `wanted` holds.
    pub(crate) fn keys(&self, wanted: impl Fn(&Flight) -> bool) -> Vec<u32> {
        let number = |key: usize| u32::try_from(key).ok();
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.as_ref().is_some_and(&wanted))
            .filter_map(|(key, _)| number(key))
            .collect()
    }

    pub(crate) fn get(&self, key: u32) -> Option<&Flight> {
        self.slots.get(key as usize)?.as_ref()
    }
}
