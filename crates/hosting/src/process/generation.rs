//! What the instances of a service run, and by which bounds: a reload makes another generation.

use crate::limits::LifeLimits;
use crate::process::program::Program;

/// A program and its bounds.
#[derive(Debug)]
pub(crate) struct Generation {
    /// Counts from 1.
    pub(crate) number: u64,
    pub(crate) program: Program,
    pub(crate) life: LifeLimits,
}
