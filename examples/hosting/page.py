"""A page of an application that knows nothing of Tidewire: http.server, at the port that PORT names."""
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"{self.path} in Python\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Page).serve_forever()
