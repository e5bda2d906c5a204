"""The fixtures of the live protocol against this file: python3 sdk/python/tests/test_fixtures.py"""

import decimal
import enum
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.dont_write_bytecode = True

import tidewire  # noqa: E402
from tidewire import frames  # noqa: E402
from tidewire.session import Session  # noqa: E402

FIXTURES = pathlib.Path(__file__).parents[3] / "tests" / "fixtures" / "live"


def load(name):
    return json.loads((FIXTURES / name).read_text())


def pairs(details, name):
    return [tuple(pair) for pair in details.get(name, ())]


def print_nothing(request, context):
    pass


class Fixtures(unittest.TestCase):
    def test_what_protoc_writes_for_the_options_is_found_beside_this_package(self):
        with tempfile.TemporaryDirectory() as folder:
            options = pathlib.Path(folder, "tidewire", "v1", "options_pb2.py")
            options.parent.mkdir(parents=True)
            options.write_text("NAME = 'tidewire.v1'\n")
            sdk = str(pathlib.Path(tidewire.__file__).parents[1])
            for early in (f"sys.path.append({folder!r}); import tidewire", f"import tidewire; sys.path.append({folder!r})"):
                with self.subTest(early):
                    program = f"import sys; sys.path.insert(0, {sdk!r}); {early}; from tidewire.v1 import options_pb2; print(options_pb2.NAME, tidewire.App.__name__)"
                    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
                    self.assertEqual((done.stdout, done.stderr), ("tidewire.v1 App\n", ""))

    def test_a_path_is_served_once(self):
        app = tidewire.App()
        app.unary("/a.B/C")(print_nothing)
        self.assertRaisesRegex(ValueError, "a.B/C is served twice", app.unary("a.B/C"), print_nothing)

    def test_a_change_that_nobody_would_hear_of_is_an_error(self):
        app = tidewire.App()
        app.is_forked = True
        self.assertRaisesRegex(RuntimeError, "forked", app.changed, "items", 1)

    def test_an_error_has_a_code_that_there_is(self):
        for code, meant in [("not_fund", "not_found"), ("NOT_FOUND", "not_found"), (404, ""), ("ok", "")]:
            with self.subTest(code), self.assertRaises(ValueError) as raised:
                tidewire.Error(code, "there is none")
            self.assertIn(f"{code!r} is no code of an error", str(raised.exception))
            self.assertEqual(f'did you mean "{meant}"?' in str(raised.exception), bool(meant))
        self.assertEqual(tidewire.Error("not_found").code, "not_found")

    def test_keys_have_one_text_in_each_language(self):
        kinds = {"int": int, "double": float, "bytes": bytes.fromhex, "absent": lambda _: None}
        for fixture in load("keys.json"):
            with self.subTest(fixture["name"]):
                parts = [
                    kinds.get(kind, lambda value: value)(value)
                    for part in fixture["parts"]
                    for kind, value in part.items()
                ]
                if fixture["text"] is None:
                    self.assertRaises(TypeError, frames.key_text, parts)
                else:
                    self.assertEqual(frames.key_text(parts), fixture["text"])

    def test_equal_values_are_one_key_and_what_is_none_is_refused(self):
        class Size(enum.IntEnum):
            BIG = 3

        class Name(str, enum.Enum):
            OX = "ox"

        for part, text in [
            (Size.BIG, "3"),
            (Name.OX, "ox"),
            (bytearray(b"ab"), "6162"),
            (memoryview(b"ab"), "6162"),
            ("\ud800", "\ufffd"),
            ("a\udcff\udcfeb\ud83d\ude00", "a\ufffd\ufffdb\U0001f600"),
        ]:
            self.assertEqual(frames.key_text([part]), text)
        self.assertRaises(ValueError, frames.key_text, [10**5000])
        for part in ([], {}, object(), print, decimal.Decimal(3), 1j):
            self.assertRaisesRegex(TypeError, "is no part of a key", frames.key_text, [part])

    def test_every_frame_is_read_as_described_and_written_the_same(self):
        for fixture in load("frames.json"):
            with self.subTest(fixture["name"]):
                data, want = bytes.fromhex(fixture["hex"]), fixture["frame"]
                head = frames.HEAD.unpack_from(data)
                length, stream, kind, flags, meta, deadline = head
                self.assertEqual(len(data), 16 + length)
                self.assertEqual(
                    (stream, kind, flags, deadline),
                    (want["stream"], want["number"], want["flags"], want["deadline_ms"]),
                )
                found = frames.Frame(head, data[16 : 16 + meta], data[16 + meta :])
                entries = [
                    (e["tag"], e["name"], bytes.fromhex(e["value"])) for e in want["metadata"]
                ]
                repeated = (6, 7, 10, 15)
                own = {
                    tag: value for tag, _, value in entries if 0 < tag < 64 and tag not in repeated
                }
                fields = {tag: value for tag, value in found.fields.items() if tag not in repeated}
                self.assertEqual(fields, own)
                known = [
                    (name or frames.HEADERS[tag - 64], value.decode("utf-8", "surrogateescape"))
                    for tag, name, value in entries
                    if tag == 0 or 64 <= tag < 64 + len(frames.HEADERS)
                ]
                self.assertEqual(found.headers, known)
                put = b"".join(
                    (
                        frames.put_field(0, name.encode()) + frames.put_string(value)
                        if tag == 0
                        else frames.put_field(tag, value)
                    )
                    for tag, name, value in entries
                )
                payload = bytes.fromhex(want["payload"])
                self.assertEqual(
                    frames.put_frame(found.name, stream, flags, put, payload, deadline), data
                )

    def test_a_process_writes_what_the_conversation_says(self):
        talk = load("hosted.json")
        app = tidewire.App()
        session = app.session = Session()
        session.agent = talk["agent"]
        session.greet()
        for number, step in enumerate(talk["steps"]):
            with self.subTest(number):
                if "host_writes" in step:
                    session.feed(bytes.fromhex(step["host_writes"]))
                    for call in session.calls.values():
                        while call.items:
                            session.take_item(call)
                elif "process_writes" in step:
                    written = b""
                    while data := session.take():
                        written += data
                    self.assertEqual(written.hex(), step["process_writes"])
                else:
                    self.act(app, step["process"], step["details"])
                self.assertIsNone(session.closed)
        self.assertEqual(session.take(), b"", "nothing else is written")

    def test_every_conversation_that_is_hosted_is_played(self):
        talks = [talk for talk in load("conversations.json")["conversations"] if talk["hosted"]]
        self.assertGreaterEqual(len(talks), 8)
        for talk in talks:
            with self.subTest(talk["name"]):
                Talk(self, talk).play()

    def act(self, app, what, details):
        session = app.session
        call = session.calls.get(details.get("stream"))
        if call:
            call.reply_headers, call.reply_trailers = pairs(details, "headers"), pairs(
                details, "trailers"
            )
            call.sources, call.status = pairs(details, "depends"), details.get("status", 200)
        if what == "reply":
            session.reply(call, bytes.fromhex(details["payload"]))
        elif what == "fail":
            name, value = details["detail"]
            error = tidewire.Error(
                details["code"], details["message"], [(name, bytes.fromhex(value))]
            )
            session.fail(call, error)
        elif what in ("begin", "finish"):
            getattr(session, what)(call)
        elif what == "push":
            session.push(call, bytes.fromhex(details["item"]))
        elif what == "call":
            payload, parent = bytes.fromhex(details["payload"]), details["parent"]
            session.ask(details["path"], 0, payload, parent=parent, is_query=details["query"])
        elif what == "log":
            app.log(details["level"], details["text"], **dict(pairs(details, "fields")))
        elif what == "changed":
            app.changed(details["source"], details["key"])
        elif what == "busy":
            app.jobs = details["jobs"] - 1
            self.busy = app.busy()
            self.busy.__enter__()
        else:
            self.assertEqual(what, "ready", "it is said by itself")


