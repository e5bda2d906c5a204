"""Gateways that misbehave, against the program of each language: python3 sdk/tests/test_attacks.py [PROGRAM...]

The test is the gateway, at the other end of the socket that a program inherits. Whatever it sends, the program
answers by the text of the live protocol, or names the rule that was broken and ends; it never hangs, and what it
keeps is bounded. One table of cases for all programs: `python`, `node`, `go`, `dotnet`, and, if they are named, `async`
and `http`, the same files with an event loop and a listener of node:http.
"""

import concurrent.futures
import fcntl
import os
import pathlib
import random
import select
import socket
import subprocess
import sys
import tempfile
import unittest

SDK = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SDK / "python"))
sys.dont_write_bytecode = True

from tidewire import frames as wire  # noqa: E402
from tidewire.session import Session  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
GO = pathlib.Path(FOLDER.name) / "service"
DOTNET, DOTNET_OUT = SDK.parent / ".tools/bin/dotnet", SDK.parent / "target/dotnet"
PROGRAMS = {
    "python": [sys.executable, "-I", "-S", SDK / "python/tests/service.py"],
    "async": [sys.executable, "-I", "-S", SDK / "python/tests/service.py", "async"],
    "node": ["node", SDK / "node/tests/service.js"],
    "http": ["node", SDK / "node/tests/service.js", "http"],
    "go": [GO],
    "dotnet": [DOTNET, DOTNET_OUT / "service/bin/netcoreapp3.1/service.dll"],
}
# No program needs so long; it bounds a hang.
HANG = 300


def hello(versions=b"\1\0\1\0", features=wire.FEATURE_HTTP | wire.FEATURE_HOSTED, more=b"", magic=wire.MAGIC):
    payload = wire.put_field(1, versions) + wire.put_field(2, features) + more
    return wire.put_frame("hello", payload=payload, deadline_ms=magic)


def request(stream, method, body=b"{}", flags=wire.END, command=None, deadline=0):
    fields = wire.put_field(2, b"\1/tidewire.hosted.v1.Hosted/" + method.encode())
    if command is not None:
        fields += wire.put_field(3, wire.put_varint(command) + b"\1")
    return wire.put_frame("request", stream, flags, fields, body, deadline)


def open_stream(stream, method):
    return request(stream, method, b"", 0)


def frame(name, stream=0, flags=0, payload=b"", metadata=b""):
    return wire.put_frame(name, stream, flags, metadata, payload)


def head(length, kind=3, meta=0):
    return wire.HEAD.pack(length, 2, kind, 1, meta, 0)


def items(stream, *all_items, flags=0):
    return frame("items", stream, flags, b"".join(wire.put_string(item) for item in all_items))


def credit(stream, amount, flags=0):
    return frame("credit", stream, flags, wire.put_varint(amount))


NUMBERED = wire.put_field(1, 0) + wire.put_field(2, b"\1/a.B/C")
WAITS = request(2, "Wait", b'{"text":"a"}')
OPEN = open_stream(2, "Sum")
SPAM = b'{"text":"' + b"x" * 16_000 + b'"}'

