"""Starts a program and ends everything that it started: `python -I -S supervisor.py FD GRACE BOUNDS WORDS…`.

Standard library only, and quick to start, for every command of an agent or a check runs under one. On Linux it adopts
orphans (PR_SET_CHILD_SUBREAPER), so that a child which calls setsid or outlives its parent is still found below it.
FD is a socket to Ethogram: when Ethogram is gone, killed even, the socket is closed, and all children are killed; the
byte `T` asks for the same with GRACE seconds between SIGTERM and SIGKILL. It ends as the program ended.
BOUNDS is `-`, or JSON with `disk_mib`, `processes`, `memory_mib` and `folders`: a family that uses more is ended, with
a sentence on stderr.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
CANNOT_START = 126
TICK_SECONDS = 0.2
SHARE = 0.05
"""The most of our time that is spent on looking whether a bound is kept."""
PATIENCE_SECONDS = 10.0
"""How long processes that were killed may take to go (one that waits for a disk goes later)."""


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent ends; False where the system has no such thing."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def descendants(root: int) -> list[int]:
    """All processes below one, nearest first; nothing where the system has no /proc."""
    children: dict[int, list[int]] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(0), [])
        found.extend(below)
        queue.extend(below)
    return found


def signal_all(group: int, number: int) -> int:
    """Send a signal to all that is below us, or to the program's group where that cannot be known; says to how many."""
    below = descendants(os.getpid())
    targets = [(os.kill, pid) for pid in below] if os.path.isdir("/proc/self") else [(os.killpg, group)]
    for send, target in targets:
        try:
            send(target, number)
        except (ProcessLookupError, PermissionError):
            continue
    return len(below)


def end_all(group: int, grace: float) -> None:
    """End everything below us: politely at first if there is time, then for certain."""
    if grace > 0:
        signal_all(group, signal.SIGTERM)
        until = time.monotonic() + grace
        while descendants(os.getpid()) and time.monotonic() < until:
            reap()
            time.sleep(0.01)
    until = time.monotonic() + PATIENCE_SECONDS
    while signal_all(group, signal.SIGKILL) and time.monotonic() < until:  # a child may start another meanwhile
        reap()
        time.sleep(0.002)
    reap()


def reap() -> dict[int, int]:
    """Collect every child that has ended: process to status."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


class FamilyBounds:
    """What a family may use at once, and how much of it is used; where there is no /proc, only the disk is known."""

    def __init__(self, told: dict[str, Any]) -> None:
        """`told` is BOUNDS; what is written before now does not count."""
        self.told = told
        self.since = time.time_ns()
        self.next_look = self.next_walk = 0.0

    def broken(self, last: bool = False) -> str | None:
        """Which bound is broken, as a sentence; the dearer it is to know, the more seldom we look, but for the end."""
        began = time.monotonic()
        if began < self.next_look and not last:
            return None
        family = descendants(os.getpid())
        used = {"processes": len(family), "memory_mib": sum(map(resident, family)) >> 20}
        ended = time.monotonic()
        self.next_look = ended + max(TICK_SECONDS, (ended - began) / SHARE) - TICK_SECONDS / 2
        if last or ended >= self.next_walk:
            used["disk_mib"] = self.written() >> 20
            self.next_walk = time.monotonic() + (time.monotonic() - ended) / SHARE
        name = next((n for n in used if used[n] > self.told[n]), None)
        return None if name is None else f"ended by Ethogram: the bound {name}={self.told[name]} was broken"

    def written(self) -> int:
        """Bytes of the files in the folders that were written since the start."""
        size, todo, known = 0, list(self.told["folders"]), set()
        while todo:
            try:
                entries = list(os.scandir(todo.pop()))
            except OSError:
                continue
            for entry in entries:
                try:
                    facts = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                elif facts.st_ctime_ns >= self.since and (facts.st_dev, facts.st_ino) not in known:
                    known.add((facts.st_dev, facts.st_ino))
                    size += facts.st_blocks * 512
        return size


def resident(pid: int) -> int:
    """Bytes of memory that a process has for itself, 0 for one that is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, whole, shared = map(int, file.read().split()[:3])
    except (OSError, ValueError):
        return 0
    return (whole - shared) * os.sysconf("SC_PAGE_SIZE")


def limit_files(mib: int) -> None:
    """Let no file grow beyond this, wherever it lies."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        most = mib << 20 if hard == resource.RLIM_INFINITY else min(mib << 20, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    except (ImportError, OSError, ValueError):
        pass


def start(words: list[str], fd: int, bounds: FamilyBounds | None) -> int:
    """Start the program in a group of its own; if it cannot be started, say why on the socket."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.set_inheritable(fd, False)
        if bounds is not None:
            limit_files(bounds.told["disk_mib"])
        os.execvp(words[0], words)  # noqa: S606 - to run the user's program is what this is for
    except OSError as error:
        os.write(fd, f"{error.errno} ".encode())
    finally:
        os._exit(CANNOT_START)


def main(arguments: list[str]) -> None:
    """Run the program to its end, or until Ethogram asks for it or is gone."""
    fd, grace, words = int(arguments[0]), float(arguments[1]), arguments[3:]
    bounds = None if arguments[2] == "-" else FamilyBounds(json.loads(arguments[2]))
    adopt_orphans()
    waker, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    program = start(words, fd, bounds)
    status: int | None = None
    while status is None:
        # a second is for a wake-up that got lost
        ready = select.select([fd, waker], [], [], 1.0 if bounds is None else TICK_SECONDS)[0]
        if waker in ready:
            os.read(waker, 4096)
        if fd in ready:
            end_all(program, grace if os.read(fd, 1) == b"T" else 0.0)
            os._exit(CANNOT_START)
        status = reap().get(program)
        if bounds is not None and (broken := bounds.broken(last=status is not None)):
            end_all(program, 0.0)
            os.write(2, f"\n{broken}\n".encode())
            os._exit(CANNOT_START)
    end_all(program, 0.0)
    if os.WIFSIGNALED(status):
        end_like(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def end_like(number: int) -> None:
    """End by the signal that ended the program, without a core of our own."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main(sys.argv[1:])
