//! REST transcoding, against a service that is known at run time only.

mod bad_input;
mod binding;
mod conflict;
mod openapi;
mod print;
mod query;
mod service;
mod stream;
