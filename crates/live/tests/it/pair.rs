//! A server and a client of the protocol, and the wire between them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidewire_live::{
    AnswerFuture, Arrival, ByteStream, CallFailure, CallTarget, Config, ConnectionEnd, Dial, Host,
    Identity, IncomingCall, Links, Remote, Transport, random_boot,
};
use tidewire_service::{
    Body, Call, Code, Codec, Context, Error, Frame, Freshness, Idempotency, Method, Reply, Result,
    Signal, Spec, StreamKind, Validator,
};
use tokio::io::DuplexStream;
use tokio_util::task::TaskTracker;

/// A service of one method a name, and what it did.
#[derive(Default)]
pub(crate) struct Echo {
    /// How often `Count` ran.
    pub(crate) counted: AtomicUsize,
    /// Lets `Wait` go on.
    pub(crate) gate: tokio::sync::Notify,
    /// Where a handler waits.
    pub(crate) began: tokio::sync::Notify,
    /// What `Value` answers, and what tells that it changed.
    pub(crate) value: AtomicUsize,
    changed: Mutex<Signal>,
    /// How often `Same` was asked.
    pub(crate) same: AtomicUsize,
    /// What `Meanwhile` does before it answers.
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What `Given` answers.
    pub(crate) given: Mutex<Option<Body>>,
    /// Names of calls that were dropped before they ended.
    pub(crate) dropped: Mutex<Vec<String>>,
}

struct Ends<'a>(&'a Echo, String, bool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if !self.2 {
            self.0.dropped.lock().unwrap().push(std::mem::take(&mut self.1));
        }
    }
}

impl Echo {
    /// Adds to the value, and tells who watches it.
    pub(crate) fn change(&self, by: usize) {
        self.value.fetch_add(by, Ordering::SeqCst);
        std::mem::take(&mut *self.changed.lock().unwrap()).fire();
    }

    /// The value, and what tells that it changes.
    fn present(&self) -> (usize, Freshness) {
        let changed = self.changed.lock().unwrap().clone();
        let value = self.value.load(Ordering::SeqCst);
        let named = Validator::new((value as u128).to_be_bytes());
        (value, Freshness::tracked(Arc::new(changed)).with_validator(named))
    }

    /// The value, which changes while it is made, up to a last one.
    async fn busy(&self) -> Reply {
        let (value, freshness) = self.present();
        // tidy: allow-sleep the clock is paused
        tokio::time::sleep(Duration::from_millis(100)).await;
        if value < BUSY_UNTIL {
            self.change(1);
        }
        Reply::new(Body::Full(value.to_string().into())).with_freshness(freshness)
    }

    /// An error while the value is even.
    fn absent(&self) -> Result<Reply> {
        let (value, freshness) = self.present();
        match value % 2 {
            0 => Err(Error::not_found("there is none").with_freshness(freshness)),
            _ => Ok(Reply::new(Body::Full("there".into())).with_freshness(freshness)),
        }
    }

    /// A reply whose time is over at once, the first time.
    fn over(&self) -> Reply {
        let count = self.counted.fetch_add(1, Ordering::SeqCst);
        let life = Duration::from_secs(if count == 0 { 0 } else { 3600 });
        let freshness = Freshness::lasting(life).with_validator(Validator::new([7; 16]));
        Reply::new(Body::Full("over".into())).with_freshness(freshness)
    }

    async fn answer(&self, name: &str, body: Body) -> Result<Reply> {
        let mut ends = Ends(self, name.to_owned(), false);
        let reply = self.reply(name, body).await;
        ends.2 = true;
        reply
    }

    async fn reply(&self, name: &str, body: Body) -> Result<Reply> {
        match name {
            "Say" => Ok(Reply::new(Body::Full(body.collect(usize::MAX).await?))),
            "Count" => {
                let count = self.counted.fetch_add(1, Ordering::SeqCst) + 1;
                Ok(Reply::new(Body::Full(count.to_string().into())))
            }
            "Wait" => {
                self.began.notify_one();
                self.gate.notified().await;
                self.counted.fetch_add(1, Ordering::SeqCst);
                Ok(Reply::new(Body::Full("waited".into())))
            }
            "Value" | "Overtaken" => {
                let (value, freshness) = self.present();
                if name == "Overtaken" && value % 2 == 1 {
                    self.change(1);
                }
                Ok(Reply::new(Body::Full(value.to_string().into())).with_freshness(freshness))
            }
            "Busy" => Ok(self.busy().await),
            "Absent" => self.absent(),
            "Over" => Ok(self.over()),
            "Same" | "Outdated" => {
                self.same.fetch_add(1, Ordering::SeqCst);
                let ends = Signal::new();
                if name == "Outdated" {
                    ends.fire();
                }
                let freshness = Freshness::tracked(Arc::new(ends));
                let freshness = freshness.with_validator(Validator::new([7; 16]));
                Ok(Reply::new(Body::Full("same".into())).with_freshness(freshness))
            }
            "Change" => {
                self.change(1);
                Ok(Reply::new(Body::Full("changed".into())))
            }
            "Meanwhile" => {
                let meanwhile = self.meanwhile.lock().unwrap().take().unwrap();
                meanwhile();
                Ok(Reply::new(Body::Empty))
            }
            "Long" => {
                tidewire_live::depends("rows", "1");
                Ok(Reply::new(Body::Full(vec![b'x'; 300_000].into())))
            }
            "Given" => Ok(Reply::new(self.given.lock().unwrap().take().unwrap())),
            "Fail" => Err(Error::not_found("there is none")),
            "Numbers" => Ok(numbers()),
            "Lines" => {
                self.counted.fetch_add(1, Ordering::SeqCst);
                let line = Bytes::from(vec![b'l'; 1000]);
                let items = (0..1000).map(move |_| Ok(line.clone()));
                Ok(Reply::new(Body::stream(futures_util::stream::iter(items))))
            }
            "Sum" => {
                let mut sum = 0u32;
                let Body::Stream(mut frames) = body else { return Err(Error::internal("whole")) };
                while let Some(frame) = futures_util::StreamExt::next(&mut frames).await {
                    if let Frame::Data(item) = frame? {
                        sum += std::str::from_utf8(&item).unwrap().parse::<u32>().unwrap();
                    }
                }
                Ok(Reply::new(Body::Full(sum.to_string().into())))
            }
            "Echo" => Ok(Reply::new(body)),
            _ => Err(Error::unimplemented(name.to_owned())),
        }
    }
}

