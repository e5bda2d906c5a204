"""Reads a server's answers through an HTTP cache of Python, while rows are changed beside it.

Usage: http_cache.py ADDRESS PATH...: each PATH's body holds the value of row 7, which POST /rows changes. Prints a
line a case, "ok ..." or "not ok ...".
"""

import sys

import requests
from cachecontrol import CacheControl


def check(path, what, holds, said):
    print(f"ok {path}: {what}" if holds else f"not ok {path}: {what}, but {said!r:.200}")


def main():
    server, paths = "http://" + sys.argv[1], sys.argv[2:]
    cached, plain = CacheControl(requests.Session()), requests.Session()
    for path in paths:
        for number in range(1, 4):
            value = 1000 * number + len(path)
            written = plain.post(server + "/rows", json={"id": "7", "value": str(value)})
            check(path, "a row is changed", written.status_code == 200, written.text)
            fresh = cached.get(server + path)
            check(path, "a change is seen", str(value) in fresh.text and not fresh.from_cache, fresh.text)
            again = cached.get(server + path)
            held = again.from_cache and again.content == fresh.content
            check(path, "what is held is confirmed", held, (again.from_cache, again.text))


main()
