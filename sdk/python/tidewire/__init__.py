"""Serve methods and pages behind a Tidewire gateway, by this folder and the standard library.

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

 bytes ─▶ Frame ─▶ Session: calls, credit ─▶ App: handlers, pages ─▶ Session ─▶ bytes
         frames.py          session.py          this file: a socket, threads, an event loop; pages.py

Python 3.9 and newer. Modules that take long to import are imported where they are needed: a program
starts with its first call.
"""

import json
import math
import os
import queue
import socket
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager
from functools import cached_property, partial

from .frames import BEHIND, LEVELS, NOT_RUN, PAYLOAD_MAX, RAN, TOKEN, UNKNOWN, Error, Principal, cut, given_up
from .frames import key_text, log_field, put_field, put_frame, put_headers, put_string, put_varint, unicode
from .session import Call, Session, __version__

__all__ = ["App", "Context", "Error", "Principal", "NOT_RUN", "UNKNOWN", "RAN", "BEHIND", "__version__"]


class Folders(list):
    """This package, and folders `tidewire` of `sys.path`: protoc writes `tidewire/v1/options_pb2.py` into one."""

    def __iter__(self):
        yield from super().__iter__()
        yield from (os.path.join(entry, __name__) for entry in sys.path if os.path.isdir(os.path.join(entry, __name__, "v1")))


__path__ = Folders(__path__)
JSON, GRACE = 1, 2  # The number of a codec, and the seconds in which the last word is read.
# Seconds: who takes no longer is quick, and how long the socket is left alone for one that was.
QUICK, PATIENCE = 0.0002, 0.005

# -- calls -----------------------------------------------------------------------------------------


class Context(Call):
    """A call of the gateway, for its handler: who asks, and what the answer is made of.

    `reply_headers` and `reply_trailers` are lists of pairs; `cancelled` is whether the caller gave up, its
    deadline passed among the reasons (a command runs on). Of a stream it iterates over the requests.
    """

    def __init__(self, app, number, window):
        super().__init__(number, window)
        self.app, self.changed, self.log = app, app.changed, app.log

    def header(self, name, default=None):
        """The first value of a header."""
        return next((value for known, value in self.headers if known == name.lower()), default)

    @cached_property
    def principal(self):
        """Who calls, as the gateway found out: a Principal, or None."""
        return Principal.of(self.header("tidewire-principal"))

    def remaining(self):
        """Seconds until the deadline; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def until_cancelled(self):
        """Waits until the caller gave up."""
        in_this_thread(self.app.wait(self, lambda: self.cancelled or None))

    def depends(self, source, *key):
        """The answer was made of this, and is kept until it changes."""
        self.sources[unicode(source).encode(), key_text(key).encode()] = None

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


# -- application -----------------------------------------------------------------------------------
def decode(data, codec):
    return json.loads(data) if codec == JSON else data


def _json(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _spelled(value):
    """A document with floats that are no number as protobuf's JSON spells them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _spelled(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(member) for member in value]
    return value


def encode(value, codec):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if codec == JSON:
        value = {} if value is None else value
        try:
            return _json(value)
        except ValueError:
            return _json(_spelled(value))
    what = type(value).__name__
    raise TypeError(f'{what} is not bytes; write codec = "json" for this service in tidewire.toml')


def encode_answer(value, codec):
    """As `encode`, of what a handler gives: nothing is a `return` that was forgotten."""
    if value is None:
        raise TypeError("the handler returned None; return {} (or b\"\") for a message without fields")
    return encode(value, codec)


def check_headers(headers):
    """Headers that a handler gives: one that cannot be sent is its mistake, not to be passed over."""
    for name, value in headers:
        text = name.decode("latin-1") if isinstance(name, bytes) else name
        if not TOKEN.fullmatch(text.lower()):
            raise ValueError(f"reply header {text!r} has a name that no header can have")
        if any(character in (b"\r\n\0" if isinstance(value, bytes) else "\r\n\0") for character in value):
            raise ValueError(f"reply header {name!r} has a CR, LF or NUL in its value; take it out")


def in_this_thread(coroutine):
    """Runs what waits for nothing but this thread: see `App.wait`."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError("await the asynchronous form of this in an `async` handler")


def handler_failed():
    return Error("internal", "the handler failed; its log says why")


def tell(error):
    """Shows what a handler raised; a hook that raises itself must not end the thread of the call."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:
        sys.__excepthook__(type(error), error, error.__traceback__)


async def one_by_one(values):
    for value in values:
        yield value


