"""Processes of agents and checks: bounded in time and output, and gone, with all their children, when they are done."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from ethogram.errors import NeedsPosix
from ethogram.traces import cut_whole, end_whole

from .supervisor import PATIENCE_SECONDS, descendants

MAX_OUTPUT = 4 << 20
"""Bytes of output that are kept; a process that writes sixteen times as much is ended."""
FLOOD = 16
KEPT_END = MAX_OUTPUT // 2 - 64
"""Of what is longer, so much is kept at each end; with the mark between them it is not too long any more."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_HARMLESS = frozenset({"PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONUNBUFFERED"})
"""What may be set for Python and changes nothing that is imported."""


class CommandBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a command of an agent and all that it starts may use at once: MiB written, processes, MiB of memory."""

    disk_mib: int = 512
    processes: int = 256
    memory_mib: int = 8192

    def over(self, folders: Sequence[Path]) -> str:
        """As a supervisor takes it; what is written counts in these folders."""
        return msgspec.json.encode({**msgspec.structs.asdict(self), "folders": list(map(str, folders))}).decode()


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended; `code` is None when we had to end it."""

    code: int | None
    stdout: str
    stderr: str
    seconds: float

    @property
    def last_words(self) -> str:
        """The last line that it printed."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return cut_whole(lines[-1].strip(), 300) if lines else "no output"


class Supervision:
    """The line to the supervisor of one program, which ends the program's whole family when the line is cut.

    Start `words(argv)` with `pass_fds=(supervision.theirs,)`, then call `started`.
    """

    def __init__(self) -> None:
        """Nothing is started yet."""
        NeedsPosix.check("ending a program with all its children")
        self._ours, self._theirs = socket.socketpair()

    @property
    def theirs(self) -> int:
        """The supervisor's end of the line."""
        return self._theirs.fileno()

    def words(self, argv: Sequence[str], grace: float = 0.0, bounds: str = "-") -> list[str]:
        """The command that runs a program under a supervisor; `grace` is the time between `stop` and its kill."""
        program = str(Path(__file__).with_name("supervisor.py"))
        return [sys.executable, "-I", "-S", program, str(self.theirs), f"{grace:g}", bounds, *argv]

    def started(self) -> None:
        """The supervisor has its end: ours alone keeps it going from now on."""
        self._theirs.close()

    def stop(self) -> None:
        """Ask the program to end, and kill what is left of its family after the grace."""
        with suppress(OSError):
            self._ours.send(b"T")

    def cut(self) -> None:
        """Kill the whole family at once."""
        self._theirs.close()
        self._ours.close()

    def raise_start_error(self) -> None:
        """Raise what kept the program from starting, if anything did."""
        self._ours.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            if number := self._ours.recv(16).decode().split():
                raise OSError(int(number[0]), os.strerror(int(number[0])))


def kill_family(pid: int) -> None:
    """Kill a process and all below it: for a supervisor that does not answer any more."""
    for one in (*descendants(pid), pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


class RunningProgram(NamedTuple):
    """A program that is ready to start: its words, how to start it, its supervisor, and the files that it writes to."""

    words: list[str]
    options: dict[str, Any]
    line: Supervision
    out: IO[bytes]
    err: IO[bytes]


@contextmanager
def supervised(
    argv: Sequence[str], *, folder: Path, env: Mapping[str, str], stdin: bytes, grace: float = 0.0, bounds: str = "-"
) -> Iterator[RunningProgram]:
    """A program to start in a folder, with `subprocess` or `asyncio`; call `line.started()` then, `line.cut()` last.

    Its words go through files, not pipes: a child that outlives it and keeps a pipe open would keep us waiting.
    """
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        asked.write(stdin)
        asked.seek(0)
        line = Supervision()
        try:
            options = {"stdin": asked, "stdout": out, "stderr": err, "env": dict(env), "cwd": folder}
            options |= {"start_new_session": True, "pass_fds": (line.theirs,)}
            yield RunningProgram(line.words(argv, grace, bounds), options, line, out, err)
        finally:
            line.cut()


def run_process(
    command: str | Sequence[str],
    *,
    folder: Path,
    timeout: float,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> Finished:
    """Run a command (a text goes through the shell) in a folder, and end it with everything that it started."""
    started = time.monotonic()
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    environment = clean_environment() if env is None else env
    with supervised(argv, folder=folder, env=environment, stdin=stdin) as program:
        # running the suite's own commands is what this is for
        process = subprocess.Popen(program.words, **program.options)  # noqa: S603
        program.line.started()
        outputs = program.out, program.err
        in_time = _wait(process.pid, started + timeout, outputs)
        code = _end(process, program.line) if not in_time else process.wait()
        program.line.raise_start_error()
        program.line.cut()
        seconds = time.monotonic() - started
        stdout, stderr = (kept_of(file)[0] for file in outputs)
        return Finished(code=code if in_time else None, stdout=stdout, stderr=stderr, seconds=seconds)


def _end(process: subprocess.Popen[bytes], line: Supervision) -> int:
    line.stop()
    try:
        return process.wait(PATIENCE_SECONDS + 1)
    except subprocess.TimeoutExpired:
        kill_family(process.pid)
        return process.wait()


def _wait(pid: int, deadline: float, outputs: Sequence[IO[bytes]]) -> bool:
    """Wait for the end without reaping; False when time is up or output floods."""
    pause = 0.001
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() >= deadline:
            return False
        if any(os.fstat(f.fileno()).st_size > FLOOD * MAX_OUTPUT for f in outputs):
            return False
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(0.05, pause * 1.5)
    return True


def kept_of(file: IO[bytes]) -> tuple[str, int]:
    """What was written to a file, and how many bytes of it were left out: of a long output both ends are kept."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    if size <= MAX_OUTPUT:
        return file.read().decode("utf-8", "replace"), 0
    head = cut_whole(file.read(KEPT_END + 1).decode("utf-8", "replace"), KEPT_END)
    file.seek(size - KEPT_END - 1)
    tail = end_whole(file.read().decode("utf-8", "replace"), KEPT_END)
    lost = size - len(head.encode()) - len(tail.encode())
    return head + left_out(lost) + tail, lost


def clipped(text: str) -> tuple[str, int]:
    """A text and how much of it was left out: of a long one both ends are kept."""
    if len(text) <= MAX_OUTPUT:
        return text, 0
    head, tail = cut_whole(text, KEPT_END), end_whole(text, KEPT_END)
    lost = len(text) - len(head) - len(tail)
    return head + left_out(lost, "characters") + tail, lost


def left_out(count: int, what: str = "bytes") -> str:
    """The mark in place of what was left out of the middle."""
    return f"\n[... {count} {what} left out ...]\n"


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without what looks like a secret, and with our Python first: an agent's code will run in it."""
    kept = {k: v for k, v in os.environ.items() if not _SECRET.search(k)}
    kept["PATH"] = os.pathsep.join(p for p in (str(Path(sys.executable).parent), kept.get("PATH", "")) if p)
    kept = {k: v for k, v in kept.items() if not k.startswith("PYTHON") or k in _HARMLESS}
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    return {**kept, **(more or {})}
