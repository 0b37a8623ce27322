"""Which guide pages must run again: `make docs` leaves alone a page whose output cannot have changed.

A page runs again when one of these is not as it was when the page last ran:

- its code blocks, with the output that they show (prose may change freely),
- a file of src/ethogram that one of its processes read; every Python process of a page lists what it opens,
- the names of the files of src/ethogram, as a new module or a new file of data can be found by listing a folder,
- the interpreter, requirements.lock, or the scripts that run pages.

Stamps are in .cache/pages, which is not committed. `make docs ALL=1` runs every page; so does `make test`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pages import PAGES, ROOT, RUN, blocks, rewrite

SOURCE = ROOT / "src" / "ethogram"
STAMPS = ROOT / ".cache" / "pages"
EVERY_PAGE = (ROOT / "requirements.lock", *sorted((ROOT / "scripts").rglob("*.py")))


def renew(every: bool) -> None:
    """Run the pages that are not fresh, or every page, two at a time, and write what their commands print."""
    stale = [page for page in PAGES if every or not Stamp(page).is_fresh()]
    with ThreadPoolExecutor(2) as pool:
        for line in pool.map(_renew, stale):
            print(line, flush=True)
    if len(stale) < len(PAGES):
        print(
            f"{len(PAGES) - len(stale)} of {len(PAGES)} pages are as they were: neither they nor what they use changed"
        )


def _renew(page: Path) -> str:
    stamp = Stamp(page)
    changed = rewrite(page, stamp.watch())
    stamp.write()
    return f"{page.relative_to(ROOT)}: {'output renewed' if changed else 'as before'}"


class Stamp:
    """What the output of one page depended on when the page last ran."""

    def __init__(self, page: Path, source: Path = SOURCE, stamps: Path = STAMPS) -> None:
        self.page, self.source = page, source
        self.path = stamps / f"{page.stem}.json"
        self.reads = stamps / f"{page.stem}.reads"
        self.started = 0.0

    def is_fresh(self) -> bool:
        """Whether the page need not run: everything is as it was when it last ran."""
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        if known["always"] != self.always():
            return False
        return all(digest_of(self.source / name) == digest for name, digest in known["read"].items())

    def watch(self) -> dict[str, str]:
        """The variables that make every Python process of the page list the files that it reads."""
        self.started = time.time()
        self.reads.parent.mkdir(parents=True, exist_ok=True)
        self.reads.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        recorder = str(ROOT / "scripts" / "page_reads")
        path = os.pathsep.join(p for p in (recorder, os.environ.get("PYTHONPATH")) if p)
        return {"PYTHONPATH": path, "PAGE_READS": str(self.reads), "PAGE_SOURCE": str(self.source)}

    def write(self) -> None:
        """Remember that the page is right, once it has run and its output is written.

        A file that was edited while the page ran leaves no stamp: nobody knows which version the page saw.
        """
        lines = self.reads.read_text(encoding="utf-8").splitlines() if self.reads.is_file() else []
        read = {str(source_of(Path(line)).relative_to(self.source)) for line in lines}
        self.reads.unlink(missing_ok=True)
        if any(p.is_file() and p.stat().st_mtime >= self.started for p in (self.source / name for name in read)):
            return
        known = {"always": self.always(), "read": {name: digest_of(self.source / name) for name in sorted(read)}}
        self.path.write_text(json.dumps(known, indent=1), encoding="utf-8")

    def always(self) -> str:
        """A digest of what every page depends on, and of the code of this one."""
        names = sorted(str(p.relative_to(self.source)) for p in self.source.rglob("*") if "__pycache__" not in p.parts)
        code = [b for b in blocks(self.page.read_text(encoding="utf-8")) if b.language in RUN]
        facts = [sys.version, names, [(b.language, b.lines, b.why_not()) for b in code], digests_of(EVERY_PAGE)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def source_of(path: Path) -> Path:
    """The source file behind a compiled one; any other file is its own source."""
    if path.suffix != ".pyc" and path.parent.name != "__pycache__":
        return path
    # x.cpython-311.pyc; while it is written, x.cpython-311.pyc.140213; of pytest, x.cpython-311-pytest-9.2.0.pyc
    return path.parent.parent / f"{path.name.partition('.')[0]}.py"


def digest_of(path: Path) -> str | None:
    """The SHA-256 of a file; None where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def digests_of(paths: Iterable[Path]) -> list[str | None]:
    """The SHA-256 of several files, in their order."""
    return [digest_of(p) for p in paths]
