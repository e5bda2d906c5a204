"""Serve methods and pages behind a Tidewire gateway: one file, the standard library, Python 3.9 and newer.

    import tidewire

    app = tidewire.App()

    @app.unary("shop.v1.Shop/GetItem")
    def get_item(request, context):
        context.depends("items", request["id"])      # the answer is kept until this item changes
        return {"name": "tea"}

    app.serve()

The gateway starts the program, passes calls on a socket that it inherits (`TIDEWIRE_FD`), and ends it. Sync
handlers run in threads, `async` ones in an event loop. Messages are `dict`s where tidewire.toml says
`codec = "json"`; else they are bytes, or messages of google.protobuf where the handler names their classes:
`@app.unary(path, request=GetItem, reply=Item)`. What a program prints is in the gateway's log.

 bytes ─▶ Session: frames, tables of calls, credit ─▶ App: handlers in threads and in the loop ─▶ Session ─▶ bytes
"""
import asyncio
import inspect
import io
import json
import os
import queue
import socket
import struct
import sys
import threading
import time
import traceback
from collections import deque

__version__ = "0.1.0"

# ---------------------------------------------------------------------------------------------------- errors

CODES = ("ok canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied "
         "resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable "
         "data_loss unauthenticated").split()
NOT_RUN, UNKNOWN, RAN, BEHIND = 1, 2, 3, 4
GAVE_UP = b"the caller gave up"


class Error(Exception):
    """Why a call failed: raised by handlers for their callers, and by calls of the gateway.

    `details` are pairs of a type name and an encoded message. `outcome` is what is known of a call that has
    no answer: NOT_RUN, UNKNOWN, RAN, BEHIND; None for the answer of a handler.
    """

    def __init__(self, code, message="", details=(), headers=(), trailers=(), outcome=None):
        super().__init__(message)
        self.code = code if code in CODES else "unknown"
        self.message, self.details, self.outcome = message, list(details), outcome
        self.headers, self.trailers = list(headers), list(trailers)

    def __str__(self):
        return f"{self.code}: {self.message}"


class Cancelled(Exception):
    """The caller gave up: raised where a handler waits for it."""


class Violation(Exception):
    """The gateway broke a rule of the protocol: the number of the reason, and a text."""

    def __init__(self, reason, text):
        super().__init__(text)
        self.reason = reason


# ---------------------------------------------------------------------------------------------------- frames

HEAD = struct.Struct("<IIBBHI")
MAGIC = int.from_bytes(b"TWLV", "little")
HELLO, AUTH, REQUEST, REPLY, ERROR, ITEMS, ENDS, CANCEL, CREDIT, PING, PONG, GOAWAY = range(1, 13)
READY, BUSY, LOG, CHANGED = 16, 17, 18, 19
END, HTTP, MORE, WATCHED = 1, 4, 8, 16
PAYLOAD_MAX, PIECE, SMALL_MAX, BODY_MAX = 65_536, 16_384, 16_376, 64 << 20
MALFORMED, UNEXPECTED, INIT_FAILED, BYE = 5, 7, 20, 22
HEADERS = ("content-type authorization cookie set-cookie accept accept-encoding accept-language user-agent host "
           "origin referer content-length content-encoding cache-control etag if-none-match if-modified-since "
           "last-modified location vary date expires x-forwarded-for x-forwarded-proto x-request-id traceparent "
           "tracestate baggage").split()
TAG = {name: 64 + number for number, name in enumerate(HEADERS)}
FEATURES = 2 | 32  # HTTP, HOSTED
LEVELS = {"trace": 1, "debug": 2, "info": 3, "warn": 4, "error": 5}


def put_varint(value):
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def take_varint(data, at):
    """The number at an offset, and the offset behind it."""
    value = shift = 0
    while shift < 56:
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 1 << 53:
                break
            return value, at
        shift += 7
    raise Violation(MALFORMED, "a number that is cut off or too large")


def take_string(data, at):
    length, at = take_varint(data, at)
    if len(data) - at < length:
        raise Violation(MALFORMED, "a string that is cut off")
    return data[at:at + length], at + length


def put_string(value):
    return put_varint(len(value)) + value


def put_field(tag, value):
    return bytes((tag,)) + put_varint(len(value)) + value


def put_headers(headers):
    """Headers as pairs of texts or bytes; what the protocol cannot carry is left out."""
    out = bytearray()
    for name, value in headers:
        name = name.decode("latin-1").lower() if isinstance(name, bytes) else name.lower()
        value = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        token = all(c.isalnum() and c.isascii() or c in "!#$%&'*+-.^_`|~" for c in name)
        if not token or not 1 <= len(name) <= 256 or any(byte in value for byte in b"\r\n\0"):
            continue
        out += put_field(TAG[name], value) if name in TAG else b"\0" + put_string(name.encode()) + put_string(value)
    return bytes(out)


def put_frame(kind, stream=0, flags=0, metadata=b"", payload=b"", deadline_ms=0):
    return HEAD.pack(len(metadata) + len(payload), stream, kind, flags, len(metadata), deadline_ms) + metadata + payload


def read_metadata(data):
    """The fields of a frame by their tags, its headers and its trailers."""
    fields, headers, trailers, at = {}, [], [], 0
    into = headers
    while at < len(data):
        tag, name = data[at], None
        at += 1
        if tag == 0:
            name, at = take_string(data, at)
        value, at = take_string(data, at)
        if tag == 0:
            into.append((name.decode("latin-1"), value.decode("utf-8", "surrogateescape")))
        elif 64 <= tag < 64 + len(HEADERS):
            into.append((HEADERS[tag - 64], value.decode("utf-8", "surrogateescape")))
        elif tag == 7:
            into = trailers
        elif tag == 10:
            fields.setdefault(10, []).append(value)
        else:
            fields[tag] = value
    return fields, headers, trailers


