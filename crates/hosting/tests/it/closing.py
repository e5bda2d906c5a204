"""A program that closes its connections in the moment of their second request, and has not said so."""
import os, socket, sys, threading

listener, seen = socket.socket(fileno=3), []


def serve(connection):
    asked = connection.recv(65536).split()
    seen.append(asked[0].decode())
    body = " ".join(seen).encode()
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    if asked[1] != b"/close":
        # What of a request is not read makes of an end a reset.
        asked = connection.recv(1 if asked[1] == b"/reset" else 65536)
        if asked:
            seen.append(asked.split()[0].decode() + "-lost")
    connection.close()


while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
