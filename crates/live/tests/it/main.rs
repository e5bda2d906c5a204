//! The live protocol, two sessions against each other: no sockets, no clock.

mod calls;
mod freshness;
mod fuzz;
mod hostile;
mod network;
mod pair;
mod resuming;
mod streams;
