"""`os._exit` called by code of a user inside this process: it would end everything, without a word."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_lock = threading.Lock()
_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("ethogram_users_code", default=False)
_under_way = 0
_owner, _exit = 0, os._exit


@contextmanager
def exits_raised() -> Iterator[None]:
    """Let `os._exit` raise `SystemExit` in code that runs in this context, as `sys.exit` does; children exit as ever.

    A thread that such code started has no context to raise in: there a sentence is written before the process ends.
    """
    global _under_way, _exit, _owner
    with _lock:
        if not _under_way:
            _owner, _exit, os._exit = os.getpid(), os._exit, _raise
        _under_way += 1
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
        with _lock:
            _under_way -= 1
            if not _under_way:
                os._exit = _exit


def _raise(status: int) -> NoReturn:
    if os.getpid() != _owner:  # a forked child, such as one of multiprocessing, ends as it should
        _exit(status)
    if _inside.get():
        raise SystemExit(status)
    with _lock:
        sys.stderr.write(
            f"ethogram: a thread of the agent called os._exit({status}), which ends this process; what was committed "
            "is kept\n"
        )
        sys.stderr.flush()
    _exit(status)
