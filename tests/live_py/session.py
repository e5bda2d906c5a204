"""One end of a live session, sans-IO: bytes in, bytes and events out (docs/live-protocol.md, sections 3 to 8).

A seed for a worker SDK: calls of all kinds, watches, credit, resuming as a dialer, and every rule about the peer.
It offers no zstd, which the standard library of this Python does not have.
"""
from codec import (END, HTTP, KEEP, NOTIFY, REASONS, UNCHANGED, VALUES, WATCHED, ZSTD, Reader, Violation, fields, hello,
                   items, malformed, numbers, only_varint, put_entry, put_frame, put_hello, put_string, put_varint, split)

F_ZSTD, F_HTTP, F_WATCH, F_RESUME = 1, 2, 4, 8
FLAGS = {"values": VALUES, "notify": NOTIFY}


class Call:
    """A call of this side."""

    def __init__(self, stream, kind, payload):
        self.stream, self.kind, self.payload = stream, kind, payload
        self.state, self.command, self.number, self.validator = "waiting", 0, 0, None
        self.is_stream, self.has_head = kind == "stream", False
        self.queue, self.kept, self.sent, self.credited = [], [], 0, 0
        self.received = self.consumed = self.returned = 0
        self.finish = self.finish_sent = False


class Served:
    """A call of the peer."""

    def __init__(self, frame, number):
        self.number, self.is_stream, self.ended = number, not frame.has(END), frame.has(END)
        self.received, self.watched = 0, False


