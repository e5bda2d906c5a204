//! `Memo`: what is kept.

use tidewire_memo::Graph;
use tidewire_service::{Context, Reply, Result};

use crate::proto::tidewire::admin::v1::{Memo, MemoOverviewReply, MemoOverviewRequest};

pub(crate) struct OfMemo(pub(crate) Graph);

impl Memo for OfMemo {
    async fn overview(
        &self,
        _: Context,
        _: MemoOverviewRequest,
    ) -> Result<Reply<MemoOverviewReply>> {
        let stats = self.0.stats();
        let reply = MemoOverviewReply {
            bytes: stats.bytes as u64,
            entries: stats.nodes as u64,
            computed: stats.started,
            joined: stats.joined,
            verified: stats.verified,
            evicted: stats.removed,
            ..Default::default()
        };
        Ok(reply.into())
    }
}
