//! Passing plain HTTP on: to upstreams, and to the programs that a gateway hosts.
//!
//! ```text
//!  request ─▶ Routes ─▶ Upstream ─▶ client: connections, turns, retries ─▶ somebody else's server
//!                  └──▶ a hosted program (crate `hosting`)
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `routes.rs` | which service a path belongs to |
//! | `location.rs` | a `Location` of a service that does not see its prefix |
//! | `upstream.rs` | how a request passes to an upstream, and how long it may take |
//! | `health.rs` | whether a server behind is well |
//! | `proxy_status.rs` | what a failure on the way is told as: status and `Proxy-Status` |
//! | `grpc_caller.rs` | the deadline of a caller of gRPC, and failures that it can read |
//! | `upgrade.rs` | requests that take their connection over, WebSockets above all |
//! | `forwarded.rs`, `caller.rs` | what the server behind is told of a request and of its caller |
//! | `header_rules.rs` | which headers are set and taken out on the way |
//! | `page_runtime.rs` | what the page cache of the crate `cache` needs of tokio |
//! | `response_timer.rs` | what the server behind is given time for |

#![doc = include_str!("../README.md")]

mod caller;
mod forwarded;
mod grpc_caller;
mod header_rules;
mod health;
mod late;
mod location;
mod page_runtime;
mod proxy_status;
mod response_timer;
mod routes;
mod upgrade;
mod upstream;

pub use caller::{tell_plain, tell_principal};
pub use header_rules::{HeaderChanges, HeaderRuleError, HeaderRules};
pub use health::ask;
pub use late::in_time;
pub use page_runtime::TokioPages;
pub use proxy_status::ProxyError;
pub use response_timer::{ResponseTimer, is_whole};
pub use routes::{Route, RouteError, Routes};
pub use upgrade::{UpgradeAddress, pass_upgrade, refused_upgrade, upgrade_header};
pub use upstream::{Upstream, UpstreamError, UpstreamSettings};
