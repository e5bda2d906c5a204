//! From a request to its protocol: the only place that knows all of them.

pub(crate) mod answer;
pub(crate) mod dispatcher;
pub(crate) mod lookup;
pub(crate) mod pipeline;
pub(crate) mod response_future;
pub(crate) mod server_state;
