//! The protocols as bytes, through the public interface: heads, requests, replies, and both sides
//! against each other at every split of the bytes.

#![allow(clippy::unwrap_used)]

mod both_sides;
mod harness;
mod negotiate;
mod replies;
mod requests;
mod written;
