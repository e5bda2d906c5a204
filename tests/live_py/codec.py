"""Frames, metadata and hellos of the live protocol, version 1 (docs/live-protocol.md, sections 1 and 2).

Written from the text alone, with the standard library only.
"""
import struct

HEAD = struct.Struct("<IIBBHI")
MAGIC = int.from_bytes(b"TWLV", "little")
KINDS = ("hello auth request reply error items end cancel credit ping pong goaway stale resume resumed "
         "ready busy log changed seen descriptors").split()
NUMBER = {name: number for number, name in enumerate(KINDS, 1)}
REASONS = ("drain magic version feature too_large malformed metadata_max unexpected unknown_stream stream_in_use "
           "stream_number calls_max credit unknown_method methods_max command_id compression handshake_timeout "
           "keep_alive unauthenticated init_failed internal bye taken_over").split()
END, ZSTD, HTTP, MORE, NOTIFY, VALUES, WATCHED, UNCHANGED, SUSPECT, KEEP = 1, 2, 4, 8, 16, 32, 16, 32, 64, 16
HEADERS = ("content-type authorization cookie set-cookie accept accept-encoding accept-language user-agent host origin "
           "referer content-length content-encoding cache-control etag if-none-match if-modified-since last-modified "
           "location vary date expires x-forwarded-for x-forwarded-proto x-request-id traceparent tracestate "
           "baggage").split()
FIELDS = dict(enumerate("method name command validator max_age token trailers code message detail outcome "
                        "http_method target status depends reason level key parent after expires".split(), 1))
VARINT_FIELDS = {"method", "max_age", "code", "outcome", "status", "reason", "level", "parent", "after", "expires"}
TOKEN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~")
PAYLOAD_MAX = HELLO_MAX = 65_536


class Violation(Exception):
    """A broken rule: the name of the reason, and a text."""

    def __init__(self, reason, text):
        super().__init__(f"{reason}: {text}")
        self.reason = reason


def malformed(text):
    return Violation("malformed", text)


def put_varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Reader:
    """Reads varints and strings from bytes."""

    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def done(self):
        return self.at >= len(self.data)

    def take(self, count):
        if len(self.data) - self.at < count:
            raise malformed("cut off")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value = 0
        for position in range(8):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                if value >= 1 << 53:
                    raise malformed("a varint over 53 bits")
                return value
        raise malformed("a varint over 8 bytes")

    def string(self):
        return self.take(self.varint())


def put_string(value):
    return put_varint(len(value)) + value


def only_varint(data):
    reader = Reader(data)
    value = reader.varint()
    if not reader.done():
        raise malformed("bytes after a number")
    return value


def put_numbers(numbers):
    out, previous = b"", 0
    for number in numbers:
        out += put_varint(number - previous)
        previous = number
    return out


def numbers(data):
    reader, found = Reader(data), []
    while not reader.done():
        step = reader.varint()
        if step == 0:
            raise malformed("a repeat in a number list")
        found.append(step + (found[-1] if found else 0))
        if found[-1] >= 1 << 32:
            raise malformed("a number list over 32 bits")
    return found


def items(data):
    reader, found = Reader(data), []
    while not reader.done():
        found.append(reader.string())
    if not found:
        raise malformed("no items")
    return found


def put_entry(tag, value, name=b""):
    return bytes([tag]) + (put_string(name) if tag == 0 else b"") + put_string(value)


def header_bytes(headers):
    """How long headers are as metadata."""
    known = [put_entry(64 + HEADERS.index(name), value) for name, value in headers if name in HEADERS]
    others = [put_entry(0, value, name.encode()) for name, value in headers if name not in HEADERS]
    return sum(map(len, known + others))


def entries(data):
    """Entries of a metadata block as (tag, name, value)."""
    reader, found = Reader(data), []
    while not reader.done():
        tag, name = reader.take(1)[0], b""
        if tag == 0:
            name = reader.string()
            if not 1 <= len(name) <= 256 or not TOKEN.issuperset(name):
                raise malformed("a header name is no lower-case token")
        value = reader.string()
        if (tag == 0 or tag >= 64) and any(byte in value for byte in b"\r\n\0"):
            raise malformed("a header value with CR, LF or NUL")
        found.append((tag, name, value))
    return found


def fields(data):
    """The protocol's fields of a metadata block, and the headers before and after the trailers mark."""
    found, headers, trailers = {"detail": [], "depends": [], "token": []}, [], []
    target = headers
    for tag, name, value in entries(data):
        if tag == 0:
            target.append((name.decode(), value))
        elif tag >= 64:
            if tag - 64 < len(HEADERS):
                target.append((HEADERS[tag - 64], value))
        elif tag in FIELDS:
            field = FIELDS[tag]
            if field in ("detail", "depends", "token"):
                found[field].append(one_field(field, value) if field == "token" else pair(field, value))
                continue
            if field in found:
                raise malformed(f"field {field} twice")
            found[field] = one_field(field, value)
            if field == "trailers":
                target = trailers
    return found, headers, trailers


def pair(field, value):
    reader = Reader(value)
    first = reader.string()
    if field == "detail":
        return first.decode(), reader.take(len(value) - reader.at)
    second = reader.string()
    if not reader.done():
        raise malformed("bytes after a pair")
    return first, second


