//! Hosted processes: programs in any language that are started by their first call.
//!
//! ```text
//!  call ─▶ Sites ─▶ Hosted ─▶ pool: seats, queue, idle, backoff ─▶ instance ─▶ HTTP to the program
//!                               │ start, signal                      ▲ output, end
//!                               ▼                                    │
//!                            launcher ◀── SEQPACKET ──▶ warden ──▶ processes
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `warden.rs` | how processes are started and ended, and that none outlives the gateway |
//! | `pool.rs` | which instance takes a call, who waits, when one is started, frozen or stopped |
//! | `breaker.rs` | how long to rest after a crash, and when to give up for a while |
//! | `instance.rs` | one process from its start to its end |
//! | `http.rs` | what an unmodified program is told of a request |
//! | `site.rs` | which service a path belongs to |

mod breaker;
mod forwarded;
mod host;
mod hosted;
mod http;
mod instance;
mod launcher;
mod life;
mod message;
mod output;
mod pool;
mod program;
mod ready;
mod site;
mod warden;

pub use host::{Host, HostError};
pub use hosted::{Hosted, State, Status};
pub use life::Life;
pub use output::{Line, Pipe};
pub use program::{Listen, Program};
pub use site::{Site, SiteError, Sites};
pub use warden::warden;
