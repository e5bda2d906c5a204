//! `Calls`: what is called.

use std::time::Duration;

use tidewire_server::Handle;
use tidewire_service::{Context, Error, Reply, Result};
use tidewire_telemetry::{Metrics, RecordedCall};

use crate::proto::tidewire::admin::v1::{
    Call, Calls, CaptureBodiesReply, CaptureBodiesRequest, ClearCallsReply, ClearCallsRequest,
    GetCallRequest, ListCallsReply, ListCallsRequest, MethodFigures, MethodFiguresReply,
    MethodFiguresRequest, OutcomeCount, PhaseReached, RecordCallsReply, RecordCallsRequest,
    SentHeader,
};
use crate::{bodies, limit, micros};

pub(crate) struct CallsApi {
    pub(crate) metrics: Metrics,
    pub(crate) handle: Handle,
}

impl Calls for CallsApi {
    async fn methods(
        &self,
        _: Context,
        _: MethodFiguresRequest,
    ) -> Result<Reply<MethodFiguresReply>> {
        let methods = self.metrics.figures().into_iter().map(|figures| MethodFigures {
            method: figures.method,
            protocol: figures.protocol.to_owned(),
            running: u64::try_from(figures.running).unwrap_or_default(),
            calls: figures.calls,
            outcomes: figures.outcomes.into_iter().map(outcome).collect(),
            p50_us: figures.p50_us,
            p99_us: figures.p99_us,
            asked_memory: figures.asked_memory,
            from_memory: figures.from_memory,
            ..Default::default()
        });
        Ok(MethodFiguresReply { methods: methods.collect(), ..Default::default() }.into())
    }

    async fn list(&self, _: Context, request: ListCallsRequest) -> Result<Reply<ListCallsReply>> {
        let ListCallsRequest { after, method, failed, .. } = request;
        let record = self.metrics.record();
        let recorded =
            record.after(after, limit(request.limit), |call| is_wanted(call, &method, failed));
        let reply = ListCallsReply {
            calls: recorded.calls.iter().map(|call| to_message(call)).collect(),
            dropped: recorded.dropped,
            next: recorded.next,
            recording: record.is_on(),
            capturing: record.is_capturing(),
            ..Default::default()
        };
        Ok(reply.into())
    }

    async fn get(&self, _: Context, request: GetCallRequest) -> Result<Reply<Call>> {
        let call = self.metrics.record().call(request.number);
        let gone = || Error::not_found(format!("call {} is not kept", request.number));
        Ok(to_message(&*call.ok_or_else(gone)?).into())
    }

    async fn record(
        &self,
        _: Context,
        request: RecordCallsRequest,
    ) -> Result<Reply<RecordCallsReply>> {
        let seconds = request.seconds.min(SECONDS_MAX);
        self.metrics.record().keep_for(Duration::from_secs(seconds.into()));
        tracing::warn!(seconds, "calls are recorded by the admin listener");
        Ok(RecordCallsReply::default().into())
    }

    async fn capture_bodies(
        &self,
        _: Context,
        request: CaptureBodiesRequest,
    ) -> Result<Reply<CaptureBodiesReply>> {
        let seconds = request.seconds.min(CAPTURE_SECONDS_MAX);
        let record = self.metrics.record();
        let time = Duration::from_secs(seconds.into());
        record.capture_for(time, bodies::show(&self.handle));
        if seconds > 0 {
            record.keep_at_least(time);
        }
        tracing::warn!(seconds, "bodies of calls are captured by the admin listener");
        Ok(CaptureBodiesReply { seconds, ..Default::default() }.into())
    }

    async fn clear(&self, _: Context, _: ClearCallsRequest) -> Result<Reply<ClearCallsReply>> {
        self.metrics.record().clear();
        tracing::warn!("recorded calls were forgotten by the admin listener");
        Ok(ClearCallsReply::default().into())
    }
}

/// Whether a call is one of those that are asked for.
pub(crate) fn is_wanted(call: &RecordedCall, method: &str, failed: bool) -> bool {
    call.method.contains(method) && !(failed && call.went_well())
}

/// A call as a message.
pub(crate) fn to_message(call: &RecordedCall) -> Call {
    let phases = call.phases.iter().map(|(phase, at)| PhaseReached {
        phase: (*phase).to_owned(),
        at_us: micros(*at),
        ..Default::default()
    });
    let headers = call.headers.iter().map(|(name, value)| SentHeader {
        name: name.clone(),
        value: value.clone(),
        ..Default::default()
    });
    Call {
        number: call.number,
        at_ms: call.at_ms,
        method: call.method.clone(),
        protocol: call.protocol.to_owned(),
        peer: call.peer.clone(),
        caller: call.caller.clone(),
        request_id: call.request_id.clone(),
        trace_id: call.trace_id.clone(),
        outcome: call.outcome.to_owned(),
        status: call.status.into(),
        took_us: micros(call.took),
        bytes_in: call.bytes_in,
        bytes_out: call.bytes_out,
        from_memory: call.from_memory,
        phases: phases.collect(),
        headers: headers.collect(),
        request: call.messages.request.clone(),
        reply: call.messages.reply.clone(),
        cut: call.messages.cut,
        program: call.program.as_deref().unwrap_or_default().to_owned(),
        ..Default::default()
    }
}

fn outcome((code, count): (&'static str, u64)) -> OutcomeCount {
    OutcomeCount { code: code.to_owned(), count, ..Default::default() }
}

/// An hour: who forgets to end a recording does not pay for it for ever.
pub(crate) const SECONDS_MAX: u32 = 3600;
/// Ten minutes: what is said in calls is more than that they were made.
const CAPTURE_SECONDS_MAX: u32 = 600;
