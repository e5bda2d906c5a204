"""Serve methods and pages behind a Tidewire gateway: one file, the standard library, Python 3.9 and newer.

    import tidewire

    app = tidewire.App()

    @app.unary("shop.v1.Shop/GetItem")
    def get_item(request, context):
        context.depends("items", request["id"])  # the answer is kept until this item changes
        return {"name": "tea"}

    app.serve()

The gateway starts the program, passes calls on a socket that it inherits (`TIDEWIRE_FD`), and ends it.
Functions run in threads, `async` ones in an event loop. Messages are dicts where tidewire.toml says
`codec = "json"`; else they are bytes, encoded as protobuf. What a program prints is in the gateway's log.

 bytes ─▶ Session: frames, tables of calls, credit ─▶ App: handlers ─▶ Session ─▶ bytes

Modules that take long to import are imported where they are needed: a program starts with its first call.
"""

import json
import os
import queue
import re
import socket
import struct
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager

__version__ = "0.1.0"

# -- errors ----------------------------------------------------------------------------------------

CODES = """
    ok canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied
    resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable
    data_loss unauthenticated
""".split()
NOT_RUN, UNKNOWN, RAN, BEHIND = 1, 2, 3, 4
GAVE_UP = "the caller gave up"


class Error(Exception):
    """Why a call failed: raised by handlers for their callers, and by calls of the gateway.

    `details` are pairs of a type name and an encoded message. `outcome` is what is known of a call that
    has no answer: NOT_RUN, UNKNOWN, RAN, BEHIND; None for the answer of a handler.
    """

    def __init__(self, code, message="", details=(), headers=(), outcome=None):
        super().__init__(f"{code}: {message}")
        self.code = code if code in CODES[1:] else "unknown"
        self.message, self.outcome = str(message), outcome
        self.details, self.headers = list(details), list(headers)


class Violation(Exception):
    """The gateway broke a rule of the protocol."""


def must(condition, text):
    if not condition:
        raise Violation(text)


# -- frames ----------------------------------------------------------------------------------------

HEAD = struct.Struct("<IIBBHI")
MAGIC = int.from_bytes(b"TWLV", "little")
KINDS = """
    hello auth request reply error items end cancel credit ping pong goaway stale resume resumed ready busy
    log changed seen descriptors
""".split()
NUMBERS = {name: number for number, name in enumerate(KINDS, 1)}
END, HTTP, MORE = 1, 4, 8
HOSTED = 32
PAYLOAD_MAX, PIECE, SMALL_MAX, BODY_MAX = 65_536, 16_384, 16_376, 64 << 20
STREAM_CREDIT, CONNECTION_CREDIT = 262_144, 1 << 20
HEADERS = """
    content-type authorization cookie set-cookie accept accept-encoding accept-language user-agent host
    origin referer content-length content-encoding cache-control etag if-none-match if-modified-since
    last-modified location vary date expires x-forwarded-for x-forwarded-proto x-request-id traceparent
    tracestate baggage
""".split()
TAGS = {name: 64 + number for number, name in enumerate(HEADERS)}
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
    return put_varint(len(value)) + value


def put_field(tag, value):
    return bytes((tag,)) + put_string(put_varint(value) if isinstance(value, int) else value)


def put_headers(headers):
    """Headers as pairs of texts or bytes; what the protocol cannot carry is left out."""
    out = bytearray()
    for name, value in headers:
        name = (name.decode("latin-1") if isinstance(name, bytes) else name).lower()
        value = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if not TOKEN.fullmatch(name) or any(byte in value for byte in b"\r\n\0"):
            continue
        if name in TAGS:
            out += put_field(TAGS[name], value)
        else:
            out += put_field(0, name.encode()) + put_string(value)
    return bytes(out)


def put_frame(name, stream=0, flags=0, metadata=b"", payload=b"", deadline_ms=0):
    size = len(metadata) + len(payload)
    return HEAD.pack(size, stream, NUMBERS[name], flags, len(metadata), deadline_ms) + metadata + payload


def take_varint(data, at):
    """The number at an offset, and the offset behind it."""
    value = 0
    for shift in range(0, 56, 7):
        must(at < len(data), "a number that is cut off")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            break
    must(data[at - 1] < 0x80 and value < 1 << 53, "a number that is too large")
    return value, at


def take_string(data, at):
    length, at = take_varint(data, at)
    must(length <= len(data) - at, "a string that is cut off")
    return data[at : at + length], at + length


