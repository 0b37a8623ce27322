"""A file that grows while it is imported: the steps of a random walk, and what a run holds in the end."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from ethogram.questions.logs.imports import ImportOptions, import_logs
from ethogram.questions.logs.watch import watch_logs
from ethogram.store import Home
from ethogram.store.files import LocalFiles

FORKS = """
import json, os, signal, sys
from pathlib import Path
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home
from ethogram.store.files import LocalFiles

class Killed(LocalFiles):
    left = 0

    def publish(self, *args, **named):
        if Killed.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        Killed.left -= 1
        return super().publish(*args, **named)

for line in sys.stdin:
    home, path, Killed.left = json.loads(line)
    child = os.fork()
    if child == 0:
        import_logs(path, home=Home(Killed(Path(home))), run="r")
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""A process that imports in children of its own and ends each by SIGKILL before it publishes its nth file."""


class Killer:
    """Imports that are killed."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, "-c", FORKS], stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def kill(self, home: Path, path: Path, files: int) -> None:
        """Import, and die before the file of this number is published."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(home), str(path), files]) + "\n")
        self._process.stdin.flush()
        self._process.stdout.readline()


def final_files(sample: bytes) -> dict[str, list[bytes]]:
    """What a file of this format may become, and how it looks on the way: as lines, as an array, as one document."""
    records = [json.loads(line) for line in sample.splitlines()]
    if len(records) > 1:
        lines = sample.splitlines(keepends=True)
        return {"lines": [b"".join(lines[: n + 1]) for n in range(len(lines))]}
    document = records[0]
    variants = document if isinstance(document, list) and len(document) > 1 else [document] * 3
    if isinstance(document, list) and len(document) == 1:
        variants = document * 3
    many = [_numbered(v, n) for n, v in enumerate(variants)]
    lines = [json.dumps(v).encode() + b"\n" for v in many]
    grown = {
        "array": [json.dumps(many[: n + 1]).encode() for n in range(len(many))],
        "one, then an array": [json.dumps(many[0]).encode(), json.dumps(many).encode()],
        "document": [json.dumps(document, indent=1).encode()],
    }
    if not isinstance(document, list):
        grown["lines"] = [b"".join(lines[: n + 1]) for n in range(len(lines))]
    return grown


def _numbered(value: Any, number: int) -> Any:
    """The same record with other words and other names of its own."""
    text = json.dumps(value).replace("Ring the bell.", f"Ring bell {number}.")
    for name in ("b7ad6b7169203331", "0af7651916cd43dd8448eb211c80319c", "44444444-4444-4444-8444-444444444444"):
        text = text.replace(name, f"{name[:-1]}{number}")
    return json.loads(text)


def walk(versions: list[bytes], draw: random.Random, folder: Path, killer: Killer | None) -> tuple[Path, list[str]]:
    """Import a file in a random sequence of steps up to its last version; gives the file and the steps."""
    home, path, packed = folder / "home", folder / "a.log", False
    folder.mkdir()
    torn = all(later.startswith(earlier) for earlier, later in pairwise(versions))
    at, data, steps = 0, versions[0], []

    def write() -> None:
        path.write_bytes(gzip.compress(data) if packed else data)

    def load() -> None:
        steps.append("import")
        import_logs(path, home=Home(LocalFiles(home)), run="r")

    write()
    for _ in range(draw.randint(3, 9)):
        step = draw.choice(["append", "append", "import", "import", "watch", "rename", "compress", "kill"])
        steps.append(step)
        if step == "append":
            at = min(len(versions) - 1, at + draw.randint(0, 2))
            data = versions[at]
            if torn and draw.random() < 0.4:  # the program that writes it is in the middle of a line
                data = versions[-1][: max(len(data), draw.randint(1, len(versions[-1])))]
            write()
        elif step == "rename":
            path = path.rename(folder / f"{draw.choice('abcdef')}.log")
        elif step == "compress":
            packed = not packed
            write()
        elif step == "watch":
            list(watch_logs(path, ImportOptions(run="r"), home=Home(LocalFiles(home)), rounds=1, seconds=0))
        elif step == "kill" and killer is not None:
            killer.kill(home, path, draw.randint(0, 5))
        elif step == "import":
            load()
    data = versions[-1]
    write()
    load()
    return path, steps


def holdings(home: Path) -> list[tuple[Any, ...]]:
    """What the run of a home says of its episodes."""
    run = Home(LocalFiles(home)).run("r")
    return sorted(
        (
            re.sub(r"\b[a-f]\.log(\.gz)?\b", "", trace.head.task),  # where the log names no task, its file does
            trace.head.attempt,
            trace.head.agent,
            str(trace.head.outcome),
            len(trace.spans),
            str(trace.answer),
        )
        for trace in run.traces()
    )


def one_import(path: Path, home: Path) -> list[tuple[Any, ...]]:
    """What a home holds that imports the file once."""
    import_logs(path, home=Home(LocalFiles(home)), run="r")
    return holdings(home)
