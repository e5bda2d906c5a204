//! What a link keeps of each of its calls.

use std::collections::HashMap;

use tidewire_live_proto::CallId;

/// Something of each call. The numbers of calls are dense and bounded, so a hash that is quick will
/// do.
pub type CallMap<T> = HashMap<CallId, T, foldhash::fast::RandomState>;