def number_of(fields, tag, default=None):
    return take_varint(fields[tag], 0)[0] if tag in fields else default


def key_text(parts):
    """The key of a source as text: its parts joined by `/`."""
    return "/".join(_part_text(part) for part in parts)


def _part_text(part):
    if part is None:
        return "%_"
    if isinstance(part, bool):
        return "true" if part else "false"
    if isinstance(part, bytes):
        return part.hex()
    return str(part).replace("%", "%25").replace("/", "%2F")


# --------------------------------------------------------------------------------------------------- session

class Stream:
    """One call, of either side: what came of it, and what is to be sent."""

    def __init__(self, number):
        self.number, self.is_open, self.bell = number, True, []
        # What the peer sends: items with what each costs, pieces of one that is not complete.
        self.items, self.partial, self.is_streaming, self.is_whole = deque(), bytearray(), False, False
        self.held = self.owed = self.received = 0
        self.gathers = False
        # What this side sends: chunks of items, then the frame that ends it.
        self.chunks, self.chunk_is_open, self.outstanding, self.last = deque(), False, 0, None
        self.queued, self.is_stopped, self.is_blocked = 0, False, False

    def ring(self):
        bell, self.bell = self.bell, []
        for wake in bell:
            wake()


class Incoming(Stream):
    """A call of the gateway."""

    def __init__(self, number, path, codec, headers, payload, deadline):
        super().__init__(number)
        self.path, self.codec, self.headers, self.payload, self.deadline = path, codec, headers, payload, deadline
        self.http_method = None
        self.is_command = self.is_cancelled = self.has_head = self.is_begun = False


class Outgoing(Stream):
    """A call of this side."""

    def __init__(self, number, is_command):
        super().__init__(number)
        self.is_command, self.reply, self.error = is_command, None, None
        self.is_stream_call = self.is_cancelled = False
        self.headers, self.trailers = [], []


