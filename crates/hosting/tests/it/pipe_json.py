"""A worker of the tests for `pipe-json`: it listens at PIPE_ADDRESS and answers one JSON object per
connection. Its argument says how it finds the end of a request: `parse` tries after each piece, as
most such workers do; `end` reads until nothing more comes, as those that read a stream to its end
do; `one` is `parse`, one connection at a time with room for one more."""

import base64
import json
import os
import socket
import sys
import threading

MODE = sys.argv[1]
CONNECTIONS = 0


def read(connection):
    text = b""
    while piece := connection.recv(4096):
        text += piece
        if MODE != "end":
            # A parse of each piece takes the square of the time.
            if not text.endswith(b"}"):
                continue
            try:
                return json.loads(text)
            except json.JSONDecodeError:
                continue
    return json.loads(text)


def message(body, status=200, **more):
    return json.dumps({"status": status, "body": base64.b64encode(body).decode(), **more}).encode()


# Responses that are not of the protocol, or hardly.
RAW = {
    "/garbage": b"HTTP/1.1 200 OK\r\n\r\n",
    "/two": message(b"own") + message(b"another's"),
    "/base64": b'{"status": 200, "body": "?"}',
    "/status": b'{"status": "fine", "body": ""}',
    "/injected": message(b"", headers={"a": "1\r\nset-cookie: b"}),
    "/open": message(b"open"),
    "/marked": b"\xef\xbb\xbf" + message(b"marked"),
    "/length": message(b"tea", headers={"content-length": "9"}),
    "/nothing": message(b"no content", 204),
}


def answer(connection):
    asked = read(connection)
    path, _, query = asked["uri"].partition("?")
    body = base64.b64decode(asked["body"])
    if path == "/echo":
        headers = {"x-method": asked["method"], "x-query": query, "set-cookie": ["a=1", "b=2"]}
        connection.sendall(message(body, 201, headers=headers))
    elif path == "/told":
        names = ("host", "x-forwarded-prefix", "x-tea", "te", "x-forwarded-for")
        told = [value for name in names for key, value in asked["headers"] if key == name]
        connection.sendall(message(" ".join(told).encode()))
    elif path == "/pid":
        connection.sendall(message(str(os.getpid()).encode()))
    elif path == "/connections":
        connection.sendall(message(str(CONNECTIONS).encode()))
    elif path == "/flood":
        connection.sendall(b'{"body": "')
        while True:
            connection.sendall(b"A" * 65536)
    elif path == "/crash":
        connection.sendall(message(b"half")[:20])
        os._exit(3)
    elif path == "/close":
        connection.sendall(message(b"half")[:20])
    elif path == "/hang":
        threading.Event().wait()
    else:
        connection.sendall(RAW[path])
        if path == "/open":
            # The gateway has all of it, and closes.
            connection.recv(1)


def serve(connection):
    with connection:
        try:
            answer(connection)
        except OSError:
            pass


listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["PIPE_ADDRESS"])
listener.listen(0 if MODE == "one" else 64)
while True:
    taken, _ = listener.accept()
    CONNECTIONS += 1
    if MODE == "one":
        serve(taken)
    else:
        threading.Thread(target=serve, args=(taken,), daemon=True).start()
