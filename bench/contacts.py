#!/usr/bin/env python3
"""The reference application, measured: what typing costs, PostgreSQL against Go and against memory, memory.

Needs, from the repository: `cargo build --release -p contacts -p tidewire-cli`, `go build -o
../../target/release/go-contacts .` in bench/peers/stacks/go, and Debian's PostgreSQL; for the part
`instructions` also valgrind. PostgreSQL is started here, in a temporary folder.

The server under test has core 0 to itself, so one worker thread; the load generator (`tidewire bench
run`) and PostgreSQL share the others. Rounds are interleaved (A B A B ...). CPU is utime + stime of the
server over the measured requests. Any answer but 200 ends the run.

Usage: bench/contacts.py [--rounds N] [--seconds S] [--write FOLDER] [PART...]
Parts: typed instructions postgres kept memory
"""
import argparse, glob, json, os, shutil, socket, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get("BENCH_BIN", os.path.join(ROOT, "target", "release"))
TICK = os.sysconf("SC_CLK_TCK")
ROWS = 1_000_000
CONNECTIONS = 64
# What ends what was started, in whatever way a part ends.
CLEANUP = []


class Process:
    """A server that prints `listening on ADDRESS`."""

    def __init__(self, command, env, cores="0"):
        self.process = subprocess.Popen(["taskset", "-c", cores] + command, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env={**os.environ, **env})
        CLEANUP.append(self.process.kill)
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.address = line.split()[-1]
                return
        sys.exit(f"{command}: ended before it listened")

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self, name):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith(name):
                return int(line.split()[1]) / 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Postgres:
    """A cluster of its own with `ROWS` contacts, on every core but the server's."""

    def __init__(self, folder):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
        if not found:
            sys.exit("PostgreSQL is not installed; run make setup")
        self.bin, self.folder = found[-1], os.path.join(folder, "pg")
        os.mkdir(self.folder)
        os.chmod(folder, 0o755)
        self.user = []
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
            self.user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]
        self.run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "-D", f"{self.folder}/data")
        self.run("pg_ctl", "-w", "-s", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log",
                 "-o", f"-k {self.folder} -h '' -c max_connections=400", "start", cores="1")
        CLEANUP.append(self.stop)
        self.url = f"postgres:///postgres?host={self.folder.replace('/', '%2F')}&user=postgres"

    def run(self, program, *words, cores="0,1"):
        command = ["taskset", "-c", cores] + self.user + [f"{self.bin}/{program}", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def psql(self, sql):
        command = self.user + [f"{self.bin}/psql", "-h", self.folder, "-U", "postgres", "-Atc", sql]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout.strip()

    def cpu(self):
        """Seconds of the postmaster and what it started, living and ended."""
        top = int(open(f"{self.folder}/data/postmaster.pid").readline())
        seconds = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(pid) == top:
                seconds += sum(map(int, fields[11:15])) / TICK
            elif int(fields[1]) == top:
                seconds += (int(fields[11]) + int(fields[12])) / TICK
        return seconds

    def stop(self):
        CLEANUP.remove(self.stop)
        self.run("pg_ctl", "-s", "-D", f"{self.folder}/data", "-m", "fast", "stop")


def contacts(env, cores="0", valgrind=()):
    env = {"TIDEWIRE_SERVER_LISTEN": "127.0.0.1:0", "TIDEWIRE_LOG_LEVEL": "warn", "DATABASE_URL": "", **env}
    return Process([*valgrind, os.path.join(BIN, "contacts")], env, cores)


def load(folder, url, *words):
    """Requests that were answered in the measured part, and their rate."""
    result = os.path.join(folder, "result.json")
    command = ["taskset", "-c", "1", os.path.join(BIN, "tidewire"), "bench", "run", url, "--connections",
               str(CONNECTIONS), "--json", result, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    result = json.load(open(result))
    requests = result["requests"]
    if requests["failed"] or not requests["ok"]:
        sys.exit(f"errors are not answers: {url}: {result['failures']}")
    return requests["ok"], result["throughput"]["ok_per_second"]


def spread(values, digits=1):
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


PAIRS = [("/json", "/mvc/json"), ("/plaintext", "/mvc/plaintext"), ("/echo/hello", "/store/hello")]


def typed(options, folder):
    """Two paths of one server: a plain handler, and a method of a .proto over REST."""
    server = contacts({"CONTACTS": "0", "CONTACTS_DB": os.path.join(folder, "typed.sqlite")})
    rows = ["| plain handler | typed method | plain, CPU µs/request | typed, CPU µs/request | ratio of medians |",
            "|---|---|---|---|---|"]
    for pair in PAIRS:
        cpu = {path: [] for path in pair}
        for _ in range(options.rounds):
            for path in pair:
                url = f"http://{server.address}{path}"
                load(folder, url, "--duration", "500ms")
                before = server.cpu()
                count, _ = load(folder, url, "--duration", f"{options.seconds}s")
                cpu[path].append((server.cpu() - before) / count * 1e6)
        plain, of_type = (cpu[path] for path in pair)
        ratio = statistics.median(of_type) / statistics.median(plain)
        rows.append(f"| `{pair[0]}` | `{pair[1]}` | {spread(plain, 2)} | {spread(of_type, 2)} | {ratio:.2f} |")
    server.stop()
    return "typed-rest", rows


def instructions(options, folder):
    """The same without the kernel, counted and not timed: instructions of the program per request."""

    def counted(path, requests):
        out = os.path.join(folder, "callgrind.out")
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        env = {"CONTACTS": "0", "CONTACTS_DB": os.path.join(folder, "typed.sqlite")}
        server = contacts(env, valgrind=valgrind)
        load(folder, f"http://{server.address}{path}", "-n", str(requests), "--duration", "300s", "--timeout", "100s")
        server.stop()
        with open(out) as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(("totals:", "summary:")))

    rows = ["| plain handler | typed method | plain, instructions/request | typed, instructions/request | ratio |",
            "|---|---|---|---|---|"]
    few, many = 2_000, 12_000
    for pair in PAIRS:
        plain, of_type = ((counted(path, many) - counted(path, few)) / (many - few) for path in pair)
        rows.append(f"| `{pair[0]}` | `{pair[1]}` | {plain:,.0f} | {of_type:,.0f} | {of_type / plain:.2f} |")
    return "typed-rest-instructions", rows


def postgres(options, folder):
    """GET /contacts/{id} of a random id among a million, c=64."""
    database = Postgres(folder)
    filled = contacts({"DATABASE_URL": database.url, "CONTACTS": str(ROWS)})
    filled.stop()
    database.psql("VACUUM ANALYZE contact")
    go = os.path.join(BIN, "go-contacts")
    servers = {}
    for number in options.connections:
        env = {"DATABASE_URL": database.url, "CONTACTS_DB_CONNECTIONS": str(number)}
        servers[f"contacts, {number} connections"] = contacts(env)
    for pool in options.pools:
        servers[f"net/http + pgx, pool of {pool}"] = Process([go], {"DATABASE_URL": database.url, "POOL": str(pool)})
    rate, cpu = ({name: [] for name in servers} for _ in range(2))
    for _ in range(options.rounds):
        for name, server in servers.items():
            url = f"http://{server.address}/contacts/{{{{random 1..{ROWS}}}}}"
            load(folder, url, "--duration", "500ms")
            before = server.cpu()
            count, per_second = load(folder, url, "--duration", f"{options.seconds}s")
            cpu[name].append((server.cpu() - before) / count * 1e6)
            rate[name].append(per_second)
    for server in servers.values():
        server.stop()
    database.stop()
    ours = next(name for name in servers if name.startswith("contacts"))
    peers = [name for name in servers if not name.startswith("contacts")]
    best = max(peers, key=lambda name: statistics.median(rate[name]))
    rows = ["| server | requests/s, median (min–max) | contacts ÷ this | CPU µs/request |", "|---|---|---|---|"]
    for name in servers:
        ratio = statistics.median(rate[ours]) / statistics.median(rate[name])
        note = " (its best)" if name == best and len(peers) > 1 else ""
        rows.append(f"| {name}{note} | {spread(rate[name], 0)} | {ratio:.2f} | {spread(cpu[name])} |")
    return "contacts-postgres", rows


def kept(options, folder):
    """GET /contacts/{id} of a thousand ids, from memory and from PostgreSQL; CPU with PostgreSQL's."""
    database = Postgres(folder)
    contacts({"DATABASE_URL": database.url, "CONTACTS": str(ROWS)}).stop()
    database.psql("VACUUM ANALYZE contact")
    env = {"DATABASE_URL": database.url}
    servers = {"from memory": contacts(env), "from PostgreSQL": contacts({**env, "TIDEWIRE_MEMO_ENABLED": "false"})}
    rate, cpu = ({name: [] for name in servers} for _ in range(2))
    for _ in range(options.rounds):
        for name, server in servers.items():
            url = f"http://{server.address}/contacts/{{{{random 1..1000}}}}"
            load(folder, url, "--duration", "500ms")
            before = server.cpu() + database.cpu()
            count, per_second = load(folder, url, "--duration", f"{options.seconds}s")
            cpu[name].append((server.cpu() + database.cpu() - before) / count * 1e6)
            rate[name].append(per_second)
    for server in servers.values():
        server.stop()
    database.stop()
    rows = ["| answers | requests/s, median (min–max) | ÷ PostgreSQL's | CPU µs/request with PostgreSQL's | ÷ PostgreSQL's |",
            "|---|---|---|---|---|"]
    of = lambda values, name: statistics.median(values[name]) / statistics.median(values["from PostgreSQL"])
    for name in servers:
        rows.append(f"| {name} | {spread(rate[name], 0)} | {of(rate, name):.2f} | {spread(cpu[name])} | {of(cpu, name):.3f} |")
    return "contacts-kept", rows


def slow_list(server, seconds):
    """Reads a list a little at a time for some seconds, then goes away."""
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET /contacts HTTP/1.1\r\nhost: bench\r\n\r\n")
        ends, read = time.monotonic() + seconds, 0
        while time.monotonic() < ends:
            read += len(client.recv(4096))
            time.sleep(0.01)
        return read


def whole_list(server):
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET /contacts HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
        started, rows, kept = time.monotonic(), 0, b""
        while data := client.recv(1 << 18):
            data = kept + data
            rows += data.count(b'"id":')
            kept = data[-4:] if not data.endswith(b'"id":') else b""
        return rows, time.monotonic() - started


def memory(options, folder):
    """RSS after a million requests, and the most it was while lists were read fast and slowly."""
    database = Postgres(folder)
    rows = ["| database | RSS at start, MiB | after 1,000,000 requests | most while a million rows were listed, fast and slowly | list of a million, s |",
            "|---|---|---|---|---|"]
    kinds = {"SQLite": {"CONTACTS_DB": os.path.join(folder, "memory.sqlite")}, "PostgreSQL": {"DATABASE_URL": database.url}}
    for name, env in kinds.items():
        contacts({**env, "CONTACTS": str(ROWS)}).stop()
        server = contacts({**env, "CONTACTS": str(ROWS)})
        start = server.memory("VmRSS")
        load(folder, f"http://{server.address}/contacts/{{{{random 1..{ROWS}}}}}", "-n", "1000000", "--duration", "600s")
        after = server.memory("VmRSS")
        server.stop()
        server = contacts({**env, "CONTACTS": str(ROWS)})
        count, seconds = whole_list(server)
        if count != ROWS:
            sys.exit(f"{name}: a list of {count} rows")
        slow_list(server, 10)
        rows.append(f"| {name} | {start:.1f} | {after:.1f} | {server.memory('VmHWM'):.1f} | {seconds:.1f} |")
        server.stop()
    database.stop()
    return "contacts-memory", rows


PARTS = {"typed": typed, "instructions": instructions, "postgres": postgres, "kept": kept, "memory": memory}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=3)
    arguments.add_argument("--connections", type=lambda text: [int(n) for n in text.split(",")], default=[4],
                           help="of contacts to PostgreSQL; the first is the one that peers are compared with")
    arguments.add_argument("--pools", type=lambda text: [int(n) for n in text.split(",")], default=[4, 16, 64])
    arguments.add_argument("--write", metavar="FOLDER")
    arguments.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    options = arguments.parse_args()
    for part in options.parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                name, rows = PARTS[part](options, folder)
            finally:
                for end in reversed(CLEANUP[:]):
                    end()
                CLEANUP.clear()
        text = "\n".join(rows) + "\n"
        print(text, flush=True)
        if options.write:
            os.makedirs(options.write, exist_ok=True)
            with open(os.path.join(options.write, f"{name}.md"), "w") as out:
                out.write(text)


main()
