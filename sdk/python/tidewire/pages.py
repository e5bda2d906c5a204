"""Pages of the program's route, by an application that speaks WSGI or ASGI."""

import sys

from . import check_headers, in_this_thread
from .frames import PAYLOAD_MAX

ASGI = {"version": "3.0", "spec_version": "2.3"}


async def send_body(app, call, data):
    for at in range(0, len(data), PAYLOAD_MAX):
        await app.push(call, data[at : at + PAYLOAD_MAX])


def address(call):
    """The scheme, the host, the port and the prefix by which a caller knows this program."""
    scheme = call.header("x-forwarded-proto", "http")
    host, _, port = (call.header("host", "") or "localhost").partition(":")
    port = port if port.isdigit() else "443" if scheme == "https" else "80"
    return scheme, host, port, call.header("x-forwarded-prefix", "")


def client(call):
    """The address and the port of the caller, as the gateway tells it; port 0 where it does not."""
    said = call.header("x-forwarded-for", "").split(",")[0].strip()
    host, _, port = said.rpartition(":")
    if port.isdigit() and (host.endswith("]") or host and ":" not in host):
        return host.strip("[]"), int(port)
    return said.strip("[]"), 0


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
    environ["REMOTE_ADDR"] = client(call)[0]
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
        check_headers(headers)
        call.reply_headers = [(name, value.encode("latin-1")) for name, value in headers]
        return write

    body = application(environ, start_response)
    try:
        for data in body:
            write(data)
    finally:
        getattr(body, "close", lambda: None)()
    app.finish(call)


class Lifespan:
    """The start and the end of an ASGI application. One that knows of neither is served without."""

    def __init__(self, application, loop):
        self.application, self.loop, self.state = application, loop, {}
        self.is_known, self.task = False, None

    def run(self, what):
        """Says that the program starts or ends; the message where that failed."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(self.step(what), self.loop).result()

    async def step(self, what):
        import asyncio

        if what == "startup":
            self.told, self.answers = asyncio.Queue(), asyncio.Queue()
            scope = {"type": "lifespan", "asgi": ASGI, "state": self.state}
            self.task = asyncio.ensure_future(
                self.application(scope, self.told.get, self.answers.put)
            )
        elif not self.is_known or self.task.done():
            return None
        await self.told.put({"type": "lifespan." + what})
        answer = asyncio.ensure_future(self.answers.get())
        await asyncio.wait((answer, self.task), return_when=asyncio.FIRST_COMPLETED)
        answered = answer.result() if answer.done() else {"type": ""}
        answer.cancel()
        self.is_known = answered["type"] == "lifespan.startup.complete"
        if answered["type"].endswith(".failed"):
            return answered.get("message") or what + " failed"
        return None


async def asgi(app, application, call):
    from urllib.parse import unquote

    (scheme, host, port, prefix), (path, _, query) = address(call), call.path.partition("?")
    scope = {"type": "http", "asgi": ASGI, "http_version": "1.1", "method": call.verb}
    scope.update(scheme=scheme, server=(host, int(port)), client=client(call))
    if app.lifespan.is_known:
        scope["state"] = app.lifespan.state.copy()
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
            call.status, call.reply_headers = message["status"], [*message.get("headers", ())]
            check_headers(call.reply_headers)
        elif message["type"] == "http.response.body":
            await send_body(app, call, bytes(message.get("body", b"")))
            if not message.get("more_body", False):
                app.finish(call)

    await application(scope, receive, send)