class App:
    """What a program serves. `threads` is how many functions that are not `async` run at once, beside those
    that wait for calls of their own."""

    def __init__(self, threads=64):
        self.handlers, self.pages, self.threads, self.jobs = {}, (None, False), threads, 0
        self.session, self.socket = Session(self.begin, partial(Context, self)), None
        self.loop = self.loop_thread = None
        self.is_writing = self.is_forked = False
        self._lock()
        # Threads that have no work, less the work that has no thread; all; those that wait for the gateway; who.
        self.work, self.idle, self.started, self.away = queue.SimpleQueue(), 0, 0, 0
        self.workers = set()
        # The thread that reads, what it runs itself, and whether and how often it does; who is not quick.
        self.leader, self.ready, self.is_busy, self.turns, self.slow = None, deque(), False, 0, set()
        self.alarm, self.is_watched = queue.SimpleQueue(), False
        self.asgi_application = self.lifespan = None

    def _lock(self):
        self.lock = threading.RLock()
        self.taken = threading.Condition(self.lock)  # What was to be written is taken, or lost.

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
                if call.command and not streams_in and not streams_out:
                    self._runs_on(call)
                answer = function(request, call)
                if not streams_out:
                    answer = await answer if is_async else answer
                    check_headers([*call.reply_headers, *call.reply_trailers])
                    return self.do("reply", call, encode_answer(answer, call.codec))
                has_begun = False
                async for item in answer if is_async else one_by_one(answer):
                    if not has_begun:
                        check_headers(call.reply_headers)
                        has_begun = True
                    await self.push(call, encode_answer(item, call.codec))
                if not has_begun:
                    check_headers(call.reply_headers)
                check_headers(call.reply_trailers)
                self.finish(call)

            name = path.lstrip("/")
            if name in self.handlers:
                raise ValueError(f"{name} is served twice")
            self.handlers[name] = answer, is_async
            return function

        return register

    def _runs_on(self, call):
        """A command with one reply that has begun ends by itself, though its call may be over before."""
        with self.lock:
            if not call.is_open:
                raise given_up()
            call.runs_on = True

    def wsgi(self, application):
        """Serves the pages of the program's `route` by a WSGI application: Flask, Django."""
        from .pages import wsgi

        self.pages, self.asgi_application = (partial(wsgi, self, application), False), None

    def asgi(self, application):
        """Serves the pages of the program's `route` by an ASGI application: Starlette, FastAPI.

        It starts before the first call, and ends after the last one: its `lifespan`.
        """
        from .pages import asgi

        self.asgi_application = application
        self.pages = partial(asgi, self, application), True

    # What the program does by itself.

    def changed(self, source, *key):
        """Says that a source changed: no answer that was made of it is given any more.

        Every key of it did where this one is none (an error then) or has more than 64 KiB.
        """
        if self.is_forked:
            raise RuntimeError("a process that was forked has no part in the session; say it where it was")
        try:
            text = key_text(key).encode()
        except Exception:
            self.changed(source)
            raise
        payload = put_string(unicode(source).encode()) + put_string(text)
        if len(payload) > PAYLOAD_MAX:
            if text:
                return self.changed(source)
            raise ValueError(f"a source of {len(source)} characters is over {PAYLOAD_MAX} bytes")
        self.send_frame("changed", payload)

    def log(self, level, text, **fields):
        """Writes a line to the gateway's log: trace, debug, info, warn or error."""
        metadata = put_field(17, LEVELS.index(level) + 1 if level in LEVELS else 3)
        said = put_headers(log_field(name, str(value)) for name, value in fields.items())
        if len(metadata) + len(said) > self.session.peer[10]:
            said = put_headers([("left-out", f"{len(fields)} fields, which are too long")])
        metadata += said
        self.send_frame("log", cut(text, PAYLOAD_MAX), metadata)

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
            self.send_frame("busy", put_varint(self.jobs))

    def call(self, path, request, **more):
        """Calls a method of the gateway, and waits for the reply: see `call_async`."""
        return in_this_thread(self.call_async(path, request, **more))

    async def call_async(self, path, request, query=False, headers=(), parent=None, as_caller=False):
        """Calls a method of the gateway with bytes, or a dict for JSON; `query` where it changes nothing.

        As the program itself; `as_caller` with the rights of its caller, where this is part of a call.
        """
        if as_caller:
            headers = (*headers, ("tidewire-rights", "caller"))
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
        me = threading.get_ident()
        in_loop = self.loop_thread == me
        # What this waits for may be answered by this program.
        is_away = me in self.workers and not isinstance(call, Context)
        while True:
            with self.lock:
                if (result := found()) is not None:
                    break
                woken = self.loop.create_future() if in_loop else threading.Event()
                call.waiting.append(partial(self._wake, woken) if in_loop else woken.set)
                if self.leader == me:
                    self._hand_over()
                self.away += is_away
                self._employ()
            self.flush()
            await woken if in_loop else woken.wait()
            if is_away:
                with self.lock:
                    self.away -= 1
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

    def send_frame(self, name, payload, metadata=b""):
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
            # Answers to calls that came together leave together.
            is_early = self.is_busy and self.ready and self.leader == threading.get_ident()
            if self.is_writing or is_early or not self.socket:
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
        os.register_at_fork(after_in_child=self._forked)
        if any(is_async for _, is_async in [*self.handlers.values(), self.pages]):
            import asyncio

            self.loop = asyncio.new_event_loop()
            loop = threading.Thread(target=self.loop.run_forever, daemon=True)
            loop.start()
            self.loop_thread = loop.ident
        self.session.is_serving = not self.asgi_application
        self.do("greet")
        threading.Thread(target=self._lead, daemon=True).start()
        if self.asgi_application:  # It may call while it starts.
            from .pages import Lifespan

            self.lifespan = Lifespan(self.asgi_application, self.loop)
            if failure := self.lifespan.run("startup"):
                sys.exit(f"the application did not start: {failure}")
            self._end_by_signal()
            self.do("serve")
        while self.alarm.get():  # True to look at who reads, False at the end.
            self._watch()
        with self.lock:  # The last word is written, unless nobody reads it.
            self.taken.wait_for(lambda: not self.is_writing, GRACE)
        if self.lifespan and (failure := self.lifespan.run("shutdown")):
            sys.exit(f"the application did not end well: {failure}")

    def _forked(self):
        """What a function forks is no part of the session: two would answer one call, and hide its end."""
        self.is_forked = True
        self.socket.close()
        self._lock()  # Another thread may have had it, which is not here.

    def _end_by_signal(self):
        """An application is told of its end where the gateway ends the program by a signal, too."""
        import signal

        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: self.alarm.put(False))

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
        answer, is_async = self.pages if call.verb else self.handlers.get(call.path, (None, False))
        if answer is None:
            text = f"this program does not serve {call.path}"
            self.session.fail(call, Error("unimplemented", text, outcome=NOT_RUN))
        elif call.verb and call.header("sec-websocket-version"):
            self.session.status(call, 501)  # A page cannot switch; a program of plain HTTP can.
        elif is_async:
            import asyncio

            task = asyncio.run_coroutine_threadsafe(self._answer(answer, call), self.loop)
            call.on_cancel = task.cancel
        elif answer in self.slow or call.is_streaming or self._running() - self.idle >= self.threads:
            self._hire(answer, call)
        else:
            self.ready.append((answer, call))

    def _hire(self, answer, call):
        self.work.put((answer, call))
        self.idle -= 1
        self._employ()

    def _running(self):
        """The threads that count: who waits for the gateway does not, as it may call this program for that."""
        return self.started - self.away

    def _employ(self):
        """Starts a thread where work has none."""
        if self.idle < 0 and self._running() < self.threads:
            self.started += 1
            self.idle += 1
            threading.Thread(target=self._work, daemon=True).start()

    # A hand-over to another thread takes longer than a quick function. Thus who reads a call runs its function
    # if that was quick before, and no other thread is woken. Should it wait this time, another one reads on.

    def _lead(self):
        """Reads, and runs what is quick, until another thread does or the session is over."""
        me = self.leader = threading.get_ident()
        self.workers.add(me)
        self.flush()
        try:
            while self.leader == me and self._read():
                while job := self._turn():
                    self._run(*job)
        finally:
            if self.leader == me:
                self.alarm.put(False)
        if self._rests():
            self._work()

    def _turn(self):
        """What the thread that reads is to run next."""
        with self.lock:
            if self.leader != threading.get_ident():
                return None
            self.is_busy = bool(self.ready)
            if not self.is_busy:
                return None
            self.turns += 1
            if not self.is_watched:
                self.is_watched = True
                self.alarm.put(True)
            return self.ready.popleft()

    def _watch(self):
        """Looks from time to time whether one function keeps the thread that reads, while it runs any."""
        seen = None
        while seen != self.turns:
            seen = self.turns
            time.sleep(PATIENCE)
        with self.lock:
            self.is_watched = False
            if self.is_busy:
                self._hand_over()

    def _hand_over(self):
        """Another thread reads on; the one that did is a worker from now on, in place of one that is idle."""
        self.leader, self.is_busy = None, False
        if self.idle > 0:
            self.idle -= 1
            self.work.put(None)
        else:
            self.started += 1
        for job in self.ready:
            self._hire(*job)
        self.ready.clear()
        threading.Thread(target=self._lead, daemon=True).start()

    def _work(self):
        self.workers.add(threading.get_ident())
        while job := self.work.get():
            self._run(*job)
            if not self._rests():
                return
        self.workers.discard(threading.get_ident())

    def _rests(self):
        """Whether this thread, which is done with its work, is kept."""
        with self.lock:
            is_kept = self._running() <= self.threads
            if is_kept:
                self.idle += 1
            else:
                self.started -= 1
                self.workers.discard(threading.get_ident())
            return is_kept

    def _run(self, answer, call):
        begun = time.perf_counter()
        in_this_thread(self._answer(answer, call))
        if self.is_forked:
            os._exit(0)  # It came back from where the process that forked it goes on.
        is_quick = time.perf_counter() - begun < QUICK
        (self.slow.discard if is_quick else self.slow.add)(answer)

    async def _answer(self, answer, call):
        try:
            await answer(call)
        except BaseException as error:
            if not isinstance(error, Error):
                if call.is_open:
                    tell(error)
                error = handler_failed()
            try:
                self.do("fail", call, error)
            except Exception as wrong:
                tell(wrong)
                call.reply_trailers = []
                self.do("fail", call, handler_failed())
