"""Processes that verify: bounded in time and output, and gone, with all their children, when they are done."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

MAX_OUTPUT = 4 << 20
"""Bytes of output that are kept; a process that writes sixteen times as much is ended."""
FLOOD = 16
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)


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
        return lines[-1].strip()[:300] if lines else "no output"


def run_process(
    command: str | Sequence[str], *, folder: Path, timeout: float, env: Mapping[str, str] | None = None
) -> Finished:
    """Run a command (a text goes through the shell) in a folder, and end its whole process group.

    Output goes to files, not pipes, so that a child that outlives its parent cannot keep us waiting.
    """
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(  # noqa: S603 - running the suite's own commands is what this is for
            command,
            shell=isinstance(command, str),
            cwd=folder,
            env=dict(env) if env is not None else clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            in_time = _wait(process.pid, started + timeout, (out, err))
        finally:
            # the leader is not reaped yet, so its number, and that of its group, still belong to it
            _end_group(process.pid)
            code = process.wait()
        seconds = time.monotonic() - started
        return Finished(code=code if in_time else None, stdout=_text(out), stderr=_text(err), seconds=seconds)


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


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _text(file: IO[bytes]) -> str:
    """What was written: the beginning and the end where it is long."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    if size <= MAX_OUTPUT:
        return file.read().decode("utf-8", "replace")
    head = file.read(MAX_OUTPUT // 2)
    file.seek(size - MAX_OUTPUT // 2)
    return (head + b"\n[...]\n" + file.read(MAX_OUTPUT // 2)).decode("utf-8", "replace")


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without what looks like a secret, and with our Python first: an agent's code will run in it."""
    kept = {k: v for k, v in os.environ.items() if not _SECRET.search(k)}
    kept["PATH"] = os.pathsep.join(p for p in (str(Path(sys.executable).parent), kept.get("PATH", "")) if p)
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    kept.pop("PYTHONPATH", None)
    return {**kept, **(more or {})}
