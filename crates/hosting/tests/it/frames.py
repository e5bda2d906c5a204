"""A program that speaks the live protocol without any help: what a program can say that no SDK of ours does.

| method | it answers |
|---|---|
| Get | an empty message, made of `items/TEXT` |
| Fail | not_found, made of `items/TEXT`; `no code` breaks a rule by it, `a large code` has one of eight bytes |
| Through | a number, made of `items/TEXT`, without a part that it asked for: `hurry` does not wait for it, `leave` gives it up, `refuse` asks for what is not there; with `waits` it waits for Get of `waits` and is made of that alone |
| Wait | nothing, ever; `let in` says that the gateway is not |
| Set | an empty message, after a change of `items/TEXT`; the key is not UTF-8 for `no text` |
| Do | nothing: it ends; `gets` is answered by how often Get and Through ran; `who` and `leave` are answered by its process id, the latter as the last call that it takes; `twice` so, and then once more |

`call back` of Do makes a command within, `late`, and is answered as that one arrives, which never is; `told` is answered
by the code and the outcome that the process heard of it.

A page of `/LENGTH/STATUS` is answered by that status and `a page`, of which it says that it has that length.

With `hello-only` it says hello, and never that it is ready; with `another-version` it speaks version 2, with `small`
it takes bodies of 64 KiB and metadata of 256 bytes at most. The methods are among those that the programs with an SDK serve (`sdk/protos/hosted.proto`).
"""

import json
import os
import socket
import struct
import sys

REPLY, ERROR, READY, REQUEST, GOAWAY, CANCEL, CHANGED, END, HTTP = 4, 5, 16, 3, 12, 8, 19, 1, 4
UNAUTHENTICATED = 19


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def string(data):
    return varint(len(data)) + data


def take_varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 128:
            return number, at


def entries(metadata):
    at = 0
    while at < len(metadata):
        tag, at = metadata[at], at + 1
        if tag == 0:
            length, at = take_varint(metadata, at)
            at += length
        length, at = take_varint(metadata, at)
        yield tag, metadata[at : at + length]
        at += length


class Session:
    def __init__(self):
        self.socket = socket.socket(fileno=int(os.environ["TIDEWIRE_FD"]))
        self.file = self.socket.makefile("rb")
        self.names = []

    def send(self, kind, stream=0, metadata=b"", payload=b"", flags=0, last=b"\0\0\0\0"):
        length = len(metadata) + len(payload)
        head = struct.pack("<IIBBH", length, stream, kind, flags, len(metadata)) + last
        self.socket.sendall(head + metadata + payload)

    def read(self):
        head = self.file.read(16)
        if len(head) < 16:
            sys.exit(0)
        length, stream, kind, _, meta = struct.unpack("<IIBBH", head[:12])
        body = self.file.read(length)
        return kind, stream, dict(entries(body[:meta])), body[meta:]

    def method(self, fields):
        if 2 in fields:
            self.names.append(fields[2].decode().rsplit("/", 1)[-1])
            return self.names[-1]
        return self.names[take_varint(fields[1], 0)[0]]


def depends(request):
    pair = string(b"items") + string(json.loads(request)["text"].encode())
    return b"\x0f" + string(pair)


def main():
    session = Session()
    features = varint(2 | 32)
    version = b"\x02" if sys.argv[1:] == ["another-version"] else b"\x01"
    hello = b"\x01\x04" + version + b"\x00" + version + b"\x00" + b"\x02" + string(features) + b"\x03" + string(varint(32))
    if sys.argv[1:] == ["small"]:
        hello += b"\x04" + string(varint(65536)) + b"\x0a" + string(varint(256))
    session.send(1, payload=hello, last=b"TWLV")
    session.read()
    if sys.argv[1:] == ["hello-only"]:
        session.read()
    session.send(READY)
    gets, part = 0, 1
    while True:
        kind, stream, fields, payload = session.read()
        if kind == ERROR:
            told = [take_varint(fields.get(tag, b"\0"), 0)[0] for tag in (8, 11)]
        if kind != REQUEST:
            continue
        if 13 in fields:
            length, status = fields[13].split(b"/")[-2:]
            head = b"\x0e" + string(varint(int(status))) + b"\0" + string(b"content-length") + string(length)
            session.send(REPLY, stream, head, b"a page", flags=END | HTTP)
            continue
        name, text = session.method(fields), json.loads(payload)["text"]
        if name == "Get":
            gets += 1
            session.send(REPLY, stream, depends(payload), b"{}", flags=END)
        elif name == "Through":
            gets += 1
            if text == "waits":
                part += 2
                meta = b"\x02" + string(b"\1/tidewire.hosted.v1.Hosted/Get") + b"\x13" + string(varint(stream))
                session.send(REQUEST, part, meta, payload, flags=END)
                kind, inner, fields, asked = session.read()
                while (kind, inner) != (REPLY, part):
                    if kind == REQUEST and session.method(fields) == "Get":
                        gets += 1
                        session.send(REPLY, inner, depends(asked), b"{}", flags=END)
                    kind, inner, fields, asked = session.read()
                session.send(REPLY, stream, b"", b'{"number":1}', flags=END)
                continue
            part, asked = part + 2, b"Nothing" if text == "refuse" else b"Wait"
            meta = b"\x02" + string(b"\1/tidewire.hosted.v1.Hosted/" + asked) + b"\x13" + string(varint(stream))
            session.send(REQUEST, part, meta, payload, flags=END)
            if text == "leave":
                session.send(CANCEL, part)
            while text == "refuse" and session.read()[:2] != (ERROR, part):
                pass
            session.send(REPLY, stream, depends(payload), b'{"number":1}', flags=END)
        elif name == "Set":
            key = b"\xff" if text == "no text" else text.encode()
            session.send(CHANGED, payload=string(b"items") + string(key))
            session.send(REPLY, stream, payload=b"{}", flags=END)
        elif name == "Do" and text == "gets":
            session.send(REPLY, stream, payload=json.dumps({"text": str(gets)}).encode(), flags=END)
        elif name == "Fail":
            code = {"no code": b"", "a large code": b"\x08" + string(varint(2**53 - 1))}
            code = code.get(text, b"\x08\x01\x05")
            session.send(ERROR, stream, code + b"\x09" + string(b"there is none") + depends(payload))
        elif name == "Wait" and text == "let in":
            session.send(GOAWAY, metadata=b"\x10" + string(varint(UNAUTHENTICATED)))
        elif name == "Do" and text in ("who", "leave", "twice"):
            if text == "leave":
                session.send(GOAWAY)
            session.send(REPLY, stream, payload=json.dumps({"text": str(os.getpid())}).encode(), flags=END)
            if text == "twice":
                session.send(REPLY, stream, payload=payload, flags=END)
        elif name == "Do" and text == "call back":
            method = b"\x01" + string(varint(0)) + b"\x02" + string(b"\1/tidewire.hosted.v1.Hosted/Do")
            meta = method + b"\x03" + string(varint(1) + varint(1)) + b"\x13" + string(varint(stream))
            session.send(REQUEST, 1, meta, b'{"text":"late"}', flags=END)
            outside = stream
        elif name == "Do" and text == "late":
            session.send(REPLY, outside, payload=b'{"text":"early"}', flags=END)
        elif name == "Do" and text == "told":
            session.send(REPLY, stream, payload=json.dumps({"text": str(told)}).encode(), flags=END)
        elif name == "Do":
            os._exit(3)


main()
