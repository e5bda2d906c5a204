"""A program of the tests: HTTP on the socket, the port or the descriptor that it is told, with ways to
misbehave. Its second argument is what to do before it listens."""

import base64
import ctypes
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


NEXT = threading.Semaphore(0)
# Of the main thread: each has its own.
SIGNAL_OF_DEATH = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(SIGNAL_OF_DEATH))


# Answers that are none, or should not be so.
RAW = {
    "/switch": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "/coded": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n\x1f\x8b",
    "/sums": b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n1\r\na\r\n0\r\nx-sum: 42\r\n\r\n",
    "/nothing": b"HTTP/1.1 204 No Content\r\nConnection: close\r\nContent-Length: 5\r\n\r\n",
}


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
GARBAGE = {
    "/garbage": b"\0\1 no answer\r\n\r\n",
    "/garbage-chunk": HEAD + b"\r\nzz\r\nhello",
    "/two-lengths": HEAD + b"Content-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/healthz":
            is_ready = os.path.exists(sys.argv[2])
            open(sys.argv[2] + ".asked", "w").close()
            self.send_response(204 if is_ready else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path = self.path.split("?")[0]
        if path == "/pid":
            # In pieces: such an answer is open until it is read.
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.chunk(str(os.getpid()).encode())
            self.chunk(b"")
        elif path == "/open":
            # Goes on until its caller goes.
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.chunk(str(os.getpid()).encode())
            self.connection.recv(1)
            self.close_connection = True
        elif path == "/crash":
            os._exit(3)
        elif path == "/crash-in-stream":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.chunk(b"begun")
            os.kill(os.getpid(), signal.SIGKILL)
        elif path in GARBAGE:
            self.wfile.write(GARBAGE[path])
            self.close_connection = True
        elif path == "/close":
            # It listens no more, and goes on: as servers do that end by themselves.
            self.server.shutdown()
            self.server.socket.close()
            text = str(os.getpid()).encode()
            self.send_response(200)
            self.send_header("Connection", "close")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        elif path == "/hang":
            threading_forever()
        elif path == "/flood":
            line = b"x" * 100 + b"\n"
            for _ in range(40_000):
                sys.stdout.buffer.write(line)
            sys.stdout.flush()
            self.answer("flooded")
        elif path in ("/daemon", "/bare-daemon"):
            # A grandchild in a session of its own, without a parent; a bare one has no environment.
            environment = {} if path == "/bare-daemon" else None
            read, write = os.pipe()
            code = "import os,sys,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n" \
                   f"os.write({write}, str(os.getpid()).encode())\nos.close({write})\ntime.sleep(10**6)"
            subprocess.Popen([sys.executable, "-S", "-c", code], pass_fds=[write], env=environment)
            os.close(write)
            self.answer(os.read(read, 100).decode())
        elif path == "/hog":
            # More than one process may have, in four.
            for _ in range(4):
                if os.fork() == 0:
                    hog = bytearray(b"x") * (60 << 20)
                    threading_forever()
            os.wait()
            os._exit(1)
        elif path == "/forks":
            for forks in range(20):
                try:
                    if os.fork() == 0:
                        threading_forever()
                except OSError:
                    return self.answer(str(forks))
            threading_forever()
        elif path == "/socket":
            self.echo_websocket()
        elif path == "/upgrade":
            self.answer(str(self.headers["Upgrade"]))
        elif path == "/events":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for number in (1, 2, 3):
                self.wfile.write(b"data: %d\n\n" % number)
                self.wfile.flush()
                NEXT.acquire()
            self.close_connection = True
        elif path == "/next":
            NEXT.release()
            self.answer("next")
        elif path == "/told":
            names = ["Host", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix"]
            self.answer(" ".join(str(self.headers[name]) for name in names))
        elif path == "/principal":
            # As CGI and WSGI have it, where other signs in a name are one.
            name = lambda said: "".join(sign if sign.isalnum() else "_" for sign in said).lower()
            values = [value for said, value in self.headers.items() if name(said) == "tidewire_principal"]
            self.send_response(200)
            # Nobody's to say but the gateway's, and to programs only.
            self.send_header("Tidewire-Principal", "root")
            self.send_header("tidewire_rights", "caller")
            text = "\n".join(values).encode()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        elif path == "/cookie":
            self.answer(" | ".join(self.headers.get_all("Cookie")))
        elif path in RAW:
            self.wfile.write(RAW[path])
            self.close_connection = True
        elif path == "/long-get":
            self.do_POST()
        elif path == "/connections":
            self.answer(str(self.server.connections))
        elif path == "/place":
            self.answer(os.environ["SOCKET"])
        elif path == "/user":
            self.answer(f"{os.geteuid()} {os.environ['HOME']} {SIGNAL_OF_DEATH.value}")
        elif path == "/environment-mark":
            self.answer("HOSTED_BY_TIDEWIRE=" + os.environ["HOSTED_BY_TIDEWIRE"])
        elif path == "/environment":
            self.answer("\n".join(sorted(os.environ)))
        else:
            self.answer(self.path)

    def do_HEAD(self):
        # With the body, against the rule of HTTP.
        self.do_GET()

    def do_POST(self):
        if self.path == "/crash":
            os._exit(3)
        if self.path in ("/hog", "/forks"):
            return self.do_GET()
        if self.path == "/whole":
            if "Content-Length" in self.headers:
                return self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return self.answer(whole.decode())
        if self.path == "/unread":
            threading_forever()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        left = int(self.headers.get("Content-Length", "0"))
        if left:
            self.chunk(self.rfile.read(left))
        elif self.headers.get("Transfer-Encoding") == "chunked":
            # Piece by piece, as it comes.
            while size := int(self.rfile.readline(), 16):
                self.chunk(self.rfile.read(size))
                self.rfile.readline()
            # The empty line after the last chunk would be taken for the next request.
            self.rfile.readline()
        self.chunk(b"")

    def echo_websocket(self):
        """Sends each message back behind the path, until the caller closes."""
        key = self.headers["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode())
        self.send_header("Sec-WebSocket-Protocol", self.headers["Sec-WebSocket-Protocol"])
        self.end_headers()
        self.close_connection = True
        while True:
            kind, length = self.rfile.read(2)
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length & 127)))
            if kind & 15 != 8:
                data = self.path.encode() + b" " + data
            self.wfile.write(bytes([kind, len(data)]) + data)
            if kind & 15 == 8:
                return

    def do_PROPFIND(self):
        self.answer("PROPFIND " + self.path)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self):
        return "caller"

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    connections = 0

    def __init__(self):
        if "LISTEN_FDS" in os.environ and os.environ["LISTEN_PID"] == str(os.getpid()):
            super().__init__(("", 0), Handler, bind_and_activate=False)
            self.socket = socket.socket(fileno=3)
        elif path := os.environ.get("SOCKET"):
            self.address_family = socket.AF_UNIX
            super().__init__(path, Handler)
        else:
            super().__init__(("127.0.0.1", int(os.environ["PORT"])), Handler)

    def server_bind(self):
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0

    def get_request(self):
        connection, _ = self.socket.accept()
        self.connections += 1
        return connection, ("caller", 0)


