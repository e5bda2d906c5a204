//! What the suite `proxy` has beside programs of others: an origin that counts what it is asked, and
//! hyper as barely as it goes, as a proxy and with the pages in memory.

pub mod pages;
pub mod pass;

pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
