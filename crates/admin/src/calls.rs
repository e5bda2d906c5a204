//! `Calls`: what is called.

use tidewire_observe::Metrics;
use tidewire_service::{Context, Reply, Result};

use crate::proto::tidewire::admin::v1::{
    Calls, MethodFigures, MethodFiguresReply, MethodFiguresRequest, OutcomeCount,
};

pub(crate) struct OfCalls(pub(crate) Metrics);

impl Calls for OfCalls {
    async fn methods(
        &self,
        _: Context,
        _: MethodFiguresRequest,
    ) -> Result<Reply<MethodFiguresReply>> {
        let methods = self.0.figures().into_iter().map(|figures| MethodFigures {
            method: figures.method,
            protocol: figures.protocol.to_owned(),
            running: u64::try_from(figures.running).unwrap_or_default(),
            calls: figures.calls,
            outcomes: figures.outcomes.into_iter().map(outcome).collect(),
            p50_us: figures.p50_us,
            p99_us: figures.p99_us,
            ..Default::default()
        });
        Ok(MethodFiguresReply { methods: methods.collect(), ..Default::default() }.into())
    }
}

fn outcome((code, count): (&'static str, u64)) -> OutcomeCount {
    OutcomeCount { code: code.to_owned(), count, ..Default::default() }
}
