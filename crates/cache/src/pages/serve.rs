//! The path of a request of plain HTTP through the page cache.
//!
//! | request | what is done |
//! |---|---|
//! | `GET` or `HEAD` with a fresh page | that, or 304, or a part of it |
//! | the same with a stale page | validated; given meanwhile where the page says so (RFC 5861) |
//! | the same without a page | one goes on, others wait (`flight.rs`); what may be is stored |
//! | with a body, `Upgrade`, `If-Match`, gRPC | passes |
//! | an unsafe verb | passes; after success its page ends, and those of `Location` and `Content-Location` |
//! | a `POST` whose response says that it is that of its URL, and for how long | the same, and the response is stored |
//!
//! What was done is told in `Cache-Status` (RFC 9211).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{
    CONTENT_LENGTH, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, UPGRADE,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tidewire_service::{
    Answer, Body, Call, Code, Context, Error, Headers, Outcome, Phase, Reply, Result, Service,
};

use super::cache_status::{append_cache_status, collapsed};
use super::commands::{self, CHANGED};
use super::fill::Fill;
use super::flight::{FlightEnd, FlightLeader, FlightRole};
use super::page::{self, Failure, Page, Use};
use super::page_cache::PageCache;
use super::page_request::{Key, Origin, PageRequest, without_overrides};
use super::policy::{self, Arrival, Policy};
use super::run_command;
use super::settings::PageSettings;
use super::table::PageLookup;
use crate::own_headers::own;

/// A service whose pages are kept.
pub(crate) struct CachedPages(Arc<Shared>);

struct Shared {
    cache: PageCache,
    name: Arc<str>,
    settings: PageSettings,
    service: Arc<dyn Service>,
}

/// A request that goes on, and why.
struct Forward {
    page: Option<Arc<Page>>,
    why: &'static str,
    lead: Option<FlightLeader>,
    /// It waited for another one's response.
    was_collapsed: bool,
}

impl CachedPages {
    pub(crate) fn new(
        cache: &PageCache,
        name: &Arc<str>,
        settings: &PageSettings,
        service: Arc<dyn Service>,
    ) -> Self {
        let cache = cache.clone();
        let name = Arc::clone(name);
        let settings = settings.clone();
        Self(Arc::new(Shared { cache, name, settings, service }))
    }
}

impl Service for CachedPages {
    fn call(&self, call: Call) -> Answer {
        let shared = &self.0;
        let is_upgrade = call.context.headers().contains_key(UPGRADE);
        let Some(asked) = PageRequest::of(&shared.name, &call, is_upgrade) else {
            return Answer::pending(Arc::clone(shared).pass(call));
        };
        call.context.phase(Phase::Memo);
        let now = shared.cache.0.runtime.now();
        let headers = call.context.headers();
        if let PageLookup::Page(page) = shared.find(&asked, headers)
            && page.use_for(&asked.directives, now) == Use::Give
        {
            return Answer::ready(Ok(shared.hit(&page, &asked, headers, now, false)));
        }
        Answer::pending(Arc::clone(shared).answer(call, asked))
    }
}

impl Shared {
    fn find(&self, asked: &PageRequest, headers: &Headers) -> PageLookup {
        let found = self.cache.0.table.lock().find(&asked.key, headers, asked.caller);
        match found {
            // To a `HEAD` a `Range` says nothing.
            PageLookup::Page(page)
                if asked.is_head && page.status == StatusCode::PARTIAL_CONTENT =>
            {
                PageLookup::Others
            }
            found => found,
        }
    }

    /// A stored page as the answer.
    fn hit(
        &self,
        page: &Page,
        asked: &PageRequest,
        headers: &Headers,
        now: Instant,
        was_collapsed: bool,
    ) -> Reply {
        self.cache.0.hits.fetch_add(1, Ordering::Relaxed);
        let left = page.left(now);
        let said = match was_collapsed {
            true => format!("tidewire; fwd=uri-miss; collapsed; ttl={left}"),
            false => format!("tidewire; hit; ttl={left}"),
        };
        let mut reply = page.give(asked, headers, now);
        append_cache_status(&mut reply.headers, &said);
        reply
    }

