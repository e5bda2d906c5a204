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

 bytes ─▶ frames ─▶ Session: calls, credit ─▶ App: handlers, pages ─▶ Session ─▶ bytes

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
        super().__init__(f"{code}: {message}")
        self.code = code if code in CODES[1:] else "unknown"
        self.message, self.outcome = str(message), outcome
        self.details, self.headers = list(details), list(headers)


class Violation(Exception):
    """The gateway broke a rule of the protocol: which of REASONS, and a text."""


def must(condition, reason, text):
    if not condition:
        raise Violation(reason, text)


# -- frames ----------------------------------------------------------------------------------------

HEAD = struct.Struct("<IIBBHI")
MAGIC = int.from_bytes(b"TWLV", "little")
KINDS = """
    hello auth request reply error items end cancel credit ping pong goaway stale resume resumed ready busy
    log changed seen descriptors
""".split()
NUMBERS = {name: number for number, name in enumerate(KINDS, 1)}
OF_CALLS = {"request", "reply", "error", "items", "end"}
OF_BOTH = {"cancel", "credit", "unknown"}
# A process has no watches and resumes nothing.
NEVER = {"stale": "unknown_stream", "resume": "unexpected", "resumed": "unexpected"}
END, ZSTD, HTTP, MORE, WATCHED, UNCHANGED = 1, 2, 4, 8, 16, 32
FEATURE_HTTP, FEATURE_HOSTED = 2, 32
PAYLOAD_MAX, PIECE, SMALL_MAX, BODY_MAX = 65_536, 16_384, 16_376, 64 << 20
METADATA_MAX, CALLS_MAX, METHODS_MAX, OUTPUT_MAX = 16_384, 1024, 1024, 1 << 20
STREAM_CREDIT, CONNECTION_CREDIT = 262_144, 1 << 20
GRACE = 2  # Seconds after the gateway is gone.
# Fields of a hello: the tag, the least value, and what holds if it is absent.
LIMITS = {
    "body_max": (4, 65_536, 4 << 20),
    "calls_max": (5, 1, 1024),
    "methods_max": (7, 0, 1024),
    "stream_credit": (8, 1, STREAM_CREDIT),
    "connection_credit": (9, 1, CONNECTION_CREDIT),
    "metadata_max": (10, 256, 16_384),
}
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
    head = HEAD.pack(size, stream, NUMBERS[name], flags, len(metadata), deadline_ms)
    return head + metadata + payload


def take_varint(data, at=0):
    """The number at an offset, and the offset behind it."""
    value = 0
    for shift in range(0, 56, 7):
        must(at < len(data), "malformed", "a number is cut off")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            break
    must(data[at - 1] < 0x80 and value < 1 << 53, "malformed", "a number is too large")
    return value, at


def take_string(data, at=0):
    length, at = take_varint(data, at)
    must(length <= len(data) - at, "malformed", "a string is cut off")
    return data[at : at + length], at + length


def take_number(fields, tag, default=None):
    """The number that is a whole field."""
    if tag not in fields:
        return default
    value, end = take_varint(fields[tag])
    must(end == len(fields[tag]), "malformed", f"field {tag} is no number")
    return value


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
                text = value.decode("utf-8", "surrogateescape")
                self.headers.append((name.decode("latin-1"), text))
            elif tag == 10:
                self.details.append(value)
            else:
                is_new = tag not in self.fields or tag in (6, 15) or tag > 21
                must(is_new, "malformed", f"field {tag} comes twice")
                self.fields[tag] = value

    def text(self, tag):
        return self.fields.get(tag, b"").decode("utf-8", "replace")

    def number(self, tag, default=None):
        return take_number(self.fields, tag, default)


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


class Flow:
    """Bytes of items, of the connection or of one stream, for which there is no credit yet."""

    def __init__(self, number, window):
        self.number, self.window = number, window
        self.received = self.taken = self.sent = 0


class Call:
    """One call, of either side: what came of it, and what is to be sent."""

    def __init__(self, number, window):
        self.number, self.is_ours, self.flow = number, number % 2 == 1, Flow(number, window)
        self.path, self.codec, self.verb, self.headers = "", 0, None, []
        self.deadline = self.command = self.error = None
        self.is_open, self.is_cancelled, self.waiting, self.on_cancel = True, False, [], None
        # What comes: items with what each counts as, and the pieces of the next one.
        self.items, self.pieces, self.is_streaming, self.is_whole = deque(), bytearray(), False, False
        # What goes: payloads with flags, and the frame after the last.
        self.has_head, self.out, self.queued, self.last = False, deque(), 0, None

    def wake(self):
        """Wakes whoever waits for something to come, to go, or to end."""
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()


