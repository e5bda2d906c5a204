"""Frames of the live protocol, as bytes: what their parts are called, how they are read and written."""

import json
import math
import operator
import re
import struct

# -- errors ----------------------------------------------------------------------------------------

CODES = """
    ok canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied
    resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable
    data_loss unauthenticated
""".split()
NOT_RUN, UNKNOWN, RAN, BEHIND = 1, 2, 3, 4
REASONS = """
    drain magic version feature too_large malformed metadata_max unexpected unknown_stream stream_in_use
    stream_number calls_max credit unknown_method methods_max command_id
""".split()


class Error(Exception):
    """Why a call failed: raised by handlers for their callers, and by calls of the gateway.

    `details` are pairs of a type name and an encoded message. `outcome` is what is known of a call that
    has no answer: NOT_RUN, UNKNOWN, RAN, BEHIND; None for the answer of a handler.
    """

    def __init__(self, code, message="", details=(), headers=(), outcome=None):
        if code not in CODES[1:]:
            import difflib  # Not at the start, which it would hold up.

            near = difflib.get_close_matches(str(code).lower(), CODES[1:], 1)
            help = f'did you mean "{near[0]}"?' if near else "the codes are " + ", ".join(CODES[1:])
            raise ValueError(f"{code!r} is no code of an error; {help}")
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message, self.details, self.headers = str(message), details, headers
        self.outcome = outcome


def given_up(outcome=None):
    return Error("canceled", "the caller gave up", outcome=outcome)


class Principal:
    """Who calls: its `subject` by the word of an `issuer`, a list of `scopes`, and a dict of other `claims`."""

    def __init__(self, issuer, subject, scopes=(), claims=None):
        self.issuer, self.subject = issuer, subject
        self.scopes, self.claims = list(scopes or ()), dict(claims or {})

    @classmethod
    def of(cls, header):
        """Reads the header `tidewire-principal`; None without one."""
        if not header:
            return None
        said = json.loads(header)
        return cls(said["issuer"], said["subject"], said.get("scopes"), said.get("claims"))

    def has_scope(self, scope):
        """Whether the caller is allowed to do this."""
        return scope in self.scopes

    def __repr__(self):
        return f"Principal({self.issuer!r}, {self.subject!r})"


class Violation(Exception):
    """The gateway broke a rule of the protocol: which of REASONS, and a text."""


def must(condition, reason, text):
    if not condition:
        raise Violation(reason, text)


# -- frames ----------------------------------------------------------------------------------------

HEAD = struct.Struct("<IIBBHI")
SURROGATES = re.compile("[\ud800-\udfff]")
MAGIC = int.from_bytes(b"TWLV", "little")
KINDS = """
    hello auth request reply error items end cancel credit ping pong goaway stale resume resumed ready busy
    log changed seen descriptors
""".split()
NUMBERS = {name: number for number, name in enumerate(KINDS, 1)}
END, ZSTD, HTTP, MORE, WATCHED, UNCHANGED = 1, 2, 4, 8, 16, 32
FEATURE_HTTP, FEATURE_HOSTED = 2, 32
PAYLOAD_MAX, PIECE, SMALL_MAX, BODY_MAX = 65_536, 16_384, 16_376, 64 << 20
HEADERS = """
    content-type authorization cookie set-cookie accept accept-encoding accept-language user-agent host
    origin referer content-length content-encoding cache-control etag if-none-match if-modified-since
    last-modified location vary date expires x-forwarded-for x-forwarded-proto x-request-id traceparent
    tracestate baggage
""".split()
TAGS = {name: 64 + number for number, name in enumerate(HEADERS)}
# What has no place in a line of a log, and how the gateway writes it in one.
CONTROL, ESCAPED = re.compile(r"[\x00-\x08\n-\x1f\x7f-\x9f]"), {"\n": r"\n", "\r": r"\r"}
TOKEN = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,256}")
LEVELS = ("trace", "debug", "info", "warn", "error")


def put_varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_string(value):
    value = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return put_varint(len(value)) + value


def put_field(tag, value):
    return bytes((tag,)) + put_string(put_varint(value) if isinstance(value, int) else value)


def put_headers(headers):
    """Headers as pairs of texts or bytes; what the protocol cannot carry is left out."""
    out = b""
    for name, value in headers:
        name = (name.decode("latin-1") if isinstance(name, bytes) else name).lower()
        breaks = b"\r\n\0" if isinstance(value, bytes) else "\r\n\0"
        if TOKEN.fullmatch(name) and not any(character in value for character in breaks):
            known = name in TAGS
            out += put_field(TAGS[name], value) if known else put_field(0, name) + put_string(value)
    return out


