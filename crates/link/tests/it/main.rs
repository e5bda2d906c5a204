//! Two sides of a link in one process, over streams that tests can cut.

mod calls;
mod cuts;
mod ends;
mod pair;
