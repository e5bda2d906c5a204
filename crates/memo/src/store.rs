//! What is kept: nodes with their identities and edges, values and failures, and the tables that find
//! them.
//!
//! Nothing here decides what is current; that is the floor above.

pub(crate) mod edges;
pub(crate) mod error;
pub(crate) mod key;
pub(crate) mod node;
pub(crate) mod slots;
pub(crate) mod table;
pub(crate) mod value;
