//! A Rust program that a Tidewire gateway hosts: it serves on the socket that it inherits.
//!
//! ```ignore
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> tidewire::Exit {
//!     Ok(tidewire::program::Program::new().service(ShopServer::new(Shop::default())).run().await?)
//! }
//! ```
//!
//! The services are those that [`Server`](crate::Server) serves by itself. What their answers are
//! made of is said by a [`Source`], here as there: read where an answer is computed, changed by
//! whoever writes. In a hosted program both go to the gateway too, which keeps the answers; so what
//! such a program keeps in its own memos is for its own use, and a source is read outside of them.
//!
//! `Context::principal` says who calls, as the gateway found out.

mod panic_isolation;

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

use http::{HeaderName, HeaderValue};
use tidewire_live::{
    AnswerFuture, CallFailure, CallTarget, Config, Host, IncomingCall, Limits, Process, Reason,
    Socket, feature,
};
use tidewire_memo::{SourceKey, has_read, read_untracked};
use tidewire_service::{
    Answer, CALLER_RIGHTS, Call, Error, Headers, Method, Outcome, PRINCIPAL_HEADER, Principal,
    RIGHTS_HEADER, Result, RpcService, Service, StreamKind,
};

/// What a program serves when it is hosted.
///
/// ```no_run
/// use tidewire::program::Program;
/// use tidewire::{Call, Result};
///
/// async fn page(call: Call) -> Result<String> {
///     Ok(format!("you asked for {}", call.describe()))
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Exit {
/// // With methods: Program::new().service(ShopServer::new(Shop::default()))
/// Program::new().pages(page).run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Program {
    methods: HashMap<String, (Method, Arc<dyn Service>)>,
    pages: Option<Arc<dyn Service>>,
}

impl Program {
    /// Serves nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves the methods of a service.
    #[must_use]
    pub fn service(mut self, service: impl RpcService) -> Self {
        let interface = service.interface();
        let service: Arc<dyn Service> = Arc::new(service);
        for method in interface.methods() {
            self.methods.insert(method.path.to_string(), (method.clone(), Arc::clone(&service)));
        }
        self
    }

    /// Answers the requests for the paths that are the program's `route`.
    #[must_use]
    pub fn pages(mut self, pages: impl Service) -> Self {
        self.pages = Some(Arc::new(pages));
        self
    }

    /// Serves until the gateway ends the program.
    ///
    /// # Errors
    /// The program was not started by a gateway, or the gateway broke the protocol.
    ///
    /// # Panics
    /// When a program is run twice.
    pub async fn run(self) -> Result<()> {
        let socket = inherited().ok_or_else(|| Error::failed_precondition(NOT_HOSTED))?;
        let socket = Socket::new(socket).map_err(|error| Error::unavailable(error.to_string()))?;
        let process = Process::new(config(), Arc::new(HostedServer(self)));
        assert!(PROCESS.set(process.clone()).is_ok(), "one program is run");
        match process.run(socket).await {
            Some(why) if !matches!(why.reason, Reason::Bye | Reason::Drain) => {
                Err(Error::unavailable(format!("the gateway ended the session: {why}")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a gateway started this program.
pub fn is_hosted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// What can change, under a name that the gateway and other programs know it by. Where the program
/// is not hosted, a plain [`memo::Source`](tidewire_memo::Source).
#[derive(Debug)]
pub struct Source<K: SourceKey>(tidewire_memo::Source<K>);

impl<K: SourceKey> Source<K> {
    /// A source of this name.
    pub fn new(name: &str) -> Self {
        Self(tidewire_memo::Source::new(name))
    }

    /// The answer that is computed is made of this, be it an error: it is kept until this changes.
    ///
    /// It is for the task of the handler. In another task or thread, the gateway keeps no
    /// answer that is made meanwhile. In a memoized function it keeps none from then on: those that
    /// have the function's value from memory would not be told to be made of this. The log says so.
    pub fn read(&self, key: &K) {
        self.0.read(key);
        self.tell(&key.to_text());
    }

    /// The answer that is computed is made of every key there is: it is kept until any of them
    /// changes.
    pub fn read_all(&self)
    where
        K: Ord,
    {
        self.0.range(..);
        self.tell(ALL_KEYS);
    }

    /// Tells the gateway what the answer is made of.
    fn tell(&self, key: &str) {
        if PROCESS.get().is_none() {
            return;
        }
        let name = self.0.name();
        // It was read just now, which only a memoized function remembers.
        if has_read() {
            if tidewire_live::depends_unheard() {
                log(Level::Warn, IN_A_MEMO, &[("source", &name)]);
            }
        } else if !tidewire_live::depends(name, key) {
            static IS_SAID: Once = Once::new();
            IS_SAID.call_once(|| log(Level::Warn, ELSEWHERE, &[("source", &name)]));
        }
    }

    /// This changed: whoever asks after the call that is answered now sees it.
    pub fn changed(&self, key: &K) {
        self.0.changed(key);
        if let Some(process) = PROCESS.get() {
            process.changed(self.0.name(), &key.to_text());
        }
    }

    /// Any key may have changed.
    pub fn changed_all(&self) {
        self.0.changed_all();
        if let Some(process) = PROCESS.get() {
            process.changed(self.0.name(), ALL_KEYS);
        }
    }
}

/// How much a line of the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Every step.
    Trace = 1,
    /// What a developer looks for.
    Debug = 2,
    /// What happens.
    Info = 3,
    /// What is worth a look.
    Warn = 4,
    /// What went wrong.
    Error = 5,
}

/// Writes a line with fields to the gateway's log, nowhere where there is none. What a program
/// prints is there too, without level and fields.
pub fn log(level: Level, text: &str, fields: &[(&'static str, &dyn Display)]) {
    let Some(process) = PROCESS.get() else { return };
    let mut said = Headers::new();
    for (name, value) in fields {
        // What is not a header is left out, as it is by every program that is hosted.
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(*name), HeaderValue::try_from(value.to_string()))
        {
            said.append(name, value);
        }
    }
    process.log(level as u8, text, &said);
}

/// Work that is not a call: until this is dropped the program is neither frozen nor ended for being
/// idle.
#[derive(Debug)]
pub struct Busy(());

impl Busy {
    /// The work begins.
    pub fn begin() -> Self {
        say_busy(JOBS.fetch_add(1, Ordering::SeqCst) + 1);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        say_busy(JOBS.fetch_sub(1, Ordering::SeqCst) - 1);
    }
}

fn say_busy(jobs: u64) {
    if let Some(process) = PROCESS.get() {
        process.busy(jobs);
    }
}

/// The gateway, for generated clients (`ShopClient::new(Channel::new(Gateway))`): what a handler
/// calls through it is part of the call that it answers. A memoized function that calls it is
/// answered and not kept.
///
/// Without a credential in its headers the program calls as itself: `service/NAME` of the issuer
/// `tidewire`. [`GatewayAsCaller`] calls with the rights of its caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gateway;

impl Service for Gateway {
    fn call(&self, call: Call) -> Answer {
        Answer::pending(async move {
            // This program is told of no change of the answer.
            read_untracked();
            match PROCESS.get() {
                Some(process) => process.call(call).await,
                None => Err(Error::unavailable(NOT_HOSTED).with_outcome(Outcome::NotRun)),
            }
        })
    }
}

/// The [`Gateway`], called with the rights of the caller whose call this task answers, which is
/// [`Context::principal`](tidewire_service::Context::principal): nobody where that is `None`.
/// Refused in a task that answers no call, and where the reply is cached for others too (`PUBLIC`,
/// `VARY`).
#[derive(Debug, Clone, Copy, Default)]
pub struct GatewayAsCaller;

impl Service for GatewayAsCaller {
    fn call(&self, mut call: Call) -> Answer {
        call.context.headers_mut().insert(RIGHTS_HEADER, CALLER_RIGHTS);
        Gateway.call(call)
    }
}

/// The other side of the gateway's calls.
struct HostedServer(Program);

impl Host for HostedServer {
    fn runs_on(&self, arrived: &IncomingCall) -> bool {
        let CallTarget::Method(asked) = &arrived.target else { return false };
        let method = self.0.methods.get(&*asked.path);
        arrived.is_command && method.is_some_and(|(method, _)| method.kind == StreamKind::Unary)
    }

    fn answer(&self, arrived: IncomingCall) -> AnswerFuture {
        let IncomingCall { target, mut context, body, .. } = arrived;
        let principal = context.headers().get(PRINCIPAL_HEADER).and_then(Principal::from_header);
        context.set_principal(principal);
        let found = match target {
            CallTarget::Method(asked) => match self.0.methods.get(&*asked.path) {
                Some((method, service)) => {
                    let call = Call::method(method.clone(), context, asked.codec, body);
                    Ok((Arc::clone(service), call))
                }
                None => Err(format!("this program does not serve {}", asked.path)),
            },
            CallTarget::Http(verb, uri) => match &self.0.pages {
                Some(pages) => Ok((Arc::clone(pages), Call::http(verb, uri, context, body))),
                None => Err("this program serves no pages".to_owned()),
            },
            CallTarget::Nothing(what) => Err(format!("it asks {what}")),
        };
        Box::pin(async move {
            let (service, call) =
                found.map_err(|text| CallFailure::not_run(Error::unimplemented(text)))?;
            panic_isolation::answer(service, call).await.map_err(CallFailure::from)
        })
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.methods.keys()).finish()
    }
}

/// The socket that the gateway left open for this program.
fn inherited() -> Option<UnixStream> {
    let number: i32 = std::env::var(VARIABLE).ok()?.parse().ok()?;
    // What a wrapper has closed is not a socket of ours.
    let is_open = Path::new("/proc/self/fd").join(number.to_string()).exists();
    if PROCESS.get().is_some() || number < 3 || !is_open && Path::new("/proc/self/fd").exists() {
        return None;
    }
    // SAFETY: whoever sets the variable leaves this descriptor to the program, and it is taken
    // once, since a program that runs has a `PROCESS`.
    #[expect(unsafe_code, reason = "an inherited descriptor is a number")]
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    Some(UnixStream::from(socket))
}

fn config() -> Config {
    Config {
        limits: Limits { body_max: BODY_BYTES_MAX, ..Limits::default() },
        features: feature::HTTP | feature::HOSTED,
        required: feature::HOSTED,
        agent: concat!("tidewire-rust/", env!("CARGO_PKG_VERSION")).to_owned(),
        // The end of the socket says it.
        ping_after: std::time::Duration::MAX,
        silence_max: std::time::Duration::MAX,
        ..Config::default()
    }
}

static PROCESS: OnceLock<Process> = OnceLock::new();
static JOBS: AtomicU64 = AtomicU64::new(0);

/// An empty key stands for every key of its source.
const ALL_KEYS: &str = "";
const VARIABLE: &str = "TIDEWIRE_FD";
const BODY_BYTES_MAX: u32 = 64 << 20;
const IN_A_MEMO: &str = "a memoized function has read a source: the gateway stops caching replies of \
     this process; read it in the handler";
const ELSEWHERE: &str = "a source was read outside of a handler, in a task or thread: the gateway does not cache \
     replies that are computed meanwhile; read it in the handler";
const NOT_HOSTED: &str = "this program is started by Tidewire: write a [[service]] with run = [...] into \
                          tidewire.toml, and call it through `tidewire serve`; one that a wrapper starts, such as npm, \
                          needs its descriptor 3";
