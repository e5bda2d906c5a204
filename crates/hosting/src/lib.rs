//! Hosted processes: programs in any language that are started by their first call.
//!
//! ```text
//!  call ─▶ Routes (crate `proxy`) ─▶ HostedService ─▶ pool: permits, queue, idle, backoff ─▶ instance ─▶ the program: live, or HTTP
//!                               │ start, signal                      ▲ output, end
//!                               ▼                                    │
//!                            supervisor ◀── SEQPACKET ──▶ supervisor ──▶ processes
//! ```
//!
//! | folder or file | what is there |
//! |---|---|
//! | `host.rs` | all services of a gateway, and how they end |
//! | `service/` | one service: its keeper, what an operator does to it, and what there is to say of it |
//! | `call/` | a call on its way, warm or cold, and what becomes of it when its process fails |
//! | `instance.rs`, `instance/health.rs` | one process from its start to its end, and whether it is well |
//! | `instance/overdue.rs` | which of its calls are overdue |
//! | `native/` | the session of a process that speaks the live protocol, both ways, and `pipe-json` |
//! | `process/` | what is run, where it listens, and what it prints |
//! | `pool/` | which instance takes a call, who waits, when one is started, frozen or stopped |
//! | `limits.rs` | every bound of a service's life |
//! | `supervisor/` | how processes are started, bounded and ended, and that none outlives the gateway |
//!
//! Each folder is described in the file beside it. From `instance.rs` downward, a line of the table
//! imports those below it alone.

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