class Talk:
    """One conversation, in which a session is the client; what it offers in its hello is its own."""

    def __init__(self, test, talk):
        limits, self.session = talk["limits"], Session()
        self.test, self.talk, self.asked, self.heard = test, talk, {}, {}
        self.session.stream_window = limits["stream_credit"]
        self.session.window = limits["connection_credit"]
        self.session.greet()

    def play(self):
        for number, step in enumerate(self.talk["steps"]):
            with self.test.subTest(number):
                if "server_writes" in step:
                    self.session.feed(bytes.fromhex(step["server_writes"]))
                    self.take_items()
                elif "client_writes" in step:
                    written = self.written()
                    if step["kinds"] != ["hello"]:
                        self.test.assertEqual(written, step["client_writes"])
                elif "client_hears" in step:
                    for event in step["client_hears"]:
                        self.hear(event)
                elif "client" in step:
                    self.act(step["client"], step["details"])
        self.test.assertEqual(self.written(), "", "nothing else is written")

    def written(self):
        return b"".join(iter(self.session.take, b"")).hex()

    def take_items(self):
        for stream, call in self.asked.items():
            while call.is_open and call.items:
                self.heard[stream].append(self.session.take_item(call))

    def act(self, action, details):
        stream = details.get("stream")
        if action == "call":
            path = details.get("path", self.talk["method"])
            more = {"parent": details.get("parent"), "is_query": details["kind"] == "query"}
            call = self.session.ask(path, 0, bytes.fromhex(details["payload"]), **more)
            self.test.assertEqual(call.number, stream)
            self.asked[stream], self.heard[stream] = call, []
        elif action == "cancel":
            self.session.cancel(self.asked[stream])
        elif action == "reply":
            self.session.reply(self.session.calls[stream], bytes.fromhex(details["payload"]))
        else:
            self.test.assertIn(action, ("connect", "ready"), "it is done by itself")

    def hear(self, event):
        """What the session knows agrees with what its application must hear."""
        same, what, session = self.test.assertEqual, event["event"], self.session
        call, items = self.asked.get(event.get("stream")), self.heard.get(event.get("stream"))
        if what == "connected":
            same(session.control[8], frames.NUMBERS["ready"])
        elif what == "request":
            same(session.calls[event["stream"]].items[0][0].hex(), event["payload"])
        elif what == "reply" and event["then"] == "nothing":
            same(
                (call.is_open, call.error, call.items[0][0].hex()), (False, None, event["payload"])
            )
        elif what == "reply":
            same((call.has_head, event["then"], event["payload"]), (True, "items", ""))
        elif what == "items":
            same([items.pop(0).hex() for _ in event["items"]], event["items"])
        elif what == "piece" and event["last"]:
            begun = sum(len(item) for item in items) + sum(len(item) for item, _ in call.items)
            same(begun % frames.PIECE, event["bytes"])
        elif what == "end":
            same((call.is_open, call.error), (False, None))
        elif what == "failed":
            error = call.error
            same((frames.CODES.index(error.code), error.outcome), (event["code"], event["outcome"]))
        elif what == "draining":
            same(session.is_draining, True)
        elif what == "closed":
            self.test.assertIsNotNone(session.closed)
        else:
            same(what, "piece")


if __name__ == "__main__":
    unittest.main(verbosity=2)
