"""Asks as several callers through one HTTP cache, which none of them may get another's answer from.

Usage: http_cache_leak.py CACHE URL CALLER... -- KIND:PATH...

CACHE is `cachecontrol`, CacheControl in this process, or the nginx program to run with `proxy_cache`.
CALLER is `name|header|value`, `name|certificate|FILE.pem,FILE.key`, or `nobody||`. An answer names its caller.

KIND is what PATH answers:
  caller  the caller's name, to nobody 401
  known   nobody's name, to nobody 401
  public  nobody's name, to anybody
  tenant  what stands in x-tenant, to anybody
A shared cache holds nothing of the first two and something of the others.

Prints a line a case, "ok ..." or "not ok ...".
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import requests
from cachecontrol import CacheControl
from cachecontrol.cache import DictCache

CONFIGURATION = """
daemon off;
{user}
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  proxy_cache_path {folder}/held keys_zone=held:1m;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass {server};
      proxy_cache held;
      add_header x-cache $upstream_cache_status always;
    }}
  }}
}}
"""


def check(what, holds, said):
    print(f"ok {what}" if holds else f"not ok {what}: {said!r:.200}")


def nginx(program, server, folder):
    """Starts nginx in `folder` before `server`: its process and address."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    file = pathlib.Path(folder, "nginx.conf")
    # What root starts would work as nobody, who may not write there.
    user = "user root;" if os.getuid() == 0 else ""
    file.write_text(CONFIGURATION.format(folder=folder, port=port, server=server, user=user))
    # nginx takes over a socket that listens already, so callers may connect at once.
    environment = os.environ | {"NGINX": f"{listener.fileno()};"}
    command = ["setpriv", "--pdeathsig", "KILL", "--", program, "-p", folder, "-c", str(file)]
    process = subprocess.Popen(command, env=environment, pass_fds=[listener.fileno()])
    # With nginx its socket ends.
    listener.close()
    return process, f"http://127.0.0.1:{port}"


def allowed(kind, name, header, value):
    """The status and the names that an answer may have."""
    if kind == "caller":
        return (401, set()) if name == "nobody" else (200, {name})
    if kind == "known":
        return (401, set()) if name == "nobody" else (200, set())
    return 200, {name} if kind == "tenant" and header == "x-tenant" else set()


def session_of(header, value, cache):
    """One caller's connections, by way of `cache` if there is one."""
    session = requests.Session()
    session.trust_env = False
    session.verify = os.environ["AUTHORITY"]
    if header == "certificate":
        session.cert = tuple(value.split(","))
    elif header:
        session.headers[header] = value
    return CacheControl(session, cache) if cache else session


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ask(folder)


def ask(folder):
    split = sys.argv.index("--")
    cache, server, paths = sys.argv[1], sys.argv[2], sys.argv[split + 1 :]
    callers = [caller.split("|") for caller in sys.argv[3:split]]
    shared = cache != "cachecontrol"
    process = None
    if shared:
        process, server = nginx(cache, server, folder)
    cache = None if shared else DictCache()
    callers = [(*caller, session_of(*caller[1:], cache)) for caller in callers]
    for path in paths:
        kind, path = path.split(":", 1)
        held = 0
        for _ in range(2):
            for name, header, value, session in callers:
                for _ in range(2):
                    reply = session.get(server + path, timeout=60)
                    held += reply.headers.get("x-cache") == "HIT" if shared else reply.from_cache
                    named = {other for other, *_ in callers if f'"{other}"' in reply.text}
                    said = (reply.status_code, reply.headers, reply.text)
                    check(f"{path}: {name}", (reply.status_code, named) == allowed(kind, name, header, value), said)
        check(f"{path}: held {held} times", (held == 0) if shared and kind in ("caller", "known") else held > 0, held)
    if process:
        process.terminate()
        process.wait()


main()
