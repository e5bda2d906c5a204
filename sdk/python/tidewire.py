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
from functools import partial

__version__ = "0.1.0"

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
        super().__init__(f"{code}: {message}")
        self.code = code if code in CODES[1:] else "unknown"
        self.message, self.details, self.headers = str(message), details, headers
        self.outcome = outcome


def given_up(outcome=None):
    return Error("canceled", "the caller gave up", outcome=outcome)


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
OF_CALLS, OF_BOTH = {"request", "reply", "error", "items", "end"}, {"cancel", "credit"}
# A process has no watches and resumes nothing.
NEVER = {"stale": "unknown_stream", "resume": "unexpected", "resumed": "unexpected"}
END, ZSTD, HTTP, MORE, WATCHED, UNCHANGED = 1, 2, 4, 8, 16, 32
FEATURE_HTTP, FEATURE_HOSTED = 2, 32
PAYLOAD_MAX, PIECE, SMALL_MAX, BODY_MAX = 65_536, 16_384, 16_376, 64 << 20
METADATA_MAX, CALLS_MAX, METHODS_MAX, OUTPUT_MAX, GRACE = 16_384, 1024, 1024, 1 << 20, 2
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
    """The key of a source as text: its parts joined by `/`."""

    def text(part):
        if part is None or isinstance(part, bool):
            return {None: "%_", True: "true", False: "false"}[part]
        part = part.hex() if isinstance(part, bytes) else str(part)
        return part.replace("%", "%25").replace("/", "%2F")

    return "/".join(map(text, parts))


# -- calls -----------------------------------------------------------------------------------------


