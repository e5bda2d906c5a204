//! Watches of a session whose credential expires.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidewire_live::{
    AnswerFuture, Arrival, ByteStream, CallFailure, Config, Host, Identity, IdentityFuture,
    IncomingCall, Links, random_boot,
};
use tidewire_live_proto::{CallId, Continuation, Event, Metadata, Request, Session, Watch};
use tidewire_service::{Code, Codec, Error, Headers, Peer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::pair::{Echo, Hosted};

const LIFE: Duration = Duration::from_secs(10);

/// Answers as [`Hosted`] while its caller's credential is good.
struct Guarded {
    hosted: Hosted,
    is_expired: AtomicBool,
}

fn identity() -> Identity {
    Identity { expires_in: Some(LIFE), ..Identity::default() }
}

impl Host for Guarded {
    fn answer(&self, call: IncomingCall) -> AnswerFuture {
        match self.is_expired.load(Ordering::SeqCst) {
            false => self.hosted.answer(call),
            true => {
                let refused = CallFailure::not_run(Error::unauthenticated("it expired"));
                Box::pin(std::future::ready(Err(refused)))
            }
        }
    }

    fn identify(&self, _: Headers, _: Option<Arc<Peer>>) -> Option<IdentityFuture> {
        self.is_expired.store(false, Ordering::SeqCst);
        Some(Box::pin(std::future::ready(Ok(identity()))))
    }
}

/// A caller that watches a value.
struct Caller {
    session: Session,
    socket: DuplexStream,
    host: Arc<Guarded>,
    echo: Arc<Echo>,
    call: CallId,
}

impl Caller {
    async fn start() -> Self {
        let echo = Arc::<Echo>::default();
        let hosted = Hosted(Arc::clone(&echo));
        let host = Arc::new(Guarded { hosted, is_expired: AtomicBool::new(false) });
        let config = || Config { boot: Some(random_boot()), ..Config::default() };
        let (socket, far) = tokio::io::duplex(64 << 10);
        let links = Links::new(config(), Arc::clone(&host) as Arc<dyn Host>, TaskTracker::new(), 8);
        tokio::spawn(async move {
            let identify = async |_| Ok(identity());
            let (_link, connection) =
                links.greet(ByteStream::new(far), Arrival::default(), identify).await.ok()?;
            Some(connection.run().await)
        });
        let mut session = Session::dialer(config());
        session.connect(0);
        let method = session.method("/test.Echo/Value", Codec::Json);
        let watched = Request::query(method, "{}".to_owned()).watch(Watch::Values);
        let call = session.call(watched, 0).unwrap();
        let mut caller = Self { session, socket, host, echo, call };
        caller.until(|event| is_watched(event, "0")).await;
        caller
    }

    /// Waits for an event, and says what came before it.
    async fn until(&mut self, is_it: impl Fn(&Event<'_>) -> bool) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            if let Some(event) = self.session.poll_event(0) {
                if is_it(&event) {
                    return before;
                }
                before.push(format!("{event:?}"));
                continue;
            }
            let mut out = Vec::new();
            while self.session.poll_output(0, &mut out) {}
            self.socket.write_all(&out).await.unwrap();
            self.session.input().reserve(4096);
            assert!(self.socket.read_buf(self.session.input()).await.unwrap() > 0, "{before:?}");
        }
    }

    /// Waits until its credential expired, which the watch is told.
    async fn expires(&mut self) {
        let (began, call) = (Instant::now(), self.call);
        self.host.is_expired.store(true, Ordering::SeqCst);
        self.until(|event| matches!(event, Event::Suspect { call: of } if *of == call)).await;
        assert!((LIFE..LIFE * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}

fn is_watched(event: &Event<'_>, text: &str) -> bool {
    matches!(event, Event::Reply(reply)
        if reply.then() == Continuation::Watch && reply.payload() == text.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_credential_expired_is_suspect_and_ends_only_after_a_grace() {
    let mut caller = Caller::start().await;
    caller.expires().await;
    let (expired, call) = (Instant::now(), caller.call);
    caller.echo.change(1);
    let before = caller
        .until(|event| {
            matches!(event, Event::Failed { call: of, error, .. }
                if *of == call && error.code() == Code::Unauthenticated)
        })
        .await;
    assert_eq!(before, [""; 0], "nothing while another credential may come");
    let grace = expired.elapsed().as_secs();
    assert!((29..=31).contains(&grace), "{grace}");
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_comes_within_the_grace_keeps_the_watch() {
    let mut caller = Caller::start().await;
    caller.expires().await;
    caller.echo.change(1);
    caller.session.auth(&Metadata::builder().header("authorization", "Bearer new").build());
    caller
        .until(|event| matches!(event, Event::Credential { expires_ms: 10_000, refused: None }))
        .await;
    let before = caller.until(|event| is_watched(event, "1")).await;
    assert!(!before.iter().any(|event| event.contains("Failed")), "{before:?}");
}
