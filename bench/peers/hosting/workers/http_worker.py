"""The worker in Python: http.server on the socket that is descriptor 3."""
import os
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One write for an answer.
    wbufsize = -1

    def do_GET(self):
        text = f'{{"text":"Hello, Ada","pid":{os.getpid()}}}'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Page, bind_and_activate=False)
        self.socket = socket.socket(fileno=3)
        # It is a Unix socket, and http.server takes addresses of IP.
        self.server_name, self.server_port = "localhost", 0

    def get_request(self):
        connection, _ = self.socket.accept()
        return connection, ("caller", 0)

    def shutdown_request(self, request):
        self.close_request(request)


if __name__ == "__main__":
    Server().serve_forever()
