//! What surrounds a call: headers, deadline, who calls, and whatever gates and layers attached.
//!
//! A context is data. The deadline is a point in time set by whoever received the call; asking how
//! much is left takes the present as an argument, since this crate reads no clock. Generated
//! clients take a context too, so a handler passes on what it was given:
//! `client.get(context.outgoing(), request)`.
//!
//! What few calls have (a principal, validators, a command key) is kept aside, so that the others
//! are moved about at no cost. A layer that shares answers [`watch`](Context::watch)es what is read
//! here, since an answer that depends on more than its key is nobody else's.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Extensions, HeaderName, HeaderValue};

use crate::body_pass::BodyPass;
use crate::command_key::{self, CommandKey};
use crate::if_none_match::{self, HeldTags};
use crate::{
    ContextPart, ContextWatch, DeadlineOwner, Headers, InterimSender, LateListener, Observation,
    ParentCalls, Peer, Phase, Principal, Protocol, Result, Signal, Tokens, Validator,
};

/// What surrounds a call.
///
/// A handler reads what came with the request, and makes its own calls with what goes on from it:
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::{Context, Principal};
///
/// let mut context = Context::default()
///     .with_header("authorization", "Bearer ada")?
///     .with_header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")?;
/// context.set_principal(Principal::new("https://id.example", "ada"));
///
/// assert_eq!(context.principal().map(Principal::subject), Some("ada"));
/// let outgoing = context.outgoing();
/// assert!(outgoing.header("traceparent").is_some());
/// assert!(outgoing.header("authorization").is_none(), "credentials are not passed on");
/// # Ok::<(), tidewire::Error>(())
/// ```
#[derive(Clone)]
pub struct Context(Box<ContextParts>);

/// What is in a context. It is in a box, since a call is moved some ten times on its way to its
/// handler.
#[derive(Clone)]
struct ContextParts {
    headers: Headers,
    deadline: Option<Instant>,
    deadline_owner: DeadlineOwner,
    peer: Option<Arc<Peer>>,
    protocol: Option<Protocol>,
    /// Whether `If-None-Match` speaks of the answer to this call.
    is_conditional: bool,
    watching: WatchMode,
    stopping: Option<Signal>,
    observation: Option<Arc<dyn Observation>>,
    extensions: Extensions,
    interim: Option<InterimSender>,
    rare: Option<Box<RareParts>>,
}

/// What few calls have.
#[derive(Clone, Default)]
struct RareParts {
    principal: Option<Principal>,
    /// Who calls where no gate finds a credential.
    default_principal: Option<Principal>,
    held: Option<Vec<Validator>>,
    command: Option<Command>,
    tokens: Tokens,
    watch: Option<Arc<dyn ContextWatch>>,
    enclosing: Option<ParentCalls>,
    late_listener: Option<Arc<dyn LateListener>>,
    body_pass: Option<BodyPass>,
}

/// The client and the id that a protocol gave a command.
#[derive(Debug, Clone)]
struct Command {
    client: String,
    id: String,
}

/// Whether a caller wants to know when the reply becomes stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WatchMode {
    /// No.
    #[default]
    No,
    /// It begins to watch the query with this call.
    Begins,
    /// It watches the query, and its last reply has become stale: watchers of one key may share a
    /// run.
    Continues,
}

/// What [`Context::caller_kind`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallerKind {
    /// Whether a gate found out who calls, or there is a default principal.
    pub is_known: bool,
    /// Whether the connection has a client certificate.
    pub has_certificate: bool,
}

impl Context {
    /// A context with these headers, and nothing else known.
    #[inline]
    pub fn new(headers: impl Into<Headers>) -> Self {
        Self(Box::new(ContextParts {
            headers: headers.into(),
            deadline: None,
            deadline_owner: DeadlineOwner::default(),
            peer: None,
            protocol: None,
            is_conditional: false,
            watching: WatchMode::No,
            stopping: None,
            observation: None,
            extensions: Extensions::new(),
            interim: None,
            rare: None,
        }))
    }

    /// Sets the point in time after which no answer is wanted.
    #[must_use]
    #[inline]
    pub fn with_deadline(mut self, deadline: impl Into<Option<Instant>>) -> Self {
        self.0.deadline = deadline.into();
        self
    }

