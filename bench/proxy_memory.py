#!/usr/bin/env python3
"""What a hundred thousand pages of 1 KiB in the cache cost a proxy in memory.

The proxies of the suite `proxy` that have a cache, started as bench/peers/peers.toml says. Each is asked for one page
a thousand times, then for PAGES pages one after the other, then for all of them again. The figures are what it has
after that less what it had before, of the process and its children:

resident       the sum of their resident memory; what they share is in it once for each
PSS            proportional memory, where it is in it once; of that anonymous memory, shared memory (nginx: its keys)
               and mapped files (Varnish has its log there, 80 MiB from the start, so it is in no difference)
folder         what its files take on disk; nginx keeps its pages there, and the page cache of the kernel, which holds
               them too, is in none of the other figures
kept           of the pages, those that the second time came without asking the origin

Usage: bench/proxy_memory.py [--pages N] [--tidewire PATH] [--markdown FILE]
"""
import argparse, http.client, os, re, signal, socket, subprocess, sys, tempfile, time, tomllib

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
OURS = "../../target/release/tidewire"
MIB = 2**20
PATIENCE = 20


def tree(root):
    """The process and everything below it."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(entry)] = int(open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    members = [root]
    for member in members:
        members += [pid for pid, parent in parents.items() if parent == member]
    return members


def memory(root, folder):
    """Bytes by kind."""
    totals = dict.fromkeys(("VmRSS", "Pss", "Pss_Anon", "Pss_Shmem", "Pss_File"), 0)
    for pid in tree(root):
        for file in ("status", "smaps_rollup"):
            for name, value in re.findall(r"^(\w+):\s+(\d+) kB", open(f"/proc/{pid}/{file}").read(), re.M):
                if name in totals:
                    totals[name] += int(value) * 1024
    files = (os.path.join(path, name) for path, _, names in os.walk(folder) for name in names)
    totals["folder"] = sum(os.lstat(file).st_blocks * 512 for file in files)
    return totals


class Asking:
    """A connection, and another one after a response that says that it closes."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(address, timeout=PATIENCE)

    def body(self, path):
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 200:
            sys.exit(f"errors are not answers: {path}: {response.status}")
        return body

    def page(self, number):
        if self.body(f"/pages/{number}") != str(number).encode().ljust(1024, b"x"):
            sys.exit(f"page {number} is another one")


def started(peer, origin, folder, options):
    """The process, and where it listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    filled = lambda word: word.replace("{port}", str(port)).replace("{folder}", folder).replace("{origin}", origin)
    words = [options.tidewire if word == OURS else filled(word) for word in peer["run"]]
    environment = {**os.environ, **{name: filled(value) for name, value in peer.get("environment", {}).items()}}
    process = subprocess.Popen(["taskset", "-c", "0", *words], cwd=PEERS, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, f"127.0.0.1:{port}"
        except ConnectionRefusedError:
            time.sleep(0.01)
    stop(process)
    return None, None


def stop(process):
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def row(peer, origin, options):
    counts = Asking(origin)
    asked = lambda: int(counts.body("/asked"))
    with tempfile.TemporaryDirectory() as folder:
        # A proxy may be another user.
        os.chmod(folder, 0o755)
        process, address = started(peer, origin, folder, options)
        if not process:
            return f"| {peer['name']} | did not start | | | | | | | |"
        try:
            proxy = Asking(address)
            for _ in range(1000):
                proxy.body("/page")
            before, first = memory(process.pid, folder), asked()
            for number in range(options.pages):
                proxy.page(number)
            second = asked()
            if second - first != options.pages:
                sys.exit(f"{peer['name']} asked the origin {second - first} times for {options.pages} pages")
            for number in range(options.pages):
                proxy.page(number)
            kept = options.pages - (asked() - second)
            after = memory(process.pid, folder)
        finally:
            stop(process)
    more = {name: after[name] - before[name] for name in before}
    cells = [f"{more['VmRSS'] / MIB:.1f}", f"{more['VmRSS'] / options.pages:,.0f}"]
    cells += [f"{more[name] / MIB:.1f}" for name in ("Pss", "Pss_Anon", "Pss_Shmem", "Pss_File", "folder")]
    return f"| {peer['name']} | {' | '.join(cells)} | {kept:,} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--tidewire", default=OURS)
    parser.add_argument("--markdown")
    options = parser.parse_args()
    # Whoever ends this ends the proxies, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.tidewire != OURS:
        options.tidewire = os.path.abspath(options.tidewire)
    with open(os.path.join(PEERS, "peers.toml"), "rb") as file:
        peers = [peer for peer in tomllib.load(file)["proxy"] if "cached" not in peer.get("lacks", [])]
    lines = ["| proxy | resident, MiB | of it a page, bytes | PSS, MiB | anonymous | shared | files | folder, MiB | kept |",
             "|---|" + "--:|" * 8]
    print("\n".join(lines), flush=True)
    origin = subprocess.Popen(["taskset", "-c", "1", os.path.join(PEERS, "target/release/proxy-origin")],
                              stdout=subprocess.PIPE, text=True)
    try:
        address = origin.stdout.readline().strip()
        for peer in peers:
            # What answers from memory by itself asks nobody and keeps nothing.
            if any("{origin}" in word for word in peer["run"]):
                lines.append(row(peer, address, options))
                print(lines[-1], flush=True)
    finally:
        stop(origin)
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")


main()