class Session:
    """This side of the protocol without a socket: bytes in, bytes and calls out. Its owner has a lock.

    `on_call` is told of each call of the gateway; who waits for room for a call of this side waits at `room`.
    """

    def __init__(
        self,
        on_call=lambda call: None,
        agent="tidewire-python/" + __version__,
        stream_credit=STREAM_CREDIT,
        connection_credit=CONNECTION_CREDIT,
    ):
        self.on_call, self.stream_credit, self.flow = on_call, stream_credit, Flow(0, connection_credit)
        self.data, self.control, self.main, self.pong = bytearray(), bytearray(), bytearray(), None
        self.peer, self.is_draining, self.closed = None, False, None
        self.calls, self.asked, self.slots, self.free = {}, 0, 0, []
        self.room = Call(0, 0)
        self.methods, self.called, self.running, self.line = [], {}, set(), deque()
        self.next_command, self.done, self.ended_commands = 1, 1, set()
        hello = put_field(1, b"\x01\0\x01\0") + put_field(2, FEATURE_HTTP | FEATURE_HOSTED)
        hello += put_field(3, FEATURE_HOSTED) + put_field(4, BODY_MAX) + put_field(16, agent.encode())
        self.control += put_frame("hello", payload=hello, deadline_ms=MAGIC)

    # What comes.

    def feed(self, data):
        """Takes bytes that came; what is wrong with them ends the session."""
        self.data += data
        at = 0
        try:
            while self.closed is None and len(self.data) - at >= HEAD.size:
                head = HEAD.unpack_from(self.data, at)
                length, metadata = head[0], head[4]
                must(metadata <= length, "malformed", "metadata longer than its frame")
                must(length - metadata <= PAYLOAD_MAX, "too_large", "a frame over the limit")
                is_short = metadata <= METADATA_MAX or self.peer is None
                must(is_short, "metadata_max", "metadata over the limit")
                if len(self.data) - at < HEAD.size + length:
                    break
                begin, at = at + HEAD.size, at + HEAD.size + length
                body = bytes(self.data[begin:at])
                self.receive(Frame(head, body[:metadata], body[metadata:]))
        except Violation as violation:
            reason, text = violation.args
            said = put_field(9, text.encode()) + put_field(16, REASONS.index(reason))
            self.main += put_frame("goaway", metadata=said)
            self.close(text)
        del self.data[:at]

    def receive(self, frame):
        is_first = frame.name in ("hello", "goaway")
        must(self.peer or is_first, "magic", "the first frame is not a hello")
        is_placed = frame.name in OF_BOTH or (frame.stream > 0) == (frame.name in OF_CALLS)
        must(is_placed, "malformed", f"{frame.name} on stream {frame.stream}")
        must(frame.name not in NEVER, NEVER.get(frame.name), f"{frame.name} for a process")
        if receive := getattr(self, "on_" + frame.name, None):
            receive(frame)

    def on_hello(self, frame):
        must(not self.peer, "unexpected", "a second hello")
        must(frame.deadline_ms == MAGIC, "magic", "not a hello")
        said, at = {}, 0
        while at < len(frame.payload):
            tag = frame.payload[at]
            must(tag not in said, "malformed", f"field {tag} of a hello comes twice")
            said[tag], at = take_string(frame.payload, at + 1)
        must(len(said.get(1, b"")) == 4, "malformed", "a hello without versions")
        must(said[1] == b"\x01\0\x01\0", "version", "this side speaks version 1")
        is_host = take_number(said, 2, 0) & FEATURE_HOSTED
        must(is_host, "feature", "the gateway hosts no processes")
        self.peer = {}
        for name, (tag, least, default) in LIMITS.items():
            self.peer[name] = take_number(said, tag, default)
            must(least <= self.peer[name] < 1 << 32, "malformed", f"{name} = {self.peer[name]}")
        self.control += put_frame("ready")
        self.room.wake()

    def on_goaway(self, frame):
        self.is_draining = True
        if frame.number(16, 0) or not self.peer:
            self.close(frame.text(9) or f"reason {frame.number(16)}")

    def on_ping(self, frame):
        must(len(frame.payload) <= 64, "malformed", "a long ping")
        self.pong = frame.payload  # Of pings not yet answered the last alone is.

    def on_request(self, frame):
        stream, fields = frame.stream, frame.fields
        is_slot = stream % 2 == 0 and stream <= 2 * CALLS_MAX
        must(is_slot, "stream_number", f"a request on stream {stream}")
        must(stream not in self.calls, "stream_in_use", f"a request on stream {stream}")
        must(not frame.flags & ZSTD and 18 not in fields, "feature", "a feature that was not offered")
        is_whole = bool(frame.flags & END)
        must(is_whole or not frame.payload, "malformed", "a payload before items")
        call = Call(stream, self.stream_credit)
        call.headers, call.is_whole, call.is_streaming = frame.headers, is_whole, not is_whole
        if frame.deadline_ms:
            call.deadline = time.monotonic() + frame.deadline_ms / 1000
        if frame.flags & HTTP:
            must(12 in fields and 13 in fields, "malformed", "HTTP without method or target")
            call.verb, call.path = frame.text(12), frame.text(13)
        else:
            call.codec, call.path = self.method(frame)
        if 3 in fields:
            call.command, _ = take_varint(fields[3])
            is_new = call.command and call.command not in self.running
            must(is_new, "command_id", f"command {call.command}")
            self.running.add(call.command)
        if is_whole:
            call.items.append((frame.payload, 0))
        self.calls[stream] = call
        self.on_call(call)

    def method(self, frame):
        """The codec and the path that a request names, or named before."""
        number, name = frame.number(1), frame.fields.get(2)
        if name is not None:
            must(name[1:2] == b"/", "malformed", "a method that is no path")
            named = name[0], name[2:].decode("utf-8", "replace")
            if number is None:
                return named
            is_due = number == len(self.methods) < METHODS_MAX
            must(is_due, "methods_max", "a method's number out of turn")
            self.methods.append(named)
        must(number is not None, "malformed", "a request without a method")
        must(number < len(self.methods), "unknown_method", f"method {number} was not named")
        return self.methods[number]

    def find(self, frame):
        """The call of a frame; None for one of the gateway that is over."""
        call, is_ours = self.calls.get(frame.stream), frame.stream % 2 == 1
        must(call or not is_ours, "unknown_stream", f"stream {frame.stream} is not open")
        is_slot = is_ours or frame.stream <= 2 * CALLS_MAX
        must(is_slot, "stream_number", f"stream {frame.stream} is over the bound")
        return call

    def on_items(self, frame):
        call, size = self.find(frame), len(frame.payload)
        for flow in (self.flow, call.flow) if call else (self.flow,):
            must(flow.received < flow.window, "credit", "items without credit")
            flow.received += size
        if call is None:
            return self.consumed(size)
        is_due = not call.is_whole and (call.has_head or not call.is_ours)
        must(is_due, "unexpected", "items out of place")
        must(size, "malformed", "items without an item")
        must(not frame.flags & ZSTD, "feature", "compression that was not offered")
        if call.is_cancelled and call.is_ours:
            return self.consumed(size, call)
        if frame.flags & MORE or call.pieces:
            call.pieces += frame.payload
            must(len(call.pieces) <= BODY_MAX, "too_large", "an item over body_max")
            if not frame.flags & MORE:
                call.items.append((bytes(call.pieces), 0))
                call.pieces = bytearray()
            # An item over the credit would never be whole otherwise; body_max bounds it.
            self.consumed(size, call)
        else:
            at = 0
            while at < size:
                begin = at
                item, at = take_string(frame.payload, at)
                call.items.append((item, at - begin))
        call.wake()

    def on_end(self, frame):
        call = self.find(frame)
        if call is None:
            return
        is_due = call.has_head if call.is_ours else not call.is_whole
        must(is_due, "unexpected", "an end out of place")
        call.is_whole = True
        if call.is_ours:
            return self.end(call)
        call.wake()

    def on_credit(self, frame):
        amount, end = take_varint(frame.payload)
        must(end == len(frame.payload), "malformed", "credit that is no number")
        call = self.find(frame) if frame.stream else None
        if frame.stream and not call:
            return
        must(not frame.flags & END, "unexpected", "an end is seen that was not sent")
        flow = call.flow if call else self.flow
        must(amount <= flow.sent, "credit", "credit for what was not sent")
        flow.sent -= amount

    def on_cancel(self, frame):
        call = self.find(frame) if frame.stream else None
        if call is None or call.is_cancelled:
            return
        if call.is_ours:  # No more items are wanted; the end of them is.
            return call.out.clear()
        call.is_cancelled = True
        # A command of one reply runs on, and says at its end that it ran.
        if call.command is None or call.is_streaming or call.has_head:
            said = put_field(8, 1) + put_field(9, GAVE_UP.encode())
            self.main += put_frame("error", call.number, metadata=said)
            self.end(call)

    def answered(self, frame):
        """The call of this side that a reply or an error answers."""
        must(frame.stream % 2, "stream_number", f"an answer on stream {frame.stream}")
        must(not frame.flags & WATCHED, "unexpected", "a watch that was not asked for")
        must(not frame.flags & ZSTD, "feature", "compression that was not offered")
        return self.find(frame)

    def on_reply(self, frame):
        call, is_end = self.answered(frame), frame.flags & END
        must(is_end or not call.has_head, "unexpected", "a second reply")
        must(is_end or not frame.payload, "malformed", "a payload before items")
        must(not frame.flags & UNCHANGED, "malformed", "nothing to be unchanged from")
        call.has_head, call.headers = True, frame.headers
        if not is_end:
            call.is_streaming = True
            return
        call.items.append((frame.payload, 0))
        self.end(call)

    def on_error(self, frame):
        call, code = self.answered(frame), frame.number(8)
        must(code, "malformed", "an error without a code")
        details = [(detail, *take_string(detail)) for detail in frame.details]
        details = [(kind.decode("utf-8", "replace"), detail[at:]) for detail, kind, at in details]
        name = CODES[code] if code < len(CODES) else "unknown"
        self.end(call, Error(name, frame.text(9), details, frame.headers, frame.number(11)))

    # The end of calls and of the session.

    def end(self, call, error=None):
        """A call is over: its last frame came, is being sent, or never will be."""
        if not call.is_open:
            return
        del self.calls[call.number]
        call.is_open, call.error, call.last = False, error, None
        call.out.clear()
        self.consumed(call.flow.received - call.flow.taken)
        self.running.discard(call.command)
        if call.is_ours:
            self.asked -= 1
            self.free.append(call.number)
            if call.is_streaming and self.closed is None:
                self.control += put_frame("credit", call.number, END, payload=b"\0")
            self.ended_commands.add(call.command)
            while self.done in self.ended_commands:
                self.ended_commands.remove(self.done)
                self.done += 1
            self.room.wake()
        elif call.is_cancelled and call.on_cancel:
            call.on_cancel()
        call.wake()

    def close(self, why):
        """The session is over: whoever waits is told."""
        if self.closed is not None:
            return
        self.closed = why
        for call in list(self.calls.values()):
            call.is_cancelled = call.is_cancelled or not call.is_ours
            code = "aborted" if call.command else "unavailable"
            self.end(call, Error(code, "the gateway is gone: " + why, outcome=UNKNOWN))
        self.room.wake()

    # What goes.

    def take(self):
        """The bytes to be written now: connection frames, calls, then a turn for each stream."""
        out = self.control + self.main
        self.control, self.main = bytearray(), bytearray()
        if self.pong is not None:
            out += put_frame("pong", payload=self.pong)
            self.pong = None
        waiting = []
        while self.line and len(out) < PAYLOAD_MAX:
            call = self.line.popleft()
            frame = self.turn(call)
            out += frame
            if call.out or call.last:
                (self.line if frame else waiting).append(call)
        self.line.extend(waiting)
        return bytes(out)

    def is_full(self):
        """Whether so much is to be written that no more is to be read; who waits for answers reads on."""
        return len(self.control) + len(self.main) > (BODY_MAX if self.asked else OUTPUT_MAX)

    def turn(self, call):
        """The next frame of a call; nothing while it has no credit."""
        if not call.out:
            frame = call.last or b""
            if call.is_ours:
                call.last = None
            else:
                self.end(call)
            return frame
        limit = self.peer["connection_credit"], self.peer["stream_credit"]
        if self.flow.sent >= limit[0] or call.flow.sent >= limit[1]:
            return b""
        payload, flags = call.out.popleft()
        for flow in (self.flow, call.flow):
            flow.sent += len(payload)
        call.queued -= len(payload)
        call.wake()
        return put_frame("items", call.number, flags, payload=bytes(payload))

    def enlist(self, call):
        """A call that has something to send takes turns."""
        if not call.out and not call.last:
            self.line.append(call)

    def consumed(self, size, call=None):
        """Items were taken: the peer may send as much again."""
        for flow in (call.flow, self.flow) if call else (self.flow,):
            flow.taken += size
            if flow.taken * 4 >= flow.window and not (flow.number and call.is_whole):
                self.control += put_frame("credit", flow.number, payload=put_varint(flow.taken))
                flow.received -= flow.taken
                flow.taken = 0

    def take_item(self, call):
        """The next item of a call that came."""
        item, size = call.items.popleft()
        if call.is_open and size:
            self.consumed(size, call)
        return item

    def metadata(self, fields, headers, sources=(), trailers=()):
        """The metadata of a request or an answer."""
        fields += put_headers(headers)
        for source, key in sources:
            fields += put_field(15, put_string(source.encode()) + put_string(key.encode()))
        if trailers:
            fields += put_field(7, b"") + put_headers(trailers)
        if len(fields) > self.peer["metadata_max"]:
            text = f"headers are over metadata_max = {self.peer['metadata_max']}"
            raise Error("internal", text)
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
            self.end(call)

    def push(self, call, item):
        """Queues an item; there is room for more while `queued` is small."""
        if not call.is_open:
            return
        self.enlist(call)
        if len(item) > PIECE:
            last = (len(item) - 1) // PIECE * PIECE
            call.out.extend((item[at : at + PIECE], MORE) for at in range(0, last, PIECE))
            call.out.append((item[last:], 0))
            call.queued += len(item)
        else:
            encoded = put_string(item)
            shared = call.out[-1][0] if call.out else None
            if isinstance(shared, bytearray) and len(shared) + len(encoded) <= PIECE:
                shared += encoded
            else:
                call.out.append((bytearray(encoded), 0))
            call.queued += len(encoded)

    def finish(self, call, trailers=()):
        """No more items: ends a call of the gateway, or the request of one of this side."""
        if call.is_open and not call.last:
            self.enlist(call)
            metadata = self.metadata(b"", trailers)
            call.last = put_frame("end", call.number, metadata=metadata)

    def reply(self, call, payload, said):
        """Answers a call whole."""
        limit = self.peer["body_max"]
        if len(payload) > limit:
            text = f"a reply of {len(payload)} bytes is over body_max = {limit}"
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
            error, sources = Error("canceled", GAVE_UP, outcome=RAN), ()
        fields = put_field(8, CODES.index(error.code))
        if error.message:
            fields += put_field(9, error.message.encode("utf-8", "replace")[:4096])
        for name, value in error.details:
            fields += put_field(10, put_string(name.encode()) + value)
        if error.outcome is not None:
            fields += put_field(11, error.outcome)
        try:
            metadata = self.metadata(fields, error.headers, sources)
        except Error as too_long:
            return self.fail(call, too_long)
        self.enlist(call)
        call.last = put_frame("error", call.number, metadata=metadata)

    def ask(self, path, codec, payload, headers=(), parent=None, is_query=False):
        """Calls the gateway, as a part of the call of number `parent`; None while no call is free."""
        if self.closed is not None or self.is_draining:
            raise Error("unavailable", "the gateway takes no calls any more", outcome=NOT_RUN)
        if not self.peer or self.asked >= self.peer["calls_max"]:
            return None
        if len(payload) > self.peer["body_max"]:
            text = f"over body_max = {self.peer['body_max']}"
            raise Error("resource_exhausted", text, outcome=NOT_RUN)
        headers, name = self.metadata(b"", headers), bytes((codec,)) + b"/" + path.lstrip("/").encode()
        is_new = name not in self.called
        if is_new and len(self.called) < self.peer["methods_max"]:
            self.called[name] = len(self.called)
        fields = put_field(1, self.called[name]) if name in self.called else b""
        if is_new:
            fields += put_field(2, name)
        if not self.free:
            self.free.append(2 * self.slots + 1)
            self.slots += 1
        call = Call(self.free.pop(), self.stream_credit)
        self.calls[call.number] = call
        self.asked += 1
        if not is_query:
            call.command = self.next_command
            self.next_command += 1
            fields += put_field(3, put_varint(call.command) + put_varint(self.done))
        if parent is not None:
            fields += put_field(19, parent)
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
        self.handlers, self.pages, self.threads, self.jobs = {}, (None, False), threads, 0
        self.session, self.socket, self.loop, self.loop_thread = Session(self._begin), None, None, None
        self.lock, self.is_writing = threading.RLock(), False
        self.taken = threading.Condition(self.lock)  # What was to be written is taken, or lost.
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
        metadata = put_field(17, LEVELS.index(level) + 1 if level in LEVELS else 3)
        said = put_headers((name.replace("_", "-"), str(value)) for name, value in fields.items())
        if len(metadata) + len(said) <= self.session.peer["metadata_max"]:
            metadata += said
        payload = text.encode("utf-8", "replace")[:PAYLOAD_MAX]
        self.say(put_frame("log", metadata=metadata, payload=payload))

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
        payload = encode(request, codec)

        def asked():
            is_within = parent and parent.is_open and not parent.has_head
            number = parent.number if is_within else None
            return self.session.ask(path, codec, payload, headers, number, query)

        call = await self.wait(self.session.room, asked)
        try:
            await self.wait(call, lambda: not call.is_open or len(call.items) > 1 or None)
        finally:
            self.do("cancel", call)
        if call.error:
            raise call.error
        if len(call.items) != 1:
            raise Error("unimplemented", path + " streams its replies", outcome=UNKNOWN)
        return decode(call.items[0][0], codec)

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
        with self.lock:
            if self.is_writing or not self.socket:
                return
            self.is_writing = True
        self._write(b"", socket.MSG_DONTWAIT)

    def _write(self, data, flags):
        try:
            while data := data or self._next():
                data = data[self.socket.send(data, flags) :]
        except BlockingIOError:  # Nobody waits here for a gateway that does not read.
            threading.Thread(target=self._write, args=(data, 0), daemon=True).start()
        except OSError as error:
            with self.lock:
                self.session.close(str(error))
                self.taken.notify_all()

    def _next(self):
        with self.lock:
            data = self.session.take()
            self.is_writing = bool(data)
            self.taken.notify_all()
            return data

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
        if any(is_async for _, is_async in [*self.handlers.values(), self.pages]):
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
        # Tasks that do not end, and threads of others, have nobody left to work for.
        last = threading.Timer(GRACE, os._exit, [0])
        last.daemon = True
        last.start()

    def _read(self, flags):
        """Reads once; whether there is more to come."""
        with self.lock:
            self.taken.wait_for(lambda: self.session.closed or not self.session.is_full())
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
            is_done = self.session.is_draining and not self.session.calls
            return self.session.closed is None and not is_done

    def _begin(self, call):
        answer, is_async = self.pages if call.verb else self.handlers.get(call.path, (None, False))
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