class Frame:
    """One frame that came: its head, its payload, and of its metadata fields by tag, headers, details."""

    def __init__(self, head, metadata, payload):
        _, self.stream, kind, self.flags, _, self.deadline_ms = head
        self.name = KINDS[kind - 1] if 0 < kind <= len(KINDS) else "unknown"
        self.fields, self.headers, self.details, self.payload, at = {}, [], [], payload, 0
        while at < len(metadata):
            tag, name = metadata[at], None
            at += 1
            if tag == 0:
                name, at = take_string(metadata, at)
            elif 64 <= tag < 64 + len(HEADERS):
                name = HEADERS[tag - 64].encode()
            value, at = take_string(metadata, at)
            if name is not None:
                self.headers.append((name.decode("latin-1"), value.decode("utf-8", "surrogateescape")))
            elif tag == 10:
                self.details.append(value)
            else:
                self.fields[tag] = value

    def text(self, tag):
        return self.fields.get(tag, b"").decode("utf-8", "replace")

    def number(self, tag, default=None):
        return number_of(self.fields, tag, default)


def number_of(fields, tag, default=None):
    return take_varint(fields[tag], 0)[0] if tag in fields else default


def key_text(parts):
    """The key of a source as text: its parts joined by `/`."""

    def text(part):
        if part is None:
            return "%_"
        if isinstance(part, bool):
            return "true" if part else "false"
        if isinstance(part, bytes):
            return part.hex()
        return str(part).replace("%", "%25").replace("/", "%2F")

    return "/".join(text(part) for part in parts)


# -- session ---------------------------------------------------------------------------------------


class Call:
    """One call, of either side: what came of it, and what is to be sent."""

    def __init__(self, number):
        self.number, self.is_ours = number, number % 2 == 1
        self.is_open, self.is_cancelled = True, False
        self.path, self.codec, self.verb, self.deadline, self.command = "", 0, None, None, None
        self.headers, self.error = [], None
        self.waiting, self.on_cancel = [], lambda: None
        # What comes: items with what each counts as, and pieces of one that is not complete.
        self.items, self.partial, self.held, self.owed = deque(), bytearray(), 0, 0
        self.has_head = self.is_streaming = self.is_whole = False
        # What goes: items, how much of the first is sent, and the frame after the last.
        self.out, self.cut, self.queued, self.last = deque(), 0, 0, None
        self.outstanding, self.in_line = 0, False

    def wake(self):
        """Wakes whoever waits for something to come, to go, or to end."""
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()


