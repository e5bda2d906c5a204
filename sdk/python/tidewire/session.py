"""This side of the live protocol without a socket and without threads: bytes in, bytes and calls out."""

import time
from collections import deque

from .frames import BODY_MAX, CODES, END, FEATURE_HOSTED, FEATURE_HTTP, HEAD, HTTP, MAGIC, MORE
from .frames import NOT_RUN, PAYLOAD_MAX, PIECE, RAN, REASONS, SMALL_MAX, UNCHANGED, UNKNOWN
from .frames import WATCHED, ZSTD, Error, Frame, Violation, given_up, must, put_error, put_field
from .frames import put_frame, put_headers, put_sources, put_string, put_varint, take_number, take_string, take_varint

__version__ = "0.1.0"
METADATA_MAX, CALLS_MAX, METHODS_MAX, OUTPUT_MAX = 16_384, 1024, 1024, 1 << 20
OF_CALLS, OF_BOTH = {"request", "reply", "error", "items", "end"}, {"cancel", "credit", "unknown"}
# A process has no watches and resumes nothing.
NEVER = {"stale": "unknown_stream", "resume": "unexpected", "resumed": "unexpected"}


class Call:
    """One call, of either side: what came of it, and what is to be sent."""

    def __init__(self, number, window):
        self.number, self.is_ours = number, number % 2 == 1
        self.path, self.codec, self.verb, self.headers, self.sources = "", 0, None, [], {}
        self.status, self.reply_headers, self.reply_trailers = 200, [], []
        self.deadline = self.command = self.error = None
        self.is_open, self.cancelled, self.waiting, self.on_cancel = True, False, [], None
        self.is_streaming = self.is_whole = self.has_head = self.runs_on = False
        # What comes: items with what each counts as, pieces of the next. What goes: payloads of items with
        # flags, at the end a frame without.
        self.items, self.pieces, self.out, self.queued = deque(), bytearray(), deque(), 0
        # Bytes of items without credit: received, of them taken by the program; sent.
        self.window, self.received, self.taken, self.sent = window, 0, 0, 0

    def wake(self):
        """Wakes whoever waits for something to come, to go, or to end."""
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()


