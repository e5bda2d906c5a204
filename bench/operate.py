#!/usr/bin/env python3
"""What operating a server costs a unary call: instructions per call by callgrind, setting by setting.

The same server (bench/peers/operated) runs with more and more settings, one thread, under callgrind; h2load
makes calls. Counted are the instructions of COUNTED calls more, so that starting and connecting cancel out.
What callgrind counts does not depend on what else the machine does. The bars: metrics, and the bounds of the
guide, at most 5 % together; with a verified token 15 %. Over nothing is over the same call without settings.

h2load sends credentials so that no table of HPACK keeps them, which costs a server its reading anew in each call. Clients of gRPC
(grpc-go, tonic) let them be kept; "gRPC, credentials kept" is such a client, written here by hand.

--serve PROGRAM   `PROGRAM serve` in place of the peer: the echo of a schema, which costs more a call than
                  generated code, so that the same cost is a smaller part of it

Needs valgrind, h2load (Debian: nghttp2-client) and openssl. Usage: bench/operate.py [--only PART] [--serve PROGRAM]
"""
import argparse, base64, http.client, json, os, re, socket, struct, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "peers", "target")), "release", "operated")
COUNTED, BEFORE = 1000, 200
JSON_BODY = json.dumps({
    "name": "it", "d": 4.2, "f": 4.2, "b": True, "n": 42, "l": "42", "c1": "hello",
    "pets": [{"name": "Garfield", "color": "orange"}, {"name": "Snoopy", "color": "white"}],
}, separators=(",", ":")).encode()


