//! One response that is prepared: the HTTP library's bytes of it, but for `date` and `age`.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use memchr::memmem::Finder;

use super::{CachedHit, HEAD_END, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, head_end};

/// A response, and the request that it answers.
pub(super) struct PreparedReply {
    /// The request, the head of the response up to its last header, and its body.
    bytes: Box<[u8]>,
    request_end: usize,
    /// Where the age goes.
    age_at: usize,
    head_end: usize,
    age: AgeHeader,
    hit: CachedHit,
    source_edition: u64,
    was_used: AtomicBool,
    is_over: AtomicBool,
}

/// When a response says how old it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgeHeader {
    Never,
    /// From its first second on.
    FromOneSecond,
    Always,
}

impl PreparedReply {
    /// The response to a request, as the HTTP library wrote it; it is of this age. `None` for what
    /// is not sure to be the same the next time.
    pub(super) fn of(
        request: &[u8],
        response: &[u8],
        hit: CachedHit,
        age: Duration,
        source_edition: u64,
    ) -> Option<Self> {
        if request.len() > REQUEST_BYTES_MAX || response.len() > RESPONSE_BYTES_MAX {
            return None;
        }
        let is_get = request.starts_with(b"GET ");
        if !is_get && !request.starts_with(b"POST ") {
            return None;
        }
        let asked = lines(&request[..head_end(request)? - HEAD_END.len()]);
        if asked.skip(1).any(|line| Header::of(line).is_none_or(|it| is_credential(it.name))) {
            return None;
        }
        let end = head_end(response)?;
        let (head, body) = response.split_at(end);
        let mut lines = lines(&head[..end - HEAD_END.len()]);
        let mut bytes = Vec::with_capacity(request.len() + response.len());
        bytes.extend_from_slice(request);
        bytes.extend_from_slice(lines.next()?);
        bytes.extend_from_slice(b"\r\n");
        let mut said = CacheLines::default();
        let mut age_at = None;
        for line in lines {
            let Header { name, value } = Header::of(line)?;
            match name {
                b"date" => said.dates += 1,
                b"age" => {
                    said.age = Some(value);
                    age_at = Some(bytes.len());
                }
                b"content-length" => said.length = std::str::from_utf8(value).ok()?.parse().ok(),
                b"cache-status" => said.status = Some(value),
                b"connection" | b"transfer-encoding" | b"set-cookie" => return None,
                _ => {}
            }
            if !matches!(name, b"date" | b"age") {
                bytes.extend_from_slice(line);
                bytes.extend_from_slice(b"\r\n");
            }
            if name == b"cache-status" {
                // Behind it the cache says the age, once there is one.
                age_at = age_at.or(Some(bytes.len()));
            }
        }
        let is_unchanged = response.starts_with(b"HTTP/1.1 304 ") && said.length.is_none();
        let length = if is_unchanged { Some(0) } else { said.length };
        if said.dates != 1 || length != Some(body.len()) {
            return None;
        }
        let age = said.age_header(is_get, age)?;
        let request_end = request.len();
        let head_end = bytes.len();
        let age_at = age_at.unwrap_or(head_end);
        bytes.extend_from_slice(body);
        let bytes = bytes.into_boxed_slice();
        let was_used = AtomicBool::new(false);
        let is_over = AtomicBool::new(false);
        Some(Self {
            bytes,
            request_end,
            age_at,
            head_end,
            age,
            hit,
            source_edition,
            was_used,
            is_over,
        })
    }

    /// What it is the response to.
    pub(super) fn request(&self) -> &[u8] {
        &self.bytes[..self.request_end]
    }

    /// Whether it is the response to this request.
    pub(super) fn answers(&self, request: &[u8]) -> bool {
        self.request() == request
    }

    /// Whether it is the response to this request that is prepared by the same.
    pub(super) fn is_of(&self, request: &[u8], hit: &CachedHit, source_edition: u64) -> bool {
        self.answers(request) && self.hit == *hit && self.source_edition == source_edition
    }

    /// What it was prepared of.
    pub(super) fn hit(&self) -> &CachedHit {
        &self.hit
    }

    /// The edition of the services that may change, when it was asked for.
    pub(super) fn source_edition(&self) -> u64 {
        self.source_edition
    }

    /// How long its body is.
    pub(super) fn body_bytes(&self) -> usize {
        self.bytes.len() - self.head_end
    }

