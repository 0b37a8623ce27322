"""Leases on a run: many writers at once, or one rewriter alone.

Everybody first publishes a lease and then looks at the others, so that of two that begin in the same
moment at least one sees the other. A lease of a process that is gone counts for nothing.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

import msgspec

from ethogram.errors import Locked, NotFound

from .files import Files

FOLDER = "writers"
BELIEVED_NS = 86_400_000_000_000
"""How long a lease from another machine is believed without being renewed."""
RENEW_NS = 3_600_000_000_000
SESSION_RENEW_S = 30.0
SESSION_BELIEVED_NS = 180_000_000_000
"""A session renews its lease often, so that one which was lost with its machine does not bar the next for a day."""


class Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who writes: enough to tell whether that process still lives. `alone` tolerates no writer beside it.

    A `session` buys episodes: two of them would pay twice for the same ones.
    """

    pid: int
    boot: str
    born: str
    seen_ns: int
    alone: bool = False
    session: bool = False


def take(files: Files, path: str, name: str, *, alone: bool = False) -> Lease:
    """Publish a lease in a run, or refuse if somebody who must not be disturbed is at work there."""
    lease = renew(files, path, name, alone=alone)
    others = [held for other, held in leases(files, path).items() if other != name and is_alive(held)]
    in_the_way = others if alone else [held for held in others if held.alone]
    if in_the_way:
        release_lease(files, path, name)
        run = path.rpartition("/")[2]
        if alone and not any(held.alone for held in in_the_way):
            raise Locked(
                f"run {run!r} is being written by {len(in_the_way)} writer(s); try again when they have finished",
                where=run,
            )
        raise Locked(
            f"run {run!r} is being rewritten (retention or a change of keys); try again in a moment", where=run
        )
    return lease


@contextmanager
def session(files: Files, path: str) -> Iterator[None]:
    """Hold the lease of the one session that buys episodes of a run; a second one is refused while the first lives."""
    name = f"session-{secrets.token_hex(5)}"
    renew(files, path, name, session=True)
    try:
        check_idle(files, path, but=name)
    except Locked:
        release_lease(files, path, name)
        raise
    over = threading.Event()

    def keep() -> None:
        while not over.wait(SESSION_RENEW_S):
            with suppress(Exception):  # the writers of the session tell what is wrong with its home
                if files.exists(_path(path, name)):
                    renew(files, path, name, session=True)

    thread = threading.Thread(target=keep, name="ethogram-session", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        release_lease(files, path, name)


def check_idle(files: Files, path: str, but: str = "") -> None:
    """Refuse if a session, other than the one named, is buying episodes of a run."""
    others = [held for other, held in leases(files, path).items() if other != but and held.session]
    going = next((held for held in others if is_alive(held, SESSION_BELIEVED_NS)), None)
    if going is None:
        return
    where = f"process {going.pid}" + ("" if going.boot == _machine() else " on another machine")
    run = path.rpartition("/")[2]
    raise Locked(
        f"run {run!r} is still going ({where}), and a second session would pay for the same episodes again; wait for "
        f"it, or stop it with: ethogram kill {run}",
        where=run,
    )


def check_there(files: Files, path: str, name: str) -> None:
    """Refuse to write into a run whose lease has gone: somebody has removed or moved the home."""
    if not files.exists(_path(path, name)):
        raise vanished(files, path)


def vanished(files: Files, path: str) -> NotFound:
    """What to say of a run that is no longer where it was written."""
    run = path.rpartition("/")[2]
    return NotFound(
        f"run {run!r} has vanished from {files.address} while it was being written: what it held is lost; see what "
        "removed or moved it, and begin a new run"
    )


def renew(files: Files, path: str, name: str, *, alone: bool = False, session: bool = False) -> Lease:
    """Publish a lease, or publish it again: on other machines a lease is believed only so long."""
    lease = own_lease(alone=alone, session=session)
    files.publish(_path(path, name), msgspec.json.encode(lease))
    return lease


def own_lease(*, alone: bool = False, session: bool = False) -> Lease:
    """A lease of this process, as of now; nobody knows of it yet."""
    pid = os.getpid()
    return Lease(pid, _machine(), _own_birth(pid), time.time_ns(), alone, session)


def release_lease(files: Files, path: str, name: str) -> None:
    """Give a lease up."""
    files.delete(_path(path, name))


def leases(files: Files, path: str) -> dict[str, Lease]:
    """All leases in a run, by writer."""
    found = {}
    for name in files.names(f"{path}/{FOLDER}"):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, NotFound):
            found[name.removesuffix(".json")] = msgspec.json.decode(files.read(f"{path}/{FOLDER}/{name}"), type=Lease)
    return found


def is_alive(held: Lease, believed_ns: int = BELIEVED_NS) -> bool:
    """Whether a writer may still be at work; one elsewhere, or on Windows, is believed so long, by default a day."""
    if held.boot != _machine() or not hasattr(os, "fork"):  # on Windows, to ask a process is to interrupt it
        return time.time_ns() - held.seen_ns < believed_ns
    try:
        os.kill(held.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return held.born == _born(held.pid)


def _path(path: str, name: str) -> str:
    return f"{path}/{FOLDER}/{name}.json"


@cache
def _machine() -> str:
    """A hash that tells one start of one machine from all others, and says nothing else about it.

    The namespace of process ids is part of it: in another container the same id is another process.
    """
    state = blake2b(digest_size=8)
    try:
        state.update(Path("/proc/sys/kernel/random/boot_id").read_bytes())
        state.update(os.readlink("/proc/self/ns/pid").encode())
    except OSError:
        import uuid

        state.update(str(uuid.getnode()).encode())
    return state.hexdigest()


@cache
def _own_birth(pid: int) -> str:
    """When this process began; after a fork its id is another one."""
    return _born(pid)


def _born(pid: int) -> str:
    """When a process began, as its machine counts, so that a process id that was given again is not mistaken."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if facts[0] in ("Z", "X") else facts[19]