def encoded():
    """The same message as protobuf."""
    pb = lambda field, wire, payload: bytes([field << 3 | wire]) + payload
    text = lambda field, value: pb(field, 2, bytes([len(value)]) + value.encode())
    pets = (text(1, name) + text(2, color) for name, color in (("Garfield", "orange"), ("Snoopy", "white")))
    return (text(1, "it") + pb(2, 1, struct.pack("<d", 4.2)) + pb(3, 5, struct.pack("<f", 4.2)) + pb(4, 0, b"\1")
            + pb(5, 0, b"\x2a") + pb(6, 0, b"\x2a") + text(7, "hello") + b"".join(pb(9, 2, bytes([len(pet)]) + pet) for pet in pets))


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(folder):
    """A key of an issuer in a file, and a token that it signed."""
    key = os.path.join(folder, "key.pem")
    openssl = lambda *words, data=b"": subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    point = openssl("ec", "-in", key, "-pubout", "-outform", "DER")[-64:]
    jwk = {"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "a", "x": base64url(point[:32]), "y": base64url(point[32:])}
    with open(os.path.join(folder, "keys.json"), "w") as file:
        json.dump({"keys": [jwk]}, file)
    head = {"alg": "ES256", "typ": "JWT", "kid": "a"}
    claims = {"iss": "https://id.example", "aud": "hello", "sub": "ada", "scope": "a b", "exp": int(time.time()) + 86400}
    signed = ".".join(base64url(json.dumps(part).encode()) for part in (head, claims))
    der = openssl("dgst", "-sha256", "-sign", key, data=signed.encode())
    # SEQUENCE of two INTEGERs to 64 bytes.
    first = der[4:4 + der[3]]
    second = der[6 + der[3]:]
    return signed + "." + base64url(b"".join(number.lstrip(b"\0").rjust(32, b"\0") for number in (first, second)))


def settings(folder):
    """What is set, each with all before it."""
    admin = f'[admin]\nlisten = "unix:{folder}/admin.sock"\n'
    limits = ('[limits]\ncalls_max = 1000\ncaller_rate = 1000000\naddress_rate = 1000000\ncaller_calls_max = 1000\n'
              'deadline_max = "60s"\ndeadline_default = "30s"\n')
    # A server under callgrind takes seconds for what it else does in a blink: keys are not read again meanwhile.
    auth = f'[auth.jwt]\nissuer = "https://id.example"\naudience = "hello"\nkeys = "{folder}/keys.json"\nrefresh = "1h"\n'
    return {
        "nothing": "",
        "nothing, a token that nobody reads": "",
        "metrics": admin,
        "metrics, all bounds of the guide": admin + limits,
        "metrics, a token that nobody reads": admin,
        "metrics, a cached token": admin + auth,
        "metrics, all bounds, a cached token": admin + limits + auth,
        "metrics, all bounds, access log of none": admin + limits + '[log]\naccess = "json"\naccess_sample = 0.0\n',
    }


PATH = "/hello.v1.Greeter/SayHello"


class Keeping:
    """Calls over gRPC whose headers, credentials too, are in the dynamic table from the second call on."""

    CONNECTIONS, STREAMS = 8, 8

    def __init__(self, message, shown):
        self.message = b"\0" + struct.pack(">I", len(message)) + message
        self.shown = shown

    def call(self, address, requests):
        """Makes so many calls; whatever is not answered with a message ends the program."""
        host, port = address.rsplit(":", 1)
        each, more = divmod(requests, self.CONNECTIONS)
        for number in range(self.CONNECTIONS):
            self.connection((host, int(port)), address, each + (number < more))

    def connection(self, place, authority, requests):
        frame = lambda kind, flags, stream, body=b"": struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body
        with socket.create_connection(place) as wire:
            wire.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
            stream, left, first = 1, requests, True
            while left:
                batch = min(left, 1 if first else self.STREAMS)
                out = b""
                for _ in range(batch):
                    out += frame(1, 4, stream, self.headers(authority, first)) + frame(0, 1, stream, self.message)
                    stream, first = stream + 2, False
                wire.sendall(out)
                self.answers(wire, frame, batch)
                left -= batch

    def headers(self, authority, first):
        count = 4 + bool(self.shown)
        if not first:
            # POST, http, and what was sent before, which the table has from 62 on, the last first.
            return bytes([0x83, 0x86, *(0x80 | 62 + at for at in reversed(range(count)))])
        text = lambda value: self.length(len(value)) + value.encode()
        known = lambda name, value: bytes([0x40 | name]) + text(value)
        block = bytes([0x83, 0x86]) + known(4, PATH) + known(1, authority) + known(31, "application/grpc")
        block += bytes([0x40]) + text("te") + text("trailers")
        return block + (known(23, f"Bearer {self.shown}") if self.shown else b"")

    @staticmethod
    def length(number):
        if number < 127:
            return bytes([number])
        out, number = [127], number - 127
        while number >= 128:
            out.append(number & 127 | 128)
            number >>= 7
        return bytes([*out, number])

    @staticmethod
    def answers(wire, frame, wanted):
        def exactly(length):
            read = b""
            while len(read) < length:
                piece = wire.recv(length - len(read))
                if not piece:
                    sys.exit("the connection ended")
                read += piece
            return read

        messages, ends = 0, 0
        while ends < wanted:
            head = exactly(9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            exactly(length)
            if kind == 4 and not flags & 1:
                wire.sendall(frame(4, 1, 0))
            messages += kind == 0 and length > 5
            ends += kind == 1 and flags & 1
        if messages != wanted:
            sys.exit(f"errors are not answers: {messages} messages of {wanted}")


def run(server, client, folder, requests):
    out = os.path.join(folder, "callgrind")
    under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
    environment = {**os.environ, "TOKIO_WORKER_THREADS": "1"}
    process = subprocess.Popen([*under, *server], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    address = process.stdout.readline().strip().removeprefix("listening on ")
    client(address, requests)
    process.terminate()
    process.wait()
    return int(re.search(r"^totals: (\d+)", open(out).read(), re.M).group(1))


def h2load(command, shown=None):
    """A client that is h2load with these arguments; a token was verified before, so that it is verified once."""
    def call(address, requests):
        if shown:
            before = http.client.HTTPConnection(address)
            headers = {"content-type": "application/json", "authorization": f"Bearer {shown}"}
            before.request("POST", PATH, JSON_BODY, headers)
            if before.getresponse().status != 200:
                sys.exit("the token is refused")
            before.close()
        output = subprocess.run([part.replace("ADDRESS", address) for part in command] + ["-n", str(requests)],
                                capture_output=True, text=True).stdout
        good = re.search(r"status codes: (\d+) 2xx", output)
        if not good or int(good.group(1)) != requests or " 0 failed" not in output:
            sys.exit(f"errors are not answers: {output}")
    return call


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--serve", metavar="PROGRAM")
    options = arguments.parse_args()
    protos = os.path.join(HERE, "peers", "overhead", "proto")
    print("| call | settings | instructions/call | ratio | over nothing |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        shown = token(folder)
        bodies = {"grpc": b"\0" + struct.pack(">I", len(encoded())) + encoded(), "json": JSON_BODY}
        for name, body in bodies.items():
            open(os.path.join(folder, name), "wb").write(body)
        kinds = {
            "gRPC, c=8 m=8": ("grpc", "application/grpc", ["-c", "8", "-m", "8"]),
            "gRPC, credentials kept, c=8 m=8": None,
            "Connect JSON, HTTP/1.1, c=8": ("json", "application/json", ["--h1", "-c", "8"]),
        }
        for kind, by_h2load in kinds.items():
            # A call that has a token costs its bytes anyway, so it is compared with one that has it, too.
            floors = {}
            for name, text in settings(folder).items():
                if options.only not in f"{kind} {name}":
                    continue
                file = os.path.join(folder, "tidewire.toml")
                open(file, "w").write(f'[server]\nlisten = "127.0.0.1:0"\n{text}')
                has_token = "token" in name
                if by_h2load is None:
                    client = Keeping(encoded(), shown if has_token else None).call
                else:
                    body, content_type, how = by_h2load
                    command = ["h2load", "-t", "1", *how, "-d", os.path.join(folder, body), "-H", f"content-type: {content_type}",
                               "-H", "te: trailers", f"http://ADDRESS{PATH}"]
                    if has_token:
                        command[1:1] = ["-H", f"authorization: Bearer {shown}"]
                    client = h2load(command, shown if has_token else None)
                server = [options.serve, "serve", protos, "--config", file] if options.serve else [BIN, file]
                less, more = (run(server, client, folder, count) for count in (BEFORE, BEFORE + COUNTED))
                each = (more - less) / COUNTED
                floor = floors.setdefault(has_token, each)
                print(f"| {kind} | {name} | {each:,.0f} | {each / floor:.3f} | {each - floor:,.0f} |", flush=True)


main()