    /// Appends the response, which is of this age now.
    pub(super) fn write(&self, age: Duration, output: &mut Vec<u8>) {
        if !self.was_used.load(Ordering::Relaxed) {
            self.was_used.store(true, Ordering::Relaxed);
        }
        output.reserve(self.bytes.len() - self.request_end + DATE_AND_AGE);
        output.extend_from_slice(&self.bytes[self.request_end..self.age_at]);
        let seconds = age.as_secs();
        let says_age = match self.age {
            AgeHeader::Never => false,
            AgeHeader::FromOneSecond => seconds > 0,
            AgeHeader::Always => true,
        };
        if says_age {
            output.extend_from_slice(b"age: ");
            output.extend_from_slice(seconds.to_string().as_bytes());
            output.extend_from_slice(b"\r\n");
        }
        output.extend_from_slice(&self.bytes[self.age_at..self.head_end]);
        output.extend_from_slice(b"date: ");
        output.extend_from_slice(&date());
        output.extend_from_slice(HEAD_END);
        output.extend_from_slice(&self.bytes[self.head_end..]);
    }

    /// Whether it is known to be not in memory any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// It is not in memory any more; whether nobody knew that.
    pub(super) fn end(&self) -> bool {
        !self.is_over.swap(true, Ordering::Relaxed)
    }

    /// Whether it was given since this was asked last.
    pub(super) fn take_used(&self) -> bool {
        self.was_used.swap(false, Ordering::Relaxed)
    }

    /// What it takes, with what its table takes for it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.hit.watched.bytes() + size_of::<Self>() + HOLDING_BYTES
    }
}

/// What the head of a response says that is looked at here.
#[derive(Default)]
struct CacheLines<'a> {
    dates: usize,
    length: Option<usize>,
    status: Option<&'a [u8]>,
    age: Option<&'a [u8]>,
}

impl CacheLines<'_> {
    /// When the response to a `GET`, or to a `POST`, says how old it is; `None` where it does not
    /// speak of the cache as what it gives from memory does.
    fn age_header(&self, is_get: bool, age: Duration) -> Option<AgeHeader> {
        // A second may have begun since the response was made.
        let is_now = |said| age.as_secs().checked_sub(said).is_some_and(|late| late <= 1);
        match (self.age, self.status) {
            (None, None) => (!is_get).then_some(AgeHeader::Never),
            (None, Some(HIT)) if is_now(0) => Some(AgeHeader::FromOneSecond),
            (Some(b"0"), Some(HIT)) if is_now(0) => Some(AgeHeader::Always),
            (Some(said), Some(HIT)) if is_now(std::str::from_utf8(said).ok()?.parse().ok()?) => {
                Some(AgeHeader::FromOneSecond)
            }
            _ => None,
        }
    }
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Whether a header says who calls, so that nothing else keeps it longer than its request.
fn is_credential(name: &[u8]) -> bool {
    CREDENTIALS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// A line of a head; the HTTP library writes names in lower case.
struct Header<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Header<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some(Self { name: &line[..colon], value: line[colon + 1..].trim_ascii() })
    }
}

/// Whether a response may say that it is from memory; only those to `GET` do.
pub(super) fn is_from_memory(response: &[u8]) -> bool {
    static FINDER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(HIT));
    FINDER.find(response).is_some()
}

/// The date of now, as HTTP writes it.
fn date() -> [u8; DATE_BYTES] {
    thread_local! {
        static LAST: Cell<(u64, [u8; DATE_BYTES])> = const { Cell::new((0, [0; DATE_BYTES])) };
    }
    let now = SystemTime::now();
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (of, date) = LAST.get();
    if of == seconds {
        return date;
    }
    let mut date = [b' '; DATE_BYTES];
    let text = httpdate::fmt_http_date(now);
    date.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    LAST.set((seconds, date));
    date
}

const CREDENTIALS: [&[u8]; 3] = [b"authorization", b"cookie", b"proxy-authorization"];
/// What the cache says of what it gives from memory.
const HIT: &[u8] = b"tidewire; hit";
/// `Sun, 06 Nov 1994 08:49:37 GMT`
const DATE_BYTES: usize = 29;
/// The lines of both headers, and the end of the head.
const DATE_AND_AGE: usize = 80;
/// What the table takes for a reply, and the memory that is held of an entry of the cache which has
/// gone, about.
const HOLDING_BYTES: usize = 400;