class Session:
    """A connection and its calls. Its owner has a lock, and writes what `take` gives.

    Each call of the gateway is a `new_call`, of which `begin` is told when it came; who waits for room for
    a call of this side waits at `room`.
    """

    number, agent, stream_window, window = 0, "tidewire-python/" + __version__, 262_144, 1 << 20

    def __init__(self, begin=lambda call: None, new_call=Call):
        self.tell, self.new_call = begin, new_call
        self.data, self.methods, self.called, self.calls = bytearray(), [], {}, {}
        self.control, self.main, self.pong, self.line = bytearray(), bytearray(), None, deque()
        self.is_serving = True
        self.is_greeted, self.is_draining, self.closed, self.running = False, False, None, set()
        self.room, self.free, self.asked, self.next_command = Call(0, 0), [], {}, 1
        self.received = self.taken = self.sent = 0
        # What the gateway takes, by the tags of its hello, and what holds until it says another.
        self.peer = {4: 4 << 20, 5: 1024, 7: 1024, 8: 262_144, 9: 1 << 20, 10: 16_384}

    def greet(self):
        hello = put_field(1, b"\x01\0\x01\0") + put_field(2, FEATURE_HTTP | FEATURE_HOSTED)
        hello += put_field(3, FEATURE_HOSTED) + put_field(4, BODY_MAX) + put_field(16, self.agent)
        self.control += put_frame("hello", payload=hello, deadline_ms=MAGIC)

    def serve(self):
        """Takes calls from now on, or once the gateway said hello."""
        self.is_serving = True
        if self.is_greeted:
            self.control += put_frame("ready")

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
                metadata_max = METADATA_MAX if self.is_greeted else PAYLOAD_MAX
                must(head[4] <= metadata_max, "metadata_max", "metadata over the limit")
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
        of_call, where = name in OF_CALLS, f"{name} on stream {stream}"
        must(name in OF_BOTH or of_call == (stream > 0), "malformed", where)
        if name == "unknown":
            return
        must(is_ours or stream <= 2 * CALLS_MAX, "stream_number", where)
        call = self.calls.get(stream)
        must(call or not is_ours or name == "request", "unknown_stream", where)
        must(not (of_call and frame.flags & ZSTD), "feature", "compression was not offered")
        getattr(self, "on_" + name, lambda *_: None)(frame, call)

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
        features = take_number(said.get(2, b"\0"))
        must(features & FEATURE_HOSTED, "feature", "the gateway hosts no processes")
        self.peer.update((tag, take_number(said[tag])) for tag in self.peer if tag in said)
        self.is_greeted = True
        if self.is_serving:
            self.serve()
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
        call = self.new_call(frame.stream, self.stream_window)
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
        self.tell(call)

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
            while len(call.out) > 1:
                call.out.popleft()
            return
        call.cancelled = True
        # A command with one reply runs on, and says at its end that it ran.
        if call.command is None or call.is_streaming or call.has_head:
            self.main += self.error_frame(call, given_up())
            self.end(call)

    def on_reply(self, frame, call):
        self.check_answer(frame, call)
        must(not frame.flags & UNCHANGED, "malformed", "nothing to be unchanged from")
        is_end = bool(frame.flags & END)
        must(not call.has_head, "unexpected", "a second reply")
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
        call.is_open, call.error = False, error
        call.out.clear()
        self.consumed(call.received - call.taken)
        self.running.discard(call.command)
        if call.is_ours:
            del self.asked[call.number]
            self.free.append(call.number)
            if call.is_streaming and self.closed is None:
                self.control += put_frame("credit", call.number, END, payload=b"\0")
            self.room.wake()
        elif call.cancelled and call.on_cancel and not call.runs_on:
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
        out, self.control = self.control, bytearray()
        # What the program says before it is greeted waits.
        if self.is_greeted or self.closed is not None:
            out += self.main
            self.main = bytearray()
        if self.pong is not None:
            out += put_frame("pong", payload=self.pong)
            self.pong = None
        waiting = []
        while self.line and len(out) < PAYLOAD_MAX:
            call = self.line.popleft()
            frame = self.turn(call) if call.out else b""  # Of a call that has ended nothing is left.
            out += frame
            if call.out:
                (self.line if frame else waiting).append(call)
        self.line.extend(waiting)
        return bytes(out)

    def turn(self, call):
        """The next frame of a call; nothing while it has no credit."""
        payload, flags = call.out[0]
        if flags is None:
            call.out.clear()
            if not call.is_ours:
                self.end(call)
            return payload
        if self.sent >= self.peer[9] or call.sent >= self.peer[8]:
            return b""
        call.out.popleft()
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
        """The metadata of a request or an answer; sources are said in the room that is left."""
        fields += put_headers(headers)
        trailers = put_field(7, b"") + put_headers(trailers) if trailers else b""
        room = self.peer[10] - len(fields) - len(trailers)
        fields += put_sources(sources, room) + trailers
        if len(fields) > self.peer[10]:
            text = f"headers of {len(fields)} bytes are over the {self.peer[10]} that a gateway takes"
            raise Error("internal", text)
        return fields

    def begin(self, call, whole=None):
        """Sends the head of an answer whose items follow, or the whole answer."""
        if call.is_open and not call.has_head:
            if not 200 <= call.status <= 599:  # The gateway says 1xx itself, or nobody does.
                raise ValueError(f"{call.status} is no status of an answer; those are 200 to 599")
            fields = put_field(14, call.status) if call.status != 200 else b""
            trailers = () if whole is None else call.reply_trailers
            fields = self.metadata(fields, call.reply_headers, call.sources, trailers)
            flags = (0 if whole is None else END) | (HTTP if call.verb else 0)
            self.main += put_frame("reply", call.number, flags, fields, whole or b"")
            call.has_head = True
            if whole is not None:
                self.end(call)

    def status(self, call, status):
        """Answers a call of a page by a status alone."""
        call.status = status
        self.begin(call, b"")

    def enlist(self, call, payload, flags=None):
        """A call that has something to send takes turns, until the frame that is its last."""
        if not call.is_open or call.out and call.out[-1][1] is None:
            return
        if not call.out:
            self.line.append(call)
        call.out.append((payload, flags))
        call.queued += 0 if flags is None else len(payload)

    def push(self, call, item):
        """Queues an item; there is room for more while `queued` is small."""
        if len(item) > PIECE:
            for at in range(0, len(item), PIECE):
                self.enlist(call, item[at : at + PIECE], MORE if at + PIECE < len(item) else 0)
            return
        item, before = put_string(item), call.out[-1][0] if call.out else None
        if isinstance(before, bytearray) and len(before) + len(item) <= PIECE:
            before += item
            call.queued += len(item)
        else:
            self.enlist(call, bytearray(item), 0)

    def finish(self, call):
        """No more items: ends a call of the gateway, or the request of one of this side."""
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
        # A command whose caller gave up ran to its end.
        self.enlist(call, self.error_frame(call, given_up(RAN) if call.cancelled else error))

    def error_frame(self, call, error):
        sources, trailers = ((), ()) if call.cancelled else (call.sources, call.reply_trailers)
        try:
            metadata = self.metadata(put_error(error), error.headers, sources, trailers)
        except Error as wrong:  # Its headers are too long.
            metadata = self.metadata(put_error(wrong), (), sources)
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
