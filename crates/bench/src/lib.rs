//! Honest load generation and measurement.
