"""The program of the behaviour suite, in Python; `async` as its argument runs the same in the loop."""

import asyncio
import json
import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.dont_write_bytecode = True

import tidewire  # noqa: E402

NAME = "tidewire.hosted.v1.Hosted/"
app = tidewire.App()
runs, heard, told, jobs = {}, set(), threading.Condition(), []


def note(text):
    with told:
        heard.add(text)
        told.notify_all()


@app.unary(NAME + "Echo")
def echo(request, context):
    if ping := context.header("x-ping"):
        context.reply_headers.append(("x-pong", ping))
        context.reply_trailers.append(("x-pong-trailer", ping))
    return request


@app.unary(NAME + "Get")
def get(request, context):
    context.depends("items", request.get("text", ""))
    return bare(request, context)


@app.unary(NAME + "Bare")
def bare(request, context):
    key = request.get("text", "")
    runs[key] = runs.get(key, 0) + 1
    return {"number": runs[key]}


@app.unary(NAME + "List")
def list_(request, context):
    number = request.get("number", 0)
    for key in range(1, number + 1):
        context.depends("items", key)
    if number <= 0:
        context.depends("s" * 20_000 if number else "items")
    runs[number] = runs.get(number, 0) + 1
    return {"text": f"{runs[number]} {json.dumps(request)}"}


@app.unary(NAME + "Set")
def set_(request, context):
    context.changed("items", request.get("text", ""))
    return request


@app.unary(NAME + "Size")
def size(request, context):
    context.depends("items", request.get("number", 0))
    return bare({"text": f"size {request.get('number', 0)}"}, context)


@app.unary(NAME + "Resize")
def resize(request, context):
    context.changed("items", request.get("number", 0))
    return request


@app.server_stream(NAME + "Count")
def count(request, context):
    for number in range(1, request.get("number", 0) + 1):
        yield {"number": number}
    if request.get("number", 0) == -2:
        yield {"number": 1}
        yield {"number": "x"}
    elif request.get("number", 0) < 0:
        yield {"number": 1}
        context.reply_trailers.append(("x-long", "y" * 20_000))


@app.client_stream(NAME + "Sum")
def sum_(requests, context):
    total = 0
    for request in requests:
        if request.get("number") == -1:
            return request
        total += request.get("number", 0)
    return {"number": total}


@app.bidi_stream(NAME + "Chat")
def chat(requests, context):
    for request in requests:
        if request.get("text") == "raise":
            raise KeyError("secret")
        yield {"text": "re: " + request.get("text", "")}


@app.unary(NAME + "Fail")
def fail(request, context):
    context.depends("items", request["text"])
    context.reply_trailers.append(("x-fail-trailer", "late"))
    raise tidewire.Error(
        "not_found",
        "there is no " + request["text"],
        details=[("tidewire.hosted.v1.Text", b"\x0a\x01x")],
        headers=[("x-fail", "yes")],
    )


@app.unary(NAME + "Wait")
def wait(request, context):
    context.until_cancelled()
    note(request["text"])


@app.server_stream(NAME + "Drip")
def drip(request, context):
    yield {"number": 1}
    context.until_cancelled()
    note(request["text"])


@app.unary(NAME + "Heard")
def heard_(request, context):
    with told:
        told.wait_for(lambda: request["text"] in heard)
    return request


def until_noted(text):
    with told:
        told.wait_for(lambda: text in heard)


@app.unary(NAME + "Begin")
def begin(request, context):
    first, second, third, *_ = request["text"].split()
    note(first)
    until_noted(second)
    note(third)
    return {}


@app.unary(NAME + "Within")
def within(request, context):
    if request["text"] == "sum":
        return {"text": str(context.call(NAME + "Sum", {"number": 5})["number"])}
    return context.call(NAME + "Echo", {"text": "inner " + request["text"]})


@app.unary(NAME + "Through")
def through(request, context):
    return context.call(NAME + "Get", {"text": request["text"]}, query=True)


@app.unary(NAME + "Who")
@app.unary(NAME + "WhoPublic")
@app.unary(NAME + "WhoVary")
@app.unary(NAME + "WhoCaller")
@app.unary(NAME + "WhoQuery")
def who(request, context):
    how, callee = request.get("text", ""), NAME + "Who"
    if how in ("self", "caller"):
        return context.call(callee, {}, as_caller=how == "caller")
    if how.startswith("apart"):
        return app.call(callee, {}, as_caller=how == "apart as caller")
    if how:
        return context.call(callee, {}, headers=[tuple(how.split(": ", 1))])
    context.depends("items", "who")
    known, said = context.principal, "nobody"
    if known:
        scopes, tenant = "+".join(known.scopes), known.claims.get("tenant", "-")
        said = f"{known.issuer} {known.subject} {scopes} {tenant} {known.has_scope('read')}".lower()
    return {"text": f"{said} {bare({'text': 'who'}, context)['number']}"}


@app.unary(NAME + "Left")
def left(request, context):
    return {"number": int((context.remaining() or 0) * 1000)}


@app.unary(NAME + "Do")
def do(request, context):
    what = request["text"]
    if what == "pid":
        return {"text": str(os.getpid())}
    if what == "crash":
        os._exit(3)
    if what == "fork":
        if child := os.fork():
            return {"text": str(os.waitpid(child, 0)[1])}
        return {"text": "of the child"}
    if what == "garbage":
        os.write(app.socket.fileno(), b"HTTP/1.1 200 OK\r\n\r\nthis is no frame")
    if what == "noise":
        for _ in range(20_000):
            print("x" * 100)
        sys.stdout.flush()
        context.log("warn", "noise is over", lines=20_000)
    if what == "raise":
        raise KeyError("secret")
    if what == "busy":
        jobs.append(app.busy())
        jobs[0].__enter__()
    if what == "idle":
        jobs.pop().__exit__(None, None, None)
    if what == "hook":
        sys.excepthook = lambda *_: 1 / 0
        raise KeyError("shown by no hook")
    if what == "nan":
        return {"number": float("nan")}
    if what == "no json":
        return {"text": {1, 2}}
    if what == "odd answer":
        return {"text": "odd", "more": 1}
    if what == "wrong answer":
        return {"text": 5}
    say_too_much(what, context)
    return request


