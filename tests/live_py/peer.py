"""The Python peer against a real server: python3 tests/live_py/peer.py HOST:PORT

Prints a line `ok NAME` for each thing that worked, over TCP with frames as they are.
"""
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True

from session import Session  # noqa: E402

SERVICE = b"/tidewire.test.v1.BehaviourService/"


class Peer:
    """A session on a socket, one step at a time."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.address = (host, int(port))
        own = {"versions": (1, 1), "features": 14, "boot": bytes(range(16)), "watches_max": 0,
               "agent": b"live_py", "replies_kept_max": 64}
        self.session = Session(True, own)
        self.dial()

    def dial(self):
        self.socket = socket.create_connection(self.address, timeout=300)
        self.session.connect()

    def cut(self):
        """The connection is lost, and another is opened."""
        self.socket.close()
        self.session.lose()
        self.dial()

    def write(self):
        self.socket.sendall(self.session.output())

    def wait_for(self, *kinds):
        """Goes on until an event of these kinds was heard; the events until then."""
        heard = []
        while True:
            while self.session.events:
                event = self.session.events.pop(0)
                heard.append(event)
                assert event["event"] != "closed", event
                if event["event"] in kinds:
                    return heard
            self.write()
            data = self.socket.recv(65536)
            assert data, "the server ended the connection"
            self.session.input(data)

    def call(self, method, payload, stream, kind="query", **more):
        details = dict(kind=kind, payload=payload.hex(), stream=stream, streaming=False, path=SERVICE + method)
        self.session.call(dict(details, **more))


def text(value):
    return b"\x0a" + bytes([len(value)]) + value


def main():
    peer = Peer(sys.argv[1])
    peer.wait_for("connected")
    print("ok connected")
    peer.call(b"Look", text(b"a"), 1)
    reply = peer.wait_for("reply")[-1]
    assert bytes.fromhex(reply["payload"]) == text(b"value of a"), reply
    print("ok query")
    peer.call(b"Echo", text(b"b"), 1, kind="command")
    peer.write()
    peer.cut()
    events = peer.wait_for("reply")
    assert [event["event"] for event in events if event["event"] in ("lost", "connected", "reply")] == [
        "lost", "connected", "reply"], events
    assert next(event for event in events if event["event"] == "connected")["resumed"], events
    assert bytes.fromhex(events[-1]["payload"]) == text(b"b"), events
    print("ok command over a cut, resumed")
    peer.call(b"Count", b"\x08\x03", 1, kind="command")
    events = peer.wait_for("end")
    items = [item for event in events if event["event"] == "items" for item in event["items"]]
    assert items == ["0801", "0802", "0803"], events
    print("ok stream")
    peer.call(b"Sum", b"", 1, kind="command", streaming=True)
    for value in (1, 2, 3):
        peer.session.push(1, b"\x08" + bytes([value]))
    peer.session.end(1)
    reply = peer.wait_for("reply")[-1]
    assert bytes.fromhex(reply["payload"])[:2] == b"\x08\x06", reply
    print("ok client stream")
    peer.call(b"None", b"", 1)
    failed = peer.wait_for("failed")[-1]
    assert (failed["code"], failed["outcome"]) == (12, 1), failed
    print("ok unknown method")


if __name__ == "__main__":
    main()
