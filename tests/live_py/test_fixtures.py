"""The golden fixtures of the live protocol against the Python implementation.

Run: python3 tests/live_py/test_fixtures.py
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True

import codec  # noqa: E402
from codec import NUMBER, put_entry, put_frame, put_hello  # noqa: E402
from session import Session  # noqa: E402

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "live"
SEMANTIC = {
    "cancel of watches": [1, 3, 300], "seen": [9, 11], "stale": [9, 11, 1_000_001], "stale, kept": [11],
}


def load(name):
    return json.loads((FIXTURES / name).read_text())


class Frames(unittest.TestCase):
    def test_every_frame_decodes_as_described_and_is_written_the_same(self):
        kinds = set()
        for fixture in load("frames.json"):
            with self.subTest(fixture["name"]):
                data, want = bytes.fromhex(fixture["hex"]), fixture["frame"]
                limits = {"metadata_max": 16384}
                frame, rest = codec.split(data, want["kind"] != "hello", limits)
                self.assertEqual(rest, b"")
                kinds.add(frame.kind)
                self.assertEqual((frame.kind, frame.number), (want["kind"], want["number"]))
                self.assertEqual((frame.stream, frame.flags), (want["stream"], want["flags"]))
                self.assertEqual(frame.deadline_ms, want["deadline_ms"])
                entries = codec.entries(frame.metadata)
                self.assertEqual([{"tag": tag, "name": name.decode(), "value": value.hex()}
                                  for tag, name, value in entries], want["metadata"])
                self.assertEqual(frame.payload.hex(), want["payload"])
                metadata = b"".join(put_entry(tag, value, name) for tag, name, value in entries)
                again = put_frame(frame.kind, frame.stream, frame.flags, metadata, frame.payload, frame.deadline_ms)
                self.assertEqual(again.hex(), fixture["hex"])
                self.meaning(fixture["name"], frame)
        self.assertEqual(kinds, set(NUMBER), "a fixture of every kind")

    def meaning(self, name, frame):
        found, headers, trailers = codec.fields(frame.metadata)
        if frame.kind == "hello":
            self.assertEqual(put_hello(codec.hello(frame)).hex(), put_frame(
                "hello", metadata=frame.metadata, payload=frame.payload, deadline_ms=codec.MAGIC).hex())
        if name in SEMANTIC:
            self.assertEqual(codec.numbers(frame.payload), SEMANTIC[name])
            self.assertEqual(codec.put_numbers(SEMANTIC[name]), frame.payload)
        if name == "items":
            self.assertEqual(codec.items(frame.payload), [b"a", b"", b"bcd"])
        if name == "request of a command":
            self.assertEqual(found["command"], (1000, 999))
        if name == "request of a command sent before":
            self.assertEqual((found["command"], found["key"]), ((1, 1), (b"\x5e" * 16, 300)))
        if name == "request within a call":
            self.assertEqual(found["parent"], 7)
        if name == "error with detail, not run":
            self.assertEqual((found["outcome"], found["detail"]), (1, [("google.rpc.RetryInfo", b"\x0a\x00")]))
        if name == "goaway drain":
            self.assertEqual(found["after"], 2000)
        if name == "auth, accepted":
            self.assertEqual(found["expires"], 900_000)
        if name == "reply over HTTP":
            self.assertEqual((found["status"], found["depends"]), (201, [(b"contacts", b"7")]))
            self.assertEqual(headers, [("set-cookie", b"a=1"), ("set-cookie", b"b=2")])
            self.assertEqual(trailers, [("x-sum", b"9")])
        if name.startswith("goaway"):
            self.assertEqual(codec.REASONS[found["reason"]], name.split()[1])

    def test_every_frame_cut_short_is_waited_for(self):
        for fixture in load("frames.json"):
            data = bytes.fromhex(fixture["hex"])
            limits = {"metadata_max": 16384}
            for end in range(len(data)):
                greeted = fixture["frame"]["kind"] != "hello"
                self.assertIsNone(codec.split(data[:end], greeted, limits)[0])


class Errors(unittest.TestCase):
    # A payload that does not decompress needs zstd to be noticed.
    WITHOUT_ZSTD = {"compression": "feature"}

    def check(self, dialer):
        fixtures = load("errors.json")
        for case in fixtures["at_dialer" if dialer else "at_acceptor"]:
            with self.subTest(case["name"]):
                session = Session(dialer, dict(fixtures["limits"], features=14))
                session.phase = "wait"
                said = {"features": 15}
                if dialer:
                    said.update(session=b"s" * 16, secret=b"p" * 32)
                session.input(put_hello(said))
                if dialer:
                    session.call({"kind": "query", "payload": "", "stream": 1})
                self.assertIsNone(session.closed)
                session.input(bytes.fromhex(case["hex"]))
                reason = self.WITHOUT_ZSTD.get(case["reason"], case["reason"])
                self.assertEqual(session.closed, reason)
                said = put_entry(16, bytes([codec.REASONS.index(reason)]))
                self.assertIn(said, session.output())

    def test_every_broken_rule_is_named_by_an_acceptor(self):
        self.check(dialer=False)

    def test_every_bad_hello_is_refused(self):
        for case in load("errors.json")["hellos"]:
            with self.subTest(case["name"]):
                session = Session(False, {"features": 14})
                session.phase = "wait"
                session.input(bytes.fromhex(case["hex"]))
                self.assertEqual(session.closed, case["reason"])

    def test_every_broken_rule_is_named_by_a_dialer(self):
        self.check(dialer=True)


class Conversations(unittest.TestCase):
    def test_a_client_writes_the_same_bytes_and_hears_the_same(self):
        for talk in load("conversations.json")["conversations"]:
            with self.subTest(talk["name"]):
                self.play(talk)

    def play(self, talk):
        own = dict(talk["limits"], features=talk["features"], boot=bytes.fromhex(talk["boot"] or ""),
                   agent=talk["agent"].encode())
        session = Session(True, own, talk["method"].encode())
        for number, step in enumerate(talk["steps"]):
            with self.subTest(number):
                if "server_writes" in step:
                    session.input(bytes.fromhex(step["server_writes"]))
                elif "client_writes" in step:
                    self.assertEqual(session.output().hex(), step["client_writes"])
                elif "client_ends" in step:
                    frame, rest = codec.split(session.output(), True, {"metadata_max": 16384})
                    said, _, _ = codec.fields(frame.metadata)
                    reason = codec.REASONS.index(step["client_ends"])
                    self.assertEqual((frame.kind, said["reason"], rest), ("goaway", reason, b""))
                elif "client_hears" in step:
                    events, session.events = session.events, []
                    self.assertEqual(events, step["client_hears"])
                elif "client" in step:
                    self.act(session, step["client"], step["details"])
        self.assertEqual(session.events, [], "nothing else was heard")
        self.assertEqual(session.output(), b"", "nothing else is written")

    def act(self, session, action, details):
        if action == "call":
            session.call(dict(details, path=details["path"].encode()) if "path" in details else details)
        elif action == "push":
            session.push(details["stream"], bytes.fromhex(details["item"]))
        elif action == "cancel":
            session.cancel(details["stream"])
        elif action == "finish":
            session.end(details["stream"])
        elif action == "reply":
            session.reply(details["stream"], bytes.fromhex(details["payload"]))
        elif action == "count_kept":
            self.assertEqual(session.count_kept(), details["usable"])
        else:
            self.assertIn(action, ("connect", "ready", "lose", "wait", "wake"))
            getattr(session, action)()


if __name__ == "__main__":
    unittest.main(verbosity=2)