    /// A `GET` or `HEAD` for which no fresh page was there.
    async fn answer(self: Arc<Self>, call: Call, asked: PageRequest) -> Result<Reply> {
        let mut waited = 0;
        loop {
            let now = self.cache.0.runtime.now();
            let headers = call.context.headers();
            let (page, why) = match self.find(&asked, headers) {
                PageLookup::Nothing => (None, "uri-miss"),
                PageLookup::Others => (None, "vary-miss"),
                PageLookup::Page(page) => match page.use_for(&asked.directives, now) {
                    Use::Give => return Ok(self.hit(&page, &asked, headers, now, waited > 0)),
                    Use::GiveAndValidate => {
                        self.validate_meanwhile(&call, &page);
                        return Ok(self.hit(&page, &asked, headers, now, false));
                    }
                    Use::Validate => (Some(page), "stale"),
                    Use::ValidateAsAsked => (Some(page), "request"),
                },
            };
            if asked.directives.only_if_cached {
                let mut reply = Reply::empty(StatusCode::GATEWAY_TIMEOUT);
                append_cache_status(
                    &mut reply.headers,
                    &format!("tidewire; fwd={why}; detail=only-if-cached"),
                );
                return Ok(reply);
            }
            let mut lead = None;
            if self.may_wait(&asked, headers, page.is_some(), why, now) && waited < TURNS_MAX {
                match self.cache.0.flights.join(&asked.key, asked.caller) {
                    FlightRole::Leader(this) => lead = Some(this),
                    FlightRole::Follower(flight) => {
                        call.context.phase(Phase::Computed);
                        match flight.end().await {
                            FlightEnd::Look => {
                                // What has to be validated for each is not waited for twice.
                                waited = if page.is_some() { TURNS_MAX } else { waited + 1 };
                                continue;
                            }
                            FlightEnd::Alone => {}
                            FlightEnd::Failed(failure, error) => {
                                let now = self.cache.0.runtime.now();
                                let page = page
                                    .filter(|it| it.is_for_errors(failure, &asked.directives, now));
                                return match page {
                                    Some(page) => Ok(self.hit(
                                        &page,
                                        &asked,
                                        call.context.headers(),
                                        now,
                                        false,
                                    )),
                                    None => Err(error),
                                };
                            }
                        }
                    }
                }
            }
            call.context.phase(Phase::Computed);
            let forward = Forward { page, why, lead, was_collapsed: waited > 0 };
            return self.forward(call, &asked, forward).await;
        }
    }

    /// Whether a request may wait for the response to another one, and others for its.
    fn may_wait(
        &self,
        asked: &PageRequest,
        headers: &Headers,
        has_page: bool,
        why: &str,
        now: Instant,
    ) -> bool {
        let is_conditional =
            headers.contains_key(IF_NONE_MATCH) || headers.contains_key(IF_MODIFIED_SINCE);
        !asked.is_head
            && !asked.directives.no_store
            && !asked.directives.no_cache
            && why != "request"
            && (has_page || !asked.is_range && !is_conditional)
            && !self.cache.0.table.lock().is_passing(&asked.key, now)
    }

    /// Asks whether a page is still right, which was given already.
    fn validate_meanwhile(self: &Arc<Self>, call: &Call, page: &Arc<Page>) {
        let mut context = Context::new(call.context.headers().clone());
        context.set_principal(call.context.principal().cloned());
        let Some(target) = call.http_target() else { return };
        // Of a HEAD the page of its GET is validated.
        let again = Call::http(Method::GET, target.uri.clone(), context, Body::Empty);
        let Some(asked) = PageRequest::of(&self.name, &again, false) else { return };
        let FlightRole::Leader(lead) = self.cache.0.flights.join(&asked.key, asked.caller) else {
            return;
        };
        let shared = Arc::clone(self);
        let page = Some(Arc::clone(page));
        self.cache.0.runtime.spawn(Box::pin(async move {
            let forward = Forward { page, why: "stale", lead: Some(lead), was_collapsed: false };
            if let Ok(reply) = shared.forward(again, &asked, forward).await {
                // It is stored as it is read.
                let mut frames = reply.body.into_frames();
                while let Some(Ok(_)) = frames.next().await {}
            }
        }));
    }