/// The value that nothing overtakes while it is made.
pub(crate) const BUSY_UNTIL: usize = 50;

/// A thousand items.
fn numbers() -> Reply {
    let items = (0..1000u32).map(|n| Ok(Bytes::from(n.to_string())));
    Reply::new(Body::stream(futures_util::stream::iter(items)))
}

pub(crate) struct Hosted(pub(crate) Arc<Echo>);

impl Host for Hosted {
    fn answer(&self, call: IncomingCall) -> AnswerFuture {
        let echo = Arc::clone(&self.0);
        Box::pin(async move {
            let CallTarget::Method(method) = call.target else {
                return Err(CallFailure::not_run(Error::unimplemented("HTTP")));
            };
            let name = method.path.rsplit('/').next().unwrap_or_default().to_owned();
            echo.answer(&name, call.body).await.map_err(CallFailure::from)
        })
    }

    fn knows(&self, path: &str) -> bool {
        path.len() < 100
    }
}

/// A server, and the ends of the connections to it.
pub(crate) struct Served {
    pub(crate) links: Arc<Links>,
    pub(crate) echo: Arc<Echo>,
    pub(crate) tasks: TaskTracker,
}

impl Served {
    pub(crate) fn new() -> Self {
        Self::with(Config { boot: Some([1; 16]), ..Config::default() })
    }

    pub(crate) fn with(config: Config) -> Self {
        let (echo, tasks) = (Arc::<Echo>::default(), TaskTracker::new());
        let host = Arc::new(Hosted(Arc::clone(&echo)));
        let links = Arc::new(Links::new(config, host, tasks.clone(), 8));
        Self { links, echo, tasks }
    }

    /// Serves one connection to its end.
    pub(crate) fn serve(
        &self,
        transport: impl Transport + 'static,
    ) -> tokio::task::JoinHandle<Option<ConnectionEnd>> {
        let links = Arc::clone(&self.links);
        self.tasks.spawn(async move {
            let identify = async |_| Ok(Identity::default());
            let (link, connection) =
                links.greet(transport, Arrival::default(), identify).await.ok()?;
            let ended = connection.run().await;
            links.left(&link, ended);
            Some(ended)
        })
    }
}

/// Dials a server in this process; each connection passes by `between`.
pub(crate) struct Dials<F>(pub(crate) F);

impl<F> Dial for Dials<F>
where
    F: Fn() -> Result<Box<dyn Transport>, Error> + Send + Sync + 'static,
{
    async fn dial(&self) -> Result<Box<dyn Transport>, Error> {
        (self.0)()
    }
}

/// A client whose connections `connect` makes.
pub(crate) fn client<F>(connect: F) -> Arc<Remote<Dials<Connect>>>
where
    F: Fn() -> Result<DuplexStream, Error> + Send + Sync + 'static,
{
    let config = Config { boot: Some(random_boot()), ..Config::default() };
    let dials =
        Dials(Box::new(move || Ok(Box::new(ByteStream::new(connect()?)) as Box<dyn Transport>))
            as Connect);
    Arc::new(Remote::new(dials, config, None, TaskTracker::new()))
}

pub(crate) type Connect = Box<dyn Fn() -> Result<Box<dyn Transport>, Error> + Send + Sync>;

/// A client of its own server.
pub(crate) fn pair() -> (Arc<Remote<Dials<Connect>>>, Arc<Served>) {
    let served = Arc::new(Served::new());
    let server = Arc::clone(&served);
    let link = client(move || {
        let (near, far) = tokio::io::duplex(64 << 10);
        server.serve(ByteStream::new(far));
        Ok(near)
    });
    (link, served)
}

pub(crate) fn method(name: &str, kind: StreamKind, idempotency: Idempotency) -> Method {
    let mut spec = Spec::dynamic("test.v1.Echo", name, kind, ["", ""]);
    spec.idempotency = idempotency;
    Arc::new(spec).into()
}

pub(crate) fn query(name: &str, body: impl Into<Body>) -> Call {
    let method = method(name, StreamKind::Unary, Idempotency::NoSideEffects);
    Call::method(method, Context::default(), Codec::Proto, body)
}

pub(crate) fn command(name: &str) -> Call {
    let method = method(name, StreamKind::Unary, Idempotency::Unknown);
    Call::method(method, Context::default(), Codec::Proto, Body::Empty)
}

pub(crate) fn streamed(name: &str, kind: StreamKind, body: impl Into<Body>) -> Call {
    let method = method(name, kind, Idempotency::NoSideEffects);
    Call::method(method, Context::default(), Codec::Proto, body)
}

/// The text of a reply, or the code of an error.
pub(crate) async fn text(outcome: Result<Reply>) -> Result<String, Code> {
    match outcome {
        Ok(reply) => match reply.body.collect(usize::MAX).await {
            Ok(bytes) => Ok(String::from_utf8(bytes.to_vec()).unwrap()),
            Err(error) => Err(error.code()),
        },
        Err(error) => Err(error.code()),
    }
}