def threading_forever():
    while True:
        time.sleep(1000)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if mode == "crash":
        sys.exit("no database")
    if mode == "never":
        threading_forever()
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "polite":
        def bye(*_):
            print("bye", flush=True)
            os._exit(0)
        signal.signal(signal.SIGTERM, bye)
    if mode == "chain" and os.fork() == 0:
        # Each link of the chain is there as long as it takes to fork the next, in a session of its own.
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
    if mode == "elsewhere":
        other = socket.create_server(("127.0.0.1", 0))
        with open(sys.argv[2] + ".new", "w") as file:
            file.write(str(other.getsockname()[1]))
        os.rename(sys.argv[2] + ".new", sys.argv[2])
        threading_forever()
    if mode == "decoy":
        # What leads to the socket of another, in the place of its own.
        os.symlink(sys.argv[2], os.environ["SOCKET"])
        threading_forever()
    if mode == "starts":
        # One line a start, for whoever counts them.
        with open(sys.argv[2], "a") as file:
            file.write("started\n")
    server = Server()
    if mode == "unborn":
        # It listens, as a server does whose workers are still to start, and accepts nothing.
        server.socket.listen()
        open(sys.argv[2], "w").close()
        threading_forever()
    # A number that it ends with, where it is told to.
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
    server.serve_forever()
    threading_forever()


main()
