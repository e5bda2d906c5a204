#!/usr/bin/env python3
"""What a call of a frozen process takes: its time, and the processor time of the gateway and of its supervisor.

Each gateway that is named hosts the program of the tests over plain HTTP and freezes it as soon as it is idle. A
call is made once it is stopped; processor time is of the freeze and the thaw. Gateways take turns. Beside them
the floor: SIGCONT and a byte to a stopped echo behind a socket pair, with nothing between.

--rounds N    in place of nine, each of 40 calls

Linux. Usage: bench/frozen.py GATEWAY...
"""
import argparse, os, signal, socket, statistics, subprocess, sys, tempfile, time

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crates/hosting/tests/it/program.py")
CALLS, PATIENCE = 40, 5
ECHOES = {
    "Python": ["python3", "-c", "import socket\ns = socket.socket(fileno=0)\nwhile b := s.recv(9): s.send(b)"],
    "Node": ["node", "-e", "const s = new (require('net').Socket)({fd: 0}); s.on('data', d => s.write(d))"],
}


def processor_time(pid):
    """Microseconds, of all threads."""
    threads = [f"/proc/{pid}/task/{thread}/schedstat" for thread in os.listdir(f"/proc/{pid}/task")]
    return sum(int(open(path).read().split()[0]) for path in threads) / 1000


def children(pid):
    lists = [f"/proc/{pid}/task/{thread}/children" for thread in os.listdir(f"/proc/{pid}/task")]
    return [int(child) for path in lists for child in open(path).read().split()]


def until(what, is_so):
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {PATIENCE} s")
        time.sleep(0.0005)


def call(connection):
    connection.sendall(b"GET /pid HTTP/1.1\r\nHost: a\r\n\r\n")
    answer = b""
    while not answer.endswith(b"0\r\n\r\n"):
        if not (data := connection.recv(65_536)):
            sys.exit(f"the gateway closed the connection: {answer!r}")
        answer += data
    if not answer.startswith(b"HTTP/1.1 200 "):
        sys.exit(f"no answer of the program: {answer!r}")


def of_gateway(gateway, folder):
    """A round: p50 of the calls, processor time of the gateway and of its supervisor a call, in microseconds."""
    path, settings = os.path.join(folder, "socket"), os.path.join(folder, "tidewire.toml")
    with open(settings, "w") as file:
        file.write(f'[server]\nlisten = "unix:{path}"\n[[service]]\nname = "it"\nroute = "/*"\nidle_freeze = "1ms"\nlisten = "inherited"\n')
        file.write(f'run = ["python3", "-I", "-S", "{os.path.realpath(PROGRAM)}"]\n')
    command = [gateway, "serve", "--config", settings]
    served = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("the socket of the gateway", lambda: os.path.exists(path))
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            call(connection)
            [supervisor] = children(served.pid)
            [worker] = children(supervisor)

            def is_stopped():
                return open(f"/proc/{worker}/stat").read().rsplit(") ", 1)[1][0] == "T"

            until("a frozen process", is_stopped)
            times, pids = [], (served.pid, supervisor)
            before = [processor_time(pid) for pid in pids]
            for _ in range(CALLS):
                begun = time.perf_counter()
                call(connection)
                times.append((time.perf_counter() - begun) * 1e6)
                until("a frozen process", is_stopped)
                time.sleep(0.004)  # The supervisor may still be looking for what left the group.
            spent = [(processor_time(pid) - at) / CALLS for pid, at in zip(pids, before)]
    finally:
        served.terminate()
        served.wait()
    return statistics.median(times), *spent


def of_echo(command):
    """A round: the mean, in microseconds."""
    near, far = socket.socketpair()
    with near, far, subprocess.Popen(command, stdin=far) as echo:
        near.send(b"x")
        near.recv(9)
        times = []
        for _ in range(CALLS):
            os.kill(echo.pid, signal.SIGSTOP)
            os.waitpid(echo.pid, os.WUNTRACED)
            time.sleep(0.005)
            begun = time.perf_counter()
            os.kill(echo.pid, signal.SIGCONT)
            near.send(b"x")
            near.recv(9)
            times.append((time.perf_counter() - begun) * 1e6)
        echo.kill()
    return statistics.mean(times)


def shown(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("gateways", nargs="+")
    asked = parser.parse_args()
    rounds = {gateway: [] for gateway in asked.gateways}
    echoes = {name: [] for name in ECHOES}
    for _ in range(asked.rounds):
        for gateway, found in rounds.items():
            with tempfile.TemporaryDirectory() as folder:
                found.append(of_gateway(gateway, folder))
        for name, command in ECHOES.items():
            echoes[name].append(of_echo(command))
    print("| µs | p50 | gateway | supervisor |\n|---|--:|--:|--:|")
    for gateway, found in rounds.items():
        print(f"| {gateway} |", " | ".join(shown(values) for values in zip(*found)), "|")
    for name, found in echoes.items():
        print(f"| echo in {name}, mean | {shown(found)} | – | – |")


main()
