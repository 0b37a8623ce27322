"""Forwards connections out of an isolated process: `python -I -S forwarder.py SOCKET PORT WORDS…` runs WORDS.

Inside a bubble without network, what connects to PORT of its own loopback is passed on to SOCKET, which leads to a
server outside. Standard library only, and quick to start. The program takes the place of this process, so that it keeps
its exit code and its signals; a child passes bytes on and ends with the bubble.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

CANNOT_START = 126
CHUNK = 1 << 16


def main(arguments: list[str]) -> None:
    """Listen, leave the passing on to a child, and become the program."""
    path, port, words = arguments[0], int(arguments[1]), arguments[2:]
    listening = socket.create_server(("127.0.0.1", port), backlog=512)
    if os.fork() == 0:
        silence()
        serve(listening, path)
    listening.close()
    try:
        os.execvp(words[0], words)  # noqa: S606 - to run the user's program is what this is for
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        os._exit(CANNOT_START)


def silence() -> None:
    """Give up the program's input and output: they must end with the program."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)


def serve(listening: socket.socket, path: str) -> None:
    """Pass connections on until we are ended."""
    while True:
        inner, _ = listening.accept()
        outer = socket.socket(socket.AF_UNIX)
        try:
            outer.connect(path)
        except OSError:
            inner.close()
            continue
        for source, target in ((inner, outer), (outer, inner)):
            threading.Thread(target=pump, args=(source, target), daemon=True).start()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on in one direction, and its end."""
    try:
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


if __name__ == "__main__":
    main(sys.argv[1:])
