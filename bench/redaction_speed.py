"""Redaction: megabytes a second on texts of agents' logs (where they are at hand), on code, and on data in text form.

    python bench/redaction_speed.py

Time is the processor's, best of three; findings are printed, so that a change which finds more is not mistaken for a
slower one.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import sysconfig
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ethogram.store import Redactor

DATA = Path(__file__).parents[2] / "shared" / "data"
PER_FILE = 250_000
LONGEST = 20_000


def words(value: Any) -> Iterator[str]:
    """Texts in a JSON value."""
    if isinstance(value, str):
        if len(value) > 20:
            yield value[:LONGEST]
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from words(child)


def logs() -> Iterator[str]:
    """Texts of real logs, some of each file."""
    for path in sorted(p for p in DATA.glob("*/**/*") if p.suffix in (".json", ".jsonl", ".gz")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        size = 0
        for line in [data] if path.suffix == ".json" else data.splitlines():
            try:
                for text in words(json.loads(line)):
                    size += len(text)
                    if size < PER_FILE:
                        yield text
            except ValueError:
                continue


def code() -> Iterator[str]:
    """Files of Python's own library."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:60]:
        yield path.read_text(encoding="utf-8", errors="replace")


def data() -> Iterator[str]:
    """Images, hashes, ids, JSON and dumps."""
    rng = random.Random(1)
    for _ in range(40):
        yield "data:image/png;base64," + base64.b64encode(rng.randbytes(8000)).decode()
        yield base64.encodebytes(rng.randbytes(3000)).decode()
        yield "\n".join(f"{hashlib.sha256(rng.randbytes(9)).hexdigest()}  file{n}.txt" for n in range(60))
        yield "\n".join(str(uuid.UUID(bytes=rng.randbytes(16))) for _ in range(60))
        yield json.dumps([{"id": rng.getrandbits(60), "hash": rng.randbytes(20).hex(), "n": n} for n in range(60)])
        yield "\n".join(" ".join(f"{b:02x}" for b in rng.randbytes(16)) for _ in range(40))


def main() -> None:
    """Print a line for each kind of text."""
    redactor = Redactor(b"a key")
    for name, texts in (("logs", list(logs())), ("code", list(code())), ("data", list(data()))):
        size, best, found = sum(map(len, texts)) / 1e6, float("inf"), 0
        for _ in range(3):
            began = time.process_time()
            found = sum(len(redactor.find(text)) for text in texts)
            best = min(best, time.process_time() - began)
        if size:
            print(f"{name:5} {len(texts):6,} texts {size:7.2f} MB {size / best:7.1f} MB/s, {found} found")


if __name__ == "__main__":
    main()
