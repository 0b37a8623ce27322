"""Python imports this module when a process of a guide page starts: it lists the files of the package that are read.

`PAGE_SOURCE` is the folder of the package, `PAGE_READS` the file that takes one path per line (see scripts/stamps.py).
"""

from __future__ import annotations

import os
import sys
from typing import Any

_SOURCE = os.environ.get("PAGE_SOURCE", "") + os.sep
_READS = os.environ.get("PAGE_READS", "")
_seen: set[str] = set()


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str):
        return
    path = arguments[0]
    if path in _seen or not path.startswith(_SOURCE):
        return
    _seen.add(path)
    try:
        handle = os.open(_READS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, (path + "\n").encode())
        os.close(handle)
    except OSError:  # an isolated agent may not write here; what it reads is a copy in its own folder
        return


if _READS:
    sys.addaudithook(_note)
