#!/usr/bin/env python3
"""What an answer from memory costs: instructions per request by callgrind, which other work on the
machine does not change; those of COUNTED requests more, so that starting and connecting cancel out.
Beside them the allocations of a computed answer.

Three servers on core 0, one thread each (peers/kept): `free` computes each answer with a handler that costs
nothing, `memo` answers from memory, `bare` is hyper with the bytes of memo's answer. Needs valgrind,
h2load and curl.

After them: REST and a page with metrics, and with an access log beside them; a miss (each request of another row), and a command that changes a row, which is read
again, with and without watchers.

Usage: bench/cached.py [--only PART]
"""
import argparse, http.client, os, re, struct, subprocess, sys, tempfile

import callgrind

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "peers", "target", "release", "kept")
COUNTED, BEFORE = 1000, 200
ID = b"\x08\x07"
H1, H2 = ["--h1", "-c", "8"], ["-c", "4", "-m", "4"]


def cells(folder):
    """Of each case: how h2load asks, what it asks for, and whether bare hyper can answer the same."""
    def file(name, content):
        path = os.path.join(folder, name)
        open(path, "wb").write(content)
        return path

    enveloped = file("grpc", b"\0" + struct.pack(">I", len(ID)) + ID)
    proto, json = file("proto", ID), file("json", b'{"id":7}')
    post = lambda path, kind: ["-d", path, "-H", f"content-type: {kind}"]
    get = "/kept.v1.Rows/Get"
    query = f"{get}?connect=v1&encoding=json&message=%7B%22id%22%3A7%7D"
    return {
        "gRPC": (H2 + post(enveloped, "application/grpc") + ["-H", "te: trailers"], get, False),
        "gRPC-Web": (H1 + post(enveloped, "application/grpc-web"), get, False),
        "Connect protobuf, HTTP/1.1": (H1 + post(proto, "application/proto"), get, True),
        "Connect JSON, HTTP/1.1": (H1 + post(json, "application/json"), get, True),
        "Connect GET, HTTP/1.1": (H1, query, True),
        "REST, HTTP/1.1": (H1, "/rows/7", True),
        "page, HTTP/1.1": (H1, "/page", True),
        "REST, 100 rows": (H1, "/rows?id=7", True),
        "Connect JSON, 100 rows": (H1 + post(json, "application/json"), "/kept.v1.Rows/List", True),
    }


class Server:
    def __init__(self, *arguments, under=()):
        command = ["taskset", "-c", "0", *under, PROGRAM, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def load(server, how, path, requests):
    command = ["taskset", "-c", "1", "h2load", "-t", "1", "-n", str(requests), *how, f"http://{server.address}{path}"]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    found = re.search(r"status codes: (\d+) 2xx", output)
    if not found or int(found.group(1)) < requests:
        sys.exit(f"errors are not answers: {output}")


def misses(server, requests):
    """Asks for another row each time."""
    connection = http.client.HTTPConnection(server.address)
    for id in range(1, requests + 1):
        asked(connection, "GET", f"/rows/{id}")


def changes(watchers):
    """Says that a row changed, which some watch, and reads it, which waits until it was looked at again.
    The row is what it was, so no event is sent."""
    def run(server, requests):
        command, followed = http.client.HTTPConnection(server.address), []
        for _ in range(watchers):
            connection = http.client.HTTPConnection(server.address)
            connection.request("GET", "/rows/7", headers={"accept": "text/event-stream"})
            followed.append(connection.getresponse())
            event(followed[-1])
        for _ in range(requests):
            asked(command, "POST", "/rows/7:touch")
            asked(command, "GET", "/rows/7")
    return run


def asked(connection, method, path):
    connection.request(method, path)
    response = connection.getresponse()
    response.read()
    if response.status != 200:
        sys.exit(f"errors are not answers: {method} {path}: {response.status}")


def event(response):
    """Reads up to the end of an event that has data."""
    data = False
    while line := response.readline():
        data = data or line.startswith(b"data:")
        if not line.strip() and data:
            return
    sys.exit("the events ended")


def counted(arguments, run, folder):
    totals = []
    for requests in (BEFORE, BEFORE + COUNTED):
        out = os.path.join(folder, "callgrind")
        server = Server(*arguments, under=("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"))
        run(server, requests)
        server.stop()
        totals.append(callgrind.counts(out))
    return [(after - before) / COUNTED for before, after in zip(*totals)]


def kept_response(how, path, folder):
    """The second answer of memo, which comes from memory, as a file for bare hyper."""
    server = Server("memo")
    out = os.path.join(folder, "response")
    pairs = list(zip(how, how[1:]))
    data = [value for name, value in pairs if name == "-d"]
    headers = [part for name, value in pairs if name == "-H" for part in ("-H", value)]
    ask = ["curl", "-s", "-i", "--http1.1", *headers, *(["--data-binary", f"@{data[0]}"] if data else [])]
    for _ in range(2):
        answer = subprocess.run([*ask, f"http://{server.address}{path}"], capture_output=True).stdout
    server.stop()
    open(out, "wb").write(answer)
    return out


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    print("| case | free | allocations | memo | memo / free | bare | memo / bare |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (how, path, has_bare) in cells(folder).items():
            if options.only not in name:
                continue
            run = lambda server, requests: load(server, how, path, requests)
            free, allocations = counted(["free"], run, folder)
            memo, _ = counted(["memo"], run, folder)
            row = f"| {name} | {free:,.0f} | {allocations:.1f} | {memo:,.0f} | {memo / free:.3f} |"
            if has_bare:
                bare, _ = counted(["bare", kept_response(how, path, folder)], run, folder)
                row += f" {bare:,.0f} | {memo / bare:.3f} |"
            else:
                row += " | |"
            print(row, flush=True)
        for name in ("REST, HTTP/1.1", "page, HTTP/1.1"):
            how, path, _ = cells(folder)[name]
            for what, also in (("metrics", "metrics"), ("logged", "metrics and an access log")):
                if options.only in f"{name}, {also}":
                    watched, _ = counted([what], lambda server, requests: load(server, how, path, requests), folder)
                    print(f"| {name}, {also} | | | {watched:,.0f} | | | |", flush=True)
        others = {"miss, REST": misses, "change and read, no watcher": changes(0), "change and read, 1 watcher": changes(1), "change and read, 10 watchers": changes(10)}
        for name, run in others.items():
            if options.only in name:
                print(f"| {name} | | | {counted(['memo'], run, folder)[0]:,.0f} | | | |", flush=True)


main()