class Session:
    """This side of the protocol without a socket: bytes in, bytes and calls out. Its owner has a lock.

    `begin` is told of each call of the gateway; who waits for room for a call of this side waits at `room`.
    """

    def __init__(self, begin=lambda call: None, agent="tidewire-python/" + __version__, now=time.monotonic):
        self.begin_call, self.now = begin, now
        self.data, self.control, self.main = bytearray(), bytearray(), bytearray()
        self.is_greeted, self.is_draining, self.closed = False, False, None
        self.calls, self.asked, self.free, self.room = {}, {}, [], Call(0)
        self.methods, self.called = [], {}
        self.line, self.outstanding, self.owed = deque(), 0, 0
        self.next_command, self.done, self.ended_commands = 1, 1, set()
        hello = put_field(1, b"\x01\0\x01\0") + put_field(2, 2 | HOSTED)
        hello += put_field(3, HOSTED) + put_field(4, BODY_MAX)
        hello += put_field(16, agent.encode())
        self.control += put_frame("hello", payload=hello, deadline_ms=MAGIC)

    # What comes.

    def feed(self, data):
        """Takes bytes that came; what is wrong with them ends the session."""
        self.data += data
        at = 0
        try:
            while self.closed is None and len(self.data) - at >= 16:
                head = HEAD.unpack_from(self.data, at)
                length, metadata = head[0], head[4]
                must(metadata <= length, "metadata over its frame")
                must(length - metadata <= PAYLOAD_MAX, "a frame over the limit")
                if len(self.data) - at < 16 + length:
                    break
                body = bytes(self.data[at + 16 : at + 16 + length])
                at += 16 + length
                self.receive(Frame(head, body[:metadata], body[metadata:]))
        except Violation as violation:
            self.main += put_frame(
                "goaway", metadata=put_field(9, str(violation).encode()) + put_field(16, 5)
            )
            self.close(str(violation))
        del self.data[:at]

    def receive(self, frame):
        must(self.is_greeted or frame.name in ("hello", "goaway"), "the first frame is not a hello")
        if receive := getattr(self, "on_" + frame.name, None):
            receive(frame)

    def on_ping(self, frame):
        self.control += put_frame("pong", payload=frame.payload)

    def find(self, stream):
        """The call of a number; None for one of the gateway that is over."""
        call = self.asked.get(stream) if stream % 2 else self.calls.get(stream)
        must(call or stream % 2 == 0, f"stream {stream} is not open")
        return call

    def on_hello(self, frame):
        must(not self.is_greeted, "a second hello")
        must(frame.deadline_ms == MAGIC, "not a hello")
        said, at = {}, 0
        while at < len(frame.payload):
            tag = frame.payload[at]
            said[tag], at = take_string(frame.payload, at + 1)
        must(said.get(1) == b"\x01\0\x01\0", "this side speaks version 1")
        must(number_of(said, 2, 0) & HOSTED, "the gateway hosts no processes")
        self.body_max, self.calls_max = number_of(said, 4, 4 << 20), number_of(said, 5, 1024)
        self.methods_max, self.metadata_max = number_of(said, 7, 1024), number_of(said, 10, 16_384)
        self.stream_window = number_of(said, 8, STREAM_CREDIT)
        self.connection_window = number_of(said, 9, CONNECTION_CREDIT)
        self.is_greeted = True
        self.control += put_frame("ready")
        self.room.wake()

    def on_goaway(self, frame):
        if frame.number(16, 0) or not self.is_greeted:
            self.close(frame.text(9) or f"reason {frame.number(16)}")
        self.is_draining = True

    def on_request(self, frame):
        must(frame.stream and frame.stream % 2 == 0, f"a request on stream {frame.stream}")
        must(frame.stream not in self.calls, f"a request on stream {frame.stream}")
        call = self.calls[frame.stream] = Call(frame.stream)
        call.headers, call.command = frame.headers, frame.fields.get(3)
        call.is_whole = bool(frame.flags & END)
        call.is_streaming = not call.is_whole
        if frame.deadline_ms:
            call.deadline = self.now() + frame.deadline_ms / 1000
        if frame.payload:
            call.items.append((frame.payload, 0))
        if frame.flags & HTTP:
            call.verb, call.path = frame.text(12), frame.text(13)
        else:
            call.codec, call.path = self.method(frame)
        self.begin_call(call)

    def method(self, frame):
        """The codec and the path that a request names, or named before."""
        number = frame.number(1, len(self.methods))
        if frame.text(2):
            named = frame.fields[2][0], frame.text(2)[1:].lstrip("/")
            if 1 not in frame.fields:
                return named
            must(number == len(self.methods), "a method's number out of turn")
            self.methods.append(named)
        must(number < len(self.methods), f"method {number} was not named")
        return self.methods[number]

    def on_items(self, frame):
        call, size = self.find(frame.stream), len(frame.payload)
        if call is None or call.is_ours and call.is_cancelled:
            return self.consumed(size)
        is_due = not call.is_whole and (call.has_head or not call.is_ours)
        must(is_due, "items out of place")
        if frame.flags & MORE or call.partial:
            call.partial += frame.payload
            must(len(call.partial) <= BODY_MAX, "an item over body_max")
            if not frame.flags & MORE:
                call.items.append((bytes(call.partial), 0))
                call.partial = bytearray()
            # Else an item over the credit would never be whole; body_max bounds it.
            self.consumed(size, call)
        else:
            at = 0
            while at < size:
                begin = at
                item, at = take_string(frame.payload, at)
                call.items.append((item, at - begin))
            call.held += size
        call.wake()

    def on_end(self, frame):
        call = self.find(frame.stream)
        if call and call.is_ours:
            must(call.has_head, "an end before the answer")
            self.end_asked(call)
        elif call:
            call.is_whole = True
            call.wake()

    def on_credit(self, frame):
        amount, _ = take_varint(frame.payload, 0)
        if frame.stream == 0:
            self.outstanding = max(0, self.outstanding - amount)
        elif call := self.find(frame.stream):
            call.outstanding = max(0, call.outstanding - amount)
            self.enlist(call)

    def on_cancel(self, frame):
        call = self.find(frame.stream)
        if call is None or call.is_cancelled:
            return
        if call.is_ours:  # No more items are wanted; the end of them is.
            call.out.clear()
            return self.enlist(call)
        call.is_cancelled = True
        if call.command is None or call.is_streaming or call.has_head:
            metadata = put_field(8, 1) + put_field(9, GAVE_UP.encode())
            self.main += put_frame("error", call.number, metadata=metadata)
            self.forget(call)

    def on_reply(self, frame):
        call = self.find(frame.stream)
        must(call and call.is_ours, f"a reply on stream {frame.stream}")
        is_second = call.has_head and not frame.flags & END
        must(not is_second, "a reply that was not asked for")
        call.has_head, call.headers = True, frame.headers
        if frame.payload:
            call.items.append((frame.payload, 0))
        if frame.flags & END:
            return self.end_asked(call)
        call.is_streaming = True

    def on_error(self, frame):
        call, code = self.find(frame.stream), frame.number(8)
        must(call and call.is_ours, f"an error on stream {frame.stream}")
        must(code, "an error without a code")
        name = CODES[code] if code < len(CODES) else "unknown"
        parts = [(detail, *take_string(detail, 0)) for detail in frame.details]
        details = [(kind.decode(), detail[at:]) for detail, kind, at in parts]
        self.end_asked(call, Error(name, frame.text(9), details, frame.headers, frame.number(11)))

    # The end of calls and of the session.

    def forget(self, call):
        """A call of the gateway is over, or nobody waits for it any more."""
        if self.calls.pop(call.number, None) is None:
            return
        call.is_open, call.last = False, None
        call.out.clear()
        self.consumed(call.held)
        call.held = 0
        call.wake()
        if call.is_cancelled:
            call.on_cancel()

    def end_asked(self, call, error=None):
        """A call of this side is over."""
        call.is_open, call.is_whole, call.error, call.last = False, True, error, None
        call.out.clear()
        if call.is_streaming and self.closed is None:
            self.control += put_frame("credit", call.number, END, payload=b"\0")
        del self.asked[call.number]
        self.free.append(call.number)
        if call.command:
            self.ended_commands.add(call.command)
            while self.done in self.ended_commands:
                self.ended_commands.remove(self.done)
                self.done += 1
        call.wake()
        self.room.wake()

    def close(self, why):
        """The session is over: whoever waits is told."""
        if self.closed is not None:
            return
        self.closed = why
        for call in list(self.asked.values()):
            code = "aborted" if call.command else "unavailable"
            self.end_asked(call, Error(code, "the gateway is gone: " + why, outcome=UNKNOWN))
        for call in list(self.calls.values()):
            call.is_cancelled = True
            self.forget(call)
        self.room.wake()

    # What goes.

    def take(self):
        """The bytes to be written now: connection frames, calls, then a turn for each stream."""
        out = self.control + self.main
        self.control, self.main = bytearray(), bytearray()
        waiting = []
        while self.line and len(out) < PAYLOAD_MAX:
            call = self.line.popleft()
            call.in_line = False
            if call.out and self.outstanding >= self.connection_window:
                waiting.append(call)
            elif call.out and call.outstanding < self.stream_window:
                out += self.items_of(call)
                self.enlist(call)
            elif not call.out and call.last is not None:
                out += call.last
                call.last = None
                if not call.is_ours:
                    self.forget(call)
        for call in waiting:
            self.enlist(call)
        return bytes(out)

    def enlist(self, call):
        """A call that has something to send takes turns."""
        if not call.in_line and (call.out or call.last is not None):
            call.in_line = True
            self.line.append(call)

    def items_of(self, call):
        """The next frame of a call: as many small items as fit, or a piece of a large one."""
        payload, flags = bytearray(), 0
        if len(call.out[0]) > PIECE:
            payload += call.out[0][call.cut : call.cut + PIECE]
            call.cut += PIECE
            flags = MORE if call.cut < len(call.out[0]) else 0
            if not flags:
                call.out.popleft()
                call.cut = 0
        else:
            while call.out and len(call.out[0]) <= PIECE:
                encoded = put_string(call.out[0])
                if payload and len(payload) + len(encoded) > PIECE:
                    break
                payload += encoded
                call.out.popleft()
        call.queued = max(0, call.queued - len(payload))
        call.outstanding += len(payload)
        self.outstanding += len(payload)
        call.wake()
        return put_frame("items", call.number, flags, payload=bytes(payload))

    def consumed(self, size, call=None):
        """Items were taken: the peer may send as much again."""
        self.owed += size
        if self.owed * 4 >= CONNECTION_CREDIT:
            self.control += put_frame("credit", payload=put_varint(self.owed))
            self.owed = 0
        if call is not None:
            call.owed += size
            if call.owed * 4 >= STREAM_CREDIT and not call.is_whole:
                self.control += put_frame("credit", call.number, payload=put_varint(call.owed))
                call.owed = 0

    def take_item(self, call):
        """The next item of a call that came."""
        item, size = call.items.popleft()
        if call.held:
            call.held -= size
            self.consumed(size, call)
        return item

    def metadata(self, fields, headers, sources=(), trailers=()):
        """The metadata of an answer."""
        fields += put_headers(headers)
        for source, key in sources:
            fields += put_field(15, put_string(source.encode()) + put_string(key.encode()))
        if trailers:
            fields += put_field(7, b"") + put_headers(trailers)
        if len(fields) > self.metadata_max:
            raise Error("internal", f"headers are over metadata_max = {self.metadata_max}")
        return fields

    def begin(self, call, said, whole=None):
        """Sends the head of an answer whose items follow, or the whole answer."""
        if not call.is_open or call.has_head:
            return
        fields = put_field(14, said.status) if said.status != 200 else b""
        trailers = () if whole is None else said.reply_trailers
        fields = self.metadata(fields, said.reply_headers, said.sources, trailers)
        flags = (0 if whole is None else END) | (HTTP if call.verb else 0)
        self.main += put_frame("reply", call.number, flags, fields, whole or b"")
        call.has_head = True
        if whole is not None:
            self.forget(call)

    def push(self, call, item):
        """Queues an item; there is room for more while `queued` is small."""
        if call.is_open:
            call.out.append(item)
            call.queued += len(item) or 1
            self.enlist(call)

    def finish(self, call, trailers=()):
        """No more items: ends a call of the gateway, or the request of one of this side."""
        if call.is_open and call.last is None:
            call.last = put_frame("end", call.number, metadata=put_headers(trailers))
            self.enlist(call)

    def reply(self, call, payload, said):
        """Answers a call whole."""
        if len(payload) > self.body_max:
            text = f"a reply of {len(payload)} bytes is over body_max = {self.body_max}"
            self.fail(call, Error("resource_exhausted", text, outcome=RAN))
        elif call.is_cancelled:
            self.fail(call, Error("canceled", GAVE_UP, outcome=RAN))
        elif len(payload) > SMALL_MAX:
            self.begin(call, said)
            self.push(call, payload)
            self.finish(call, said.reply_trailers)
        else:
            self.begin(call, said, payload)

    def fail(self, call, error, sources=()):
        """Ends a call with an error."""
        if not call.is_open:
            return
        if call.is_cancelled:  # A command whose caller gave up ran to its end.
            error = Error("canceled", GAVE_UP, outcome=RAN)
        fields = put_field(8, CODES.index(error.code))
        if error.message:
            fields += put_field(9, error.message.encode("utf-8", "replace")[:4096])
        for name, value in error.details:
            fields += put_field(10, put_string(name.encode()) + value)
        if error.outcome is not None:
            fields += put_field(11, error.outcome)
        metadata = self.metadata(fields, error.headers, sources)
        call.last = put_frame("error", call.number, metadata=metadata)
        self.enlist(call)

    def ask(self, path, codec, payload, headers=(), parent=None, is_query=False):
        """Calls the gateway; None while no call is free."""
        if self.closed is not None or self.is_draining:
            raise Error("unavailable", "the gateway takes no calls any more", outcome=NOT_RUN)
        if not self.is_greeted or len(self.asked) >= self.calls_max:
            return None
        if len(payload) > self.body_max:
            raise Error("resource_exhausted", f"over body_max = {self.body_max}", outcome=NOT_RUN)
        headers, name = self.metadata(b"", headers), bytes((codec,)) + b"/" + path.lstrip("/").encode()
        is_new, fields = name not in self.called, b""
        if is_new and len(self.called) < self.methods_max:
            self.called[name] = len(self.called)
        if name in self.called:
            fields += put_field(1, self.called[name])
        if is_new:
            fields += put_field(2, name)
        call = Call(self.free.pop() if self.free else 2 * len(self.asked) + 1)
        self.asked[call.number] = call
        if not is_query:
            call.command = self.next_command
            self.next_command += 1
            fields += put_field(3, put_varint(call.command) + put_varint(self.done))
        if parent is not None and parent.is_open and not parent.has_head:
            fields += put_field(19, parent.number)
        call.is_streaming = len(payload) > SMALL_MAX
        flags, body = (0, b"") if call.is_streaming else (END, payload)
        self.main += put_frame("request", call.number, flags, fields + headers, body)
        if call.is_streaming:
            self.push(call, payload)
            self.finish(call)
        return call

    def cancel(self, call):
        """Gives a call of this side up; its end is not waited for."""
        if call.is_open and not call.is_cancelled:
            call.is_cancelled = True
            self.consumed(call.held)
            self.main += put_frame("cancel", call.number)


