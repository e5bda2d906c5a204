"""The fixtures of the live protocol against this file: python3 sdk/python/tests/test_fixtures.py"""

import json
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.dont_write_bytecode = True

import tidewire  # noqa: E402

FIXTURES = pathlib.Path(__file__).parents[3] / "tests" / "fixtures" / "live"


def load(name):
    return json.loads((FIXTURES / name).read_text())


def pairs(details, name):
    return [tuple(pair) for pair in details.get(name, ())]


class Fixtures(unittest.TestCase):
    def test_every_frame_is_read_as_described_and_written_the_same(self):
        for fixture in load("frames.json"):
            with self.subTest(fixture["name"]):
                data, want = bytes.fromhex(fixture["hex"]), fixture["frame"]
                head = tidewire.HEAD.unpack_from(data)
                length, stream, kind, flags, meta, deadline = head
                self.assertEqual(len(data), 16 + length)
                self.assertEqual(
                    (stream, kind, flags, deadline),
                    (want["stream"], want["number"], want["flags"], want["deadline_ms"]),
                )
                found = tidewire.Frame(head, data[16 : 16 + meta], data[16 + meta :])
                entries = [(e["tag"], e["name"], bytes.fromhex(e["value"])) for e in want["metadata"]]
                repeated = (6, 7, 10, 15)
                own = {tag: value for tag, _, value in entries if 0 < tag < 64 and tag not in repeated}
                fields = {tag: value for tag, value in found.fields.items() if tag not in repeated}
                self.assertEqual(fields, own)
                known = [
                    (name or tidewire.HEADERS[tag - 64], value.decode("utf-8", "surrogateescape"))
                    for tag, name, value in entries
                    if tag == 0 or 64 <= tag < 64 + len(tidewire.HEADERS)
                ]
                self.assertEqual(found.headers, known)
                put = b"".join(
                    (
                        tidewire.put_field(0, name.encode()) + tidewire.put_string(value)
                        if tag == 0
                        else tidewire.put_field(tag, value)
                    )
                    for tag, name, value in entries
                )
                payload = bytes.fromhex(want["payload"])
                self.assertEqual(tidewire.put_frame(found.name, stream, flags, put, payload, deadline), data)

    def test_a_process_writes_what_the_conversation_says(self):
        talk = load("hosted.json")
        app = tidewire.App()
        session = app.session = tidewire.Session(agent=talk["agent"], now=lambda: 0)
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

    def act(self, app, what, details):
        session = app.session
        call = session.calls.get(details.get("stream"))
        said = types.SimpleNamespace(
            reply_headers=pairs(details, "headers"),
            reply_trailers=pairs(details, "trailers"),
            sources=pairs(details, "depends"),
            status=details.get("status", 200),
        )
        if what == "reply":
            session.reply(call, bytes.fromhex(details["payload"]), said)
        elif what == "fail":
            name, value = details["detail"]
            error = tidewire.Error(details["code"], details["message"], [(name, bytes.fromhex(value))])
            session.fail(call, error)
        elif what == "begin":
            session.begin(call, said)
        elif what == "push":
            session.push(call, bytes.fromhex(details["item"]))
        elif what == "finish":
            session.finish(call)
        elif what == "call":
            parent = session.calls[details["parent"]]
            payload = bytes.fromhex(details["payload"])
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
