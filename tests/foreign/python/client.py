"""Calls tidewire.test.v1.BehaviourService with grpcio and prints a line a case: "ok ..." or "not ok ...: why".

Usage: client.py ADDRESS. The exit code is 1 if a case failed. Messages come from the .proto itself.
"""

import pathlib
import queue
import sys

import grpc

PROTOS = pathlib.Path(__file__).resolve().parents[2] / "proto"
sys.path.insert(0, str(PROTOS))
protos, services = grpc.protos_and_services("tidewire/test/v1/behaviour.proto")

FAIL_MESSAGE = "asked to fail: 100 % grün\nsecond line"
# A bound on a hang, not a measurement.
TIMEOUT = 300


def samples():
    nested = protos.Nested(name="root", children=[protos.Nested(), protos.Nested(name="leaf")])
    request = protos.EchoRequest
    at = request()
    at.at.seconds, at.at.nanos = 1700000000, 123456789
    return {
        "empty": request(),
        "text": request(text='grüße, 世界, "quoted" \\ \0 \u2028', tags=["a", "", "c"]),
        "int64-min": request(number=-(2**63)),
        "int64-past-double": request(number=2**53 + 1),
        "bytes": request(data=bytes(range(256))),
        "double-small": request(ratio=0.1),
        "double-infinite": request(ratio=float("-inf")),
        "map": request(counts={"": 0, "one": 1, "ünder": -(2**31)}),
        "timestamp": at,
        "nested": request(nested=nested),
        "large": request(data=bytes(1 << 20)),
    }


def same(what, got, want):
    if got != want:
        raise AssertionError(f"{what} is {got!r:.200}, want {want!r:.200}")


def failure(code, call):
    try:
        call()
    except grpc.RpcError as error:
        same("code", error.code(), code)
        return error
    raise AssertionError(f"the call succeeded, want {code}")


def cases(stub, channel):
    def echo(request, **options):
        reply = stub.Echo(request, timeout=TIMEOUT, **options)
        back = protos.EchoRequest.FromString(reply.SerializeToString())
        same("the reply", back, request)

    for name, request in samples().items():
        yield f"echo-{name}", lambda request=request: echo(request)

    def metadata():
        reply, call = stub.Echo.with_call(
            protos.EchoRequest(text="ping"), timeout=TIMEOUT, metadata=[("x-ping", "over there")]
        )
        same("x-pong", dict(call.initial_metadata()).get("x-pong"), "over there")
        same("x-pong-trailer", dict(call.trailing_metadata()).get("x-pong-trailer"), "over there")

    yield "headers-and-trailers", metadata

    def look():
        reply = stub.Look(protos.LookRequest(key="a b&c=ü"), timeout=TIMEOUT)
        same("value", reply.value, "value of a b&c=ü")

    yield "look", look
    yield "gzip", lambda: echo(
        protos.EchoRequest(text="tidewire " * 8192), compression=grpc.Compression.Gzip
    )

    def count():
        numbers = [reply.number for reply in stub.Count(protos.CountRequest(n=1000), timeout=TIMEOUT)]
        same("numbers", numbers, list(range(1, 1001)))

    yield "count", count
    yield "count-none", lambda: same(
        "replies", list(stub.Count(protos.CountRequest(), timeout=TIMEOUT)), []
    )

    def count_fails():
        seen = []
        call = stub.Count(protos.CountRequest(n=10, fail_after=3), timeout=TIMEOUT)
        error = failure(grpc.StatusCode.ABORTED, lambda: seen.extend(call_each(call)))
        same("messages", call_each.seen, 3)
        same("message", error.details(), "stopped after 3")

    def call_each(call):
        call_each.seen = 0
        for reply in call:
            call_each.seen += 1
            yield reply

    yield "count-fails-midway", count_fails

    def total(values):
        reply = stub.Sum((protos.SumRequest(value=value) for value in values), timeout=TIMEOUT)
        return [reply.messages, reply.total]

    yield "sum", lambda: same("sum", total(range(1, 101)), [100, 5050])
    yield "sum-none", lambda: same("sum", total([]), [0, 0])

    def chat():
        # The next message goes out only after the answer to the one before.
        said = queue.SimpleQueue()
        replies = stub.Chat(iter(said.get, None), timeout=TIMEOUT)
        for number in range(20):
            said.put(protos.ChatRequest(text=f"message {number}"))
            same("text", next(replies).text, f"message {number}")
        said.put(None)
        same("the end", list(replies), [])

    yield "chat", chat

    def fail(code):
        number, with_detail = code.value[0], code.value[0] % 2 == 1
        request = protos.FailRequest(code=number, message=FAIL_MESSAGE, with_detail=with_detail)
        error = failure(code, lambda: stub.Fail(request, timeout=TIMEOUT))
        same("message", error.details(), FAIL_MESSAGE)
        every = dict(error.initial_metadata() or ()) | dict(error.trailing_metadata() or ())
        same("x-fail", every.get("x-fail"), "yes")
        status = every.get("grpc-status-details-bin", b"")
        same("a detail", b"asked for" in status and b"tidewire.test.v1.FailDetail" in status, with_detail)

    for code in grpc.StatusCode:
        if code is not grpc.StatusCode.OK:
            yield f"fail-{code.name.lower()}", lambda code=code: fail(code)

    def panic():
        failure(grpc.StatusCode.INTERNAL, lambda: stub.Panic(protos.PanicRequest(), timeout=TIMEOUT))
        look()

    yield "panic", panic
    yield "deadline", lambda: failure(
        grpc.StatusCode.DEADLINE_EXCEEDED,
        lambda: stub.Slow(protos.SlowRequest(millis=20_000), timeout=0.05),
    )

    def unknown(path):
        call = channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
        failure(grpc.StatusCode.UNIMPLEMENTED, lambda: call(b"", timeout=TIMEOUT))

    yield "unknown-method", lambda: unknown("/tidewire.test.v1.BehaviourService/Missing")
    yield "unknown-service", lambda: unknown("/tidewire.test.v1.MissingService/Echo")

    def many():
        calls = [stub.Echo.future(protos.EchoRequest(number=n), timeout=TIMEOUT) for n in range(64)]
        same("numbers", [call.result().number for call in calls], list(range(64)))

    yield "many-at-once", many


def main():
    failed = 0
    options = [("grpc.max_receive_message_length", 8 << 20)]
    with grpc.insecure_channel(sys.argv[1], options=options) as channel:
        for name, case in cases(services.BehaviourServiceStub(channel), channel):
            try:
                case()
                print(f"ok grpcio/{name}")
            except Exception as error:
                failed += 1
                print(f"not ok grpcio/{name}: {error}".replace("\n", " "))
    sys.exit(1 if failed else 0)


main()
