//! Cached pages: responses of plain HTTP kept as RFC 9111 has it for a shared cache, for programs
//! and upstreams that say in `Cache-Control` how long they last.
//!
//! ```text
//!  request ─▶ pages/serve.rs ─ fresh ─▶ page                      ┌─▶ caller
//!                  │ not there, stale                             │
//!                  └─▶ flight: one of all who ask ─▶ service ─▶ fill ─▶ table (bytes, SIEVE, tags)
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `pages/directives.rs` | what `Cache-Control` and `CDN-Cache-Control` say |
//! | `pages/date.rs` | what a date in a header says |
//! | `pages/policy.rs` | whether a response is stored, and how long it is fresh |
//! | `pages/page_request.rs` | what of a request counts: its key, its directives, who makes it |
//! | `pages/page.rs` | a stored response: age, use, what it is given as |
//! | `pages/conditions.rs` | `If-None-Match`, `If-Modified-Since`, `Range` |
//! | `pages/cache_status.rs` | what `Cache-Status` says |
//! | `pages/page_cache.rs`, `pages/settings.rs` | what there is to set, to ask for and to end |
//! | `pages/table.rs` | what is kept, within how many bytes, and what goes first |
//! | `pages/changes.rs` | that what was asked for before a change is not stored after it |
//! | `pages/flight.rs`, `pages/fill.rs` | who waits for whose response, and a body on its way |
//! | `pages/commands.rs` | which pages a command ends |
//! | `pages/named_tags.rs` | which tags the commands of a service have named |
//! | `pages/slots.rs` | how many commands go on without their callers |
//! | `pages/changes_layer.rs` | a service of which only the commands matter |
//! | `pages/run_command.rs` | a command on its way, also without its caller |
//! | `pages/serve.rs` | the path of a request |
//!
//! Cached replies (`reply_cache.rs`) end with what they depend on, and know their handlers. Pages
//! are of programs that nobody here can look into, which is why HTTP's rules hold for them.

mod cache_status;
mod changes;
mod changes_layer;
mod command;
mod command_response;
mod commands;
mod conditions;
mod date;
mod directives;
mod fill;
mod flight;
mod ignored_changes;
mod named_tags;
mod page;
mod page_cache;
mod page_request;
mod policy;
mod run_command;
mod serve;
mod settings;
mod slots;
mod table;

use std::sync::Arc;

use tidewire_service::{Layer, Service};

use self::changes_layer::Changes;
pub use self::directives::Audience;
pub use self::page_cache::{PageCache, PageChange, PageRuntime, PageStats};
use self::serve::CachedPages;
pub use self::settings::PageSettings;

impl PageCache {
    /// The layer of one service, whose name tells its pages from those of others.
    pub fn layer(&self, name: &str, settings: PageSettings) -> impl Layer + use<> {
        let cache = self.clone();
        let name = Arc::<str>::from(name);
        move |service: Arc<dyn Service>| -> Arc<dyn Service> {
            Arc::new(CachedPages::new(&cache, &name, &settings, service))
        }
    }

    /// The layer of a service whose pages are not kept, and whose commands may say what they have
    /// changed of others.
    pub fn changes_layer(&self, name: &str) -> impl Layer + use<> {
        let cache = self.clone();
        let name = Arc::<str>::from(name);
        move |service: Arc<dyn Service>| -> Arc<dyn Service> {
            Arc::new(Changes::new(&cache, &name, service))
        }
    }
}