async def send_page(app, call, context, data):
    for at in range(0, len(data), PAYLOAD_MAX):
        await app.push(call, data[at : at + PAYLOAD_MAX], context)


async def wsgi(app, application, call, context):
    import io
    from urllib.parse import unquote_to_bytes

    requests, (scheme, host, port, prefix) = Requests(app, call), address(context)
    path, _, query = call.path.partition("?")

    class Body(io.RawIOBase):
        rest = b""

        def readable(self):
            return True

        def readinto(self, into):
            self.rest = self.rest or in_this_thread(requests.take()) or b""
            count = min(len(into), len(self.rest))
            into[:count], self.rest = self.rest[:count], self.rest[count:]
            return count

    environ = {
        "REQUEST_METHOD": call.verb,
        "SCRIPT_NAME": prefix,
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": host,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scheme,
        "wsgi.input": io.BufferedReader(Body()),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in call.headers:
        key = name.upper().replace("-", "_")
        key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + key
        value = value.encode("utf-8", "surrogateescape").decode("latin-1")
        environ[key] = environ[key] + "," + value if key in environ else value

    def write(data):
        in_this_thread(send_page(app, call, context, data))

    def start_response(status, headers, exc_info=None):
        if exc_info and call.has_head:
            raise exc_info[1]
        context.status = int(status.split(" ")[0])
        context.reply_headers = [(name, value.encode("latin-1")) for name, value in headers]
        return write

    body = application(environ, start_response)
    try:
        for data in body:
            write(data)
    finally:
        if hasattr(body, "close"):
            body.close()
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
            context.status, context.reply_headers = message["status"], message.get("headers", ())
        elif message["type"] == "http.response.body":
            await send_page(app, call, context, bytes(message.get("body", b"")))
            if not message.get("more_body", False):
                app.finish(call, context)

    await application(scope, receive, send)
