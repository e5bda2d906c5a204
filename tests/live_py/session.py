"""One end of a live session, sans-IO: bytes in, bytes and events out (docs/live-protocol.md, sections 3 to 8).

A seed for a worker SDK: calls of all kinds, watches, credit, resuming as a dialer, and every rule about the peer.
It offers no zstd, which the standard library of this Python does not have. Events are the dictionaries that the
conversations of the fixtures tell as `client_hears`.
"""
from codec import (END, HTTP, KEEP, MORE, NOTIFY, REASONS, SUSPECT, UNCHANGED, VALUES, WATCHED, ZSTD, Reader, Violation,
                   fields, header_bytes, hello, items, malformed, numbers, only_varint, put_entry, put_frame, put_hello,
                   put_numbers, put_string, put_varint, split)

F_ZSTD, F_HTTP, F_WATCH, F_RESUME, F_DURABLE, F_HOSTED = 1, 2, 4, 8, 16, 32
FLAGS = {"values": VALUES, "notify": NOTIFY}
PIECE = 16 << 10
NOT_RUN, UNKNOWN = 1, 2
ABORTED, UNAVAILABLE, UNAUTHENTICATED = 10, 14, 16


class Items:
    """One direction of a stream that this side sends: chunks, each one frame."""

    def __init__(self):
        self.chunks, self.next, self.sent, self.credited, self.total = [], 0, 0, 0, 0
        self.finish = self.finish_sent = False
        self.closed = True

    def push(self, item):
        if len(item) > PIECE:
            for at in range(0, len(item), PIECE):
                self.add(item[at:at + PIECE], at + PIECE < len(item))
            self.closed = True
            return
        encoded = put_string(item)
        if self.closed or len(self.chunks[-1][1]) + len(item) + 8 > PIECE:
            self.add(b"", False)
        start, data, more = self.chunks[-1]
        self.chunks[-1] = start, data + encoded, more
        self.total += len(encoded)
        self.closed = False

    def add(self, data, more):
        self.chunks.append((self.total, data, more))
        self.total += len(data)

    def take(self, window):
        """The next chunk, if the window lets it go."""
        if self.next == len(self.chunks) or self.sent - self.credited >= window:
            return None
        _, data, more = self.chunks[self.next]
        self.next, self.closed = self.next + 1, True
        self.sent += len(data)
        return data, more

    def credit(self, amount):
        if amount > self.sent - self.credited:
            raise Violation("credit", "stream")
        self.credited += amount
        self.drop()

    def drop(self):
        while self.next and self.chunks[0][0] + len(self.chunks[0][1]) <= self.credited:
            self.chunks.pop(0)
            self.next -= 1

    def rewind(self, received, credited):
        starts = [start for start, _, _ in self.chunks] + [self.total]
        if received not in starts or not self.credited <= credited <= received <= self.sent:
            raise malformed("stream bytes that are not kept")
        self.next, self.sent, self.credited, self.finish_sent = starts.index(received), received, credited, False
        self.drop()


class Call:
    """A call of this side."""

    def __init__(self, stream, details, path):
        self.stream, self.kind, self.path = stream, details["kind"], details.get("path", path)
        self.payload, self.streaming = bytes.fromhex(details["payload"]), details.get("streaming", False)
        self.validator, self.parent = bytes.fromhex(details.get("validator", "")) or None, details.get("parent")
        self.state, self.command, self.number, self.was_sent, self.key = "waiting", 0, 0, False, None
        self.suspect = self.has_head = self.repeated = False
        if "key" in details:
            self.key, self.repeated = (bytes.fromhex(details["key"]["session"]), details["key"]["id"]), True
        self.items = None
        self.received = self.consumed = self.returned = self.partial = 0
        self.load()

    def load(self):
        large = not self.streaming and len(self.payload) + 8 > PIECE
        self.items = Items() if self.streaming or large else None
        if large:
            self.items.push(self.payload)
            self.items.finish = True

    def is_command(self):
        return self.kind in ("command", "idempotent")

    def is_stream(self):
        return self.items is not None or self.has_head

    def runs_on(self):
        return self.command and not self.is_stream()


