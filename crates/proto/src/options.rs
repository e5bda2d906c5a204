//! `(tidewire.v1.method)`: reading it from a descriptor, and refusing what makes no sense.
//!
//! Shared by code generation at build time and schemas at run time, so that both read the same
//! option the same way. The file that declares it is `tidewire/v1/options.proto`.

use std::time::Duration;

use prost_reflect::prost_types::FileDescriptorProto;
use protox::prost::Message;

use crate::Descriptors;
use crate::diagnostics::{Diagnostic, Diagnostics, Position};
use crate::wire_format::{self, Value};

/// What `(tidewire.v1.method)` says about one method.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MethodOptions {
    /// Whether replies are cached, and who may share them; `None` when they are not cached.
    pub cache: Option<CacheScope>,
    /// How long a reply may be kept although it recorded no dependency.
    pub ttl: Option<Duration>,
    /// Whether the reply to a request never changes.
    pub immutable: bool,
    /// Whether calls with the same request may be answered by one run although nothing is kept.
    pub coalesce: bool,
    /// The HTTP status of a successful reply over REST, 200 to 299.
    pub http_status: Option<u16>,
    /// For how long caches of HTTP may answer without asking.
    pub max_age: Option<Duration>,
    /// How much longer they may answer while they ask.
    pub stale_while_revalidate: Option<Duration>,
    /// How much longer they may answer while asking fails.
    pub stale_if_error: Option<Duration>,
    /// Who may call; `None` when it is not said.
    pub access: Option<Access>,
}

/// Who may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Anonymous,
    /// Everybody who is known.
    Authenticated,
    /// Who has all of these scopes.
    Scopes(Vec<String>),
}

/// Who may share a cached reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheScope {
    /// Everyone.
    Public,
    /// One caller.
    Caller,
    /// Those whose headers of these lower-case names are equal.
    Vary(Vec<String>),
}

impl MethodOptions {
    /// The number of the extension in `google.protobuf.MethodOptions`.
    pub const EXTENSION: u32 = 54_010;

    /// Reads the option out of an encoded `google.protobuf.MethodOptions`; the defaults when it is
    /// not there.
    ///
    /// # Errors
    ///
    /// What is wrong with the option, lower case and without a full stop.
    pub fn decode(method_options: &[u8]) -> Result<Self, String> {
        let fields = wire_format::fields(method_options).ok_or("not an encoded message")?;
        let mut raw = Raw::default();
        let mut is_query = false;
        for field in fields {
            match (field.number, field.value) {
                (Self::EXTENSION, Value::Bytes(bytes)) => raw.merge(bytes)?,
                (IDEMPOTENCY_LEVEL, Value::Varint(level)) => is_query = level == NO_SIDE_EFFECTS,
                _ => {}
            }
        }
        let options = raw.parse()?;
        let refinements = [
            ("ttl", options.ttl.is_some()),
            ("immutable", options.immutable),
            ("coalesce", options.coalesce),
            ("max_age", options.max_age.is_some()),
            ("stale_while_revalidate", options.stale_while_revalidate.is_some()),
            ("stale_if_error", options.stale_if_error.is_some()),
        ];
        let refinement = refinements.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name);
        match (options.cache.is_some(), refinement) {
            (false, Some(name)) => Err(format!(
                "`{name}` needs `cache`: replies of this method are not cached; add `cache: PUBLIC`, \
                 `CALLER` or `VARY`, or remove `{name}`"
            )),
            (true, _) if !is_query => Err("`cache` needs a query: add \
                 `option idempotency_level = NO_SIDE_EFFECTS` if the method changes nothing, or \
                 remove `cache`"
                .to_owned()),
            _ if options.cache == Some(CacheScope::Public) && options.is_for_some() => Err(
                "`cache: PUBLIC` gives replies to everybody, and not everybody may call; write \
                     `cache: CALLER`, or `access: ANONYMOUS`"
                    .to_owned(),
            ),
            _ => Ok(options),
        }
    }

    /// Whether it says that not everybody may call.
    fn is_for_some(&self) -> bool {
        self.access.as_ref().is_some_and(|access| *access != Access::Anonymous)
    }
}