# What comes in place of the gateway's hello, and the reasons of which one must be given.
HELLOS = {
    "HTTP": (b"HTTP/1.1 200 OK\r\n\r\nthis is no frame" * 9, "magic too_large malformed"),
    "nothing but zeros": (bytes(64), "magic malformed"),
    "no magic": (hello(magic=7), "magic"),
    "another version": (hello(versions=b"\2\0\3\0"), "version"),
    "no versions": (hello(versions=b""), "malformed"),
    "a host of no processes": (hello(features=2), "feature"),
    "a field twice": (hello(more=wire.put_field(2, 34)), "malformed"),
    "a field cut off": (hello(more=b"\5\7"), "malformed"),
    "a request first": (WAITS, "magic"),
    "a goaway in place of it": (frame("goaway", metadata=wire.put_field(16, 20)), None),
}
# What comes after it.
FRAMES = {
    "noise": (random.Random(7).randbytes(70_000), "too_large malformed metadata_max"),
    "a second hello": (hello(), "unexpected"),
    "a frame over the limit": (head(65_537) + bytes(65_537), "too_large"),
    "a frame of 4 GiB": (head(2**32 - 1), "too_large"),
    "metadata over the limit": (head(20_000, meta=20_000) + bytes(20_000), "metadata_max"),
    "metadata longer than its frame": (head(4, meta=5) + bytes(5), "malformed"),
    "metadata cut off": (head(3, meta=3) + b"\1\7\0", "malformed"),
    "a field twice": (frame("request", 2, 1, metadata=NUMBERED + wire.put_field(1, 0)), "malformed"),
    "a number over 53 bits": (frame("credit", payload=b"\xff" * 7 + b"\x7f"), "malformed"),
    "a number of nine bytes": (frame("credit", payload=b"\x80" * 8 + b"\1"), "malformed"),
    "a frame cut off": (WAITS[:-1], None),
    "a head cut off": (WAITS[:7], None),
    "a request on stream 0": (request(0, "Echo"), "malformed"),
    "a request on a number of its receiver": (request(1, "Echo"), "stream_number"),
    "a request over the bound": (request(2050, "Echo"), "stream_number"),
    "ten thousand calls at once": (
        b"".join(request(2 * slot + 2, "Wait") for slot in range(10_000)),
        "stream_number calls_max",
    ),
    "a stream twice": (WAITS + WAITS, "stream_in_use"),
    "a command twice": (request(2, "Wait", command=1) + request(4, "Wait", command=1), "command_id"),
    "command 0": (request(2, "Echo", command=0), "command_id"),
    "a method never named": (frame("request", 2, 1, b"{}", wire.put_field(1, 0)), "unknown_method"),
    "a method out of turn": (
        frame("request", 2, 1, b"{}", wire.put_field(1, 1) + wire.put_field(2, b"\1/a.B/C")),
        "methods_max",
    ),
    "no method": (frame("request", 2, 1), "malformed"),
    "HTTP without target": (frame("request", 2, 5, metadata=wire.put_field(12, b"GET")), "malformed"),
    "a payload before items": (request(2, "Sum", flags=0), "malformed"),
    "items for a whole request": (WAITS + items(2, b"{}"), "unexpected"),
    "items after the end": (open_stream(2, "Wait") + frame("end", 2) + items(2, b"{}"), "unexpected"),
    "two ends": (open_stream(2, "Wait") + items(2, b"{}") + frame("end", 2) * 2, "unexpected"),
    "items on stream 0": (items(0, b"{}"), "malformed"),
    "items of none": (OPEN + frame("items", 2), "malformed"),
    "items cut off": (OPEN + frame("items", 2, payload=b"\7{"), "malformed"),
    "an item without end": (OPEN + frame("items", 2, wire.MORE, bytes(65_536)) * 1025, "too_large"),
    "items without credit": (
        open_stream(2, "Wait") + items(2, SPAM) + items(2, SPAM) * 30,
        "credit",
    ),
    "items of many without credit": (
        b"".join(open_stream(2 * n, "Wait") + items(2 * n, SPAM) * 12 for n in range(1, 9)),
        "credit",
    ),
    "an item that is compressed": (OPEN + items(2, b"{}", flags=wire.ZSTD), "feature"),
    "credit for nothing": (credit(0, 1), "credit"),
    "credit of a call for nothing": (WAITS + credit(2, 1), "credit"),
    "an end seen that was not sent": (WAITS + credit(2, 0, wire.END), "unexpected"),
    "a cancel of a call of nobody": (frame("cancel", 1), "unknown_stream"),
    "a reply to nothing": (frame("reply", 1, wire.END), "unknown_stream"),
    "a reply to its own call": (WAITS + frame("reply", 2, wire.END), "stream_number"),
    "an error to nothing": (frame("error", 1, metadata=wire.put_field(8, 5)), "unknown_stream"),
    "stale of nothing": (frame("stale", payload=b"\1"), "unknown_stream"),
    "resume out of place": (frame("resume", payload=bytes(3)), "unexpected"),
    "a long ping": (frame("ping", payload=bytes(65)), "malformed"),
    "a ping on a call": (frame("ping", 2), "malformed"),
    "a pong on a call": (frame("pong", 2), "malformed"),
    "a goaway for a reason": (WAITS + frame("goaway", metadata=wire.put_field(16, 21)), None),
}
# What answers a call of the program's own, on stream 1.
ANSWERS = {
    "items before the head": (items(1, b"{}"), "unexpected"),
    "an end before the head": (frame("end", 1), "unexpected"),
    "two heads": (frame("reply", 1) * 2, "unexpected"),
    "a head and a reply": (frame("reply", 1) + frame("reply", 1, wire.END), "unexpected"),
    "two replies": (frame("reply", 1, wire.END) * 2, "unknown_stream"),
    "a head with a payload": (frame("reply", 1, payload=b"{}"), "malformed"),
    "an error without a code": (frame("error", 1), "malformed"),
    "a watch": (frame("reply", 1, wire.WATCHED, metadata=wire.put_field(4, bytes(16))), "unexpected"),
    "unchanged from nothing": (frame("reply", 1, wire.END | wire.UNCHANGED), "malformed"),
    "credit for a whole request": (credit(1, 9), "credit"),
}
# What changes nothing: a call that follows is answered.
HARMLESS = {
    "a cancel of a call that is over": frame("cancel", 2) + frame("cancel", 2048),
    "a cancel of watches": frame("cancel", payload=b"\2"),
    "items of a call that is over": items(2, SPAM) + frame("end", 2) + credit(2, 0, wire.END),
    "kinds, flags and fields of the future": wire.HEAD.pack(3, 9, 77, 255, 0, 9)
    + b"abc"
    + wire.HEAD.pack(0, 9, 0, 0, 0, 0)
    + frame("ping", metadata=wire.put_field(40, b"x") + wire.put_field(200, b"x")),
    "seen of nothing": frame("seen", payload=b"\2"),
    "a deadline that has passed": request(2, "Echo", deadline=1) + frame("cancel", 2),
}