class Served:
    """A call of the peer."""

    def __init__(self, frame, number):
        self.number, self.is_stream, self.ended = number, not frame.has(END), frame.has(END)
        self.received = self.partial = self.returned = 0


class Session:
    def __init__(self, dialer, own, path=b"/hello.v1.Greeter/SayHello"):
        self.dialer, self.own, self.path = dialer, own, path
        self.id = self.secret = None
        self.calls, self.served, self.events = {}, {}, []
        self.next_command, self.answered, self.requests_out = 1, set(), 0
        self.highest_command, self.requests_in, self.writes, self.wakes = 0, 0, 0, 0
        self.later, self.kept, self.asked = [], [], {}
        self.closed, self.phase = None, "idle"
        self.conn_held = 0
        self.reset()

    def reset(self):
        self.data, self.greeted, self.control, self.main = b"", False, b"", b""
        self.names, self.peer_methods, self.line = {}, 0, []
        self.live, self.peers_live, self.listed, self.part, self.draining = False, False, [], (None, b""), False
        self.conn_owed = self.conn_out = 0
        self.unwatch, self.seen, self.asleep = [], [], False

    # -- the connection

    def connect(self):
        self.reset()
        self.phase = "wait"
        said = dict(self.own)
        if self.id:
            said.update(session=self.id, secret=self.secret)
        self.control += put_hello(said)

    def ready(self):
        self.control += put_frame("ready")

    def lose(self):
        self.phase = "idle"
        for call in list(self.calls.values()):
            if call.state == "cancelled" and not call.runs_on():
                self.free(call)
        self.emit("lost")

    def wait(self):
        """Time passes: what waits for a random moment is sent."""
        later, self.later = self.later, []
        for call in later:
            if call.state == "waiting":
                self.send(call)

    def wake(self):
        self.wakes, self.asleep = self.wakes + 1, True
        self.control += put_frame("ping", payload=self.wakes.to_bytes(8, "little"))
        self.emit("unsure")

    def output(self):
        """What to write now: connection frames, then calls, then lists, then a turn for each stream."""
        out = self.control + self.main
        for kind, streams in (("cancel", self.unwatch), ("seen", self.seen)):
            if streams:
                out += put_frame(kind, payload=put_numbers(sorted(set(streams))))
        self.control, self.main, self.unwatch, self.seen = b"", b"", [], []
        if self.phase != "open" or not self.live:
            return out
        line = [call for call in self.calls.values() if call.items and call.state == "sent"]
        while line and len(out) < 32 << 10:
            call = line.pop(0)
            chunk = self.conn_out < self.peer["connection_credit"] and call.items.take(self.peer["stream_credit"])
            if chunk:
                data, more = chunk
                self.conn_out += len(data)
                out += put_frame("items", call.stream, MORE if more else 0, payload=data)
                line.append(call)
            drained = call.items.next == len(call.items.chunks)
            if drained and call.items.finish and not call.items.finish_sent:
                call.items.finish_sent = True
                out += put_frame("end", call.stream)
        return out

    def input(self, data):
        """Reads bytes; a violation closes the session with a goaway."""
        self.data += data
        try:
            while not self.closed:
                frame, self.data = split(self.data, self.greeted, self.own_limits())
                if frame is None:
                    return
                self.greeted = True
                self.receive(frame)
        except Violation as violation:
            reason = put_entry(16, put_varint(REASONS.index(violation.reason)))
            self.main += put_frame("goaway", metadata=reason)
            self.close(violation.reason)

    def close(self, reason):
        self.closed = reason
        for call in sorted(self.calls.values(), key=lambda call: call.stream):
            self.give_up(call)
        self.emit("closed", reason=reason)

    def own_limits(self):
        defaults = {"body_max": 4 << 20, "calls_max": 1024, "watches_max": 0, "methods_max": 1024, "metadata_max": 16384,
                    "stream_credit": 262144, "connection_credit": 1 << 20, "replies_kept_max": 0}
        return {name: self.own.get(name, default) for name, default in defaults.items()}

    def ours(self, stream):
        return (stream % 2 == 1) == self.dialer

    def emit(self, event, **more):
        self.events.append(dict(more, event=event))

    # -- acting as caller

    def call(self, details):
        call = self.calls[details["stream"]] = Call(details["stream"], details, self.path)
        self.asked[call.stream] = self.writes
        if self.live:
            self.send(call)

    def push(self, stream, item):
        self.calls[stream].items.push(item)

    def end(self, stream):
        self.calls[stream].items.finish = True

    def cancel(self, stream):
        call = self.calls[stream]
        if call.state == "waiting" or self.phase != "open" and not call.runs_on():
            return self.free(call)
        if self.live and call.state == "watching":
            self.unwatch.append(stream)
        elif self.live:
            self.main += put_frame("cancel", stream)
        call.state = "cancelled"

    def reply(self, stream, payload):
        del self.served[stream]
        self.main += put_frame("reply", stream, END, payload=payload)

    def count_kept(self):
        return sum(writes == self.writes for writes in self.kept)

    def send(self, call):
        call.state, call.was_sent = "sent", True
        call.number, self.requests_out = self.requests_out, self.requests_out + 1
        metadata, limit = b"", self.peer["methods_max"]
        known = self.names.get(call.path)
        if known is None and len(self.names) < limit:
            known = self.names[call.path] = len(self.names)
            metadata += put_entry(1, put_varint(known)) + put_entry(2, b"\0" + call.path)
        elif known is None:
            metadata += put_entry(2, b"\0" + call.path)
        else:
            metadata += put_entry(1, put_varint(known))
        if call.is_command() and not call.command:
            call.command, self.next_command = self.next_command, self.next_command + 1
            self.writes += 1
        if call.command:
            metadata += put_entry(3, put_varint(call.command) + put_varint(self.done()))
        if call.validator:
            metadata += put_entry(4, call.validator)
        if call.key and self.features & F_DURABLE:
            metadata += put_entry(18, call.key[0] + put_varint(call.key[1]))
        if call.parent:
            metadata += put_entry(19, put_varint(call.parent))
        watch = FLAGS.get(call.kind, 0) if self.features & F_WATCH else 0
        flags, payload = (0, b"") if call.items else (END, call.payload)
        self.main += put_frame("request", call.stream, flags | watch, metadata, payload)

    def done(self):
        done = 1
        while done in self.answered:
            done += 1
        return done

    def free(self, call):
        del self.calls[call.stream]
        self.unwatch = [stream for stream in self.unwatch if stream != call.stream]
        self.seen = [stream for stream in self.seen if stream != call.stream]
        if call.command:
            self.answered.add(call.command)
            self.writes += 1

    def terminated(self, call):
        if call.is_stream():
            self.control += put_frame("credit", call.stream, END, payload=b"\0")
        self.free(call)

    def give_up(self, call):
        """A call ends because its session, or its place in it, is lost."""
        if call.state != "cancelled":
            unknown = call.was_sent and call.is_command()
            refused = UNAUTHENTICATED if self.closed == "unauthenticated" else UNAVAILABLE
            self.emit("failed", stream=call.stream, code=ABORTED if unknown else refused,
                     outcome=UNKNOWN if call.was_sent else NOT_RUN, watched=False)
        self.free(call)

    def suspect(self, call):
        if not call.suspect:
            call.suspect = True
            self.emit("suspect", stream=call.stream)

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
        if kind in ("ready", "busy", "log", "changed", "descriptors"):
            self.need(F_HOSTED)
        getattr(self, "on_" + kind)(frame)

    def on_hello(self, frame):
        if self.phase != "wait":
            raise Violation("unexpected", "a second hello")
        before = getattr(self, "peer", None)
        self.peer = hello(frame)
        low, high = self.peer["versions"]
        if not low <= 1 <= high or self.dialer and (low, high) != (1, 1):
            raise Violation("version", f"{low}..={high}")
        offered = self.own.get("features", 0)
        if self.peer["required"] & ~offered or self.own.get("required", 0) & ~self.peer["features"]:
            raise Violation("feature", "required")
        self.features = offered & self.peer["features"]
        self.defaults = fields(frame.metadata)[1]
        self.phase = "open"
        if not self.dialer:
            self.live = self.peers_live = True
            return
        resumed, was = self.peer["resumed"] == b"\1", self.id
        if resumed and (not was or self.peer["session"] != was):
            raise malformed("a session is resumed that was not asked for")
        self.id, self.secret = self.peer["session"] or None, self.peer["secret"] or None
        if resumed:
            self.peer.update({name: before[name] for name in self.own_limits()})
            return self.send_resume()
        if was:
            self.lose_session(was)
        self.live = self.peers_live = True
        self.requests_out = self.conn_held = 0
        self.emit("connected", resumed=False)
        self.send_waiting()

    def lose_session(self, was):
        """The peer knows nothing: what may be repeated is, the rest ends."""
        self.served = {}
        for call in sorted(self.calls.values(), key=lambda call: call.stream):
            if call.state == "cancelled":
                self.free(call)
            elif not call.was_sent:
                continue
            elif call.has_head or call.streaming or call.kind == "command" and not self.features & F_DURABLE:
                self.give_up(call)
            else:
                if call.is_command():
                    call.key = call.key or (was, call.command)
                watching = call.state == "watching"
                call.state, call.command, call.repeated = "waiting", 0, True
                call.load()
                self.later.append(call)
                if watching:
                    self.suspect(call)
        self.next_command, self.answered = 1, set()

    def send_waiting(self):
        """Commands in the order of their ids, then the rest in that of their slots."""
        for call in sorted(self.calls.values(), key=lambda call: (not call.command, call.command, call.stream)):
            if call.state == "waiting" and call not in self.later:
                self.send(call)

    def send_resume(self):
        body, previous, self.listed = b"", 0, []
        for stream, call in sorted(self.calls.items()):
            if call.state == "waiting" or call.state == "cancelled" and not call.runs_on():
                continue
            body += put_varint(stream - previous)
            previous = stream
            self.listed.append(call)
            if call.is_stream():
                body += b"\2" + put_varint(call.number) + bytes([call.has_head])
                body += put_varint(call.received) + put_varint(call.returned)
            elif call.state == "watching":
                body += b"\1" + call.validator
            else:
                body += b"\0" + put_varint(call.number)
        head = put_varint(self.conn_held) + put_varint(self.requests_out) + put_varint(len(self.listed))
        self.put_parts("resume", head + body)

    def put_parts(self, kind, payload):
        while len(payload) > 65_536:
            self.control += put_frame(kind, flags=MORE, payload=payload[:65_536])
            payload = payload[65_536:]
        self.control += put_frame(kind, payload=payload)

    def whole(self, frame, due):
        """The payload of a frame that may go on in the next; None when it does."""
        if not due or self.phase != "open":
            raise Violation("unexpected", f"a {frame.kind} that was not due")
        kind, before = self.part
        if kind not in (None, frame.kind):
            raise malformed("a frame in pieces changes its kind")
        payload = before + frame.payload
        self.part = (frame.kind, payload) if frame.has(MORE) else (None, b"")
        return None if frame.has(MORE) else payload

    def on_resume(self, frame):
        payload = self.whole(frame, not self.peers_live)
        if payload is None:
            return
        reader = Reader(payload)
        self.conn_out, self.requests_in, count = reader.varint(), reader.varint(), reader.varint()
        if count:
            raise malformed("this implementation holds no calls of an acceptor")
        self.peers_live = True
        self.put_parts("resumed", b"")
        if self.live:
            self.emit("connected", resumed=True)

    def on_resumed(self, frame):
        payload = self.whole(frame, not self.live)
        if payload is None:
            return
        reader = Reader(payload)
        bits = reader.take((len(self.listed) + 7) // 8)
        self.live = True
        for number, call in enumerate(self.listed):
            stream = call.is_stream()
            if bits[number // 8] >> number % 8 & 1:
                flags, received, credited = 0, 0, 0
                if stream:
                    flags, received, credited = reader.take(1)[0], reader.varint(), reader.varint()
                self.go_on(call, flags, received, credited)
            else:
                self.start_over(call)
        if not reader.done():
            raise malformed("a resumed that does not fit its resume")
        self.send_waiting()
        if self.peers_live:
            self.emit("connected", resumed=True)

    def go_on(self, call, flags, received, credited):
        if call.items:
            call.items.rewind(received, credited)
            call.items.finish_sent = bool(flags & 2)
        if call.state == "cancelled":
            self.main += put_frame("cancel", call.stream)
        elif call.suspect:
            call.suspect = False
            self.emit("confirmed", stream=call.stream)

    def start_over(self, call):
        if call.state == "cancelled":
            return self.free(call)
        if call.has_head:
            return self.give_up(call)
        if call.items:
            call.items.rewind(0, 0)
        watching = call.state == "watching"
        call.state = "waiting"
        if watching:
            self.later.append(call)
            self.suspect(call)

    def slots(self):
        return self.own_limits()["calls_max"] + self.own_limits()["watches_max"]

    def on_request(self, frame):
        stream, limits = frame.stream, self.own_limits()
        if self.ours(stream) or (stream - 1) // 2 >= self.slots():
            raise Violation("stream_number", str(stream))
        if stream in self.served:
            raise Violation("stream_in_use", str(stream))
        if len(self.served) >= limits["calls_max"]:
            raise Violation("calls_max", str(stream))
        found, _, _ = fields(frame.metadata)
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
            self.check_command(*found["command"], limits)
        if "key" in found:
            self.need(F_DURABLE)
        if "parent" in found:
            self.need(F_HOSTED)
        self.served[stream] = Served(frame, self.requests_in)
        self.requests_in += 1
        self.emit("request", stream=stream, payload=payload.hex())

    def check_method(self, found, limits):
        if "name" in found:
            codec, path = found["name"]
            if codec > 1 or not path.startswith(b"/"):
                raise malformed("a method's name")
            if "method" not in found:
                return
            if found["method"] != self.peer_methods or found["method"] >= limits["methods_max"]:
                raise Violation("methods_max", "out of turn")
            self.peer_methods += 1
        elif "method" not in found:
            raise malformed("no method")
        elif found["method"] >= self.peer_methods:
            raise Violation("unknown_method", str(found["method"]))

    def check_command(self, number, done, limits):
        ahead = limits["replies_kept_max"] + limits["calls_max"]
        if number == 0 or number > max(self.highest_command, done - 1) + ahead:
            raise Violation("command_id", str(number))
        self.highest_command = max(self.highest_command, number)
        running = getattr(self, "running", set())
        if number in running:
            raise Violation("command_id", "it runs")
        self.running = running | {number}

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
        found, _, _ = fields(frame.metadata)
        if frame.has(HTTP):
            self.need(F_HTTP)
        if found["depends"]:
            self.need(F_HOSTED)
        payload, call = self.payload(frame), self.open_call(frame.stream)
        end, watched, unchanged = frame.has(END), frame.has(WATCHED), frame.has(UNCHANGED)
        if call.has_head and not end:
            raise Violation("unexpected", "a second reply on a stream")
        if unchanged and payload or end and watched:
            raise malformed("flags that exclude each other")
        self.check_watched(call, watched, frame.has(SUSPECT), found)
        if watched and frame.has(MORE) and payload or not end and not watched and payload:
            raise malformed("a payload where none may be")
        if not end and not watched and call.state == "watching":
            raise Violation("unexpected", "a stream on a watch")
        if unchanged and call.validator is None:
            raise malformed("unchanged from what")
        cancelled = call.state == "cancelled"
        if not cancelled:
            then = "nothing" if end else "watch" if watched else "items"
            self.emit("reply", stream=frame.stream, payload=payload.hex(), then=then, unchanged=unchanged,
                     suspect=frame.has(SUSPECT), large=frame.has(MORE))
            if "max_age" in found:
                self.kept.append(self.asked[frame.stream])
        if end:
            self.terminated(call)
        elif watched:
            self.granted(call, frame, found)
        else:
            call.has_head = True

    def check_watched(self, call, watched, suspect, found):
        if watched and (call.kind not in FLAGS or call.is_stream()):
            raise Violation("unexpected", "a watch that nobody asked for")
        if watched and call.kind == "notify" and call.state == "watching":
            raise Violation("unexpected", "a second value of a watch that is notified")
        if watched and call.kind == "notify" and suspect:
            raise Violation("unexpected", "SUSPECT for a watch that is notified")
        if watched and "validator" not in found:
            raise malformed("a watch without validator")

    def granted(self, call, frame, found):
        call.validator, call.suspect = found["validator"], frame.has(SUSPECT)
        if call.state != "cancelled":
            call.state = "watching"
            if call.kind == "values":
                self.seen.append(call.stream)

    def on_error(self, frame):
        found, _, _ = fields(frame.metadata)
        call, watched = self.open_call(frame.stream), frame.has(WATCHED)
        if "code" not in found:
            raise malformed("an error without code")
        self.check_watched(call, watched, frame.has(SUSPECT), found)
        cancelled, outcome = call.state == "cancelled", found.get("outcome")
        if call.repeated and outcome in (NOT_RUN, 4):
            outcome = UNKNOWN
        if watched:
            self.granted(call, frame, found)
        else:
            self.terminated(call)
        if not cancelled:
            self.emit("failed", stream=frame.stream, code=found["code"], outcome=outcome, watched=watched)
            if watched and frame.has(SUSPECT):
                self.emit("suspect", stream=frame.stream)

    def on_items(self, frame):
        payload, limits = self.payload(frame), self.own_limits()
        size = len(payload)
        if self.conn_held + self.conn_owed >= limits["connection_credit"]:
            raise Violation("credit", "connection")
        self.conn_held += size
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
        if state.received - state.returned >= limits["stream_credit"]:
            raise Violation("credit", "stream")
        state.received += size
        self.take_items(frame, state, payload, limits)
        if isinstance(state, Call):
            state.consumed += size
            if state.consumed - state.returned >= -(-limits["stream_credit"] // 4):
                self.control += put_frame("credit", frame.stream, payload=put_varint(state.consumed - state.returned))
                state.returned = state.consumed
            self.consume(size)

    def take_items(self, frame, state, payload, limits):
        if not frame.has(MORE) and not state.partial:
            found = [item.hex() for item in items(payload)]
            if getattr(state, "state", "") != "cancelled":
                self.emit("items", stream=frame.stream, items=found)
            return
        whole = state.partial + len(payload)
        if not payload:
            raise malformed("an empty piece")
        if whole > limits["body_max"]:
            raise Violation("too_large", "an item")
        state.partial = whole if frame.has(MORE) else 0
        if getattr(state, "state", "") != "cancelled":
            self.emit("piece", stream=frame.stream, bytes=len(payload), last=not frame.has(MORE))

    def consume(self, size):
        self.conn_held -= size
        self.conn_owed += size
        if self.conn_owed >= -(-self.own_limits()["connection_credit"] // 4):
            self.control += put_frame("credit", payload=put_varint(self.conn_owed))
            self.conn_owed = 0

    def on_end(self, frame):
        fields(frame.metadata)
        if self.ours(frame.stream):
            call = self.open_call(frame.stream)
            if not call.has_head:
                raise Violation("unexpected", "an end before the head")
            cancelled = call.state == "cancelled"
            self.terminated(call)
            if not cancelled:
                self.emit("end", stream=frame.stream)
        elif frame.stream in self.served:
            served = self.served[frame.stream]
            if not served.is_stream or served.ended:
                raise Violation("unexpected", "an end where no stream is open")
            served.ended = True
            self.emit("end", stream=frame.stream)

    def on_cancel(self, frame):
        if frame.stream == 0:
            streams = numbers(frame.payload)
            if any(self.ours(stream) for stream in streams):
                raise malformed("a cancel of the wrong side's watches")
        elif self.ours(frame.stream):
            call = self.open_call(frame.stream)
            if call.items and not call.items.finish:
                call.items.finish = True
                del call.items.chunks[call.items.next:]
                self.emit("stop", stream=frame.stream)
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
            if call.items:
                call.items.credit(amount)
            if frame.has(END):
                raise Violation("unexpected", "a callee's acknowledgement")
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

    def on_pong(self, frame):
        if self.asleep and frame.payload == self.wakes.to_bytes(8, "little"):
            self.asleep = False
            self.emit("sure")

    def on_stale(self, frame):
        for stream in numbers(frame.payload):
            if not self.ours(stream):
                raise malformed("stale of the wrong side's watches")
            call = self.calls.get(stream)
            if call is None or call.state not in ("watching", "cancelled"):
                raise Violation("unknown_stream", str(stream))
            if frame.has(KEEP):
                if call.state == "watching" and call.kind == "notify":
                    raise Violation("unexpected", "KEEP of a watch that is notified")
                if call.state == "watching":
                    self.suspect(call)
                continue
            if call.state == "watching":
                self.emit("stale", stream=stream)
            self.free(call)

    def on_seen(self, frame):
        if any(self.ours(stream) for stream in numbers(frame.payload)):
            raise malformed("seen of the wrong side's watches")

    def on_goaway(self, frame):
        found, _, _ = fields(frame.metadata)
        reason = found.get("reason", 0)
        name = REASONS[reason] if reason < len(REASONS) else "internal"
        if self.phase != "open" and self.id or name in ("handshake_timeout", "keep_alive", "taken_over"):
            return self.lose()
        if name != "drain" or self.phase != "open":
            return self.close(name)
        self.draining = True
        self.emit("draining", grace_ms=frame.deadline_ms, after_ms=found.get("after", 0))

    def on_auth(self, frame):
        found, headers, _ = fields(frame.metadata)
        if "code" in found or "expires" in found:
            return self.emit("credential", expires_ms=found.get("expires", 0), refused=found.get("code"))
        replaced = {name for name, _ in headers}
        merged = [header for header in self.defaults if header[0] not in replaced] + [it for it in headers if it[1]]
        size, limit = header_bytes(merged), self.own_limits()["metadata_max"]
        if size > max(header_bytes(self.defaults), limit):
            raise Violation("metadata_max", f"default headers of {size} bytes")
        self.defaults = merged

    def on_ready(self, frame):
        pass

    def on_busy(self, frame):
        only_varint(frame.payload)

    def on_log(self, frame):
        fields(frame.metadata)
        frame.payload.decode()

    def on_changed(self, frame):
        reader = Reader(frame.payload)
        while not reader.done():
            reader.string(), reader.string()

    def on_descriptors(self, frame):
        self.whole(frame, True)
