"""The worker in Python for servers of WSGI."""
import os


def application(environ, start_response):
    text = f'{{"text":"Hello, Ada","pid":{os.getpid()}}}'.encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]
