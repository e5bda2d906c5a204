"""Asks as several callers through one HTTP cache, which none of them may get another's answer from.

Usage: http_cache_leak.py ADDRESS CALLER... -- PATH...: each CALLER is `name|header|value`, or `nobody||`. An answer
names its caller; nobody is refused (401). Prints a line a case, "ok ..." or "not ok ...".
"""

import sys

import requests
from cachecontrol import CacheControl


def check(what, holds, said):
    print(f"ok {what}" if holds else f"not ok {what}: {said!r:.200}")


def main():
    split = sys.argv.index("--")
    server, paths = "http://" + sys.argv[1], sys.argv[split + 1 :]
    callers = [caller.split("|") for caller in sys.argv[2:split]]
    cached = CacheControl(requests.Session())
    for path in paths:
        held = 0
        for _ in range(2):
            for name, header, value in callers:
                for _ in range(2):
                    reply = cached.get(server + path, headers={header: value} if header else {})
                    held += reply.from_cache
                    named = {other for other, _, _ in callers if f'"{other}"' in reply.text}
                    right = reply.status_code == 401 and not named if name == "nobody" else named == {name}
                    check(f"{path}: {name}", right, (reply.status_code, reply.from_cache, reply.text))
        check(f"{path}: something is held", held > 0, held)


main()
