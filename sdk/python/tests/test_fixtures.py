"""The fixtures of the live protocol against this file: python3 sdk/python/tests/test_fixtures.py"""
import json
import pathlib
import sys
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
                length, stream, kind, flags, meta, deadline = tidewire.HEAD.unpack_from(data)
                self.assertEqual(len(data), 16 + length)
                self.assertEqual((stream, kind, flags, deadline),
                                 (want["stream"], want["number"], want["flags"], want["deadline_ms"]))
                fields, headers, trailers = tidewire.read_metadata(data[16:16 + meta])
                entries = [(entry["tag"], entry["name"], bytes.fromhex(entry["value"])) for entry in want["metadata"]]
                own = [(tag, value) for tag, _, value in entries if 0 < tag < 64 and tag not in (7, 10, 15, 6)]
                self.assertEqual({tag: value for tag, value in fields.items() if tag not in (10, 15, 6)}, dict(own))
                known = [(name or tidewire.HEADERS[tag - 64], value.decode("utf-8", "surrogateescape"))
                         for tag, name, value in entries if tag == 0 or 64 <= tag < 64 + len(tidewire.HEADERS)]
                self.assertEqual(headers + trailers, known)
                put = b"".join(b"\0" + tidewire.put_string(name.encode()) + tidewire.put_string(value) if tag == 0
                               else tidewire.put_field(tag, value) for tag, name, value in entries)
                payload = bytes.fromhex(want["payload"])
                self.assertEqual(tidewire.put_frame(kind, stream, flags, put, payload, deadline), data)

    def test_a_process_writes_what_the_conversation_says(self):
        talk = load("hosted.json")
        session = tidewire.Session(agent=talk["agent"], now=lambda: 0)
        for number, step in enumerate(talk["steps"]):
            with self.subTest(number):
                if "host_writes" in step:
                    session.feed(bytes.fromhex(step["host_writes"]))
                    for call in session.calls.values():
                        while session.take_item(call) is not None:
                            pass
                elif "process_writes" in step:
                    written = b""
                    while data := session.take():
                        written += data
                    self.assertEqual(written.hex(), step["process_writes"])
                else:
                    self.act(session, step["process"], step["details"])
                self.assertIsNone(session.closed)
        self.assertEqual(session.take(), b"", "nothing else is written")

    def act(self, session, what, details):
        call = session.calls.get(details.get("stream"))
        if what == "reply":
            session.reply(call, bytes.fromhex(details["payload"]), pairs(details, "headers"), pairs(details, "trailers"),
                          pairs(details, "depends"), details.get("status"))
        elif what == "fail":
            name, value = details["detail"]
            error = tidewire.Error(details["code"], details["message"], [(name, bytes.fromhex(value))])
            session.fail(call, error)
        elif what == "begin":
            session.begin(call)
        elif what == "push":
            session.push(call, bytes.fromhex(details["item"]))
        elif what == "finish":
            session.finish(call)
        elif what == "call":
            parent = session.calls[details["parent"]]
            session.ask(details["path"].lstrip("/"), 0, bytes.fromhex(details["payload"]), parent=parent,
                        is_command=not details["query"])
        elif what == "log":
            session.log(details["level"], details["text"], pairs(details, "fields"))
        elif what == "changed":
            session.changed(details["source"], details["key"])
        else:
            getattr(session, what)(*details.values())


if __name__ == "__main__":
    unittest.main(verbosity=2)
