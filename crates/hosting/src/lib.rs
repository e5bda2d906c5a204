//! Hosted processes: programs in any language that are started by their first call.
//!
//! ```text
//!  call ─▶ Sites ─▶ Hosted ─▶ pool: seats, queue, idle, backoff ─▶ instance ─▶ the program: live, or HTTP
//!                               │ start, signal                      ▲ output, end
//!                               ▼                                    │
//!                            launcher ◀── SEQPACKET ──▶ warden ──▶ processes
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `warden.rs` | how processes are started and ended, and that none outlives the gateway |
//! | `mark.rs` | which gateway a process belongs to, so that what a killed one left is found |
//! | `pool.rs` | which instance takes a call, who waits, when one is started, frozen or stopped |
//! | `generation.rs` | what becomes of processes when their program is replaced |
//! | `breaker.rs` | how long to rest after a crash, and when to give up for a while |
//! | `instance.rs` | one process from its start to its end |
//! | `calls.rs` | what becomes of a call when its process fails |
//! | `commands.rs` | what becomes stale when a process ends with a command under way |
//! | `native.rs` | calls of a process that speaks the live protocol, both ways |
//! | `peer.rs` | what such a process says by itself |
//! | `steer.rs` | what an operator does to a service |
//! | `clock.rs` | what a process is given time for |
//! | `typed.rs` | such a process as a service of a schema |
//! | `sources.rs` | what its answers are made of |
//! | `upgrade.rs` | WebSockets of programs |
//! | `headers.rs`, `forwarded.rs` | what a program is told of a request |
//! | `site.rs` | which service a path belongs to |

mod breaker;
mod calls;
mod clock;
mod commands;
mod forwarded;
mod generation;
mod headers;
mod host;
mod hosted;
mod instance;
mod launcher;
mod life;
mod mark;
mod message;
mod native;
mod output;
mod passing;
mod peer;
mod pool;
mod program;
mod ready;
mod site;
mod sources;
mod steer;
mod typed;
mod upgrade;
mod warden;

pub use host::{Host, HostError};
pub use hosted::{Hosted, State, Status};
pub use life::Life;
pub use output::{Line, Pipe};
pub use program::{Listen, Program};
pub use site::{Site, SiteError, Sites};
pub use sources::Sources;
pub use typed::Typed;
pub use warden::warden;
