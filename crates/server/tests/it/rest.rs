//! REST transcoding, against a service that is known at run time only.

mod bad_input;
mod binding;
mod compress;
mod conflict;
mod deadline;
mod life;
mod openapi;
mod print;
mod query;
pub(crate) mod service;
mod specification;
mod stranger;
mod stream;
