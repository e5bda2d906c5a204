//! Replicas over two hops: what is written to the contacts reaches who reads a card made of them.
//!
//! ```text
//!  contacts (examples/contacts) ─▶ relay: cards, made of replicas ─▶ reader: follows a replica of a card
//! ```
//!
//! The programs are in `bin/`; this is the code made of both `.proto` files.

tidewire::include_protos!();