def say_too_much(what, context):
    """What there is no room for, or no form."""
    reads = {"few": [1, "a/b", 1], "many": range(20_000), "two": range(2_000)}
    for key in reads.get(what, ()):
        context.depends("items", key)
    if what == "two":
        context.depends("tags")
    if what == "long key":
        context.depends("items", "x" * 20_000)
    if what == "long source":
        context.depends("s" * 20_000)
    if what == "long header":
        context.reply_headers.append(("x-long", "y" * 20_000))
    if what == "long trailer":
        context.reply_trailers.append(("x-long", "y" * 20_000))
    if what == "long changed":
        context.changed("items", "x" * 70_000)
    if what == "bad details":
        raise tidewire.Error("not_found", "m", details=[1, None])
    if what == "no key":
        context.changed("items", 7, 10**5000)
    if what == "fields":
        context.log("info", "t", under_score=1, **{"sp ace": "v", "LF": "a\r\nb\x1bc"})
    if what == "long log":
        context.log("info", "x" + "é" * 40_000)
    if what == "wrong depends":
        context.depends(None)
    if what == "wrong changed":
        context.changed(None)
    if what == "wrong log":
        context.log("info", None)


def page(environ, start_response):
    if environ["PATH_INFO"] == "/switch":
        start_response("101 Switching Protocols", [])
        return
    if environ["PATH_INFO"] == "/principal":
        start_response("200 OK", [])
        yield environ.get("HTTP_TIDEWIRE_PRINCIPAL", "").encode()
        return
    body = environ["wsgi.input"].read()
    headers = [("x-page", "yes"), ("x-back", environ.get("HTTP_X_NAME", ""))]
    start_response("201 Created", [*headers, ("x-remote", environ["REMOTE_ADDR"])])
    query = "?" + environ["QUERY_STRING"] if environ["QUERY_STRING"] else ""
    yield f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}{query} ".encode()
    yield body


def in_the_loop():
    """The same by `async` handlers, beside those in threads."""
    for name in ("Echo", "Count", "Sum", "Chat", "Wait", "Drip", "Begin", "Within"):
        del app.handlers[NAME + name]

    @app.unary(NAME + "Echo")
    async def echo_(request, context):
        await asyncio.sleep(0)
        return echo(request, context)

    @app.server_stream(NAME + "Count")
    async def count_(request, context):
        for item in count(request, context):
            yield item

    @app.client_stream(NAME + "Sum")
    async def sum__(requests, context):
        total = 0
        async for request in requests:
            if request.get("number") == -1:
                return request
            total += request.get("number", 0)
        return {"number": total}

    @app.bidi_stream(NAME + "Chat")
    async def chat_(requests, context):
        async for request in requests:
            if request.get("text") == "raise":
                raise KeyError("secret")
            yield {"text": "re: " + request.get("text", "")}

    @app.unary(NAME + "Wait")
    async def wait_(request, context):
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            note(request["text"])

    @app.server_stream(NAME + "Drip")
    async def drip_(request, context):
        yield {"number": 1}
        await wait_(request, context)

    @app.unary(NAME + "Begin")
    async def begin_(request, context):
        first, second, third, *_ = request["text"].split()
        note(first)
        await asyncio.get_running_loop().run_in_executor(None, until_noted, second)
        note(third)
        return {}

    @app.unary(NAME + "Within")
    async def within_(request, context):
        if request["text"] == "sum":
            return {"text": str((await context.call_async(NAME + "Sum", {"number": 5}))["number"])}
        return await context.call_async(NAME + "Echo", {"text": "inner " + request["text"]})

    async def page_(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            if os.environ.get("START") == "fails":
                return await send({"type": "lifespan.startup.failed", "message": "no pool"})
            scope["state"]["pool"] = "open"
            if os.environ.get("START") == "calls":
                said = await app.call_async(NAME + "Echo", {"text": "open by a call"}, query=True)
                scope["state"]["pool"] = said["text"]
            await send({"type": "lifespan.startup.complete"})
            await receive()
            print("shutdown ran", file=sys.stderr, flush=True)
            return await send({"type": "lifespan.shutdown.complete"})
        if scope["path"] == "/switch":
            await send({"type": "http.response.start", "status": 101, "headers": []})
            return await send({"type": "http.response.body"})
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        headers = [(b"x-page", b"yes"), (b"x-back", dict(scope["headers"]).get(b"x-name", b""))]
        headers.append((b"x-remote", "{}:{}".format(*scope["client"]).encode()))
        headers.append((b"x-pool", scope["state"]["pool"].encode()))
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        query = "?" + scope["query_string"].decode() if scope["query_string"] else ""
        await send(
            {
                "type": "http.response.body",
                "body": f"{scope['method']} {scope['path']}{query} ".encode(),
                "more_body": True,
            }
        )
        await send({"type": "http.response.body", "body": body})

    app.asgi(page_)


if __name__ == "__main__":
    app.wsgi(page)
    if sys.argv[1:] == ["async"]:
        in_the_loop()
    app.log("debug", "said before it is known who hears it")
    app.serve()