    /// Sends a request on, and stores what may be stored of its response.
    async fn forward(
        &self,
        mut call: Call,
        asked: &PageRequest,
        forward: Forward,
    ) -> Result<Reply> {
        self.cache.0.misses.fetch_add(1, Ordering::Relaxed);
        let runtime = &self.cache.0.runtime;
        let Forward { page, why, lead, was_collapsed } = forward;
        let request = call.context.headers().clone();
        let page = page.filter(|_| !asked.is_head);
        let validated = page.clone().filter(|page| page.has_validator());
        without_overrides(call.context.headers_mut());
        if let Some(page) = &validated {
            page.ask(call.context.headers_mut());
        }
        let began = runtime.now();
        let asked_after = self.cache.0.table.lock().last_change();
        let outcome = self.service.call(call).await;
        let now = runtime.now();
        let failure = outcome.as_ref().map_or_else(Failure::of, |_| Failure::Failed);
        let stale = page.filter(|page| page.is_for_errors(failure, &asked.directives, now));
        let mut reply = match (outcome, stale) {
            (Err(error), Some(page)) => {
                end(lead, FlightEnd::Failed(failure, error));
                return Ok(self.stale(&page, asked, &request, now, "error"));
            }
            (Err(mut error), None) => {
                let is_of_this = matches!(error.code(), Code::Canceled | Code::DeadlineExceeded);
                let told = if is_of_this {
                    FlightEnd::Look
                } else {
                    FlightEnd::Failed(failure, error.clone())
                };
                end(lead, told);
                append_cache_status(error.headers_mut(), &format!("tidewire; fwd={why}"));
                return Err(error);
            }
            (Ok(reply), Some(page)) if policy::is_failure(reply.status) => {
                let status = reply.status.as_u16();
                let text = format!("{} answered with status {status}", self.name);
                end(lead, FlightEnd::Failed(failure, Error::unavailable(text)));
                return Ok(self.stale(&page, asked, &request, now, &status.to_string()));
            }
            (Ok(reply), _) => reply,
        };
        commands::ignore(&self.cache, &self.name, asked.key.target(), &mut reply);
        let arrival = self.arrival(asked, began);
        let arrived = ArrivedResponse { arrival, asked_after, why, was_collapsed };
        if reply.status == StatusCode::NOT_MODIFIED
            && let Some(page) = &validated
        {
            return Ok(self.validated(page, asked, &request, &reply, &arrived, lead));
        }
        if asked.is_head {
            self.compare(asked, &request, &reply);
        }
        Ok(self.store(asked, &request, reply, arrived, lead))
    }

    /// A response that arrives now, of a request that was sent then.
    fn arrival(&self, asked: &PageRequest, began: Instant) -> Arrival {
        let runtime = &self.cache.0.runtime;
        Arrival {
            wall: runtime.wall(),
            delay: runtime.now().saturating_duration_since(began),
            is_credentialed: asked.caller.is_some(),
            is_no_store: asked.directives.no_store,
            is_range: asked.is_range,
        }
    }

    /// A stale page in place of a failure.
    fn stale(
        &self,
        page: &Page,
        asked: &PageRequest,
        request: &Headers,
        now: Instant,
        failed: &str,
    ) -> Reply {
        let mut reply = page.give(asked, request, now);
        let status =
            if failed == "error" { String::new() } else { format!("; fwd-status={failed}") };
        let left = page.left(now);
        append_cache_status(
            &mut reply.headers,
            &format!("tidewire; hit; fwd=stale{status}; ttl={left}"),
        );
        reply
    }

    /// A page that a 304 says to be right.
    fn validated(
        &self,
        page: &Page,
        asked: &PageRequest,
        request: &Headers,
        reply: &Reply,
        arrived: &ArrivedResponse,
        lead: Option<FlightLeader>,
    ) -> Reply {
        let now = self.cache.0.runtime.now();
        let mut fresh = page.clone();
        let mut stored = "";
        if page.is_named_by(&reply.headers) {
            let mut fields = reply.headers.clone();
            page::set_date(&mut fields, arrived.arrival.wall);
            let headers = page.headers_with(&fields);
            // How old it is, is that of the 304.
            let mut said = (*headers).clone();
            if let Some(age) = reply.headers.get(http::header::AGE) {
                said.insert(http::header::AGE, age.clone());
            }
            let policy = Policy::of(page.status, &said, arrived.arrival, &self.settings);
            let varies = page::varies(page.status, &headers, request);
            fresh.headers = headers;
            fresh.since = now;
            let mut table = self.cache.0.table.lock();
            match (policy, varies) {
                (Some(policy), Some(varies)) => {
                    (fresh.policy, fresh.varies) = (policy, varies);
                    if table.store(
                        asked.key.clone(),
                        fresh.clone(),
                        arrived.asked_after,
                        self.settings.variants_max,
                    ) {
                        stored = "; stored";
                    }
                }
                _ => _ = table.key_changed(&asked.key),
            }
        } else {
            // It is of another page than ours, which nobody can be sure of any more.
            self.cache.0.table.lock().key_changed(&asked.key);
        }
        end(lead, FlightEnd::Look);
        let mut given = fresh.give(asked, request, now);
        let why = arrived.why;
        let collapsed = collapsed(arrived.was_collapsed);
        append_cache_status(
            &mut given.headers,
            &format!("tidewire; fwd={why}; fwd-status=304{stored}{collapsed}"),
        );
        given
    }