class Session:
    """This side of the protocol without a socket: bytes in, bytes and events out. Its owner has a lock.

    An event is a name and a call: `ready`, `request`, `heard`, `cancelled`, `draining`, `closed`.
    """

    def __init__(self, agent="tidewire-python/" + __version__, body_max=BODY_MAX, now=time.monotonic):
        self.now, self.body_max, self.events = now, body_max, []
        self.data, self.control, self.main = bytearray(), bytearray(), bytearray()
        self.is_greeted = self.is_draining = False
        self.closed = None
        self.methods, self.called = [], {}
        self.calls, self.asked, self.free, self.slots = {}, {}, [], 0
        self.line, self.blocked = deque(), []
        self.connection_out = self.connection_held = self.connection_owed = 0
        self.next_command, self.ended_commands, self.done = 1, set(), 1
        hello = b"\x01\x04\x01\0\x01\0" + self._number(2, FEATURES) + self._number(3, 32)
        if body_max != 4 << 20:
            hello += self._number(4, body_max)
        hello += put_field(16, agent.encode())
        self.control += put_frame(HELLO, payload=hello, deadline_ms=MAGIC)

    @staticmethod
    def _number(tag, value):
        return put_field(tag, put_varint(value))

    # -- bytes

    def feed(self, data):
        """Takes bytes that came; what is wrong with them ends the session."""
        self.data += data
        at = 0
        try:
            while self.closed is None and len(self.data) - at >= 16:
                length, stream, kind, flags, meta, deadline = HEAD.unpack_from(self.data, at)
                if meta > length or length - meta > PAYLOAD_MAX:
                    raise Violation(4 if meta <= length else MALFORMED, "a frame over the limit")
                if len(self.data) - at < 16 + length:
                    break
                body = at + 16
                metadata = bytes(self.data[body:body + meta])
                payload = bytes(self.data[body + meta:body + length])
                at = body + length
                self.receive(kind, stream, flags, metadata, payload, deadline)
        except Violation as violation:
            self.leave(violation.reason, str(violation))
        del self.data[:at]

    def take(self):
        """The bytes to be written now: connection frames, calls, then a turn for each stream."""
        out = self.control + self.main
        self.control, self.main = bytearray(), bytearray()
        while self.line and len(out) < 64 << 10:
            stream = self.line.popleft()
            if stream.chunks:
                if stream.outstanding >= self.peer["stream_credit"] or \
                        self.connection_out >= self.peer["connection_credit"]:
                    stream.is_blocked = True
                    self.blocked.append(stream)
                    continue
                data, more = stream.chunks.popleft()
                stream.chunk_is_open = stream.chunk_is_open and bool(stream.chunks)
                stream.queued -= len(data)
                stream.outstanding += len(data)
                self.connection_out += len(data)
                out += put_frame(ITEMS, stream.number, MORE if more else 0, payload=data)
                stream.ring()
                if stream.chunks:
                    self.line.append(stream)
                    continue
            if stream.last is not None:
                out += stream.last
                stream.last = None
                if isinstance(stream, Incoming):
                    self.forget(stream)
        return bytes(out)

    def leave(self, reason, text=""):
        """Ends the session, and says why."""
        if self.closed is None:
            metadata = put_field(9, text.encode()) if text else b""
            metadata += self._number(16, reason)
            self.main += put_frame(GOAWAY, metadata=metadata)
            self.close(text or f"reason {reason}")

    def close(self, why):
        """The session is over: whoever waits is told."""
        if self.closed is not None:
            return
        self.closed = why
        for call in list(self.asked.values()):
            outcome = UNKNOWN if call.is_command else NOT_RUN
            self.end_asked(call, Error("unavailable", "the gateway is gone: " + why, outcome=outcome))
        for call in list(self.calls.values()):
            self.give_up(call)
        self.events.append(("closed", None))

    # -- frames that came

    def receive(self, kind, stream, flags, metadata, payload, deadline):
        if not self.is_greeted and kind not in (HELLO, GOAWAY):
            raise Violation(1, "the first frame is not a hello")
        if kind == REQUEST:
            self.on_request(stream, flags, metadata, payload, deadline)
        elif kind in (ITEMS, ENDS, CANCEL, CREDIT):
            call = self.find(kind, stream)
            if kind == ITEMS:
                self.on_items(call, flags, payload)
            elif kind == CREDIT:
                self.on_credit(call, stream, payload)
            elif call and kind == ENDS:
                self.on_end(call, metadata)
            elif call:
                self.on_cancel(call)
        elif kind in (REPLY, ERROR):
            self.on_answer(kind, stream, flags, metadata, payload)
        elif kind == PING:
            self.control += put_frame(PONG, payload=payload)
        elif kind == GOAWAY:
            fields, _, _ = read_metadata(metadata)
            reason = number_of(fields, 16, 0)
            if reason or not self.is_greeted:
                self.close(fields.get(9, b"").decode("utf-8", "replace") or f"reason {reason}")
            else:
                self.is_draining = True
                self.events.append(("draining", None))
        elif kind == HELLO:
            self.on_hello(payload, deadline)

    def find(self, kind, stream):
        if stream % 2:
            call = self.asked.get(stream)
            if call is None:
                raise Violation(8, f"stream {stream} is not open")
            return call
        return self.calls.get(stream)

    def on_hello(self, payload, magic):
        if self.is_greeted:
            raise Violation(UNEXPECTED, "a second hello")
        if magic != MAGIC:
            raise Violation(1, "not a hello")
        said, at = {}, 0
        while at < len(payload):
            tag = payload[at]
            said[tag], at = take_string(payload, at + 1)
        if said.get(1) != b"\x01\0\x01\0":
            raise Violation(2, "this side speaks version 1")
        features = number_of(said, 2, 0)
        if features & 32 == 0:
            raise Violation(3, "the gateway hosts no processes")
        names = {4: ("body_max", 4 << 20), 5: ("calls_max", 1024), 6: ("watches_max", 0), 7: ("methods_max", 1024),
                 8: ("stream_credit", 262_144), 9: ("connection_credit", 1 << 20), 10: ("metadata_max", 16_384)}
        self.peer = {name: number_of(said, tag, default) for tag, (name, default) in names.items()}
        self.is_greeted = True
        self.events.append(("ready", None))

    def on_request(self, stream, flags, metadata, payload, deadline):
        if stream == 0 or stream % 2 or stream in self.calls:
            raise Violation(9 if stream in self.calls else 10, f"a request on stream {stream}")
        fields, headers, _ = read_metadata(metadata)
        deadline = self.now() + deadline / 1000 if deadline else None
        if flags & HTTP:
            if 12 not in fields or 13 not in fields:
                raise Violation(MALFORMED, "HTTP without method or target")
            call = Incoming(stream, fields[13].decode("latin-1"), None, headers, payload, deadline)
            call.http_method = fields[12].decode("latin-1")
        else:
            codec, path = self.method(fields)
            call = Incoming(stream, path, codec, headers, payload, deadline)
        call.is_command = 3 in fields
        call.is_streaming = not flags & END
        call.is_whole = not call.is_streaming
        self.calls[stream] = call
        self.events.append(("request", call))

    def method(self, fields):
        named = None
        if 2 in fields:
            named = fields[2][0], fields[2][1:].decode("utf-8", "replace").lstrip("/")
        number = number_of(fields, 1)
        if number is None:
            if named is None:
                raise Violation(MALFORMED, "a request without a method")
            return named
        if named is not None:
            if number != len(self.methods):
                raise Violation(14, "a method's number out of turn")
            self.methods.append(named)
        if number >= len(self.methods):
            raise Violation(13, f"method {number} was not named")
        return self.methods[number]

    def on_items(self, call, flags, payload):
        size = len(payload)
        self.connection_held += size
        if call is None or not call.is_open:
            return self.consumed(None, size)
        if call.is_whole or not (call.is_streaming or isinstance(call, Outgoing)):
            raise Violation(UNEXPECTED, "items where no stream is open")
        call.held += size
        if flags & MORE or call.partial:
            call.partial += payload
            if len(call.partial) > self.body_max:
                raise Violation(4, "an item over body_max")
            # What is put together here is taken at once: it is bounded by body_max.
            self.consumed(call, size)
            if not flags & MORE:
                call.items.append((bytes(call.partial), 0))
                call.partial.clear()
        else:
            at = 0
            while at < size:
                item, at = take_string(payload, at)
                call.items.append((item, size if at == size else 0))
            if call.gathers:
                self.consumed(call, size)
        self.heard(call)

    def heard(self, call):
        self.events.append(("heard", call))
        call.ring()

    def on_end(self, call, metadata):
        if isinstance(call, Outgoing):
            call.trailers = read_metadata(metadata)[1]
            return self.end_asked(call, None)
        call.is_whole = True
        self.heard(call)

    def on_credit(self, call, stream, payload):
        amount, _ = take_varint(payload, 0)
        if stream == 0:
            self.connection_out = max(0, self.connection_out - amount)
            blocked, self.blocked = self.blocked, []
            for call in blocked:
                self.unblock(call)
        elif call:
            call.outstanding = max(0, call.outstanding - amount)
            if call.is_blocked:
                self.blocked.remove(call)
                self.unblock(call)

    def unblock(self, call):
        call.is_blocked = False
        self.line.append(call)

    def on_cancel(self, call):
        if isinstance(call, Outgoing):
            call.is_stopped = True
            return call.ring()
        if call.is_cancelled:
            return
        call.is_cancelled = True
        if not call.is_command or call.is_streaming or call.has_head:
            self.main += put_frame(ERROR, call.number, metadata=self._number(8, 1) + put_field(9, GAVE_UP))
            self.give_up(call)

    def give_up(self, call):
        """Nobody waits for the answer of a call any more."""
        self.forget(call)
        self.events.append(("cancelled", call))

    def forget(self, call):
        if self.calls.pop(call.number, None) is None:
            return
        call.is_open = False
        call.is_cancelled = True
        if call.held:
            self.consumed(None, call.held)
            call.held = 0
        call.chunks.clear()
        call.last = None
        if call.is_blocked:
            self.blocked.remove(call)
            call.is_blocked = False
        call.ring()

    def on_answer(self, kind, stream, flags, metadata, payload):
        call = self.asked.get(stream)
        if call is None:
            raise Violation(8 if stream % 2 else 10, f"an answer on stream {stream}")
        fields, headers, trailers = read_metadata(metadata)
        if flags & WATCHED or kind == REPLY and call.reply is not None and not flags & END:
            raise Violation(UNEXPECTED, "an answer that was not asked for")
        if kind == ERROR:
            code = number_of(fields, 8)
            if code is None:
                raise Violation(MALFORMED, "an error without a code")
            details = [(name.decode(), detail[at:]) for detail in fields.get(10, ())
                       for name, at in (take_string(detail, 0),)]
            code = CODES[code] if 0 < code < len(CODES) else "unknown"
            outcome = number_of(fields, 11)
            return self.end_asked(call, Error(code, fields.get(9, b"").decode("utf-8", "replace"), details, headers,
                                              trailers, outcome))
        call.reply, call.headers, call.status = payload, headers, number_of(fields, 14)
        if flags & END:
            call.trailers = trailers
            return self.end_asked(call, None)
        call.is_stream_call = True
        self.heard(call)

    def end_asked(self, call, error):
        if not call.is_open:
            return
        call.is_open, call.is_whole, call.error = False, True, error
        if call.is_stream_call and self.closed is None:
            self.control += put_frame(CREDIT, call.number, END, payload=b"\0")
        del self.asked[call.number]
        self.free.append(call.number)
        if call.is_command:
            self.ended_commands.add(call.is_command)
            while self.done in self.ended_commands:
                self.ended_commands.remove(self.done)
                self.done += 1
        call.chunks.clear()
        if call.is_blocked:
            self.blocked.remove(call)
            call.is_blocked = False
        self.heard(call)

    # -- what the application does

    def consumed(self, call, size):
        """Items were taken: the peer may send as much again."""
        self.connection_held -= size
        self.connection_owed += size
        if self.connection_owed * 4 >= 1 << 20:
            self.control += put_frame(CREDIT, payload=put_varint(self.connection_owed))
            self.connection_owed = 0
        if call is not None:
            call.held -= size
            call.owed += size
            if call.owed * 4 >= 262_144 and not call.is_whole:
                self.control += put_frame(CREDIT, call.number, payload=put_varint(call.owed))
                call.owed = 0

    def take_item(self, call):
        """The next item of a call, if it came."""
        if not call.items:
            return None
        item, cost = call.items.popleft()
        if cost and call.held and not call.gathers:
            self.consumed(call, cost)
        return item

    def ready(self):
        self.control += put_frame(READY)

    def busy(self, jobs):
        self.control += put_frame(BUSY, payload=put_varint(jobs))

    def log(self, level, text, fields):
        metadata = self._number(17, LEVELS.get(level, 3)) + put_headers(fields)
        self.control += put_frame(LOG, metadata=metadata[:16_000], payload=text.encode("utf-8", "replace")[:PAYLOAD_MAX])

    def changed(self, source, key):
        self.main += put_frame(CHANGED, payload=put_string(source.encode()) + put_string(key.encode()))

    def head(self, call, headers, trailers, depends, status, max_age):
        metadata = b"" if max_age is None else self._number(5, max_age)
        if status is not None and status != 200:
            metadata += self._number(14, status)
        metadata += put_headers(headers)
        for source, key in depends:
            metadata += put_field(15, put_string(source.encode()) + put_string(key.encode()))
        if trailers:
            metadata += b"\x07\0" + put_headers(trailers)
        if len(metadata) > self.peer["metadata_max"]:
            raise Error("internal", f"headers of {len(metadata)} bytes are over metadata_max")
        return metadata

    def reply(self, call, payload, headers=(), trailers=(), depends=(), status=None, max_age=None):
        """Answers a call whole."""
        if not call.is_open:
            return
        if len(payload) > self.peer["body_max"]:
            text = f"a reply of {len(payload)} bytes is over body_max = {self.peer['body_max']}"
            return self.fail(call, Error("resource_exhausted", text, outcome=RAN))
        if call.is_cancelled:
            return self.fail(call, None)
        http = HTTP if call.http_method else 0
        if len(payload) > SMALL_MAX:
            self.begin(call, headers, depends, status, max_age)
            self.push(call, payload)
            return self.finish(call, trailers)
        metadata = self.head(call, headers, trailers, depends, status, max_age)
        self.main += put_frame(REPLY, call.number, END | http, metadata, payload)
        self.forget(call)

    def begin(self, call, headers=(), depends=(), status=None, max_age=None):
        """Sends the head of an answer whose items follow."""
        if call.is_open and not call.has_head:
            metadata = self.head(call, headers, (), depends, status, max_age)
            call.has_head = True
            self.main += put_frame(REPLY, call.number, HTTP if call.http_method else 0, metadata)

    def push(self, call, item):
        """Queues an item; there is room for more while `queued` is small."""
        if not call.is_open or call.is_stopped:
            return
        was_idle = not call.chunks
        if len(item) > PIECE:
            for at in range(0, len(item), PIECE):
                call.chunks.append((item[at:at + PIECE], at + PIECE < len(item)))
            call.queued += len(item)
            call.chunk_is_open = False
        else:
            encoded = put_string(item)
            if call.chunk_is_open and call.chunks and len(call.chunks[-1][0]) + len(encoded) <= PIECE:
                call.chunks[-1] = call.chunks[-1][0] + encoded, False
            else:
                call.chunks.append((encoded, False))
                call.chunk_is_open = True
            call.queued += len(encoded)
        if was_idle and not call.is_blocked:
            self.line.append(call)

    def finish(self, call, trailers=()):
        """No more items: ends a call of the gateway, or the request of one of this side."""
        if call.is_open and call.last is None:
            call.last = put_frame(ENDS, call.number, metadata=put_headers(trailers))
            if not call.chunks:
                self.line.append(call)

    def fail(self, call, error):
        """Ends a call with an error; None for a command whose caller gave up."""
        if not call.is_open:
            return
        if call.is_cancelled:
            metadata = self._number(8, 1) + put_field(9, GAVE_UP) + self._number(11, RAN)
        else:
            metadata = self._number(8, CODES.index(error.code) or 2)
            if error.message:
                metadata += put_field(9, str(error.message).encode("utf-8", "replace")[:4096])
            for name, value in error.details:
                metadata += put_field(10, put_string(name.encode()) + value)
            if error.outcome is not None:
                metadata += self._number(11, error.outcome)
            metadata += put_headers(error.headers)
            if error.trailers:
                metadata += b"\x07\0" + put_headers(error.trailers)
        frame = put_frame(ERROR, call.number, metadata=metadata)
        if call.chunks:
            call.last = frame
        else:
            self.main += frame
            self.forget(call)

    def ask(self, path, codec, payload, headers=(), parent=None, is_command=True, deadline=None, streams=False):
        """Calls the gateway; None while no call is free."""
        if self.closed is not None or self.is_draining:
            raise Error("unavailable", "the gateway takes no calls any more", outcome=NOT_RUN)
        if len(self.asked) >= self.peer["calls_max"]:
            return None
        if not self.free:
            self.free.append(2 * self.slots + 1)
            self.slots += 1
        call = Outgoing(self.free.pop(), is_command and self.next_command)
        known = self.called.get((codec, path))
        metadata = self._number(1, known) if known is not None else b""
        if known is None:
            if len(self.called) < self.peer["methods_max"]:
                known = self.called[codec, path] = len(self.called)
                metadata = self._number(1, known)
            metadata += put_field(2, bytes((codec,)) + b"/" + path.encode())
        if is_command:
            metadata += put_field(3, put_varint(self.next_command) + put_varint(self.done))
            self.next_command += 1
        if parent is not None and parent.is_open and not parent.has_head:
            metadata += self._number(19, parent.number)
        metadata += put_headers(headers)
        left = 0 if deadline is None else max(1, -int(-(deadline - self.now()) * 1000 // 1))
        self.asked[call.number] = call
        is_small = not streams and len(payload) <= SMALL_MAX
        body = payload if is_small else b""
        self.main += put_frame(REQUEST, call.number, END if is_small else 0, metadata, body, left)
        call.is_stream_call = not is_small
        if not is_small and not streams:
            self.push(call, payload)
            self.finish(call)
        return call

    def cancel(self, call):
        """Gives a call of this side up; its end is not waited for."""
        if call.is_open and not call.is_cancelled:
            call.is_cancelled = True
            self.main += put_frame(CANCEL, call.number)


# ------------------------------------------------------------------------------------------------------ calls

JSON = 1


def decode(data, codec, kind=None):
    """A message: a dict of JSON; of protobuf bytes, or a message of the class that is named."""
    if kind is None:
        return json.loads(data) if codec == JSON else data
    if codec == JSON:
        from google.protobuf import json_format
        return json_format.Parse(data, kind())
    return kind.FromString(data)


def encode(value, codec):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if hasattr(value, "SerializeToString"):
        if codec != JSON:
            return value.SerializeToString()
        from google.protobuf import json_format
        return json_format.MessageToJson(value).encode()
    if codec != JSON:
        raise TypeError(f"{type(value).__name__} is no protobuf message; return bytes or a message, or write "
                        "codec = \"json\" for this service in tidewire.toml")
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Context:
    """What surrounds a call: who asks, until when, and what the answer is made of."""

    def __init__(self, app, call):
        self.app, self.call_ = app, call
        self.headers, self.path, self.deadline = call.headers, call.path, call.deadline
        self.reply_headers, self.reply_trailers = [], []
        self.max_age = None
        self._depends = []

    def header(self, name, default=None):
        """The first value of a header."""
        return next((value for known, value in self.headers if known == name.lower()), default)

    @property
    def cancelled(self):
        """Whether the caller gave up, its deadline passed among the reasons; a command runs on."""
        return self.call_.is_cancelled

    def remaining(self):
        """Seconds until the deadline; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def depends(self, source, *key):
        """The answer was made of this, and is kept until it changes."""
        self._depends.append((source, key_text(key)))

    def changed(self, source, *key):
        """This changed: whoever asks after this call is answered sees it."""
        self.app.changed(source, *key)

    def log(self, level, text, **fields):
        self.app.log(level, text, **fields)

    def call(self, path, request, **more):
        """Calls a method of the gateway as part of this call; see App.call."""
        return self.app.call(path, request, parent=self.call_, deadline=self.deadline, **more)

    def call_async(self, path, request, **more):
        return self.app.call_async(path, request, parent=self.call_, deadline=self.deadline, **more)

    def stream(self, path, requests, **more):
        return self.app.stream(path, requests, parent=self.call_, deadline=self.deadline, **more)


class Handler:
    def __init__(self, function, streams_in, streams_out, request=None):
        self.function, self.streams_in, self.streams_out, self.request = function, streams_in, streams_out, request
        self.is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


class Requests:
    """What a caller streams: an iterator for threads, and an asynchronous one for the loop."""

    def __init__(self, app, call, kind):
        self.app, self.call, self.kind = app, call, kind

    def _next(self):
        item = self.app.session.take_item(self.call)
        if item is not None:
            return (item,)
        if self.call.is_whole:
            return ()
        return ("cancelled",) * 2 if self.call.is_cancelled else None

    def _item(self, taken, end):
        self.app.flush()
        if len(taken) == 2:
            raise Cancelled()
        if not taken:
            raise end
        return decode(taken[0], self.call.codec, self.kind)

    def __iter__(self):
        return self

    def __next__(self):
        return self._item(self.app.wait(self.call, self._next), StopIteration())

    def __aiter__(self):
        return self

    async def __anext__(self):
        return self._item(await self.app.wait_async(self.call, self._next), StopAsyncIteration())


class App:
    """What a program serves. `threads` is how many sync handlers run at once."""

    def __init__(self, threads=64):
        self.handlers, self.pages, self.threads = {}, None, threads
        self.session, self.socket, self.loop = None, None, None
        self.lock, self.is_writing, self.jobs, self.free_to_ask = threading.Lock(), False, 0, []
        self.work, self.idle, self.started, self.tasks = queue.SimpleQueue(), 0, 0, {}

    # -- what is served

    def _method(self, path, streams_in, streams_out, request):
        def register(function):
            self.handlers[path.lstrip("/")] = Handler(function, streams_in, streams_out, request)
            return function
        return register

    def unary(self, path, request=None, reply=None):
        """A method with one request and one reply: `function(request, context)`."""
        return self._method(path, False, False, request)

    def server_stream(self, path, request=None, reply=None):
        """A method whose function yields replies."""
        return self._method(path, False, True, request)

    def client_stream(self, path, request=None, reply=None):
        """A method whose function is given an iterator of requests."""
        return self._method(path, True, False, request)

    def bidi_stream(self, path, request=None, reply=None):
        """A method whose function is given an iterator of requests and yields replies."""
        return self._method(path, True, True, request)

    def wsgi(self, app):
        """Serves the pages of the program's `route` by a WSGI application (PEP 3333): Flask, Django."""
        self.pages = Handler(lambda call, context: wsgi(self, app, call), True, True)

    def asgi(self, app):
        """Serves the pages of the program's `route` by an ASGI application: Starlette, FastAPI."""
        async def pages(call, context):
            await asgi(self, app, call)
        self.pages = Handler(pages, True, True)

    # -- what the program does by itself

    def changed(self, source, *key):
        """Says that a source changed: no answer that was made of it is given any more."""
        with self.lock:
            self.session.changed(source, key_text(key))
        self.flush()

    def log(self, level, text, **fields):
        """Writes a line to the gateway's log: trace, debug, info, warn or error."""
        with self.lock:
            self.session.log(level, text, [(name.replace("_", "-"), str(value)) for name, value in fields.items()])
        self.flush()

    def busy(self):
        """`with app.busy():` while there is work that is no call: the program is neither frozen nor ended."""
        return _Busy(self)

    def call(self, path, request, query=False, reply=None, **more):
        """Calls a method of the gateway, and waits. `query` where it changes nothing; the request is bytes, a
        message, or a dict for JSON; more: headers, deadline (by time.monotonic)."""
        codec, payload = _payload(request)
        call = self.wait(None, lambda: self._ask(path, codec, payload, is_command=not query, **more))
        call.gathers = True
        self.flush()
        try:
            self.wait(call, lambda: not call.is_open or None)
        except BaseException:
            self.abandon(call)
            raise
        return self._answer(call, codec, reply)

    async def call_async(self, path, request, query=False, reply=None, **more):
        """`call` in the loop."""
        codec, payload = _payload(request)
        call = await self.wait_async(None, lambda: self._ask(path, codec, payload, is_command=not query, **more))
        call.gathers = True
        self.flush()
        try:
            await self.wait_async(call, lambda: not call.is_open or None)
        except BaseException:
            self.abandon(call)
            raise
        return self._answer(call, codec, reply)

    def stream(self, path, requests, query=False, reply=None, **more):
        """Calls a method of the gateway that streams: yields its replies. Requests are sent first."""
        requests = [_payload(request) for request in requests]
        codec = requests[0][0] if requests else 0
        call = self.wait(None, lambda: self._ask(path, codec, b"", is_command=not query, streams=True, **more))
        try:
            for _, payload in requests:
                self.push(call, payload)
            with self.lock:
                self.session.finish(call)
            self.flush()
            yield from Requests(self, call, reply) if codec or reply else self._raw(call)
        finally:
            self.abandon(call)
        if call.error:
            raise call.error

    def _raw(self, call):
        call.codec = 0
        yield from Requests(self, call, None)

    def _ask(self, path, codec, payload, **more):
        call = self.session.ask(path.lstrip("/"), codec, payload, **more)
        if call is not None:
            call.codec = codec
        return call

    def _answer(self, call, codec, kind):
        if call.error:
            raise call.error
        body = call.items[0][0] if call.items else call.reply
        return decode(body, codec, kind)

    def abandon(self, call):
        with self.lock:
            self.session.cancel(call)
            self.session.consumed(None, call.held)
            call.held = 0
        self.flush()

    # -- waiting, in threads and in the loop

    def wait(self, call, ready):
        """Waits until `ready`, asked under the lock, has something."""
        while True:
            with self.lock:
                found = ready()
                if found is not None:
                    return found
                woken = threading.Event()
                (self.free_to_ask if call is None else call.bell).append(woken.set)
            self.flush()
            woken.wait()

    async def wait_async(self, call, ready):
        while True:
            with self.lock:
                found = ready()
                if found is not None:
                    return found
                woken = self.loop.create_future()
                wake = lambda: self.loop.call_soon_threadsafe(lambda: woken.done() or woken.set_result(None))
                (self.free_to_ask if call is None else call.bell).append(wake)
            self.flush()
            await woken

    def _has_room(self, call):
        return True if call.queued < 65_536 or not call.is_open or call.is_stopped else None

    def push(self, call, item):
        """Sends an item, once there is room for it."""
        self.wait(call, lambda: self._has_room(call))
        self._push(call, item)

    async def push_async(self, call, item):
        await self.wait_async(call, lambda: self._has_room(call))
        self._push(call, item)

    def _push(self, call, item):
        if call.is_cancelled:
            raise Cancelled()
        with self.lock:
            self.session.push(call, item)
        self.flush()

    def flush(self):
        """Writes what is queued; one thread at a time does, for all."""
        with self.lock:
            if self.is_writing:
                return
            self.is_writing = True
        while True:
            with self.lock:
                data = self.session.take()
                if not data:
                    self.is_writing = False
                    return
            try:
                self.socket.sendall(data)
            except OSError as error:
                with self.lock:
                    self.is_writing = False
                    self.session.close(str(error))
                return

    # -- answering

    def serve(self):
        """Serves until the gateway ends the program."""
        number = os.environ.pop("TIDEWIRE_FD", None)
        if number is None:
            sys.exit("this program is started by Tidewire: write a [[service]] with run = [...] into "
                     "tidewire.toml, and call it through `tidewire serve`")
        self.socket = socket.socket(fileno=int(number))
        self.socket.set_inheritable(False)
        self.socket.setblocking(True)
        self.session = Session()
        self.flush()
        is_async = any(handler.is_async for handler in [*self.handlers.values(), self.pages] if handler)
        if is_async:
            asyncio.run(self._serve_in_loop())
        else:
            while self._read(0):
                pass

    async def _serve_in_loop(self):
        self.loop = asyncio.get_running_loop()
        over = self.loop.create_future()

        def readable():
            try:
                if not self._read(socket.MSG_DONTWAIT) and not over.done():
                    over.set_result(None)
            except BlockingIOError:
                pass
        self.loop.add_reader(self.socket, readable)
        await over
        self.loop.remove_reader(self.socket)

    def _read(self, flags):
        """Reads once, and begins what came; whether there is more to come."""
        try:
            data = self.socket.recv(65_536, flags)
        except BlockingIOError:
            raise
        except OSError:
            data = b""
        with self.lock:
            if data:
                self.session.feed(data)
            else:
                self.session.close("it closed the socket")
            events, self.session.events = self.session.events, []
            waiting, self.free_to_ask = self.free_to_ask, []
        for wake in waiting:
            wake()
        for name, call in events:
            self._on(name, call)
        self.flush()
        with self.lock:
            is_drained = self.session.is_draining and not self.session.calls and not self.session.asked
            return self.session.closed is None and not is_drained

    def _on(self, name, call):
        if name == "ready":
            with self.lock:
                self.session.ready()
        elif name == "request":
            handler = self.pages if call.http_method else self.handlers.get(call.path)
            if handler is None:
                what = "pages" if call.http_method else f"method {call.path}"
                return self._fail(call, Error("unimplemented", f"this program serves no {what}", outcome=NOT_RUN))
            call.handler = handler
            call.gathers = not handler.streams_in
            if handler.streams_in or call.is_whole:
                self._begin(call)
        elif name == "heard" and isinstance(call, Incoming):
            if call.gathers and call.is_whole and call.is_open and not call.is_begun:
                self._begin(call)
        elif name == "cancelled" and call in self.tasks:
            self.tasks[call].cancel()

    def _begin(self, call):
        call.is_begun = True
        if call.handler.is_async:
            task = self.loop.create_task(self._run_async(call))
            self.tasks[call] = task
            task.add_done_callback(lambda _: self.tasks.pop(call, None))
            return
        with self.lock:
            is_missing = not self.idle and self.started < self.threads
            self.started += is_missing
            self.idle -= bool(self.idle)
        self.work.put(call)
        if is_missing:
            threading.Thread(target=self._worker, daemon=True).start()

    def _worker(self):
        while True:
            call = self.work.get()
            try:
                self._run(call)
            except Cancelled:
                self._fail(call, Error("canceled", "the handler gave up"))
            except BaseException as error:
                self._fail(call, self._said(error))
            with self.lock:
                self.idle += 1

    def _arguments(self, call):
        """What a handler is called with."""
        context = Context(self, call)
        if call.http_method:
            return (call, context)
        if call.handler.streams_in:
            return (Requests(self, call, call.handler.request), context)
        body = call.items[0][0] if call.items else call.payload
        return (decode(body, call.codec, call.handler.request), context)

    def _run(self, call):
        arguments = self._arguments(call)
        answer = call.handler.function(*arguments)
        if call.http_method:
            return
        context = arguments[1]
        if not call.handler.streams_out:
            return self._reply(call, context, answer)
        for item in answer:
            item = encode(item, call.codec)
            self._head(call, context)
            self.push(call, item)
        self._end(call, context)

    async def _run_async(self, call):
        try:
            arguments = self._arguments(call)
            answer = call.handler.function(*arguments)
            if call.http_method:
                return await answer
            context = arguments[1]
            if not call.handler.streams_out:
                return self._reply(call, context, await answer)
            async for item in answer:
                item = encode(item, call.codec)
                self._head(call, context)
                await self.push_async(call, item)
            self._end(call, context)
        except (Cancelled, asyncio.CancelledError):
            self._fail(call, Error("canceled", "the handler gave up"))
        except BaseException as error:
            self._fail(call, self._said(error))

    def _reply(self, call, context, answer):
        payload = encode(answer, call.codec)
        with self.lock:
            self.session.reply(call, payload, context.reply_headers, context.reply_trailers, context._depends,
                               max_age=context.max_age)
        self.flush()

    def _head(self, call, context):
        with self.lock:
            self.session.begin(call, context.reply_headers, context._depends)

    def _end(self, call, context):
        self._head(call, context)
        with self.lock:
            self.session.finish(call, context.reply_trailers)
        self.flush()

    def _said(self, error):
        """What the caller is told of a handler that failed."""
        if isinstance(error, Error):
            return error
        traceback.print_exception(type(error), error, error.__traceback__)
        return Error("internal", "the handler failed; its log says why")

    def _fail(self, call, error):
        with self.lock:
            self.session.fail(call, error)
        self.flush()


def _payload(request):
    codec = JSON if isinstance(request, (dict, list)) else 0
    return codec, encode(request, codec)


class _Busy:
    def __init__(self, app):
        self.app = app

    def _count(self, more):
        with self.app.lock:
            self.app.jobs += more
            self.app.session.busy(self.app.jobs)
        self.app.flush()

    def __enter__(self):
        self._count(1)

    def __exit__(self, *_):
        self._count(-1)


# ------------------------------------------------------------------------------------------------------ pages

class _Body(io.RawIOBase):
    """The body of a request as WSGI reads it."""

    def __init__(self, app, call):
        self.items, self.rest = _chunks(app, call), b""

    def readable(self):
        return True

    def readinto(self, into):
        self.rest = self.rest or next(self.items, b"")
        count = min(len(into), len(self.rest))
        into[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


def _chunks(app, call):
    call.codec = 0
    if call.payload:
        yield call.payload
    for item in Requests(app, call, None):
        if item:
            yield item


def _environ(app, call):
    path, _, query_text = call.path.partition("?")
    from urllib.parse import unquote_to_bytes
    prefix = next((value for name, value in call.headers if name == "x-forwarded-prefix"), "")
    host = next((value for name, value in call.headers if name == "host"), "localhost")
    environ = {
        "REQUEST_METHOD": call.http_method, "SCRIPT_NAME": prefix, "QUERY_STRING": query_text,
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"), "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": host.rpartition(":")[0] or host, "SERVER_PORT": host.rpartition(":")[2] if ":" in host else "80",
        "wsgi.version": (1, 0), "wsgi.errors": sys.stderr, "wsgi.multithread": True, "wsgi.multiprocess": False,
        "wsgi.run_once": False, "wsgi.url_scheme": "http", "wsgi.input": io.BufferedReader(_Body(app, call)),
        "wsgi.input_terminated": True,
    }
    for name, value in call.headers:
        key = name.upper().replace("-", "_")
        key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + key
        environ[key] = environ[key] + "," + value if key in environ else value
        if name == "x-forwarded-proto":
            environ["wsgi.url_scheme"] = value
    return environ


def wsgi(app, application, call):
    """Answers one page by a WSGI application."""
    head = []

    def write(data):
        if data:
            begin()
            app.push(call, data)

    def start_response(status, headers, exc_info=None):
        if exc_info and call.has_head:
            raise exc_info[1].with_traceback(exc_info[2])
        head[:] = [int(status.split(" ", 1)[0]), headers]
        return write

    def begin():
        with app.lock:
            app.session.begin(call, head[1], status=head[0])

    parts = application(_environ(app, call), start_response)
    try:
        if isinstance(parts, (list, tuple)) and len(parts) <= 1 and not call.has_head:
            with app.lock:
                return app.session.reply(call, b"".join(parts), head[1], status=head[0])
        for part in parts:
            write(part)
        begin()
        with app.lock:
            app.session.finish(call)
    finally:
        getattr(parts, "close", lambda: None)()
        app.flush()


async def asgi(app, application, call):
    """Answers one page by an ASGI application (HTTP; without lifespan)."""
    path, _, query_text = call.path.partition("?")
    from urllib.parse import unquote
    prefix = next((value for name, value in call.headers if name == "x-forwarded-prefix"), "")
    scheme = next((value for name, value in call.headers if name == "x-forwarded-proto"), "http")
    call.codec = 0
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": call.http_method, "scheme": scheme, "path": prefix + unquote(path), "raw_path": path.encode(),
        "query_string": query_text.encode(), "root_path": prefix, "client": None, "server": None,
        "headers": [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in call.headers],
    }
    requests, first, head, body_is_read = Requests(app, call, None), [call.payload], [], []

    async def receive():
        if body_is_read:
            await app.wait_async(call, lambda: True if call.is_cancelled else None)
            return {"type": "http.disconnect"}
        if first and first.pop() and not call.is_whole:
            return {"type": "http.request", "body": call.payload, "more_body": True}
        try:
            body = call.payload if call.is_whole and call.payload else await requests.__anext__()
            more = not call.is_whole or bool(call.items)
        except StopAsyncIteration:
            body, more = b"", False
        except Cancelled:
            return {"type": "http.disconnect"}
        if not more:
            body_is_read.append(True)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(message):
        if message["type"] == "http.response.start":
            head[:] = [message["status"], message.get("headers", ())]
        elif message["type"] == "http.response.body":
            body, more = bytes(message.get("body", b"")), message.get("more_body", False)
            if not more and not call.has_head:
                with app.lock:
                    app.session.reply(call, body, head[1], status=head[0])
                return app.flush()
            with app.lock:
                app.session.begin(call, head[1], status=head[0])
            if body:
                await app.push_async(call, body)
            if not more:
                with app.lock:
                    app.session.finish(call)
                app.flush()

    await application(scope, receive, send)