class Call:
    """One call, of either side. For a handler it is the context: who asks, and what the answer is made of.

    `reply_headers` and `reply_trailers` are lists of pairs; `cancelled` is whether the caller gave up, its
    deadline passed among the reasons (a command runs on). Of a stream it iterates over the requests.
    """

    def __init__(self, number, window, app=None):
        self.number, self.is_ours, self.app = number, number % 2 == 1, app
        self.path, self.codec, self.verb, self.headers, self.sources = "", 0, None, [], []
        self.status, self.reply_headers, self.reply_trailers = 200, [], []
        self.deadline = self.command = self.error = self.last = None
        self.is_open, self.cancelled, self.waiting, self.on_cancel = True, False, [], None
        self.is_streaming = self.is_whole = self.has_head = False
        # What comes: items with what each counts as, pieces of the next; what goes: payloads with flags.
        self.items, self.pieces, self.out, self.queued = deque(), bytearray(), deque(), 0
        # Bytes of items without credit: received, of them taken by the program; sent.
        self.window, self.received, self.taken, self.sent = window, 0, 0, 0

    def wake(self):
        """Wakes whoever waits for something to come, to go, or to end."""
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()

    def header(self, name, default=None):
        """The first value of a header."""
        return next((value for known, value in self.headers if known == name.lower()), default)

    def remaining(self):
        """Seconds until the deadline; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def until_cancelled(self):
        """Waits until the caller gave up."""
        in_this_thread(self.app.wait(self, lambda: self.cancelled or None))

    def depends(self, source, *key):
        """The answer was made of this, and is kept until it changes."""
        self.sources.append((source, key_text(key)))

    def call(self, path, request, **more):
        """Calls a method of the gateway as part of this call: see App.call."""
        return in_this_thread(self.call_async(path, request, **more))

    def call_async(self, path, request, **more):
        """The same for `async` handlers."""
        return self.app.call_async(path, request, parent=self, **more)

    async def next_item(self):
        """The bytes of the next item that the caller sends; None after the last."""

        def found():
            if self.items:
                return (self.app.session.take_item(self),)
            return () if self.is_whole or not self.is_open else None

        item = await self.app.wait(self, found)
        if not item and not self.is_whole:
            raise given_up()
        return item[0] if item else None

    def __iter__(self):
        while (item := in_this_thread(self.next_item())) is not None:
            yield decode(item, self.codec)

    async def __aiter__(self):
        while (item := await self.next_item()) is not None:
            yield decode(item, self.codec)


# -- session ---------------------------------------------------------------------------------------


class Session:
    """This side of the protocol without a socket: bytes in, bytes and calls out. Its owner has a lock.

    `app.begin` is told of each call of the gateway; who waits for room for a call of this side waits at `room`.
    """

    number, agent, stream_window, window = 0, "tidewire-python/" + __version__, 262_144, 1 << 20

    def __init__(self, app=None):
        self.app, self.data, self.methods, self.called, self.calls = app, bytearray(), [], {}, {}
        self.control, self.main, self.pong, self.line = bytearray(), bytearray(), None, deque()
        self.is_greeted, self.is_draining, self.closed, self.running = False, False, None, set()
        self.room, self.free, self.asked, self.next_command = Call(0, 0), [], {}, 1
        self.received = self.taken = self.sent = 0
        # What the gateway takes, by the tags of its hello, and what holds until it says another.
        self.peer = {4: 4 << 20, 5: 1024, 7: 1024, 8: 262_144, 9: 1 << 20, 10: 16_384}

    def greet(self):
        hello = put_field(1, b"\x01\0\x01\0") + put_field(2, FEATURE_HTTP | FEATURE_HOSTED)
        hello += put_field(3, FEATURE_HOSTED) + put_field(4, BODY_MAX) + put_field(16, self.agent)
        self.control += put_frame("hello", payload=hello, deadline_ms=MAGIC)

    # What comes.

    def feed(self, data):
        """Takes bytes that came; what is wrong with them ends the session."""
        self.data += data
        at = 0
        try:
            while self.closed is None and len(self.data) - at >= HEAD.size:
                head = HEAD.unpack_from(self.data, at)
                end, meta = at + HEAD.size + head[0], at + HEAD.size + head[4]
                must(meta <= end, "malformed", "metadata longer than its frame")
                must(end - meta <= PAYLOAD_MAX, "too_large", "a frame over the limit")
                is_short = head[4] <= METADATA_MAX or not self.is_greeted
                must(is_short, "metadata_max", "metadata over the limit")
                if len(self.data) < end:
                    break
                begin, at = at + HEAD.size, end
                self.receive(Frame(head, bytes(self.data[begin:meta]), bytes(self.data[meta:end])))
        except Violation as violation:
            reason, text = violation.args
            said = put_field(9, text) + put_field(16, REASONS.index(reason))
            self.main += put_frame("goaway", metadata=said)
            self.close(text)
        del self.data[:at]

    def receive(self, frame):
        """Takes a frame: for `on_KIND` with its call, or None for what is over or of the connection."""
        name, stream, is_ours = frame.name, frame.stream, frame.stream % 2 == 1
        is_first = name in ("hello", "goaway")
        must(self.is_greeted or is_first, "magic", "the first frame is not a hello")
        must(name not in NEVER, NEVER.get(name), f"{name} for a process")
        receive = getattr(self, "on_" + name, None)
        if receive is None:
            return
        is_placed = name in OF_BOTH or (name in OF_CALLS) == (stream > 0)
        must(is_placed, "malformed", f"{name} on stream {stream}")
        is_slot = is_ours or stream <= 2 * CALLS_MAX
        must(is_slot, "stream_number", f"stream {stream} is over the bound")
        call = self.calls.get(stream)
        is_known = call or not is_ours or name == "request"
        must(is_known, "unknown_stream", f"stream {stream} is not open")
        is_plain = not frame.flags & ZSTD or name not in OF_CALLS
        must(is_plain, "feature", "compression was not offered")
        receive(frame, call)

    def on_hello(self, frame, _):
        must(not self.is_greeted, "unexpected", "a second hello")
        must(frame.deadline_ms == MAGIC, "magic", "not a hello")
        said, at = {}, 0
        while at < len(frame.payload):
            tag = frame.payload[at]
            must(tag not in said, "malformed", f"field {tag} of a hello comes twice")
            said[tag], at = take_string(frame.payload, at + 1)
        must(len(said.get(1, b"")) == 4, "malformed", "a hello without versions")
        must(said[1] == b"\x01\0\x01\0", "version", "this side speaks version 1")
        is_host = take_number(said.get(2, b"\0")) & FEATURE_HOSTED
        must(is_host, "feature", "the gateway hosts no processes")
        self.peer.update((tag, take_number(said[tag])) for tag in self.peer if tag in said)
        self.is_greeted = True
        self.control += put_frame("ready")
        self.room.wake()

    def on_goaway(self, frame, _):
        self.is_draining = True
        if frame.number(16, 0) or not self.is_greeted:
            self.close(frame.text(9) or f"reason {frame.number(16)}")

    def on_ping(self, frame, _):
        must(len(frame.payload) <= 64, "malformed", "a long ping")
        self.pong = frame.payload  # Of pings not yet answered the last alone is.

    def on_request(self, frame, open_call):
        must(frame.stream % 2 == 0, "stream_number", f"a request on stream {frame.stream}")
        must(not open_call, "stream_in_use", f"a request on stream {frame.stream}")
        must(18 not in frame.fields, "feature", "keys were not offered")
        call = Call(frame.stream, self.stream_window, self.app)
        call.headers, call.is_whole = frame.headers, bool(frame.flags & END)
        call.is_streaming = not call.is_whole
        must(call.is_whole or not frame.payload, "malformed", "a payload before items")
        if frame.deadline_ms:
            call.deadline = time.monotonic() + frame.deadline_ms / 1000
        if frame.flags & HTTP:
            has_both = 12 in frame.fields and 13 in frame.fields
            must(has_both, "malformed", "HTTP without method or target")
            call.verb, call.path = frame.text(12), frame.text(13)
        else:
            call.codec, call.path = self.method(frame)
        if 3 in frame.fields:
            call.command, _ = take_varint(frame.fields[3])
            is_new = call.command and call.command not in self.running
            must(is_new, "command_id", f"command {call.command}")
            self.running.add(call.command)
        if call.is_whole:
            call.items.append((frame.payload, 0))
        self.calls[frame.stream] = call
        if self.app:
            self.app.begin(call)

    def method(self, frame):
        """The codec and the path that a request names, or named before."""
        number, name = frame.number(1), frame.fields.get(2)
        must(number is not None or name, "malformed", "a request without a method")
        if name:
            named = name[0], name[1:].decode("utf-8", "replace").lstrip("/")
            if number is None:
                return named
            is_due = number == len(self.methods) < METHODS_MAX
            must(is_due, "methods_max", "a method's number out of turn")
            self.methods.append(named)
        must(number < len(self.methods), "unknown_method", f"method {number} was not named")
        return self.methods[number]

    def on_items(self, frame, call):
        size = len(frame.payload)
        for flow in (call, self) if call else (self,):
            must(flow.received < flow.window, "credit", "items without credit")
            flow.received += size
        if call is None or call.is_ours and call.cancelled:
            return self.consumed(size, call)
        is_due = not call.is_whole and (call.has_head or not call.is_ours)
        must(is_due, "unexpected", "items out of place")
        must(size, "malformed", "items without an item")
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

    def on_end(self, _, call):
        if call is None:
            return
        is_due = call.has_head if call.is_ours else not call.is_whole
        must(is_due, "unexpected", "an end out of place")
        call.is_whole = True
        if call.is_ours:
            self.end(call)
        call.wake()

    def on_credit(self, frame, call):
        amount = take_number(frame.payload)
        if call or frame.stream == 0:
            must(not frame.flags & END, "unexpected", "an end is seen that was not sent")
            flow = call or self
            must(amount <= flow.sent, "credit", "credit for what was not sent")
            flow.sent -= amount

    def on_cancel(self, _, call):
        if call is None or call.cancelled:
            return
        if call.is_ours:  # No more items are wanted; the end of them is.
            return call.out.clear()
        call.cancelled = True
        # A command with one reply runs on, and says at its end that it ran.
        if call.command is None or call.is_streaming or call.has_head:
            self.main += self.error_frame(call, given_up())
            self.end(call)

    def on_reply(self, frame, call):
        self.check_answer(frame, call)
        must(not frame.flags & UNCHANGED, "malformed", "nothing to be unchanged from")
        is_end = bool(frame.flags & END)
        must(is_end or not call.has_head, "unexpected", "a second reply")
        must(is_end or not frame.payload, "malformed", "a payload before items")
        call.has_head, call.headers = True, frame.headers
        if is_end:
            call.items.append((frame.payload, 0))
            return self.end(call)
        call.is_streaming = True

    def on_error(self, frame, call):
        self.check_answer(frame, call)
        code, details = frame.number(8), []
        must(code, "malformed", "an error without a code")
        for detail in frame.details:
            kind, at = take_string(detail)
            details.append((kind.decode("utf-8", "replace"), detail[at:]))
        name = CODES[code] if code < len(CODES) else "unknown"
        self.end(call, Error(name, frame.text(9), details, frame.headers, frame.number(11)))

    def check_answer(self, frame, call):
        must(call and call.is_ours, "stream_number", f"an answer on stream {frame.stream}")
        must(not frame.flags & WATCHED, "unexpected", "a watch that was not asked for")

    # The end of calls and of the session.

    def end(self, call, error=None):
        """A call is over: its last frame came, is being sent, or never will be."""
        if not call.is_open:
            return
        del self.calls[call.number]
        call.is_open, call.error, call.last = False, error, None
        call.out.clear()
        self.consumed(call.received - call.taken)
        self.running.discard(call.command)
        if call.is_ours:
            del self.asked[call.number]
            self.free.append(call.number)
            if call.is_streaming and self.closed is None:
                self.control += put_frame("credit", call.number, END, payload=b"\0")
            self.room.wake()
        elif call.cancelled and call.on_cancel:
            call.on_cancel()
        call.wake()

    def close(self, why):
        """The session is over: whoever waits is told."""
        if self.closed is None:
            self.closed = why
            for call in list(self.calls.values()):
                call.cancelled = call.cancelled or not call.is_ours
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

    def turn(self, call):
        """The next frame of a call; nothing while it has no credit."""
        if not call.out:
            frame, call.last = call.last or b"", None
            if not call.is_ours:
                self.end(call)
            return frame
        if self.sent >= self.peer[9] or call.sent >= self.peer[8]:
            return b""
        payload, flags = call.out.popleft()
        call.sent += len(payload)
        self.sent += len(payload)
        call.queued -= len(payload)
        call.wake()
        return put_frame("items", call.number, flags, payload=bytes(payload))

    def is_full(self):
        """Whether so much is to be written that no more is to be read; who waits for answers reads on."""
        return len(self.control) + len(self.main) > (BODY_MAX if self.asked else OUTPUT_MAX)

    def consumed(self, size, call=None):
        """Items were taken: the peer may send as much again."""
        for flow in (call, self) if call else (self,):
            flow.taken += size
            if flow.taken * 4 >= flow.window and not (call and flow is call and call.is_whole):
                self.control += put_frame("credit", flow.number, payload=put_varint(flow.taken))
                flow.received -= flow.taken
                flow.taken = 0

    def take_item(self, call):
        """The next item of a call that came."""
        item, size = call.items.popleft()
        if call.is_open:
            self.consumed(size, call)
        return item

    def metadata(self, fields, headers, sources=(), trailers=()):
        """The metadata of a request or an answer."""
        fields += put_headers(headers)
        for source, key in sources:
            fields += put_field(15, put_string(source) + put_string(key))
        if trailers:
            fields += put_field(7, b"") + put_headers(trailers)
        if len(fields) > self.peer[10]:
            raise Error("internal", f"headers are over metadata_max = {self.peer[10]}")
        return fields

    def begin(self, call, whole=None):
        """Sends the head of an answer whose items follow, or the whole answer."""
        if call.is_open and not call.has_head:
            fields = put_field(14, call.status) if call.status != 200 else b""
            trailers = () if whole is None else call.reply_trailers
            fields = self.metadata(fields, call.reply_headers, call.sources, trailers)
            flags = (0 if whole is None else END) | (HTTP if call.verb else 0)
            self.main += put_frame("reply", call.number, flags, fields, whole or b"")
            call.has_head = True
            if whole is not None:
                self.end(call)

    def enlist(self, call, last=None):
        """A call that has something to send takes turns."""
        if not call.out and not call.last:
            self.line.append(call)
        call.last = last or call.last

    def push(self, call, item):
        """Queues an item; there is room for more while `queued` is small."""
        if not call.is_open:
            return
        self.enlist(call)
        before = call.out[-1][0] if call.out else None
        if len(item) > PIECE:
            last = (len(item) - 1) // PIECE * PIECE
            call.out.extend((item[at : at + PIECE], MORE) for at in range(0, last, PIECE))
            call.out.append((item[last:], 0))
        else:
            item = put_string(item)
            if isinstance(before, bytearray) and len(before) + len(item) <= PIECE:
                before += item
            else:
                call.out.append((bytearray(item), 0))
        call.queued += len(item)

    def finish(self, call):
        """No more items: ends a call of the gateway, or the request of one of this side."""
        if call.is_open and not call.last:
            metadata = self.metadata(b"", call.reply_trailers)
            self.enlist(call, put_frame("end", call.number, metadata=metadata))

    def reply(self, call, payload):
        """Answers a call whole."""
        if len(payload) > self.peer[4]:
            text = f"a reply of {len(payload)} bytes is over body_max = {self.peer[4]}"
            self.fail(call, Error("resource_exhausted", text, outcome=RAN))
        elif call.cancelled:
            self.fail(call, given_up())
        elif len(payload) > SMALL_MAX:
            self.begin(call)
            self.push(call, payload)
            self.finish(call)
        else:
            self.begin(call, payload)

    def fail(self, call, error):
        """Ends a call with an error."""
        if call.is_open:
            # A command whose caller gave up ran to its end.
            error = given_up(RAN) if call.cancelled else error
            self.enlist(call, self.error_frame(call, error))

    def error_frame(self, call, error):
        fields = put_field(8, CODES.index(error.code))
        if error.message:
            fields += put_field(9, error.message.encode("utf-8", "replace")[:4096])
        for name, value in error.details:
            fields += put_field(10, put_string(name) + value)
        if error.outcome is not None:
            fields += put_field(11, error.outcome)
        try:
            sources = () if call.cancelled else call.sources
            metadata = self.metadata(fields, error.headers, sources)
        except Error as too_long:
            metadata = put_field(8, CODES.index("internal")) + put_field(9, too_long.message)
        return put_frame("error", call.number, metadata=metadata)

    def ask(self, path, codec, payload, headers=(), parent=None, is_query=False):
        """Calls the gateway, as a part of the call of number `parent`; None while no call is free."""
        if self.closed is not None or self.is_draining:
            raise Error("unavailable", "the gateway takes no calls any more", outcome=NOT_RUN)
        if not self.is_greeted or len(self.asked) >= self.peer[5]:
            return None
        if len(payload) > self.peer[4]:
            text = f"a request is over body_max = {self.peer[4]}"
            raise Error("resource_exhausted", text, outcome=NOT_RUN)
        headers, name = self.metadata(b"", headers), (codec, path.lstrip("/"))
        is_new, fields = name not in self.called, b""
        if is_new and len(self.called) < self.peer[7]:
            self.called[name] = len(self.called)
        if name in self.called:
            fields += put_field(1, self.called[name])
        if is_new:
            fields += put_field(2, bytes((codec,)) + b"/" + name[1].encode())
        call = Call(self.free.pop() if self.free else 2 * len(self.asked) + 1, self.stream_window)
        self.calls[call.number] = self.asked[call.number] = call
        if not is_query:
            call.command, self.next_command = self.next_command, self.next_command + 1
            done = min(call.command for call in self.asked.values() if call.command)
            fields += put_field(3, put_varint(call.command) + put_varint(done))
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
        if call.is_open and not call.cancelled:
            call.cancelled = True
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


class App:
    """What a program serves. `threads` is how many functions that are not `async` run at once."""

    def __init__(self, threads=64):
        self.handlers, self.pages, self.threads, self.jobs = {}, (None, False), threads, 0
        self.session, self.socket, self.loop, self.loop_thread = Session(self), None, None, None
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

            async def answer(call):
                request = call if streams_in else decode(await call.next_item() or b"", call.codec)
                answer = function(request, call)
                if not streams_out:
                    answer = await answer if is_async else answer
                    return self.do("reply", call, encode(answer, call.codec))
                if is_async:
                    async for item in answer:
                        await self.push(call, encode(item, call.codec))
                else:
                    for item in answer:
                        await self.push(call, encode(item, call.codec))
                self.finish(call)

            self.handlers[path.lstrip("/")] = answer, is_async
            return function

        return register

    def wsgi(self, application):
        """Serves the pages of the program's `route` by a WSGI application (PEP 3333): Flask, Django."""
        self.pages = lambda call: wsgi(self, application, call), False

    def asgi(self, application):
        """Serves the pages of the program's `route` by an ASGI application: Starlette, FastAPI."""
        self.pages = lambda call: asgi(self, application, call), True

    # What the program does by itself.

    def changed(self, source, *key):
        """Says that a source changed: no answer that was made of it is given any more."""
        self.say("changed", put_string(source) + put_string(key_text(key)))

    def log(self, level, text, **fields):
        """Writes a line to the gateway's log: trace, debug, info, warn or error."""
        metadata = put_field(17, LEVELS.index(level) + 1 if level in LEVELS else 3)
        said = put_headers((name.replace("_", "-"), str(value)) for name, value in fields.items())
        if len(metadata) + len(said) <= self.session.peer[10]:
            metadata += said
        self.say("log", text.encode("utf-8", "replace")[:PAYLOAD_MAX], metadata)

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
            self.say("busy", put_varint(self.jobs))

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
                call.waiting.append(partial(self._wake, woken) if in_loop else woken.set)
            self.flush()
            await woken if in_loop else woken.wait()
        self.flush()
        return result

    def _wake(self, woken):
        self.loop.call_soon_threadsafe(lambda: woken.done() or woken.set_result(None))

    async def push(self, call, item):
        """Sends an item of an answer, once there is room for it."""
        await self.wait(call, lambda: call.queued < PAYLOAD_MAX or not call.is_open or None)
        if not call.is_open:
            raise given_up()
        self.do("begin", call)
        self.do("push", call, item)

    def finish(self, call):
        self.do("begin", call)
        self.do("finish", call)

    def say(self, name, payload, metadata=b""):
        """Sends a frame of the connection."""
        with self.lock:
            self.session.main += put_frame(name, payload=payload, metadata=metadata)
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
                self.is_writing = False
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
        if any(is_async for _, is_async in [*self.handlers.values(), self.pages]):
            import asyncio

            self.loop = asyncio.new_event_loop()
            loop = threading.Thread(target=self.loop.run_forever, daemon=True)
            loop.start()
            self.loop_thread = loop.ident
        self.do("greet")
        while self._read():
            pass
        with self.lock:  # The last word is written, unless nobody reads it.
            self.taken.wait_for(lambda: not self.is_writing, GRACE)

    def _read(self):
        """Reads once; whether there is more to come."""
        try:
            data = self.socket.recv(PAYLOAD_MAX)
        except OSError:
            data = b""
        with self.lock:
            if data:
                self.session.feed(data)
            else:
                self.session.close("it closed the socket")
        self.flush()
        with self.lock:
            self.taken.wait_for(lambda: self.session.closed or not self.session.is_full())
            is_done = self.session.is_draining and not self.session.calls
            return self.session.closed is None and not is_done

    def begin(self, call):
        """Answers a call of the gateway in the loop, or in a thread."""
        call.changed, call.log = self.changed, self.log
        answer, is_async = self.pages if call.verb else self.handlers.get(call.path, (None, False))
        if answer is None:
            text = f"this program does not serve {call.path}"
            self.session.fail(call, Error("unimplemented", text, outcome=NOT_RUN))
        elif is_async:
            import asyncio

            task = asyncio.run_coroutine_threadsafe(self._answer(answer, call), self.loop)
            call.on_cancel = task.cancel
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
        try:
            await answer(call)
        except BaseException as error:
            if not isinstance(error, Error):
                if call.is_open:
                    sys.excepthook(type(error), error, error.__traceback__)
                error = Error("internal", "the handler failed; its log says why")
            self.do("fail", call, error)