    /// A response on its way to its caller, which is stored if it may be.
    fn store(
        &self,
        asked: &PageRequest,
        request: &Headers,
        mut reply: Reply,
        arrived: ArrivedResponse,
        lead: Option<FlightLeader>,
    ) -> Reply {
        let collapsed = collapsed(arrived.was_collapsed);
        let why = arrived.why;
        let Some(page) = self.page(asked, request, &reply, &arrived) else {
            if lead.is_some() {
                let now = self.cache.0.runtime.now();
                self.cache.0.table.lock().pass(&asked.key, now);
            }
            end(lead, FlightEnd::Alone);
            append_cache_status(&mut reply.headers, &format!("tidewire; fwd={why}{collapsed}"));
            return reply;
        };
        append_cache_status(&mut reply.headers, &format!("tidewire; fwd={why}; stored{collapsed}"));
        let flight = lead.as_ref().map(FlightLeader::flight);
        let ending = FillCompletion {
            cache: self.cache.clone(),
            key: asked.key.clone(),
            page,
            asked_after: arrived.asked_after,
            variants_max: self.settings.variants_max,
            lead,
        };
        match std::mem::take(&mut reply.body) {
            Body::Stream(frames) => {
                let bytes_max = self.settings.page_bytes_max;
                let length = page::declared_length(&reply.headers);
                let budget = &self.cache.0.fills;
                let on_end = Box::new(|whole| ending.end(whole));
                let fill = Fill::new(frames, length, bytes_max, budget, on_end);
                if let Some(flight) = flight {
                    FlightLeader::fills(&flight, &fill);
                }
                reply.body = fill.reader();
            }
            whole => {
                let bytes =
                    if let Body::Full(bytes) = &whole { bytes.clone() } else { Bytes::new() };
                ending.end(Some(bytes));
                reply.body = whole;
            }
        }
        reply
    }

    /// The page that a response makes, without its body; `None` if it is not to be stored.
    fn page(
        &self,
        asked: &PageRequest,
        request: &Headers,
        reply: &Reply,
        arrived: &ArrivedResponse,
    ) -> Option<Page> {
        if asked.is_head || !reply.is_ordinary() || !reply.trailers.is_empty() {
            return None;
        }
        let policy = Policy::of(reply.status, &reply.headers, arrived.arrival, &self.settings)?;
        let length = page::declared_length(&reply.headers).or(reply.body.len());
        if length.is_some_and(|bytes| bytes > self.settings.page_bytes_max) {
            return None;
        }
        let varies = page::varies(reply.status, &reply.headers, request)?;
        let mut headers = page::stored_headers((*reply.headers).clone(), &policy.omitted);
        page::set_date(&mut headers, arrived.arrival.wall);
        own(&mut headers);
        Some(Page {
            status: reply.status,
            tags: page::tags(&headers),
            headers,
            body: Bytes::new(),
            caller: if policy.is_public { None } else { asked.caller },
            policy,
            since: self.cache.0.runtime.now(),
            varies,
        })
    }

    /// The response to a `HEAD` says something else of a page than what is stored (RFC 9111,
    /// section 4.3.5).
    fn compare(&self, asked: &PageRequest, request: &Headers, reply: &Reply) {
        if reply.status != StatusCode::OK {
            return;
        }
        let PageLookup::Page(page) = self.find(asked, request) else { return };
        let differs = |name: &HeaderName| {
            let said = reply.headers.get(name);
            let stored = page.headers.get(name);
            said.is_some() && stored.is_some() && said != stored
        };
        if [ETAG, LAST_MODIFIED, CONTENT_LENGTH].iter().any(differs) {
            self.cache.0.table.lock().key_changed(&asked.key);
        }
    }

