//! Hosted processes: programs in any language that are started by their first call.
//!
//! ```text
//!  call ─▶ Routes (crate `proxy`) ─▶ HostedService ─▶ pool: permits, queue, idle, backoff ─▶ instance ─▶ the program: live, or HTTP
//!                               │ start, signal                      ▲ output, end
//!                               ▼                                    │
//!                            supervisor ◀── SEQPACKET ──▶ supervisor ──▶ processes
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `supervisor.rs` | how processes are started and ended, and that none outlives the gateway |
//! | `supervisor/cgroups.rs`, `supervisor/watch.rs` | how a process and what it starts are kept within bounds |
//! | `process_mark.rs` | which gateway a process belongs to, so that what a killed one left is found |
//! | `pool.rs` | which instance takes a call, who waits, when one is started, frozen or stopped |
//! | `generation.rs` | what becomes of processes when their program is replaced |
//! | `breaker.rs` | how long to rest after a crash, and when to give up for a while |
//! | `instance.rs` | one process from its start to its end |
//! | `health.rs` | whether a process that runs is well |
//! | `cold.rs` | what becomes of a call when its process fails |
//! | `commands.rs` | what becomes stale when a process ends with a command under way |
//! | `native.rs` | calls of a process that speaks the live protocol, both ways |
//! | `pipe_json.rs` | calls of a program that takes each as one JSON object |
//! | `callbacks.rs` | what such a process says by itself |
//! | `status.rs` | what there is to say of a service |
//! | `pool/replacement.rs` | which instance another takes over from, and who gives a place up |
//! | `control.rs` | what an operator does to a service |
//! | `typed_service.rs` | such a process as a service of a schema |
//! | `sources.rs` | what its answers are made of |
//! | `upload.rs` | when a request with a body takes a place, and loses it |
//! | `download.rs` | when a reply that is read slowly loses its place |
//! | `headers.rs` | what a program is told of a call; of a page, the crate `proxy` says it |

#![doc = include_str!("../README.md")]

mod call;
mod host;
mod instance;
mod limits;
mod native;
mod pool;
mod process;
mod service;
mod supervisor;

pub use host::{Host, HostError};
pub use limits::LifeLimits;
pub use native::sources::Sources;
pub use pool::state::State;
pub use process::output::{Line, Pipe};
pub use process::program::{Listen, Program};
pub use service::HostedService;
pub use service::status::{ProcessStatus, Status};
pub use service::typed_service::TypedService;
pub use supervisor::supervisor;