# -- application -----------------------------------------------------------------------------------

JSON = 1


def decode(data, codec):
    return json.loads(data) if codec == JSON else data


def encode(value, codec):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if codec == JSON:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    what = type(value).__name__
    raise TypeError(f'{what} is not bytes; write codec = "json" for this service in tidewire.toml')


def in_this_thread(coroutine):
    """Runs what waits for nothing but this thread: see `App.wait`."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError("await the asynchronous form of this in an `async` handler")


class Context:
    """What surrounds a call: who asks, until when, and what the answer is made of."""

    def __init__(self, app, call):
        self.app, self.of, self.path, self.headers = app, call, call.path, call.headers
        self.reply_headers, self.reply_trailers, self.sources, self.status = [], [], [], 200
        self.changed, self.log = app.changed, app.log

    def header(self, name, default=None):
        """The first value of a header."""
        return next((value for known, value in self.headers if known == name.lower()), default)

    @property
    def cancelled(self):
        """Whether the caller gave up, its deadline passed among the reasons; a command runs on."""
        return self.of.is_cancelled

    def remaining(self):
        """Seconds until the deadline; None without one."""
        return None if self.of.deadline is None else max(0.0, self.of.deadline - time.monotonic())

    def until_cancelled(self):
        """Waits until the caller gave up."""
        in_this_thread(self.app.wait(self.of, lambda: self.of.is_cancelled or None))

    def depends(self, source, *key):
        """The answer was made of this, and is kept until it changes."""
        self.sources.append((source, key_text(key)))

    def call(self, path, request, **more):
        """Calls a method of the gateway as part of this call; see App.call."""
        return in_this_thread(self.call_async(path, request, **more))

    def call_async(self, path, request, **more):
        """The same for `async` handlers."""
        return self.app.call_async(path, request, parent=self.of, **more)


class Requests:
    """What a caller streams: an iterator for threads, and an asynchronous one for the loop."""

    def __init__(self, app, call):
        self.app, self.call = app, call

    def _found(self):
        if self.call.items:
            return (self.app.session.take_item(self.call),)
        return () if self.call.is_whole or not self.call.is_open else None

    async def take(self):
        """The bytes of the next item; None after the last."""
        found = await self.app.wait(self.call, self._found)
        self.app.flush()
        if not found and not self.call.is_whole:
            raise Error("canceled", GAVE_UP)
        return found[0] if found else None

    def __iter__(self):
        while (item := in_this_thread(self.take())) is not None:
            yield decode(item, self.call.codec)

    async def __aiter__(self):
        while (item := await self.take()) is not None:
            yield decode(item, self.call.codec)


class App:
    """What a program serves. `threads` is how many functions that are not `async` run at once."""

    def __init__(self, threads=64):
        self.handlers, self.pages, self.threads = {}, None, threads
        self.session, self.socket = Session(self._begin), None
        self.lock, self.is_writing, self.jobs = threading.RLock(), False, 0
        self.loop, self.loop_thread = None, None
        self.work, self.idle, self.started = queue.SimpleQueue(), 0, 0

    # What is served.

    def unary(self, path):
        """A method with one request and one reply: `function(request, context)`."""
        return self._method(path)

    def server_stream(self, path):
        """A method whose function yields replies."""
        return self._method(path, streams_out=True)

    def client_stream(self, path):
        """A method whose function is given an iterator of requests."""
        return self._method(path, streams_in=True)

    def bidi_stream(self, path):
        """A method whose function is given an iterator of requests and yields replies."""
        return self._method(path, streams_in=True, streams_out=True)

    def _method(self, path, streams_in=False, streams_out=False):
        def register(function):
            is_async = bool(function.__code__.co_flags & 0x280)  # A coroutine, or one that yields.

            async def answer(call, context):
                requests = Requests(self, call)
                if not streams_in:
                    requests = decode(await requests.take() or b"", call.codec)
                answer = function(requests, context)
                if not streams_out:
                    answer = await answer if is_async else answer
                    return self.do("reply", call, encode(answer, call.codec), context)
                if is_async:
                    async for item in answer:
                        await self.push(call, encode(item, call.codec), context)
                else:
                    for item in answer:
                        await self.push(call, encode(item, call.codec), context)
                self.finish(call, context)

            self.handlers[path.lstrip("/")] = answer, is_async
            return function

        return register

    def wsgi(self, application):
        """Serves the pages of the program's `route` by a WSGI application (PEP 3333): Flask, Django."""
        self.pages = lambda call, context: wsgi(self, application, call, context), False

    def asgi(self, application):
        """Serves the pages of the program's `route` by an ASGI application: Starlette, FastAPI."""
        self.pages = lambda call, context: asgi(self, application, call, context), True

    # What the program does by itself.

    def changed(self, source, *key):
        """Says that a source changed: no answer that was made of it is given any more."""
        payload = put_string(source.encode()) + put_string(key_text(key).encode())
        self.say(put_frame("changed", payload=payload))

    def log(self, level, text, **fields):
        """Writes a line to the gateway's log: trace, debug, info, warn or error."""
        said = put_headers((name.replace("_", "-"), str(value)) for name, value in fields.items())
        metadata = put_field(17, LEVELS.index(level) + 1 if level in LEVELS else 3)
        if len(metadata) + len(said) <= self.session.metadata_max:
            metadata += said
        self.say(put_frame("log", metadata=metadata, payload=text.encode("utf-8", "replace")[:PAYLOAD_MAX]))

    @contextmanager
    def busy(self):
        """`with app.busy():` around work that is no call keeps the program from being frozen or ended."""
        self._job(1)
        try:
            yield
        finally:
            self._job(-1)

    def _job(self, more):
        with self.lock:
            self.jobs += more
            self.say(put_frame("busy", payload=put_varint(self.jobs)))

    def call(self, path, request, **more):
        """Calls a method of the gateway, and waits for the reply: see `call_async`."""
        return in_this_thread(self.call_async(path, request, **more))

    async def call_async(self, path, request, query=False, headers=(), parent=None):
        """Calls a method of the gateway with bytes, or a dict for JSON; `query` where it changes nothing."""
        codec = JSON if isinstance(request, dict) else 0
        question = path, codec, encode(request, codec), headers, parent, query
        call = await self.wait(self.session.room, lambda: self.session.ask(*question))
        try:
            await self.wait(call, lambda: None if call.is_open else True)
        finally:
            self.do("cancel", call)
        if call.error:
            raise call.error
        return decode(call.items[0][0] if call.items else b"", codec)

    # Waiting and writing.

    async def wait(self, call, found):
        """Waits until `found`, asked under the lock, has something: a task of the loop, or this thread.

        In a thread nothing is suspended: what awaits this can be run by `in_this_thread`.
        """
        in_loop = self.loop_thread == threading.get_ident()
        while True:
            with self.lock:
                if (result := found()) is not None:
                    break
                woken = self.loop.create_future() if in_loop else threading.Event()
                call.waiting.append((lambda woken=woken: self._wake(woken)) if in_loop else woken.set)
            self.flush()
            await woken if in_loop else woken.wait()
        self.flush()
        return result

    def _wake(self, woken):
        self.loop.call_soon_threadsafe(lambda: woken.done() or woken.set_result(None))

    async def push(self, call, item, context):
        """Sends an item of an answer, once there is room for it."""
        has_room = lambda: call.queued < PAYLOAD_MAX or not call.is_open or None
        await self.wait(call, has_room)
        if not call.is_open:
            raise Error("canceled", GAVE_UP)
        self.do("begin", call, context)
        self.do("push", call, item)

    def finish(self, call, context):
        self.do("begin", call, context)
        self.do("finish", call, context.reply_trailers)

    def say(self, frame):
        """Sends a frame of the connection."""
        with self.lock:
            self.session.main += frame
        self.flush()

    def do(self, what, *arguments):
        """Does something of the session, and writes what arose."""
        with self.lock:
            getattr(self.session, what)(*arguments)
        self.flush()

    def flush(self):
        """Writes what is queued; one thread at a time does, for all."""
        while self.socket:
            with self.lock:
                data = b"" if self.is_writing else self.session.take()
                if not data:
                    return
                self.is_writing = True
            try:
                self.socket.sendall(data)
            except OSError as error:
                with self.lock:
                    self.session.close(str(error))
            with self.lock:
                self.is_writing = False

    # Serving.

    def serve(self):
        """Serves until the gateway ends the program."""
        number = os.environ.pop("TIDEWIRE_FD", None)
        if number is None:
            sys.exit(
                "this program is started by Tidewire: write a [[service]] with run = [...] into "
                "tidewire.toml, and call it through `tidewire serve`"
            )
        self.socket = socket.socket(fileno=int(number))
        self.socket.set_inheritable(False)
        self.socket.setblocking(True)
        self.flush()
        if any(is_async for _, is_async in [*self.handlers.values(), self.pages or (None, False)]):
            import asyncio

            asyncio.run(self._serve_in_loop())
        else:
            while self._read(0):
                pass

    async def _serve_in_loop(self):
        import asyncio

        self.loop, self.loop_thread = asyncio.get_running_loop(), threading.get_ident()
        over = self.loop.create_future()

        def readable():
            if not self._read(socket.MSG_DONTWAIT) and not over.done():
                over.set_result(None)

        self.loop.add_reader(self.socket, readable)
        await over
        self.loop.remove_reader(self.socket)

    def _read(self, flags):
        """Reads once; whether there is more to come."""
        try:
            data = self.socket.recv(PAYLOAD_MAX, flags)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        with self.lock:
            if data:
                self.session.feed(data)
            else:
                self.session.close("it closed the socket")
        self.flush()
        with self.lock:
            is_done = self.session.is_draining and not self.session.calls and not self.session.asked
            return self.session.closed is None and not is_done

    def _begin(self, call):
        answer, is_async = (self.pages if call.verb else self.handlers.get(call.path)) or (None, False)
        if answer is None:
            text = f"this program does not serve {call.path}"
            self.session.fail(call, Error("unimplemented", text, outcome=NOT_RUN))
        elif is_async:
            task = self.loop.create_task(self._answer(answer, call))
            call.on_cancel = lambda: self.loop.call_soon_threadsafe(task.cancel)
        else:
            self.work.put((answer, call))
            if self.idle:
                self.idle -= 1
            elif self.started < self.threads:
                self.started += 1
                threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        while True:
            in_this_thread(self._answer(*self.work.get()))
            with self.lock:
                self.idle += 1

    async def _answer(self, answer, call):
        context = Context(self, call)
        try:
            await answer(call, context)
        except BaseException as error:
            if not isinstance(error, Error):
                if call.is_open:
                    sys.excepthook(type(error), error, error.__traceback__)
                error = Error("internal", "the handler failed; its log says why")
            self.do("fail", call, error, context.sources)


