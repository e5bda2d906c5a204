//! What all connections of a server share: its settings for now, and the tables of those protocols
//! that have one.

use std::sync::Arc;

use crate::app::App;
use crate::protocols::live::Live;
use crate::protocols::rest::Rest;
use crate::runtime::latest::Latest;

/// What all connections of a server share.
pub(crate) struct ServerState {
    pub(crate) latest: Arc<Latest<App>>,
    pub(crate) rest: Arc<Rest>,
    pub(crate) live: Live,
}
