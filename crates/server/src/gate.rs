//! The gates that a server has of itself: why a request is refused before its body is read.
//!
//! ```text
//! head ─▶ caller_limits.rs: too often from there? ─▶ deadline.rs ─▶ calls.rs: a place? ─▶ gates of the program (who calls) ─▶ access.rs: may they?
//!      ─▶ caller_limits.rs: too many, too often? ─▶ layers
//! ```
//!
//! Each is there only where a setting asks for it, and each refusal names the setting.

pub(crate) mod access;
pub(crate) mod access_error;
pub(crate) mod access_paths;
pub(crate) mod authority;
mod caller_limits;
mod caller_table;
pub(crate) mod callers;
mod calls;
pub(crate) mod cors;
mod deadline;
pub(crate) mod hosts;
pub(crate) mod open;
pub(crate) mod origin;
pub(crate) mod own_targets;
#[cfg(test)]
mod path_programs;
mod path_readings;
mod path_steps;
mod refusal;
pub(crate) mod vary;

use std::sync::Arc;

use tidewire_service::Gate;

use self::access::AccessGate;
use self::open::OpenTargets;
use crate::limits::Limits;
use crate::runtime::usage::Counters;

type Gates = Vec<Arc<dyn Gate>>;

/// What the limits count; it stays when they change.
pub(crate) struct GateState {
    callers: Arc<caller_limits::Callers>,
    slots: Arc<calls::CallSlots>,
    counters: Arc<Counters>,
}

impl GateState {
    pub(crate) fn new(counters: &Arc<Counters>) -> Self {
        let callers = caller_limits::Callers::new(counters);
        Self { callers, slots: Arc::default(), counters: Arc::clone(counters) }
    }

    /// The gates of the limits: those before the gates of the program, and those after them.
    pub(crate) fn gates(&self, limits: &Limits) -> [Gates; 2] {
        let Self { callers, slots, counters } = self;
        let [mut before, mut after]: [Gates; 2] = Default::default();
        if let Some(gate) = caller_limits::Rate::of_address(limits, callers) {
            before.push(Arc::new(gate));
        }
        if let Some(gate) = deadline::Deadlines::new(limits, counters) {
            before.push(Arc::new(gate));
        }
        if let Some(gate) = calls::Calls::new(limits, slots, counters) {
            before.push(Arc::new(gate));
        }
        if let Some(gate) = caller_limits::CallerCalls::new(limits, callers) {
            after.push(Arc::new(gate));
        }
        if let Some(gate) = caller_limits::Rate::of_caller(limits, callers) {
            after.push(Arc::new(gate));
        }
        [before, after]
    }
}

/// The gates of a server, in their order.
pub(crate) struct AllGates {
    pub(crate) gates: Vec<Arc<dyn Gate>>,
    pub(crate) open: OpenTargets,
    pub(crate) access: Option<Arc<AccessGate>>,
}

impl AllGates {
    pub(crate) fn new(
        [before, after]: [Gates; 2],
        of_program: Gates,
        access: Option<AccessGate>,
        is_schema_open: bool,
    ) -> Self {
        let bounds = before.iter().chain(&after).cloned().collect();
        let open = OpenTargets::new(is_schema_open, access.as_ref(), bounds);
        let access = access.map(Arc::new);
        let mut gates = before;
        gates.extend(of_program);
        gates.extend(access.clone().map(|gate| gate as Arc<dyn Gate>));
        gates.extend(after);
        Self { gates, open, access }
    }
}