# -- pages -----------------------------------------------------------------------------------------


def address(context):
    """The scheme, the host, the port and the prefix by which a caller knows this program."""
    scheme = context.header("x-forwarded-proto", "http")
    host, _, port = context.header("host", "localhost").partition(":")
    port = port if port.isdigit() else "443" if scheme == "https" else "80"
    return scheme, host, port, context.header("x-forwarded-prefix", "")


async def wsgi(app, application, call, context):
    import io
    from urllib.parse import unquote_to_bytes
    from wsgiref.handlers import BaseHandler

    requests, (scheme, host, port, prefix) = Requests(app, call), address(context)

    class Body(io.RawIOBase):
        rest = b""

        def readable(self):
            return True

        def readinto(self, into):
            self.rest = self.rest or in_this_thread(requests.take()) or b""
            count = min(len(into), len(self.rest))
            into[:count], self.rest = self.rest[:count], self.rest[count:]
            return count

    class Handler(BaseHandler):
        wsgi_multiprocess, os_environ, origin_server = False, {}, False

        def get_stdin(self):
            return io.BufferedReader(Body())

        def get_stderr(self):
            return sys.stderr

        def get_scheme(self):
            return scheme

        def add_cgi_vars(self):
            path, _, query = call.path.partition("?")
            path = unquote_to_bytes(path).decode("latin-1")
            self.environ.update(
                REQUEST_METHOD=call.verb, SCRIPT_NAME=prefix, PATH_INFO=path, QUERY_STRING=query
            )
            self.environ.update(SERVER_NAME=host, SERVER_PORT=port, SERVER_PROTOCOL="HTTP/1.1")
            self.environ["wsgi.input_terminated"] = True
            for name, value in call.headers:
                key = name.upper().replace("-", "_")
                key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + key
                self.environ[key] = self.environ[key] + "," + value if key in self.environ else value

        def send_headers(self):
            self.cleanup_headers()
            self.headers_sent = True
            context.status, context.reply_headers = int(self.status.split(" ")[0]), self.headers.items()

        def _write(self, data):
            for at in range(0, len(data), PAYLOAD_MAX):
                in_this_thread(app.push(call, data[at : at + PAYLOAD_MAX], context))

        def _flush(self):
            pass

    Handler().run(application)
    app.finish(call, context)


async def asgi(app, application, call, context):
    from urllib.parse import unquote

    requests, is_read, (scheme, host, port, prefix) = Requests(app, call), False, address(context)
    path, _, query = call.path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": call.verb,
        "scheme": scheme,
        "path": prefix + unquote(path),
        "raw_path": path.encode(),
        "root_path": prefix,
        "query_string": query.encode(),
        "headers": [
            (name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in call.headers
        ],
        "server": (host, int(port)),
        "client": None,
    }

    async def receive():
        nonlocal is_read
        if is_read:
            await app.wait(call, lambda: None if call.is_open else True)
            return {"type": "http.disconnect"}
        body = await requests.take()
        is_read = body is None or call.is_whole and not call.items
        return {"type": "http.request", "body": body or b"", "more_body": not is_read}

    async def send(message):
        if message["type"] == "http.response.start":
            context.status, context.reply_headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            body = bytes(message.get("body", b""))
            for at in range(0, len(body), PAYLOAD_MAX):
                await app.push(call, body[at : at + PAYLOAD_MAX], context)
            if not message.get("more_body", False):
                app.finish(call, context)

    await application(scope, receive, send)