# -- pages -----------------------------------------------------------------------------------------


async def send_body(app, call, data):
    for at in range(0, len(data), PAYLOAD_MAX):
        await app.push(call, data[at : at + PAYLOAD_MAX])


def address(call):
    """The scheme, the host, the port and the prefix by which a caller knows this program."""
    scheme = call.header("x-forwarded-proto", "http")
    host, _, port = call.header("host", "localhost").partition(":")
    port = port if port.isdigit() else "443" if scheme == "https" else "80"
    return scheme, host, port, call.header("x-forwarded-prefix", "")


async def wsgi(app, application, call):
    import io
    from urllib.parse import unquote_to_bytes

    (scheme, host, port, prefix), (path, _, query) = address(call), call.path.partition("?")

    class Body(io.RawIOBase):
        rest = b""

        def readable(self):
            return True

        def readinto(self, into):
            self.rest = self.rest or in_this_thread(call.next_item()) or b""
            count = min(len(into), len(self.rest))
            into[:count], self.rest = self.rest[:count], self.rest[count:]
            return count

    environ = {"REQUEST_METHOD": call.verb, "SCRIPT_NAME": prefix, "QUERY_STRING": query}
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1")
    environ.update(SERVER_NAME=host, SERVER_PORT=port, SERVER_PROTOCOL="HTTP/1.1")
    server = {"version": (1, 0), "url_scheme": scheme, "errors": sys.stderr, "multithread": True}
    server.update(input=io.BufferedReader(Body()), input_terminated=True)
    server.update(multiprocess=False, run_once=False)
    environ.update(("wsgi." + name, value) for name, value in server.items())
    for name, value in call.headers:
        key = name.upper().replace("-", "_")
        key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + key
        value = value.encode("utf-8", "surrogateescape").decode("latin-1")
        environ[key] = environ[key] + "," + value if key in environ else value

    def write(data):
        in_this_thread(send_body(app, call, data))

    def start_response(status, headers, exc_info=None):
        if exc_info and call.has_head:
            raise exc_info[1]
        call.status = int(status.split(" ")[0])
        call.reply_headers = [(name, value.encode("latin-1")) for name, value in headers]
        return write

    body = application(environ, start_response)
    try:
        for data in body:
            write(data)
    finally:
        getattr(body, "close", lambda: None)()
    app.finish(call)


async def asgi(app, application, call):
    from urllib.parse import unquote

    (scheme, host, port, prefix), (path, _, query) = address(call), call.path.partition("?")
    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}}
    scope.update(
        http_version="1.1", method=call.verb, scheme=scheme, server=(host, int(port)), client=None
    )
    scope.update(path=prefix + unquote(path), raw_path=path.encode(), root_path=prefix)
    scope.update(query_string=query.encode(), headers=[])
    for name, value in call.headers:
        scope["headers"].append((name.encode(), value.encode("utf-8", "surrogateescape")))
    is_read = False

    async def receive():
        nonlocal is_read
        if is_read:
            await app.wait(call, lambda: None if call.is_open else True)
            return {"type": "http.disconnect"}
        body = await call.next_item()
        is_read = body is None or call.is_whole and not call.items
        return {"type": "http.request", "body": body or b"", "more_body": not is_read}

    async def send(message):
        if message["type"] == "http.response.start":
            call.status, call.reply_headers = message["status"], message.get("headers", ())
        elif message["type"] == "http.response.body":
            await send_body(app, call, bytes(message.get("body", b"")))
            if not message.get("more_body", False):
                app.finish(call)

    await application(scope, receive, send)