class Session:
    def __init__(self, dialer, own, path=b"/hello.v1.Greeter/SayHello"):
        self.dialer, self.own, self.path = dialer, own, path
        self.id = self.secret = None
        self.calls, self.served, self.events = {}, {}, []
        self.next_command, self.answered, self.requests_out = 1, set(), 0
        self.highest_command = 0
        self.closed, self.phase = None, "idle"
        self.reset()

    def reset(self):
        self.data, self.greeted = b"", False
        self.control, self.main = b"", b""
        self.named, self.peer_methods = 0, 0
        self.live, self.listed = False, []
        self.requests_in = 0
        self.conn_held = self.conn_owed = self.conn_out = 0

    # -- the connection

    def connect(self):
        held = self.conn_held
        self.reset()
        self.conn_held = held
        self.phase = "wait"
        said = dict(self.own)
        if self.id:
            said.update(session=self.id, secret=self.secret)
        self.control += put_hello(said)

    def lose(self):
        self.phase = "idle"
        self.calls = {stream: call for stream, call in self.calls.items() if call.state != "cancelled"}

    def output(self):
        """What to write now: connection frames, then calls, then items."""
        out, self.control, self.main = self.control + self.main, b"", b""
        if self.phase != "open" or not self.live:
            return out
        for call in self.calls.values():
            window = self.peer["stream_credit"]
            if call.queue and call.sent - call.credited < window and self.conn_out < self.peer["connection_credit"]:
                chunk, call.queue = b"".join(call.queue), []
                call.kept.append((call.sent, chunk))
                call.sent += len(chunk)
                self.conn_out += len(chunk)
                out += put_frame("items", call.stream, payload=chunk)
            if call.finish and not call.queue and not call.finish_sent:
                call.finish_sent = True
                out += put_frame("end", call.stream)
        return out

    def input(self, data):
        """Reads bytes; a violation closes the session with a goaway."""
        self.data += data
        try:
            while not self.closed:
                limits = self.own_limits()
                frame, self.data = split(self.data, self.greeted, limits)
                if frame is None:
                    return
                self.greeted = True
                self.receive(frame)
        except Violation as violation:
            self.closed = violation.reason
            self.main += put_frame("goaway", metadata=put_entry(16, put_varint(REASONS.index(violation.reason))))

    def own_limits(self):
        defaults = {"frame_max": 4 << 20, "calls_max": 1024, "watches_max": 0, "methods_max": 1024, "metadata_max": 16384,
                    "stream_credit": 262144, "connection_credit": 1 << 20, "commands_max": 0}
        return {name: self.own.get(name, default) for name, default in defaults.items()}

    def ours(self, stream):
        return (stream % 2 == 1) == self.dialer

    # -- acting as caller

    def call(self, kind, payload, stream):
        call = self.calls[stream] = Call(stream, kind, payload)
        if self.live:
            self.send(call)

    def push(self, stream, item):
        self.calls[stream].queue.append(put_string(item))

    def end(self, stream):
        self.calls[stream].finish = True

    def cancel(self, stream):
        call = self.calls[stream]
        watch = call.state == "watching"
        call.state = "cancelled"
        self.main += put_frame("cancel", payload=put_varint(stream)) if watch else put_frame("cancel", stream)

    def send(self, call):
        call.state = "sent"
        call.number, self.requests_out = self.requests_out, self.requests_out + 1
        metadata = put_entry(1, put_varint(0))
        if not self.named:
            self.named = 1
            metadata += put_entry(2, b"\0" + self.path)
        if call.kind == "command":
            if not call.command:
                call.command, self.next_command = self.next_command, self.next_command + 1
            metadata += put_entry(3, put_varint(call.command) + put_varint(self.done()))
        if call.validator:
            metadata += put_entry(4, call.validator)
        flags = FLAGS.get(call.kind, 0) | (0 if call.kind == "stream" else END)
        self.main += put_frame("request", call.stream, flags, metadata, call.payload)

    def done(self):
        done = 1
        while done in self.answered:
            done += 1
        return done

    def terminated(self, call):
        del self.calls[call.stream]
        if call.command:
            self.answered.add(call.command)
        if call.is_stream:
            self.control += put_frame("credit", call.stream, END, payload=b"\0")

    # -- receiving

    def receive(self, frame):
        kind = frame.kind
        if kind is None:
            return
        if self.phase == "wait" and kind not in ("hello", "goaway"):
            raise Violation("unexpected", "a frame before the hello")
        if kind in ("request", "reply", "error", "items", "end") and frame.stream == 0:
            raise malformed("a call's frame on stream 0")
        if kind not in ("request", "reply", "error", "items", "end", "cancel", "credit") and frame.stream != 0:
            raise malformed("a connection's frame on a stream")
        if kind in ("reply", "error") and not self.ours(frame.stream):
            raise Violation("stream_number", "an answer on a number of its sender")
        getattr(self, "on_" + kind)(frame)

    def on_hello(self, frame):
        if self.phase != "wait":
            raise Violation("unexpected", "a second hello")
        self.peer = hello(frame)
        low, high = self.peer["versions"]
        if not low <= 1 <= high or self.dialer and (low, high) != (1, 1):
            raise Violation("version", f"{low}..={high}")
        offered = self.own.get("features", 0)
        if self.peer["required"] & ~offered or self.own.get("required", 0) & ~self.peer["features"]:
            raise Violation("feature", "required")
        self.features = offered & self.peer["features"]
        self.phase = "open"
        if not self.dialer:
            self.live = True
            return
        resumed = self.peer["resumed"] == b"\1"
        self.id, self.secret = self.peer["session"] or None, self.peer["secret"] or None
        if resumed:
            self.send_resume()
        else:
            self.live, self.requests_out = True, 0
            self.send_waiting()

    def send_waiting(self):
        for call in list(self.calls.values()):
            if call.state == "waiting":
                self.send(call)

    def send_resume(self):
        body, previous, self.listed = b"", 0, []
        for stream, call in sorted(self.calls.items()):
            if call.state not in ("sent", "watching"):
                continue
            body += put_varint(stream - previous)
            previous = stream
            self.listed.append(call)
            if call.is_stream:
                flags = 1 if call.has_head else 0
                body += b"\2" + put_varint(call.number) + bytes([flags])
                body += put_varint(call.received) + put_varint(call.returned)
            elif call.state == "watching":
                body += b"\1" + call.validator
            else:
                body += b"\0" + put_varint(call.number)
        head = put_varint(self.conn_held) + put_varint(self.requests_out) + put_varint(len(self.listed))
        self.control += put_frame("resume", payload=head + body)

    def on_resume(self, frame):
        if not self.dialer or self.phase != "open" or self.requests_in is None or not self.listed_pending():
            raise Violation("unexpected", "a resume that was not due")
        reader = Reader(frame.payload)
        self.conn_out, self.requests_in, count = reader.varint(), reader.varint(), reader.varint()
        if count:
            raise malformed("this implementation holds no calls of an acceptor")
        self.control += put_frame("resumed")

    def listed_pending(self):
        return not self.live

    def on_resumed(self, frame):
        if self.live or self.phase != "open":
            raise Violation("unexpected", "a resumed that was not due")
        bitmap = (len(self.listed) + 7) // 8
        reader = Reader(frame.payload)
        bits = reader.take(bitmap)
        for number, call in enumerate(self.listed):
            goes_on = bits[number // 8] >> number % 8 & 1
            if goes_on and call.is_stream:
                flags = reader.take(1)[0]
                self.rewind(call, reader.varint(), reader.varint())
                call.finish_sent = bool(flags & 2)
            elif not goes_on:
                call.state = "waiting"
                if call.is_stream:
                    self.rewind(call, 0, 0)
        self.live = True
        self.send_waiting()

    def rewind(self, call, received, credited):
        chunks = [chunk for start, chunk in call.kept if start >= received]
        call.kept = [(start, chunk) for start, chunk in call.kept if start < received]
        call.queue, call.sent, call.credited = chunks + call.queue, received, credited

    def slots(self):
        return self.own_limits()["calls_max"] + self.own_limits()["watches_max"]

    def on_request(self, frame):
        stream, limits = frame.stream, self.own_limits()
        if self.ours(stream) or (stream - 1) // 2 >= self.slots():
            raise Violation("stream_number", str(stream))
        if stream in self.served:
            raise Violation("stream_in_use", str(stream))
        if sum(not served.watched for served in self.served.values()) >= limits["calls_max"]:
            raise Violation("calls_max", str(stream))
        found, headers, _ = fields(frame.metadata)
        if frame.has(HTTP):
            self.need(F_HTTP)
            if "http_method" not in found or "target" not in found:
                raise malformed("HTTP without method or target")
        else:
            self.check_method(found, limits)
        payload = self.payload(frame)
        if not frame.has(END) and payload:
            raise malformed("a payload without END")
        if "command" in found:
            self.check_command(found["command"][0], limits)
        self.served[stream] = Served(frame, self.requests_in)
        self.requests_in += 1
        self.events.append(("request", stream, payload, headers))

    def check_method(self, found, limits):
        if "method" not in found:
            raise malformed("no method")
        if "name" in found:
            if found["method"] != self.peer_methods or found["method"] >= limits["methods_max"]:
                raise Violation("methods_max", "out of turn")
            self.peer_methods += 1
        elif found["method"] >= self.peer_methods:
            raise Violation("unknown_method", str(found["method"]))

    def check_command(self, number, limits):
        if number == 0 or number > self.highest_command + limits["commands_max"] + limits["calls_max"]:
            raise Violation("command_id", str(number))
        self.highest_command = max(self.highest_command, number)

    def need(self, feature):
        if not self.features & feature:
            raise Violation("feature", "not in force")

    def payload(self, frame):
        if frame.has(ZSTD):
            self.need(F_ZSTD)
        return frame.payload

    def open_call(self, stream):
        call = self.calls.get(stream)
        if call is None or call.state == "waiting" or not self.live:
            raise Violation("unknown_stream", str(stream))
        return call

    def on_reply(self, frame):
        found, headers, trailers = fields(frame.metadata)
        if frame.has(HTTP):
            self.need(F_HTTP)
        payload, call = self.payload(frame), self.open_call(frame.stream)
        if call.has_head:
            raise Violation("unexpected", "a second reply on a stream")
        end, watched, unchanged = frame.has(END), frame.has(WATCHED), frame.has(UNCHANGED)
        if unchanged and payload or end and watched:
            raise malformed("flags that exclude each other")
        if watched and (call.kind not in FLAGS or call.is_stream):
            raise Violation("unexpected", "a watch that nobody asked for")
        if watched and "validator" not in found:
            raise malformed("a watch without validator")
        if not end and not watched and payload:
            raise malformed("the head of a stream has a payload")
        if unchanged and call.validator is None:
            raise malformed("unchanged from what")
        cancelled = call.state == "cancelled"
        if end:
            self.terminated(call)
        elif watched:
            call.state, call.validator = ("cancelled" if cancelled else "watching"), found["validator"]
        else:
            call.is_stream = call.has_head = True
        if not cancelled:
            self.events.append(("reply", frame.stream, payload, headers, trailers))

    def on_error(self, frame):
        found, _, _ = fields(frame.metadata)
        call = self.open_call(frame.stream)
        if "code" not in found:
            raise malformed("an error without code")
        self.terminated(call)
        self.events.append(("error", frame.stream, found["code"], found.get("message", ""), found["detail"]))

    def on_items(self, frame):
        payload, limits = self.payload(frame), self.own_limits()
        size = len(payload)
        if self.conn_held + self.conn_owed >= limits["connection_credit"]:
            raise Violation("credit", "connection")
        self.conn_held += size
        found = items(payload)
        if self.ours(frame.stream):
            call = self.open_call(frame.stream)
            state = call if call.has_head else None
        else:
            if (frame.stream - 1) // 2 >= self.slots():
                raise Violation("unknown_stream", str(frame.stream))
            if frame.stream not in self.served:
                return self.consume(size)
            served = self.served[frame.stream]
            state = served if served.is_stream and not served.ended else None
        if state is None:
            raise Violation("unexpected", "items where no stream is open")
        if state.received - getattr(state, "returned", 0) >= limits["stream_credit"]:
            raise Violation("credit", "stream")
        state.received += size
        self.events.append(("items", frame.stream, found))
        if isinstance(state, Call):
            state.consumed += size
            if state.consumed - state.returned >= -(-limits["stream_credit"] // 4):
                self.control += put_frame("credit", frame.stream, payload=put_varint(state.consumed - state.returned))
                state.returned = state.consumed
            self.consume(size)

    def consume(self, size):
        self.conn_held -= size
        self.conn_owed += size
        if self.conn_owed >= -(-self.own_limits()["connection_credit"] // 4):
            self.control += put_frame("credit", payload=put_varint(self.conn_owed))
            self.conn_owed = 0

    def on_end(self, frame):
        _, headers, _ = fields(frame.metadata)
        if self.ours(frame.stream):
            call = self.open_call(frame.stream)
            if not call.has_head:
                raise Violation("unexpected", "an end before the head")
            self.terminated(call)
        elif frame.stream in self.served:
            served = self.served[frame.stream]
            if not served.is_stream or served.ended:
                raise Violation("unexpected", "an end where no stream is open")
            served.ended = True
        self.events.append(("end", frame.stream, headers))

    def on_cancel(self, frame):
        if frame.stream == 0:
            streams = numbers(frame.payload)
            if any(self.ours(stream) for stream in streams):
                raise malformed("a cancel of the wrong side's watches")
        elif self.ours(frame.stream):
            self.open_call(frame.stream).finish = True
            return
        else:
            streams = [frame.stream]
        for stream in streams:
            if (stream - 1) // 2 >= self.slots():
                raise Violation("stream_number", str(stream))
            if self.served.pop(stream, None):
                self.main += put_frame("error", stream, metadata=put_entry(8, b"\1"))

    def on_credit(self, frame):
        amount = only_varint(frame.payload)
        if frame.stream == 0:
            if amount > self.conn_out:
                raise Violation("credit", "connection")
            self.conn_out -= amount
        elif self.ours(frame.stream):
            call = self.open_call(frame.stream)
            if amount > call.sent - call.credited:
                raise Violation("credit", "stream")
            call.credited += amount
            call.kept = [(start, chunk) for start, chunk in call.kept if start + len(chunk) > call.credited]
        elif frame.stream in self.served:
            # As callee this implementation sends no items: nothing is outstanding, no end was sent.
            if amount:
                raise Violation("credit", "stream")
            if frame.has(END):
                raise Violation("unexpected", "an end acknowledged that was not sent")

    def on_ping(self, frame):
        if len(frame.payload) > 64:
            raise malformed("a long ping")
        self.control += put_frame("pong", payload=frame.payload)

    def on_stale(self, frame):
        for stream in numbers(frame.payload):
            if not self.ours(stream):
                raise malformed("stale of the wrong side's watches")
            call = self.calls.get(stream)
            if call is None or call.state not in ("watching", "cancelled"):
                raise Violation("unknown_stream", str(stream))
            if not frame.has(KEEP):
                del self.calls[stream]
            if call.state == "watching":
                self.events.append(("suspect" if frame.has(KEEP) else "stale", stream))

    def on_goaway(self, frame):
        found, _, _ = fields(frame.metadata)
        reason = found.get("reason", 0)
        name = REASONS[reason] if reason < len(REASONS) else "internal"
        if name != "drain":
            self.closed = name
        self.events.append(("goaway", name))

    def on_auth(self, frame):
        self.events.append(("auth", fields(frame.metadata)[1]))

    def on_pong(self, frame):
        pass

    def on_ready(self, frame):
        self.events.append(("ready",))

    def on_busy(self, frame):
        self.events.append(("busy", only_varint(frame.payload)))

    def on_log(self, frame):
        found, headers, _ = fields(frame.metadata)
        self.events.append(("log", found.get("level", 3), frame.payload.decode(), headers))

    def on_changed(self, frame):
        reader, found = Reader(frame.payload), []
        while not reader.done():
            found.append((reader.string(), reader.string()))
        self.events.append(("changed", found))
