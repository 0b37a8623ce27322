"""A program: `python without_posix.py HOME LOGS` imports every module and answers questions as if this were Windows.

Modules, functions and constants that Windows has not are taken away, after the standard library and our dependencies
(which have versions of their own for Windows) were loaded as they are here. A folder cannot be opened, and to ask a
process whether it lives is to interrupt it. What is printed is one JSON document: what failed to import, and exit code
and output of each command.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import multiprocessing.resource_tracker
import os
import pkgutil
import platform
import shutil
import signal
import socket
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

LOADED = (
    "duckdb fsspec.implementations.local genai_prices httptools httpx ijson msgspec multiprocessing.shared_memory "
    "numpy opentelemetry.proto.trace.v1.trace_pb2 pyarrow.dataset pyarrow.fs pyarrow.parquet rapidfuzz rich.console "
    "rich.progress scipy.optimize scipy.special scipy.stats starlette.applications typer uvicorn yaml zstandard"
)
"""What is loaded before anything is taken away."""
GONE: dict[Any, str] = {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK P_PID WEXITED WEXITSTATUS WIFEXITED WIFSIGNALED WNOWAIT "
    "WTERMSIG chown fchown fdatasync fork forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp getsid "
    "getuid killpg lchown memfd_create mkfifo mknod nice openpty pipe2 posix_fadvise posix_fallocate posix_spawn pread "
    "preadv pwrite register_at_fork sched_getaffinity sched_setaffinity sched_yield setgid setpgid setpgrp setsid "
    "setuid sysconf ttyname uname wait3 wait4 waitid",
    signal: "ITIMER_REAL SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 "
    "SIGWINCH alarm getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt sigtimedwait sigwait",
    socket: "AF_UNIX SCM_RIGHTS SO_REUSEPORT",
}
MODULES = ("curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
PROGRAMS = ("__main__", "starter_files", "worlds.shop")
"""What is not imported: programs, and suites that belong to users."""
_open, _kill, _pair, _unix = os.open, os.kill, socket.socketpair, socket.AF_UNIX


def take_away() -> None:
    """Be a system without POSIX, as far as Python can tell."""
    assert asyncio
    assert multiprocessing.resource_tracker
    platform.uname()
    for name in LOADED.split():
        import_module(name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in GONE.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    socket.socketpair = lambda *_: _pair(_unix)  # type: ignore[assignment]
    os.open, os.kill = open_file, kill  # type: ignore[assignment]
    subprocess.Popen.kill = subprocess.Popen.terminate  # type: ignore[method-assign]
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]


def open_file(path: Any, flags: int, *rest: Any, **named: Any) -> int:
    """Windows opens no folder; a file without a name, which is asked for by its folder, does not exist either."""
    if isinstance(path, str | os.PathLike) and os.path.isdir(path):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise IsADirectoryError(21, "Is a directory", str(path))
        raise PermissionError(13, "Permission denied", str(path))
    return _open(path, flags, *rest, **named)


def kill(pid: int, number: int) -> None:
    """0 is Ctrl-C there."""
    if number == 0:
        raise AssertionError("a process was interrupted")
    _kill(pid, number)


def failed_imports() -> dict[str, str]:
    """Every module of ours, and why it cannot be imported."""
    import ethogram

    failed = {}
    for module in pkgutil.walk_packages(ethogram.__path__, "ethogram.", onerror=lambda name: None):
        if not any(part in module.name for part in PROGRAMS):
            try:
                import_module(module.name)
            except Exception as error:
                failed[module.name] = f"{type(error).__name__}: {error}"
    return failed


def answer(words: list[str]) -> dict[str, Any]:
    """Exit code and output of one command."""
    from ethogram.cli.main import run_verb

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: int | str = run_verb(words)
        except Exception as error:
            code = "".join(traceback.format_exception(error)[-4:])
    return {"words": words, "code": code, "out": out.getvalue(), "err": err.getvalue()}


def main(home: str, logs: str) -> None:
    """Import everything, then read, measure and report."""
    take_away()
    failed = failed_imports()
    os.environ["ETHOGRAM_HOME"] = home
    os.chdir(Path(home).parent)
    commands = [
        ["import", logs, "--run", "small"],
        ["import", logs, "--run", "other"],
        ["show", "small"],
        ["stats", "small"],
        ["compare", "small", "other"],
        ["gate", "small", "other"],
        ["cost", "small"],
        ["report", "small", "-o", "small.html"],
        ["init", "."],
        ["run", "suite", "--agent", "agent.py:solve", "-k", "1", "--run", "mine"],
        ["run", "suite", "--agent", "cmd: python -c 1", "-k", "1", "--run", "outside"],
        ["gateway", "--port", "0", "--", "python", "-c", "1"],
        ["serve", "--port", "0"],
    ]
    print(json.dumps({"failed": failed, "answers": [answer(words) for words in commands]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
