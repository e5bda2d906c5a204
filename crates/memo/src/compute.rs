//! Running memoized functions: what they read, who waits for them, and how their values are published.

pub(crate) mod attempt;
pub(crate) mod audit;
pub(crate) mod board;
pub(crate) mod cached_value;
pub(crate) mod capture;
pub(crate) mod enter;
pub(crate) mod get;
pub(crate) mod hit;
pub(crate) mod in_order;
pub(crate) mod inner;
pub(crate) mod options;
pub(crate) mod own;
pub(crate) mod own_queue;
pub(crate) mod own_run;
pub(crate) mod own_runs;
pub(crate) mod publish;
pub(crate) mod rejection;
pub(crate) mod scope;
pub(crate) mod work;
