//! A call of a hosted program, from whoever asks to the end of its answer.
//!
//! | file | what it decides |
//! |---|---|
//! | `hosted_call.rs` | how every call begins, and how it passes if a process is ready |
//! | `passing.rs` | how plain HTTP passes if a process is ready and the request is there |
//! | `cold.rs` | how any other passes: one that has to wait, or whose body is a stream |
//! | `policy.rs` | what becomes of either when its process fails, or does not answer in time |
//! | `permit.rs` | what a call has while it has a place at an instance, and how it waits for one |
//! | `headers.rs` | what a program is told of a call; of a page, the crate `proxy` says it |
//! | `upload.rs` | when a request with a body takes a place, and loses it |
//! | `download.rs` | when a reply that is read slowly loses its place |

mod cold;
pub(crate) mod download;
mod headers;
pub(crate) mod hosted_call;
pub(crate) mod passing;
pub(crate) mod permit;
mod policy;
mod upload;