class Gateway:
    """The other end of a program's socket."""

    def __init__(self, command, cwd=None):
        self.socket, theirs = socket.socketpair()
        environment = dict(os.environ, TIDEWIRE_FD=str(theirs.fileno()))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.program = subprocess.Popen(
            command, cwd=cwd, env=environment, pass_fds=[theirs.fileno()], **quiet
        )
        theirs.close()
        self.socket.settimeout(HANG)
        self.data = b""
        assert self.frame().name == "hello"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.program.kill()
        self.program.wait()

    def greet(self):
        self.send(hello())
        self.until("ready")  # What was said before comes before.
        return self

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It has ended, which its last frame says.

    def send_all_it_takes(self, data):
        """How much of it is sent before nothing is read any more."""
        sent, self.view = 0, memoryview(data)
        while sent < len(data) and select.select([], [self.socket], [], 0.5)[1]:
            sent += self.socket.send(self.view[sent : sent + 65_536], socket.MSG_DONTWAIT)
        return sent

    def frame(self):
        """The next frame; None at the end."""
        while True:
            if len(self.data) >= 16:
                said = wire.HEAD.unpack_from(self.data)
                end = 16 + said[0]
                if len(self.data) >= end:
                    body, self.data = self.data[16:end], self.data[end:]
                    found = wire.Frame(said, body[: said[4]], body[said[4] :])
                    found.metadata = body[: said[4]]
                    return found
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self.data += data

    def until(self, name, stream=None):
        while (found := self.frame()) is not None:
            if found.name == name and stream in (None, found.stream):
                return found
        raise AssertionError(f"it ended without {name}")

    def memory(self):
        with open(f"/proc/{self.program.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

    def ends(self, reasons=None):
        """It says why, if it has to, and ends."""
        if reasons:
            said = self.until("goaway").number(16, 0)
            assert wire.REASONS[said] in reasons.split(), wire.REASONS[said]
        else:
            self.socket.shutdown(socket.SHUT_WR)
        while self.frame():
            pass
        self.program.wait(HANG)


def named(cases):
    """The cases of a table, each as a function of a command."""

    def case(data, reasons, before):
        def play(command):
            with Gateway(command) as gateway:
                before(gateway)
                gateway.send(data)
                gateway.ends(reasons)

        return play

    def nothing(_):
        pass

    def asked(gateway):
        gateway.greet().send(request(2, "Within", b'{"text":"a"}'))
        gateway.until("request", 1)

    tables = (("hello", HELLOS, nothing), ("frame", FRAMES, Gateway.greet), ("answer", ANSWERS, asked))
    for kind, table, before in tables:
        for name, (data, reasons) in table.items():
            cases[f"{kind}: {name}"] = case(data, reasons, before)
    for name, data in HARMLESS.items():
        cases["harmless: " + name] = harmless(data)
    return cases


def harmless(data):
    def play(command):
        with Gateway(command) as gateway:
            gateway.greet().send(request(2, "Echo"))
            gateway.until("reply", 2)
            gateway.send(data + request(4, "Echo", b'{"text":"b"}'))
            assert gateway.until("reply", 4).payload == b'{"text":"b"}'
            gateway.ends()

    return play


def calls_in_turn(command):
    """Ten thousand calls, a thousand at once."""
    with Gateway(command) as gateway:
        gateway.greet()
        for _ in range(10):
            gateway.send(b"".join(request(2 * slot, "Echo") for slot in range(1, 1001)))
            for _ in range(1000):
                gateway.until("reply")
        gateway.ends()


def a_reader_of_no_pongs(command):
    with Gateway(command) as gateway:
        gateway.greet()
        before = gateway.memory()
        gateway.send_all_it_takes(frame("ping", payload=bytes(64)) * 200_000)
        assert gateway.memory() - before < 64, gateway.memory()
        gateway.ends()


def a_reader_of_no_errors(command):
    """Calls that are given up at once, whose errors nobody reads: it reads no more of them in the end."""
    with Gateway(command) as gateway:
        gateway.greet()
        flood = (open_stream(2, "Drip") + frame("cancel", 2)) * 60_000
        assert gateway.send_all_it_takes(flood) < len(flood), "it reads on and on"
        assert gateway.memory() < 300, gateway.memory()
        gateway.ends()


def read_until_it_waits(gateway):
    """A stream without end on stream 2, until there is no more credit for it."""
    gateway.greet().send(request(2, "Count", b'{"number":100000000}'))
    taken = 0
    while taken < Session.stream_window:
        taken += len(gateway.until("items", 2).payload)
    assert taken < Session.stream_window + wire.PAYLOAD_MAX


def a_reader_of_no_items(command):
    """A stream without end, for which there is no credit."""
    with Gateway(command) as gateway:
        read_until_it_waits(gateway)
        gateway.send(request(4, "Echo"))
        gateway.until("reply", 4)
        gateway.ends()


def a_reader_of_no_items_that_gives_up(command):
    """What waits for credit is not sent any more; the next call is answered."""
    with Gateway(command) as gateway:
        read_until_it_waits(gateway)
        gateway.send(frame("cancel", 2))
        gateway.until("error", 2)
        gateway.send(request(4, "Echo"))
        gateway.until("reply", 4)
        gateway.ends()


def an_answer_without_end(command):
    """A call of the program's own is answered by a stream that does not end: it is given up."""
    with Gateway(command) as gateway:
        gateway.greet().send(request(2, "Within", b'{"text":"a"}'))
        gateway.until("request", 1)
        gateway.send(frame("reply", 1) + items(1, b"{}", b"{}"))
        gateway.until("cancel", 1)
        assert gateway.until("error", 2).number(8) == wire.CODES.index("unimplemented")
        gateway.ends()


def a_handler_that_blocks(command):
    """It waits for what nobody says, and its gateway is gone."""
    with Gateway(command) as gateway:
        gateway.greet().send(request(2, "Heard", b'{"text":"never"}') + request(4, "Echo"))
        gateway.until("reply", 4)
        gateway.ends()


def a_handler_that_blocks_in_a_drain(command):
    with Gateway(command) as gateway:
        gateway.greet().send(request(2, "Heard", b'{"text":"never"}') + frame("goaway"))
        gateway.send(frame("ping", payload=b"p"))
        gateway.until("pong")
        gateway.ends()


def calls_that_call_their_own_program(command):
    """All of a hundred calls wait for what the same program answers."""
    with Gateway(command) as gateway:
        streams = range(2, 202, 2)
        gateway.greet().send(b"".join(request(number, "Within", b'{"text":"a"}') for number in streams))
        asked = [gateway.until("request").stream for _ in streams]
        gateway.send(request(204, "Echo"))
        gateway.until("reply", 204)
        gateway.send(b"".join(frame("reply", number, wire.END, b"{}") for number in asked))
        assert sorted(gateway.until("reply").stream for _ in streams) == list(streams)
        gateway.ends()


def a_drain(command):
    """It ends by itself once nothing is open."""
    with Gateway(command) as gateway:
        gateway.greet().send(WAITS + frame("goaway") + frame("cancel", 2))
        gateway.until("error", 2)
        while gateway.frame():
            pass
        gateway.program.wait(HANG)


def a_gateway_that_dies(command):
    with Gateway(command) as gateway:
        gateway.greet().send(WAITS + OPEN + items(4, SPAM) * 3)
        gateway.socket.close()
        gateway.program.wait(HANG)


CASES = named({})
for extra in (
    *(calls_in_turn, a_reader_of_no_pongs, a_reader_of_no_errors, a_reader_of_no_items),
    *(a_reader_of_no_items_that_gives_up, an_answer_without_end, a_handler_that_blocks),
    *(a_handler_that_blocks_in_a_drain, calls_that_call_their_own_program, a_drain, a_gateway_that_dies),
):
    CASES[extra.__name__.replace("_", " ")] = extra


class Attacks(unittest.TestCase):
    def check(self, program):
        command = [str(word) for word in PROGRAMS[program]]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            played = {name: pool.submit(play, command) for name, play in CASES.items()}
        for name, done in played.items():
            with self.subTest(name):
                done.result()


CHOSEN = sys.argv[1:] or ("python", "node", "go", "dotnet")
for chosen in CHOSEN:
    name = f"test_a_program_of_{chosen}_names_what_its_gateway_does_wrong_and_ends"
    setattr(Attacks, name, lambda self, chosen=chosen: self.check(chosen))


def build(programs=PROGRAMS):
    if "go" in programs:
        command = ["go", "build", "-o", GO, "./tests/service"]
        subprocess.run(command, cwd=SDK / "go", check=True)
    if "dotnet" in programs:
        assert DOTNET.exists(), "no .NET SDK: run make setup"
        build_dotnet(SDK / "dotnet/tests/service")


def build_dotnet(project, into=DOTNET_OUT):
    """Builds a program in C# in a folder that is not a part of the sources; what is built there already is left alone."""
    into.mkdir(parents=True, exist_ok=True)
    command = [DOTNET, "build", project, "-c", "Release", "-nologo", "-v", "quiet"]
    environment = {**os.environ, "TIDEWIRE_OUT": str(into)}
    with open(into / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # The tests of hosting build there, too.
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    build(CHOSEN)
    unittest.main(argv=sys.argv[:1])