    /// Sets the deadline of a call that is looked at, as its own caller's.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.set_deadline_of(deadline, DeadlineOwner::Caller);
    }

    /// Sets the deadline of a call that is looked at, and who wants it.
    pub fn set_deadline_of(&mut self, deadline: Instant, owner: DeadlineOwner) {
        (self.0.deadline, self.0.deadline_owner) = (Some(deadline), owner);
    }

    /// Who set the deadline.
    pub const fn deadline_owner(&self) -> DeadlineOwner {
        self.0.deadline_owner
    }

    /// Sets the other side of the connection.
    #[must_use]
    #[inline]
    pub fn with_peer(mut self, peer: impl Into<Option<Arc<Peer>>>) -> Self {
        self.0.peer = peer.into();
        self
    }

    /// Sets the protocol that the call arrived by.
    #[must_use]
    #[inline]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.0.protocol = Some(protocol);
        self
    }

    /// Lets the header `If-None-Match` say what the caller holds: for `GET` and `HEAD` (RFC 9110,
    /// section 13.1.2).
    #[must_use]
    #[inline]
    pub fn with_conditions(mut self) -> Self {
        self.0.is_conditional = true;
        self
    }

    /// Sets what tells of a drain.
    #[must_use]
    #[inline]
    pub fn with_stopping(mut self, stopping: Signal) -> Self {
        self.0.stopping = Some(stopping);
        self
    }

    /// Sets what travels with the request inside the process.
    #[must_use]
    #[inline]
    pub fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.0.extensions = extensions;
        self
    }

    /// Sets who calls; a gate that authenticates does.
    pub fn set_principal(&mut self, principal: impl Into<Option<Principal>>) {
        match principal.into() {
            None if self.0.rare.is_none() => {}
            principal => self.rare().principal = principal,
        }
    }

    /// Sets who calls if no gate finds a credential: a hosted program that calls its gateway.
    pub fn set_default_principal(&mut self, principal: Principal) {
        self.rare().default_principal = Some(principal);
    }

    /// Whether a gate, or whoever made the call, said who calls;
    /// [`principal`](Self::principal) may be the default one otherwise.
    pub fn is_authenticated(&self) -> bool {
        self.read(ContextPart::Principal);
        self.0.rare.as_ref().is_some_and(|rare| rare.principal.is_some())
    }

    /// Sets the validators of what the caller holds already, in place of what its headers say;
    /// without any it takes a full answer.
    pub fn set_held(&mut self, held: Vec<Validator>) {
        if !held.is_empty() || self.0.is_conditional {
            self.rare().held = Some(held);
        } else if let Some(rare) = &mut self.0.rare {
            rare.held = None;
        }
    }

    /// Sets the client and the id that a protocol gave a command; see [`Context::command_key`].
    pub fn set_command(&mut self, client: impl Into<String>, id: impl Into<String>) {
        self.rare().command = Some(Command { client: client.into(), id: id.into() });
    }

    /// Sets the calls that wait for this one.
    pub fn set_enclosing(&mut self, enclosing: ParentCalls) {
        self.rare().enclosing = Some(enclosing);
    }

    /// Sets who hears of an answer that comes after the caller was told that it is late.
    pub fn set_late_listener(&mut self, listener: Arc<dyn LateListener>) {
        self.rare().late_listener = Some(listener);
    }

    /// Who hears of an answer that comes too late; `None` where nobody does.
    pub fn late_listener(&self) -> Option<Arc<dyn LateListener>> {
        self.0.rare.as_ref()?.late_listener.clone()
    }

    /// Sets what tells the server that the messages of a request pass unread.
    pub fn set_body_pass(&mut self, pass: BodyPass) {
        self.rare().body_pass = Some(pass);
    }

    /// Says, before the body is read, that its messages pass unread to somebody else's server: each
    /// is bounded then, and the body as a whole is not, nor the time between two of them. Any other
    /// body stays bounded as a whole.
    pub fn pass_body(&self) {
        let pass = self.0.rare.as_ref().and_then(|rare| rare.body_pass.as_ref());
        pass.into_iter().for_each(BodyPass::pass);
    }

    /// The calls that wait for this one; `None` for a call from outside.
    pub fn enclosing(&self) -> Option<&ParentCalls> {
        self.0.rare.as_ref()?.enclosing.as_ref()
    }

    /// Whether the call arrived by a request of HTTP whose answer may be kept on the way by HTTP's
    /// rules and asked for again by `If-None-Match`.
    pub fn is_conditional(&self) -> bool {
        self.0.is_conditional
    }

    /// Says whether the caller wants to know when the reply becomes stale.
    ///
    /// The cache then notes what the reply depends on, also where it does not keep the reply.
    pub fn set_watching(&mut self, watching: WatchMode) {
        self.0.watching = watching;
    }

    /// Whether the caller wants to know when the reply becomes stale.
    pub fn watching(&self) -> WatchMode {
        self.0.watching
    }

    /// Adds tokens of consistency that the caller has seen.
    pub fn add_tokens(&mut self, tokens: &Tokens) {
        if !tokens.is_empty() {
            self.rare().tokens.merge(tokens);
        }
    }

    /// Tells `watch` of everything that is read of this context from now on, clones included.
    ///
    /// For layers that share answers: what is not part of an answer's key must not have been read.
    pub fn watch(&mut self, watch: Arc<dyn ContextWatch>) {
        self.rare().watch = Some(watch);
    }

    /// Lets [`phase`](Self::phase) reach this observation, in place of another.
    pub fn observe(&mut self, observation: Arc<dyn Observation>) {
        self.0.observation = Some(observation);
    }

    /// Who wants to be told the messages of this call, where anybody does.
    #[inline]
    pub fn hears_messages(&self) -> Option<&Arc<dyn Observation>> {
        self.0.observation.as_ref().filter(|observation| observation.wants_messages())
    }

    /// Tells whoever observes the request that it reached this phase; nothing when it is not
    /// further than before, or over.
    #[inline]
    pub fn phase(&self, phase: Phase) {
        if let Some(observation) = &self.0.observation {
            observation.phase(phase);
        }
    }

    /// Tells whoever observes the request which hosted program is given the call.
    #[inline]
    pub fn program(&self, name: &Arc<str>) {
        if let Some(observation) = &self.0.observation {
            observation.program(name);
        }
    }

    /// Request headers; duplicates and their order are kept.
    pub fn headers(&self) -> &Headers {
        self.read(ContextPart::Headers);
        &self.0.headers
    }

    /// Request headers, to be changed by a layer or before an outgoing call.
    pub fn headers_mut(&mut self) -> &mut Headers {
        self.read(ContextPart::Headers);
        &mut self.0.headers
    }

    /// To set a header, which depends on none that came.
    pub(crate) fn headers_to_set(&mut self) -> &mut Headers {
        &mut self.0.headers
    }

    /// The first value of a header.
    pub fn header(&self, name: impl AsRef<str>) -> Option<&HeaderValue> {
        let name = name.as_ref();
        if self.is_watched() {
            self.read(ContextPart::Header(&name.to_ascii_lowercase()));
        }
        // Less is compared than would be hashed.
        if self.0.headers.keys_len() <= FEW_HEADERS {
            let named = |known: &HeaderName| known.as_str().eq_ignore_ascii_case(name);
            return self.0.headers.iter().find(|(known, _)| named(known)).map(|(_, value)| value);
        }
        self.0.headers.get(name)
    }

    /// All values of a header, in the order in which they came.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &HeaderValue> {
        if self.is_watched() {
            self.read(ContextPart::Header(&name.to_ascii_lowercase()));
        }
        self.0.headers.get_all(name).iter()
    }

    /// The point in time after which no answer is wanted. Where an answer is computed for several
    /// callers, none of theirs counts, but how long that may take.
    pub fn deadline(&self) -> Option<Instant> {
        match self.0.rare.as_ref().and_then(|rare| rare.watch.as_ref()) {
            Some(watch) => watch.deadline(self.0.deadline),
            None => self.0.deadline,
        }
    }

    /// What is left until the deadline at `now`; zero when it passed, `None` without one.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_duration_since(now))
    }

    /// The other side of the connection; `None` for a call within the process.
    pub fn peer(&self) -> Option<&Peer> {
        self.read(ContextPart::Peer);
        self.0.peer.as_deref()
    }

    /// The protocol that the call arrived by; `None` for a call within the process.
    pub fn protocol(&self) -> Option<Protocol> {
        self.read(ContextPart::Protocol);
        self.0.protocol
    }

    /// Who calls; `None` when no gate found out, and there is no
    /// [default](Self::set_default_principal).
    pub fn principal(&self) -> Option<&Principal> {
        self.read(ContextPart::Principal);
        self.known_principal()
    }

    /// What can be told of the caller without saying who it is. Unlike the parts themselves, this
    /// does not make a cached reply one of this caller: it is for layers that decide how a reply
    /// may be kept on its way.
    pub fn caller_kind(&self) -> CallerKind {
        CallerKind {
            is_known: self.known_principal().is_some(),
            has_certificate: self.0.peer.as_ref().is_some_and(|peer| !peer.certificates.is_empty()),
        }
    }

    /// The validators of what the caller holds already (`If-None-Match`, a live request, a
    /// replica).
    ///
    /// An answer with one of them may be [`Reply::unchanged`](crate::Reply::unchanged).
    pub fn caller_validators(&self) -> Vec<Validator> {
        let known = self.0.rare.as_ref().and_then(|rare| rare.held.as_ref());
        match known {
            Some(held) => held.clone(),
            None if self.0.is_conditional => if_none_match::of_headers(&self.0.headers),
            None => Vec::new(),
        }
    }

    /// Whether the caller said that it holds anything: see
    /// [`caller_validators`](Self::caller_validators) and [`holds_any`](Self::holds_any).
    #[inline]
    pub fn holds_something(&self) -> bool {
        self.0.rare.as_ref().is_some_and(|rare| rare.held.is_some())
            || self.0.is_conditional && if_none_match::is_there(&self.0.headers)
    }

    /// Whether the caller holds some reply, whichever it is: `If-None-Match: *` (RFC 9110, section
    /// 13.1.2).
    pub fn holds_any(&self) -> bool {
        self.0.is_conditional && if_none_match::is_any(&self.0.headers)
    }

    /// The tags by which a caller of HTTP says what it holds (`If-None-Match`), to be asked after
    /// the call is on its way.
    pub fn held_tags(&self) -> HeldTags {
        if self.0.is_conditional { HeldTags::of(&self.0.headers) } else { HeldTags::default() }
    }

    /// What makes a repeated command harmless: a service stores it in the transaction of the
    /// command, and answers the next one with the same key from what it stored.
    ///
    /// It is the header `Idempotency-Key`, whatever the protocol, so that a caller may go on over
    /// another one, else what the live protocol says of the command; and it holds the
    /// principal, so that no caller can meet the key of another.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) when the header occurs twice, is
    /// empty, over 255 bytes or not visible ASCII: a caller that relies on it has to know.
    pub fn command_key(&self) -> Result<Option<CommandKey>> {
        self.read(ContextPart::Header(command_key::HEADER));
        self.read(ContextPart::Principal);
        let known = self.0.rare.as_ref().and_then(|rare| rare.command.as_ref());
        let (client, id) = match (command_key::of_headers(&self.0.headers)?, known) {
            (Some(id), _) => ("", id),
            (None, Some(command)) => (command.client.as_str(), command.id.as_str()),
            (None, None) => return Ok(None),
        };
        Ok(Some(CommandKey::new(self.known_principal(), client, id)))
    }

    /// The tokens of consistency that the caller has seen.
    pub fn tokens(&self) -> &Tokens {
        static NONE: Tokens = Tokens::NONE;
        self.0.rare.as_ref().map_or(&NONE, |rare| &rare.tokens)
    }

    /// Ready once the server drains: a stream without its own end ends by it. Never ready for a
    /// call within the process that is on behalf of no request.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        let stopping = self.0.stopping.clone();
        async move {
            match stopping {
                Some(stopping) => stopping.fired().await,
                None => std::future::pending().await,
            }
        }
    }

    /// What travels with the request inside the process.
    pub fn extensions(&self) -> &Extensions {
        self.read(ContextPart::Extensions);
        &self.0.extensions
    }

    /// Extensions, to be changed by a gate or a layer.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        self.read(ContextPart::Extensions);
        &mut self.0.extensions
    }

    /// What sends interim responses (1xx) to the caller, where that can be done.
    pub fn interim(&self) -> Option<&InterimSender> {
        self.0.interim.as_ref()
    }

    /// Sets what sends interim responses to the caller.
    pub fn set_interim(&mut self, sender: InterimSender) {
        self.0.interim = Some(sender);
    }

    /// The headers, taken out.
    pub fn into_headers(self) -> Headers {
        self.into_http().0
    }

    /// The headers and extensions, taken out: what an [`http::Request`] has, too.
    pub fn into_http(self) -> (Headers, Extensions) {
        self.read(ContextPart::Headers);
        self.read(ContextPart::Extensions);
        (self.0.headers, self.0.extensions)
    }

    /// A context for a call made on behalf of this one: the same deadline, the same trace
    /// (`traceparent` and `tracestate`), the tokens that were seen, word of a drain, and nothing
    /// else.
    ///
    /// Other headers are not passed on by themselves, since they may hold the caller's credentials.
    #[must_use]
    pub fn outgoing(&self) -> Self {
        let mut outgoing = Self::default().with_deadline(self.deadline());
        outgoing.0.stopping.clone_from(&self.0.stopping);
        for (name, value) in self.trace() {
            outgoing.0.headers.append(name, value.clone());
        }
        outgoing.add_tokens(self.tokens());
        outgoing
    }

    /// The headers that say which trace it is part of: `traceparent` and `tracestate` (W3C Trace
    /// Context).
    pub fn trace(&self) -> impl Iterator<Item = (HeaderName, &HeaderValue)> {
        let is_of_trace = |name: &HeaderName| matches!(name.as_str(), "traceparent" | "tracestate");
        let of_trace = self.0.headers.iter().filter(move |(name, _)| is_of_trace(name));
        of_trace.map(|(name, value)| (name.clone(), value))
    }

    /// The other side, which is not noted as read.
    pub(crate) fn known_peer(&self) -> Option<&Peer> {
        self.0.peer.as_deref()
    }

    /// [`principal`](Self::principal), and nobody is told that it was read.
    pub(crate) fn known_principal(&self) -> Option<&Principal> {
        let rare = self.0.rare.as_ref()?;
        rare.principal.as_ref().or(rare.default_principal.as_ref())
    }

    fn rare(&mut self) -> &mut RareParts {
        self.0.rare.get_or_insert_default()
    }

    fn is_watched(&self) -> bool {
        self.0.rare.as_ref().is_some_and(|rare| rare.watch.is_some())
    }

    #[inline]
    fn read(&self, part: ContextPart<'_>) {
        if let Some(rare) = &self.0.rare
            && let Some(watch) = &rare.watch
        {
            watch.read(part);
        }
    }
}