def one_field(field, value):
    if field in VARINT_FIELDS:
        return only_varint(value)
    if field == "command":
        reader = Reader(value)
        both = reader.varint(), reader.varint()
        if not reader.done():
            raise malformed("bytes after a command")
        return both
    if field == "name":
        if not value:
            raise malformed("an empty name")
        return value[0], value[1:]
    if field == "message":
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise malformed("a message that is not UTF-8") from None
    if field == "validator" and len(value) != 16:
        raise malformed("a validator of other than 16 bytes")
    if field == "key":
        reader = Reader(value)
        key = reader.take(16), reader.varint()
        if not reader.done():
            raise malformed("bytes after a key")
        return key
    if field == "trailers" and value or field == "token" and len(value) > 256:
        raise malformed(f"{field} does not fit")
    return value


def put_frame(kind, stream=0, flags=0, metadata=b"", payload=b"", deadline_ms=0):
    number = NUMBER.get(kind, kind)
    length = len(metadata) + len(payload)
    return HEAD.pack(length, stream, number, flags, len(metadata), deadline_ms) + metadata + payload


class Frame:
    """One frame: head fields, metadata and payload as bytes."""

    def __init__(self, head, body):
        _, self.stream, self.number, self.flags, meta_len, self.deadline_ms = head
        self.kind = KINDS[self.number - 1] if 1 <= self.number <= len(KINDS) else None
        self.metadata, self.payload = body[:meta_len], body[meta_len:]

    def has(self, flag):
        return bool(self.flags & flag)


HELLO_FIELDS = {
    2: ("features", 0), 3: ("required", 0), 4: ("body_max", 4 << 20), 5: ("calls_max", 1024), 6: ("watches_max", 0),
    7: ("methods_max", 1024), 8: ("stream_credit", 256 << 10), 9: ("connection_credit", 1 << 20),
    10: ("metadata_max", 16 << 10), 11: ("boot", b""), 12: ("session", b""), 13: ("secret", b""), 14: ("resumed", b""),
    15: ("retain_ms", 0), 16: ("agent", b""), 17: ("keys_ms", 86_400_000), 18: ("replies_kept_max", 0),
    19: ("home", b""), 20: ("schema", b""), 21: ("expires_ms", 0),
}
FLOORS = {"body_max": 65_536, "calls_max": 1, "stream_credit": 1, "connection_credit": 1, "metadata_max": 256}
SIZES = {"boot": 16, "session": 16, "secret": 32, "resumed": 1, "schema": 16}


def put_hello(hello):
    """A hello frame from a dict; what equals its default is left out."""
    low, high = hello.get("versions", (1, 1))
    payload = put_entry(1, struct.pack("<HH", low, high))
    for tag, (name, default) in HELLO_FIELDS.items():
        value = hello.get(name, default)
        if value != default:
            payload += put_entry(tag, value if isinstance(value, bytes) else put_varint(value))
    return put_frame("hello", metadata=hello.get("metadata", b""), payload=payload, deadline_ms=MAGIC)


def is_utf8(value):
    try:
        return value.decode() is not None
    except UnicodeDecodeError:
        return False


def hello(frame):
    """A hello frame as a dict, defaults filled in."""
    fields(frame.metadata)
    found = {name: default for name, default in HELLO_FIELDS.values()}
    found["metadata"] = frame.metadata
    reader, seen = Reader(frame.payload), set()
    while not reader.done():
        tag, value = reader.take(1)[0], reader.string()
        if tag in seen:
            raise malformed("a hello field twice")
        seen.add(tag)
        if tag == 1:
            if len(value) != 4:
                raise malformed("versions of other than 4 bytes")
            found["versions"] = struct.unpack("<HH", value)
        elif tag in HELLO_FIELDS:
            name, default = HELLO_FIELDS[tag]
            if name in SIZES and len(value) != SIZES[name]:
                raise malformed(f"{name} has a wrong size")
            if tag in (16, 19) and not is_utf8(value):
                raise malformed(f"{name} is not UTF-8")
            if tag == 14 and value not in (b"\0", b"\1"):
                raise malformed("resumed is neither 0 nor 1")
            found[name] = value if isinstance(default, bytes) else only_varint(value)
            if tag in (4, 5, 6, 7, 10, 18) and found[name] > (0xffff if tag == 10 else 0xffff_ffff):
                raise malformed(f"{name} is over its bound")
            if found[name] < FLOORS.get(name, found[name]):
                raise malformed(f"{name} is below its floor")
    if 1 not in seen:
        raise malformed("no versions")
    return found


def split(data, greeted, limits):
    """The first frame of data and the rest; None when it is not complete."""
    if len(data) < HEAD.size:
        return None, data
    head = HEAD.unpack_from(data)
    length, stream, number, _, meta_len, deadline = head
    if not greeted:
        is_hello = number == 1 and deadline == MAGIC or number == NUMBER["goaway"]
        if not is_hello or stream != 0:
            raise Violation("magic", "not a hello")
        if length > HELLO_MAX:
            raise Violation("too_large", "a hello that is too long")
    if meta_len > length:
        raise malformed("more metadata than bytes")
    if greeted and meta_len > limits["metadata_max"]:
        raise Violation("metadata_max", f"{meta_len} bytes")
    if greeted and length - meta_len > PAYLOAD_MAX:
        raise Violation("too_large", f"{length} bytes")
    end = HEAD.size + length
    if len(data) < end:
        return None, data
    return Frame(head, data[HEAD.size:end]), data[end:]
