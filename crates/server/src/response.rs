//! A response whatever its protocol: its kinds of bodies, errors, tags, and faults on purpose.

pub(crate) mod body;
pub(crate) mod counted;
pub(crate) mod error;
pub(crate) mod etag;
pub(crate) mod faults;
pub(crate) mod full;
pub(crate) mod page;
pub(crate) mod replies;
