"""Regular expressions of suites: matched in processes of their own, so that a slow one ends when its time is up.

`(a+)+$` takes for ever on some answers, and while Python matches, nothing else runs in the process. The processes are
kept for the next match: one costs some ten milliseconds to start, a match in it about a tenth of one.
"""

from __future__ import annotations

import atexit
import marshal
import subprocess
import sys
import threading
from pathlib import Path

from ethogram.errors import BadInput, EthogramError

SECONDS = 5.0
"""The time that a pattern has for one text."""
KEPT = 8
_lock = threading.Lock()
_idle: list[subprocess.Popen[bytes]] = []


class PatternTooSlow(EthogramError):
    """A pattern did not come to an end in time: nothing is known of the text."""


def find(pattern: str, text: str, *, flags: int = 0, whole: bool = False, seconds: float | None = None) -> str | None:
    """What a pattern matches in a text (`whole`: the text as a whole), or None."""
    limit = SECONDS if seconds is None else seconds
    data = marshal.dumps((pattern, int(flags), whole, text, limit))
    helper = _taken()
    assert helper.stdin is not None
    assert helper.stdout is not None
    try:
        helper.stdin.write(len(data).to_bytes(8, "little") + data)
        helper.stdin.flush()
        header = helper.stdout.read(8)
        if len(header) < 8:
            raise BrokenPipeError
        found = marshal.loads(helper.stdout.read(int.from_bytes(header, "little")))  # noqa: S302 - between ourselves
    except (BrokenPipeError, EOFError, ValueError):
        _end(helper)
        raise PatternTooSlow(
            f"the pattern {pattern!r} did not come to an end within {limit:g} s on a text of {len(text):,} characters; "
            "write it without repetitions inside repetitions"
        ) from None
    except BaseException:
        _end(helper)  # it is in the middle of an answer
        raise
    with _lock:
        if len(_idle) < KEPT:
            _idle.append(helper)
            helper = None  # type: ignore[assignment]
    if helper is not None:
        _end(helper)
    if isinstance(found, tuple):
        raise BadInput(f"the pattern {pattern!r} cannot be used: {found[0]}", where=f"the pattern {pattern!r}")
    return found if found is None else str(found)


def _taken() -> subprocess.Popen[bytes]:
    """A process that waits for a request; one that died meanwhile is replaced."""
    while True:
        with _lock:
            helper = _idle.pop() if _idle else None
        if helper is None:
            program = str(Path(__file__).with_name("matcher.py"))
            return subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={},
                start_new_session=True,  # Ctrl-C is for us, not for it
            )
        if helper.poll() is None:
            return helper
        _end(helper)


def _end(helper: subprocess.Popen[bytes]) -> None:
    helper.kill()
    helper.communicate()


@atexit.register
def _end_all() -> None:
    with _lock:
        while _idle:
            _end(_idle.pop())