def log_field(name, value):
    """A field of a line in the log, as a header can be: nothing of it is left out."""
    name = "".join(sign if TOKEN.fullmatch(sign) else "-" for sign in name.lower()[:256])
    return name or "field", CONTROL.sub(lambda found: ESCAPED.get(found[0]) or f"\\u{{{ord(found[0]):x}}}", value)


def put_sources(sources, room):
    """What an answer was made of, in at most so many bytes: every key, or else the sources, as any key of
    theirs may be one of it, or else that it cannot be told; the answer is not kept then."""
    sources = list(sources)
    for known in (sources, dict.fromkeys(parts[:1] for parts in sources), [()]):
        out = bytearray()
        for parts in known:
            out += put_field(15, b"".join(map(put_string, parts)))
            if len(out) > room:
                break
        else:
            break
    return bytes(out)


def put_error(error):
    fields = put_field(8, CODES.index(error.code))
    if error.message:
        fields += put_field(9, cut(error.message, 1024))
    for name, value in error.details:
        fields += put_field(10, put_string(name.encode()) + value)
    return fields + (b"" if error.outcome is None else put_field(11, error.outcome))


def cut(text, size):
    """The beginning of a text in at most so many bytes."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").encode()


def put_frame(name, stream=0, flags=0, metadata=b"", payload=b"", deadline_ms=0):
    size = len(metadata) + len(payload)
    head = HEAD.pack(size, stream, NUMBERS[name], flags, len(metadata), deadline_ms)
    return head + metadata + payload


def take_varint(data, at=0):
    """The number at an offset, and the offset behind it."""
    value = 0
    for shift in range(0, 56, 7):
        must(at < len(data), "malformed", "a number is cut off")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80 and value < 1 << 53:
            return value, at
    raise Violation("malformed", "a number is too large")


def take_string(data, at=0):
    length, at = take_varint(data, at)
    must(length <= len(data) - at, "malformed", "a string is cut off")
    return data[at : at + length], at + length


def take_number(data):
    """The number that is all there is."""
    value, end = take_varint(data)
    must(end == len(data), "malformed", "something follows a number")
    return value


class Frame:
    """One frame that came: its head, its payload, and of its metadata fields by tag, headers, details."""

    def __init__(self, head, metadata, payload):
        _, self.stream, kind, self.flags, _, self.deadline_ms = head
        self.name = KINDS[kind - 1] if 0 < kind <= len(KINDS) else "unknown"
        self.fields, self.headers, self.details, self.payload, at = {}, [], [], payload, 0
        while at < len(metadata):
            tag, at = metadata[at], at + 1
            name = HEADERS[tag - 64] if 64 <= tag < 64 + len(HEADERS) else None
            if tag == 0:
                name, at = take_string(metadata, at)
                name = name.decode("latin-1")
            value, at = take_string(metadata, at)
            if name is not None:
                self.headers.append((name, value.decode("utf-8", "surrogateescape")))
            elif tag == 10:
                self.details.append(value)
            else:
                is_new = tag not in self.fields or tag in (6, 15) or tag > 21
                must(is_new, "malformed", f"field {tag} comes twice")
                self.fields[tag] = value

    def text(self, tag):
        return self.fields.get(tag, b"").decode("utf-8", "replace")

    def number(self, tag, default=None):
        return take_number(self.fields[tag]) if tag in self.fields else default


def key_text(parts):
    """The key of a source as text, the same in each language: its parts joined by `/`."""
    return "/".join(map(part_text, parts))


def part_text(part):
    """Equal values have equal text, of whatever type; what is no value of a key is a TypeError."""
    if part is None or isinstance(part, bool):
        return {None: "%_", True: "true", False: "false"}[part]
    if isinstance(part, str):
        return unicode(part).replace("%", "%25").replace("/", "%2F")
    if isinstance(part, (bytes, bytearray, memoryview)):
        return bytes(part).hex()
    if isinstance(part, float) and math.isfinite(part):
        return int.__repr__(int(part)) if part.is_integer() else positional(part)
    if hasattr(part, "__index__"):
        return int.__repr__(operator.index(part))
    what = repr(part) if isinstance(part, float) else f"a {type(part).__name__}"
    raise TypeError(f"{what} is no part of a key; text, numbers, bytes, a bool or None are")


def unicode(text):
    """The text, with U+FFFD for what is none: half a character."""
    if SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def positional(number):
    """The shortest digits that read back, without an exponent."""
    text = float.__repr__(number)
    if "e-" not in text:
        return text
    digits, exponent = text.lstrip("-").split("e-")
    return "-" * (number < 0) + "0." + "0" * (int(exponent) - 1) + digits.replace(".", "")