    /// A request that no page answers.
    async fn pass(self: Arc<Self>, call: Call) -> Result<Reply> {
        if !run_command::is_command(&call) {
            return self.pass_on(call).await;
        }
        let shared = Arc::clone(&self);
        run_command::run(&self.cache, &self.name, call, |call| shared.pass_on(call)).await
    }

    async fn pass_on(self: Arc<Self>, call: Call) -> Result<Reply> {
        let Some(target) = call.http_target() else { return self.service.call(call).await };
        let is_unsafe = !target.method.is_safe();
        let origin = Origin::of(call.context.headers(), &target.uri);
        let whole = target.uri.path_and_query().map_or("/", |whole| whole.as_str()).to_owned();
        let why = if is_unsafe { "method" } else { "bypass" };
        let posted = PageRequest::posted(&self.name, &call);
        let posted = posted.map(|asked| (asked, call.context.headers().clone()));
        let began = self.cache.0.runtime.now();
        let before = self.cache.0.table.lock().last_change();
        match self.service.call(call).await {
            Ok(mut reply) => {
                let posted = posted.filter(|_| {
                    commands::is_of_target(&origin, &whole, &reply)
                        && policy::is_explicit(&reply.headers)
                });
                // Where others made no change meanwhile that the response may be older than.
                let posted = posted.and_then(|(asked, request)| {
                    let table = self.cache.0.table.lock();
                    let tags = page::tags(&reply.headers);
                    let is_newest = table.is_as_it_was(&asked.key, &tags, before);
                    is_newest.then(|| (asked, request, table.last_change()))
                });
                let mut own = 0;
                if is_unsafe {
                    own = commands::changed(&self.cache, &self.name, &origin, &whole, &reply);
                    reply.headers.remove(CHANGED);
                }
                commands::ignore(&self.cache, &self.name, &whole, &mut reply);
                if let Some((asked, request, until)) = posted {
                    let asked_after = self.cache.0.table.lock().last_change();
                    if asked_after == until + own {
                        let arrival = self.arrival(&asked, began);
                        let arrived =
                            ArrivedResponse { arrival, asked_after, why, was_collapsed: false };
                        return Ok(self.store(&asked, &request, reply, arrived, None));
                    }
                }
                if reply.is_ordinary() {
                    append_cache_status(&mut reply.headers, &format!("tidewire; fwd={why}"));
                }
                Ok(reply)
            }
            Err(error) => {
                // It may have run.
                if is_unsafe && error.outcome() != Outcome::NotRun {
                    let key = Key::new(&self.name, &origin, &whole);
                    self.cache.0.table.lock().key_changed(&key);
                }
                Err(error)
            }
        }
    }
}

/// A response that arrived.
struct ArrivedResponse {
    arrival: Arrival,
    asked_after: u64,
    why: &'static str,
    was_collapsed: bool,
}

/// What is done once a body is there.
struct FillCompletion {
    cache: PageCache,
    key: Key,
    page: Page,
    asked_after: u64,
    variants_max: usize,
    lead: Option<FlightLeader>,
}

impl FillCompletion {
    fn end(self, whole: Option<Bytes>) {
        let Self { cache, key, mut page, asked_after, variants_max, lead } = self;
        let declared = page.headers.get(CONTENT_LENGTH).cloned();
        let is_whole =
            |bytes: &Bytes| declared.is_none_or(|length| length == HeaderValue::from(bytes.len()));
        let Some(body) = whole.filter(is_whole) else {
            cache.0.table.lock().pass(&key, cache.0.runtime.now());
            end(lead, FlightEnd::Alone);
            return;
        };
        // It may be a view into a larger buffer, which would be kept with it.
        page.body = Bytes::copy_from_slice(&body);
        cache.0.table.lock().store(key, page, asked_after, variants_max);
        end(lead, FlightEnd::Look);
    }
}

fn end(lead: Option<FlightLeader>, end: FlightEnd) {
    if let Some(lead) = lead {
        lead.end(end);
    }
}

/// How often a request waits for another one before it goes on by itself.
const TURNS_MAX: u32 = 4;