/// How many headers are compared with a name one by one.
const FEW_HEADERS: usize = 8;

impl Default for Context {
    /// A context of which nothing is known.
    fn default() -> Self {
        Self::new(Headers::new())
    }
}

impl fmt::Debug for Context {
    /// Names headers without their values, which may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is printed may end up in a reply.
        let shown = [
            ContextPart::Headers,
            ContextPart::Peer,
            ContextPart::Protocol,
            ContextPart::Principal,
        ];
        shown.iter().for_each(|part| self.read(*part));
        f.debug_struct("Context")
            .field("headers", &self.0.headers.keys().collect::<Vec<_>>())
            .field("deadline", &self.0.deadline)
            .field("peer", &self.0.peer)
            .field("protocol", &self.0.protocol)
            .field("principal", &self.known_principal())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::{Code, Token};

    fn headers(pairs: &[(&'static str, &'static str)]) -> Headers {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn an_outgoing_call_keeps_deadline_trace_and_tokens_and_drops_credentials() {
        let now = Instant::now();
        let headers = headers(&[
            ("authorization", "Bearer secret"),
            ("cookie", "session=secret"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ]);
        let mut context = Context::new(headers).with_deadline(now + Duration::from_secs(3));
        context.set_principal(Principal::new("https://id.example", "ada"));
        context.add_tokens(&Token::new("seen").expect("short").into());
        let outgoing = context.outgoing();
        assert_eq!(outgoing.remaining(now), Some(Duration::from_secs(3)));
        assert_eq!(outgoing.remaining(now + Duration::from_secs(9)), Some(Duration::ZERO));
        assert_eq!(outgoing.headers().keys().collect::<Vec<_>>(), ["traceparent"]);
        assert_eq!(outgoing.tokens(), context.tokens());
        assert_eq!(outgoing.principal(), None);
    }

    #[test]
    fn a_principal_that_a_gate_finds_goes_before_the_default_one() {
        let (program, ada) = (Principal::new("tidewire", "service/a"), Principal::new("i", "ada"));
        let mut context = Context::new(headers(&[("idempotency-key", "1")]));
        let key_of_nobody = context.command_key().expect("a key").map(|key| key.to_string());
        context.set_default_principal(program.clone());
        assert_eq!((context.principal(), context.is_authenticated()), (Some(&program), false));
        let key = context.command_key().expect("a key").map(|key| key.to_string());
        assert_ne!(key, key_of_nobody, "its keys are its own");
        context.set_principal(ada.clone());
        assert_eq!((context.principal(), context.is_authenticated()), (Some(&ada), true));
    }

    #[test]
    fn a_command_key_differs_by_caller_and_is_refused_when_it_is_no_key() {
        let key = |principal: Option<Principal>, value: &'static str| {
            let mut context = Context::new(headers(&[("idempotency-key", value)]));
            context.set_principal(principal);
            context.command_key().map(|key| key.expect("there is a header").to_string())
        };
        let ada = || Some(Principal::new("i", "ada"));
        assert_eq!(key(ada(), "1").ok(), key(ada(), "1").ok());
        let others = [key(None, "1"), key(Some(Principal::new("ia", "da")), "1"), key(ada(), "2")];
        for other in others {
            assert_ne!(other.ok(), key(ada(), "1").ok());
        }
        let long = Box::leak("x".repeat(256).into_boxed_str());
        for bad in ["", "a b", "\u{e4}", long] {
            let value = HeaderValue::from_bytes(bad.as_bytes()).expect("a header value");
            let mut map = Headers::new();
            map.insert("idempotency-key", value);
            let error = Context::new(map).command_key().expect_err(bad);
            assert_eq!(error.code(), Code::InvalidArgument, "{bad}");
        }
        let twice = headers(&[("idempotency-key", "a"), ("idempotency-key", "a")]);
        assert!(Context::new(twice).command_key().is_err());
        assert!(matches!(Context::default().command_key(), Ok(None)));
    }

    #[test]
    fn the_key_of_the_header_goes_before_that_of_a_protocol() {
        let mut context = Context::new(headers(&[("idempotency-key", "of-the-header")]));
        let over_http = context.command_key().expect("a key");
        context.set_command("tab-7", "42");
        assert_eq!(context.command_key().expect("a key"), over_http);
        let mut context = Context::default();
        context.set_command("tab-7", "42");
        let key = context.command_key().expect("a key").expect("a key").to_string();
        assert!(key.contains("tab-7") && key.contains("42"), "{key}");
    }

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl ContextWatch for Log {
        fn read(&self, part: ContextPart<'_>) {
            self.0.lock().push(format!("{part:?}"));
        }
    }

    #[test]
    fn who_watches_a_context_is_told_of_every_part_that_is_read() {
        let log = Arc::new(Log::default());
        let mut context = Context::new(headers(&[("accept-language", "de")]));
        context.watch(Arc::clone(&log) as Arc<dyn ContextWatch>);
        let _ = (context.header("Accept-Language"), context.clone().peer(), context.protocol());
        let _ = (context.principal(), context.extensions(), context.headers());
        let _ =
            (context.deadline(), context.caller_validators(), context.tokens(), context.outgoing());
        let _ = context.command_key();
        let seen = log.0.lock().clone();
        let expected = [
            "Header(\"accept-language\")",
            "Peer",
            "Protocol",
            "Principal",
            "Extensions",
            "Headers",
            "Header(\"idempotency-key\")",
            "Principal",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_a_caller_holds_is_said_by_its_header_or_by_whoever_knows_better() {
        let tag = "\"00112233445566778899aabbccddeeff\"";
        let map = headers(&[("if-none-match", tag)]);
        assert!(
            Context::new(map.clone()).caller_validators().is_empty(),
            "not the answer to a GET"
        );
        let mut context = Context::new(map).with_conditions();
        assert_eq!(context.caller_validators().len(), 1);
        context.set_held(Vec::new());
        assert!(context.caller_validators().is_empty());
        let mut plain = Context::default();
        plain.set_held(vec![Validator::new([7; 16])]);
        assert_eq!(plain.caller_validators(), [Validator::new([7; 16])]);
    }

    #[test]
    fn what_is_printed_of_a_context_holds_no_header_values() {
        let context = Context::new(headers(&[("authorization", "Bearer secret")]));
        assert!(!format!("{context:?}").contains("secret"));
    }
}