/// The fields as they are on the wire.
#[derive(Debug, Default)]
struct Raw {
    cache: u64,
    vary: Vec<String>,
    ttl: Option<Parts>,
    immutable: bool,
    coalesce: bool,
    http_status: u64,
    max_age: Option<Parts>,
    stale_while_revalidate: Option<Parts>,
    stale_if_error: Option<Parts>,
    access: u64,
    scopes: Vec<String>,
}

/// Seconds and nanoseconds, as they came.
#[derive(Debug, Clone, Copy)]
struct Parts {
    seconds: i64,
    nanos: i64,
}

impl Raw {
    fn merge(&mut self, message: &[u8]) -> Result<(), String> {
        for field in wire_format::fields(message).ok_or("not an encoded message")? {
            match (field.number, field.value) {
                (1, Value::Varint(cache)) => self.cache = cache,
                (2, Value::Bytes(name)) => {
                    let name = str::from_utf8(name).map_err(|_| "`vary` is not UTF-8")?;
                    self.vary.push(name.to_owned());
                }
                (3, Value::Bytes(duration)) => self.ttl = Some(duration_parts("ttl", duration)?),
                (4, Value::Varint(immutable)) => self.immutable = immutable != 0,
                (5, Value::Varint(status)) => self.http_status = status,
                (6, Value::Varint(coalesce)) => self.coalesce = coalesce != 0,
                (7, Value::Bytes(duration)) => {
                    self.max_age = Some(duration_parts("max_age", duration)?);
                }
                (8, Value::Bytes(duration)) => {
                    let parts = duration_parts("stale_while_revalidate", duration)?;
                    self.stale_while_revalidate = Some(parts);
                }
                (9, Value::Bytes(duration)) => {
                    self.stale_if_error = Some(duration_parts("stale_if_error", duration)?);
                }
                (10, Value::Varint(access)) => self.access = access,
                (11, Value::Bytes(scope)) => {
                    let scope = str::from_utf8(scope).map_err(|_| "`scopes` is not UTF-8")?;
                    self.scopes.push(scope.to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn parse(self) -> Result<MethodOptions, String> {
        let cache = match self.cache {
            0 => None,
            1 => Some(CacheScope::Public),
            2 => Some(CacheScope::Caller),
            3 if self.vary.is_empty() => {
                return Err("`cache: VARY` needs the headers it varies by in `vary`".to_owned());
            }
            3 => Some(CacheScope::Vary(self.vary.clone())),
            other => return Err(format!("`cache` has no value {other}")),
        };
        if !self.vary.is_empty() && self.cache != 3 {
            return Err("`vary` is read with `cache: VARY` only".to_owned());
        }
        if let Some(name) = self.vary.iter().find(|name| !is_header_name(name)) {
            return Err(format!("`vary: \"{name}\"` is not a header name in lower case"));
        }
        let access = access(self.access, self.scopes)?;
        let ttl = self.ttl.map(duration);
        if ttl.is_some_and(|ttl| ttl.is_none_or(|ttl| ttl.as_millis() == 0)) {
            return Err("`ttl` has to be a millisecond or more".to_owned());
        }
        let seconds = |name: &str, parts: Option<Parts>| match parts.map(duration) {
            None => Ok(None),
            Some(Some(life)) if life.subsec_nanos() == 0 => Ok(Some(life)),
            Some(_) => Err(format!("`{name}` has to be whole seconds, as caches count them")),
        };
        let max_age = seconds("max_age", self.max_age)?;
        let stale_while_revalidate =
            seconds("stale_while_revalidate", self.stale_while_revalidate)?;
        let stale_if_error = seconds("stale_if_error", self.stale_if_error)?;
        let http_status = match self.http_status {
            0 => None,
            status @ 200..=299 => u16::try_from(status).ok(),
            status => return Err(format!("`http_status: {status}` is not in 200 to 299")),
        };
        Ok(MethodOptions {
            cache,
            ttl: ttl.flatten(),
            immutable: self.immutable,
            coalesce: self.coalesce,
            http_status,
            max_age,
            stale_while_revalidate,
            stale_if_error,
            access,
        })
    }
}

fn access(access: u64, scopes: Vec<String>) -> Result<Option<Access>, String> {
    // What RFC 6749, section 3.3, allows: they stand in one text with spaces between them.
    let is_scope = |scope: &&String| {
        !scope.is_empty() && scope.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
    };
    if let Some(scope) = scopes.iter().find(|scope| !is_scope(scope)) {
        return Err(format!("`scopes: {scope:?}` is not a scope: visible ASCII without quotes"));
    }
    match (access, scopes.is_empty()) {
        (0, true) => Ok(None),
        (1, true) => Ok(Some(Access::Anonymous)),
        (1, false) => Err("`access: ANONYMOUS` and `scopes` exclude each other".to_owned()),
        (2, true) => Ok(Some(Access::Authenticated)),
        (0 | 2, false) => Ok(Some(Access::Scopes(scopes))),
        (other, _) => Err(format!("`access` has no value {other}")),
    }
}

/// Refuses options that make no sense, at the method they are on.
pub(crate) fn check(descriptors: &Descriptors) -> Result<(), Diagnostics> {
    let mut diagnostics = Vec::new();
    for file in descriptors.files() {
        for (path, options) in method_options(file.bytes()) {
            let Err(message) = MethodOptions::decode(options) else { continue };
            let name = match &file.path {
                Some(path) => crate::load::resolve::display(path),
                None => file.name.clone(),
            };
            let diagnostic = Diagnostic::new(name, format!("(tidewire.v1.method): {message}"))
                .help("see the comments of tidewire/v1/options.proto");
            diagnostics.push(diagnostic.at_position(place(file.bytes(), path)));
        }
    }
    Diagnostics::from_list(diagnostics).map_or(Ok(()), Err)
}

/// Which method of a file.
#[derive(Clone, Copy)]
struct MethodIndex {
    service: usize,
    method: usize,
}

/// The encoded options of every method.
fn method_options(file: &[u8]) -> Vec<(MethodIndex, &[u8])> {
    let mut found = Vec::new();
    for (service, message) in parts(file, FILE_SERVICE).into_iter().enumerate() {
        for (method, message) in parts(message, SERVICE_METHOD).into_iter().enumerate() {
            let options = parts(message, METHOD_OPTIONS);
            let at = MethodIndex { service, method };
            found.extend(options.into_iter().map(|options| (at, options)));
        }
    }
    found
}

fn parts(message: &[u8], number: u32) -> Vec<&[u8]> {
    let fields = wire_format::fields(message).unwrap_or_default().into_iter();
    fields
        .filter_map(|field| match field.value {
            Value::Bytes(bytes) if field.number == number => Some(bytes),
            _ => None,
        })
        .collect()
}

/// Where a method is: at its option, or where it begins.
fn place(file: &[u8], at: MethodIndex) -> Option<Position> {
    let info = FileDescriptorProto::decode(file).ok()?.source_code_info?;
    let path =
        [FILE_SERVICE, index(at.service), SERVICE_METHOD, index(at.method)].map(u32::cast_signed);
    let option = u32::cast_signed(METHOD_OPTIONS);
    let ours = u32::cast_signed(MethodOptions::EXTENSION);
    let at_option = info.location.iter().find(|place| {
        place.path.starts_with(&path) && place.path[path.len()..].starts_with(&[option, ours])
    });
    let place = at_option.or_else(|| info.location.iter().find(|place| place.path == path))?;
    Position::of_span(&place.span)
}

fn index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn duration(Parts { seconds, nanos }: Parts) -> Option<Duration> {
    let whole = u64::try_from(seconds).ok()?;
    let part = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(whole, part))
}

fn duration_parts(name: &str, message: &[u8]) -> Result<Parts, String> {
    let mut parts = Parts { seconds: 0, nanos: 0 };
    let fields =
        wire_format::fields(message).ok_or_else(|| format!("`{name}` is not a duration"))?;
    for field in fields {
        match (field.number, field.value) {
            (1, Value::Varint(value)) => parts.seconds = value.cast_signed(),
            (2, Value::Varint(value)) => parts.nanos = value.cast_signed(),
            _ => {}
        }
    }
    Ok(parts)
}

fn is_header_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(allowed)
}

const FILE_SERVICE: u32 = 6;
const SERVICE_METHOD: u32 = 2;
const METHOD_OPTIONS: u32 = 4;
const IDEMPOTENCY_LEVEL: u32 = 34;
const NO_SIDE_EFFECTS: u64 = 1;
