//! `tidewire.test.v1.BehaviourService`, as its `.proto` says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidewire::http::HeaderValue;
use tidewire::http::header::HeaderName;
use tidewire::{Code, Context, Detail, Error, Headers, Reply, Result, Stream};

use crate::proto::*;

/// The service. Clones share their counters.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    completed: Arc<AtomicUsize>,
}

impl Behaviour {
    /// How many calls of `Slow` came to their end.
    pub fn completed(&self) -> usize {
        self.completed.load(Ordering::SeqCst)
    }
}

impl BehaviourService for Behaviour {
    async fn echo(&self, context: Context, request: EchoRequest) -> Result<Reply<EchoReply>> {
        let EchoRequest { text, tags, nested, number, data, ratio, counts, at, .. } = request;
        let body =
            EchoReply { text, tags, nested, number, data, ratio, counts, at, ..Default::default() };
        let mut reply = Reply::new(body);
        if let Some(ping) = context.header("x-ping") {
            reply.headers.insert("x-pong", ping.clone());
            reply.trailers.insert("x-pong-trailer", ping.clone());
        }
        Ok(reply)
    }

    async fn look(&self, _: Context, request: LookRequest) -> Result<Reply<LookReply>> {
        let value = format!("value of {}", request.key);
        Ok(LookReply { value, ..Default::default() }.into())
    }

    async fn count(&self, _: Context, request: CountRequest) -> Result<Reply<Stream<CountReply>>> {
        let CountRequest { n, fail_after, .. } = request;
        let last = if fail_after > 0 { fail_after } else { n };
        let numbers = (1..=last).map(|number| Ok(CountReply { number, ..Default::default() }));
        let failure =
            (fail_after > 0).then(|| Err(Error::aborted(format!("stopped after {fail_after}"))));
        let items: Vec<Result<CountReply>> = numbers.chain(failure).collect();
        let sent = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&sent);
        let counted = Stream::from_results(items).map(move |item| {
            counting.fetch_add(usize::from(item.is_ok()), Ordering::SeqCst);
            item
        });
        Ok(counted.with_trailers(move || count_of(sent.load(Ordering::SeqCst))).into())
    }

    async fn sum(&self, _: Context, mut requests: Stream<SumRequest>) -> Result<Reply<SumReply>> {
        let mut reply = SumReply::default();
        while let Some(request) = requests.next().await? {
            reply.total += request.value;
            reply.messages += 1;
        }
        Ok(reply.into())
    }

    async fn chat(
        &self,
        _: Context,
        requests: Stream<ChatRequest>,
    ) -> Result<Reply<Stream<ChatReply>>> {
        let replies =
            requests.map(|request| Ok(ChatReply { text: request?.text, ..Default::default() }));
        Ok(replies.into())
    }

    async fn fail(&self, _: Context, request: FailRequest) -> Result<Reply<FailReply>> {
        let code = u32::try_from(request.code).ok().and_then(Code::from_number);
        let mut error = Error::new(code.unwrap_or(Code::InvalidArgument), request.message);
        if request.with_detail {
            error = error.with_detail(Detail::new(&FailDetail {
                reason: "asked for".to_owned(),
                number: request.code,
                ..Default::default()
            }));
        }
        error
            .headers_mut()
            .insert(HeaderName::from_static("x-fail"), HeaderValue::from_static("yes"));
        Err(error)
    }

    async fn panic(&self, _: Context, _: PanicRequest) -> Result<Reply<PanicReply>> {
        panic!("asked for")
    }

    async fn slow(&self, _: Context, request: SlowRequest) -> Result<Reply<SlowReply>> {
        let wait = Duration::from_millis(request.millis.into());
        tokio::time::sleep(wait).await; // tidy: allow-sleep it is what the method is for
        self.completed.fetch_add(1, Ordering::SeqCst);
        Ok(SlowReply { millis: request.millis, ..Default::default() }.into())
    }
}

/// The trailers of `Count`, which are not known before its end.
fn count_of(sent: usize) -> Headers {
    Headers::from_iter([(HeaderName::from_static("x-counted"), HeaderValue::from(sent))])
}
