//! Services that a server has of itself: health, reflection, freshness, the docs page.

pub(crate) mod docs;
pub(crate) mod freshness;
pub(crate) mod health;
pub(crate) mod proto;
pub(crate) mod reflection;
